"""Read and check everything under config/: the one place where a `Config` is made.

The workflow calls this while it is parsed, so: standard library and PyYAML only in plan/ (jsonschema to check the
files), no torch, numpy or pandas. Everything that a user can get wrong is found here, before any job, as one line with
file and key.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from common.csvfiles import read_rows
from common.errors import UserError
from common.thresholds import check_bounds
from common.yamlfiles import check_known, deep_merge, did_you_mean, line_of_parents, read_scale, read_yaml
from plan import claims
from plan.check import check_filters, check_run, check_scale, select
from plan.check_claims import check_claims, quoted
from plan.check_tasks import check_spec, check_task
from plan.claimed import select_claims
from plan.config import COMMAND_LINE, Config
from plan.datasets import load_datasets, load_languages
from plan.needs import needs
from plan.objectives import OBJECTIVE_DATA
from plan.runs import absent, not_here, resolve_run
from plan.scaled import without_nulls
from plan.schemas import Schemas
from plan.seeds import pretrain_seed
from plan.sources import start_elsewhere
from plan.translators import resolve_translator, translators


def load_config(
    root: str | Path = ".", overrides: dict | None = None, path: str | Path = "config/config.yaml"
) -> Config:
    """Read and check config/**; `overrides` replace keys of `path` (the command line's `--config key=value`)."""
    root = Path(root)
    schemas = Schemas(root / "config/schemas")
    settings = read_settings(root, path)
    schemas.check(settings, "config", str(path))
    overrides = {key: _typed(value) for key, value in (overrides or {}).items()}
    if overrides:
        settings = {**settings, **overrides}
        schemas.check(settings, "config", COMMAND_LINE)
    scales = _names(root / "config/scales")
    if settings["scale"] not in scales:
        where = COMMAND_LINE if "scale" in (overrides or {}) else path
        raise UserError(f"{where}, scale: '{settings['scale']}' is unknown; {did_you_mean(settings['scale'], scales)}")
    for key, names in settings.get("claims", {}).items():
        for name in names:
            check_known(
                name, scales if key == "scales" else settings["claims"]["scales"], f"{path}, claims.{key}", "scale"
            )

    languages = load_languages(root / "config/languages.tsv")
    datasets = load_datasets(root / "config/datasets.tsv", languages)
    scale_file = f"config/scales/{settings['scale']}.yaml"
    scale = _named(read_scale(root / scale_file, scale_file), scale_file, schemas, "scale")
    runs = _read_runs(root, schemas)
    start_elsewhere(runs, scale, scale_file)
    tasks = {
        name: _read_named(root, f"config/tasks/{name}.yaml", schemas, "task", key="task")
        for name in _names(root / "config/tasks")
    }
    config = Config(root, settings, scale, runs, tasks, {}, {}, languages, datasets)
    check_scale(config, schemas, scale_file)
    for name in runs:
        check_run(config, name)
    config.not_here.update(absent(config))
    for name in tasks:
        check_task(config, name)
    specs = {kind: _read_specs(config, schemas, kind) for kind in ("table", "figure")}
    check_filters(config, {**specs["table"], **specs["figure"]}, str(path), overrides or {})
    config.tables.update(select(settings, specs["table"]))
    config.figures.update(select(settings, specs["figure"]))
    config.claims.extend(select_claims(config, _read_claims(config, schemas)))
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


def read_settings(root: Path, path: str | Path = "config/config.yaml") -> Any:
    """What is no YAML, or too deep for it, and a call in another folder are told in one line."""
    if not (root / "config").is_dir():
        raise UserError(f"{path}: no such file; call it in the repository's folder, or give Snakemake -d FOLDER")
    return read_yaml(root / path, str(path))


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
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
        return int(value)
    return value


def changed_settings(config: Config, path: str | Path = "config/config.yaml") -> dict:
    """The settings that the command line changed: what a script needs to see the same configuration."""
    written = read_yaml(config.root / path, str(path))
    return {key: value for key, value in sorted(config.settings.items()) if written.get(key) != value}


def _names(folder: Path) -> list[str]:
    if other := sorted(folder.glob("*.yml")):
        shown = "/".join(other[0].parts[-3:])
        raise UserError(f"{shown}: is not read; call it {other[0].stem}.yaml, or take it out of the folder")
    return sorted(path.stem for path in folder.glob("*.yaml") if not path.name.startswith("."))


def _read_named(root: Path, shown: str, schemas: Schemas, kind: str, key: str = "name") -> dict:
    return _named(read_yaml(root / shown, shown), shown, schemas, kind, key)


def _named(value: Any, shown: str, schemas: Schemas, kind: str, key: str = "name") -> dict:
    schemas.check(value, kind, shown)
    stem = Path(shown).stem
    if value.get(key, stem) != stem:
        raise UserError(f"{shown}, {key}: is '{value[key]}' but the file is called '{stem}'; make them equal")
    return value


# What a run never takes from the run that it extends: they say which run it is.
OWN_KEYS = ("name", "paper")


def _read_runs(root: Path, schemas: Schemas) -> dict[str, dict]:
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
        runs[name] = without_nulls(_named(_overridden(run, shown[name]), shown[name], schemas, kind))
        for index, objective in enumerate(runs[name].get("objectives", [])):
            check_known(objective["name"], OBJECTIVE_DATA, f"{shown[name]}, objectives[{index}].name", "objective")
    return runs


SCHEMAS_OF_RUNS = {"pretrain": "run", "aligner": "aligner", "checkpoint": "checkpoint"}


def _schema_of_run(run: Any, shown: str) -> str:
    kind = run.get("kind", "pretrain") if isinstance(run, dict) else "pretrain"
    check_known(kind, SCHEMAS_OF_RUNS, f"{shown}, kind", "kind of run")
    return SCHEMAS_OF_RUNS[kind]


def _overridden(run: Any, shown: str) -> Any:
    """A run whose `objective_overrides`, by name as in a scale, are laid over the objectives that it extends."""
    if not isinstance(run, dict) or not isinstance(run.get("objective_overrides"), dict):
        return run
    objectives = run.get("objectives")
    named = isinstance(objectives, list) and all(
        isinstance(own, dict) and isinstance(own.get("name"), str) for own in objectives
    )
    if not named:
        raise UserError(f"{shown}, objectives: must be a list of mappings, each with a `name`")
    for name, change in run["objective_overrides"].items():
        if not isinstance(change, dict | None):
            raise UserError(f"{shown}, objective_overrides.{name}: must be a mapping, is {json.dumps(change)}")
    changes = run["objective_overrides"]
    known = [own["name"] for own in objectives]
    for objective in changes:
        check_known(objective, known, f"{shown}, objective_overrides", "objective of this run")
    objectives = [deep_merge(own, changes.get(own["name"]) or {}) for own in objectives]
    return {key: value for key, value in run.items() if key != "objective_overrides"} | {"objectives": objectives}


PAPERS = "config/published/papers.tsv"


def _papers(config: Config) -> dict[str, dict[str, str]]:
    papers: dict[str, dict[str, str]] = {}
    for row in read_rows(config.root / PAPERS, ["key", "name", "citation"], PAPERS):
        if row["key"] in papers:
            raise UserError(f"{PAPERS}: key '{row['key']}' stands twice; remove one line")
        papers[row["key"]] = row
    return papers


def paper_line(config: Config, key: str) -> dict[str, str]:
    """Name and citation of a paper, as they stand over its tables."""
    return _papers(config)[key]


def _read_specs(config: Config, schemas: Schemas, kind: str) -> dict[str, dict]:
    folder = config.root / f"config/{kind}s"
    specs, papers = {}, _papers(config)
    for path in sorted(folder.glob("*/*.yaml")):
        item = f"{path.parent.name}/{path.stem}"
        shown = f"config/{kind}s/{item}.yaml"
        spec = read_yaml(path, shown)
        schemas.check(spec, kind, shown)
        for key, expected in (("paper", path.parent.name), ("item", path.stem)):
            if spec[key] != expected:
                raise UserError(f"{shown}, {key}: is '{spec[key]}' but the file says '{expected}'; make them equal")
        if spec["paper"] not in papers:
            raise UserError(
                f"{shown}, paper: '{spec['paper']}' has no line in {PAPERS}, whose names stand over tables; add one: "
                "key, name and citation, with a tab between them (the citation may be empty)"
            )
        check_spec(config, spec, shown)
        specs[item] = spec
    return specs


def _read_claims(config: Config, schemas: Schemas) -> list[dict]:
    path = config.root / claims.SHOWN
    if not path.exists():
        return []
    content = read_yaml(path, claims.SHOWN)
    if not isinstance(content, dict) or not isinstance(content.get("claims"), list) or {*content} - {"claims", "tie"}:
        raise UserError(f"{claims.SHOWN}: must hold the key 'claims', a list of claims, and beside it 'tie' at most")
    tie = content.get("tie", 0.0)
    if isinstance(tie, bool) or not isinstance(tie, int | float) or not 0 <= tie <= 100:
        raise UserError(f"{claims.SHOWN}, tie: must be a number of points, 0 to 100, is {tie!r}")
    for number, claim in enumerate(content["claims"], start=1):
        name = claim.get("id", f"number {number}") if isinstance(claim, dict) else f"number {number}"
        schemas.check(claim, "claims", f"{claims.SHOWN}, claim {name}")
    config.derived["tie"] = tie
    read = claims.with_ties(content["claims"], tie)
    check_claims(read, config.runs, config.tasks, _papers(config))
    for claim in read:
        quoted(config.root, claim)
    _check_second_look(config, [claim["id"] for claim in read])
    return read


def _check_second_look(config: Config, ids: list[str]) -> None:
    """Its claims exist, and its seeds stand on pre-trainings that the first look had not."""
    again, where = config.scale.get("second_look"), f"config/scales/{config.scale_name}.yaml, second_look"
    if not again:
        return
    for name in again["claims"]:
        check_known(name, ids, f"{where}.claims", "claim")
    first = {pretrain_seed(config, seed) for seed in config.scale.get("reference_seeds", config.scale["seeds"])}
    for seed in again["seeds"]:
        if pretrain_seed(config, seed) in first:
            raise UserError(
                f"{where}.seeds: {seed} stands on pre-training {pretrain_seed(config, seed)}, which the seeds of the "
                "first look have; name seeds of others (pretrain_seeds and fine_tunings say which)"
            )


def load_cleaning(config: Config) -> dict:
    """The thresholds of config/cleaning.yaml with those of the scale laid over them."""
    shown = "config/cleaning.yaml"
    thresholds = read_yaml(config.root / shown, shown)
    if not isinstance(thresholds, dict):
        raise UserError(f"{shown}: must be a mapping of sections, each a mapping of thresholds")
    for section, numbers in thresholds.items():
        if not isinstance(numbers, dict):
            raise UserError(f"{shown}, {section}: must be a mapping of thresholds")
        for key, value in numbers.items():
            _check_threshold(f"{shown}, {section}.{key}", key, value)
    where = f"config/scales/{config.scale_name}.yaml, cleaning"
    for section, changes in config.scale.get("cleaning", {}).items():
        check_known(section, thresholds, where, "section")
        if not isinstance(changes, dict):
            raise UserError(f"{where}.{section}: must be a mapping of thresholds")
        for key, value in changes.items():
            check_known(key, thresholds[section], f"{where}.{section}", "threshold")
            _check_threshold(f"{where}.{section}.{key}", key, value)
    return deep_merge(thresholds, config.scale.get("cleaning", {}))


def _check_threshold(where: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where}: must be a number, is {json.dumps(value, default=str)}")
    check_bounds(where, name, value)
