"""Floating-point operations of a run by its configuration. No torch: what judges claims reads it."""

import dataclasses
import json
from functools import cache

from common.typed import build as build_typed
from engine import cost
from engine.config import RunConfig
from plan.config import Config
from plan.runs import lineage, resolve_run
from plan.vocabulary import vocabulary_size


def flops_with_start(config: Config, run: str) -> float | None:
    """With those of the runs that it starts from; an untrained run costs none."""
    total = 0.0
    for name in lineage(config, run):
        if config.runs[name]["kind"] != "pretrain":
            return None
        if config.runs[name].get("objectives"):
            total += flops_by_both(run_key(resolve_run(config, name), vocabulary_size(config)))[1]
    return total


@cache
def flops_by_both(key: str) -> tuple[float, float]:
    """Of its passes by the papers' counting and by ours. Rows are taken as full, each one document: what real text
    leaves empty costs less."""
    run, seen = as_engine_reads(key), {}
    in_turn = len(run.objectives) if run.schedule.alternate else 1
    for objective in run.objectives:
        length = objective.row_length or run.batch.row_length
        tokens = (objective.rows or run.batch.rows) * length * run.schedule.steps / in_turn
        seen[objective.name] = cost.Seen(tokens, objective.mask.rate * tokens, tokens / length, tokens * length)
    flops = cost.flops(run, seen).values()
    return sum(f["papers"] for f in flops), sum(f["ours"] for f in flops)


def run_key(run: dict, vocabulary: int) -> str:
    return json.dumps([run, vocabulary], sort_keys=True)


def as_engine_reads(key: str) -> RunConfig:
    """The run as the engine reads it, with its vocabulary."""
    values, vocabulary = json.loads(key)
    values = {name: value for name, value in values.items() if name not in ("paper", "decoder")}
    for section, share in (("schedule", "steps_share"), ("model", "layers_share")):
        values[section] = {name: value for name, value in values[section].items() if name != share}
    run = build_typed(RunConfig, values, "")
    return dataclasses.replace(run, model=dataclasses.replace(run.model, vocabulary=vocabulary))
