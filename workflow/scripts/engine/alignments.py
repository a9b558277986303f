"""Word alignments: links out of the states of a model, and their error rate against sure and possible links.

Links, by optimal transport (XLM-Align): S = H_source H_target^T; twice xi = pi / column sums, pi = xi / row sums, from
pi = S on; a link where j is the best of row i of pi, and i the best of column j of xi.

AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), with counts summed over the test set; P contains S.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Link = tuple[int, int]  # word of the source, word of the target, from 0


@dataclass(frozen=True)
class Alignment:
    """Gold links of one sentence pair, and how many words its sides have."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones among them
    words: tuple[int, int]


Measure = Callable[[Sequence[Alignment], Sequence[frozenset[Link]]], float]


def transport(similarity_XY: np.ndarray, iterations: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """(pi, xi). Negative entries stay: the released clamp fills a copy and does nothing."""
    pi_XY = xi_XY = np.asarray(similarity_XY, dtype=np.float64)
    for _ in range(iterations):
        xi_XY = pi_XY / pi_XY.sum(0, keepdims=True)
        pi_XY = xi_XY / xi_XY.sum(1, keepdims=True)
    return pi_XY, xi_XY


def transport_links(similarity_XY: np.ndarray, iterations: int = 2) -> frozenset[Link]:
    pi_XY, xi_XY = transport(similarity_XY, iterations)
    best_of_row, best_of_column = pi_XY.argmax(1), xi_XY.argmax(0)
    return frozenset((i, int(j)) for i, j in enumerate(best_of_row) if best_of_column[j] == i)


def word_links(links: frozenset[Link], words_X: Sequence[int], words_Y: Sequence[int]) -> frozenset[Link]:
    """Of links between pieces: two words are linked if any of their pieces are. words_X: the word of each piece."""
    return frozenset((words_X[i], words_Y[j]) for i, j in links)


def counts(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> tuple[int, int, int, int]:
    """|A|, |S|, |A & S|, |A & P| over all pairs."""
    if not gold or len(gold) != len(found):
        raise ValueError(f"{len(found)} alignments for {len(gold)} sentence pairs")
    rows = [
        (len(links), len(own.sure), len(links & own.sure), len(links & own.possible))
        for own, links in zip(gold, found, strict=True)
    ]
    return tuple(map(sum, zip(*rows, strict=True)))


def error_rate(gold: Sequence[Alignment], found: Sequence[frozenset[Link]]) -> float:
    links, sure, of_sure, of_possible = counts(gold, found)
    return 100 * (1 - (of_sure + of_possible) / (links + sure))


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
