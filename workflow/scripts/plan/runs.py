"""Runs at a scale: what each starts from, its weights, and which of several are one. Its size: scaled.py."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator

from common.errors import UserError
from common.identity import run_hash
from common.yamlfiles import check_known, deep_merge
from engine.options import check_restart
from plan.config import Config
from plan.objectives import deepest
from plan.scaled import keep_data, scaled_model, scaled_objective, scaled_schedule
from plan.vocabulary import vocabulary_size


def data_languages(data: dict) -> set[str]:
    pairs = data.get("bitext", {}).get("corpora", {})
    return set(data.get("mono", {}).get("languages", [])) | {code for pair in pairs for code in pair.split("-")}


def lineage(config: Config, name: str) -> list[str]:
    """The run and those that it starts from, one from the other."""
    line = [name]
    while init := config.runs[line[-1]].get("init"):
        where = f"config/runs/{line[-1]}.yaml, init.run"
        check_known(init["run"], config.runs, where, "run")
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


def resolve_run(config: Config, name: str) -> dict:
    """One run at the configured scale: what results/<scale>/runs/<run>/run.yaml holds.

    The scale's run_overrides are laid over the run; languages and pairs are those that the scale has. A run without
    objectives stays untrained: a scale's schedule does not give it steps.
    """
    if name not in config._resolved:
        config._resolved[name] = _resolve_run(config, name)
    return config._resolved[name]


def _resolve_run(config: Config, name: str) -> dict:
    check_known(name, config.runs, "config/runs", "run")
    run, scale = config.runs[name], config.scale
    shown = f"config/scales/{config.scale_name}.yaml"
    if run["kind"] == "checkpoint":  # what it is does not depend on the scale
        return copy.deepcopy({key: value for key, value in run.items() if key != "paper"})
    if run["kind"] == "aligner":  # it has pairs and nothing else that a scale could shrink
        resolved = copy.deepcopy({key: value for key, value in run.items() if key != "paper"})
        keep_data(config, name, resolved)
        return resolved
    own = {key: value for key, value in run.items() if key not in ("paper", "decoder")}
    resolved = deep_merge(own, scale.get("run_overrides", {}))
    resolved["model"] = scaled_model(resolved["model"])
    resolved["objectives"] = [scaled_objective(config, run, own, resolved) for own in run["objectives"]]
    resolved["schedule"] = scaled_schedule(run, scale.get("run_overrides", {}).get("schedule", {}))
    keep_data(config, name, resolved)
    if run["model"].get("languages"):
        resolved["model"]["languages"] = len(data_languages(resolved["data"]))
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
        _check_positions(config, name, own, model)
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
        if not scale.get("continued_runs_replay"):
            _draw_anew(config, resolved["init"]["run"], resolved["objectives"])
    return resolved


def _draw_anew(config: Config, start: str, objectives: list[dict]) -> None:
    """A draw depends on seed and objective alone, so that runs with one start read the same. What goes on from a
    training would read its lines behind its masks once more; named after it, the draws are others."""
    if config.runs[start].get("objectives"):
        for objective in objectives:
            objective["draws"] = f"{objective.get('draws', objective['name'])} after {start}"


def _check_positions(config: Config, name: str, objective: dict, model: dict) -> None:
    where = f"config/runs/{name}.yaml, objectives: {objective['name']}.reset_positions"
    if "reset_positions" in config.scale.get("objective_overrides", {}).get(objective["name"], {}):
        where = f"config/scales/{config.scale_name}.yaml, objective_overrides.{objective['name']}.reset_positions"
    told_apart = model.get("languages", 0), model.get("token_types", 0)
    try:
        check_restart(objective.get("reset_positions", False), *told_apart, where)
    except UserError as error:
        raise UserError(f"{error} (run '{name}')") from None


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


def trained_run(config: Config, name: str) -> str:
    """The run whose weights are those of `name` at this scale: of several with equal content, the one that extends the
    fewest files, then the first by name. xlm-r-small is xlm-r where the scale makes them equal.
    """
    return next(iter(equal_runs(config, name)))


def equal_runs(config: Config, name: str) -> Iterator[str]:
    own = hash_of(config, name) or run_hash(resolve_run(config, name))  # which says why there is none
    depth = len(lineage(config, name))  # runs of equal content start equally far from scratch
    same = (run for run in config.runs if config._hashes.get(run, own) == own and len(lineage(config, run)) == depth)
    return (run for run in same if hash_of(config, run) == own)


def hash_of(config: Config, name: str) -> str | None:
    """None for a run that this scale cannot train."""
    if name not in config._hashes:
        try:
            config._hashes[name] = run_hash(resolve_run(config, name))
        except UserError:
            config._hashes[name] = None
    return config._hashes[name]


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


def absent(config: Config) -> set[str]:
    """The runs that a scale leaves out, the published checkpoints that one with a generated world has no use for, and
    what starts from them; and what starts from a checkpoint of another shape than this scale gives it."""
    unwanted = config.scale.get("left_out", {}).keys()
    left_out = {name for name in config.runs if not unwanted.isdisjoint(lineage(config, name))}
    checkpoints = {name for name, run in config.runs.items() if run["kind"] == "checkpoint"}
    lines = {name: set(lineage(config, name)) & checkpoints for name in config.runs} if checkpoints else {}
    missing = checkpoints - set(config.imported)
    started = [name for name, line in lines.items() if line - {name} and not line & missing]
    unlike = {name for name in started if not hash_of(config, name)}
    return {name for name, line in lines.items() if line & missing} | unlike | left_out


def not_here(config: Config, run: str) -> str:
    """Why this scale cannot have a run of `config.not_here`."""
    left_out = config.scale.get("left_out", {})
    for name in lineage(config, run):
        if name in left_out:
            return f"run {name} is not for scale {config.scale_name}: {left_out[name]}"
    line = {name for name in lineage(config, run) if config.runs[name]["kind"] == "checkpoint"}
    if missing := sorted(line - set(config.imported)):
        what = "is a published checkpoint" if missing == [run] else f"starts from a published checkpoint, {missing[0]}"
        return f"run {run} {what}, and scale {config.scale_name} has made-up languages"
    return f"run {run} starts from a checkpoint, {min(line)}, that has another shape than scale {config.scale_name}"
