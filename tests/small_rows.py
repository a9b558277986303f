"""Rows laid by hand, for tests that want to know every token."""

from collections.abc import Sequence

import numpy as np

from engine.data import FIRST_POSITION, Rows
from engine.randomness import mix
from engine.tokenizer import BOS, EOS, PAD

Part = tuple[Sequence[int], int, bool]  # tokens, side, positions begin anew


def apart(a: Sequence[int], b: Sequence[int]) -> list[Part]:
    """<s> a </s> <s> b </s>"""
    return [([BOS, *a, EOS], 0, True), ([BOS, *b, EOS], 1, True)]


def pair(a: Sequence[int], b: Sequence[int]) -> list[Part]:
    """<s> a </s> b </s>"""
    return [([BOS, *a, EOS], 0, True), ([*b, EOS], 1, False)]


def lay(rows: Sequence[Sequence[list[Part]]], row_length: int, languages: tuple[int, int] = (0, 1)) -> Rows:
    """Each row is a list of items; keys are numbered by the tokens of the item, so that place does not matter."""
    shape = (len(rows), row_length)
    laid = Rows(
        tokens=np.full(shape, PAD, np.int64),
        document=np.full(shape, -1, np.int64),
        side=np.zeros(shape, np.int8),
        position=np.full(shape, PAD, np.int64),
        language=np.zeros(shape, np.int16),
        key=np.zeros(shape, np.uint64),
        offset=np.zeros(shape, np.int64),
    )
    for r, items in enumerate(rows):
        at = 0
        for number, item in enumerate(items):
            begin, position = at, FIRST_POSITION
            content = [token for tokens, _, _ in item for token in tokens]
            key = mix(np.array([hash(tuple(content)) & (2**63 - 1)], np.uint64))[0]
            for tokens, side, anew in item:
                position = FIRST_POSITION if anew else position
                place = slice(at, at + len(tokens))
                laid.tokens[r, place], laid.side[r, place], laid.language[r, place] = tokens, side, languages[side]
                laid.position[r, place] = np.arange(position, position + len(tokens))
                position, at = position + len(tokens), at + len(tokens)
            laid.document[r, begin:at], laid.key[r, begin:at] = number, key
            laid.offset[r, begin:at] = np.arange(at - begin)
    return laid


def random_pairs(n: int, vocabulary: int, seed: int = 0, longest: int = 5) -> list[tuple[list[int], list[int]]]:
    rng = np.random.default_rng(seed)
    sides = [rng.integers(4, vocabulary - 1, rng.integers(2, longest + 1)).tolist() for _ in range(2 * n)]
    return list(zip(sides[::2], sides[1::2], strict=True))
