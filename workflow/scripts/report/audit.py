"""The audit of published numbers: what it looks at, and what it finds."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import read_yaml
from plan.schemas import check_schema
from report.audit_numbers import Line, Number, Row, exactly, read_lines, rows_of

ERRATA = "config/published/errata.csv"
DATA = "config/audit.yaml"
COLUMNS = ("paper", "item", "row", "column", "printed", "recomputed", "kind", "explanation")
KINDS = ("average", "derived", "cross-paper", "text")
UNEXPLAINED = "unexplained"
AVERAGE = "avg"
FEWEST = 6  # languages, and systems to compare with, below which a row's order cannot be judged
BETTER = 0.1  # by how much the agreement with other systems must rise before a row is taken to be out of order


@dataclass(frozen=True)
class Finding:
    """A printed number that does not follow from others. `instead`: the same contradiction told of another number in
    it: an average that does not fit its cells may be right, and one of the cells wrong."""

    item: str
    row: str
    column: str
    printed: str
    recomputed: str
    kind: str
    explanation: str = UNEXPLAINED
    instead: tuple[tuple[str, str, str], ...] = ()  # column, printed, recomputed

    @property
    def key(self) -> tuple[str, str, str]:
        return self.item, self.row, self.column

    def retold(self) -> Iterator["Finding"]:
        yield self
        for column, printed, recomputed in self.instead:
            yield replace(self, column=column, printed=printed, recomputed=recomputed, instead=())


@dataclass(frozen=True)
class Misplaced:
    """A row whose numbers stand under the wrong columns."""

    row: Row
    order: tuple[str, ...]  # the columns that its numbers belong to, in the printed order of the numbers
    item: str  # which has that order
    source: bool  # and prints these very numbers in it
    before: float  # correlation with the other systems' rows, as printed
    after: float

    @property
    def corrected(self) -> Row:
        texts, numbers = list(self.row.texts.items()), self.row.numbers
        cells = [code for code, _ in texts if code in self.row.languages]
        place = dict(zip(self.order, cells, strict=True))  # language -> the one that its number is printed under
        return replace(
            self.row,
            texts={code: self.row.texts[place.get(code, code)] for code, _ in texts},
            numbers={code: numbers[place.get(code, code)] for code, _ in texts},
        )

    @property
    def changed(self) -> list[str]:
        return [code for code in self.row.languages if self.row.texts[code] != self.corrected.texts[code]]


@dataclass
class Audit:
    """What is read, and what has been found so far."""

    data: dict  # of config/audit.yaml
    lines: dict[str, list[Line]]  # item -> its lines
    rows: list[Row]
    findings: list[Finding] = field(default_factory=list)
    checked: Counter = field(default_factory=Counter)
    rounded: Counter = field(default_factory=Counter)  # those that agree only because of rounding
    misplaced: list[Misplaced] = field(default_factory=list)
    disputed: set[int] = field(default_factory=set)  # rows whose printed average does not fit their own cells
    outvoted: set[int] = field(default_factory=set)  # rows whose average another table of the paper contradicts
    open: list[tuple[str, str, str, str]] = field(default_factory=list)  # item, printed, nearest, why

    def count(self, check: str, printed: Number, recomputed: Number) -> bool:
        """Note that a number was checked; does it come out?"""
        self.checked[check] += 1
        if printed.agrees(recomputed) and not printed.agrees(exactly(recomputed.value)):
            self.rounded[check] += 1
        return printed.agrees(recomputed)

    def order(self, item: str) -> tuple:
        paper = item.partition("/")[0]
        papers = self.data["papers"]
        if paper not in papers:
            raise UserError(f"{DATA}, papers: {paper} is missing; add it where its numbers are to be compared")
        return papers.index(paper), item


def load(root: Path) -> Audit:
    """Everything that stands in config/published, and what config/audit.yaml says of it."""
    data = read_yaml(root / DATA, DATA)
    check_schema(root, data, "audit", DATA)
    lines = {}
    for path in sorted((root / "config/published").glob("*/*.csv")):
        lines[f"{path.parent.name}/{path.stem}"] = read_lines(path, data["plain"])
    rows = rows_of(line for of_item in lines.values() for line in of_item)
    audit = Audit(data, lines, rows)
    audit.rows.sort(key=lambda row: audit.order(row.item))  # stable: rows of one item stay in the printed order
    return audit
