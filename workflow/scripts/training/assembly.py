"""From a resolved run to what a step reads: the model, the mixtures of its objectives, and their batches."""

import csv
import dataclasses
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from common.atomic import check_sum
from common.errors import UserError
from common.identity import content_hash, run_hash
from common.yamlfiles import read_yaml
from engine import cost
from engine.attention import has_flash_attention
from engine.attention_rules import Tokens
from engine.config import ObjectiveConfig, RunConfig
from engine.data import Mixture, Rows
from engine.dist import Ranks
from engine.model import Encoder, MaskedLanguageModelHead
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch, whole_width
from engine.options import DESCRIPTIONS
from engine.precision import mixed_precision
from engine.randomness import stable_hash
from engine.shards import sha256_of_manifests
from engine.streams import Source, language_codes

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
    pair about `limit` sentence pairs, from its corpora in proportion to their sizes: each shard rounds up, and pairs of
    lengths that an objective leaves out are counted here and not read."""
    check_sum(path, "delete it, and run again")
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


def languages_with_vectors(run: RunConfig) -> list[str]:
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
    return mixed_precision(run.precision, ranks.device.type)


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


def parameters_of(model: PretrainingModel, training_only: set[str]) -> dict[str, int]:
    """Numbers of parameters: of the encoder, of what the final weights leave out, and of everything."""
    size = {name: sum(weight.numel() for weight in part.parameters()) for name, part in model.named_children()}
    left_out = sum(size.get(name, 0) for name in training_only)
    return {"encoder": size["encoder"], "training_only": left_out, "all": sum(size.values())}


def fill_in(run: RunConfig, vocabulary: int, path: Path) -> RunConfig:
    """The resolved run with what only the data tell: vocabulary size and the hash of the request."""
    values = read_yaml(path)
    name = values.get("run_hash") or run_hash(values)[:16]
    if run.model.vocabulary not in (0, vocabulary):
        raise UserError(
            f"{path}: model.vocabulary is {run.model.vocabulary}, but the vocabulary file has {vocabulary} ids"
        )
    return dataclasses.replace(run, run_hash=name, model=dataclasses.replace(run.model, vocabulary=vocabulary))
