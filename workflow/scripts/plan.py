"""The plan: read and check the whole configuration, and derive from the tables what has to be computed.

    config/tables, config/figures -> (run, task, setting) -> score files -> everything before them

The workflow calls this while it is parsed, so: standard library and PyYAML only (jsonschema to check the files), no
torch, numpy or pandas. Everything that a user can get wrong is found here, before any job, as one line with file and
key.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import claims
import compare_specs
import figure_specs
from common.errors import UserError
from common.typed import build
from common.yamlfiles import deep_merge, did_you_mean, line_of_parents, read_scale, read_yaml
from datasets import Dataset, Language, bitext_ids, load_datasets, load_languages, mono_ids
from engine.options import DESCRIPTIONS

# What each objective reads.
OBJECTIVE_DATA = {name: about.data for name, about in DESCRIPTIONS.items()}

# ---------------------------------------------------------------------------------------------------------------------
# Messages


def _key(path: Iterable[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _explain(error: Any, shown: str) -> str:
    """One jsonschema error as one line: file, key, what is wrong, what is allowed."""
    key = _key(error.absolute_path)
    where = f"{shown}, {key}" if key else shown
    schema, value = error.schema, error.instance
    if error.validator == "additionalProperties":
        allowed = sorted(schema.get("properties", {}))
        unknown = sorted(str(name) for name in value if name not in schema.get("properties", {}))[0]
        return f"{shown}, {key + '.' if key else ''}{unknown}: unknown key; {did_you_mean(unknown, allowed)}"
    if error.validator == "required":
        missing = sorted(name for name in error.validator_value if name not in value)[0]
        about = schema.get("properties", {}).get(missing, {}).get("description", "")
        return f"{where}: key '{missing}' is missing{f' ({about})' if about else ''}"
    if error.validator == "type":
        kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        hint = ""
        if isinstance(value, bool) and "string" in kinds:
            hint = '; YAML reads a bare no, yes, on or off as true or false: write it in quotes, "no"'
        elif isinstance(value, str) and {"number", "integer"} & set(kinds):
            hint = "; remove the quotes, and write exponents with a point, as 6.0e-4" if _is_number(value) else ""
        elif value is None:
            hint = "; give it a value or remove the key"
        kind = " or ".join(_TYPES[kind] for kind in kinds)
        return f"{where}: must be {kind}, is {json.dumps(value, ensure_ascii=False, default=str)}{hint}"
    if error.validator in ("enum", "const"):
        allowed = error.validator_value if error.validator == "enum" else [error.validator_value]
        allowed = ["null" if item is None else str(item) for item in allowed]
        return f"{where}: {value!r} is unknown; {did_you_mean(value, allowed)}"
    if error.validator == "propertyNames":
        return f"{where}: {error.instance!r} cannot be a key here; it must match {schema.get('pattern', schema)}"
    if error.validator == "pattern":
        about = schema.get("description", f"it must match {error.validator_value}")
        return f"{where}: {value!r} is not right here: {about}"
    bounds = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
    }
    if error.validator in bounds:
        return f"{where}: must be {bounds[error.validator]} {error.validator_value}, is {value}"
    if error.validator in ("minItems", "minLength", "minProperties"):
        return f"{where}: is empty; give at least {error.validator_value}"
    if error.validator == "uniqueItems":
        twice = sorted(str(item) for item in value if value.count(item) > 1)[0]
        return f"{where}: '{twice}' is named twice; remove one"
    if error.validator in ("anyOf", "oneOf"):
        about = schema.get("description")
        if about:
            return f"{where}: {json.dumps(value, ensure_ascii=False, default=str)} is not right here: {about}"
        return _explain(max(error.context, key=lambda inner: len(inner.absolute_path)), shown)
    return f"{where}: {error.message}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Schemas:
    """The JSON schemas of config/schemas, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.validators: dict[tuple[str, bool], Any] = {}

    def check(self, value: Any, kind: str, shown: str, partial: bool = False) -> None:
        key = (kind, partial)
        if key not in self.validators:
            from jsonschema import Draft202012Validator

            path = self.folder / f"{kind}.schema.json"
            try:
                schema = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise UserError(f"config/schemas/{path.name}: no such file; restore it from the repository") from None
            except json.JSONDecodeError as error:
                raise UserError(f"config/schemas/{path.name}:{error.lineno}: not JSON: {error.msg}") from None
            self.validators[key] = Draft202012Validator(_partial(schema) if partial else schema)
        if value is None:
            raise UserError(f"{shown}: the file is empty")
        # The unknown key first: a misspelt key is also a missing one, and the misspelling is what helps.
        rank = {"additionalProperties": 0, "type": 1}
        errors = sorted(
            self.validators[key].iter_errors(value),
            key=lambda error: (rank.get(error.validator, 2), [str(part) for part in error.absolute_path]),
        )
        if errors:
            raise UserError(_explain(errors[0], shown))


def check_schema(root: Path, value: Any, kind: str, shown: str) -> None:
    """Check the content of one file, which `shown` names, against config/schemas/<kind>.schema.json."""
    _Schemas(root / "config/schemas").check(value, kind, shown)


# ---------------------------------------------------------------------------------------------------------------------
# The configuration


@dataclass(frozen=True)
class Config:
    """Everything under config/, read and checked. `root` is the folder that holds config/."""

    root: Path
    settings: dict  # config/config.yaml with the overrides of the command line
    scale: dict  # config/scales/<scale>.yaml
    runs: dict[str, dict]  # as written; resolve_run makes them those of the scale
    tasks: dict[str, dict]
    tables: dict[str, dict]  # "ernie-m/table-01" -> spec; those that the configuration selects
    figures: dict[str, dict]
    languages: dict[str, Language]
    datasets: dict[str, Dataset]
    claims: list[dict] = field(default_factory=list)  # all, or those that the selected items can test
    _resolved: dict[str, dict] = field(default_factory=dict, repr=False, compare=False)
    _hashes: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)
    _recipes: dict[tuple[str, str, str], dict] = field(default_factory=dict, repr=False, compare=False)

    @property
    def scale_name(self) -> str:
        return self.settings["scale"]

    @property
    def specs(self) -> dict[str, dict]:
        return {**self.tables, **self.figures}

    @property
    def seeds(self) -> list[int]:
        return self.settings.get("seeds") or self.scale["seeds"]

    @property
    def has_world(self) -> bool:
        """Does this scale read the generated mini-world in place of the network?"""
        return self.scale.get("world") is not None

    @cached_property
    def selected(self) -> frozenset[str]:
        """The runs that tables may ask for: those of config.yaml, or else of the scale, or else all."""
        chosen = self.settings.get("runs") or ("all" if self.from_reference else self.scale.get("runs")) or "all"
        return frozenset(self.runs if chosen == "all" else chosen) - self.not_here

    @cached_property
    def pretrained(self) -> list[str]:
        """The runs that are trained here; the others are somebody's checkpoints, or align words without a model."""
        return [name for name, run in self.runs.items() if run["kind"] == "pretrain"]

    @cached_property
    def imported(self) -> list[str]:
        """The runs whose weights are somebody's checkpoint, as far as this scale can have them."""
        found = (name for name, run in self.runs.items() if run["kind"] == "checkpoint")
        return [name for name in found if not (self.has_world and "hub" in self.runs[name]["source"])]

    @cached_property
    def not_here(self) -> set[str]:
        """The published checkpoints that a scale with a generated world has no use for, and what starts from them; and
        what starts from a checkpoint of another shape than this scale gives it."""
        checkpoints = {name for name, run in self.runs.items() if run["kind"] == "checkpoint"}
        lines = {name: set(lineage(self, name)) & checkpoints for name in self.runs} if checkpoints else {}
        missing = checkpoints - set(self.imported)
        started = [name for name, line in lines.items() if line - {name} and not line & missing]
        unlike = {name for name in started if not _hash_of(self, name)}
        return {name for name, line in lines.items() if line & missing} | unlike

    @property
    def from_reference(self) -> bool:
        """Are tables made from the reference scores that lie in the repository, with nothing trained?"""
        return self.settings.get("scores_from") == "reference"

    @property
    def listed(self) -> list[str]:
        """The runs that somebody asks for, by name or by the word all: `models` trains them, table or not."""
        chosen = self.settings.get("runs") or self.scale.get("runs") or []
        if self.from_reference:
            return []
        return sorted({*self.runs} - self.not_here if chosen == "all" else chosen)


def load_config(
    root: str | Path = ".", overrides: dict | None = None, path: str | Path = "config/config.yaml"
) -> Config:
    """Read and check config/**; `overrides` replace keys of `path` (the command line's `--config key=value`)."""
    root = Path(root)
    schemas = _Schemas(root / "config/schemas")
    settings = read_yaml(root / path, str(path))
    schemas.check(settings, "config", str(path))
    overrides = {key: _typed(value) for key, value in (overrides or {}).items()}
    if overrides:
        settings = {**settings, **overrides}
        schemas.check(settings, "config", COMMAND_LINE)
    scales = _names(root / "config/scales", "*.yaml")
    if settings["scale"] not in scales:
        where = COMMAND_LINE if "scale" in (overrides or {}) else path
        raise UserError(f"{where}, scale: '{settings['scale']}' is unknown; {did_you_mean(settings['scale'], scales)}")

    languages = load_languages(root / "config/languages.tsv")
    datasets = load_datasets(root / "config/datasets.tsv")
    scale_file = f"config/scales/{settings['scale']}.yaml"
    scale = _named(read_scale(root / scale_file, scale_file), scale_file, schemas, "scale")
    runs = _read_runs(root, schemas)
    tasks = {
        name: _read_named(root, f"config/tasks/{name}.yaml", schemas, "task", key="task")
        for name in _names(root / "config/tasks")
    }
    config = Config(root, settings, scale, runs, tasks, {}, {}, languages, datasets)
    _check_scale(config, schemas, scale_file)
    for name in runs:
        _check_run(config, name)
    for name in tasks:
        _check_task(config, name)
    specs = {kind: _read_specs(config, schemas, kind) for kind in ("table", "figure")}
    _check_filters(config, {**specs["table"], **specs["figure"]}, str(path), overrides or {})
    config.tables.update(_select(settings, specs["table"]))
    config.figures.update(_select(settings, specs["figure"]))
    config.claims.extend(_select_claims(config, _read_claims(config, schemas)))
    for item, spec in config.specs.items():
        found = needs(config, spec, item)
        for run, _, _ in found:
            resolve_run(config, run)  # says so here, not in a job, if the scale leaves an objective without data
        for need in translators(config, found):
            resolve_translator(config, *need)
    for run in config.listed:
        resolve_run(config, run)
        if run in config.not_here:
            raise UserError(f"{COMMAND_LINE if overrides else path}, runs: {not_here(config, run)}; leave it out")
    return config


def _typed(value: Any) -> Any:
    """Snakemake reads `--config seeds=[1,2]` as a list of texts, and null as a text: give them their types back."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if value in ("", "null", "~"):
        return None
    if value in ("true", "false"):
        return value == "true"
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value


def changed_settings(config: Config, path: str | Path = "config/config.yaml") -> dict:
    """The settings that the command line changed: what a script needs to see the same configuration."""
    written = read_yaml(config.root / path, str(path))
    return {key: value for key, value in sorted(config.settings.items()) if written.get(key) != value}


def _names(folder: Path, pattern: str = "*.yaml") -> list[str]:
    return sorted(path.stem for path in folder.glob(pattern) if not path.name.startswith("."))


def _read_named(root: Path, shown: str, schemas: _Schemas, kind: str, key: str = "name") -> dict:
    return _named(read_yaml(root / shown, shown), shown, schemas, kind, key)


def _named(value: Any, shown: str, schemas: _Schemas, kind: str, key: str = "name") -> dict:
    schemas.check(value, kind, shown)
    stem = Path(shown).stem
    if value.get(key, stem) != stem:
        raise UserError(f"{shown}, {key}: is '{value[key]}' but the file is called '{stem}'; make them equal")
    return value


COMMAND_LINE = "--config (command line)"

# What a run never takes from the run that it extends: they say which run it is.
OWN_KEYS = ("name", "paper")


def _read_runs(root: Path, schemas: _Schemas) -> dict[str, dict]:
    """Every run with what it extends; parents first, so that a mistake is found in the file that holds it."""
    shown = {name: f"config/runs/{name}.yaml" for name in _names(root / "config/runs")}
    written = {name: read_yaml(root / file, file) for name, file in shown.items()}
    lines: dict[str, list[str]] = {}
    for name, file in shown.items():
        lines[name] = line_of_parents(written[name], file, shown, written.__getitem__)
    runs: dict[str, dict] = {}
    for name in sorted(shown, key=lambda name: (len(lines[name]), name)):
        run = written[name]
        if lines[name]:
            base = {key: value for key, value in runs[lines[name][0]].items() if key not in OWN_KEYS}
            run = deep_merge(base, {key: value for key, value in run.items() if key != "extends"})
        kind = _schema_of_run(run, shown[name])
        runs[name] = _without_nulls(_named(_overridden(run, shown[name]), shown[name], schemas, kind))
    return runs


SCHEMAS_OF_RUNS = {"pretrain": "run", "aligner": "aligner", "checkpoint": "checkpoint"}


def _schema_of_run(run: Any, shown: str) -> str:
    kind = run.get("kind", "pretrain") if isinstance(run, dict) else "pretrain"
    _known(kind, SCHEMAS_OF_RUNS, f"{shown}, kind", "kind of run")
    return SCHEMAS_OF_RUNS[kind]


def _overridden(run: Any, shown: str) -> Any:
    """A run whose `objective_overrides`, by name as in a scale, are laid over the objectives that it extends."""
    if not isinstance(run, dict) or not isinstance(run.get("objective_overrides"), dict):
        return run
    if not all(isinstance(own, dict) for own in _list(run.get("objectives"))):
        raise UserError(f"{shown}, objectives: must be a list of mappings, each with a `name`")
    for name, change in run["objective_overrides"].items():
        if not isinstance(change, dict | None):
            raise UserError(f"{shown}, objective_overrides.{name}: must be a mapping, is {json.dumps(change)}")
    known = [str(objective.get("name")) for objective in run.get("objectives", [])]
    changes = run["objective_overrides"]
    for objective in changes:
        _known(objective, known, f"{shown}, objective_overrides", "objective of this run")
    objectives = [deep_merge(own, changes.get(own.get("name")) or {}) for own in run["objectives"]]
    return {key: value for key, value in run.items() if key != "objective_overrides"} | {"objectives": objectives}


def _list(value: Any) -> list:
    return value if isinstance(value, list) else [value]


def _without_nulls(value: Any) -> Any:
    """null in a run says that there is no such thing: it takes out what the run that is extended has."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _read_specs(config: Config, schemas: _Schemas, kind: str) -> dict[str, dict]:
    folder = config.root / f"config/{kind}s"
    specs = {}
    for path in sorted(folder.glob("*/*.yaml")):
        item = f"{path.parent.name}/{path.stem}"
        shown = f"config/{kind}s/{item}.yaml"
        spec = read_yaml(path, shown)
        schemas.check(spec, kind, shown)
        for key, expected in (("paper", path.parent.name), ("item", path.stem)):
            if spec[key] != expected:
                raise UserError(f"{shown}, {key}: is '{spec[key]}' but the file says '{expected}'; make them equal")
        _check_spec(config, spec, shown)
        specs[item] = spec
    return specs


def _select(settings: dict, specs: dict[str, dict]) -> dict[str, dict]:
    papers, items = settings.get("papers"), settings.get("items")
    return {
        item: spec
        for item, spec in specs.items()
        if (papers is None or spec["paper"] in papers) and (items is None or item in items)
    }


# ---------------------------------------------------------------------------------------------------------------------
# Checks across files


def _known(word: str, known: Iterable[str], where: str, what: str) -> None:
    known = list(known)
    if word not in known:
        raise UserError(f"{where}: unknown {what} '{word}'; {did_you_mean(word, known)}")


def _check_filters(config: Config, specs: dict[str, dict], written: str, overridden: Iterable[str]) -> None:
    settings = config.settings
    shown = {key: COMMAND_LINE if key in overridden else written for key in ("papers", "items", "runs")}
    for index, paper in enumerate(settings.get("papers") or []):
        _known(paper, {spec["paper"] for spec in specs.values()}, f"{shown['papers']}, papers[{index}]", "paper")
    for index, item in enumerate(settings.get("items") or []):
        _known(item, specs, f"{shown['items']}, items[{index}]", "table or figure")
    chosen = settings.get("runs")
    for index, run in enumerate([] if chosen == "all" else chosen or []):
        _known(run, config.runs, f"{shown['runs']}, runs[{index}]", "run")
    if specs and not _select(settings, specs):
        raise UserError(f"{shown['items']}, papers and items: no table or figure is of both; take one of the two out")


def _partial(schema: dict) -> dict:
    """A schema of the same shape where nothing is required: overrides name a few keys."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("required", "minProperties")}
    if "properties" in kept:
        kept["properties"] = {key: _partial(value) for key, value in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _partial(kept["items"])
    return kept


# A scale shrinks a run; it does not make another one of it. `schedule.first` shrinks with the steps.
WHAT_A_RUN_IS = {
    "": ("name", "extends", "paper", "kind", "data", "objectives", "init", "decoder"),
    "model": ("absolute_positions", "token_types", "languages", "relative_bias", "admin"),
    "schedule": ("steps_share", "alternate", "first"),
}


def _check_scale(config: Config, schemas: _Schemas, shown: str) -> None:
    scale = config.scale
    schemas.check(scale.get("run_overrides", {}), "run", f"{shown}, run_overrides", partial=True)
    for section, keys in WHAT_A_RUN_IS.items():
        overrides = scale.get("run_overrides", {})
        for key in keys:
            if key in (overrides.get(section, {}) if section else overrides):
                where = f"{shown}, run_overrides.{section + '.' if section else ''}{key}"
                raise UserError(f"{where}: a scale does not change what a run is; remove the key")
    if "finetune_recipe" in scale.get("run_overrides", {}):
        where = f"{shown}, run_overrides.finetune_recipe"
        _check_recipe_name(config, scale["run_overrides"]["finetune_recipe"], where)
    for index, run in enumerate(scale.get("runs") or []):
        _known(run, config.runs, f"{shown}, runs[{index}]", "run")
    for rule in scale.get("resources", {}):
        _known(rule, _names(Path(__file__).parent, "*.py"), f"{shown}, resources", "rule")
    for objective, changes in scale.get("objective_overrides", {}).items():
        where = f"{shown}, objective_overrides"
        _known(objective, OBJECTIVE_DATA, where, "objective")
        schemas.check({"objectives": [changes]}, "run", f"{where}.{objective}", partial=True)
        _options({"name": objective, **changes}, f"{where}.{objective}")
    for task, changes in scale.get("task_overrides", {}).items():
        recipe = {"default": changes.get("recipe", {})}
        schemas.check({"recipes": recipe}, "task", f"{shown}, task_overrides.{task}", partial=True)
    vocabulary = scale["vocabulary"]
    if sum(key in vocabulary for key in ("given", "size", "of")) != 1:
        raise UserError(
            f"{shown}, vocabulary: give one of 'given' (a dataset id), 'size' (to train one) and 'of' (a run of kind "
            "checkpoint, for its tokenizer)"
        )
    if "of" in vocabulary:
        _known(
            vocabulary["of"],
            [name for name, run in config.runs.items() if run["kind"] == "checkpoint"],
            f"{shown}, vocabulary.of",
            "run of kind checkpoint",
        )
        if vocabulary["of"] not in config.imported:
            raise UserError(f"{shown}, vocabulary.of: {not_here(config, vocabulary['of'])}; take one in a folder")
    for key in ("sentences", "character_coverage") if "size" in vocabulary else ():
        if key not in vocabulary:
            raise UserError(f"{shown}, vocabulary: key '{key}' is missing, which a vocabulary to train needs")
    for key, id_ in (("vocabulary.given", vocabulary.get("given")), ("language_id", scale["language_id"])):
        if id_ not in (None, "trained"):
            _known(id_, config.datasets, f"{shown}, {key}", "dataset")
    world = scale.get("world")
    if world:
        for code in world["languages"]:
            _known(code, config.languages, f"{shown}, world.languages", "language")
        for key in ("languages", "evaluation_languages"):
            for index, code in enumerate(scale.get(key) or []):
                _known(code, world["languages"], f"{shown}, {key}[{index}]", "language of the world")
        if not scale["languages"]:
            raise UserError(f"{shown}, languages: a scale with a world lists its languages")
        for index, corpus in enumerate(world.get("translation", {}).get("corpora", [])):
            known = {own for task in config.tasks.values() for own in task.get("bitext", [])}
            _known(corpus, known, f"{shown}, world.translation.corpora[{index}]", "corpus of a translation task")
        for code, corpora in world["bitext"].items():
            _known(code, world["languages"], f"{shown}, world.bitext", "language of the world")
            for index, corpus in enumerate(corpora):
                where = f"{shown}, world.bitext.{code}[{index}]"
                _found(where, bitext_ids, corpus, "-".join(sorted(("en", code))), config.datasets, config.languages)
    for index, code in enumerate(scale.get("languages") or []):
        _known(code, config.languages, f"{shown}, languages[{index}]", "language")
    for index, task in enumerate(scale.get("decontaminate", [])):
        _known(task, _names(config.root / "config/tasks"), f"{shown}, decontaminate[{index}]", "task")
    for task in scale.get("task_overrides", {}):
        _known(task, _names(config.root / "config/tasks"), f"{shown}, task_overrides", "task")


def _check_recipe_name(config: Config, name: str, where: str) -> None:
    """A task without a recipe of this name takes its default; one that no task has is a slip."""
    _known(name, {recipe for task in config.tasks.values() for recipe in task["recipes"]}, where, "recipe")


def _check_run(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    data = run.get("data", {})
    mono, bitext = data.get("mono"), data.get("bitext")
    if mono:
        for index, code in enumerate(mono["languages"]):
            where = f"{shown}, data.mono.languages[{index}]"
            _known(code, config.languages, where, "language")
            _found(where, mono_ids, mono["corpus"], code, config.datasets, config.languages)
    if bitext:
        for pair, corpora in bitext["corpora"].items():
            codes = pair.split("-")
            for code in codes:
                _known(code, config.languages, f"{shown}, data.bitext.corpora.{pair}", "language")
            if codes != sorted(set(codes)):
                raise UserError(
                    f"{shown}, data.bitext.corpora.{pair}: write the two codes in alphabetical order, "
                    f"'{'-'.join(sorted(set(codes)))}'"
                )
            for index, corpus in enumerate(corpora):
                where = f"{shown}, data.bitext.corpora.{pair}[{index}]"
                _found(where, bitext_ids, corpus, pair, config.datasets, config.languages)
    if run["kind"] == "pretrain":
        _check_pretraining(config, name)
    elif run["kind"] == "checkpoint":
        _check_checkpoint(config, name)


HUB = "hub/"  # ids of config/datasets.tsv: hub/<name on the hub>/<file>
WEIGHTS = (".safetensors", ".bin")


def checkpoint_ids(config: Config, hub: str) -> list[str]:
    """The files of a repository on the hub, as config/datasets.tsv has them."""
    return sorted(id_ for id_ in config.datasets if id_.startswith(f"{HUB}{hub}/"))


def _check_checkpoint(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    _check_recipe_name(config, run["finetune_recipe"], f"{shown}, finetune_recipe")
    if len({"hub", "folder"} & set(run["source"])) != 1:
        raise UserError(f"{shown}, source: give either 'hub' (a name on the hub) or 'folder', not both")
    folder = run["source"].get("folder", "")
    if strange := next((letter for letter in folder if letter in "{}" or not letter.isprintable()), None):
        raise UserError(
            f"{shown}, source.folder: {folder!r} holds {strange!r}, which no rule can name; rename the folder"
        )
    if hub := run["source"].get("hub"):
        ids = checkpoint_ids(config, hub)
        if f"{HUB}{hub}/config.json" not in ids or not any(id_.endswith(WEIGHTS) for id_ in ids):
            raise UserError(
                f"{shown}, source.hub: config/datasets.tsv lacks files of {hub}; give it a row for each file that the "
                f"model needs (config.json, model.safetensors or pytorch_model.bin, and the tokenizer's), the first "
                f"with id {HUB}{hub}/config.json and url https://huggingface.co/{hub}/resolve/main/config.json"
            )


def checkpoint_folder(config: Config, name: str) -> Path:
    """The folder that a run of kind checkpoint names, from the root of the repository."""
    folder = config.root / config.runs[name]["source"]["folder"]
    if not (folder / "config.json").is_file():
        raise UserError(
            f"config/runs/{name}.yaml, source.folder: {folder} holds no config.json; name the folder of a checkpoint "
            "in Hugging Face's layout"
        )
    return folder


def _check_pretraining(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    data = run.get("data", {})
    _check_recipe_name(config, run["finetune_recipe"], f"{shown}, finetune_recipe")
    for index, objective in enumerate(run["objectives"]):
        where = f"{shown}, objectives[{index}]"
        _known(objective["name"], OBJECTIVE_DATA, f"{where}.name", "objective")
        kind = OBJECTIVE_DATA[objective["name"]]
        if kind not in data:
            raise UserError(
                f"{where}: objective '{objective['name']}' reads {kind} data but the run has no data.{kind}; "
                "add it, or remove the objective"
            )
        if (length := deepest(objective, where)) > run["model"]["layers"]:
            raise UserError(
                f"{where}.options: asks for layer {length} of a model with {run['model']['layers']}; lower it"
            )
        mask = objective["mask"]
        if abs(mask["mask"] + mask["random"] + mask["keep"] - 1) > 1e-9:
            raise UserError(f"{where}.mask: mask + random + keep must be 1")
    _check_decoder(run, shown)
    names = [objective["name"] for objective in run["objectives"]]
    if len(names) != len(set(names)):
        raise UserError(f"{shown}, objectives: '{max(names, key=names.count)}' stands twice; raise its weight instead")
    if run["model"]["width"] % run["model"]["heads"]:
        raise UserError(
            f"{shown}, model.heads: {run['model']['heads']} does not divide the width {run['model']['width']}"
        )
    if bool(run["objectives"]) != (run["schedule"]["steps"] > 0):
        raise UserError(f"{shown}, schedule.steps: a run with objectives has steps, a run without has 0")
    if (first := run["schedule"].get("first")) and first["steps"] >= run["schedule"]["steps"]:
        raise UserError(f"{shown}, schedule.first.steps: the first phase must end before schedule.steps does")
    codes = languages_of(data)
    if run["model"].get("languages", 0) not in (0, len(codes)):
        raise UserError(
            f"{shown}, model.languages: is {run['model']['languages']} but data names {len(codes)} languages; "
            "one vector per language"
        )
    lineage(config, name)


def _check_decoder(run: dict, shown: str) -> None:
    """Where a translation model of this run takes its decoder from exists."""
    decoder = run.get("decoder", {})
    if decoder.get("layers", 1) > run["model"]["layers"]:
        raise UserError(
            f"{shown}, decoder.layers: {decoder['layers']} of a model with {run['model']['layers']}; lower it"
        )
    names = {objective["name"] for objective in run["objectives"]}
    if decoder.get("start", "fresh") != "fresh" and not names & set(WITH_CROSS_ATTENTION):
        raise UserError(
            f"{shown}, decoder.start: '{decoder['start']}' layers become a decoder only with cross-attention, which "
            f"the objectives {', '.join(WITH_CROSS_ATTENTION)} train; write fresh"
        )
    if decoder and names & _with_decoder():
        raise UserError(f"{shown}, decoder: its objective trains a decoder, which translates; remove the key")


def _with_decoder() -> set[str]:
    """The objectives that train a decoder of their own."""
    return {name for name, about in DESCRIPTIONS.items() if hasattr(about.options, "decoder_layers")}


def _options(objective: dict, where: str) -> Any:
    """The options of an objective as the engine builds them, from engine/options.py."""
    try:
        return build(DESCRIPTIONS[objective["name"]].options, objective.get("options", {}), "options")
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _depths(objective: dict, where: str) -> dict[str, int]:
    """Those options of an objective that are a layer or a number of layers."""
    options = vars(_options(objective, where))
    return {key: value for key, value in options.items() if key == "layer" or key.endswith("_layers")}


def deepest(objective: dict, where: str) -> int:
    return max(_depths(objective, where).values(), default=0)


def languages_of(data: dict) -> set[str]:
    pairs = data.get("bitext", {}).get("corpora", {})
    return set(data.get("mono", {}).get("languages", [])) | {code for pair in pairs for code in pair.split("-")}


def lineage(config: Config, name: str) -> list[str]:
    """The run and those that it starts from, one from the other."""
    line = [name]
    while init := config.runs[line[-1]].get("init"):
        where = f"config/runs/{line[-1]}.yaml, init.run"
        _known(init["run"], config.runs, where, "run")
        if config.runs[init["run"]]["kind"] == "aligner":
            raise UserError(f"{where}: '{init['run']}' aligns words and has no weights; name a run of kind pretrain")
        line.append(init["run"])
        if init["run"] in line[:-1]:
            files = " -> ".join(f"config/runs/{run}.yaml" for run in line[line.index(init["run"]) :])
            raise UserError(f"{where}: goes round, {files}; let one of them start from scratch")
    return line


def with_ancestors(config: Config, runs: Iterable[str]) -> list[str]:
    """These runs and whatever they start from, each as the run that is trained for it; of checkpoints nobody trains."""
    found = {trained_run(config, run) for name in runs for run in lineage(config, name)}
    return sorted(run for run in found if config.runs[run]["kind"] != "checkpoint")


def checkpoints_of(config: Config, runs: Iterable[str]) -> list[str]:
    """The checkpoints among these runs and what they start from."""
    found = {trained_run(config, run) for name in runs for run in lineage(config, name)}
    return sorted(found & set(config.imported))


def _found(where: str, find: Any, *arguments: Any) -> list[str]:
    try:
        return find(*arguments)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


# ---------------------------------------------------------------------------------------------------------------------
# Runs


def resolve_run(config: Config, name: str) -> dict:
    """One run at the configured scale: what results/<scale>/runs/<run>/run.yaml holds.

    The scale's run_overrides are laid over the run; languages and pairs are those that the scale has. A run without
    objectives stays untrained: a scale's schedule does not give it steps.
    """
    if name not in config._resolved:
        config._resolved[name] = _resolve_run(config, name)
    return config._resolved[name]


def _resolve_run(config: Config, name: str) -> dict:
    _known(name, config.runs, "config/runs", "run")
    run, scale = config.runs[name], config.scale
    shown = f"config/scales/{config.scale_name}.yaml"
    if run["kind"] == "checkpoint":  # what it is does not depend on the scale
        return copy.deepcopy({key: value for key, value in run.items() if key != "paper"})
    if run["kind"] == "aligner":  # it has pairs and nothing else that a scale could shrink
        resolved = copy.deepcopy({key: value for key, value in run.items() if key != "paper"})
        _keep_data(config, name, resolved)
        return resolved
    own = {key: value for key, value in run.items() if key not in ("paper", "decoder")}
    resolved = deep_merge(own, scale.get("run_overrides", {}))
    resolved["objectives"] = [_scaled_objective(config, run, own, resolved) for own in run["objectives"]]
    resolved["schedule"] = _scaled_schedule(run, scale.get("run_overrides", {}).get("schedule", {}))
    _keep_data(config, name, resolved)
    if run["model"].get("languages"):
        resolved["model"]["languages"] = len(languages_of(resolved["data"]))
    model, batch, schedule = resolved["model"], resolved["batch"], resolved["schedule"]
    if model["width"] % model["heads"]:
        raise UserError(
            f"{shown}, run_overrides.model.heads: run '{name}' gets {model['heads']} heads, "
            f"which do not divide its width {model['width']}"
        )
    longest = max([batch["row_length"], *(own.get("row_length", 0) for own in resolved["objectives"])])
    if longest + 2 > model["positions"]:
        raise UserError(
            f"{shown}, run_overrides.model.positions: run '{name}' has rows of {longest} tokens "
            f"and needs at least {longest + 2} positions, has {model['positions']}"
        )
    for own in resolved["objectives"]:
        if (layer := deepest(own, shown)) > model["layers"]:
            raise UserError(
                f"{shown}, objective_overrides.{own['name']}.options: run '{name}' asks for layer {layer} "
                f"of a model with {model['layers']}; lower it"
            )
    if schedule["warmup_steps"] + schedule.get("first", {}).get("steps", 0) > schedule["steps"]:
        raise UserError(
            f"{shown}, run_overrides.schedule.warmup_steps: run '{name}' would warm up longer than it trains"
        )
    if "init" in run:
        resolved["init"] = _resolved_init(config, name, resolved)
    return resolved


def _scaled_objective(config: Config, run: dict, own: dict, resolved: dict) -> dict:
    """One objective at the size of the scale. With another batch it keeps its share of the step's tokens, in packed
    rows of that batch; in another depth a layer keeps its relative place. `objective_overrides` have the last word.
    """
    overrides = config.scale.get("run_overrides", {})
    changes: dict = {}
    batch, now = run["batch"], resolved["batch"]
    if {"rows", "row_length"} & set(overrides.get("batch", {})):
        tokens = own.get("rows", batch["rows"]) * own.get("row_length", batch["row_length"])
        rows = max(1, round(tokens / (batch["rows"] * batch["row_length"]) * now["rows"]))
        changes = {"rows": None if rows == now["rows"] else rows, "row_length": None, "packing": None}
    layers = run["model"]["layers"]
    if layers != resolved["model"]["layers"]:
        depths = _depths(own, f"config/runs/{run['name']}.yaml, objectives")
        scaled = {
            key: max(min(1, value), round(value * resolved["model"]["layers"] / layers))
            for key, value in depths.items()
        }
        changes |= {"options": scaled} if scaled else {}
    changes = deep_merge(changes, config.scale.get("objective_overrides", {}).get(own["name"], {}))
    return _without_nulls(deep_merge(own, changes))


def _scaled_schedule(run: dict, overrides: dict) -> dict:
    """With the steps of a scale, warm-up and first phase shrink in proportion; an untrained run stays untrained."""
    own = {key: copy.deepcopy(value) for key, value in run["schedule"].items() if key != "steps_share"}
    if not run["objectives"]:
        return own
    schedule = {**own, **overrides}
    shrink = schedule["steps"] / own["steps"]
    if "warmup_steps" not in overrides:
        schedule["warmup_steps"] = round(own["warmup_steps"] * shrink)
    if first := schedule.get("first"):
        first["steps"] = max(1, round(first["steps"] * shrink))
        first["warmup_steps"] = round(first["warmup_steps"] * shrink)
    schedule["steps"] = round(schedule["steps"] * run["schedule"].get("steps_share", 1))
    return schedule


def _keep_data(config: Config, name: str, resolved: dict) -> None:
    """Only the languages, pairs and corpora that the scale has."""
    shown = f"config/scales/{config.scale_name}.yaml"
    allowed = config.scale.get("languages")
    world = None  # pair -> the corpora that the generated world has for it
    if config.has_world:
        world = {"-".join(sorted(("en", code))): names for code, names in config.scale["world"]["bitext"].items()}
    data = resolved["data"] = dict(resolved["data"])  # the run's own stays as it is written
    if "mono" in data:
        languages = sorted(code for code in data["mono"]["languages"] if allowed is None or code in allowed)
        data["mono"] = {**data["mono"], "languages": languages}
        if not languages:
            del data["mono"]
    if "bitext" in data:
        corpora = {
            pair: sorted(corpus for corpus in names if world is None or corpus in world.get(pair, ()))
            for pair, names in sorted(data["bitext"]["corpora"].items())
            if allowed is None or set(pair.split("-")) <= set(allowed)
        }
        data["bitext"] = {**data["bitext"], "corpora": {pair: names for pair, names in corpora.items() if names}}
        if config.has_world and data["bitext"].get("limit", 0) >= config.scale["world"]["pairs"]:
            del data["bitext"]["limit"]  # nothing to cut: runs that differ in it alone are one run here
        if not data["bitext"]["corpora"]:
            del data["bitext"]
    for objective in resolved.get("objectives", []):
        if OBJECTIVE_DATA[objective["name"]] not in data:
            raise UserError(
                f"{shown}, languages: leaves objective '{objective['name']}' of run '{name}' "
                f"without {OBJECTIVE_DATA[objective['name']]} data; add languages that the run has such data for"
            )


# What decides the shape or the meaning of a weight, and the weights that a run may make afresh where it differs.
SHAPES = {
    "layers": "encoder.blocks",
    "width": "encoder",
    "heads": "encoder.blocks",
    "ffn": "encoder.blocks",
    "positions": "encoder.positions",
    "absolute_positions": "encoder.positions",
    "token_types": "encoder.token_types",
    "languages": "encoder.languages",
    "admin": "encoder.blocks",
}
WITHOUT = {"absolute_positions": True, "admin": False}  # what a model is that does not say it


def _resolved_init(config: Config, name: str, resolved: dict) -> dict:
    """The run to start from as the one that stands for it, and its hash: when that run changes, so does this one."""
    init = config.runs[name]["init"]
    parent = resolve_run(config, init["run"])
    if {run for run in lineage(config, name) if config.runs[run]["kind"] == "checkpoint"} - set(config.imported):
        raise UserError(
            f"config/runs/{name}.yaml, init.run: '{init['run']}' is a published checkpoint, and scale "
            f"{config.scale_name} has made-up languages; take small or paper"
        )
    fresh = init.get("fresh", [])
    own, given = vocabulary_size(config), parent["model"].get("vocabulary", 0)
    if own and given and own != given:
        raise UserError(
            f"config/runs/{name}.yaml, init.run: '{init['run']}' has a vocabulary of {given:,} ids, and that of scale "
            f"{config.scale_name} has {own:,}; in config/scales/{config.scale_name}.yaml write vocabulary: "
            f"{{of: {init['run']}}}"
        )
    for key, weights in SHAPES.items():
        own, given = (one["model"].get(key, WITHOUT.get(key, 0)) for one in (resolved, parent))
        if own != given and weights not in fresh:
            raise UserError(
                f"config/runs/{name}.yaml, init.run: '{init['run']}' has model.{key} {given} and this run {own} "
                f"at scale {config.scale_name}; make them equal, or put {weights} into init.fresh"
            )
    return {**init, "run": trained_run(config, init["run"]), "run_hash": run_hash(parent)[:16]}


GIVEN_VOCABULARIES = {"xlm-r/sentencepiece": 250_002}  # ids: its 249,997 pieces, four special ones and <mask>


def vocabulary_size(config: Config) -> int:
    """Ids of the scale's vocabulary; 0 where a given one is not known."""
    chosen = config.scale["vocabulary"]
    if "of" in chosen:
        return config.runs[chosen["of"]]["model"]["vocabulary"]
    return GIVEN_VOCABULARIES.get(chosen["given"], 0) if "given" in chosen else chosen["size"]


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON: the same for equal content, however it is written or ordered."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def run_hash(resolved: dict) -> str:
    """The identity of the weights: everything in a resolved run but its names and how it is fine-tuned afterwards."""
    return digest({key: value for key, value in resolved.items() if key not in ("name", "paper", "finetune_recipe")})


def trained_run(config: Config, name: str) -> str:
    """The run whose weights are those of `name` at this scale: of several with equal content, the one that extends the
    fewest files, then the first by name. xlm-r-small is xlm-r where the scale makes them equal.
    """
    return next(iter(_equal_runs(config, name)))


def canonical_run(config: Config, name: str, task: str | None = None) -> str:
    """The run whose scores are those of `name` at this scale: equal weights, fine-tuned by an equal recipe; for a task
    of translation with an equal decoder too."""

    def how(run: str) -> tuple[str, dict | None]:
        translates = task in config.tasks and config.tasks[task]["kind"] == "translation" and run in config.pretrained
        return recipe_of(config, run), decoder_of(config, run) if translates else None

    own = how(name)
    return next(run for run in _equal_runs(config, name) if how(run) == own)


WITH_CROSS_ATTENTION = ("veco-mono", "veco-pairs")
DECODER = {"start": "fresh", "layers": 6}  # where a run says nothing: "the most normal", VECO section 5.1


def decoder_of(config: Config, name: str) -> dict:
    """The decoder of a run's translation models at this scale: layers, and what they start from: own, its objective's;
    last or first, copies of so many layers with their cross-attention; or fresh."""
    run, resolved = config.runs[name], resolve_run(config, name)
    for objective in resolved["objectives"]:
        if objective["name"] in _with_decoder():
            return {"start": "own", "layers": _options(objective, f"config/runs/{name}.yaml").decoder_layers}
    decoder = {**DECODER, **run.get("decoder", {})}
    layers = round(decoder["layers"] * resolved["model"]["layers"] / run["model"]["layers"])
    return {**decoder, "layers": max(1, layers)}


def pair_of(task: dict) -> str:
    """The language pair of a task of translation, as corpora name it."""
    return "-".join(sorted(("en", task["languages"][0])))


def _check_translator(how: dict, parent: dict, where: str) -> None:
    for small, large in (("average", "snapshots"), ("snapshots", "steps"), ("warmup_steps", "steps")):
        if how[small] > how[large]:
            raise UserError(f"{where}.{small}: {how[small]} is more than {large}, {how[large]}; lower it")
    if how["row_length"] > (places := parent["model"]["positions"] - 2):
        raise UserError(f"{where}.row_length: {how['row_length']}, and the model has {places} places; lower it")


def resolve_translator(config: Config, name: str, task: str, setting: str) -> dict:
    """The run that trains a translation model from the weights of a run, by the task's recipe:
    results/<scale>/translators/<run>/<task>/<setting>/run.yaml. The engine trains it like any other.
    """
    parent, decoder = resolve_run(config, name), decoder_of(config, name)
    resolved = resolve_recipe(config, task, setting, recipe_of(config, name))
    how = resolved["recipe"]
    corpora = {pair_of(config.tasks[task]): resolved["bitext"]["corpora"]}
    _check_translator(how, parent, f"config/tasks/{task}.yaml or the scale's task_overrides.{task}, recipe")
    same = {"own": [], "fresh": ["decoder"]}.get(decoder["start"])
    init = {"run": trained_run(config, name), "run_hash": run_hash(parent)[:16]}
    init |= {"decoder": decoder["start"]} if same is None else {"fresh": same}
    return {
        "name": f"{name}@{task}",
        "kind": "pretrain",
        "numerics": how["numerics"],
        "data": {"bitext": {"corpora": corpora, "alpha": 1.0}},
        "model": {**parent["model"], "dropout": how["dropout"], "attention_dropout": how["attention_dropout"]},
        "objectives": [
            {
                "name": "translation",
                "options": {
                    "decoder_layers": decoder["layers"],
                    "label_smoothing": how["label_smoothing"],
                    "source": "en",
                    "most_tokens": min(2 * how["max_length"], how["row_length"]) - 4,
                },
            }
        ],
        "batch": {key: how[key] for key in ("rows", "row_length", "device_rows")},
        "optimizer": {key: how[key] for key in ("peak_lr", "betas", "eps", "weight_decay", "clip")},
        "schedule": {"steps": how["steps"], "warmup_steps": how["warmup_steps"], "decay": "linear"},
        "checkpoint": {
            "every_steps": how["save_every"],
            "keep": 2,
            "snapshots": how["snapshots"],
            "average": how["average"],
        },
        "init": init,
        "precision": how["precision"],
    }


def recipe_of(config: Config, name: str) -> str:
    """The recipe of a run's tasks; an aligner has none of its own."""
    return resolve_run(config, name).get("finetune_recipe", "default")


def _equal_runs(config: Config, name: str) -> Iterator[str]:
    own = run_hash(resolve_run(config, name))
    depth = len(lineage(config, name))  # runs of equal content start equally far from scratch
    same = (run for run in config.runs if len(lineage(config, run)) == depth)
    return (run for run in same if _hash_of(config, run) == own)


def _hash_of(config: Config, name: str) -> str | None:
    """None for a run that this scale cannot train."""
    if name not in config._hashes:
        try:
            config._hashes[name] = run_hash(resolve_run(config, name))
        except UserError:
            config._hashes[name] = None
    return config._hashes[name]


def canonical_runs(config: Config) -> dict[str, str]:
    """Of the runs that tables and figures show: the run that stands for each."""
    rows = [row for spec in config.specs.values() for group in spec.get("groups", []) for row in group["rows"]]
    named = {row["run"] for row in rows if row.get("run") in config.selected}
    return {run: canonical_run(config, run) for run in sorted(named)}


def pretrain_seed(config: Config, seed: int, run: str | None = None) -> int:
    """Which pre-training an evaluation seed stands on: there are fewer pre-trainings than fine-tunings, and of a
    checkpoint there is one."""
    if run is not None and config.runs[run]["kind"] == "checkpoint":
        return 1
    return (seed - 1) % config.scale["pretrain_seeds"] + 1


def weights_path(config: Config, run: str, seed: int) -> str:
    """The weights that a run has before any fine-tuning, of a seed of pre-training. Of a checkpoint there is one."""
    trained = trained_run(config, run)
    own = 1 if config.runs[trained]["kind"] == "checkpoint" else seed
    return f"results/{config.scale_name}/runs/{trained}/seed-{own}/model.safetensors"


def vocabulary_path(config: Config, run: str | None = None) -> str:
    """The tokenizer of a run: that of the scale, or the one that came with its checkpoint."""
    if run is not None and config.runs[run]["kind"] == "checkpoint":
        return f"results/{config.scale_name}/runs/{trained_run(config, run)}/tokenizer"
    own = config.scale["vocabulary"].get("of")
    return vocabulary_path(config, own) if own else f"results/{config.scale_name}/vocab/spm.model"


# ---------------------------------------------------------------------------------------------------------------------
# Tasks and recipes


def _check_task(config: Config, name: str) -> None:
    task, shown = config.tasks[name], f"config/tasks/{name}.yaml"
    for index, code in enumerate(task["languages"]):
        _known(code, config.languages, f"{shown}, languages[{index}]", "language")
    _check_translation(config, name)
    for setting, how in task["settings"].items():
        where = f"{shown}, settings.{setting}"
        for code in how["train"] if isinstance(how["train"], list) else []:
            _known(code, task["languages"], f"{where}.train", "language")
        if model := how.get("model"):
            _known(model["task"], config.tasks, f"{where}.model.task", "task")
            trained = config.tasks[model["task"]]
            _known(model["setting"], trained["settings"], f"{where}.model.setting", "setting")
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
        languages_of = dict.fromkeys(PARTS, task["languages"])
        languages_of["train"] = train_languages(how, task["languages"], task["languages"])
        for key, id_ in expand_datasets(config, task["datasets"], languages_of, shown).items():
            _known(id_, config.datasets, f"{shown}, datasets.{key}", "dataset")
    overrides = config.scale.get("task_overrides", {}).get(name, {})
    allowed = {*task, "recipe", "train_limit"} - {"task", "version", "kind", "settings", "recipes"}
    changed = f"config/scales/{config.scale_name}.yaml, task_overrides.{name}"
    for key in overrides:
        _known(key, allowed, changed, "key")
    for code in overrides.get("languages", []):
        _known(code, task["languages"], f"{changed}.languages", f"language of {name}")
    for setting in overrides.get("recipe", {}).get("settings", {}):
        _known(setting, task["settings"], f"{changed}.recipe.settings", "setting")


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
        _found(f"{shown}, bitext[{index}]", bitext_ids, corpus, pair_of(task), config.datasets, config.languages)
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
    _known(how["bitext"], config.runs, f"{where}.bitext", "run")
    pairs = config.runs[how["bitext"]].get("data", {}).get("bitext")
    if not pairs or "limit" in pairs:
        raise UserError(f"{where}.bitext: run '{how['bitext']}' has no sentence pairs or limits them; name another")


# What a file of a task may be, by the first word of its key; and which jobs read it.
TEST_PARTS = ("gold", "test", "foreign", "english")
DEV_PARTS = ("dev", "dev_english", "dev_foreign", "older_english", "older_foreign")  # older: before the others
PARTS = ("train", *TEST_PARTS, *DEV_PARTS)
TRAIN_PARTS = ("gold", "train", "dev")

# These read the states of an encoder as it is, their own or that of another task's model; the others fine-tune it, and
# retrieval does where a setting has `bitext`.
ENCODER_KINDS = ("retrieval", "mining", "alignment")


def train_languages(how: dict, languages: list[str], of_task: list[str]) -> list[str]:
    """The languages whose training files a setting reads: for `all` those that are evaluated, and always English."""
    if how.get("model"):
        return []
    if how["train"] == "all":
        return [code for code in of_task if code in languages or code == "en"]
    return list(languages) if how["train"] == "each" else list(how["train"])


def expand_datasets(
    config: Config, sources: dict[str, str], languages_of: dict[str, list[str]], shown: str
) -> dict[str, str]:
    """{part or part-language: id}: {language} in a key stands for each language of its part, {l3} in an id for its
    code in column tatoeba. A language that is named in a key goes before the template, and goes where it is not wanted.
    """
    expanded = {}
    for key, id_ in sorted(sources.items(), key=lambda item: "{" not in item[0]):
        part, _, language = key.partition("-")
        if part not in languages_of:
            continue
        if not language:
            expanded[key] = id_
        elif language != "{language}":
            if language in languages_of[part]:
                expanded[key] = id_
        else:
            for code in languages_of[part]:
                l3 = config.languages[code].tatoeba
                if "{l3}" in id_ and not l3:
                    raise UserError(f"{shown}, datasets.{key}: {code} has no code in column tatoeba of languages.tsv")
                expanded[f"{part}-{code}"] = id_.replace("{language}", code).replace("{l3}", l3)
    return dict(sorted(expanded.items()))


def task_languages(config: Config, task: str, codes: Iterable[str] | None = None) -> list[str]:
    """The languages of a task that this scale evaluates, in the order of the task."""
    wanted = codes if codes is not None else config.scale.get("evaluation_languages") or config.scale.get("languages")
    of_task = config.scale.get("task_overrides", {}).get(task, {}).get("languages", config.tasks[task]["languages"])
    return [code for code in of_task if wanted is None or code in wanted]


def gold_datasets(config: Config, task: str, languages: list[str]) -> list[str]:
    """Ids of the files that hold a task's gold in these languages."""
    sources, shown = config.tasks[task]["datasets"], f"config/tasks/{task}.yaml"
    of_parts = dict.fromkeys((*TEST_PARTS, *DEV_PARTS), languages)
    return sorted(set(expand_datasets(config, sources, of_parts, shown).values()))


def recipe_datasets(resolved: dict, parts: Iterable[str]) -> list[str]:
    """Ids of the files of a resolved recipe that a job reads."""
    parts = tuple(parts)
    return sorted({id_ for key, id_ in resolved["datasets"].items() if key.partition("-")[0] in parts})


def setting_jobs(config: Config, task: str, setting: str, shown: Iterable[str] | None = None) -> list[str]:
    """A setting as jobs: itself, or one of each language (that is shown) where each has a model of its own."""
    if config.tasks[task]["settings"][setting]["train"] != "each":
        return [setting]
    return [f"{setting}-{code}" for code in task_languages(config, task) if shown is None or code in shown]


def setting_of_job(config: Config, task: str, job: str) -> tuple[str, str | None]:
    """(setting, language) of a name of `setting_jobs`; the language only where each has a model of its own."""
    settings = config.tasks[task]["settings"]
    if job in settings:
        return job, None
    setting, _, code = job.rpartition("-")
    if settings.get(setting, {}).get("train") == "each" and code in config.tasks[task]["languages"]:
        return setting, code
    _known(job, settings, f"config/tasks/{task}.yaml, settings", "setting")
    raise AssertionError(job)


def trained_as(config: Config, task: str, job: str) -> tuple[str, str] | None:
    """(task, setting) of the fine-tuned weights that predict; None where the pre-trained encoder does."""
    setting, _ = setting_of_job(config, task, job)
    model = config.tasks[task]["settings"][setting].get("model")
    if model:
        return model["task"], model["setting"]
    if config.tasks[task]["kind"] in ENCODER_KINDS and job not in bitext_settings(config, task):
        return None
    return task, job


def bitext_settings(config: Config, task: str) -> list[str]:
    """The settings of a task that are fine-tuned on sentence pairs, and not on a training part."""
    return [setting for setting, how in config.tasks[task]["settings"].items() if "bitext" in how]


def translation_corpora(config: Config, corpora: list[str]) -> list[str]:
    """Those that the scale has."""
    if not config.has_world:
        return sorted(corpora)
    return sorted(set(corpora) & set(config.scale["world"].get("translation", {}).get("corpora", [])))


def recipe_bitext(config: Config, run: str, languages: list[str]) -> dict:
    """The sentence pairs of a run at this scale, of these languages with English."""
    data = resolve_run(config, run)["data"].get("bitext", {}) if _hash_of(config, run) else {}
    pairs = {"-".join(sorted(("en", code))) for code in languages if code != "en"}
    corpora = {pair: names for pair, names in data.get("corpora", {}).items() if pair in pairs}
    return {"run": run, "alpha": data.get("alpha", 1.0), "corpora": corpora}


def resolve_recipe(config: Config, task: str, job: str, recipe: str) -> dict:
    """How one task is fine-tuned and scored at this scale: results/<scale>/recipes/<task>/<setting>/<recipe>.yaml."""
    key = (task, job, recipe)
    if key not in config._recipes:
        config._recipes[key] = _resolve_recipe(config, *key)
    return config._recipes[key]


def _resolve_recipe(config: Config, task: str, job: str, recipe: str) -> dict:
    _known(task, config.tasks, "config/tasks", "task")
    definition = config.tasks[task]
    shown = f"config/tasks/{task}.yaml"
    setting, own_language = setting_of_job(config, task, job)
    recipes = definition["recipes"]
    name = recipe if recipe in recipes else "default"
    _known(name, recipes, f"{shown}, recipes", "recipe")
    chosen = recipes[name] or {}
    by_setting = (chosen.get("settings") or {}).get(setting) or {}
    how = definition["settings"][setting]
    resolved = {key: value for key, value in definition.items() if key not in ("settings", "recipes")}
    resolved |= {
        "setting": job,
        "train_limit": None,
        "recipe": {
            **deep_merge({key: value for key, value in chosen.items() if key != "settings"}, by_setting),
            "name": name,
        },
    }
    overrides = config.scale.get("task_overrides", {}).get(task, {})
    resolved = deep_merge(resolved, overrides)
    resolved["languages"] = [own_language] if own_language else task_languages(config, task)
    by_setting = resolved["recipe"].pop("settings", {}).get(setting, {})
    resolved["recipe"] = deep_merge(resolved["recipe"], by_setting)
    if how.get("model"):
        resolved["model"] = dict(how["model"])
    if own_language == "en":  # nothing to switch to: English is what the others are translated from
        resolved["recipe"].pop("code_switch", None)
    resolved["train_languages"] = train_languages(how, resolved["languages"], definition["languages"])
    if definition["kind"] == "translation":
        resolved["bitext"] = {"corpora": translation_corpora(config, definition["bitext"])}
        if len(resolved["bitext"]["corpora"]) == 0:
            raise UserError(
                f"config/scales/{config.scale_name}.yaml, world.translation.corpora: none of {task}'s corpora "
                f"({', '.join(definition['bitext'])}); name one of them"
            )
    if "bitext" in how:
        resolved["bitext"] = recipe_bitext(config, how["bitext"], resolved["languages"])
        with_english = {code for pair in resolved["bitext"]["corpora"] for code in pair.split("-")}
        resolved["train_languages"] = [code for code in resolved["languages"] if code in with_english]
    languages_of = dict.fromkeys(PARTS, resolved["languages"])
    switched = ["en"] if resolved["recipe"].get("code_switch") else []
    languages_of["train"] = [*resolved["train_languages"], *switched]
    if resolved["recipe"].get("selection") == "en_dev":
        languages_of["dev"] = ["en"]
    resolved["datasets"] = expand_datasets(config, resolved["datasets"], languages_of, shown)
    if how.get("pairs"):
        own = resolved["languages"]
        resolved["languages"] = [f"{context}-{question}" for context in own for question in own]
    return resolved


# ---------------------------------------------------------------------------------------------------------------------
# Tables and figures


def _check_spec(config: Config, spec: dict, shown: str) -> None:
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
    published = _published_models(config, spec, shown)
    columns = spec.get("columns", [])
    for index, column in enumerate(columns):
        _known(column["task"], tasks, f"{shown}, columns[{index}].task", "task")
        if "setting" in column:
            _known(column["setting"], settings, f"{shown}, columns[{index}].setting", "setting")
        if column["task"] in config.tasks:
            _check_column(config, column, f"{shown}, columns[{index}]")
    for number, group in enumerate(spec["groups"]):
        where = f"{shown}, groups[{number}]"
        if "setting" in group:
            _known(group["setting"], settings, f"{where}.setting", "setting")
        for task, setting in group.get("settings", {}).items():
            _known(task, {column["task"] for column in columns}, f"{where}.settings", "task of its columns")
            _known(setting, settings, f"{where}.settings.{task}", "setting")
        if "setting" not in group and any("setting" not in column for column in columns):
            raise UserError(f"{where}: key 'setting' is missing, and not every column has one of its own")
        for index, row in enumerate(group["rows"]):
            if "run" in row:
                _known(row["run"], runs, f"{where}.rows[{index}].run", "run")
            if "published" in row:
                _known(row["published"], published, f"{where}.rows[{index}].published", "model")


def _check_column(config: Config, column: dict, where: str) -> None:
    """Metric and languages are the task's own."""
    task = config.tasks[column["task"]]
    by_layer = task["metrics"] if task["kind"] in ("retrieval", "alignment") else []
    metrics = [*task["metrics"], *(f"{metric}-by-layer" for metric in by_layer)]
    if task["kind"] == "translation":
        metrics.append(f"{task['metric']}-by-update")
    _known(column["metric"], metrics, f"{where}.metric", f"metric of {column['task']}")
    languages = {*task["languages"], "en"}
    for key, allowed in (("languages", languages), ("show", languages | {"avg", "gap"})):
        for code in column[key] if isinstance(column.get(key), list) else []:
            _known(code, allowed, f"{where}.{key}", f"language of {column['task']}")


def _published_models(config: Config, spec: dict, shown: str) -> set[str]:
    """The models of which the item's file of published numbers has one."""
    if "published" not in spec:
        return set()
    path = config.root / spec["published"]
    if not path.is_file():
        raise UserError(f"{shown}, published: {spec['published']}: no such file")
    with open(path, encoding="utf-8", newline="") as file:
        return {row["model"] for row in csv.DictReader(file)}


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


def needs(config: Config, spec: dict, item: str | None = None) -> list[tuple[str, str, str]]:
    """The (run, task, setting) that stand behind a table or figure and that the run is fit for, sorted.

    Runs are canonical. Left out: rows without a run of ours, runs that neither config.yaml nor the scale selects, tasks
    and settings that nothing computes yet, tasks in none of whose languages this scale evaluates, and settings that
    train on sentence pairs where it has none.
    """
    if "compare" in spec:  # the columns that it takes from tables of scores
        return sorted({need for other in compare_specs.score_specs(config.root, spec) for need in needs(config, other)})
    found = set()
    for group in spec.get("groups", []):
        for row in group["rows"]:
            run = row.get("run")
            if run not in config.selected:
                continue
            for column in spec.get("columns", []):
                task, setting = column["task"], column.get("setting", group.get("setting"))
                setting = group.get("settings", {}).get(task, setting)
                if task not in config.tasks or setting not in config.tasks[task]["settings"]:
                    continue
                if unfit(config, run, task, setting):
                    continue
                if task_languages(config, task) and _has_pairs(config, task, setting):  # else nothing to evaluate
                    shown = column["languages"] if isinstance(column.get("languages"), list) else None
                    jobs = setting_jobs(config, task, setting, shown)
                    found |= {(canonical_run(config, run, task), task, job) for job in jobs}
    return sorted(found)


def _has_pairs(config: Config, task: str, setting: str) -> bool:
    if config.tasks[task]["kind"] == "translation":
        return bool(translation_corpora(config, config.tasks[task]["bitext"]))
    run = config.tasks[task]["settings"][setting].get("bitext")
    return run is None or bool(recipe_bitext(config, run, task_languages(config, task))["corpora"])


def not_here(config: Config, run: str) -> str:
    """Why this scale cannot have a run of `Config.not_here`."""
    line = {name for name in lineage(config, run) if config.runs[name]["kind"] == "checkpoint"}
    if missing := sorted(line - set(config.imported)):
        what = "is a published checkpoint" if missing == [run] else f"starts from a published checkpoint, {missing[0]}"
        return f"run {run} {what}, and scale {config.scale_name} has made-up languages"
    return f"run {run} starts from a checkpoint, {min(line)}, that has another shape than scale {config.scale_name}"


def unfit(config: Config, run: str, task: str, setting: str) -> str | None:
    """Why a run can have no score of a task and setting, both of which exist."""
    if run not in config.runs:
        return None
    if run in config.not_here:
        return not_here(config, run)
    if config.runs[run]["kind"] == "checkpoint":
        if config.tasks[task]["kind"] == "translation":
            return f"run {run} is a checkpoint: models of translation start from runs that are trained here"
        return None
    if config.tasks[task]["kind"] == "translation" and config.runs[run]["kind"] != "aligner":
        for key, what in (("languages", "an embedding of each language"), ("relative_bias", "distances")):
            if config.runs[run]["model"].get(key):
                return f"run {run} has {what} (model.{key}), which a decoder does not know"
        return None
    if config.runs[run]["kind"] != "aligner":
        return None
    how = config.tasks[task]["settings"][setting]
    if config.tasks[task]["kind"] == "alignment" and not how.get("model") and not how["train"]:
        return None
    return f"run {run} aligns words and has no model: task {task}, {setting}, needs one"


def seeds_of(config: Config, run: str) -> list[int]:
    """The evaluation seeds of a run: an aligner draws nothing, so that one stands for all."""
    return [1] if config.runs[run]["kind"] == "aligner" else config.seeds


def evidence(config: Config, kind: str) -> str:
    """The folder of what tables, figures, claims and the report rest on: `scores`, `trainings` or `corpus`. With
    `scores_from: reference` that of the repository, where no rule writes."""
    return f"reference/{kind}/{config.scale_name}" if config.from_reference else f"results/{config.scale_name}/{kind}"


def score_path(config: Config, run: str, task: str, setting: str, seed: int) -> str:
    return f"{evidence(config, 'scores')}/{run}/{task}/{setting}/seed-{seed}.json"


def training_path(config: Config, run: str, seed: int) -> str:
    """What a pre-training cost, and its curves in short."""
    return f"{evidence(config, 'trainings')}/{trained_run(config, run)}/seed-{seed}.json"


def training_paths(config: Config, runs: Iterable[str]) -> list[str]:
    """Of those runs that are trained here, one of each seed of pre-training."""
    trained = {trained_run(config, run) for run in runs if run in config.selected and run in config.pretrained}
    seeds = sorted({pretrain_seed(config, seed) for seed in config.seeds})
    return _existing(config, [training_path(config, run, seed) for run in sorted(trained) for seed in seeds])


def figure_trainings(config: Config, spec: dict) -> list[str]:
    """The files of trainings that a figure reads: those of its runs, and for costs of what they start from too."""
    if not {"training", "cost"} & set(spec):
        return []
    named = {row.get("run") for group in spec["groups"] for row in group["rows"]}
    runs = named & config.selected & set(config.pretrained)
    if "cost" in spec:
        runs = set(with_ancestors(config, runs))
    return _existing(config, sorted({path for run in runs for path in trainings_of(config, run).values()}))


def diagram_digest(config: Config, spec: dict) -> str:
    """A digest of what a diagram shows of the configuration: the run and the models that are made of it."""
    about = spec["diagram"]
    shown: list[Any] = [resolve_run(config, about["run"])]
    for name in (panel["task"] for panel in about["panels"] if "task" in panel):
        if config.tasks[name]["kind"] == "translation":
            shown.append(resolve_translator(config, about["run"], name, FROM_WEIGHTS))
        else:
            shown.append([config.tasks[name]["kind"], config.tasks[name].get("labels")])
    return digest(shown)


FROM_WEIGHTS = "pretrained-init"  # the setting of translation that starts from a run


def trainings_of(config: Config, run: str) -> dict[int, str]:
    """Seed of pre-training -> the file of a run."""
    seeds = sorted({pretrain_seed(config, seed) for seed in config.seeds})
    paths = {seed: training_path(config, run, seed) for seed in seeds}
    return {seed: path for seed, path in paths.items() if not config.from_reference or is_current(config, path)}


def corpus_counts(config: Config) -> list[str]:
    """The sizes of the corpora after cleaning."""
    return _existing(config, [f"{evidence(config, 'corpus')}/counts.json"])


def counted_data(config: Config) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The (corpus, language) and (corpus, pair) of which counts.json says the size: of the runs that are trained here,
    and of those that a table compares the corpora of."""
    specs = [spec for spec in config.tables.values() if compare_specs.reads_corpora(spec)]
    if not specs:
        return [], []
    trained = {*config.listed, *(run for run, _, _ in all_needs(config))} & set(config.pretrained)
    shown = {run for spec in specs for run in compare_specs.runs_of(spec) if run in config.selected}
    return data_of_runs(config, {*with_ancestors(config, trained), *(run for run in shown if _hash_of(config, run))})


def compared_trainings(config: Config, spec: dict) -> list[str]:
    """What a comparison reads of what trainings cost: of its runs and of those that they start from."""
    if not compare_specs.shows_training(spec):
        return []
    runs = [run for run in compare_specs.runs_of(spec) if run in config.selected and _hash_of(config, run)]
    seeds = sorted({pretrain_seed(config, seed) for seed in config.seeds})
    paths = [training_path(config, run, seed) for run in with_ancestors(config, runs) for seed in seeds]
    return _existing(config, paths)


def comparison_digest(config: Config, spec: dict) -> str:
    """A digest of what a comparison shows of the configuration: its runs and recipes, as written and as resolved."""
    shown: list[Any] = [config.scale["vocabulary"], compare_specs.score_specs(config.root, spec)]
    for run in compare_specs.runs_of(spec):
        for name in lineage(config, run):
            shown.append([config.runs[name], resolve_run(config, name) if _hash_of(config, name) else None])
    for task in compare_specs.tasks_of(spec):
        shown.append([config.tasks[task], config.scale.get("task_overrides", {}).get(task)])
    return digest(shown)


def _existing(config: Config, paths: list[str]) -> list[str]:
    """Of reference files those that are there and today's: what is not among them stays an empty cell."""
    return [path for path in paths if is_current(config, path)] if config.from_reference else paths


def is_current(config: Config, path: str | Path) -> bool:
    """Is this reference file there, and of the run, recipe and task that the configuration has today?"""
    file = config.root / path
    kind = next(part for part in reversed(file.parts) if part in ("scores", "trainings", "corpus"))
    if kind == "corpus" or not file.is_file():
        return file.is_file()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        said = [content["run_hash"], *([content["task_version"]] if kind == "scores" else [])]
    except (ValueError, TypeError, KeyError):
        return True  # whoever reads it says what is wrong
    if kind == "trainings":
        return said == [_hash_of(config, file.parent.name)[:16]]
    run, task, job = file.parts[-4:-1]
    recipes = file.parents[5] / f"recipes/{config.scale_name}.json"
    said.append(_reference_recipes(recipes, recipes.stat().st_mtime_ns).get(recipe_key(config, run, task, job)))
    today = (score_hash(config, run, task, job), config.tasks[task]["version"], recipe_digest(config, run, task, job))
    return said == [*today]


def score_hash(config: Config, run: str, task: str, job: str) -> str:
    """The run_hash that a score has: of the run, or of the translation model that is made of it."""
    translates = config.tasks[task]["kind"] == "translation"
    return run_hash(resolve_translator(config, run, task, job) if translates else resolve_run(config, run))[:16]


def recipe_key(config: Config, run: str, task: str, job: str) -> str:
    return f"{task}/{job}/{recipe_of(config, run)}"


def recipe_digest(config: Config, run: str, task: str, job: str) -> str:
    return digest(resolve_recipe(config, task, job, recipe_of(config, run)))[:16]


@cache
def _reference_recipes(path: Path, changed: int) -> dict[str, str]:
    """Which recipe stands behind the reference scores: `task/setting/recipe` -> its digest."""
    return json.loads(path.read_text(encoding="utf-8"))


def score_paths(config: Config, spec: dict) -> list[str]:
    """The score files that a table or figure reads at this scale."""
    return _paths_of_needs(config, needs(config, spec))


def all_needs(config: Config) -> list[tuple[str, str, str]]:
    """The union of `needs` over every selected table and figure, and the claims where the whole document is built."""
    found = {need for spec in config.specs.values() for need in needs(config, spec)}
    if is_whole(config):
        found.update(claim_needs(config))
    return sorted(found)


def all_score_paths(config: Config) -> list[str]:
    return _paths_of_needs(config, all_needs(config))


def _paths_of_needs(config: Config, found: list[tuple[str, str, str]]) -> list[str]:
    return _existing(config, [score_path(config, *need, seed) for need in found for seed in seeds_of(config, need[0])])


# ---------------------------------------------------------------------------------------------------------------------
# Claims


def _read_claims(config: Config, schemas: _Schemas) -> list[dict]:
    path = config.root / claims.SHOWN
    if not path.exists():
        return []
    content = read_yaml(path, claims.SHOWN)
    if not isinstance(content, dict) or list(content) != ["claims"] or not isinstance(content["claims"], list):
        raise UserError(f"{claims.SHOWN}: must hold one key, 'claims', a list of claims")
    for number, claim in enumerate(content["claims"], start=1):
        name = claim.get("id", f"number {number}") if isinstance(claim, dict) else f"number {number}"
        schemas.check(claim, "claims", f"{claims.SHOWN}, claim {name}")
    with open(config.root / "config/published/papers.tsv", encoding="utf-8", newline="") as file:
        papers = [row["key"] for row in csv.DictReader(file, delimiter="\t")]
    claims.check_claims(content["claims"], config.runs, config.tasks, papers)
    return content["claims"]


def is_whole(config: Config) -> bool:
    """Is the whole document built, and not a choice of papers or items?"""
    return config.settings.get("papers") is None and config.settings.get("items") is None


def _select_claims(config: Config, read: list[dict]) -> list[dict]:
    """Beside a choice of items those claims that rest on nothing else: a part of the document computes no more than its
    tables and figures do."""
    if is_whole(config):
        return read
    found = {need for spec in config.specs.values() for need in needs(config, spec)}
    trained = set(with_ancestors(config, {run for run, _, _ in found}))
    return [
        claim
        for claim in _tested(config, read)
        if set(claim_needs(config, [claim])) <= found
        and {trained_run(config, run) for run in claims.runs_of(claim)} <= trained
    ]


def measured_languages(config: Config, measure: claims.Measure) -> list[str]:
    """Those of a claim that this scale evaluates."""
    return [code for code in task_languages(config, measure.task) if code in measure.languages]


def cost_unknown(config: Config, run: str) -> str | None:
    """Why nobody can say what a run cost: what its authors spent on a checkpoint is in no file."""
    for name in lineage(config, run) if run in config.runs else ():
        if config.runs[name]["kind"] == "checkpoint":
            return f"{name} is a checkpoint: what it cost is not known"
    return None


def layer_here(config: Config, measure: claims.Measure) -> int:
    """A layer of the paper's model at its relative depth in the model of this scale."""
    layer, of = measure.depth
    return int(layer / of * resolve_run(config, measure.run)["model"]["layers"] + 0.5)


def untestable(config: Config, claim: dict) -> str | None:
    """Why this scale cannot test a claim, whatever is trained."""
    for run in claims.runs_of(claim):
        if run in config.not_here:
            return not_here(config, run)
        if claims.kind_of(claim) == "cost" and (reason := cost_unknown(config, run)):
            return reason
        if run in config.pretrained and not _hash_of(config, run):
            return f"this scale has not the data that run {run} is trained on"
    cost = claim.get("cost", {})
    equal_steps = "steps" in config.scale.get("run_overrides", {}).get("schedule", {})
    if "reach" in cost and len(cost["runs"]) == 1 and equal_steps:
        return "the scale gives all runs as many steps, so what they cost beside each other is its choice"
    for link in claims.links_of(claim, config.tasks):
        for measure in claims.measures_of([link]):
            if reason := unfit(config, measure.run, measure.task, measure.setting):
                return reason
            present = measured_languages(config, measure)
            if not present or not _has_pairs(config, measure.task, measure.setting):
                return f"this scale has no data of {measure.task}, {measure.setting}, in the languages of the claim"
            if measure.gap and ("en" not in present or len(present) < 2):
                return f"a gap needs English and another language, and this scale has {', '.join(present)}"
        if _seen_here(config, link.better) == _seen_here(config, link.than):
            return _why_equal(config, link)
    return None


def _seen_here(config: Config, side: claims.Side) -> list:
    """What a side of a claim is at this scale: equal for two sides that differ in the paper alone."""
    if not side.measures:
        return [trained_run(config, run) for run in lineage(config, side.run)]
    return [
        (
            canonical_run(config, one.run, one.task),
            *(one.task, one.setting, one.metric, one.direction, one.share),
            layer_here(config, one) if one.depth else None,
        )
        for _, one in side.measures
    ]


def _why_equal(config: Config, link: claims.Link) -> str:
    if link.better.run != link.than.run:
        return f"{link.better.run} and {link.than.run} are one and the same run here"
    (_, one), (_, other) = link.better.measures[0], link.than.measures[0]
    if one.depth != other.depth:
        layers = f"layers {one.depth[0]} and {other.depth[0]} of {one.depth[1]}"
        return f"{layers} are both layer {layer_here(config, one)} of the model here"
    return "both sides of the claim are one and the same"


def claim_needs(config: Config, chosen: Iterable[dict] | None = None) -> list[tuple[str, str, str]]:
    """The (run, task, setting) behind the claims, as `needs` has them: of those that this scale can test and all of
    whose runs are trained here. A claim trains no run for its own sake."""
    found = set()
    for claim in _tested(config, chosen):
        for one in claims.measures_of(claims.links_of(claim, config.tasks)):
            jobs = setting_jobs(config, one.task, one.setting, measured_languages(config, one))
            found |= {(canonical_run(config, one.run, one.task), one.task, job) for job in jobs}
    return sorted(found)


def claim_trainings(config: Config, chosen: Iterable[dict] | None = None) -> list[str]:
    """The files of trainings that claims on costs read: of the runs and of what they start from."""
    costs = [claim for claim in _tested(config, chosen) if claims.kind_of(claim) == "cost"]
    runs = with_ancestors(config, [run for claim in costs for run in claims.runs_of(claim)])
    seeds = sorted({pretrain_seed(config, seed) for seed in config.seeds})
    return _existing(config, [training_path(config, run, seed) for run in runs for seed in seeds])


def claim_paths(config: Config) -> list[str]:
    """The score files that claims read."""
    return _paths_of_needs(config, claim_needs(config))


def _tested(config: Config, chosen: Iterable[dict] | None) -> list[dict]:
    return [
        claim
        for claim in (config.claims if chosen is None else chosen)
        if set(claims.runs_of(claim)) <= config.selected and not untestable(config, claim)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Data


def load_cleaning(config: Config) -> dict:
    """The thresholds of config/cleaning.yaml with those of the scale laid over them."""
    shown = "config/cleaning.yaml"
    thresholds = read_yaml(config.root / shown, shown)
    if not isinstance(thresholds, dict):
        raise UserError(f"{shown}: must be a mapping of sections, each a mapping of thresholds")
    for section, numbers in thresholds.items():
        if not isinstance(numbers, dict):
            raise UserError(f"{shown}, {section}: must be a mapping of thresholds")
    where = f"config/scales/{config.scale_name}.yaml, cleaning"
    for section, changes in config.scale.get("cleaning", {}).items():
        _known(section, thresholds, where, "section")
        if not isinstance(changes, dict):
            raise UserError(f"{where}.{section}: must be a mapping of thresholds")
        for key, value in changes.items():
            _known(key, thresholds[section], f"{where}.{section}", "threshold")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{where}.{section}.{key}: must be a number, is {json.dumps(value)}")
    return deep_merge(thresholds, config.scale.get("cleaning", {}))


def data_of_runs(config: Config, runs: Iterable[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """What these runs train on: sorted (corpus, language) and (corpus, pair)."""
    mono, bitext = set(), set()
    for run in runs:
        data = resolve_run(config, run).get("data", {})
        if "mono" in data:
            mono |= {(data["mono"]["corpus"], code) for code in data["mono"]["languages"]}
        if "bitext" in data:
            bitext |= {(corpus, pair) for pair, names in data["bitext"]["corpora"].items() for corpus in names}
    return sorted(mono), sorted(bitext)


def data_of_translator(config: Config, task: str) -> list[tuple[str, str]]:
    """The (corpus, pair) that the translation models of a task are trained on."""
    pair = pair_of(config.tasks[task])
    return [(corpus, pair) for corpus in translation_corpora(config, config.tasks[task]["bitext"])]


def translators(config: Config, found: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Of (run, task, setting) those that a translation model is trained for."""
    return [need for need in found if config.tasks[need[1]]["kind"] == "translation"]


def corpora(config: Config) -> list[str]:
    """The names of all corpora that some run or translation model may read."""
    names = {corpus for task in config.tasks.values() for corpus in task.get("bitext", [])}
    for run in config.runs.values():
        data = run.get("data", {})
        names |= {data["mono"]["corpus"]} if "mono" in data else set()
        names |= {corpus for pair in data.get("bitext", {}).get("corpora", {}).values() for corpus in pair}
    return sorted(names)


def corpus_languages(config: Config) -> list[str]:
    """The languages of pre-training text at this scale, over all runs: what decontamination has to cover."""
    mono, bitext = data_of_runs(config, [run for run in config.runs if _hash_of(config, run)])
    return sorted({code for _, code in mono} | {code for _, pair in bitext for code in pair.split("-")})


def vocabulary_data(config: Config) -> list[tuple[str, str]]:
    """(corpus, language) of the text that a vocabulary is trained on: all languages of the scale, whatever the runs."""
    return [("cc-100", code) for code in sorted(config.scale["languages"] or corpus_languages(config))]


def world_languages(config: Config) -> list[str]:
    return sorted(config.scale["world"]["languages"]) if config.has_world else []


def any_of(names: Iterable[str]) -> str:
    """A wildcard constraint: exactly one of these names."""
    return "|".join(re.escape(name) for name in sorted(set(names))) or "nothing"


# ---------------------------------------------------------------------------------------------------------------------
# Code as part of what a cheap job depends on


def local_imports(script: str | Path) -> list[str]:
    """The modules beside a script that it imports, directly or through each other, as paths in the script's spelling.

    Snakemake sees an edit of a job's script, which is an input, but not of what the script imports.
    """
    folder = Path(script).parent
    found: set[Path] = set()
    todo = [Path(script)]
    while todo:
        path = todo.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in _imported_names(path):
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):
                base = folder.joinpath(*parts[:depth])
                todo += [candidate for candidate in (base.with_suffix(".py"), base / "__init__.py")]
    return sorted(str(path) for path in found if path != Path(script))


def code_digest(script: str | Path) -> str:
    """A digest of the content of everything that a script imports from beside it."""
    return digest([[Path(path).name, _sha256(Path(path))] for path in local_imports(script)])


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# A regular expression and not `ast`: a tenth of the time, at every parse. Finding too much does no harm.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)
_NAME = re.compile(r"[A-Za-z_][\w.]*")


@cache
def _imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for package, members, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        if package:
            names.add(package)
            names |= {f"{package}.{member}" for member in _NAME.findall(members)}
        names |= set(_NAME.findall(plain))
    return names
