"""What tables rest on: the files of scores, trainings and corpora, ours or the reference ones of today."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.identity import digest, run_hash
from common.yamlfiles import read_yaml
from plan.config import Config
from plan.recipes import is_job, recipe_digest, recipe_key
from plan.runs import hash_of, resolve_run, trained_run
from plan.seeds import pretrain_seeds
from plan.translators import resolve_translator


def seeds_of(config: Config, run: str) -> list[int]:
    """The evaluation seeds of a run: an aligner draws nothing, so that one stands for all."""
    return [1] if config.runs[run]["kind"] == "aligner" else config.seeds


def evidence(config: Config, kind: str) -> str:
    """The folder of what tables, figures, claims and the report rest on: `scores`, `trainings` or `corpus`. With
    `scores_from: reference` that of the repository, where no rule writes."""
    return f"reference/{kind}/{config.scale_name}" if config.from_reference else f"results/{config.scale_name}/{kind}"


def reference_scores(config: Config) -> str:
    return f"reference/scores/{config.scale_name}"


def require_scores(config: Config) -> None:
    """Who asks for the reference scores of a scale that has none would get a page without a number."""
    if config.from_reference and not (config.root / reference_scores(config)).is_dir():
        kept = sorted(path.name for path in (config.root / "reference/scores").glob("*") if path.is_dir())
        raise UserError(
            f"scores_from: reference has no scores of scale {config.scale_name}; it has those of "
            f"{', '.join(kept) or 'none'}: take one of these (scale=...), or leave scores_from out to compute your own"
        )


def score_path(config: Config, run: str, task: str, setting: str, seed: int) -> str:
    return f"{evidence(config, 'scores')}/{run}/{task}/{setting}/seed-{seed}.json"


def training_path(config: Config, run: str, seed: int) -> str:
    """What a pre-training cost, and its curves in short."""
    return f"{evidence(config, 'trainings')}/{trained_run(config, run)}/seed-{seed}.json"


def training_paths(config: Config, runs: Iterable[str]) -> list[str]:
    """Of those runs that are trained here, one of each seed of pre-training."""
    trained = {trained_run(config, run) for run in runs if run in config.selected and run in config.pretrained}
    seeds = pretrain_seeds(config)
    return existing(config, [training_path(config, run, seed) for run in sorted(trained) for seed in seeds])


def trainings_of(config: Config, run: str) -> dict[int, str]:
    """Seed of pre-training -> the file of a run."""
    seeds = pretrain_seeds(config)
    paths = {seed: training_path(config, run, seed) for seed in seeds}
    return {seed: path for seed, path in paths.items() if not config.from_reference or is_current(config, path)}


def corpus_counts(config: Config) -> list[str]:
    """The sizes of the corpora after cleaning."""
    return existing(config, [f"{evidence(config, 'corpus')}/counts.json"])


def existing(config: Config, paths: list[str]) -> list[str]:
    """Of reference files those that are there and today's: what is not among them stays an empty cell."""
    return [path for path in paths if is_current(config, path)] if config.from_reference else paths


def is_current(config: Config, path: str | Path) -> bool:
    """Is this reference file there, and of the run, recipe and task that the configuration has today? Looked at once:
    a page asks of each file for each table."""
    known, file = config.derived.setdefault("current", {}), config.root / path
    if file not in known:
        known[file] = _is_current(config, file)
    return known[file]


def _is_current(config: Config, file: Path) -> bool:
    kind = next(part for part in reversed(file.parts) if part in ("scores", "trainings", "corpus"))
    if kind == "corpus" or not file.is_file():
        return file.is_file()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        said = [content["run_hash"], *([content["task_version"]] if kind == "scores" else [])]
    except (ValueError, TypeError, KeyError):
        return True  # whoever reads it says what is wrong
    if kind == "trainings":
        return said == [hash_of(config, file.parent.name)[:16]]
    run, task, job = file.parts[-4:-1]
    if not is_job(config, task, job):
        return False
    recipes = file.parents[5] / f"recipes/{config.scale_name}.json"
    said.append(_reference_recipes(recipes, recipes.stat().st_mtime_ns).get(recipe_key(config, run, task, job)))
    today = (score_hash(config, run, task, job), config.tasks[task]["version"], recipe_digest(config, run, task, job))
    return said == [*today]


def stale(config: Config, content: dict, results: Path) -> str | None:
    """Why a score is none of today's configuration; None where it is."""
    run, task, setting = (content[key] for key in ("run", "task", "setting"))
    if not is_job(config, task, setting):
        return f"of a setting that config/tasks/{task}.yaml no longer has"
    if content["task_version"] != (version := config.tasks[task]["version"]):
        return f"of version {content['task_version']} of {task}, which is at {version}"
    if content["run_hash"] != (current := score_hash(config, run, task, setting)):
        return f"of another {run} ({content['run_hash']}) than config/runs and the scale have today ({current})"
    recipe = results / f"recipes/{recipe_key(config, run, task, setting)}.yaml"
    if not recipe.exists():
        return f"{recipe}, the recipe that it was made by, is not there"
    if digest(read_yaml(recipe, str(recipe)))[:16] != recipe_digest(config, run, task, setting):
        return f"of another recipe than config/tasks/{task}.yaml and the scale have today"
    return None


def score_hash(config: Config, run: str, task: str, job: str) -> str:
    """The run_hash that a score has: of the run, or of the translation model that is made of it."""
    translates = config.tasks[task]["kind"] == "translation"
    return run_hash(resolve_translator(config, run, task, job) if translates else resolve_run(config, run))[:16]


def check_hashes(config: Config, scores: Iterable[Any]) -> None:
    """Every number is of a run as the configuration has it now."""
    for run, task, setting, found, seed in sorted({(s.run, s.task, s.setting, s.run_hash, s.seed) for s in scores}):
        if found != (today := score_hash(config, run, task, setting)):
            raise UserError(
                f"scores/{run}/{task}/{setting}/seed-{seed}.json: of another {run} (run_hash {found}) than config/ has "
                f"({today}): its run.yaml was changed on its way; delete that, the run's weights and this file, and "
                "run again"
            )


@cache
def _reference_recipes(path: Path, changed: int) -> dict[str, str]:
    """Which recipe stands behind the reference scores: `task/setting/recipe` -> its digest."""
    return json.loads(path.read_text(encoding="utf-8"))
