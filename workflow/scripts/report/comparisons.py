"""What is compared without a score: sizes of corpora, hyper-parameters, sizes and costs of models. No formatting here.

`build` gives each row of a comparison (a table spec with `compare`) up to three lines: what is printed, what our files
say at the paper's own size, and what the configured scale makes of it. A value that there is not has a reason.
"""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from plan import compare_specs
from plan.claimed import cost_unknown
from plan.evidence import is_current, training_path
from plan.runs import lineage
from plan.seeds import pretrain_seeds
from report.comparison_cells import (
    COUNTED,
    MANY,
    OURS,
    PRINTED,
    SCALE,
    SUFFIXES,
    Block,
    Comparison,
    Line,
    Row,
    Subject,
    Value,
    as_written,
    cell_of,
    is_printed,
    power,
    subjects,
    written,
)
from report.comparison_corpora import build_corpora, build_resources
from report.context import Context, own_alone, why_unselected
from report.table_spec import errata_of
from report.table_words import summary_words
from report.tables import build as build_table
from report.trainings import read_training


def build(spec: dict, context: Context, count: bool = True) -> Comparison:
    """Without `count` nothing is counted that needs a model: such cells are empty, and torch is not imported."""
    context = own_alone(context)
    kind, how = next(iter(spec["compare"].items()))
    published = compare_specs.published_rows(context.root, spec, f"config/tables/{spec['paper']}/{spec['item']}.yaml")
    comparison = BUILD[kind](spec, how, context, published, count)
    comparison.notes += [
        f"Erratum of the paper: {e['row']}, {e['column']}: printed {e['printed']}, recomputed {e['recomputed']}; "
        f"{e['explanation']}."
        for e in errata_of(context.root, spec["paper"], spec["item"])
    ]
    return comparison


# --- a run or a recipe, as written and at the scale -----------------------------------------------------------------


def compared(
    subjects: dict[str, Subject | str], keys: list[str], printed: str, why: str, count: bool
) -> dict[str, Value]:
    """What is printed, ours and the scale's; ours is marked where it is not what is printed."""
    cells = {PRINTED: Value(printed)}
    for source, subject in subjects.items():
        cell, value = cell_of(subject, keys, printed, count)
        unlike = source == OURS and printed and (cell.reason or (cell.text and not is_printed(printed, value)))
        cells[source] = replace(cell, differs=True, note=why) if unlike else cell
    return cells


# --- hyper-parameters -----------------------------------------------------------------------------------------------


def build_hyperparameters(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    headings = [column["heading"] for column in how["columns"]]
    rows = []
    for name, row in compare_specs.rows_of(how).items():
        lines: dict[str, list[Value]] = {source: [] for source in (PRINTED, OURS, SCALE)}
        for column in how["columns"]:
            printed = _printed_of(published, row.get("published", name), row.get("setting"), column["published"])
            why = _difference(how, name, column["heading"])
            cells = _hyperparameter(row, column, printed, why, context, count)
            for source, value in cells.items():
                lines[source].append(value)
        rows.append(Row(name, [Line(source, cells) for source, cells in lines.items()]))
    return Comparison(spec, context, headings, [Block("", rows)], side=len(headings) <= SIDE_BY_SIDE)


def _hyperparameter(row: dict, column: dict, printed: str, why: str, context: Context, count: bool) -> dict[str, Value]:
    task, setting = column.get("task"), row.get("setting", column.get("setting"))
    if task and setting not in context.config.tasks[task]["settings"]:
        return dict.fromkeys((PRINTED, OURS, SCALE), Value())  # the row is not of this task
    if "none" in row:
        return {PRINTED: Value(printed)} | dict.fromkeys((OURS, SCALE), Value(reason=row["none"]))
    if "always" in row:
        value = Value(written(row["always"], printed))
        differs = bool(printed) and not is_printed(printed, row["always"])
        return {
            PRINTED: Value(printed),
            OURS: replace(value, differs=differs, note=why if differs else ""),
            SCALE: value,
        }
    return compared(
        subjects(context.config, column["run"], task, setting), compare_specs.keys_of(row), printed, why, count
    )


def _printed_of(published: list[dict], name: str, setting: str | None, column: str) -> str:
    """One printed value; a row of the CSV with a setting is for that one alone."""
    found = [row for row in published if row["hyperparameter"] == name and row.get("setting") in (None, "", setting)]
    return found[0][column] if found else ""


def _difference(how: dict, row: str, column: str) -> str:
    """Why a cell is not what is printed: the most exact of what the spec says."""
    told = how.get("differs", {})
    return next((told[name] for name in (f"{row}, {column}", row, column) if name in told), "")


# --- models ---------------------------------------------------------------------------------------------------------


def build_models(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    tables = [build_table(other, context) for other in compare_specs.score_specs(context.root, spec)]
    scores = dict(zip([column["heading"] for column in how["columns"] if "score" in column], tables, strict=True))
    rows = []
    for row in how["rows"]:
        lines: dict[str, list[Value]] = {source: [] for source in (PRINTED, OURS, SCALE)}
        own = subjects(context.config, row["run"]) if "run" in row else {}
        for column in how["columns"]:
            heading = column["heading"]
            printed = _printed_of_model(published, row["published"], column)
            why = _difference(how, row["label"], heading)
            cells = {PRINTED: Value(printed)}
            if "run" not in row:
                cells |= {OURS: Value(reason=row.get("why", "no run of ours")), SCALE: Value()} if printed else {}
            elif "none" in column:
                cells |= {OURS: Value(reason=column["none"]), SCALE: Value()}
            elif "score" in column:
                cells[SCALE] = _score(scores[heading], column["score"]["column"], row["run"], context)
            elif column["key"].startswith("flops."):
                cells |= _flops(column["key"], own, row["run"], printed, why, context, count)
            else:
                cells = compared(own, [column["key"]], printed, why, count)
            for source in lines:
                lines[source].append(cells.get(source, Value()))
        kept = lines if "run" in row else {source: lines[source] for source in (PRINTED, OURS)}
        rows.append(Row(row["label"], [Line(source, cells) for source, cells in kept.items()], row.get("run", "")))
    headings = [column["heading"] for column in how["columns"]]
    return Comparison(spec, context, headings, [Block("", rows)], side=False)


def _printed_of_model(published: list[dict], model: str, column: dict) -> str:
    """As printed: of the columns of the CSV, or of its metrics; several are the terms of a sum."""
    terms = []
    for name in compare_specs.listed(column.get("published")):
        if "metric" in published[0]:
            found = [row["value"] for row in published if (row["model"], row["metric"]) == (model, name)]
        else:
            found = [row[name] for row in published if row["model"] == model]
        terms += [text for text in found if text]
    if column.get("unit"):
        terms = [f"{float(term) / SUFFIXES[column['unit']]:g}{column['unit']}" for term in terms]
    return " + ".join(terms)


def _score(table: Any, heading: str, run: str, context: Context) -> Value:
    """The number that a table of scores has in a column for a run."""
    if reason := why_unselected(run, context):
        return Value(reason=reason)
    index = next(i for i, column in enumerate(table.columns) if column.heading == heading)
    for row in table.rows:
        if row.run == run:
            cell = row.cells[index]
            return Value(summary_words(cell.summary)) if cell.summary else Value(reason=cell.reason)
    return Value(reason=f"{table.spec['paper']}/{table.spec['item']} has no row of run {run}")


def _flops(
    key: str, own: dict[str, Subject | str], run: str, printed: str, why: str, context: Context, count: bool
) -> dict[str, Value]:
    """Of a run and, before it, of those that it starts from: ours from its size, the scale's from its training."""
    config = context.config
    line = lineage(config, run)[::-1]
    if reason := cost_unknown(config, run):
        return {PRINTED: Value(printed), SCALE: Value(reason=reason)} | ({OURS: Value(reason=reason)} if count else {})
    cells = {PRINTED: Value(printed), SCALE: _measured(key, line, context)}
    if count:
        terms = [COUNTED[key](as_written(config, name)) for name in line]
        numbers = [float(term) for term in printed.split(" + ")] if printed else []
        same = len(terms) == len(numbers) and all(power(a) == power(b) for a, b in zip(terms, numbers, strict=True))
        differs = bool(printed) and not same
        cells[OURS] = Value(" + ".join(map(power, terms)), differs=differs, note=why if differs else "")
    return cells


def _measured(key: str, line: list[str], context: Context) -> Value:
    config = context.config
    name = {"flops.ours": "flops", "flops.papers": "flops_by_the_papers_counting"}[key]
    if reason := why_unselected(line[-1], context):
        return Value(reason=reason)
    terms = []
    for run in line:
        seeds = pretrain_seeds(config)
        paths = [context.root / training_path(config, run, seed) for seed in seeds]
        found = [read_training(path, context.scale).cost[name] for path in paths if _there(path, context)]
        if not found:
            why = "is not among the reference" if context.reference else "is not there; its job has not run"
            return Value(reason=f"the record of the training of {run} {why}")
        terms.append(statistics.fmean(found))
    return Value(" + ".join(map(power, terms)))


# --- corpora --------------------------------------------------------------------------------------------------------


def _there(path: Path, context: Context) -> bool:
    return is_current(context.config, path) if context.reference else path.exists()


SIDE_BY_SIDE = 3  # so many columns of hyper-parameters stand with what is printed beside ours

BUILD = {
    "hyperparameters": build_hyperparameters,
    "models": build_models,
    "corpora": build_corpora,
    "resources": build_resources,
}


# --- what is missing ------------------------------------------------------------------------------------------------


def missing_cells(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Every cell without a value of ours: (block, row, cells, reason), rows and cells of one reason together."""
    comparison = build(spec, context, count=False)
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for block in comparison.blocks:
        for row in block.rows:
            by_reason: dict[str, list[str]] = {}
            for line in row.lines:
                for heading, cell in zip(comparison.columns, line.cells, strict=True):
                    if cell.reason:
                        by_reason.setdefault(cell.reason, []).append(heading)
            for reason, cells in by_reason.items():
                name = f"{row.label} ({row.run})" if row.run else row.label
                found.setdefault((block.title, reason, tuple(dict.fromkeys(cells))), []).append(name)
    listed = []
    for (block, reason, cells), names in found.items():
        whole = len(cells) == len(comparison.columns) and len(cells) > 1
        shown = ", ".join(names) if len(names) <= MANY else f"{len(names)} rows: {names[0]} to {names[-1]}"
        listed.append((block or spec["title"], shown, "all" if whole else ", ".join(cells), reason))
    return listed
