"""What a comparison (a table spec with `compare`) names: runs, tasks, and keys of them. No torch: the plan reads it.

A key is a place in a run (`model.layers`, `objectives.mmlm.mask.rate`, `optimizer.betas[0]`), in a task's recipe
(`recipe.peak_lr`) or computed (`parameters`). Two of them multiply, divide, or stand in for one another:

    batch.rows * batch.row_length        model.width / model.heads        recipe.warmup_fraction or recipe.warmup_steps
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from common.csvfiles import read_rows
from common.errors import UserError
from common.typed import build
from common.yamlfiles import check_known, read_yaml
from engine.options import DESCRIPTIONS

COMPUTED = ("parameters", "vocabulary", "languages", "decoder_layers", "flops.papers", "flops.ours")
RECIPE = "recipe."
OPERATORS = {"*": lambda a, b: a * b, "/": lambda a, b: a / b}


# --- keys -----------------------------------------------------------------------------------------------------------


def names_in(key: str) -> list[str]:
    """The names of a key, left to right."""
    return [name for part in key.split(" or ") for name in re.split(r" [*/] ", part)]


def value_of(key: str, look_up: Callable[[str], Any]) -> Any:
    """The value of a key; None where nothing says it."""
    for part in key.split(" or "):
        first, *rest = re.split(r" ([*/]) ", part)
        value = look_up(first)
        for operator, name in zip(rest[::2], rest[1::2], strict=True):
            other = look_up(name)
            value = None if value is None or other is None else OPERATORS[operator](value, other)
        if value is not None:
            return int(value) if isinstance(value, float) and value.is_integer() else value
    return None


def of_run(run: dict, name: str) -> Any:
    """One place of a run, as written or resolved; None where it says nothing."""
    value: Any = run
    for part in name.split("."):
        part, _, index = part.partition("[")
        if isinstance(value, list):  # objectives, by name
            value = next((own for own in value if own["name"] == part), None)
        elif isinstance(value, dict) and part == "options" and "mask" in value:  # with their defaults
            value = vars(build(DESCRIPTIONS[value["name"]].options, value.get("options", {}), "options"))
        else:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None and index:
            value = value[int(index.rstrip("]"))]
    return value


def of_recipe(recipe: dict, name: str) -> Any:
    """One value of a recipe, or all that are tried where it has a grid."""
    name, _, index = name.partition("[")
    value = (recipe.get("grid") or {}).get(name, recipe.get(name))
    return value[int(index.rstrip("]"))] if index and value is not None else value


# --- checks ---------------------------------------------------------------------------------------------------------


@cache
def _schema(folder: Path, kind: str) -> dict:
    return json.loads((folder / f"{kind}.schema.json").read_text(encoding="utf-8"))


def check_key(config: Any, key: Any, subject: dict, where: str) -> None:
    """Every name of a key exists in runs or recipes, whether this run says it or not."""
    for name in names_in(key):
        if name in COMPUTED:
            continue
        if name.startswith(RECIPE):
            if "task" not in subject:
                raise UserError(f"{where}: '{name}' is of a task's recipe, but the column names no task")
            recipe = _schema(config.root / "config/schemas", "task")["$defs"]["recipe"]["properties"]
            part, _, index = name.removeprefix(RECIPE).partition("[")
            check_known(part, recipe, where, "key of a recipe")
            _check_index(name, index, recipe[part], where)
        else:
            _check_run_key(config, name, subject["run"], where)


def _check_run_key(config: Any, name: str, run: str, where: str) -> None:
    schema = _schema(config.root / "config/schemas", "run")
    objective = None
    for depth, part in enumerate(name.split(".")):
        part, _, index = part.partition("[")
        if objective and part == "options":
            schema = {"properties": {name: {} for name in vars(DESCRIPTIONS[objective].options())}}
            continue
        if schema.get("type") == "array" and not index and "properties" in schema.get("items", {}):
            objective = part
            own_names = [own["name"] for own in config.runs[run]["objectives"]]
            check_known(part, own_names, where, f"objective of run '{run}'")
            schema = schema["items"]
            continue
        names = schema.get("properties", {})
        check_known(part, [*names, *COMPUTED] if depth == 0 else names, where, "key of a run")
        schema = names[part]
        _check_index(name, index, schema, where)


def _check_index(name: str, index: str, schema: dict, where: str) -> None:
    if index and (schema.get("type") != "array" or index not in ("0]", "1]")):
        raise UserError(f"{where}: '{name}' has no entry [{index}; Adam's betas have [0] and [1]")


def check(config: Any, spec: dict, shown: str) -> None:
    """Runs, tasks, settings, keys, and rows and columns of the CSV that a comparison names exist."""
    compare, published = spec["compare"], published_rows(config.root, spec, shown)
    where = f"{shown}, compare"
    for run in runs_of(spec):
        check_known(run, config.pretrained, where, "run")
    header = list(published[0])
    if how := compare.get("hyperparameters"):
        _check_hyperparameters(config, how, published, f"{where}.hyperparameters")
    elif how := compare.get("models"):
        _check_models(config, how, published, f"{where}.models")
    elif how := compare.get("corpora"):
        check_known(how["by"], header, f"{where}.corpora.by", "column of the CSV")
        for index, column in enumerate(how["columns"]):
            check_known(column["published"], header, f"{where}.corpora.columns[{index}].published", "column of the CSV")
    elif how := compare.get("resources"):
        _check_resources(config, how, published, f"{where}.resources")


def _check_hyperparameters(config: Any, how: dict, published: list[dict], where: str) -> None:
    for index, column in enumerate(how["columns"]):
        here = f"{where}.columns[{index}]"
        check_known(column["published"], list(published[0])[1:], f"{here}.published", "column of the CSV")
        _check_task(config, column.get("task"), column.get("setting"), here)
    printed = {row["hyperparameter"] for row in published}
    shown = {row.get("published", name) for name, row in rows_of(how).items()}
    for name in sorted(printed - shown):
        raise UserError(f"{where}.rows: nothing says what '{name}' is, which the paper prints; add it")
    for name, row in rows_of(how).items():
        check_known(row.get("published", name), printed, f"{where}.rows.{name}", "hyper-parameter of the CSV")
        for key in keys_of(row):
            for column in how["columns"]:
                check_key(config, key, column, f"{where}.rows.{name}")
    _check_differences(how, rows_of(how), [column["heading"] for column in how["columns"]], where)


def _check_task(config: Any, task: str | None, setting: str | None, where: str) -> None:
    if task is not None:
        check_known(task, config.tasks, f"{where}.task", "task")
        if setting is not None:
            check_known(setting, config.tasks[task]["settings"], f"{where}.setting", f"setting of {task}")


def _check_models(config: Any, how: dict, published: list[dict], where: str) -> None:
    models = {row["model"] for row in published}
    long = "metric" in published[0]
    names = {row["metric"] for row in published} if long else list(published[0])[1:]
    for index, row in enumerate(how["rows"]):
        check_known(row["published"], models, f"{where}.rows[{index}].published", "model of the CSV")
    for index, column in enumerate(how["columns"]):
        here = f"{where}.columns[{index}]"
        for name in listed(column.get("published")):
            check_known(name, names, f"{here}.published", "metric of the CSV" if long else "column of the CSV")
        for row in how["rows"]:
            if "key" in column and "run" in row:
                check_key(config, column["key"], row, f"{here}.key")
        if score := column.get("score"):
            tables = [f"{path.parent.name}/{path.stem}" for path in (config.root / "config/tables").glob("*/*.yaml")]
            check_known(score["table"], tables, f"{here}.score.table", "table")
            other = _read_spec(config.root, score["table"])
            headings = [own["heading"] for own in [*other.get("columns", []), *other.get("averages", [])]]
            check_known(score["column"], headings, f"{here}.score.column", f"heading of {score['table']}")
    labels = [row["label"] for row in how["rows"]]
    _check_differences(how, labels, [column["heading"] for column in how["columns"]], where)


def _check_differences(how: dict, rows: Iterable[str], columns: Iterable[str], where: str) -> None:
    rows, columns = list(rows), list(columns)
    both = [f"{row}, {column}" for row in rows for column in columns]
    for name in how.get("differs", {}):
        check_known(name, [*rows, *columns, *both], f"{where}.differs", "row, column or 'row, column'")


def _check_resources(config: Any, how: dict, published: list[dict], where: str) -> None:
    for code in how["languages"]:
        check_known(code, [name for name in published[0] if name in config.languages], f"{where}.languages", "language")
    corpora = {name for run in config.runs.values() for _, name, _ in pairs_read(run)}
    for number, group in enumerate(how["groups"]):
        here = f"{where}.groups[{number}]"
        check_known(group["section"], {row["section"] for row in published}, f"{here}.section", "section of the CSV")
        for index, row in enumerate(group["rows"]):
            names = {own["resource"] for own in published if own["section"] == group["section"]}
            check_known(row["published"], names, f"{here}.rows[{index}].published", "resource of the CSV")
            if "corpus" in row:
                check_known(row["corpus"], corpora, f"{here}.rows[{index}].corpus", "corpus of a run")


# --- what a comparison names ----------------------------------------------------------------------------------------


def listed(value: Any) -> list:
    return [] if value is None else value if isinstance(value, list) else [value]


def rows_of(how: dict) -> dict[str, dict]:
    """The rows of hyper-parameters, each as a mapping: `Layers: model.layers` is `Layers: {key: model.layers}`."""
    return {name: row if isinstance(row, dict) else {"key": row} for name, row in how["rows"].items()}


def keys_of(row: dict) -> list[str]:
    """Several where the paper prints `15%/25%`."""
    return listed(row.get("key"))


def runs_of(spec: dict) -> list[str]:
    """The runs that a comparison names, sorted."""
    return sorted({value for entry in _mappings(spec["compare"]) for value in [entry.get("run")] if value})


def tasks_of(spec: dict) -> list[str]:
    return sorted({value for entry in _mappings(spec["compare"]) for value in [entry.get("task")] if value})


def _mappings(value: Any) -> Iterator[dict]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(item)


def reads_corpora(spec: dict) -> bool:
    """Does it show sizes of corpora?"""
    return bool({"corpora", "resources"} & set(spec.get("compare", ())))


def shows_training(spec: dict) -> bool:
    """Does it show what a training cost?"""
    columns = spec.get("compare", {}).get("models", {}).get("columns", [])
    return any(column.get("key", "").startswith("flops.") for column in columns)


def pairs_read(run: dict) -> list[tuple[str, str, str]]:
    """("bitext", corpus, pair) of a run, as written or resolved."""
    corpora = run.get("data", {}).get("bitext", {}).get("corpora", {})
    return sorted(("bitext", corpus, pair) for pair, names in corpora.items() for corpus in names)


def text_read(run: dict) -> list[tuple[str, str, str]]:
    """("mono", corpus, language) of a run."""
    mono = run.get("data", {}).get("mono")
    return sorted(("mono", mono["corpus"], code) for code in mono["languages"]) if mono else []


def score_specs(root: Path, spec: dict) -> list[dict]:
    """The tables of scores that a comparison takes columns from, each with the runs of its rows alone."""
    how = spec.get("compare", {}).get("models", {})
    runs = {row["run"] for row in how.get("rows", []) if "run" in row}
    specs = []
    for column in how.get("columns", []):
        if "score" not in column:
            continue
        other = _read_spec(root, column["score"]["table"])
        groups = [
            {
                **group,
                "rows": [{"label": row["label"], "run": row["run"]} for row in group["rows"] if row.get("run") in runs],
            }
            for group in other["groups"]
        ]
        whole = {key: value for key, value in other.items() if key not in ("published", "groups")}
        specs.append({**whole, "groups": [group for group in groups if group["rows"]]})
    return specs


def _read_spec(root: Path, item: str) -> dict:
    shown = f"config/tables/{item}.yaml"
    return read_yaml(root / shown, shown)


def published_rows(root: Path, spec: dict, shown: str) -> list[dict[str, str]]:
    """The printed rows of a comparison."""
    rows = read_rows(root / spec["published"], shown=f"{shown}, published: {spec['published']}")
    if not rows:
        raise UserError(f"{spec['published']}: has no rows; restore it from the repository")
    return rows
