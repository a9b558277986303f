"""Clean one shard of monolingual text: keep good lines in their documents, count and list the others by reason."""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from common.errors import run_main
from corpus.characters import CharacterClasses, Characters, characters_of, normalise_lines
from corpus.cleaning import (
    Duplicates,
    Verdicts,
    add_input_arguments,
    add_output_arguments,
    count_kept,
    load_eval_index,
    load_near_index,
    open_language,
    spread_over_documents,
    write_counts,
    write_rejects,
)
from corpus.corpusio import Batch, MonoThresholds, load_thresholds, read_batches, read_header, zst_writer
from corpus.duplicates import EXACT, SKELETON
from corpus.language_id import LanguageId, wrong_language
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles
from corpus.textfilters import (
    is_broken,
    is_empty,
    long_word,
    repetitive,
    too_long,
    too_many_numbers,
    too_many_symbols,
    too_short,
    wrong_script,
)
from corpus.words import words_of


@dataclass(frozen=True)
class Rules:
    """What a line is held against: thresholds, and what they ask about."""

    limits: MonoThresholds
    classes: CharacterClasses
    language_id: LanguageId | None
    label: str
    index: EvalIndex
    near: NearIndex | None = None


def judge(
    batch: Batch, texts: list[str], codes: np.ndarray, duplicates: Duplicates, rules: Rules
) -> tuple[Verdicts, Characters]:
    limits, language_id, label = rules.limits, rules.language_id, rules.label
    words, characters = words_of(texts, codes), characters_of(texts, rules.classes, codes)
    repeats = duplicates.reasons(np.array(batch.places, np.uint64))
    verdicts = Verdicts(len(texts))
    verdicts.reject("empty", is_empty(characters))
    verdicts.reject("broken-encoding", is_broken(characters))
    verdicts.reject("symbols", too_many_symbols(characters, limits.symbol_share))
    verdicts.reject("numbers", too_many_numbers(words, limits.number_share))
    verdicts.reject("too-short", too_short(characters, words, limits.shortest_characters, limits.shortest_words))
    verdicts.reject("too-long", too_long(characters, words, limits.longest_characters, limits.longest_words))
    verdicts.reject("long-word", long_word(words, limits.longest_word))
    verdicts.reject("repetitive", repetitive(words, limits.distinct_share, limits.distinct_words))
    verdicts.reject("script", wrong_script(characters, limits.script_share))
    verdicts.reject("near-duplicate", spread_over_documents(repeats, np.array(batch.starts, np.int64)))
    verdicts.reject("duplicate", (repeats & EXACT) != 0)
    verdicts.reject("skeleton-duplicate", (repeats & SKELETON) != 0)
    verdicts.reject("test-sentence", leaked(words, rules.index))
    verdicts.reject("near-test-sentence", resembles(words, rules.near))
    if language_id is not None:
        verdicts.reject("language", wrong_language(texts, verdicts.open, language_id, label, limits.own_language))
    return verdicts, characters


def documents_of(batch: Batch, texts: list[str], kept: np.ndarray) -> Iterator[list[str]]:
    """Kept lines by document."""
    bounds = [*batch.starts, len(texts)]
    whole = np.logical_and.reduceat(kept, bounds[:-1]).tolist()
    keep = kept.tolist()
    for (begin, end), all_kept in zip(pairwise(bounds), whole, strict=True):
        yield texts[begin:end] if all_kept else [texts[i] for i in range(begin, end) if keep[i]]


def clean_shard(shard: Path, duplicates: Path, rules: Rules, out: Path, rejects: Path) -> tuple[Counter, Counter]:
    """Write the clean text and the list of rejects; return what went in and out, and the rejects by reason."""
    repeats = Duplicates(duplicates)
    files = read_header(shard).files
    rejected: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with zst_writer(out) as text, zst_writer(rejects) as listed:
        for batch in read_batches(shard, "mono"):
            texts, codes = normalise_lines(batch.texts)
            verdicts, characters = judge(batch, texts, codes, repeats, rules)
            rejected.update(write_rejects(listed, files, batch.places, verdicts))
            for lines in documents_of(batch, texts, verdicts.open):
                if lines:
                    text.write("\n".join(lines) + "\n\n")
                    counts["documents"] += 1
            counts["documents_in"] += len(batch.starts)
            counts["sentences_in"] += len(texts)
            counts["sentences"] += int(verdicts.open.sum())
            count_kept(counts, characters, verdicts.open)
    return counts, rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_input_arguments(parser, "mono")
    parser.add_argument("--language", required=True, help="project code, a row of the table of languages")
    add_output_arguments(parser, "clean text, .txt.zst, empty line between documents")
    args = parser.parse_args()
    limits = load_thresholds(args.config, "mono", args.overrides)
    language = open_language(args, args.language)
    near = load_near_index(args.eval_signatures, args.config, args.overrides)
    rules = Rules(limits, *language, load_eval_index(args.eval_index), near)
    counts, rejected = clean_shard(args.shard, args.duplicates, rules, args.out, args.rejects)
    cleaned = {"kind": "mono", "language": args.language, "language_id": language.identified_as()}
    write_counts(args.counts, cleaned, counts, rejected)
    kept = f"{counts['sentences']} of {counts['sentences_in']} lines kept"
    print(f"{kept}; rejected: {dict(sorted(rejected.items()))}")


if __name__ == "__main__":
    run_main(main)
