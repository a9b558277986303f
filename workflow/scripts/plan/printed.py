"""Checks of config/published/*/*.csv, the numbers that papers print: a typing mistake there must not print as `--`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from common.csvfiles import read_rows
from common.errors import UserError
from common.yamlfiles import check_known
from plan.config import Config
from plan.schemas import says_a_number

MODELS_TSV = "config/published/models.tsv"

# What papers print beside what tasks are called and measure here.
TASKS = ("", "average", "tatoeba-14", "tatoeba-36", "xtreme-7", "xtreme-9")
METRICS = (
    "aer", "average", "best-layer", "em", "flops", "flops-added", "gap", "params", "speedup", "training-steps",
)  # fmt: skip
SETTINGS = ("", "from-scratch")
LANGUAGES = ("", "avg", "en-xx", "total", "xx-en")


def printed_models(config: Config, file: str, announced: dict[str, list[str]]) -> set[str]:
    """The models of which a file has numbers, when its rows name what exists."""
    rows = read_rows(config.root / file, ["model"], file)
    known = _known(config, announced)
    of_tasks = {metric for task in config.tasks.values() for metric in task["metrics"]}
    lines: dict[tuple[str, ...], int] = {}
    for line, row in enumerate(rows, start=2):
        for column, names in known.items():
            if row.get(column) is not None and row[column] not in names:
                check_known(row[column], names, f"{file}, line {line}, {column}", column)
        if not (value := row.get("value")):
            continue
        if not says_a_number(value):
            raise UserError(f"{file}, line {line}, value: {value!r} is no number; mend it, or leave it empty")
        if row.get("metric") in of_tasks and not 0 <= float(value) <= 100:
            raise UserError(f"{file}, line {line}, value: {value} of {row['metric']} is not from 0 to 100")
        cell = tuple(text for column, text in row.items() if column != "value")
        if (first := lines.setdefault(cell, line)) != line:
            raise UserError(f"{file}, line {line}: says what line {first} says; remove one, or tell them apart")
    return {row["model"] for row in rows}


@cache
def _models(path: Path) -> set[str]:
    return {row["key"] for row in read_rows(path, ["key", "name", "citation", "layers"], MODELS_TSV)}


def _known(config: Config, announced: dict[str, list[str]]) -> dict[str, set[str]]:
    """Column -> what may stand in it."""
    tasks = config.tasks.values()
    pairs = {f"en-{code}" for code in config.languages}
    return {
        "model": _models(config.root / MODELS_TSV),
        "task": {*config.tasks, *announced["tasks"], *TASKS},
        "setting": {setting for task in tasks for setting in task["settings"]} | {*announced["settings"], *SETTINGS},
        "metric": {metric for task in tasks for metric in task["metrics"]} | set(METRICS),
        "language": {*config.languages, *pairs, *LANGUAGES},
    }
