"""What the kinds of figures name beside columns and rows, and the files that they read. No torch: the plan reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from common.errors import UserError, why_no_file
from common.typed import build
from common.yamlfiles import check_known
from engine.options import DESCRIPTIONS

# What a figure may hold beside the key that says its kind. One without any is of curves by layer or epoch.
KEYS = ("paper", "item", "title", "notes")
KINDS = {
    "masks": (),
    "diagram": (),
    "simulation": (),
    "effects": (),
    "training": ("groups", "colours"),
    "bars": ("published", "columns", "groups", "colours"),
    "cost": ("published", "columns", "groups", "colours"),
    "points": ("columns", "groups"),
}
DRAWN_TASKS = ("classification", "translation")  # kinds of tasks whose fine-tuning a diagram knows
WITHOUT_RUNS = ("masks", "diagram", "simulation", "effects")  # they read no score; effects are those of the claims


def published_files(spec: dict) -> list[str]:
    """The files of printed numbers that a table or figure reads."""
    named = [spec.get("published"), spec.get("bars", {}).get("order")]
    named.append(spec.get("cost", {}).get("published", {}).get("file"))
    return sorted({file for file in named if file})


def check(config: Any, spec: dict, shown: str) -> None:
    """What a typing error could hide; columns, settings and runs of rows are the plan's to check."""
    kind = next((key for key in KINDS if key in spec), None)
    for key in spec if kind else ():
        check_known(key, (*KEYS, kind, *KINDS[kind]), shown, f"key of a figure with '{kind}'")
    for file in published_files(spec):
        if not (config.root / file).is_file():
            raise UserError(f"{shown}, published: {file}: {why_no_file(config.root / file)}")
    if kind == "diagram":
        _check_diagram(config, spec["diagram"], f"{shown}, diagram")
    if kind in WITHOUT_RUNS:
        return
    rows = {row["label"]: row for group in spec["groups"] for row in group["rows"]}
    # A line of a figure of costs is a group, of the others a row.
    lines = [group["title"] for group in spec["groups"]] if kind == "cost" else list(rows)
    for label in spec.get("colours", {}):
        check_known(label, lines, f"{shown}, colours", "line of this figure")
    if kind in ("bars", "cost") and len(spec["columns"]) != 1:
        raise UserError(f"{shown}, columns: bars and costs are of one column, here are {len(spec['columns'])}")
    if kind == "points":
        runs = [row.get("run") for row in rows.values()]
        for run in (spec["points"]["line"], *spec["points"]["hollow"]):
            check_known(run, runs, f"{shown}, points", "run of a row of this figure")
    if kind == "training":
        _check_signals(config, spec["training"], rows.values(), shown)
    elif signals := [label for label, row in rows.items() if "signal" in row]:
        raise UserError(f"{shown}, row {signals[0]!r}, signal: only rows of a figure with 'training' have one")


def row_signal(about: dict, row: dict) -> str:
    """Of a line of a figure of trainings: its own, or that of all."""
    return row.get("signal") or about["signal"]


def _check_signals(config: Any, about: dict, rows: Iterable[dict], shown: str) -> None:
    """Every line has one, and its run has the objective whose signal it is."""
    mark = about.get("mark", {}).get("signal")
    for row in rows:
        if "signal" not in row and "signal" not in about:
            raise UserError(f"{shown}, row {row['label']!r}: no signal; give it one, or training.signal for all rows")
        if row.get("run") not in config.pretrained:
            continue
        names = [objective["name"] for objective in config.runs[row["run"]]["objectives"]]
        where = f"row {row['label']!r}, signal" if "signal" in row else "training.signal"
        for key, signal in ((where, row_signal(about, row)), ("training.mark.signal", mark)):
            if signal:
                check_known(signal.partition("/")[0], names, f"{shown}, {key}", f"objective of run {row['run']}")


def _check_diagram(config: Any, about: dict, where: str) -> None:
    """The run, its objectives, tasks and the languages of the example exist."""
    check_known(about["run"], config.pretrained, f"{where}.run", "run")
    objectives = {own["name"]: own for own in config.runs[about["run"]]["objectives"]}
    lines = {code: len(sentences) for code, sentences in about["sentences"].items()}
    for code in lines:
        check_known(code, config.languages, f"{where}.sentences", "language")
    if len(set(lines.values())) != 1:
        raise UserError(f"{where}.sentences: {lines} lines; each is the translation of the others, give equally many")
    for index, panel in enumerate(about["panels"]):
        own = f"{where}.panels[{index}]"
        for code in panel["languages"]:
            check_known(code, lines, f"{own}.languages", "language of the sentences")
        if "task" in panel:
            kinds = {name: task["kind"] for name, task in config.tasks.items()}
            check_known(
                panel["task"], [name for name in kinds if kinds[name] in DRAWN_TASKS], f"{own}.task", "task to draw"
            )
            continue
        name = panel["objective"]
        check_known(name, objectives, f"{own}.objective", f"objective of run {about['run']}")
        wanted = 2 if DESCRIPTIONS[name].data == "bitext" else 1
        if len(panel["languages"]) != wanted:
            raise UserError(f"{own}.languages: '{name}' reads {DESCRIPTIONS[name].data}: name {wanted}")
        try:
            build(DESCRIPTIONS[name].options, {**objectives[name].get("options", {}), **panel.get("options", {})}, "")
        except UserError as error:
            raise UserError(f"{own}.options: {error}") from None
