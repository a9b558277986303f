"""Tagged sentences: what UD-POS and the entity tasks share."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from tasks.files import fingerprint, read_lines, write_lines


class Sentence(NamedTuple):
    tokens: tuple[str, ...]
    tags: tuple[str, ...]


def inputs_of(sentences: Sequence[Sentence]) -> str:
    return fingerprint([sentence.tokens for sentence in sentences])


def gold_of(sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    return [sentence.tags for sentence in sentences]


def parse_tags(lines: Sequence[str], path: str | Path, labels: Sequence[str]) -> list[tuple[str, ...]]:
    """XTREME's format: one tag per line, a blank line between sentences."""
    sentences: list[tuple[str, ...]] = []
    tags: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip():
            if tags:
                sentences.append(tuple(tags))
            tags = []
            continue
        if line not in labels:
            raise UserError(f"{path}, line {number}: unknown label {line!r}; use {', '.join(labels)}")
        tags.append(line)
    return sentences


def read_tag_predictions(
    path: str | Path, gold: Sequence[Sequence[str]], labels: Sequence[str]
) -> list[tuple[str, ...]]:
    """Tags in XTREME's format, exactly as many per sentence as the gold has."""
    predictions = parse_tags(read_lines(path), path, labels)
    line = 1
    for index, (expected, found) in enumerate(zip(gold, predictions, strict=False), start=1):
        if len(expected) != len(found):
            raise UserError(
                f"{path}, line {line}, sentence {index}: {len(found)} tags for {len(expected)} gold tokens; "
                "the predictions are for another split or another tokenization"
            )
        line += len(found) + 1
    if len(gold) != len(predictions):
        raise UserError(
            f"{path}: {len(predictions)} tagged sentences for {len(gold)} gold sentences; "
            "they are for another split or language, or cut short"
        )
    return predictions


def write_predictions(path: str | Path, sentences: Sequence[Sequence[str]]) -> None:
    lines: list[str] = []
    for tags in sentences:
        lines.extend(tags)
        lines.append("")
    write_lines(path, lines)
