"""Each metric once, as a function of gold and predictions, in percent; and what chance reaches on the same gold.

Those of question answering are in answers.py, of mined pairs in mining.py, of word alignments in alignments.py, of
translations in bleu.py.
"""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

Measure = Callable[[Sequence[Any], Sequence[Any]], float]  # of gold and predictions
# What one test item adds above and below the fraction line: a score is 100 x the one sum / the other.
Share = tuple[float, float]
Shares = Callable[[Sequence[Any], Sequence[Any]], list[Share]]  # of gold and predictions, one of each item


class Metric(NamedTuple):
    measure: Measure
    chance: str  # what is printed beside it, by the names of score.py
    shares: Shares | None = None  # of the headline metric: what is resampled to tell how certain a difference is


def ratio(shares: Sequence[Share]) -> float:
    above, below = (sum(column) for column in zip(*shares, strict=True))
    return 100 * above / below if above else 0.0


def accuracy(gold: Sequence[Hashable], predictions: Sequence[Hashable]) -> float:
    return ratio(answer_shares(gold, predictions))


def answer_shares(gold: Sequence[Hashable], predictions: Sequence[Hashable]) -> list[Share]:
    if not gold or len(gold) != len(predictions):
        raise ValueError(f"{len(predictions)} predictions for {len(gold)} gold labels")
    return [(g == p, 1) for g, p in zip(gold, predictions, strict=True)]


def tag_accuracy(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> float:
    return accuracy(flatten(gold), flatten(predictions))


def runs(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(tag, first, last) of every maximal run of equal tags; a tag that begins with S starts anew at each token.

    That is what seqeval <= 0.0.12 makes of tags without B- and I-: it takes SCONJ and SYM for the S- of IOBES.
    XTREME's published POS scores are F1 over these runs, so ours are too.
    """
    spans = set()
    first = 0
    for i, tag in enumerate(tags):
        if i + 1 == len(tags) or tags[i + 1] != tag or tag.startswith("S"):
            spans.add((tag, first, i))
            first = i + 1
    return spans


def spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, first, last) of the entities in B-, I- and O tags, as conlleval and seqeval's default find them.

    A span begins at B-, and at an I- that continues nothing of its type: what no scheme allows is read, not refused.
    """
    found = set()
    first, kind = 0, None
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, own = tag.partition("-")
        if kind is not None and (prefix != "I" or own != kind):
            found.add((kind, first, i - 1))
            kind = None
        if prefix != "O" and kind is None:
            first, kind = i, own
    return found


def run_f1(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> float:
    """Micro F1 over the runs of all sentences."""
    return ratio(run_shares(gold, predictions))


def span_f1(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> float:
    """Micro F1 over the entities of all sentences: type, first and last token must be right."""
    return ratio(span_shares(gold, predictions))


def run_shares(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> list[Share]:
    return f1_shares(gold, predictions, runs)


def span_shares(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> list[Share]:
    return f1_shares(gold, predictions, spans)


def f1_shares(
    gold: Sequence[Sequence[str]],
    predictions: Sequence[Sequence[str]],
    parts: Callable[[Sequence[str]], set[tuple[str, int, int]]],
) -> list[Share]:
    """Of each sentence twice what is right, and what is in gold plus what is predicted: F1 = 2 P R / (P + R)."""
    if not gold or len(gold) != len(predictions):
        raise ValueError(f"{len(predictions)} tagged sentences for {len(gold)} gold sentences")
    shares = []
    for gold_tags, tags in zip(gold, predictions, strict=True):
        if len(gold_tags) != len(tags):
            raise ValueError(f"{len(tags)} tags for {len(gold_tags)} tokens")
        gold_parts, found = parts(gold_tags), parts(tags)
        shares.append((2 * len(gold_parts & found), len(gold_parts) + len(found)))
    return shares


def flatten(gold: Sequence) -> list:
    """The single answers: tags of tagged sentences, and whatever is no list as it is."""
    return [tag for tags in gold for tag in tags] if isinstance(gold[0], list | tuple) else list(gold)


# ---------------------------------------------------------------------------------------------------------------------
# What is reached without knowing anything.


def majority(measure: Measure, gold: Sequence) -> float:
    """Always the most frequent gold label."""
    return 100 * max(Counter(flatten(gold)).values()) / len(flatten(gold))


def shuffled_tags(measure: Measure, gold: Sequence[Sequence[str]]) -> float:
    """The gold's own tags in a random order: right frequencies, no knowledge of the tokens."""
    tags = flatten(gold)
    random.Random("shuffled tags").shuffle(tags)
    rest = iter(tags)
    return measure(gold, [[next(rest) for _ in sentence] for sentence in gold])


def one_of_n(measure: Measure, gold: Sequence) -> float:
    return 100 / len(gold)


def nothing(measure: Measure, gold: Sequence) -> float:
    """Of millions of pairs one in a million is right, of translations none: 0 to any digit that is printed."""
    return 0.0
