"""A few tiny shards and a run over them, for the tests of the engine."""

from pathlib import Path

import numpy as np
import yaml

from engine.data import Mixture
from engine.shards import write_shard
from engine.streams import Source

VOCABULARY = 60
LANGUAGES = ("de", "en", "hi")


def write_sentences(path: Path, kind: str, seed: int, documents: int) -> None:
    """Random ids; the second side of a pair is the first one plus one, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    sentences, sizes = [], []
    for _ in range(documents):
        if kind == "bitext":
            first = rng.integers(4, VOCABULARY - 3, rng.integers(2, 9))
            sentences += [first, first + 1]
            sizes.append(2)
        else:
            n = int(rng.integers(1, 5))
            sentences += [rng.integers(4, VOCABULARY - 1, rng.integers(1, 12)) for _ in range(n)]
            sizes.append(n)
    lengths = np.array([len(sentence) for sentence in sentences])
    batch = (np.concatenate(sentences), lengths, np.array(sizes))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_shard(path, [batch], kind, VOCABULARY, "test", "test")


def write_corpus(folder: Path, shards: int = 2) -> None:
    for number, language in enumerate(LANGUAGES):
        for shard in range(shards):
            path = folder / "mono" / "cc-100" / language / f"{shard}.json"
            write_sentences(path, "mono", 10 * number + shard, 40 + 15 * number)
    for number, pair in enumerate(("de-en", "en-hi")):
        for shard in range(shards):
            path = folder / "bitext" / "World" / pair / f"{shard}.json"
            write_sentences(path, "bitext", 100 + 10 * number + shard, 60)


def plan_rows() -> list[tuple[str, str, str, float]]:
    mono = [("mono", "cc-100", language, q) for language, q in zip(LANGUAGES, (0.5, 0.3, 0.2), strict=True)]
    return [*mono, ("bitext", "World", "de-en", 0.6), ("bitext", "World", "en-hi", 0.4)]


def write_plan(path: Path) -> None:
    lines = ["kind\tcorpus\tname\tsentences\ttokens\tp\tq"]
    lines += [f"{kind}\t{corpus}\t{name}\t1\t1\t{q}\t{q}" for kind, corpus, name, q in plan_rows()]
    path.write_text("\n".join(lines) + "\n")


def write_run(path: Path, steps: int = 12, **changes: dict) -> dict:
    run = {
        "name": "test",
        "data": {},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "positions": 34, "dropout": 0.0},
        "objectives": [{"name": "mmlm"}, {"name": "tlm"}],
        "batch": {"rows": 8, "row_length": 24, "device_rows": 8},
        "optimizer": {"peak_lr": 1.0e-2},
        "schedule": {"steps": steps, "warmup_steps": min(2, steps)},
        "checkpoint": {"every_steps": 3},
    }
    run["model"]["attention_dropout"] = 0.0
    for key, value in changes.items():
        run[key] = {**run.get(key, {}), **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(run, sort_keys=False))
    return run


def sources(shards: Path, kind: str) -> list[Source]:
    return [
        Source(kind, corpus, name, q, tuple(sorted((shards / kind / corpus / name).glob("*.json"))))
        for own, corpus, name, q in plan_rows()
        if own == kind
    ]


def mixture(shards: Path, kind: str, **options) -> Mixture:
    form = "blocks" if kind == "mono" else "pairs"
    defaults = {"form": form, "rows": 8, "row_length": 24, "seed": 3, "languages": list(LANGUAGES)}
    return Mixture(sources(shards, kind), **{**defaults, **options})
