"""What rules of one script have in common."""

import re


def family_of(rule: str) -> str:
    """split_corpus of split_corpus_mono and split_corpus_bitext: the script of rules that differ in what they make."""
    return re.sub(r"_(mono|bitext|run|vocabulary|translator|formats)$", "", rule)
