"""What a step of a training computes, counted on a sample of its rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.typed import build
from engine.config import ObjectiveConfig, RunConfig
from engine.cost import Seen
from engine.dist import Ranks
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch
from engine.options import DESCRIPTIONS
from engine.shards import open_shard, read_manifest, write_shard
from engine.streams import Source
from training.assembly import COUNTED, build_mixture, next_batches, seen_in, tell_sources

SAMPLED_TOKENS = 80_000  # slots of the sample of each objective
SAMPLED_ROWS = 64  # of a step, at most: more are packed no better
HEAD = 20_000  # sentences of a source, its first ones: all of a mini-world
MADE_UP = 4_000  # sentences of made-up text
LINES = 8  # of a document of made-up text


@dataclass(frozen=True)
class Estimate:
    """What a training sees over its steps, by objective."""

    seen: dict[str, Seen]
    padding: float  # share of the slots that hold no token
    basis: str


def run_config(values: dict, vocabulary: int) -> RunConfig:
    """A resolved run as the engine has it."""
    values = {key: value for key, value in values.items() if key not in ("paper", "decoder")}
    for section, share in (("schedule", "steps_share"), ("model", "layers_share")):
        values[section] = {key: value for key, value in values[section].items() if key != share}
    run = build(RunConfig, values, "")
    return dataclasses.replace(run, model=dataclasses.replace(run.model, vocabulary=vocabulary))


def estimate_training(
    run: RunConfig, sources: dict[str, list[Source]], seed: int, basis: str, known: dict | None = None
) -> Estimate:
    """Of `sources` as pretrain.py reads them. `known` keeps what was sampled, for other runs of these sources."""
    run, known = tell_sources(run, sources), {} if known is None else known
    in_turn = len(run.objectives) if run.schedule.alternate else 1
    seen, tokens, slots = {}, 0.0, 0.0
    for number, objective in enumerate(run.objectives):
        steps = len(range(number % in_turn, run.schedule.steps, in_turn))
        rows, length = objective.rows or run.batch.rows, objective.row_length or run.batch.row_length
        # neither weight nor seed changes the numbers, nor what an objective knows of its sources, which are the same
        what = dataclasses.replace(objective, weight=1.0, sources=())
        key = repr((what, rows, length, steps, early_steps(run, objective, steps)))
        if key not in known:
            known[key] = _seen_of(run, objective, sources, seed, steps)
        seen[objective.name] = known[key]
        tokens, slots = tokens + seen[objective.name].tokens, slots + steps * rows * length
    return Estimate(seen, 1 - tokens / slots if slots else 0.0, basis)


def _seen_of(run: RunConfig, objective: ObjectiveConfig, sources: dict, seed: int, steps: int) -> Seen:
    """The first steps that the training itself would draw, each for as many as it stands for; where the batch is large,
    of fewer rows."""
    rows, length = objective.rows or run.batch.rows, objective.row_length or run.batch.row_length
    sampled = min(rows, SAMPLED_ROWS)
    draws = min(steps, max(4, SAMPLED_TOKENS // (sampled * length)))
    small = dataclasses.replace(objective, rows=sampled)
    mixture = build_mixture(run, small, sources, seed, None)
    early = early_steps(run, objective, steps)
    total = np.zeros(len(COUNTED))
    for draw in range(draws):
        # the draws stand for the whole training, one after the other; of a first step BTMLM leaves the slots out
        share = min(1.0, max(0.0, early * draws / steps - draw))
        for batch in next_batches(run, small, mixture, Ranks(), 1):
            later = _counts(batch)
            if share:
                OBJECTIVES[objective.name].prepare(None, batch)
            total += share * _counts(batch) + (1 - share) * later
    return Seen(*(float(value) * steps / draws * rows / sampled for value in total))


def early_steps(run: RunConfig, objective: ObjectiveConfig, steps: int) -> float:
    """How many steps of BTMLM are without a translation."""
    if DESCRIPTIONS[objective.name].form != "placeholders":
        return 0.0
    share = max(objective.options.start_share, run.schedule.warmup_steps / max(1, run.schedule.steps))
    return min(1.0, share) * steps if share * run.schedule.steps >= 1 else 0.0


def _counts(batch: Batch) -> np.ndarray:
    """In the order of Seen."""
    tokens, items, attended = seen_in(batch)
    values = {"tokens": tokens, "items": items, "attended": attended, "predictions": len(batch.targets)}
    return np.array([values[name] for name in COUNTED], float)


def heads_of(sources: dict[str, list[Source]], folder: Path) -> dict[str, list[Source]]:
    """Sources with at most so many sentences: a longer one is copied as far as that."""
    return {kind: [_head_of(source, folder) for source in own] for kind, own in sources.items()}


def _head_of(source: Source, folder: Path) -> Source:
    if sum(read_manifest(path)["sentences"] for path in source.manifests) <= HEAD:
        return source
    shard = open_shard(source.manifests[0])
    documents = max(1, int(np.searchsorted(shard.documents, HEAD, side="right")) - 1)
    sentences = int(shard.documents[documents])
    lengths = np.diff(shard.sentences[: sentences + 1])
    batch = (shard.tokens[: shard.sentences[sentences]], lengths, np.diff(shard.documents[: documents + 1]))
    manifest = folder / source.kind / source.corpus / source.name / "0.json"
    about = shard.manifest
    write_shard(manifest, [batch], source.kind, about["vocabulary_size"], about["vocabulary_sha256"], "")
    return dataclasses.replace(source, manifests=(manifest,))


def made_up(folder: Path, vocabulary: int, sentence_tokens: float) -> dict[str, list[Source]]:
    """Text of English and another language, and pairs of them: lines of an assumed mean length, geometric."""
    rng = np.random.default_rng(0)
    sources: dict[str, list[Source]] = {"mono": [], "bitext": []}
    for kind, name, lines in (("mono", "en", LINES), ("mono", "xx", LINES), ("bitext", "en-xx", 2)):
        lengths = np.clip(rng.geometric(1 / sentence_tokens, MADE_UP), 3, 4 * sentence_tokens).astype(np.int64)
        if kind == "bitext":
            lengths[1::2] = np.maximum(3, (lengths[::2] * rng.uniform(0.7, 1.4, MADE_UP // 2)).astype(np.int64))
        tokens = rng.integers(4, vocabulary - 1, lengths.sum())
        manifest = folder / kind / name / "0.json"
        write_shard(manifest, [(tokens, lengths, np.full(MADE_UP // lines, lines))], kind, vocabulary, "made up", "")
        sources[kind].append(Source(kind, "made-up", name, 0.5 if kind == "mono" else 1.0, (manifest,)))
    return sources
