"""Checks of published tables against themselves and each other: averages, gaps, totals, sizes, columns out of place."""

import statistics
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, pairwise

from common.errors import UserError
from report.audit import AVERAGE, BETTER, DATA, FEWEST, Audit, Finding, Misplaced
from report.audit_numbers import Line, Number, Row, decimals_of, exactly, mean, parse, select, shown, total
from report.audit_statements import lines_of


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
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in audit.rows:
        alike.setdefault((row.paper, row.model, row.setting, row.task), []).append(row)
    for row, detail in (pair for rows in alike.values() for pair in combinations(rows, 2)):
        if row.item == detail.item or row.languages or len(detail.languages) < 2:
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


def find_misplaced(audit: Audit) -> None:
    """Rows that agree with the other systems only when their numbers are read in the column order of another table.

    Languages are hard or easy for all systems alike, so that rows of a task resemble one another; a row that was copied
    in the order of another table does not, until it is put into that order.
    """
    long = [row for row in audit.rows if len(row.languages) >= FEWEST]
    alike: dict[tuple, list[Row]] = {}
    for row in long:
        alike.setdefault((row.task, row.metric, row.state), []).append(row)
    for row in long:
        same_task = alike[row.task, row.metric, row.state]
        others = [r for r in same_task if r.model != row.model]
        if len(others) < FEWEST:
            continue
        usual = {
            code: statistics.median(r.numbers[code].near for r in others if code in r.numbers)
            for code in row.languages
            if any(code in r.numbers for r in others)
        }
        if len(usual) < len(row.languages):
            continue
        values = [cell.near for cell in row.cells]
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
