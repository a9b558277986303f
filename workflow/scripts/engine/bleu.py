"""BLEU and chrF of a corpus of translations, in percent.

Two BLEUs, because papers print two: sacreBLEU's, of detokenised text against the official reference, and that of Moses'
multi-bleu.perl, of tokenised text without case. Packages are imported where they are used: scoring starts at once.
"""

import re
import string
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

# Of tokenised BLEU, for signatures: sacremoses follows the script as it was before November 2018, when Moses began to
# cut the full stop from the last word of every line, also from an abbreviation.
TOKENISED = "bleu=multi-bleu.perl/lc/tokenizer.perl.before.2018-11"
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def sacrebleu(gold: Sequence[str], found: Sequence[str]) -> float:
    """sacreBLEU with its defaults: mixed case, its tokenizer 13a, exponential smoothing."""
    from sacrebleu import BLEU

    return corpus_score(BLEU(), gold, found)


def chrf(gold: Sequence[str], found: Sequence[str]) -> float:
    """chrF2, with sacreBLEU's defaults."""
    from sacrebleu import CHRF

    return corpus_score(CHRF(), gold, found)


def tokenised_bleu(gold: Sequence[str], found: Sequence[str], language: str) -> float:
    """`multi-bleu.perl -lc` of both sides as Moses tokenises them: 0 where no n-gram of an order matches.

    The script reads bytes: its -lc lowers A to Z and leaves Ä.
    """
    from sacrebleu import BLEU

    tokenise = moses(language)
    own, other = ([tokenise(line).translate(LOWER) for line in lines] for lines in (gold, found))
    return corpus_score(BLEU(tokenize="none", smooth_method="none", force=True), own, other)


def corpus_score(metric: "Metric", gold: Sequence[str], found: Sequence[str]) -> float:
    if not gold or len(gold) != len(found):
        raise ValueError(f"{len(found)} translations for {len(gold)} references")
    return min(100.0, metric.corpus_score(list(found), [list(gold)]).score)  # exp of a mean of logarithms rounds


@cache
def moses(language: str) -> Callable[[str], str]:
    """normalize-punctuation.perl, then tokenizer.perl -a, of one line.

    The first sees the line's end, and so moves a last full stop out of its quotes.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language, perl_parity=True), MosesTokenizer(language)
    listed = frozenset(tokenizer.IsAlnum)

    def in_words(character: str) -> bool:
        """Perl's IsAlnum. The list of sacremoses lacks Chinese and other letters: words would be cut into them."""
        return character in listed or character.isalpha() or character.isdecimal()

    tokenizer.PAD_NOT_ISALNUM = (
        tokenizer.PAD_NOT_ISALNUM[0],
        lambda found: found[0] if in_words(found[0]) else f" {found[0]} ",
    )
    tokenizer.AGGRESSIVE_HYPHEN_SPLIT = (
        re.compile(r"(?s)(.)-(?=(.))"),
        lambda found: f"{found[1]} @-@ " if in_words(found[1]) and in_words(found[2]) else found[0],
    )

    def tokenise(line: str) -> str:
        return tokenizer.tokenize(normalizer.normalize(f"{line}\n"), aggressive_dash_splits=True, return_str=True)

    return tokenise


def signature() -> str:
    """How sacreBLEU itself describes `sacrebleu`, without the test set."""
    from sacrebleu import BLEU

    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])  # else the number of references is unknown to it
    return metric.get_signature().format()
