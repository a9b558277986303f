"""Pre-train one run with one seed; continues from its own checkpoints after any interruption.

Reads a resolved run, its sampling plan, the shards and the vocabulary. Writes the final weights, a JSON-lines log and
the cost. Checkpoints lie in state/ beside --out under a key of run, data and seed, so a changed run never continues an
old one.
SIGTERM, SIGUSR1 and the end of --budget save a checkpoint and end with status 75. Works under torchrun; with another
number of processes, or another batch.device_rows, the result differs by rounding alone.
"""

import argparse
import dataclasses
import functools
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages for large tensors; torch reads it once, at its first
# Of a GPU: logits are of another size each time, and would leave holes between them.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
from torch import nn

from common.errors import STOPPED_STATUS, UserError, run_main
from common.identity import content_hash
from common.memory import keep_freed_memory
from engine.admin import set_residuals
from engine.ahead import ahead
from engine.attention import choose_kernels
from engine.checkpoint import load_state, load_whole_state, save_state, save_weights, sole_use, whole_state
from engine.compiling import compile_parts
from engine.config import ObjectiveConfig, RunConfig, load_run
from engine.cost import check_passes
from engine.data import Mixture
from engine.dist import GradientSums, Ranks, StopRequest, shard_blocks
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch
from engine.optim import AdamW, clip_gradients, learning_rate, parameter_groups
from engine.randomness import stable_hash
from engine.recomputing import recompute_parts
from engine.shards import verify_shards
from engine.streams import Source
from engine.tokenizer import load_tokenizer
from training.assembly import (
    COUNTED,
    PretrainingModel,
    build_mixture,
    fill_in,
    frozen_weights,
    host_batches,
    in_first_phase,
    languages_with_vectors,
    mixed,
    next_batches,
    on_device,
    read_plan,
    seen_in,
    tell_sources,
)
from training.finish import describe, finish, snapshot_name, snapshot_steps
from training.initial import load_initial_weights
from training.log import Log
from training.readings import Readings, read


@dataclasses.dataclass
class Part:
    """The rows of one objective in a step, on the host."""

    objective: ObjectiveConfig
    batches: list[Batch]
    slots: int  # of all ranks


@dataclasses.dataclass
class Given:
    """What a step learns from. Everything that depends on data alone, so it can be made before its turn."""

    step: int
    parts: list[Part]
    data: list[dict]  # where the mixtures stand behind it: what a checkpoint of this step says


def give(run: RunConfig, mixtures: list[Mixture], ranks: Ranks, step: int) -> Given:
    parts = []
    for number, (objective, mixture) in enumerate(zip(run.objectives, mixtures, strict=True)):
        if run.schedule.alternate and (step - 1) % len(run.objectives) != number:
            continue
        rows = mixture.assemble(mixture.next_layout(), ranks.rank, ranks.world_size)
        batches = host_batches(rows, objective, run, ranks, step)
        parts.append(Part(objective, batches, mixture.rows * mixture.row_length))
    return Given(step, parts, [mixture.state() for mixture in mixtures])


def give_all(run: RunConfig, mixtures: list[Mixture], ranks: Ranks, first: int) -> Iterator[Given]:
    if ranks.device.type == "cuda" and ranks.device.index is not None:
        torch.cuda.set_device(ranks.device)  # of this thread, which may be another one
    for step in range(first, run.schedule.steps + 1):
        yield give(run, mixtures, ranks, step)


def train_step(
    model: nn.Module, run: RunConfig, mixtures: list[Mixture], ranks: Ranks, step: int, seed: int
) -> tuple[dict[str, float], list[tuple[ObjectiveConfig, list[Batch]]]]:
    """Gradients of one optimiser step, with its rows and its signals."""
    readings, done = learn(model, run, give(run, mixtures, ranks, step), ranks, seed)
    return read(readings, ranks)[0], done


def learn(
    model: nn.Module, run: RunConfig, given: Given, ranks: Ranks, seed: int
) -> tuple[list[Readings], list[tuple[ObjectiveConfig, list[Batch]]]]:
    """Gradients of one optimiser step, on all ranks: the sum over the objectives of the mean over all its predictions
    of the step, or, with `normalisation: joint`, the sum of all losses over the number of all predictions."""
    readings, done, sums = [], [], GradientSums(model, ranks)
    # dropout depends on the seed, the step and the rank, so that a resumed run draws what it would have drawn
    torch.manual_seed(stable_hash(run.run_hash, "dropout", seed, given.step, ranks.rank))
    for part in given.parts:
        batches = on_device(part.batches, ranks)
        own = accumulate(model, run, part.objective, batches, ranks, sums if part is given.parts[-1] else None)
        tokens, items, attended = ranks.sum(
            [sum(one) for one in zip(*(seen_in(batch.host) for batch in batches), strict=True)]
        )
        own.known = {"tokens": tokens, "items": items, "attended": attended, "padding": 1 - tokens / part.slots}
        readings.append(own)
        done.append((part.objective, batches))
    ranks.sum_gradients(model, sums)
    if run.normalisation == "joint":
        predictions = sum(sum(own.count.values()) for own in readings)
        divide_gradients(model, max(1, predictions))
    return readings, done


def divide_gradients(model: nn.Module, count: float) -> None:
    for weight in model.parameters():
        if weight.grad is not None:
            weight.grad.div_(count)


def backward(
    model: nn.Module, run: RunConfig, objective: ObjectiveConfig, batches: list[Batch], ranks: Ranks
) -> dict[str, float]:
    """Add one objective's gradients; its losses and signals as means over all ranks."""
    return read([accumulate(model, run, objective, batches, ranks)], ranks)[0]


def accumulate(
    model: nn.Module,
    run: RunConfig,
    objective: ObjectiveConfig,
    batches: list[Batch],
    ranks: Ranks,
    sums: GradientSums | None = None,
) -> Readings:
    """Add one objective's gradients; given `sums`, they are the last ones of the step."""
    own = OBJECTIVES[objective.name]
    if own.prepare:
        with mixed(run, ranks), torch.no_grad():
            for batch in batches:
                own.prepare(model, batch)
    if own.meet:
        own.meet(model, batches, ranks)
    counts = [own.count(batch) for batch in batches]
    names = list(counts[0])
    count = dict(zip(names, ranks.sum([sum(one[name] for one in counts) for name in names]), strict=True))
    weight = {name: objective.weight * own.weights(objective).get(name, 1.0) for name in names}
    joint = run.normalisation == "joint"  # `learn` divides, when all objectives are counted
    over = {name: 1 if joint else max(1, count[name]) for name in names}
    readings = Readings(objective, count, {name: [] for name in names})
    for batch in batches:
        with mixed(run, ranks):
            loss = own.loss(model, batch)
        total = sum(value * (weight[name] / over[name]) for name, value in loss.sums.items())
        if sums and batch is batches[-1]:
            sums.watch()
        if total.requires_grad:
            total.backward()
        for name, value in loss.sums.items():
            readings.sums[name].append(value.detach())
        for name, pair in loss.signals.items():
            readings.noted.setdefault(name, []).append(pair)
    if sums:
        sums.send_the_rest()
    return readings


def check_finite(signals: dict[str, float], norm: float, mixtures: list[Mixture], given: Given, run: RunConfig) -> None:
    wrong = [name for name, value in {**signals, "gradient norm": norm}.items() if not math.isfinite(value)]
    if wrong:
        drawn = zip(given.data, mixtures, strict=True)
        places = [f"items {state['drawn']} drawn from {mixture.sources[0].kind}" for state, mixture in drawn]
        raise UserError(
            f"run {run.name}, step {given.step}: {', '.join(wrong)} is not finite ({'; '.join(places)}). "
            "Nothing was saved. Lower optimizer.peak_lr, lengthen schedule.warmup_steps, "
            "or look at the data of this step"
        )


def shard(model: nn.Module, run: RunConfig, ranks: Ranks) -> None:
    """Every rank must do the same number of passes, or they wait for each other for ever."""
    for objective in run.objectives:
        if (objective.rows or run.batch.rows) % ranks.world_size:
            raise UserError(
                f"run {run.name}, objective {objective.name}: {objective.rows or run.batch.rows} rows do not divide "
                f"over {ranks.world_size} devices, which `parallel: shard` needs; change batch.rows or the devices"
            )
    shard_blocks(model, ranks)


def new_optimizer(model: nn.Module, run: RunConfig, frozen: set[str], step: int, ranks: Ranks | None = None) -> AdamW:
    """AdamW over what is trained from this step on."""
    train = run.schedule.first.train if in_first_phase(run, step) else None
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen and (train is None or name.split(".")[0] in train))
        weight.grad = None
    groups = parameter_groups(model, run.optimizer.weight_decay)
    shared = ranks if run.parallel == "shard" and ranks and ranks.world_size > 1 else None
    return AdamW(groups, run.optimizer.peak_lr, run.optimizer.betas, run.optimizer.eps, shared)


def rate_of(run: RunConfig, step: int) -> float:
    schedule, peak = run.schedule, run.optimizer.peak_lr
    if schedule.first is None:
        return learning_rate(step, peak, schedule.warmup_steps, schedule.steps)
    if in_first_phase(run, step):
        return peak * min(1.0, step / max(1, schedule.first.warmup_steps))
    return learning_rate(
        step - schedule.first.steps, peak, schedule.warmup_steps, schedule.steps - schedule.first.steps
    )


def pass_once(model: nn.Module, run: RunConfig, mixture: Mixture, ranks: Ranks) -> None:
    """The forward passes of one step of the first objective."""
    objective = run.objectives[0]
    for batch in next_batches(run, objective, mixture, ranks, 0):
        with mixed(run, ranks):
            OBJECTIVES[objective.name].loss(model, batch)


def start_objectives(model: nn.Module, run: RunConfig, mixtures: list[Mixture], ranks: Ranks) -> None:
    """Before the first step: momentum copies are taken, queues are filled."""
    for objective, mixture in zip(run.objectives, mixtures, strict=True):
        if start := OBJECTIVES[objective.name].start:
            draw = functools.partial(next_batches, run, objective, mixture, ranks, 0)
            with mixed(run, ranks):
                start(model, objective, draw, ranks)


def pretrain(arguments: argparse.Namespace) -> int:
    with ExitStack() as held:  # until the end, whatever that is
        return pretrain_alone(arguments, held)


def read_request(arguments: argparse.Namespace, ranks: Ranks) -> tuple[RunConfig, dict[str, list[Source]], str, str]:
    """The run with everything that its data tell, its sources, a name for run, data and seed, and the vocabulary's."""
    run = load_run(arguments.run_file)
    check_passes(run)
    tokenizer = load_tokenizer(arguments.vocabulary)
    run = fill_in(run, tokenizer.vocabulary_size, arguments.run_file)
    limit = run.data.get("bitext", {}).get("limit")
    sources, data_hash = read_plan(arguments.plan, arguments.shards, limit)
    run = tell_sources(run, sources)
    manifests = [path for own in sources.values() for source in own for path in source.manifests]
    verify_shards(manifests, ranks.rank, ranks.world_size)
    return run, sources, content_hash([run.run_hash, data_hash, arguments.seed]), tokenizer.sha256


def start_model(
    arguments: argparse.Namespace, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks, vocabulary: str
) -> tuple[PretrainingModel, set[str]]:
    """The model before its first step, and the names of the weights that are never trained."""
    torch.manual_seed(stable_hash(arguments.seed, "init"))
    model = PretrainingModel(run)
    if run.model.languages:
        model.encoder.language_codes = languages_with_vectors(run)
    start = load_initial_weights(model, run.init, arguments.init, vocabulary) if run.init else {}
    model.to(ranks.device).train()
    frozen = frozen_weights(model, run)
    trained = int(start.get("steps", 0)) > 0  # then so are the residuals
    if run.model.admin and trained and run.init.fresh:
        raise UserError(
            f"run {run.name}, init.fresh: with model.admin the residuals of fresh layers would stay unset beside "
            "trained ones; start from an untrained run, or leave model.admin out"
        )
    if run.model.admin and run.schedule.steps and not trained:  # also before resuming, which overwrites them
        mixture = build_mixture(run, run.objectives[0], sources, arguments.seed, vocabulary)
        set_residuals(model, functools.partial(pass_once, model, run, mixture, ranks), ranks)
    sharded = run.parallel == "shard" and ranks.world_size > 1
    if wanted(arguments, "compile", ranks) and not sharded:
        compile_parts(model)
    if run.activations == "recompute":
        recompute_parts(model)
    if sharded:
        shard(model, run, ranks)
    return model, frozen


def save(
    folder: Path,
    run: RunConfig,
    model: nn.Module,
    optimizer: AdamW,
    given: Given,
    seconds: float,
    totals: dict[str, float],
    ranks: Ranks,
) -> None:
    """A checkpoint after the step of what was given."""
    state = whole_state(model, optimizer)
    if ranks.rank == 0:
        state |= {"step": given.step, "seconds": seconds, "totals": totals, "data": given.data}
        save_state(folder, given.step, state, run.checkpoint.keep)


def keep_snapshot(
    folder: Path, arguments: argparse.Namespace, run: RunConfig, model: PretrainingModel, step: int, ranks: Ranks
) -> None:
    weights = whole_state(model)["model"]
    if ranks.rank == 0:
        save_weights(folder / "snapshots" / snapshot_name(step), weights, describe(arguments, run, model, step))


def pretrain_alone(arguments: argparse.Namespace, held: ExitStack) -> int:
    ranks = Ranks(arguments.world_size)
    choose_kernels(ranks.device)
    stop = StopRequest()
    if budget := arguments.budget:
        signal.signal(signal.SIGALRM, stop.note)
        signal.setitimer(signal.ITIMER_REAL, budget)
    run, sources, key, vocabulary = read_request(arguments, ranks)
    seed = arguments.seed
    model, frozen = start_model(arguments, run, sources, ranks, vocabulary)
    mixtures = [build_mixture(run, objective, sources, seed, vocabulary) for objective in run.objectives]

    folder = arguments.out.parent / "state" / key
    if ranks.rank == 0:
        held.enter_context(sole_use(folder))
    ranks.sum([0.0])  # nobody looks before that
    saved = load_state(folder)
    agree_on_step(saved, ranks, folder)
    step, seconds_before, totals = 0, 0.0, {}
    optimizer = new_optimizer(model, run, frozen, step + 1, ranks)
    print_plan(run, model, mixtures, ranks)
    if saved:
        step, seconds_before, totals = saved["step"], saved["seconds"], saved["totals"]
        optimizer = new_optimizer(model, run, frozen, step, ranks)
        load_whole_state(model, optimizer, saved)
        for mixture, state in zip(mixtures, saved["data"], strict=True):
            mixture.load_state(state)
        print(f"continuing after step {step} from {folder}", file=sys.stderr)
    elif run.schedule.steps:
        start_objectives(model, run, mixtures, ranks)
    cycle = len(run.objectives) if run.schedule.alternate else 1
    log = Log(folder / "train.jsonl", step, run.schedule.steps, ranks.rank == 0, cycle)
    started = time.monotonic() - seconds_before

    steps = give_all(run, mixtures, ranks, step + 1)
    if wanted(arguments, "prefetch", ranks):
        steps = held.enter_context(ahead(steps))
    for given in steps:
        step = given.step
        if run.schedule.first and step == run.schedule.first.steps + 1:
            optimizer = new_optimizer(model, run, frozen, step, ranks)
        rate = rate_of(run, step)
        for group in optimizer.groups:
            group["lr"] = rate
        optimizer.zero_grad()
        readings, done = learn(model, run, given, ranks, seed)
        norm = clip_gradients(model, run.optimizer.clip, ranks)
        optimizer.step()
        for objective, batches in done:
            if after_step := OBJECTIVES[objective.name].after_step:
                after_step(model, batches, ranks)
        signals, [norm] = read(readings, ranks, norm)  # a GPU has all of the step to do by now
        check_finite(signals, norm, mixtures, given, run)
        seen = sum(value for name, value in signals.items() if name.endswith("/tokens"))
        for name, value in signals.items():
            if name.rpartition("/")[2] in COUNTED:
                totals[name] = totals.get(name, 0.0) + value
        log.write(step, signals, rate, norm, seen)
        stopped = stop.anywhere(ranks)
        if step in snapshot_steps(run):
            keep_snapshot(folder, arguments, run, model, step, ranks)
        if step < run.schedule.steps and (stopped or step % run.checkpoint.every_steps == 0):
            save(folder, run, model, optimizer, given, time.monotonic() - started, totals, ranks)
        if stopped and step < run.schedule.steps:
            print(f"told to stop: saved step {step} in {folder}; run again to continue", file=sys.stderr)
            ranks.close()
            return STOPPED_STATUS

    weights = whole_state(model)["model"]
    if ranks.rank == 0:
        finish(arguments, run, model, weights, totals, time.monotonic() - started, ranks, folder)
    ranks.close()
    return 0


def wanted(arguments: argparse.Namespace, what: str, ranks: Ranks) -> bool:
    asked = getattr(arguments, what)
    return asked == "on" or (asked == "auto" and ranks.device.type == "cuda")


def agree_on_step(saved: dict | None, ranks: Ranks, folder: Path) -> None:
    """Every rank continues from the same checkpoint: a file system may show a new one on one node before another."""
    step = saved["step"] if saved else 0
    steps = ranks.sum([float(step) if rank == ranks.rank else 0.0 for rank in range(ranks.world_size)])
    if len(set(steps)) > 1:
        raise UserError(
            f"{folder}: the ranks find checkpoints of steps {', '.join(f'{step:.0f}' for step in steps)}; the file "
            "system has not shown the newest to every node yet: run again"
        )


def print_plan(run: RunConfig, model: nn.Module, mixtures: list[Mixture], ranks: Ranks) -> None:
    """Everything derived, before step 0."""
    if ranks.rank:
        return
    parameters = sum(p.numel() for p in model.parameters())
    print(f"run {run.name} ({run.run_hash}): {parameters:,} parameters, {run.schedule.steps:,} steps", file=sys.stderr)
    for objective, mixture in zip(run.objectives, mixtures, strict=True):
        per_device = math.ceil(mixture.rows / ranks.world_size)
        passes = math.ceil(per_device / run.batch.device_rows)
        print(
            f"  {objective.name}: {mixture.rows} rows x {mixture.row_length} tokens a step from {len(mixture.sources)} "
            f"sources, {passes} forward passes on each of {ranks.world_size} devices ({ranks.device.type})",
            file=sys.stderr,
        )


def main() -> int:
    return pretrain(parse_arguments(make_parser(__doc__)))


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-file", type=Path, required=True, help="resolved run (resolve_run.py writes it)")
    parser.add_argument("--plan", type=Path, required=True, help="sampling plan of this run (plan_sampling.py)")
    parser.add_argument("--shards", type=Path, required=True, help="folder of encoded shards")
    parser.add_argument("--vocabulary", type=Path, required=True, help="SentencePiece model, or folder of an import")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="final weights, safetensors")
    parser.add_argument("--log-json", type=Path, required=True, help="training log, one JSON object a line")
    parser.add_argument("--cost", type=Path, required=True, help="parameters, tokens, FLOPs, seconds as JSON")
    parser.add_argument("--init", type=Path, help="final weights of the run that `init.run` names")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--world-size", type=int, help="stop before step 0 unless this many processes were started")
    parser.add_argument("--budget", type=float, help="seconds after which to save and end, as when told to stop")
    for name, what in (
        ("compile", "compile the layers (auto: on a GPU); changes the last bits of the results"),
        ("prefetch", "make the rows of the next step in a thread (auto: on a GPU); changes no bit of the results"),
    ):
        parser.add_argument(f"--{name}", choices=("auto", "on", "off"), default="auto", help=what)
    parser.set_defaults(snapshots=None)
    return parser


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return arguments


if __name__ == "__main__":
    run_main(main)
