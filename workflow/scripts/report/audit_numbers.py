"""Printed numbers as what they stand for: every value that rounds to them.

`82.4` is any value from 82.35 to 82.45. Sums, means and ratios of such numbers are ranges too, and a recomputed number
contradicts a printed one only where the two ranges have nothing in common.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path

from common.errors import UserError

UNITS = {"": 1, "%": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?([kKMG%]?)")
TIDY = ("setting", "model", "task", "language", "metric", "value", "note")  # one number a line
STATES = ("layer", "epoch")  # at which a tidy table may have a number
HYPERPARAMETER = "hyperparameter"  # the first column of tables of settings, whose other columns may have any name


@dataclass(frozen=True)
class Number:
    """A value, and the range that the rounding of what it comes from leaves it."""

    value: Fraction
    low: Fraction
    high: Fraction

    @cached_property
    def near(self) -> float:
        return float(self.value)

    def __add__(self, other: "Number") -> "Number":
        return Number(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Number") -> "Number":
        return Number(self.value - other.value, self.low - other.high, self.high - other.low)

    def times(self, factor: int | Fraction) -> "Number":
        """`factor` is not negative."""
        return Number(self.value * factor, self.low * factor, self.high * factor)

    def __mul__(self, other: "Number") -> "Number":
        """Of numbers that are not negative, as counts are."""
        return Number(self.value * other.value, self.low * other.low, self.high * other.high)

    def __truediv__(self, other: "Number") -> "Number":
        return Number(self.value / other.value, self.low / other.high, self.high / other.low)

    def give(self, share: Fraction) -> "Number":
        """The same with `share` of the value more room on both sides."""
        return Number(self.value, self.low - share * self.value, self.high + share * self.value)

    def agrees(self, other: "Number") -> bool:
        return self.low <= other.high and other.low <= self.high


def exactly(value: int | Fraction) -> Number:
    return Number(Fraction(value), Fraction(value), Fraction(value))


def mean(numbers: Iterable[Number]) -> Number:
    numbers = list(numbers)
    return total(numbers).times(Fraction(1, len(numbers)))


def total(numbers: Iterable[Number]) -> Number:
    return sum(numbers, exactly(0))


def parse(text: str, where: str, decimals: int | None = None) -> Number:
    """What a printed number stands for: `58.9M`, `9.6e21`, `17.8`. `decimals`: as if so many were printed."""
    number = stands_for(text, decimals)
    if number is None:
        raise UserError(f"{where}: {text!r} is not a number; mend the digits")
    return number


@cache
def stands_for(text: str, decimals: int | None) -> Number | None:
    match = NUMBER.fullmatch(text)
    if not match:
        return None
    sign, whole, fraction, exponent, unit = match.groups()
    scale = Fraction(10) ** int(exponent or 0) * UNITS[unit]
    value = Fraction(f"{sign}{whole}.{fraction or 0}") * scale
    half = scale / 10 ** (len(fraction or "") if decimals is None else decimals) / 2
    return Number(value, value - half, value + half)


def decimals_of(text: str) -> int:
    return len(text.partition(".")[2])


def shown(number: Number | Fraction, decimals: int, strip: bool = False) -> str:
    """To so many decimals, halves away from zero as people round; `strip`: without zeros at the end."""
    value = number.value if isinstance(number, Number) else number
    units = (abs(value) * 10**decimals + Fraction(1, 2)).__floor__()
    text = f"{units // 10**decimals}" + (f".{units % 10**decimals:0{decimals}d}" if decimals else "")
    if strip and "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 and units else text


# --- the files of config/published ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of a file of published numbers."""

    item: str  # <paper>/<item>
    fields: dict[str, str]
    where: str  # file and line

    def number(self, column: str) -> Number:
        return parse(self.fields[column], f"{self.where}, column {column!r}")


@dataclass
class Row:
    """One printed row: a system in one setting on one task by one metric. Languages stand in the printed order."""

    item: str
    setting: str
    model: str
    task: str
    metric: str
    note: str
    state: tuple[str, ...]  # layer, epoch
    texts: dict[str, str] = field(default_factory=dict)  # language, or avg -> as printed
    numbers: dict[str, Number] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        return self.item.partition("/")[0]

    @property
    def languages(self) -> list[str]:
        return [code for code in self.texts if code not in ("avg", "")]

    @property
    def cells(self) -> list[Number]:
        return [self.numbers[code] for code in self.languages]

    @property
    def label(self) -> str:
        return " / ".join(part for part in (self.setting, self.model) if part)


def read_lines(path: Path, plain: dict[str, dict]) -> list[Line]:
    """The lines of one file. `plain`: the columns of the files that are neither tidy nor of hyper-parameters: item ->
    {numbers: columns, words: columns}."""
    item = f"{path.parent.name}/{path.stem}"
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        numeric = check_header(path, item, header, plain)
        lines = []
        for values in reader:
            where = f"{path}, line {reader.line_num}"
            if len(values) != len(header):
                raise UserError(f"{where}: {len(values)} fields, the header has {len(header)}; quote what has a comma")
            line = Line(item, dict(zip(header, values, strict=True)), where)
            for column in numeric:
                if line.fields[column]:
                    line.number(column)
            lines.append(line)
    return lines


def check_header(path: Path, item: str, header: list[str], plain: dict[str, dict]) -> list[str]:
    """The columns that hold numbers; a column that nobody has described is an error."""
    if header and header[0] == HYPERPARAMETER:
        return []
    if item in plain:
        known, numeric = plain[item]["words"] + plain[item]["numbers"], plain[item]["numbers"]
    else:
        known, numeric = [*TIDY, *STATES], ["value"]
    for column in header:
        if column not in known:
            raise UserError(f"{path}, line 1: unknown column {column!r}; known: {', '.join(known)}")
    for column in known:
        if column not in header and column not in STATES:
            raise UserError(f"{path}, line 1: column {column!r} is missing")
    return numeric


def rows_of(lines: Iterable[Line]) -> list[Row]:
    """The lines of tidy files as rows."""
    rows: dict[tuple, Row] = {}
    for line in lines:
        if "value" not in line.fields or "metric" not in line.fields or not line.fields["value"]:
            continue
        key = [line.fields[column] for column in ("setting", "model", "task", "metric", "note")]
        state = tuple(line.fields.get(column, "") for column in STATES)
        row = rows.setdefault((line.item, *key, state), Row(line.item, *key, state))
        code = line.fields["language"]
        if code in row.texts:
            raise UserError(f"{line.where}: {row.label}, {row.task} {row.metric} {code!r} stands twice; remove one")
        row.texts[code] = line.fields["value"]
        row.numbers[code] = line.number("value")
    for row in rows.values():
        keep_dropped_zeros(row)
    return list(rows.values())


def keep_dropped_zeros(row: Row) -> None:
    """`82` among cells of one decimal is 82.0, and as precise as they."""
    printed = {decimals_of(text) for text in row.texts.values() if "e" not in text and text[-1:].isdigit()}
    if 0 in printed and len(printed) > 1:
        for code, text in row.texts.items():
            if text.isdigit():
                row.numbers[code] = parse(text, row.item, decimals=min(printed - {0}))


def select(lines: Iterable[Line], wanted: dict[str, str], where: str) -> list[Line]:
    """The lines that have these values; `note` need only contain its value."""

    def fits(line: Line) -> bool:
        return all(
            value in line.fields.get(column, "") if column == "note" else line.fields.get(column) == value
            for column, value in wanted.items()
        )

    found = [line for line in lines if fits(line)]
    if not found:
        words = ", ".join(f"{column} {value!r}" for column, value in wanted.items())
        raise UserError(f"{where}: no line has {words}; mend it")
    return found
