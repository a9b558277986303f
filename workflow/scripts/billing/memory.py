"""The memory of a training: weights and what belongs to them, activations, the rows that fit."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import dataclass
from functools import cache

import torch

from billing.sample import run_config
from engine import cost
from engine.config import ObjectiveConfig, RunConfig
from engine.cost import Seen
from engine.dist import LARGE
from engine.model import shapes_alone
from engine.objectives import OBJECTIVES
from engine.objectives.mlm import CHUNK
from engine.shape import ModelConfig
from plan.runs import data_languages
from training.assembly import PretrainingModel, frozen_weights


@dataclass(frozen=True)
class Size:
    """Numbers of parameters, and bytes of what is no parameter."""

    all: int
    trained: int
    kept: int  # in the final weights
    sharded: int  # of all, in blocks: what `parallel: shard` cuts over the devices
    small: int  # of the trained, in weights whose gradients are summed in one message
    buffers: int


@cache
def _size_of(key: str, vocabulary: int, languages: int) -> Size:
    values = json.loads(key)
    run = run_config(values, vocabulary)
    with shapes_alone():
        model = PretrainingModel(run)

    def numbers(tensor: torch.Tensor) -> int:
        """A table of languages has no row yet: nobody told the model its sources."""
        return tensor.numel() if tensor.shape[:1] != (0,) else languages * math.prod(tensor.shape[1:])

    left_out = tuple(f"{n}." for own in run.objectives for n in OBJECTIVES[own.name].training_only)
    frozen = frozen_weights(model, run)
    count = {name: numbers(weight) for name, weight in model.named_parameters()}
    return Size(
        sum(count.values()),
        sum(number for name, number in count.items() if name not in frozen),
        sum(number for name, number in count.items() if not name.startswith(left_out)),
        sum(number for name, number in count.items() if re.search(r"(^|\.)(blocks|cross_attention)\.", name)),
        sum(number for name, number in count.items() if name not in frozen and number < LARGE),
        sum(numbers(buffer) * buffer.element_size() for buffer in model.buffers()),
    )


def size_of(values: dict, vocabulary: int) -> Size:
    """Of a resolved run; from the shapes of its model, which is not made."""
    what = {
        "name": "",
        "data": {},
        "model": values["model"] | {"dropout": 0.0, "attention_dropout": 0.0},
        "objectives": [{key: own[key] for key in ("name", "options") if key in own} for own in values["objectives"]],
        "batch": {"rows": 1, "row_length": 1, "device_rows": 1},
        "optimizer": {"peak_lr": 1},
        "schedule": {"steps": 1, "warmup_steps": 0},
    }
    if first := values["schedule"].get("first"):
        what["schedule"]["first"] = first
    if frozen := (values.get("init") or {}).get("frozen"):
        what["init"] = {"run": "", "frozen": frozen}
    return _size_of(json.dumps(what, sort_keys=True), vocabulary, len(data_languages(values["data"])))


def state_bytes(size: Size, parallel: str, devices: int) -> float:
    """Weights, gradients and both moments of AdamW in fp32, and on several devices the small gradients once more, as
    one message. Sharding cuts the blocks in all of it, and of the rest the moments."""
    share = 1 / devices if parallel == "shard" else 1.0
    cut = size.sharded if parallel == "shard" else 0
    whole, trained_whole = size.all - cut, max(0, size.trained - cut)
    trained_cut = min(cut, size.trained)
    flat = 4 * min(size.small, trained_whole) if devices > 1 else 0
    weights_and_gradients = 4 * (whole + cut * share) + 4 * (trained_whole + trained_cut * share)
    return weights_and_gradients + 8 * share * size.trained + flat + size.buffers


def activation_bytes(model: ModelConfig, precision: str, cross: bool = False, mask: int = 1) -> float:
    """What one token leaves of one block for the way back: what matrix products, GELU and attention read, and in fp32
    what LayerNorm reads; of a decoder's block also that of its cross-attention. Dropout leaves `mask` bytes a number: 1
    on a GPU."""
    h, own = model.width, 2 if precision == "bf16" else 4
    dropped = mask * h if model.dropout else 0
    kept = own * (6 * h + 2 * model.ffn) + 2 * 4 * h + 4 * (model.heads + 4) + 2 * dropped
    return kept + (own * 6 * h + 4 * h + 4 * (model.heads + 2) + dropped if cross else 0)


def entering_bytes(model: ModelConfig, cross: bool = False) -> float:
    """What one token leaves of a block that is computed again: what enters its halves, and cross-attention."""
    return 4 * model.width * (3 if cross else 2)


def memory_bytes(run: RunConfig, size: Size, devices: int, device_rows: int | None = None) -> float:
    """At the peak of a step: states, the activations of the costliest objective's trained passes, logits of a chunk."""
    rows = device_rows or run.batch.device_rows
    most = 0.0
    for objective in run.objectives:
        on_device = math.ceil((objective.rows or run.batch.rows) / devices)
        tokens = min(rows, on_device) * (objective.row_length or run.batch.row_length)
        seen = Seen(tokens, objective.mask.rate * tokens, max(1.0, tokens / 60), tokens * 60)
        own = 0.0
        for one in cost.passes(run, objective, seen):
            if one.trained:
                whole = activation_bytes(run.model, run.precision, one.cross) + dense_scores(run.model, objective, run)
                if run.activations == "recompute":  # at the peak, one block is whole again
                    own += one.tokens * (one.layers * entering_bytes(run.model, one.cross) + whole)
                else:
                    own += one.tokens * one.layers * whole
                own += one.tokens * 4 * run.model.width * 3  # embeddings, their LayerNorm, the last states
        logits = (
            min(CHUNK, seen.predictions) * run.model.vocabulary * (4 * 3 + (2 * 2 if run.precision == "bf16" else 0))
        )
        most = max(most, own + logits)
    cast = 2 * size.all if run.precision == "bf16" else 0  # copies of the weights that products read
    return state_bytes(size, run.parallel, devices) + cast + most


def dense_scores(model: ModelConfig, objective: ObjectiveConfig, run: RunConfig) -> float:
    """Of one token in one block, where a bias by distance is added to scores that FlexAttention does not compute."""
    if not model.relative_bias or not model.attention_dropout:
        return 0.0
    return model.heads * (objective.row_length or run.batch.row_length) * (2 if run.precision == "bf16" else 4)


def rows_that_fit(run: RunConfig, size: Size, devices: int, memory: float) -> int:
    """The most device_rows, 0 if one is too many."""
    low, high = 0, max(run.batch.device_rows, 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if memory_bytes(run, size, devices, middle) <= memory else (low, middle - 1)
    return low


CHANGES: tuple[dict[str, str], ...] = ({}, {"parallel": "shard"}, {"activations": "recompute"})
CHANGES += ({"parallel": "shard", "activations": "recompute"},)


def advice(run: RunConfig, size: Size, devices: int, room: float) -> str:
    """What to change of a run that does not fit: the first of these that lets a row in."""
    for changes in CHANGES:
        if "parallel" in changes and devices == 1:
            continue
        if rows := rows_that_fit(dataclasses.replace(run, **changes), size, devices, room):
            words = [f"{key}: {value}" for key, value in changes.items() if getattr(run, key) != value]
            rows = min(rows, run.batch.device_rows)
            place = f"config/runs/{run.name}.yaml or the scale"
            return ", ".join([*words, f"batch.device_rows: {rows} (now {run.batch.device_rows}) in {place}"])
    return "more memory a device: even one row does not fit"
