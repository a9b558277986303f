"""Sentence pairs and their labels: what XNLI and PAWS-X share."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from tasks.files import fingerprint, read_lines, write_lines


class Pair(NamedTuple):
    premise: str
    hypothesis: str
    label: str


def inputs_of(pairs: Sequence[Pair]) -> str:
    return fingerprint([[pair.premise, pair.hypothesis] for pair in pairs])


def gold_of(pairs: Sequence[Pair]) -> list[str]:
    return [pair.label for pair in pairs]


def parse_labels(lines: Sequence[str], path: str | Path, labels: Sequence[str]) -> list[str]:
    """XTREME's format: one label per line, in the order of the rows."""
    for number, label in enumerate(lines, start=1):
        if label not in labels:
            raise UserError(f"{path}, line {number}: unknown label {label!r}; use {', '.join(labels)}")
    return list(lines)


def read_label_predictions(path: str | Path, gold: Sequence[str], labels: Sequence[str]) -> list[str]:
    predictions = parse_labels(read_lines(path), path, labels)
    if len(predictions) != len(gold):
        raise UserError(
            f"{path}: {len(predictions)} predictions for {len(gold)} gold rows; "
            "they are for another split or language, or cut short"
        )
    return predictions


def write_predictions(path: str | Path, labels: Sequence[str]) -> None:
    write_lines(path, labels)
