"""Recompute every derived number of the papers from the numbers that they print, and tell what does not come out.

Reads config/published/*/*.csv, config/audit.yaml (what the texts state) and config/published/errata.csv, which explains
what is known. A difference counts only beyond what the rounding of the printed number and of its terms allows. The same
findings as LaTeX, CSV (in the form of errata.csv) and Markdown: the suffix of --out says which.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

from common.atomic import write_text
from common.errors import UserError, run_main
from common.yamlfiles import read_yaml
from plan.schemas import check_schema
from report import audit_pages
from report.audit_numbers import (
    Line,
    Number,
    Row,
    decimals_of,
    exactly,
    mean,
    parse,
    read_lines,
    rows_of,
    select,
    shown,
    total,
)
from report.tables import read_rows

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


def examine(audit: Audit) -> Audit:
    """All checks, in an order in which what is found early is not told again."""
    check_averages(audit)
    check_means_over_tasks(audit)
    check_summaries(audit)
    find_misplaced(audit)
    check_gaps(audit)
    check_systems(audit)
    check_reruns(audit)
    check_totals(audit)
    check_sizes(audit)
    check_statements(audit)
    note_open(audit)
    return audit


# --- averages and gaps ----------------------------------------------------------------------------------------------


def check_averages(audit: Audit) -> None:
    """Each printed average against the cells of its row. Which of the cells could be wrong instead is told too."""
    for row in audit.rows:
        if AVERAGE not in row.texts or len(row.languages) < 2:
            continue
        average, recomputed = row.numbers[AVERAGE], mean(row.cells)
        if audit.count("averages over languages", average, recomputed):
            continue
        rest = total(row.cells)
        implied = {
            code: average.times(len(row.cells)) - Number(rest.value - cell.value, rest.low, rest.high)
            for code, cell in zip(row.languages, row.cells, strict=True)
        }
        audit.disputed.add(id(row))
        audit.findings.append(
            Finding(
                row.item,
                row.label,
                f"avg ({row.metric})",
                row.texts[AVERAGE],
                shown(recomputed, 2),
                "average",
                instead=tuple(
                    (f"{code} ({row.metric})", row.texts[code], shown(implied[code], 1)) for code in row.languages
                ),
            )
        )


def check_means_over_tasks(audit: Audit) -> None:
    """Averages of XTREME, which count a task with two metrics as their mean, and averages of gaps."""
    for row in audit.rows:
        if row.task != "average" and row.metric != "average":
            continue
        with_note = row.metric == "average"  # two rows of one system differ in their note
        parts: dict[str, list[Number]] = {}
        for other in audit.rows:
            same = (other.item, other.setting, other.model) == (row.item, row.setting, row.model)
            if same and other.task != row.task and (other.note == row.note or not with_note):
                parts.setdefault(other.task, []).append(other.numbers.get(AVERAGE) or other.numbers[""])
        if not parts:
            continue  # a repetition of another table's average, compared with that
        number = row.numbers[AVERAGE]
        recomputed = mean(mean(of_task) for of_task in parts.values())
        if row.task.startswith("xtreme-") and len(parts) != int(row.task.removeprefix("xtreme-")):
            audit.findings.append(
                Finding(row.item, row.label, "tasks", row.task.removeprefix("xtreme-"), str(len(parts)), "average")
            )
        if not audit.count("averages over tasks", number, recomputed):
            finding = Finding(row.item, row.label, "Avg.", row.texts[AVERAGE], shown(recomputed, 2), "average")
            audit.findings.append(finding)


def metric_of(audit: Audit, row: Row) -> str:
    return audit.data["same_metric"].get(row.item, {}).get(row.metric, row.metric)


def check_summaries(audit: Audit) -> None:
    """An average that stands alone in one table, against the cells of the same paper's table by language."""
    for row, detail in combinations(audit.rows, 2):
        if row.paper != detail.paper or row.item == detail.item or row.languages or len(detail.languages) < 2:
            continue
        if (row.model, row.setting, row.task) != (detail.model, detail.setting, detail.task):
            continue
        if metric_of(audit, row) != metric_of(audit, detail) or AVERAGE not in row.texts or other_source(row, detail):
            continue
        if row.state != detail.state:
            continue
        recomputed = mean(detail.cells)
        if id(detail) in audit.disputed and row.texts[AVERAGE] == detail.texts[AVERAGE]:
            continue  # the same wrong number in both
        if not audit.count("averages against the table by language", row.numbers[AVERAGE], recomputed):
            column, printed = f"{row.task} ({row.metric})", row.texts[AVERAGE]
            audit.findings.append(Finding(row.item, row.label, column, printed, shown(recomputed, 2), "derived"))
            audit.outvoted.add(id(row))


def gap_of(row: Row) -> Number:
    return row.numbers["en"] - mean(row.numbers[code] for code in row.languages if code != "en")


def check_gaps(audit: Audit) -> None:
    """English minus the mean of the other languages, from the rows that the papers print by language."""
    corrected = {id(one.row): one.corrected for one in audit.misplaced}
    for row in audit.rows:
        if row.metric != "gap" or row.task == "average":
            continue
        where = f"{DATA}, gaps.{row.item}"
        if row.item not in audit.data["gaps"] or row.task not in audit.data["gaps"][row.item]["metrics"]:
            raise UserError(f"{where}: says nothing of {row.task}; name its metric")
        how = audit.data["gaps"][row.item]
        item = how["rows_of"].get(row.model, how["rows"]).get(row.task)
        if item is None:
            note_gap(audit, row)
            continue
        metric = how["metrics"][row.task]
        wanted = (item, row.setting, row.model, row.task, metric)
        found = [r for r in audit.rows if (r.item, r.setting, r.model, r.task, r.metric) == wanted]
        if len(found) != 1:
            raise UserError(f"{where}: {item} has {len(found)} rows of {row.model}, {row.task} {metric}, and not one")
        recomputed = gap_of(corrected.get(id(found[0]), found[0]))
        if not audit.count("gaps", row.numbers[""], recomputed):
            kind = "derived" if found[0].paper == row.paper else "cross-paper"
            audit.findings.append(Finding(row.item, row.model, row.task, row.texts[""], shown(recomputed, 2), kind))


def note_gap(audit: Audit, gap: Row) -> None:
    """No row by language: the paper's own average and the gap say what English must have had."""
    metric = audit.data["gaps"][gap.item]["metrics"][gap.task]
    wanted = (gap.paper, gap.setting, gap.model, gap.task, metric)
    own = [r for r in audit.rows if (r.paper, r.setting, r.model, r.task, r.metric) == wanted and AVERAGE in r.texts]
    sizes = [len(r.languages) for r in audit.rows if r.task == gap.task and len(r.languages) > 1]
    nearest = ""
    if own and sizes:
        share = Fraction(max(sizes) - 1, max(sizes))
        english = own[0].numbers[AVERAGE].value + gap.numbers[""].value * share
        nearest = f"with the average {own[0].texts[AVERAGE]} English is {shown(english, 1)}"
    printed = f"gap {gap.texts['']} of {gap.model} on {gap.task}"
    audit.open.append((gap.item, printed, nearest, "no row by language is printed"))


# --- rows that stand under the wrong columns -------------------------------------------------------------------------


def find_misplaced(audit: Audit) -> None:
    """Rows that agree with the other systems only when their numbers are read in the column order of another table.

    Languages are hard or easy for all systems alike, so that rows of a task resemble one another; a row that was copied
    in the order of another table does not, until it is put into that order.
    """
    for row in audit.rows:
        same_task = [r for r in audit.rows if (r.task, r.metric) == (row.task, row.metric) and r.state == row.state]
        others = [r for r in same_task if r.model != row.model and len(r.languages) >= FEWEST]
        if len(row.languages) < FEWEST or len(others) < FEWEST:
            continue
        usual = {
            code: statistics.median(float(r.numbers[code].value) for r in others if code in r.numbers)
            for code in row.languages
            if any(code in r.numbers for r in others)
        }
        if len(usual) < len(row.languages):
            continue
        values = [float(cell.value) for cell in row.cells]
        if len(set(values)) == 1 or len(set(usual.values())) == 1:
            continue  # all alike: no order to see

        def likeness(order: Iterable[str], values: list[float] = values, usual: dict[str, float] = usual) -> float:
            return statistics.correlation(values, [usual[code] for code in order])

        orders = {}
        for other in same_task:
            order = tuple(other.languages)
            if set(order) == set(row.languages) and list(order) != row.languages:
                orders.setdefault(order, other.item)
        best = max(orders, key=likeness, default=None)
        audit.checked["orders of columns"] += best is not None
        if best is None or likeness(best) < likeness(row.languages) + BETTER:
            continue
        copies = [
            r
            for r in same_task
            if r.item != row.item and tuple(r.languages) == best and r.model == row.model and r.cells == row.cells
        ]
        item = copies[0].item if copies else orders[best]
        found = Misplaced(row, best, item, bool(copies), likeness(row.languages), likeness(best))
        audit.misplaced.append(found)
        texts, corrected = row.texts, found.corrected.texts
        audit.findings.append(
            Finding(
                row.item,
                row.label,
                " ".join(found.changed),
                " ".join(texts[code] for code in found.changed),
                " ".join(corrected[code] for code in found.changed),
                "cross-paper",
            )
        )


# --- one system in several tables -------------------------------------------------------------------------------------


def source_of(row: Row) -> str | None:
    """Where a row says that its numbers come from."""
    if "own implementation" in row.note:
        return "own implementation"
    for words in ("taken from ", "numbers of "):
        if words in row.note:
            return row.note.partition(words)[2].split(";")[0].rstrip("ab")
    return None


def other_source(a: Row, b: Row) -> bool:
    """Do two rows say that they come from different sources? A run of one's own is another one than what is copied."""
    sources = {source_of(a), source_of(b)}
    return "own implementation" in sources or len(sources - {None}) == 2


def check_systems(audit: Audit) -> None:
    """The rows of a system in one setting on one task must be the same wherever they are printed."""
    largest: dict[str, int] = {}
    for row in audit.rows:
        largest[row.task] = max(largest.get(row.task, 0), len(row.languages))
    corrected = {id(one.row): one.corrected for one in audit.misplaced}
    averages: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    cells: dict[tuple[str, str, str], list[Finding]] = {}
    for a, b in combinations([row for row in audit.rows if row.model and row.metric != "gap"], 2):
        key = (a.model, a.task, a.setting)
        if key != (b.model, b.task, b.setting) or (a.metric, a.state) != (b.metric, b.state) or a.item == b.item:
            continue
        if other_source(a, b) or is_summary(a, b) or {id(a), id(b)} & audit.outvoted:
            continue
        a_texts, b_texts = (corrected.get(id(row), row).texts for row in (a, b))
        common = [code for code in a.languages if code in b.languages]
        if AVERAGE in a_texts and AVERAGE in b_texts and same_languages(a, b, largest[a.task]):
            common.append(AVERAGE)
        audit.checked["rows of one system in two tables"] += bool(common)
        audit.checked["cells of such rows"] += len(common)
        different = [code for code in common if not same_text(a_texts[code], b_texts[code])]
        if AVERAGE in different:
            of_metric = averages.setdefault(key, {}).setdefault(a.metric, {})
            of_metric[a.item], of_metric[b.item] = a_texts[AVERAGE], b_texts[AVERAGE]
        elif different:
            printed, other = (" ".join(texts[code] for code in different) for texts in (a_texts, b_texts))
            finding = Finding(a.item, a.label, " ".join(different), printed, other, "cross-paper")
            cells.setdefault(key, []).append(finding)
    for key, of_metrics in averages.items():
        model, task, setting = key
        first = next(iter(of_metrics.values()))
        audit.findings.append(
            Finding(
                next(iter(first)),
                " / ".join(part for part in (setting, model) if part),
                f"{task} avg ({', '.join(of_metrics)})",
                " / ".join(next(iter(values.values())) for values in of_metrics.values()),
                " / ".join(list(values.values())[1] for values in of_metrics.values()),
                "cross-paper",
            )
        )
    for key, of_key in cells.items():
        if key not in averages:  # else the cells differ as the averages do
            audit.findings += of_key


def is_summary(a: Row, b: Row) -> bool:
    """Is one the average of what the same paper prints by language in the other? check_summaries has it."""
    return a.paper == b.paper and bool(a.languages) != bool(b.languages)


def same_languages(a: Row, b: Row, largest: int) -> bool:
    """Are two averages over the same languages? One that stands alone is over all of the task's."""
    if a.languages and b.languages:
        return set(a.languages) == set(b.languages)
    return len(a.languages or b.languages) in (0, largest)


def same_text(a: str, b: str) -> bool:
    """Are two printed numbers the same, at the precision of the coarser one?"""
    if decimals_of(a) == decimals_of(b):
        return parse(a, "").value == parse(b, "").value
    return parse(a, "").agrees(parse(b, ""))


def check_reruns(audit: Audit) -> None:
    """A re-run by others beside the paper's own row: one finding a system, of the averages."""
    for rerun in audit.data["reruns"]:
        for row in audit.rows:
            if row.item != rerun["item"]:
                continue
            wanted = (rerun["of"], rerun["setting"], row.model, row.task, row.metric)
            own = [r for r in audit.rows if (r.item, r.setting, r.model, r.task, r.metric) == wanted]
            if len(own) != 1:
                raise UserError(f"{DATA}, reruns: {rerun['of']} has {len(own)} rows of {row.model}, and not one")
            if not audit.count("re-runs", row.numbers[AVERAGE].times(rerun["times"]), own[0].numbers[AVERAGE]):
                printed, other = row.texts[AVERAGE], own[0].texts[AVERAGE]
                audit.findings.append(
                    Finding(row.item, row.label, f"avg ({row.metric})", printed, other, "cross-paper")
                )


# --- totals and sizes -------------------------------------------------------------------------------------------------


def check_totals(audit: Audit) -> None:
    for how in audit.data["totals"]:
        lines = lines_of(audit, how["item"], f"{DATA}, totals")
        lines = select(lines, how.get("among", {}), f"{DATA}, totals, {how['item']}")
        if "line" in how:
            [last] = select(lines, how["line"], f"{DATA}, totals, {how['item']}")
            for column in how["columns"]:
                parts = [line.number(column) for line in lines if line is not last and line.fields[column]]
                compare_total(audit, last, next(iter(how["line"].values())), column, parts)
        else:
            for line in lines:
                parts = [line.number(column) for column in how["of"] if line.fields[column]]
                if parts and line.fields[how["column"]]:
                    compare_total(audit, line, next(iter(line.fields.values())), how["column"], parts)


def compare_total(audit: Audit, line: Line, row: str, column: str, parts: list[Number]) -> None:
    printed, recomputed = line.number(column), total(parts)
    if not audit.count("totals", printed, recomputed):
        text = line.fields[column]
        unit = text[-1] if text[-1:].isalpha() else ""
        value = recomputed.value / (parse(f"1{unit}", line.where).value)
        audit.findings.append(Finding(line.item, row, column, text, f"{shown(value, 2, strip=True)}{unit}", "derived"))


def millions(number: Number) -> str:
    return f"{shown(number.value / 10**6, 0)}M"


def check_sizes(audit: Audit) -> None:
    """Parameters counted from the architecture, and those of one system in several papers."""
    how, counted_wrong = audit.data["sizes"], set()
    room = Fraction(how["per_cent"], 100)
    printed: dict[str, list[tuple[str, Number]]] = {}
    for item, lines in audit.lines.items():
        for line in lines:
            if line.fields.get("metric") == "params":
                printed.setdefault(line.fields["model"], []).append((item, line.number("value")))
            elif "model" in line.fields and line.fields.get("params"):
                printed.setdefault(line.fields["model"], []).append((item, line.number("params")))
    for system in how["systems"]:
        item, model = system["item"], system["model"]
        size = dict(printed.get(model, [])).get(item)
        if size is None:
            raise UserError(f"{DATA}, sizes.systems: {item} prints no size of {model}; mend it")
        layers, vocabulary, width = (operand(audit, system, key) for key in ("layers", "vocabulary", "width"))
        per_layer = how["per_layer"][system.get("kind", "encoder")]
        recomputed = vocabulary * width + (layers * width * width).times(per_layer)
        audit.checked["sizes from the architecture"] += 1
        if not size.agrees(recomputed.give(room)):
            counted_wrong.add((item, model))
            audit.findings.append(Finding(item, model, "params", millions(size), millions(recomputed), "derived"))
    for model, sizes in printed.items():
        sizes = sorted(
            (size for size in sizes if (size[0], model) not in counted_wrong), key=lambda s: audit.order(s[0])
        )
        for (item, size), (_, other) in pairwise(sizes):
            if not audit.count("sizes of one system in two papers", size, other):
                audit.findings.append(Finding(item, model, "params", millions(size), millions(other), "cross-paper"))
    for shape in how["shapes"]:
        check_shape(audit, shape, room)


def operand(audit: Audit, system: dict, key: str) -> Number:
    """A number of a system: the column of its line that is named, or the number itself."""
    value, where = system[key], f"{DATA}, sizes, {system['item']} {system['model']}, {key}"
    lines = lines_of(audit, system["item"], where)
    if isinstance(value, str) and lines and value in lines[0].fields:
        [line] = select(lines, {"model": system["model"]}, where)
        number = line.number(value)
        return exactly(number.value) if key != "vocabulary" else number
    return parse(value, where) if isinstance(value, str) else exactly(value)


def check_shape(audit: Audit, shape: dict, room: Fraction) -> None:
    """The number of layers that a printed size needs."""
    [line] = select(lines_of(audit, shape["item"], DATA), {"model": shape["model"]}, f"{DATA}, sizes.shapes")
    size, vocabulary = line.number(shape["size"]), line.number(shape["vocabulary"])
    per_layer = audit.data["sizes"]["per_layer"]["encoder"]

    def distance(one: dict) -> Fraction:
        return abs(vocabulary.value * one["width"] + per_layer * one["layers"] * one["width"] ** 2 - size.value)

    best = min(shape["candidates"], key=distance)
    if distance(best) > room * size.value:
        raise UserError(f"{DATA}, sizes.shapes: no shape of {shape['model']} has its printed size; add the right one")
    if not audit.count("sizes from the architecture", line.number(shape["column"]), exactly(best["layers"])):
        printed, recomputed = line.fields[shape["column"]], str(best["layers"])
        audit.findings.append(Finding(shape["item"], shape["model"], shape["shown"], printed, recomputed, "derived"))


# --- what the texts state ---------------------------------------------------------------------------------------------


def lines_of(audit: Audit, item: str, where: str) -> list[Line]:
    if item not in audit.lines:
        raise UserError(f"{where}: config/published/{item}.csv: no such file; mend the item")
    return audit.lines[item]


@dataclass(frozen=True)
class Statement:
    """One number, or word, of a paper's text."""

    item: str
    cells: dict[str, str]  # defaults of the operands
    says: dict
    where: str

    @property
    def printed(self) -> str:
        return self.says["printed"]

    def line(self, audit: Audit, wanted: dict[str, str]) -> tuple[Line, str]:
        """The one line that an operand names, and the column of its number."""
        wanted = {**self.cells, **wanted}
        column = wanted.pop("column", "value")
        item = wanted.pop("item", self.item)
        lines = lines_of(audit, item, self.where)
        if lines and item != self.cells.get("item", self.item):  # the defaults are of the other table
            wanted = {key: value for key, value in wanted.items() if key in lines[0].fields}
        found = select(lines, wanted, f"{self.where}, {item}")
        if len(found) > 1:
            raise UserError(f"{self.where}, {item}: {len(found)} lines fit {wanted}; say more")
        if column not in found[0].fields:
            raise UserError(f"{self.where}, {item}: no column {column!r}")
        return found[0], column

    def text(self, audit: Audit, wanted: dict[str, str]) -> str:
        line, column = self.line(audit, wanted)
        return line.fields[column]

    def number(self, audit: Audit, wanted: dict[str, str]) -> Number:
        line, column = self.line(audit, wanted)
        return line.number(column).times(Fraction(self.says.get("times", 1)))

    def numbers(self, audit: Audit) -> list[Number]:
        return [self.number(audit, wanted) for wanted in self.says["of"]]

    def row(self, audit: Audit, wanted: dict[str, str]) -> Row:
        wanted = {key: value for key, value in {**self.cells, **wanted}.items() if key != "language"}
        found = [row for row in audit.rows if all(getattr(row, key) == value for key, value in wanted.items())]
        if len(found) != 1:
            raise UserError(f"{self.where}: {len(found)} rows fit {wanted}, and not one")
        corrected = {id(one.row): one.corrected for one in audit.misplaced}
        return corrected.get(id(found[0]), found[0])


def statements_of(audit: Audit) -> Iterator[Statement]:
    for block in audit.data["statements"]:
        for says in block["says"]:
            where = f"{DATA}, statements, {block['item']}, {says.get('row')}, {says.get('column')}"
            yield Statement(block["item"], block["cells"], says, where)


def check_statements(audit: Audit) -> None:
    for statement in statements_of(audit):
        form = statement.says["form"]
        printed, recomputed = FORMS[form](audit, statement)
        audit.checked[CHECKS.get(form, "differences and ratios in the texts")] += 1
        if printed != recomputed:
            says = statement.says
            audit.findings.append(Finding(statement.item, says["row"], says["column"], printed, recomputed, "text"))


# A form gives what is printed and what comes out, equal where the statement holds.


def _number_form(compute):
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        printed, recomputed = parse(statement.printed, statement.where), compute(*statement.numbers(audit))
        text = shown(recomputed, 2, strip=True)
        return statement.printed, statement.printed if printed.agrees(recomputed) else text

    return form


def _same(audit: Audit, statement: Statement) -> tuple[str, str]:
    """A repetition may be coarser than what it repeats; at the same precision it must be equal."""
    [number] = statement.numbers(audit)
    printed = parse(statement.printed, statement.where)
    finer = printed.high - printed.value <= number.high - number.value
    holds = printed.value == number.value if finer else printed.agrees(number)
    return statement.printed, statement.printed if holds else shown(number, 2, strip=True)


def _words(audit: Audit, statement: Statement) -> tuple[str, str]:
    [wanted] = statement.says["of"]
    text = statement.text(audit, wanted)
    if text.lower() == statement.printed.lower():
        return statement.printed, statement.printed
    return statement.printed, text.capitalize() if statement.printed[:1].isupper() else text


def _lead_of(audit: Audit, statement: Statement, pair: list[dict]) -> Number:
    a, b = (statement.number(audit, wanted) for wanted in pair)
    return a - b


def _leads(audit: Audit, statement: Statement) -> tuple[str, str]:
    ends = [parse(text, statement.where) for text in statement.printed.split(" to ")]
    allowed = Number(ends[0].value, ends[0].low, ends[-1].high)
    holds, words = True, []
    for name, pairs in statement.says["pairs"].items():
        leads = [_lead_of(audit, statement, pair) for pair in pairs]
        holds &= all(lead.agrees(allowed) for lead in leads)
        values = sorted({lead.value for lead in leads})
        span = " to ".join(dict.fromkeys(shown(value, 1) for value in (values[0], values[-1])))
        words.append(f"({name} {span})" if name else span)
    return statement.printed, statement.printed if holds else " ".join(words)


def _compared(sign: int):
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        if statement.says.get("leads"):
            first, *others = (_lead_of(audit, statement, pair) for pair in statement.says["pairs"])
        else:
            first, *others = statement.numbers(audit)
        holds = all(sign * first.value > sign * other.value for other in others)
        values = ", ".join(shown(number, 2, strip=True) for number in (first, *others))
        return statement.printed, statement.printed if holds else values

    return form


def _in_languages(share: Fraction):
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        a, b = (statement.row(audit, wanted) for wanted in statement.says["of"])
        common = [code for code in b.languages if code in a.languages]
        equal = statement.says.get("equal", False)
        good = [
            code
            for code in common
            if (
                a.numbers[code].value == b.numbers[code].value
                if equal
                else a.numbers[code].value > b.numbers[code].value
            )
        ]
        holds = len(good) == len(common) if share == 1 else len(good) > share * len(common)
        return statement.printed, statement.printed if holds else f"{len(good)} of {len(common)}"

    return form


def _best(audit: Audit, statement: Statement) -> tuple[str, str]:
    """The system with the mark must have the best number of the group in each metric."""
    says, sign = statement.says, -1 if statement.says.get("lowest") else 1
    wanted = {**statement.cells, **says["among"]}
    lines = lines_of(audit, wanted.pop("item", statement.item), statement.where)
    systems: dict[str, list[Number]] = {}
    texts: dict[str, list[str]] = {}
    for metric in says["metrics"]:
        for line in select(lines, {**wanted, "metric": metric}, statement.where):
            systems.setdefault(line.fields["model"], []).append(line.number("value"))
            texts.setdefault(line.fields["model"], []).append(line.fields["value"])
    marked = systems.get(statement.printed)
    if marked is None:
        raise UserError(f"{statement.where}: {statement.printed} has no such number")
    holds = all(
        sign * marked[i].value >= sign * numbers[i].value for numbers in systems.values() for i in range(len(numbers))
    )
    best = max(systems, key=lambda model: sign * systems[model][0].value)

    def words(of: str, model: str) -> str:
        return f"{of}: {' / '.join(texts[model])} ({model})"

    printed = words("bold", statement.printed)
    return printed, printed if holds else words("best", best)


def _order(audit: Audit, statement: Statement) -> tuple[str, str]:
    texts = " and ".join(statement.text(audit, wanted) for wanted in statement.says["of"])
    pattern = statement.says.get("shown", "{}")
    return pattern.format(statement.printed), pattern.format(texts)


def _columns(audit: Audit, statement: Statement) -> tuple[str, str]:
    known = lines_of(audit, statement.cells["item"], statement.where)[0].fields
    return statement.printed, ", ".join(code for code in statement.printed.split(", ") if code in known)


def _count(audit: Audit, statement: Statement, languages: bool) -> tuple[str, str]:
    [(column, value)] = statement.says["but"].items()
    lines = lines_of(audit, statement.cells["item"], statement.where)
    names = [line.fields[column] for line in lines if line.fields[column] != value]
    found = {code for name in names for code in name.split("-")} if languages else set(names)
    return statement.printed, str(len(found))


FORMS = {
    "same": _same,
    "words": _words,
    "mean": _number_form(lambda *numbers: mean(numbers)),
    "lead": _number_form(lambda a, b: a - b),
    "share": _number_form(lambda a, b: (a / b).times(100)),
    "less": _number_form(lambda a, b: exactly(100) - (a / b).times(100)),
    "more": _number_form(lambda a, b: (a / b).times(100) - exactly(100)),
    "times": _number_form(lambda a, b: a / b),
    "leads": _leads,
    "above": _compared(1),
    "below": _compared(-1),
    "every": _in_languages(Fraction(1)),
    "most": _in_languages(Fraction(1, 2)),
    "best": _best,
    "order": _order,
    "columns": _columns,
    "lines": lambda audit, statement: _count(audit, statement, languages=False),
    "languages": lambda audit, statement: _count(audit, statement, languages=True),
    "against": lambda audit, statement: (statement.printed, statement.says["found"]),
}
WORDS = ("words", "above", "below", "every", "most", "order", "columns", "against")
CHECKS = {"same": "repetitions in the texts", "best": "marks for the best number"} | dict.fromkeys(
    WORDS, "statements in words"
)


def note_open(audit: Audit) -> None:
    """What cannot be recomputed, beside what comes nearest."""
    for one in audit.data["open"]:
        nearest = ""
        if one.get("form") == "lines":
            nearest = str(len(lines_of(audit, one["item"], f"{DATA}, open")))
        elif "form" in one:
            words = []
            for pair in one["of"]:
                statement = Statement(one["item"], one["cells"], {"of": pair}, f"{DATA}, open, {one['item']}")
                a, b = statement.numbers(audit)
                words.append(shown(a / b, 0) if one["form"] == "times" else shown(a - b, 1))
            nearest = " and ".join(words)
        audit.open.append((one["item"], one["printed"], nearest, one["why"]))
    audit.open.sort(key=lambda row: audit.order(row[0]))


# --- explanations -----------------------------------------------------------------------------------------------------


def explain(findings: list[Finding], errata: list[dict[str, str]], order) -> list[Finding]:
    """The findings with kind and explanation of errata.csv. An erratum that nothing finds is an error."""
    listed = {}
    for line, row in enumerate(errata, start=2):
        if row["kind"] not in KINDS:
            raise UserError(f"{ERRATA}, line {line}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
        key = (f"{row['paper']}/{row['item']}", row["row"], row["column"])
        if key in listed:
            raise UserError(f"{ERRATA}, line {line}: {', '.join(key)} stands twice; remove one")
        listed[key] = (line, row)
    explained, used = [], set()
    for finding in findings:
        told = next((one for one in finding.retold() if one.key in listed), None)
        if told is None:
            explained.append(finding)
            continue
        line, row = listed[told.key]
        if (row["printed"], row["recomputed"]) != (told.printed, told.recomputed):
            raise UserError(
                f"{ERRATA}, line {line} ({', '.join(told.key)}): says {row['printed']!r} and {row['recomputed']!r}, "
                f"the audit finds {told.printed!r} and {told.recomputed!r}; mend the line, or the number"
            )
        used.add(told.key)
        explained.append(replace(told, kind=row["kind"], explanation=row["explanation"], instead=()))
    for key, (line, _) in listed.items():
        if key not in used:
            raise UserError(
                f"{ERRATA}, line {line} ({', '.join(key)}): the audit no longer finds it; take the line out, or mend "
                "the published number"
            )
    return sorted(explained, key=lambda one: (*order(one.item), KINDS.index(one.kind), one.row, one.column))


def run(root: Path) -> tuple[Audit, list[Finding]]:
    audit = examine(load(root))
    return audit, explain(audit.findings, read_rows(root / ERRATA, ","), audit.order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=Path(), type=Path, help="the repository; default: the current folder")
    parser.add_argument(
        "--out", required=True, nargs="+", type=Path, help=f"files to write: {', '.join(sorted(audit_pages.RENDER))}"
    )
    args = parser.parse_args()
    for path in args.out:
        if path.suffix not in audit_pages.RENDER:
            raise UserError(f"--out {path}: suffix {path.suffix!r} is none of {', '.join(sorted(audit_pages.RENDER))}")
    audit, findings = run(args.root)
    names = {row["key"]: row["name"] for row in read_rows(args.root / "config/published/papers.tsv", "\t")}
    for path in args.out:
        write_text(path, audit_pages.RENDER[path.suffix](audit, findings, names))


if __name__ == "__main__":
    run_main(main)
