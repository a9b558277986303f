"""Between which numbers each threshold of config/cleaning.yaml lies. Standard library only: the plan reads it too."""

from __future__ import annotations

from typing import Any

from common.errors import UserError

LARGEST = 10**9
SMALL = 1e-9  # for what is divided by, or has a logarithm

BOUNDS: dict[str, tuple[float, float]] = {
    # language_id
    "lines_per_language": (1, LARGEST),
    "characters_per_line": (1, LARGEST),
    "dimension": (1, 10_000),
    "buckets": (1, 10**8),
    "shortest_ngram": (1, 100),
    "longest_ngram": (1, 100),
    "epochs": (1, 10_000),
    "learning_rate": (SMALL, 100),
    "candidates": (1, 10_000),
    # duplicates; a signature has bands * rows values
    "shingle_words": (1, 100),
    "shingle_characters": (1, 100),
    "bands": (1, 1000),
    "rows": (1, 1000),
    "similarity": (0, 1),
    # decontamination
    "window_words": (1, LARGEST),
    # pair_model
    "pairs": (1, LARGEST),
    "links": (1, LARGEST),
    "words_per_side": (1, LARGEST),
    "iterations": (1, 10_000),
    "unigram_weight": (SMALL, 1),
    # lines and pairs: longest of 0 would leave nothing
    "longest_characters": (1, LARGEST),
    "longest_words": (1, LARGEST),
    "longest_word": (1, LARGEST),
    "symbol_share": (0, 1),
    "number_share": (0, 1),
    "script_share": (0, 1),
    "distinct_share": (0, 1),
    "own_language": (0, 1),
    "length_ratio": (1, LARGEST),
}


def check_bounds(where: str, name: str, value: Any) -> None:
    """An error unless a number is one that this threshold may have."""
    lowest, highest = BOUNDS.get(name, (0, LARGEST))
    if not lowest <= value <= highest:
        raise UserError(f"{where}: {value} is not between {lowest:,} and {highest:,}; correct it")
