"""Word alignments: error rate against sure and possible links, with counts summed over the test set.

AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); P contains S.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.metrics import Share

Link = tuple[int, int]  # word of the source, word of the target, from 0


@dataclass(frozen=True)
class Alignment:
    """Gold links of one sentence pair, and how many words its sides have."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones among them
    words: tuple[int, int]


Measure = Callable[[Sequence[Alignment], Sequence[frozenset[Link]]], float]


def counts(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> tuple[int, int, int, int]:
    """|A|, |S|, |A & S|, |A & P| over all pairs."""
    return tuple(map(sum, zip(*counts_of_pairs(gold, found), strict=True)))


def counts_of_pairs(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> list[tuple[int, int, int, int]]:
    if not gold or len(gold) != len(found):
        raise ValueError(f"{len(found)} alignments for {len(gold)} sentence pairs")
    return [
        (len(links), len(own.sure), len(links & own.sure), len(links & own.possible))
        for own, links in zip(gold, found, strict=True)
    ]


def error_rate(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> float:
    links, sure, of_sure, of_possible = counts(gold, found)
    return 100 * (1 - (of_sure + of_possible) / (links + sure))


def agreement_shares(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> list[Share]:
    """Of 100 - the error rate."""
    return [(of_sure + of_possible, links + sure) for links, sure, of_sure, of_possible in counts_of_pairs(gold, found)]


def precision(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> float:
    links, _, _, of_possible = counts(gold, found)
    return 100 * of_possible / links if links else 0.0


def recall(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> float:
    _, sure, of_sure, _ = counts(gold, found)
    return 100 * of_sure / sure


def diagonal(gold: Sequence[Alignment]) -> list[frozenset[Link]]:
    return [frozenset((i, i) for i in range(min(own.words))) for own in gold]


def diagonal_chance(measure: Measure, gold: Sequence[Alignment]) -> float:
    """Word i with word i: what is reached without reading a word."""
    return measure(gold, diagonal(gold))
