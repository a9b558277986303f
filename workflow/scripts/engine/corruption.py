"""Which tokens are predicted, and what the encoder sees in their place."""

import numpy as np

from engine.config import MaskSpec, ObjectiveConfig
from engine.data import Rows
from engine.randomness import mix, stable_hash, uniform
from engine.tokenizer import FIRST_PIECE


def mask_tokens(rows: Rows, objective: ObjectiveConfig, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """BERT's masked rows: (tokens as seen, selected), each (R, T)."""
    selected = select(rows, objective.mask.rate, objective.draws_as, vocabulary)
    return corrupt(rows, selected, objective.mask, objective.draws_as, vocabulary), selected


def mask_tokens_per_side(rows: Rows, objective: ObjectiveConfig, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """As mask_tokens, for objectives that say their rate of each sentence: both sides of a pair get predictions."""
    selected = select(rows, objective.mask.rate, objective.draws_as, vocabulary, per_side=True)
    return corrupt(rows, selected, objective.mask, objective.draws_as, vocabulary), selected


def select(rows: Rows, rate: float, purpose: str, vocabulary: int, per_side: bool = False) -> np.ndarray:
    """(R, T) bool: in each document floor(rate * n + u) of its n ordinary tokens, at least one, without replacement.

    `per_side`: of each side of each document. Specials are never selected. The draw depends on the document and the
    purpose alone, so packing cannot change it.
    """
    R, T = rows.tokens.shape
    ordinary = (rows.tokens >= FIRST_PIECE) & (rows.tokens < vocabulary - 1) & (rows.document >= 0)
    flat = np.flatnonzero(ordinary)
    side = rows.side.ravel()[flat].astype(np.int64) if per_side else 0
    item = 2 * ((flat // T) * T + rows.document.ravel()[flat].astype(np.int64)) + side  # a number per document (side)
    key = rows.key.ravel()[flat] ^ np.uint64(stable_hash(purpose))
    draw = mix(key + mix(rows.offset.ravel()[flat].astype(np.uint64)))
    order = np.lexsort((draw, item))
    sorted_item = item[order]
    if not len(flat):
        return np.zeros((R, T), bool)
    first = np.flatnonzero(np.concatenate([[True], sorted_item[1:] != sorted_item[:-1]]))
    sizes = np.diff(np.append(first, len(flat)))
    rounding = key[order[first]] ^ np.uint64(stable_hash("stochastic rounding"))
    second = (sorted_item[first] % 2).astype(np.uint64)  # a side 1 of its own: the sides round independently
    u = uniform(rounding ^ (second * np.uint64(stable_hash("second side"))))
    wanted = np.maximum(1, np.floor(rate * sizes + u)).astype(np.int64)
    rank = np.arange(len(flat)) - np.repeat(first, sizes)
    chosen = order[rank < np.repeat(wanted, sizes)]
    selected = np.zeros(R * T, bool)
    selected[flat[chosen]] = True
    return selected.reshape(R, T)


def corrupt(rows: Rows, selected: np.ndarray, spec: MaskSpec, purpose: str, vocabulary: int) -> np.ndarray:
    """(R, T) tokens as the encoder sees them. Random replacements are ordinary pieces, never specials."""
    tokens = rows.tokens.copy()
    where = np.nonzero(selected)
    key = rows.key[where] + mix(rows.offset[where].astype(np.uint64)) + np.uint64(stable_hash(purpose, "what"))
    fate = uniform(key)
    pieces = vocabulary - 1 - FIRST_PIECE  # the last id is <mask>
    random_token = FIRST_PIECE + (mix(key ^ np.uint64(stable_hash("token"))) % np.uint64(pieces)).astype(np.int64)
    seen = np.where(
        fate < spec.mask, vocabulary - 1, np.where(fate < spec.mask + spec.random, random_token, tokens[where])
    )
    tokens[where] = seen
    return tokens
