"""The end of a training: log, cost, weights and what they say of themselves; the mean over snapshots."""

import argparse
import json
import os
import platform
import shutil
from pathlib import Path

import torch
from torch import Tensor

from common.atomic import atomic_folder, atomic_path, write_sealed
from common.identity import commit_id
from engine import cost
from engine.checkpoint import describe_model, load_weights, save_weights
from engine.config import RunConfig
from engine.dist import Ranks
from engine.objectives import OBJECTIVES
from engine.precision import computed_in
from engine.shards import sha256_of
from engine.tokenizer import vocabulary_sum
from training.assembly import PretrainingModel, parameters_of, seen_over


def finish(
    arguments: argparse.Namespace,
    run: RunConfig,
    model: PretrainingModel,
    weights: dict[str, Tensor],
    totals: dict[str, float],
    seconds: float,
    ranks: Ranks,
    folder: Path,
) -> None:
    """Log and cost first, weights last: whoever finds the weights finds the rest. Then the checkpoints go."""
    log = folder / "train.jsonl"
    log.touch()
    with atomic_path(arguments.log_json) as temporary:
        shutil.copyfile(log, temporary)
    tokens = sum(value for name, value in totals.items() if name.endswith("/tokens"))
    left_out = {name for objective in run.objectives for name in OBJECTIVES[objective.name].training_only}
    seen = seen_over(run, totals)
    by_objective = cost.flops(run, seen)
    flops = sum(own["ours"] for own in by_objective.values())
    write_sealed(
        arguments.cost,
        {
            "run": run.name,
            "parameters": parameters_of(model, left_out),
            "steps": run.schedule.steps,
            "tokens": tokens,
            "flops": flops,
            "flops_by_the_papers_counting": sum(own["papers"] for own in by_objective.values()),
            "objectives": {name: {**vars(seen[name]), "flops": own} for name, own in by_objective.items()},
            "seconds": seconds,
            "tokens_per_second": tokens / seconds if tokens else 0.0,
            "flops_per_second": flops / seconds if tokens else 0.0,
            "precision": computed_in(run.precision, ranks.device.type),
            "world_size": ranks.world_size,
            "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "log_sha256": sha256_of(log),
        },
    )
    kept = {name: tensor for name, tensor in weights.items() if name.split(".")[0] not in left_out}
    metadata = describe(arguments, run, model, run.schedule.steps)
    if run.checkpoint.average > 1:
        last = snapshot_steps(run)[-run.checkpoint.average :]
        kept = mean_of([folder / "snapshots" / snapshot_name(step) for step in last], list(kept))
        metadata["averaged"] = str(len(last))
    if arguments.snapshots:
        with atomic_folder(arguments.snapshots) as temporary:  # copies: what was moved, a retry would miss
            for step in snapshot_steps(run):
                shutil.copyfile(folder / "snapshots" / snapshot_name(step), temporary / snapshot_name(step))
    save_weights(arguments.out, kept, metadata)
    gone = folder.with_suffix(".done")  # at once: a retry after a kill in here must not find a part of it
    shutil.rmtree(gone, ignore_errors=True)
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def describe(arguments: argparse.Namespace, run: RunConfig, model: PretrainingModel, step: int) -> dict[str, str]:
    """The metadata of the weights after so many steps."""
    metadata = {
        "format": "pt",
        "model": describe_model(run.model),
        "run": run.name,
        "run_hash": run.run_hash,
        "seed": str(arguments.seed),
        "steps": str(step),
        "commit": commit_id(),
        "vocabulary_sha256": vocabulary_sum(arguments.vocabulary),
        "dtype": "float32",
    }
    if run.model.languages:
        metadata["languages"] = json.dumps(model.encoder.language_codes)
    return metadata


def snapshot_steps(run: RunConfig) -> list[int]:
    """After which steps weights are kept."""
    number = run.checkpoint.snapshots
    return [round(run.schedule.steps * (i + 1) / number) for i in range(number)]


def snapshot_name(step: int) -> str:
    return f"step-{step:09d}.safetensors"


def mean_of(files: list[Path], names: list[str]) -> dict[str, Tensor]:
    """The mean of the weights of several files, one file in memory at a time."""
    total: dict[str, Tensor] = {}
    for file in files:
        weights, _ = load_weights(file)
        for name in names:
            total[name] = total.get(name, 0) + weights[name].double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}
