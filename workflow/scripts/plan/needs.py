"""From a table or figure to what it needs: (run, task, setting), and the files behind them.

config/tables, config/figures -> (run, task, setting) -> score files -> everything before them
"""

from __future__ import annotations

from typing import Any

from common.identity import digest
from plan import compare_specs
from plan.config import Config
from plan.evidence import existing, is_current, reference_scores, score_path, seeds_of, training_path, trainings_of
from plan.recipes import (
    recipe_bitext,
    recipe_of,
    setting_jobs,
    task_languages,
    translation_corpora,
    without_training,
)
from plan.runs import equal_runs, hash_of, lineage, not_here, resolve_run, with_ancestors
from plan.seeds import pretrain_seeds
from plan.translators import FROM_WEIGHTS, decoder_of, resolve_translator


def canonical_run(config: Config, name: str, task: str | None = None) -> str:
    """The run whose scores are those of `name` at this scale: equal weights, fine-tuned by an equal recipe; for a task
    of translation with an equal decoder too."""

    def how(run: str) -> tuple[str, dict | None]:
        translates = task in config.tasks and config.tasks[task]["kind"] == "translation" and run in config.pretrained
        return recipe_of(config, run), decoder_of(config, run) if translates else None

    own = how(name)
    return next(run for run in equal_runs(config, name) if how(run) == own)


def canonical_runs(config: Config) -> dict[str, str]:
    """Of the runs that tables and figures show: the run that stands for each."""
    rows = [row for spec in config.specs.values() for group in spec.get("groups", []) for row in group["rows"]]
    named = {row["run"] for row in rows if row.get("run") in config.selected}
    return {run: canonical_run(config, run) for run in sorted(named)}


def needs(
    config: Config, spec: dict, item: str | None = None, runs: frozenset[str] | None = None
) -> list[tuple[str, str, str]]:
    """The (run, task, setting) that stand behind a table or figure and that the run is fit for, sorted.

    Runs are canonical. Left out: rows without a run of ours, runs that neither config.yaml nor the scale selects (or
    that are not among `runs`), tasks and settings that nothing computes yet, tasks in none of whose languages this
    scale evaluates, settings that rest on sentence pairs where it has none, and what is computed on request alone.
    """
    runs = config.selected if runs is None else runs
    if "compare" in spec:  # the columns that it takes from tables of scores
        return sorted({need for other in compare_specs.score_specs(config.root, spec) for need in needs(config, other)})
    found = set()
    for group in spec.get("groups", []):
        for row in group["rows"]:
            run = row.get("run")
            if run not in runs:
                continue
            for column in spec.get("columns", []):
                task, setting = column["task"], column.get("setting", group.get("setting"))
                setting = group.get("settings", {}).get(task, setting)
                if task not in config.tasks or setting not in config.tasks[task]["settings"]:
                    continue
                if unfit(config, run, task, setting) or on_request(config, run, task, setting):
                    continue
                if task_languages(config, task) and has_pairs(config, task, setting):  # else nothing to evaluate
                    shown = column["languages"] if isinstance(column.get("languages"), list) else None
                    jobs = setting_jobs(config, task, setting, shown)
                    found |= {(canonical_run(config, run, task), task, job) for job in jobs}
    return sorted(found)


def on_request(config: Config, run: str, task: str, setting: str) -> str | None:
    """Why a call that names no runs does not compute a setting of a task."""
    if run not in config.selected:
        return None
    model = config.tasks[task]["settings"][setting].get("model", {"task": task, "setting": setting})
    for name in (task, f"{task}/{setting}", model["task"], f"{model['task']}/{model['setting']}"):
        if why := config.on_request.get(name):
            return f"{name} is computed with --config runs=all alone: {why}"
    return None


def has_pairs(config: Config, task: str, setting: str) -> bool:
    if config.tasks[task]["kind"] == "translation":
        return bool(translation_corpora(config, config.tasks[task]["bitext"]))
    how = config.tasks[task]["settings"][setting]
    run = how.get("bitext") or how.get("centre", {}).get("run")
    return run is None or bool(recipe_bitext(config, run, task_languages(config, task))["corpora"])


def unfit(config: Config, run: str, task: str, setting: str) -> str | None:
    """Why a run can have no score of a task and setting, both of which exist."""
    if run not in config.runs:
        return None
    left_out = config.scale.get("left_out", {})
    for name in (task, config.tasks[task]["settings"][setting].get("model", {}).get("task")):
        if name in left_out:
            return f"task {name} is not for scale {config.scale_name}: {left_out[name]}"
    if missing := without_training(config, task, setting):
        return f"scale {config.scale_name} has no training file of {task} in {missing[0]}"
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


def figure_trainings(config: Config, spec: dict) -> list[str]:
    """The files of trainings that a figure reads: those of its runs, and for costs of what they start from too."""
    if not {"training", "cost"} & set(spec):
        return []
    named = {row.get("run") for group in spec["groups"] for row in group["rows"]}
    runs = named & config.selected & set(config.pretrained)
    if "cost" in spec:
        runs = set(with_ancestors(config, runs))
    return existing(config, sorted({path for run in runs for path in trainings_of(config, run).values()}))


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


def compared_trainings(config: Config, spec: dict) -> list[str]:
    """What a comparison reads of what trainings cost: of its runs and of those that they start from."""
    if not compare_specs.shows_training(spec):
        return []
    runs = [run for run in compare_specs.runs_of(spec) if run in config.selected and hash_of(config, run)]
    seeds = pretrain_seeds(config)
    paths = [training_path(config, run, seed) for run in with_ancestors(config, runs) for seed in seeds]
    return existing(config, paths)


def comparison_digest(config: Config, spec: dict) -> str:
    """A digest of what a comparison shows of the configuration: its runs and recipes, as written and as resolved."""
    shown: list[Any] = [config.scale["vocabulary"], compare_specs.score_specs(config.root, spec)]
    for run in compare_specs.runs_of(spec):
        for name in lineage(config, run):
            shown.append([config.runs[name], resolve_run(config, name) if hash_of(config, name) else None])
    for task in compare_specs.tasks_of(spec):
        shown.append([config.tasks[task], config.scale.get("task_overrides", {}).get(task)])
    return digest(shown)


def score_paths(config: Config, spec: dict) -> list[str]:
    """The score files that a table or figure reads at this scale."""
    return [*paths_of_needs(config, needs(config, spec)), *borrowed_paths(config, spec)]


def borrowed(config: Config) -> frozenset[str]:
    """Runs that are not trained here and that the repository keeps reference scores of: tables show these, marked."""
    if "borrowed" not in config.derived:
        kept = config.root / reference_scores(config)
        there = {path.name for path in kept.iterdir()} if kept.is_dir() and not config.from_reference else set()
        others = there & set(config.runs) - config.selected - config.not_here
        config.derived["borrowed"] = frozenset(run for run in others if canonical_run(config, run) in others)
    return config.derived["borrowed"]


def borrowed_paths(config: Config, spec: dict) -> list[str]:
    """The reference scores, of today's configuration, that a table shows of runs that are not trained here."""
    item = f"{spec.get('paper')}/{spec.get('item')}"
    if item not in config.tables or "compare" in spec:
        return []
    found = []
    for run, task, job in needs(config, spec, item, borrowed(config)):
        for seed in seeds_of(config, run):
            path = f"{reference_scores(config)}/{run}/{task}/{job}/seed-{seed}.json"
            found += [path] if is_current(config, path) else []
    return found


def paths_of_needs(config: Config, found: list[tuple[str, str, str]]) -> list[str]:
    return existing(config, [score_path(config, *need, seed) for need in found for seed in seeds_of(config, need[0])])
