"""Word links out of the states of a model, by optimal transport (XLM-Align).

S = H_source H_target^T; twice xi = pi / column sums, pi = xi / row sums, from pi = S on; a link where j is the best of
row i of pi, and i the best of column j of xi.

Shapes: X pieces of the source, Y of the target.
"""

from collections.abc import Sequence

import numpy as np

from engine.alignments import Link

LEAST = 1e-6  # what is put in the place of a similarity that is not positive


def transport(similarity_XY: np.ndarray, iterations: int = 2, clamp: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(pi, xi). Negative entries stay unless they are clamped: the released clamp fills a copy and does nothing."""
    pi_XY = xi_XY = np.asarray(similarity_XY, dtype=np.float64)
    if clamp:
        pi_XY = xi_XY = np.where(pi_XY > 0, pi_XY, LEAST)
    for _ in range(iterations):
        xi_XY = pi_XY / pi_XY.sum(0, keepdims=True)
        pi_XY = xi_XY / xi_XY.sum(1, keepdims=True)
    return pi_XY, xi_XY


def transport_links(similarity_XY: np.ndarray, iterations: int = 2, clamp: bool = False) -> frozenset[Link]:
    if not similarity_XY.size:  # an empty sentence
        return frozenset()
    pi_XY, xi_XY = transport(similarity_XY, iterations, clamp)
    best_of_row, best_of_column = pi_XY.argmax(1), xi_XY.argmax(0)
    return frozenset((i, int(j)) for i, j in enumerate(best_of_row) if best_of_column[j] == i)


def word_links(links: frozenset[Link], words_X: Sequence[int], words_Y: Sequence[int]) -> frozenset[Link]:
    """Of links between pieces: two words are linked if any of their pieces are. words_X: the word of each piece."""
    return frozenset((words_X[i], words_Y[j]) for i, j in links)
