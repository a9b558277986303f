"""What a scale makes of a run: objectives, model, schedule and data at its size and in its languages."""

from __future__ import annotations

import copy
from typing import Any

from common.errors import UserError
from common.pairs import pair_with_english
from common.yamlfiles import deep_merge
from plan.config import Config
from plan.objectives import OBJECTIVE_DATA, depths_of
from plan.sources import gathered_corpus, gathered_pairs


def without_nulls(value: Any) -> Any:
    """null in a run says that there is no such thing: it takes out what the run that is extended has."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def scaled_objective(config: Config, run: dict, own: dict, resolved: dict) -> dict:
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
        depths = depths_of(own, f"config/runs/{run['name']}.yaml, objectives")
        scaled = {
            key: max(min(1, value), round(value * resolved["model"]["layers"] / layers))
            for key, value in depths.items()
        }
        changes |= {"options": scaled} if scaled else {}
    changes = deep_merge(changes, config.scale.get("objective_overrides", {}).get(own["name"], {}))
    return without_nulls(deep_merge(own, changes))


def scaled_model(model: dict) -> dict:
    """With its share of the layers that the run or the scale says."""
    kept = {key: value for key, value in model.items() if key != "layers_share"}
    return {**kept, "layers": max(1, round(kept["layers"] * model.get("layers_share", 1)))}


def scaled_schedule(run: dict, overrides: dict) -> dict:
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


def keep_data(config: Config, name: str, resolved: dict) -> None:
    """Only the languages, pairs and corpora that the scale has."""
    shown = f"config/scales/{config.scale_name}.yaml"
    allowed = config.scale.get("languages")
    world = None  # pair -> the corpora that the generated world has for it
    if config.has_world:
        world = {pair_with_english(code): names for code, names in config.scale["world"]["bitext"].items()}
    data = resolved["data"] = dict(resolved["data"])  # the run's own stays as it is written
    if "mono" in data:
        languages = sorted(code for code in data["mono"]["languages"] if allowed is None or code in allowed)
        data["mono"] = {**data["mono"], "languages": languages}
        if corpus := gathered_corpus(config, "text"):
            data["mono"]["corpus"] = corpus
        if not languages:
            del data["mono"]
    if "bitext" in data:
        corpora = {
            pair: sorted(corpus for corpus in names if world is None or corpus in world.get(pair, ()))
            for pair, names in sorted(data["bitext"]["corpora"].items())
            if allowed is None or set(pair.split("-")) <= set(allowed)
        }
        if gathered_corpus(config, "pairs"):
            corpora = gathered_pairs(config, list(corpora))
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
