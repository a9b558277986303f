"""Pre-train one run with one seed; continues from its own checkpoints after any interruption.

Reads a resolved run, its sampling plan, the shards and the vocabulary. Writes the final weights, a JSON-lines log and
the cost. Checkpoints lie in --state under a key of run, data and seed, so a changed run never continues an old one.
SIGTERM and SIGUSR1 save a checkpoint and end with status 75. Works under torchrun; the result does not depend on the
number of processes, nor on batch.device_rows.
"""

import argparse
import csv
import dataclasses
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import torch
import yaml
from torch import nn

from atomic import atomic_path, write_json
from engine import cost
from engine.attention_rules import Tokens, boolean_mask
from engine.checkpoint import describe_model, load_state, save_state, save_weights
from engine.config import ObjectiveConfig, RunConfig, content_hash, load_run
from engine.corruption import corrupt, select
from engine.data import Mixture, Rows, Source
from engine.dist import STOPPED_STATUS, Ranks, StopRequest
from engine.model import Encoder, MaskedLanguageModelHead, ModelConfig
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch
from engine.optim import clip_gradients, learning_rate, parameter_groups
from engine.randomness import stable_hash
from engine.shards import sha256_of
from engine.tokenizer import Tokenizer
from errors import UserError, run_main

LOG_EVERY = 10  # steps
PROGRESS_SECONDS = 5


class PretrainingModel(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.encoder = Encoder(config)
        self.mlm_head = MaskedLanguageModelHead(config)


def read_plan(path: Path, shards: Path) -> tuple[dict[str, list[Source]], str]:
    """The sources of each kind of data, and a hash of the plan (it holds the checksums of the data)."""
    text = path.read_text(encoding="utf-8")
    sources: dict[str, list[Source]] = {"mono": [], "bitext": []}
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        folder = shards / row["kind"] / row["corpus"] / row["name"]
        manifests = sorted(folder.glob("*.json"), key=lambda manifest: int(manifest.stem))
        if not manifests:
            raise UserError(f"{folder}: no shards, but {path} names them; run encode_corpus first")
        source = Source(row["kind"], row["corpus"], row["name"], float(row["q"]), tuple(manifests))
        sources[source.kind].append(source)
    return sources, content_hash(text)


def build_mixture(
    run: RunConfig, objective: ObjectiveConfig, sources: dict[str, list[Source]], seed: int, vocabulary_sha256: str
) -> Mixture:
    data = OBJECTIVES[objective.name].data
    if not sources[data]:
        raise UserError(f"run {run.name}: objective {objective.name} needs {data} data, and the sampling plan has none")
    languages = sorted({code for own in sources.values() for source in own for code in source.languages})
    return Mixture(
        sources[data],
        rows=objective.rows or run.batch.rows,
        row_length=objective.row_length or run.batch.row_length,
        seed=stable_hash(seed, "data", objective.name),
        languages=languages,
        pair_separators=objective.pair_separators,
        reset_positions=objective.reset_positions,
        packing=objective.packing,
        block_length=objective.block_length,
        vocabulary_sha256=vocabulary_sha256,
    )


def micro_batches(
    rows: Rows, objective: ObjectiveConfig, device_rows: int, vocabulary: int, device: torch.device
) -> Iterator[Batch]:
    """Corrupt all rows of this rank, then cut them into forward passes."""
    selected = select(rows, objective.mask.rate, objective.name, vocabulary)
    seen = corrupt(rows, selected, objective.mask, objective.name, vocabulary)
    rule = OBJECTIVES[objective.name].rule
    for first in range(0, len(seen), device_rows):
        part = slice(first, first + device_rows)
        width = int((rows.document[part] >= 0).sum(1).max())  # rows are filled from the left
        fields = Tokens(
            document=torch.from_numpy(rows.document[part, :width]),
            side=torch.from_numpy(rows.side[part, :width]),
            selected=torch.from_numpy(selected[part, :width]),
            position=torch.from_numpy(rows.position[part, :width]),
            language=torch.from_numpy(rows.language[part, :width]),
        )
        fields = Tokens(*(field.to(device) for field in fields))
        chosen = fields.selected.flatten().nonzero().squeeze(1)
        targets = torch.from_numpy(rows.tokens[part, :width]).to(device).flatten()[chosen]
        tokens = torch.from_numpy(seen[part, :width]).to(device)
        yield Batch(tokens, fields, boolean_mask(fields, rule), chosen, targets)


def train_step(model: nn.Module, run: RunConfig, mixtures: list[Mixture], ranks: Ranks, step: int) -> dict[str, float]:
    """Gradients of one optimiser step: per objective, the mean over all its predictions of the step, on all ranks."""
    signals: dict[str, float] = {}
    device_type = ranks.device.type
    # dropout depends on the step and the rank, so a resumed run draws what the uninterrupted one would have drawn
    torch.manual_seed(stable_hash(run.run_hash, "dropout", step, ranks.rank))
    for objective, mixture in zip(run.objectives, mixtures, strict=True):
        layout = mixture.next_layout()
        rows = mixture.assemble(layout, ranks.rank, ranks.world_size)
        batches = list(micro_batches(rows, objective, run.batch.device_rows, run.model.vocabulary, ranks.device))
        count = sum(len(batch.targets) for batch in batches)
        filled = int((rows.document >= 0).sum())
        count, filled, slots = ranks.sum([count, filled, rows.tokens.size])
        total, sums = 0.0, {}
        for batch in batches:
            with torch.autocast(device_type, torch.bfloat16) if run.precision == "bf16" else nullcontext():
                loss = OBJECTIVES[objective.name].loss(model, batch)
            (loss.total * (objective.weight / count)).backward()
            total += float(loss.total.detach())
            for name, value in loss.signals.items():
                sums[name] = sums.get(name, 0.0) + value
        total, *values = ranks.sum([total, *sums.values()])
        signals[f"{objective.name}/loss"] = total / count
        signals |= {f"{objective.name}/{name}": value / count for name, value in zip(sums, values, strict=True)}
        signals[f"{objective.name}/predictions"] = count
        signals[f"{objective.name}/tokens"] = filled
        signals[f"{objective.name}/padding"] = 1 - filled / slots
    return signals


def check_finite(signals: dict[str, float], norm: float, mixtures: list[Mixture], step: int, run: RunConfig) -> None:
    wrong = [name for name, value in {**signals, "gradient norm": norm}.items() if not math.isfinite(value)]
    if wrong:
        places = [f"items {mixture.drawn} drawn from {mixture.sources[0].kind}" for mixture in mixtures]
        raise UserError(
            f"run {run.name}, step {step}: {', '.join(wrong)} is not finite ({'; '.join(places)}). Nothing was saved. "
            "Lower optimizer.peak_lr, lengthen schedule.warmup_steps, or look at the data of this step"
        )


def commit_id() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


class Log:
    """JSON lines in the state folder (it survives a retry), one progress line for a person on stderr."""

    def __init__(self, path: Path, step: int, steps: int, active: bool):
        self.path, self.steps, self.active = path, steps, active
        self.shown = self.started = time.monotonic()
        self.first_step, self.tokens = step, 0.0
        if active:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text().splitlines() if path.exists() else []
            kept = [line for line in lines if is_whole(line) and json.loads(line)["step"] <= step]
            path.write_text("".join(line + "\n" for line in kept))

    def write(self, step: int, signals: dict[str, float], rate: float, norm: float, tokens: float) -> None:
        if not self.active:
            return
        self.tokens += tokens
        elapsed = time.monotonic() - self.started
        speed = self.tokens / elapsed
        if step % LOG_EVERY == 0 or step in (1, self.steps):
            row = {"step": step, "lr": rate, "gradient_norm": norm, "tokens_per_second": round(speed), **signals}
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if time.monotonic() - self.shown > PROGRESS_SECONDS or step == self.steps:
            self.shown = time.monotonic()
            left = (self.steps - step) * elapsed / max(1, step - self.first_step)
            losses = "  ".join(f"{k.removesuffix('/loss')} {v:.3f}" for k, v in signals.items() if k.endswith("/loss"))
            end = "\r" if sys.stderr.isatty() and step < self.steps else "\n"
            text = f"step {step}/{self.steps}  {losses}  {speed:,.0f} tokens/s  {left:,.0f} s left"
            print(text, end=end, file=sys.stderr, flush=True)


def is_whole(line: str) -> bool:
    try:
        json.loads(line)
        return True
    except json.JSONDecodeError:
        return False


def pretrain(arguments: argparse.Namespace) -> int:
    ranks = Ranks(arguments.world_size)
    stop = StopRequest()
    run = load_run(arguments.run_file)
    tokenizer = Tokenizer(arguments.vocabulary)
    vocabulary_sha256 = sha256_of(arguments.vocabulary)
    run = fill_in(run, tokenizer.vocabulary_size, arguments.run_file)
    sources, data_hash = read_plan(arguments.plan, arguments.shards)
    seed = arguments.seed

    torch.manual_seed(stable_hash(seed, "init"))
    model = PretrainingModel(run.model).to(ranks.device).train()
    optimizer = torch.optim.AdamW(
        parameter_groups(model, run.optimizer.weight_decay),
        lr=run.optimizer.peak_lr,
        betas=run.optimizer.betas,
        eps=run.optimizer.eps,
        fused=True,
    )
    mixtures = [build_mixture(run, objective, sources, seed, vocabulary_sha256) for objective in run.objectives]
    print_plan(run, model, mixtures, ranks)

    folder = (arguments.state or arguments.out.parent / "state") / content_hash([run.run_hash, data_hash, seed])
    saved = load_state(folder)
    step, seconds_before, tokens_before = 0, 0.0, 0.0
    if saved:
        step, seconds_before, tokens_before = saved["step"], saved["seconds"], saved["tokens"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        for mixture, state in zip(mixtures, saved["data"], strict=True):
            mixture.load_state(state)
        print(f"continuing after step {step} from {folder}", file=sys.stderr)
    log = Log(folder / "train.jsonl", step, run.schedule.steps, ranks.rank == 0)
    started, tokens, signals = time.monotonic(), tokens_before, {}

    def save() -> None:
        if ranks.rank == 0:
            seconds = seconds_before + time.monotonic() - started
            data = [mixture.state() for mixture in mixtures]
            state = {"step": step, "seconds": seconds, "tokens": tokens, "data": data}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_state(folder, step, state, run.checkpoint.keep)

    while step < run.schedule.steps:
        step += 1
        rate = learning_rate(step, run.optimizer.peak_lr, run.schedule.warmup_steps, run.schedule.steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        signals = train_step(model, run, mixtures, ranks, step)
        ranks.sum_gradients(model)
        norm = clip_gradients(model, run.optimizer.clip)
        check_finite(signals, norm, mixtures, step, run)
        optimizer.step()
        seen = sum(value for name, value in signals.items() if name.endswith("/tokens"))
        tokens += seen
        log.write(step, signals, rate, norm, seen)
        stopped = stop.anywhere(ranks)
        if step < run.schedule.steps and (stopped or step % run.checkpoint.every_steps == 0):
            save()
        if stopped and step < run.schedule.steps:
            print(f"told to stop: saved step {step} in {folder}; run again to continue", file=sys.stderr)
            ranks.close()
            return STOPPED_STATUS

    if ranks.rank == 0:
        seconds = seconds_before + time.monotonic() - started
        finish(arguments, run, model, signals, tokens, seconds, ranks, folder)
    ranks.close()
    return 0


def finish(
    arguments: argparse.Namespace,
    run: RunConfig,
    model: PretrainingModel,
    signals: dict[str, float],
    tokens: float,
    seconds: float,
    ranks: Ranks,
    folder: Path,
) -> None:
    """Log and cost first, weights last: whoever finds the weights finds the rest. Then the checkpoints go."""
    log = folder / "train.jsonl"
    log.touch()
    with atomic_path(arguments.log_json) as temporary:
        shutil.copyfile(log, temporary)
    flops = 0.0
    for objective in run.objectives:
        share = signals[f"{objective.name}/predictions"] / signals[f"{objective.name}/tokens"]
        length = objective.row_length or run.batch.row_length
        of_objective = (
            tokens
            * signals[f"{objective.name}/tokens"]
            / sum(signals[f"{other.name}/tokens"] for other in run.objectives)
        )
        flops += cost.training_flops(run.model, of_objective, length, share)
    encoder = sum(p.numel() for p in model.encoder.parameters())
    write_json(
        arguments.cost,
        {
            "run": run.name,
            "parameters": {"encoder": encoder, "all": sum(p.numel() for p in model.parameters())},
            "steps": run.schedule.steps,
            "tokens": tokens,
            "flops": flops,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds if tokens else 0.0,
            "flops_per_second": flops / seconds if tokens else 0.0,
            "world_size": ranks.world_size,
            "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        },
    )
    metadata = {
        "format": "pt",
        "model": describe_model(run.model),
        "run": run.name,
        "run_hash": run.run_hash,
        "seed": str(arguments.seed),
        "steps": str(run.schedule.steps),
        "commit": commit_id(),
        "vocabulary_sha256": sha256_of(arguments.vocabulary),
        "dtype": "float32",
    }
    save_weights(arguments.out, model, metadata)
    shutil.rmtree(folder, ignore_errors=True)


def fill_in(run: RunConfig, vocabulary: int, path: Path) -> RunConfig:
    """The resolved run with what only the data tell: vocabulary size and the hash of the request."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    run_hash = values.get("run_hash") or content_hash({k: v for k, v in values.items() if k not in ("name", "paper")})
    if run.model.vocabulary not in (0, vocabulary):
        raise UserError(
            f"{path}: model.vocabulary is {run.model.vocabulary}, but the vocabulary file has {vocabulary} ids"
        )
    return dataclasses.replace(run, run_hash=run_hash, model=dataclasses.replace(run.model, vocabulary=vocabulary))


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-file", type=Path, required=True, help="resolved run (resolve_run.py writes it)")
    parser.add_argument("--plan", type=Path, required=True, help="sampling plan of this run (plan_sampling.py)")
    parser.add_argument("--shards", type=Path, required=True, help="folder of encoded shards")
    parser.add_argument("--vocabulary", type=Path, required=True, help="SentencePiece model")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="final weights, safetensors")
    parser.add_argument("--log-json", type=Path, required=True, help="training log, one JSON object a line")
    parser.add_argument("--cost", type=Path, required=True, help="parameters, tokens, FLOPs, seconds as JSON")
    parser.add_argument("--state", type=Path, help="folder of checkpoints (default: state/ beside --out)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--world-size", type=int, help="stop before step 0 unless this many processes were started")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return pretrain(arguments)


if __name__ == "__main__":
    run_main(main)
