"""Checks across files: what tasks, tables and figures may say. A schema sees one file alone."""

from __future__ import annotations

from pathlib import Path

from common.errors import UserError
from common.yamlfiles import check_known, read_yaml
from plan import compare_specs, figure_specs
from plan.check import located, names_in
from plan.config import Config
from plan.datasets import bitext_ids
from plan.printed import printed_models
from plan.recipes import ENCODER_KINDS, PARTS, expand_datasets, task_languages, train_languages
from plan.translators import pair_of


def check_task(config: Config, name: str) -> None:
    task, shown = config.tasks[name], f"config/tasks/{name}.yaml"
    for index, code in enumerate(task["languages"]):
        check_known(code, config.languages, f"{shown}, languages[{index}]", "language")
    _check_translation(config, name)
    modules = names_in("tasks/known.py", "TASKS")
    check_known(name, modules, f"{shown}, task", "module of a task in workflow/scripts/tasks/known.py")
    check_known(task["metric"], task["metrics"], f"{shown}, metric", "metric of this task")
    if sorted(task["chance"]) != sorted(task["metrics"]):
        raise UserError(
            f"{shown}, chance: has {', '.join(task['chance'])}, and metrics {', '.join(task['metrics'])}; name the same"
        )
    for recipe, own in task["recipes"].items():
        _check_layer(own or {}, f"{shown}, recipes.{recipe}")
    for setting, how in task["settings"].items():
        where = f"{shown}, settings.{setting}"
        for code in how["train"] if isinstance(how["train"], list) else []:
            check_known(code, task["languages"], f"{where}.train", "language")
        if model := how.get("model"):
            check_known(model["task"], config.tasks, f"{where}.model.task", "task")
            trained = config.tasks[model["task"]]
            check_known(model["setting"], trained["settings"], f"{where}.model.setting", "setting")
            if task["kind"] not in (*ENCODER_KINDS, trained["kind"]) or (
                task["kind"] not in ENCODER_KINDS and task.get("labels") != trained.get("labels")
            ):
                raise UserError(
                    f"{where}.model.task: {model['task']} has another kind of answer ({trained['kind']}) or other "
                    f"labels; name a task of kind {task['kind']} with the labels of this one"
                )
            other = trained["settings"][model["setting"]]
            if other.get("model") or other["train"] in ([], "each"):
                raise UserError(f"{where}.model.setting: {model['setting']} trains no one model itself; name another")
        elif "bitext" in how:
            _check_bitext(config, task["kind"], how, where)
        elif centre := how.get("centre"):
            if task["kind"] != "retrieval" or how["train"]:
                raise UserError(f"{where}.centre: is for kind retrieval with nothing to train; remove the key")
            _check_pairs(config, centre["run"], f"{where}.centre.run")
            _check_held_out(config, centre.get("held_out", {}), f"{where}.centre.held_out")
        elif task["kind"] == "translation" and how["train"] != "all":
            raise UserError(f"{where}.train: a translation model is trained on all its pairs; write all")
        elif how["train"] and task["kind"] in ENCODER_KINDS:
            raise UserError(f"{where}.train: kind {task['kind']} trains nothing; name a `model` or leave it empty")
        elif not how["train"] and task["kind"] not in ENCODER_KINDS:
            raise UserError(
                f"{where}.train: is empty, and kind {task['kind']} is fine-tuned; name languages or a `model`"
            )
        if how.get("pairs") and task["kind"] != "question-answering":
            raise UserError(f"{where}.pairs: is for a question and a context, not for kind {task['kind']}; remove it")
        by_part = dict.fromkeys(PARTS, task["languages"])
        by_part["train"] = train_languages(how, task["languages"], task["languages"])
        for key, id_ in expand_datasets(config, task["datasets"], by_part, shown).items():
            check_known(id_, config.datasets, f"{shown}, datasets.{key}", "dataset")
    overrides = config.scale.get("task_overrides", {}).get(name, {})
    allowed = {*task, "recipe", "train_limit"} - {"task", "version", "kind", "settings", "recipes"}
    changed = f"config/scales/{config.scale_name}.yaml, task_overrides.{name}"
    for key in overrides:
        check_known(key, allowed, changed, "key")
    for code in overrides.get("languages", []):
        check_known(code, task["languages"], f"{changed}.languages", f"language of {name}")
    for setting in overrides.get("recipe", {}).get("settings", {}):
        check_known(setting, task["settings"], f"{changed}.recipe.settings", "setting")
    if isinstance(limits := overrides.get("train_limit"), dict):
        for setting in limits:
            check_known(setting, {*task["settings"], "*"}, f"{changed}.train_limit", "setting")
    if "datasets" in overrides:
        by_part = dict.fromkeys(PARTS, task_languages(config, name)) | {"train": ["en"], "dev": ["en"]}
        for key, id_ in expand_datasets(config, overrides["datasets"], by_part, changed).items():
            check_known(id_, config.datasets, f"{changed}.datasets.{key}", "dataset")


def _check_layer(recipe: dict, where: str) -> None:
    for own in (recipe, *recipe.get("settings", {}).values()):
        if own.get("layer") is not None and own["layer"] > own.get("of", recipe.get("of", own["layer"])):
            raise UserError(
                f"{where}.layer: {own['layer']} of a model with {own.get('of', recipe.get('of'))}; lower it"
            )


def _check_translation(config: Config, name: str) -> None:
    """Corpora of pairs and one target language are for translation, and it needs them."""
    task, shown = config.tasks[name], f"config/tasks/{name}.yaml"
    if task["kind"] != "translation":
        if "bitext" in task:
            raise UserError(f"{shown}, bitext: is for kind translation, not for {task['kind']}; remove the key")
        return
    if len(task["languages"]) != 1 or task["languages"] == ["en"]:
        raise UserError(f"{shown}, languages: name the one language that English is translated into")
    if "bitext" not in task:
        raise UserError(f"{shown}: key 'bitext' is missing (the corpora that it is trained on)")
    for index, corpus in enumerate(task["bitext"]):
        located(config, f"{shown}, bitext[{index}]", bitext_ids, corpus, pair_of(task))
    for recipe, chosen in task["recipes"].items():
        if missing := [key for key in TRANSLATION_KEYS if key not in (chosen or {})]:
            raise UserError(f"{shown}, recipes.{recipe}: key '{missing[0]}' is missing, which kind translation needs")


TRANSLATION_KEYS = (
    "numerics", "max_length", "rows", "row_length", "device_rows", "steps", "warmup_steps", "peak_lr", "betas", "eps",
    "weight_decay", "clip", "dropout", "attention_dropout", "label_smoothing", "precision", "save_every", "snapshots",
    "average", "beam", "penalty",
)  # fmt: skip


def _check_bitext(config: Config, kind: str, how: dict, where: str) -> None:
    if kind != "retrieval" or how["train"] != "all":
        raise UserError(f"{where}.bitext: is for one model (train: all) of a task of kind retrieval; remove the key")
    _check_pairs(config, how["bitext"], f"{where}.bitext")


def _check_pairs(config: Config, run: str, where: str) -> None:
    check_known(run, config.runs, where, "run")
    pairs = config.runs[run].get("data", {}).get("bitext")
    if not pairs or "limit" in pairs:
        raise UserError(f"{where}: run '{run}' has no sentence pairs or limits them; name another")


def _check_held_out(config: Config, held_out: dict, where: str) -> None:
    for code, files in held_out.items():
        check_known(code, config.languages, where, "language")
        for id_ in files:
            check_known(id_, config.datasets, f"{where}.{code}", "dataset")


def check_spec(config: Config, spec: dict, shown: str) -> None:
    """Tasks, settings and runs that a table names exist, or are announced: a typing error must not print as `--`."""
    if "compare" in spec:
        compare_specs.check(config, spec, shown)
        return
    figure_specs.check(config, spec, shown)
    if any(kind in spec for kind in figure_specs.WITHOUT_RUNS):
        return
    vocabulary = read_announced(config.root)
    tasks = {*config.tasks, *vocabulary["tasks"]}
    settings = {setting for task in config.tasks.values() for setting in task["settings"]} | set(vocabulary["settings"])
    runs = {*config.runs, *vocabulary["runs"]}
    published = _published_models(config, spec, shown, vocabulary)
    columns = spec.get("columns", [])
    for index, column in enumerate(columns):
        check_known(column["task"], tasks, f"{shown}, columns[{index}].task", "task")
        if "setting" in column:
            check_known(column["setting"], settings, f"{shown}, columns[{index}].setting", "setting")
        if column["task"] in config.tasks:
            _check_column(config, column, f"{shown}, columns[{index}]")
    for number, group in enumerate(spec["groups"]):
        where = f"{shown}, groups[{number}]"
        if "setting" in group:
            check_known(group["setting"], settings, f"{where}.setting", "setting")
        for task, setting in group.get("settings", {}).items():
            check_known(task, {column["task"] for column in columns}, f"{where}.settings", "task of its columns")
            check_known(setting, settings, f"{where}.settings.{task}", "setting")
        if "setting" not in group and any("setting" not in column for column in columns):
            raise UserError(f"{where}: key 'setting' is missing, and not every column has one of its own")
        for index, row in enumerate(group["rows"]):
            if "run" in row:
                check_known(row["run"], runs, f"{where}.rows[{index}].run", "run")
            if "published" in row:
                if "published" not in spec:
                    raise UserError(f"{shown}: a row names a printed one, and no key `published` the CSV file of them")
                check_known(row["published"], published, f"{where}.rows[{index}].published", "model")


def _check_column(config: Config, column: dict, where: str) -> None:
    """Metric and languages are the task's own."""
    task = config.tasks[column["task"]]
    by_layer = task["metrics"] if task["kind"] in ("retrieval", "alignment") else []
    metrics = [*task["metrics"], *(f"{metric}-by-layer" for metric in by_layer)]
    if task["kind"] == "translation":
        metrics.append(f"{task['metric']}-by-update")
    if task["kind"] not in (*ENCODER_KINDS, "translation"):
        metrics.append("failures")  # of fine-tuning, on English dev
    check_known(column["metric"], metrics, f"{where}.metric", f"metric of {column['task']}")
    languages = {*task["languages"], "en"}
    for key, allowed in (("languages", languages), ("show", languages | {"avg", "others", "gap"})):
        for code in column[key] if isinstance(column.get(key), list) else []:
            check_known(code, allowed, f"{where}.{key}", f"language of {column['task']}")


def _published_models(config: Config, spec: dict, shown: str, announced: dict[str, list[str]]) -> set[str]:
    """The models of which the item's file of published numbers has one."""
    if "published" not in spec:
        return set()
    return printed_models(config, spec["published"], announced)


def read_announced(root: Path) -> dict[str, list[str]]:
    """What tables may name although nothing computes it yet: it is printed as `--` and listed as missing."""
    path = root / "config/announced.yaml"
    if str(path) not in _announced:
        announced = read_yaml(path, "config/announced.yaml")
        keys = ("tasks", "settings", "runs")
        if not isinstance(announced, dict) or sorted(announced) != sorted(keys):
            raise UserError(f"config/announced.yaml: must hold {', '.join(keys)}, each a list of names")
        for key in keys:
            if not isinstance(announced[key], list):
                raise UserError(f"config/announced.yaml, {key}: must be a list of names")
        _announced[str(path)] = announced
    return _announced[str(path)]


_announced: dict[str, dict[str, list[str]]] = {}
