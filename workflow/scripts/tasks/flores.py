"""FLORES-101: 1,012 sentences of Wikimedia projects in 101 languages, line by line (Goyal et al. 2022), searched as
Tatoeba is: a prediction is the number of the nearest line on the other side."""

from collections.abc import Sequence
from pathlib import Path

from tasks.files import read_lines
from tasks.tatoeba import (
    METRICS,
    gold_of,
    inputs_of,
    read_layer_predictions,
    read_predictions,
    read_test,
    write_layer_predictions,
    write_predictions,
)

__all__ = [
    "METRICS",
    "gold_of",
    "inputs_of",
    "read_layer_predictions",
    "read_predictions",
    "read_test",
    "write_layer_predictions",
    "write_predictions",
]


def read_gold(path: str | Path, language: str) -> Sequence[int]:
    """Of a file of sentences: line i belongs to line i of the other language."""
    return range(len(read_lines(path)))
