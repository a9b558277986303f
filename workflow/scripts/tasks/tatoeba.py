"""Tatoeba: up to 1,000 sentences of a language and their English translations, line by line (LASER's files).

A prediction is the line number, counted from 0, of the nearest sentence on the other side; gold is the own line number.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, accuracy, answer_shares
from tasks.files import check_count, fingerprint, read_lines, write_lines

METRICS = {"accuracy": Metric(accuracy, "one-of-n", answer_shares)}
DIRECTIONS = ("en-xx", "xx-en")
NUMBER = re.compile("[0-9]{1,9}")


def read_test(
    paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]
) -> dict[str, tuple[list[str], list[str]]]:
    """(foreign sentences, English sentences) of each language."""
    pairs = {}
    for language in languages:
        foreign, english = paths[f"foreign-{language}"], paths[f"english-{language}"]
        pairs[language] = read_pair(foreign, english)
        check_count(len(pairs[language][0]), counts.get(language), str(foreign))
    return pairs


def read_pair(foreign_path: str | Path, english_path: str | Path) -> tuple[list[str], list[str]]:
    sides = []
    for path in (foreign_path, english_path):
        lines = read_lines(path)
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                raise UserError(f"{path}, line {number}: an empty sentence")
        sides.append(lines)
    foreign, english = sides
    if len(foreign) != len(english):
        raise UserError(
            f"{foreign_path}: {len(foreign)} lines, but {english_path} has {len(english)}; "
            "the two sides are aligned line by line, download both again"
        )
    return foreign, english


def inputs_of(pair: tuple[Sequence[str], Sequence[str]]) -> str:
    return fingerprint([list(pair[0]), list(pair[1])])


def gold_of(pair: tuple[Sequence[str], Sequence[str]]) -> list[int]:
    return list(range(len(pair[0])))


def read_gold(path: str | Path, language: str) -> list[int]:
    """From a side of LASER's files (tatoeba.xxx-eng.yyy: line i belongs to line i), or a file of line numbers."""
    lines = read_lines(path)
    if re.fullmatch(r"tatoeba\.\w+-eng\.\w+", Path(path).name):
        return list(range(len(lines)))
    return _numbers(lines, path)


def read_predictions(path: str | Path, gold: Sequence[int]) -> list[int]:
    """XTREME's format: per English line, the number of the nearest foreign line, counted from 0."""
    numbers = _numbers(read_lines(path), path)
    _check_length(path, numbers, gold)
    return numbers


def read_layer_predictions(path: str | Path, gold: Sequence[int]) -> dict[tuple[str, int], list[int]]:
    """Nearest line numbers by (direction, layer); layer 0 is the embedding output."""
    lines = read_lines(path)
    columns = []
    for name in lines[0].split("\t"):
        direction, _, layer = name.partition(".")
        if direction not in DIRECTIONS or not NUMBER.fullmatch(layer):
            raise UserError(f"{path}, line 1: column {name!r} is not <en-xx or xx-en>.<layer>")
        columns.append((direction, int(layer)))
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(columns) or not all(map(NUMBER.fullmatch, cells)):
            raise UserError(f"{path}, line {number}: {len(columns)} line numbers expected")
        rows.append([int(cell) for cell in cells])
    _check_length(path, rows, gold)
    _check_within(path, rows, gold)
    return {column: [row[i] for row in rows] for i, column in enumerate(columns)}


def write_predictions(path: str | Path, numbers: Sequence[int]) -> None:
    write_lines(path, map(str, numbers))


def write_layer_predictions(path: str | Path, nearest: dict[tuple[str, int], Sequence[int]]) -> None:
    columns = sorted(nearest)
    rows = zip(*(nearest[column] for column in columns), strict=True)
    header = "\t".join(f"{direction}.{layer}" for direction, layer in columns)
    write_lines(path, [header, *("\t".join(map(str, row)) for row in rows)])


def _check_length(path: str | Path, rows: Sequence, gold: Sequence[int]) -> None:
    if len(rows) != len(gold):
        raise UserError(
            f"{path}: {len(rows)} predictions for {len(gold)} gold lines; they are for another language, or cut short"
        )


def _check_within(path: str | Path, rows: Sequence[Sequence[int]], gold: Sequence[int]) -> None:
    lines = max(len(gold), max(gold) + 1)  # a file of line numbers may be of a part of them
    for line, row in enumerate(rows, start=2):
        if max(row) >= lines:
            raise UserError(f"{path}, line {line}: {max(row)} is beyond the other side's {lines} lines, counted from 0")


def _numbers(lines: Sequence[str], path: str | Path) -> list[int]:
    for number, line in enumerate(lines, start=1):
        if not NUMBER.fullmatch(line):
            raise UserError(f"{path}, line {number}: {line!r} is not a line number; write one per line, counted from 0")
    return [int(line) for line in lines]
