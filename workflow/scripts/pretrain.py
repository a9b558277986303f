"""Pre-train one run with one seed; continues from its own checkpoints after any interruption.

Reads a resolved run, its sampling plan, the shards and the vocabulary. Writes the final weights, a JSON-lines log and
the cost. Checkpoints lie in --state under a key of run, data and seed, so a changed run never continues an old one.
SIGTERM, SIGUSR1 and the end of --budget save a checkpoint and end with status 75. Works under torchrun; with another
number of processes, or another batch.device_rows, the result differs by rounding alone.
"""

import argparse
import csv
import dataclasses
import functools
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages for large tensors; torch reads it once, at its first
# Of a GPU: logits are of another size each time, and would leave holes between them.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import numpy as np
import torch
from torch import Tensor, nn

from common.atomic import atomic_folder, atomic_path, told, write_sealed
from common.errors import UserError, run_main
from common.yamlfiles import read_yaml
from engine import cost
from engine.admin import set_residuals
from engine.ahead import ahead
from engine.assembly import decoder_of_veco
from engine.attention import choose_kernels, has_flash_attention
from engine.attention_rules import Tokens
from engine.checkpoint import (
    describe_model,
    described_model,
    load_state,
    load_weights,
    save_state,
    save_weights,
    sole_use,
)
from engine.compiling import compile_parts
from engine.config import InitConfig, ObjectiveConfig, RunConfig, content_hash, load_run
from engine.data import Mixture, Rows, Source, language_codes
from engine.dist import STOPPED_STATUS, Ranks, StopRequest, load_whole_state, shard_blocks, whole_state
from engine.formats import without_token_types
from engine.model import Encoder, MaskedLanguageModelHead, ModelConfig
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch, Number, whole_width
from engine.optim import clip_gradients, learning_rate, parameter_groups
from engine.options import DESCRIPTIONS
from engine.prenorm import PreNormConfig
from engine.randomness import stable_hash
from engine.shards import sha256_of, sha256_of_manifests, verify_shards
from engine.tokenizer import load_tokenizer, vocabulary_sum

LOG_EVERY = 10  # steps
PROGRESS_SECONDS = 5
TILE = 128  # columns of a row, on a GPU: FlexAttention's blocks, and its gradient is known to fail beside them
LEAST_HEAD, MOST_HEAD = 16, 256  # features of a head that FlexAttention's kernels, and flash attention's, take
COUNTED = tuple(field.name for field in dataclasses.fields(cost.Seen))  # summed over the run, per objective


class PretrainingModel(nn.Module):
    """The encoder and the modules that the objectives of the run ask for; equal names are one module."""

    def __init__(self, run: RunConfig):
        super().__init__()
        self.encoder = Encoder(run.model)
        for objective in run.objectives:
            for name, module in OBJECTIVES[objective.name].modules(self, objective).items():
                if not hasattr(self, name):
                    self.add_module(name, module)
        if not run.objectives:
            self.mlm_head = MaskedLanguageModelHead(run.model)


def read_plan(path: Path, shards: Path, limit: int | None = None) -> tuple[dict[str, list[Source]], str]:
    """The sources of each kind of data, and a hash of the plan (it holds the checksums of the data). Of each language
    pair at most `limit` sentence pairs, from its corpora in proportion to their sizes."""
    text = path.read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    pairs: dict[str, int] = {}
    for row in rows if limit else ():
        if row["kind"] == "bitext":
            pairs[row["name"]] = pairs.get(row["name"], 0) + int(row["sentences"]) // 2
    sources: dict[str, list[Source]] = {"mono": [], "bitext": []}
    for row in rows:
        folder = shards / row["kind"] / row["corpus"] / row["name"]
        manifests = sorted(folder.glob("*.json"), key=lambda manifest: int(manifest.stem))
        if not manifests:
            raise UserError(f"{folder}: no shards, but {path} names them; run encode_corpus first")
        if row.get("sha256", found := sha256_of_manifests(manifests)) != found:
            raise UserError(f"{folder}: not the shards that {path} was made for; delete the plan and make it again")
        share = min(1.0, limit / pairs[row["name"]]) if limit and row["kind"] == "bitext" else 1.0
        source = Source(row["kind"], row["corpus"], row["name"], float(row["q"]), tuple(manifests), share)
        sources[source.kind].append(source)
    return sources, content_hash(text)


def tell_sources(run: RunConfig, sources: dict[str, list[Source]]) -> RunConfig:
    """The run, its objectives knowing all sources of its plan: which languages there are, and which are paired."""
    everything = tuple(source for own in sources.values() for source in own)
    objectives = tuple(dataclasses.replace(objective, sources=everything) for objective in run.objectives)
    return dataclasses.replace(run, objectives=objectives)


def languages_of(run: RunConfig) -> list[str]:
    """The codes of the rows of the language table."""
    codes = language_codes(run.objectives[0].sources) if run.objectives else []
    if len(codes) > run.model.languages:
        raise UserError(
            f"run {run.name}: model.languages is {run.model.languages}, but the sampling plan has {len(codes)}: "
            f"{', '.join(codes)}; raise it"
        )
    return codes


def build_mixture(
    run: RunConfig, objective: ObjectiveConfig, sources: dict[str, list[Source]], seed: int, vocabulary_sha256: str
) -> Mixture:
    data, form = DESCRIPTIONS[objective.name].data, DESCRIPTIONS[objective.name].form
    if not sources[data]:
        raise UserError(f"run {run.name}: objective {objective.name} needs {data} data, and the sampling plan has none")
    return Mixture(
        sources[data],
        form,
        source_language=getattr(objective.options, "source", None),
        rows=objective.rows or run.batch.rows,
        row_length=objective.row_length or run.batch.row_length,
        seed=stable_hash(seed, "data", objective.draws_as),
        languages=language_codes(source for own in sources.values() for source in own),
        pair_separators=objective.pair_separators,
        reset_positions=objective.reset_positions,
        reserved_share=reserved_share(objective),
        negative_share=getattr(objective.options, "negative_share", 0.0),
        least_tokens=getattr(objective.options, "least_tokens", 1),
        most_tokens=getattr(objective.options, "most_tokens", None),
        packing=objective.packing,
        block_length=objective.block_length,
        block_sentences=objective.block_sentences,
        vocabulary_sha256=vocabulary_sha256,
    )


def reserved_share(objective: ObjectiveConfig) -> float:
    """Slots per token in the items of the objective."""
    if DESCRIPTIONS[objective.name].form == "placeholders":
        return objective.options.ratio_share
    return objective.mask.rate if getattr(objective.options, "masks", None) == "append" else 0.0


def micro_batches(rows: Rows, objective: ObjectiveConfig, run: RunConfig, ranks: Ranks, step: int = 1) -> list[Batch]:
    """Corrupt all rows of this rank, then cut them into forward passes, on the device of the rank."""
    return on_device(host_batches(rows, objective, run, ranks, step), ranks)


def on_device(batches: list[Batch], ranks: Ranks) -> list[Batch]:
    return batches if ranks.device.type == "cpu" else [batch.to(ranks.device) for batch in batches]


def masks_of(run: RunConfig, device: torch.device) -> str:
    """The fastest that computes what the run asks for; see engine/masks.py."""
    model = run.model
    if device.type == "cpu":
        return "dense"
    if model.attention_dropout == 0 and model.width // model.heads >= LEAST_HEAD:
        return "blocks"
    head = model.width // model.heads
    flash = run.precision == "bf16" and not model.relative_bias and has_flash_attention(device)
    return "segments" if flash and head % 8 == 0 and head <= MOST_HEAD else "dense"


def host_batches(rows: Rows, objective: ObjectiveConfig, run: RunConfig, ranks: Ranks, step: int = 1) -> list[Batch]:
    """The same on the host, in pinned memory where a GPU is to read it."""
    seen, selected = OBJECTIVES[objective.name].corrupt(rows, objective, run.model.vocabulary)
    on_gpu = ranks.device.type == "cuda"
    tile, masks = TILE if on_gpu else 1, masks_of(run, ranks.device)
    batches = []
    for first in range(0, len(seen), run.batch.device_rows):
        part = slice(first, first + run.batch.device_rows)
        used = np.flatnonzero((rows.document[part] >= 0).any(0))
        width = whole_width(int(used[-1]) + 1 if len(used) else 1, tile, seen.shape[1])

        def put(array: np.ndarray, part: slice = part, width: int = width) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array[part, :width]))

        arrays = (rows.document, rows.side, selected, rows.position, rows.language)
        batches.append(
            Batch(
                tokens=put(seen),
                original=put(rows.tokens),
                fields=Tokens(*map(put, arrays)),
                offset=put(rows.offset),
                key=put(rows.key.view(np.int64)),
                row=torch.arange(len(seen))[part] * ranks.world_size + ranks.rank,
                objective=objective,
                step=step,
                steps=run.schedule.steps,
                warmup_steps=run.schedule.warmup_steps,
                first_phase=in_first_phase(run, step),
                masks=masks,
                tile=tile,
            )
        )
    return [batch.pinned() for batch in batches] if on_gpu else batches


def in_first_phase(run: RunConfig, step: int) -> bool:
    return run.schedule.first is not None and step <= run.schedule.first.steps


def next_batches(run: RunConfig, objective: ObjectiveConfig, mixture: Mixture, ranks: Ranks, step: int) -> list[Batch]:
    rows = mixture.assemble(mixture.next_layout(), ranks.rank, ranks.world_size)
    return micro_batches(rows, objective, run, ranks, step)


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
) -> tuple[list["Readings"], list[tuple[ObjectiveConfig, list[Batch]]]]:
    """Gradients of one optimiser step, on all ranks: the sum over the objectives of the mean over all its predictions
    of the step, or, with `normalisation: joint`, the sum of all losses over the number of all predictions."""
    readings, done = [], []
    # dropout depends on the seed, the step and the rank, so that a resumed run draws what it would have drawn
    torch.manual_seed(stable_hash(run.run_hash, "dropout", seed, given.step, ranks.rank))
    for part in given.parts:
        batches = on_device(part.batches, ranks)
        own = accumulate(model, run, part.objective, batches, ranks)
        tokens, items, attended = ranks.sum(
            [sum(one) for one in zip(*(seen_in(batch.host) for batch in batches), strict=True)]
        )
        own.known = {"tokens": tokens, "items": items, "attended": attended, "padding": 1 - tokens / part.slots}
        readings.append(own)
        done.append((part.objective, batches))
    if run.normalisation == "joint":
        predictions = sum(sum(own.count.values()) for own in readings)
        divide_gradients(model, max(1, predictions))
    return readings, done


def divide_gradients(model: nn.Module, count: float) -> None:
    for weight in model.parameters():
        if weight.grad is not None:
            weight.grad.div_(count)


def seen_in(batch: Batch) -> tuple[int, int, int]:
    """Tokens, items, and the sum over all tokens of the length of their item: what the cost is counted from."""
    document_BT = batch.fields.document
    B, T = document_BT.shape
    item_BT = document_BT + T * torch.arange(B, device=document_BT.device)[:, None]
    lengths = torch.bincount(item_BT[document_BT >= 0], minlength=1)
    return int(lengths.sum()), int((lengths > 0).sum()), int((lengths**2).sum())


def seen_over(run: RunConfig, totals: dict[str, float]) -> dict[str, cost.Seen]:
    """Per objective, of signals that were added up over steps."""
    return {
        objective.name: cost.Seen(*(totals.get(f"{objective.name}/{name}", 0.0) for name in COUNTED))
        for objective in run.objectives
        if f"{objective.name}/tokens" in totals
    }


def mixed(run: RunConfig, ranks: Ranks) -> AbstractContextManager:
    return torch.autocast(ranks.device.type, torch.bfloat16) if run.precision == "bf16" else nullcontext()


@dataclasses.dataclass
class Readings:
    """What the losses and signals of one objective sum up to on this rank, pass by pass and not looked at yet."""

    objective: ObjectiveConfig
    count: dict[str, float]  # of all ranks
    sums: dict[str, list[Number]]
    noted: dict[str, list[tuple[Number, Number]]] = dataclasses.field(default_factory=dict)
    known: dict[str, float] = dataclasses.field(default_factory=dict)  # of the rows

    def all(self) -> list[list[Number]]:
        """The sums, and of each signal its sums and its counts."""
        return [
            *self.sums.values(),
            *(list(half) for pairs in self.noted.values() for half in zip(*pairs, strict=True)),
        ]


def read(readings: list[Readings], ranks: Ranks, *others: Number) -> tuple[dict[str, float], list[float]]:
    """Losses and signals as means over all ranks, and the other numbers as they are: one look at the device a step, and
    one message."""
    columns = [column for own in readings for column in own.all()]
    told = iter(looked_at([number for column in (*columns, others) for number in column]))
    sums = iter(ranks.sum([sum((next(told) for _ in column), 0.0) for column in columns]))
    signals: dict[str, float] = {}
    for own in readings:
        kind, names = OBJECTIVES[own.objective.name], list(own.sums)
        means = {name: next(sums) / max(1, own.count[name]) for name in names}
        for name in own.noted:
            total, n = next(sums), next(sums)
            means[name] = total / max(1, n)
        means.setdefault("loss", sum(kind.weights(own.objective).get(name, 1.0) * means[name] for name in names))
        means["predictions"] = own.count[names[0]]
        signals |= {f"{own.objective.name}/{name}": value for name, value in (means | own.known).items()}
    return signals, list(told)


def looked_at(numbers: list[Number]) -> list[float]:
    """All of them in one transfer."""
    kinds: dict[torch.dtype, list[int]] = {}
    for place, number in enumerate(numbers):
        if isinstance(number, Tensor):
            kinds.setdefault(number.dtype, []).append(place)
    found = list(numbers)
    if kinds:
        stacks = [torch.stack([numbers[place] for place in places]).double() for places in kinds.values()]
        values = torch.cat(stacks).tolist()
        for place, value in zip((place for places in kinds.values() for place in places), values, strict=True):
            found[place] = value
    return [float(number) for number in found]


def backward(
    model: nn.Module, run: RunConfig, objective: ObjectiveConfig, batches: list[Batch], ranks: Ranks
) -> dict[str, float]:
    """Add one objective's gradients; its losses and signals as means over all ranks."""
    return read([accumulate(model, run, objective, batches, ranks)], ranks)[0]


def accumulate(
    model: nn.Module, run: RunConfig, objective: ObjectiveConfig, batches: list[Batch], ranks: Ranks
) -> Readings:
    """Add one objective's gradients."""
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
        if total.requires_grad:
            total.backward()
        for name, value in loss.sums.items():
            readings.sums[name].append(value.detach())
        for name, pair in loss.signals.items():
            readings.noted.setdefault(name, []).append(pair)
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


def commit_id() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


class Log:
    """JSON lines in the state folder (it survives a retry), one progress line for a person on stderr."""

    def __init__(self, path: Path, step: int, steps: int, active: bool, cycle: int = 1):
        self.path, self.steps, self.active = path, steps, active
        self.cycle = cycle  # steps in which every objective has its turn: all of a cycle are logged, or none
        self.shown = self.started = time.monotonic()
        self.first_step, self.tokens = step, 0.0
        if active:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text().splitlines() if path.exists() else []
            kept = [line for line in lines if is_whole(line) and json.loads(line)["step"] <= step]
            with atomic_path(path) as temporary:  # killed here, the record of all steps before must not be lost
                temporary.write_text("".join(line + "\n" for line in kept))

    def write(self, step: int, signals: dict[str, float], rate: float, norm: float, tokens: float) -> None:
        if not self.active:
            return
        self.tokens += tokens
        elapsed = time.monotonic() - self.started
        speed = self.tokens / elapsed
        if -(-step // self.cycle) % LOG_EVERY == 0 or step in (1, self.steps):
            row = {"step": step, "lr": rate, "gradient_norm": norm, "tokens_per_second": round(speed), **signals}
            with told(self.path), open(self.path, "a", encoding="utf-8") as file:
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


def load_initial_weights(
    model: nn.Module, init: InitConfig, path: Path | None, vocabulary_sha256: str | None = None
) -> dict[str, str]:
    """Copy another run's weights; every weight that is not copied must have been announced as fresh. The metadata of
    the file."""
    if path is None:
        raise UserError(f"the run starts from run {init.run}: give its weights with --init")
    given, metadata = load_weights(path)
    if init.run_hash and metadata.get("run_hash") != init.run_hash:
        raise UserError(
            f"{path}: weights of run {metadata.get('run', '?')} ({metadata.get('run_hash', 'no hash')}), not of "
            f"{init.run} ({init.run_hash}); train {init.run} again"
        )
    known = metadata.get("vocabulary_sha256")
    if known and vocabulary_sha256 and known != vocabulary_sha256:
        mend = f"train {init.run} again at this scale, or give the vocabulary that it was trained with"
        if "checkpoint" in metadata:
            mend = f"in the scale write vocabulary: {{of: {init.run}}}"
        raise UserError(
            f"{path}: of another vocabulary (sha256 {known}) than the text is encoded with ({vocabulary_sha256}); "
            f"{mend}"
        )
    given = fitted(given, metadata, model.encoder.config, path)
    own = model.state_dict()
    if init.decoder:
        given = given | decoder_of_veco(given, model.encoder.config, len(model.decoder.blocks), init.decoder)
    fresh = {name for name in own if name.startswith(init.fresh)} if init.fresh else set()
    missing = sorted(set(own) - fresh - set(given))
    shapes = [
        f"{name} {list(given[name].shape)} -> {list(own[name].shape)}"
        for name in sorted(set(own) & set(given) - fresh)
        if given[name].shape != own[name].shape
    ]
    if missing or shapes:
        problems = [f"not in the file: {', '.join(missing)}"] if missing else []
        problems += [f"of another shape: {', '.join(shapes)}"] if shapes else []
        raise UserError(f"{path}: cannot start from it: {'; '.join(problems)}. What is new belongs into init.fresh")
    copied = {name: tensor for name, tensor in given.items() if name in own and name not in fresh}
    model.load_state_dict(own | copied)
    unused = sorted({name.split(".")[0] for name in set(given) - set(copied)})
    print(
        f"copied {len(copied)} weights of {path}; fresh: {', '.join(init.fresh) or 'none'}; "
        f"not used: {', '.join(unused) or 'none'}",
        file=sys.stderr,
    )
    return metadata


def fitted(given: dict[str, Tensor], metadata: dict[str, str], model: ModelConfig, path: Path) -> dict[str, Tensor]:
    """The weights for the run's own shape: what no shape of a tensor shows must be equal, and the vector that every
    token of XLM-R gets goes into the positions of a model without token types."""
    if "model" not in metadata:
        raise UserError(f"{path}: the file does not describe its model (no `model` in its metadata); train it again")
    described = described_model(metadata)
    if isinstance(described, PreNormConfig):
        raise UserError(f"{path}: {described.pre_norm} normalises before its sublayers; no run can start from it")
    for key in ("heads", "layer_norm_eps"):
        if getattr(described, key) != getattr(model, key):
            raise UserError(
                f"{path}: cannot start from it: model.{key} is {getattr(described, key)} there and "
                f"{getattr(model, key)} in the run; set it to {getattr(described, key)}"
            )
    if described.relative_bias and model.relative_bias:
        for key in ("max_distance", "gate_input"):
            there, here = getattr(described.relative_bias, key), getattr(model.relative_bias, key)
            if there != here:
                raise UserError(
                    f"{path}: cannot start from it: model.relative_bias.{key} is {there} there and {here} in the run; "
                    f"set it to {there}"
                )
    if not model.token_types and described.token_types > 1:
        raise UserError(
            f"{path}: cannot start from it: it tells {described.token_types} sides of a pair apart; set "
            f"model.token_types to {described.token_types}"
        )
    return given if model.token_types or not described.token_types else without_token_types(given)


def frozen_weights(model: nn.Module, run: RunConfig) -> set[str]:
    """What is never trained: momentum copies, and what the run freezes."""
    prefixes = tuple(run.init.frozen) if run.init else ()
    check_names(model, prefixes, f"run {run.name}, init.frozen")
    if run.schedule.first:
        check_names(model, run.schedule.first.train, f"run {run.name}, schedule.first.train")
    weights = model.named_parameters()
    return {name for name, weight in weights if not weight.requires_grad or name.startswith(prefixes)}


def check_names(model: nn.Module, prefixes: Iterable[str], where: str) -> None:
    """A name that no weight begins with would silently freeze, or train, nothing."""
    names = [name for name, _ in model.named_parameters()]
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            known = ", ".join(sorted({name.partition(".")[0] for name in names}))
            raise UserError(f"{where}: no weight begins with {prefix!r}; the parts of the model are {known}")


def shard(model: nn.Module, run: RunConfig, ranks: Ranks) -> None:
    """Every rank must do the same number of passes, or they wait for each other for ever."""
    for objective in run.objectives:
        if (objective.rows or run.batch.rows) % ranks.world_size:
            raise UserError(
                f"run {run.name}, objective {objective.name}: {objective.rows or run.batch.rows} rows do not divide "
                f"over {ranks.world_size} devices, which `parallel: shard` needs; change batch.rows or the devices"
            )
    shard_blocks(model, ranks)


def new_optimizer(model: nn.Module, run: RunConfig, frozen: set[str], step: int) -> torch.optim.AdamW:
    """AdamW over what is trained from this step on."""
    train = run.schedule.first.train if in_first_phase(run, step) else None
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen and (train is None or name.split(".")[0] in train))
        weight.grad = None
    return torch.optim.AdamW(
        parameter_groups(model, run.optimizer.weight_decay),
        lr=run.optimizer.peak_lr,
        betas=run.optimizer.betas,
        eps=run.optimizer.eps,
        fused=True,
    )


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


def pretrain_alone(arguments: argparse.Namespace, held: ExitStack) -> int:
    ranks = Ranks(arguments.world_size)
    choose_kernels(ranks.device)
    stop = StopRequest()
    if budget := arguments.budget:
        signal.signal(signal.SIGALRM, stop.note)
        signal.setitimer(signal.ITIMER_REAL, budget)
    run = load_run(arguments.run_file)
    tokenizer = load_tokenizer(arguments.vocabulary)
    vocabulary_sha256 = tokenizer.sha256
    run = fill_in(run, tokenizer.vocabulary_size, arguments.run_file)
    limit = run.data.get("bitext", {}).get("limit")
    sources, data_hash = read_plan(arguments.plan, arguments.shards, limit)
    run = tell_sources(run, sources)
    seed = arguments.seed
    manifests = [path for own in sources.values() for source in own for path in source.manifests]
    verify_shards(manifests, ranks.rank, ranks.world_size)

    torch.manual_seed(stable_hash(seed, "init"))
    model = PretrainingModel(run)
    if run.model.languages:
        model.encoder.language_codes = languages_of(run)
    start = load_initial_weights(model, run.init, arguments.init, vocabulary_sha256) if run.init else {}
    model.to(ranks.device).train()
    frozen = frozen_weights(model, run)
    trained = int(start.get("steps", 0)) > 0  # then so are the residuals
    if run.model.admin and trained and run.init.fresh:
        raise UserError(
            f"run {run.name}, init.fresh: with model.admin the residuals of fresh layers would stay unset beside "
            "trained ones; start from an untrained run, or leave model.admin out"
        )
    if run.model.admin and run.schedule.steps and not trained:  # also before resuming, which overwrites them
        mixture = build_mixture(run, run.objectives[0], sources, seed, vocabulary_sha256)
        set_residuals(model, functools.partial(pass_once, model, run, mixture, ranks), ranks)
    if run.parallel == "shard" and ranks.world_size > 1:
        shard(model, run, ranks)
    elif wanted(arguments, "compile", ranks):
        compile_parts(model)
    mixtures = [build_mixture(run, objective, sources, seed, vocabulary_sha256) for objective in run.objectives]

    folder = (arguments.state or arguments.out.parent / "state") / content_hash([run.run_hash, data_hash, seed])
    if ranks.rank == 0:
        held.enter_context(sole_use(folder))
    ranks.sum([0.0])  # nobody looks before that
    saved = load_state(folder)
    agree_on_step(saved, ranks, folder)
    step, seconds_before, totals = 0, 0.0, {}
    optimizer = new_optimizer(model, run, frozen, step + 1)
    print_plan(run, model, mixtures, ranks)
    if saved:
        step, seconds_before, totals = saved["step"], saved["seconds"], saved["totals"]
        optimizer = new_optimizer(model, run, frozen, step)
        load_whole_state(model, optimizer, saved)
        for mixture, state in zip(mixtures, saved["data"], strict=True):
            mixture.load_state(state)
        print(f"continuing after step {step} from {folder}", file=sys.stderr)
    elif run.schedule.steps:
        start_objectives(model, run, mixtures, ranks)
    cycle = len(run.objectives) if run.schedule.alternate else 1
    log = Log(folder / "train.jsonl", step, run.schedule.steps, ranks.rank == 0, cycle)
    started = time.monotonic()

    def save() -> None:
        state = whole_state(model, optimizer)
        if ranks.rank == 0:
            seconds = seconds_before + time.monotonic() - started
            state |= {"step": step, "seconds": seconds, "totals": totals, "data": given.data}
            save_state(folder, step, state, run.checkpoint.keep)

    snapshots = snapshot_steps(run)

    def keep_snapshot(step: int) -> None:
        weights = whole_state(model)["model"]
        if ranks.rank == 0:
            save_weights(folder / "snapshots" / snapshot_name(step), weights, describe(arguments, run, model, step))

    steps = give_all(run, mixtures, ranks, step + 1)
    if wanted(arguments, "prefetch", ranks):
        steps = held.enter_context(ahead(steps))
    for given in steps:
        step = given.step
        if run.schedule.first and step == run.schedule.first.steps + 1:
            optimizer = new_optimizer(model, run, frozen, step)
        rate = rate_of(run, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        readings, done = learn(model, run, given, ranks, seed)
        ranks.sum_gradients(model)
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
        if step in snapshots:
            keep_snapshot(step)
        if step < run.schedule.steps and (stopped or step % run.checkpoint.every_steps == 0):
            save()
        if stopped and step < run.schedule.steps:
            print(f"told to stop: saved step {step} in {folder}; run again to continue", file=sys.stderr)
            ranks.close()
            return STOPPED_STATUS

    weights = whole_state(model)["model"]
    if ranks.rank == 0:
        seconds = seconds_before + time.monotonic() - started
        finish(arguments, run, model, weights, totals, seconds, ranks, folder)
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


def parameters_of(model: PretrainingModel, training_only: set[str]) -> dict[str, int]:
    """Numbers of parameters: of the encoder, of what the final weights leave out, and of everything."""
    size = {name: sum(weight.numel() for weight in part.parameters()) for name, part in model.named_children()}
    left_out = sum(size.get(name, 0) for name in training_only)
    return {"encoder": size["encoder"], "training_only": left_out, "all": sum(size.values())}


def fill_in(run: RunConfig, vocabulary: int, path: Path) -> RunConfig:
    """The resolved run with what only the data tell: vocabulary size and the hash of the request."""
    values = read_yaml(path)
    own = {key: value for key, value in values.items() if key not in ("name", "paper", "finetune_recipe")}
    run_hash = values.get("run_hash") or content_hash(own)
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
    parser.add_argument("--state", type=Path, help="folder of checkpoints (default: state/ beside --out)")
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
    torch.set_num_threads(arguments.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return arguments


if __name__ == "__main__":
    run_main(main)
