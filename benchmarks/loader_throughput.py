"""Tokens per second out of the training loader on one core: rows drawn, packed, assembled, selected and corrupted.

Shards are made up in a temporary folder, at the size of a real batch (rows of 512 tokens, 250,002 pieces), so that
the figure does not rest on what was downloaded. The goal is a million tokens per second for every form of items.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))

from engine.config import MaskSpec  # noqa: E402
from engine.corruption import corrupt, select  # noqa: E402
from engine.data import Mixture  # noqa: E402
from engine.shards import write_shard  # noqa: E402
from engine.streams import Source  # noqa: E402

GOAL = 1_000_000
FORMS = {
    "mono": ("blocks", "placeholders", "twice", "segments", "next-sentences"),
    "bitext": ("pairs", "apart", "mixup", "alternating"),
}
VOCABULARY = 250_002
LANGUAGES = 8
MEAN_SENTENCE = 30  # tokens, geometric


def language(number: int) -> str:
    return f"l{number}" if number else "en"


def make_sources(folder: Path, kind: str, sentences: int, vocabulary: int = VOCABULARY) -> list[Source]:
    rng = np.random.default_rng(0)
    sources = []
    for number in range(LANGUAGES):
        lengths = np.minimum(rng.geometric(1 / MEAN_SENTENCE, sentences), 100)
        tokens = rng.integers(4, vocabulary - 1, lengths.sum())
        documents = np.full(sentences // 2, 2)
        manifest = folder / kind / str(number) / "0.json"
        manifest.parent.mkdir(parents=True)
        write_shard(manifest, [(tokens, lengths, documents)], kind, vocabulary, "made up", "made up")
        name = language(number) if kind == "mono" else f"en-{language(number + 1)}"
        sources.append(Source(kind, "made-up", name, 1 / LANGUAGES, (manifest,)))
    return sources


def measure(sources: list[Source], form: str, rows: int, row_length: int, steps: int) -> dict:
    mixture = Mixture(sources, form, rows, row_length, 1, [language(number) for number in range(LANGUAGES + 1)])
    spec = MaskSpec()

    def step() -> int:
        batch = mixture.assemble(mixture.next_layout())
        selected = select(batch, spec.rate, "benchmark", VOCABULARY)
        corrupt(batch, selected, spec, "benchmark", VOCABULARY)
        return int((batch.document >= 0).sum())

    step()
    started, tokens = time.process_time(), 0
    for _ in range(steps):
        tokens += step()
    seconds = time.process_time() - started
    filled = tokens / (steps * rows * row_length)
    return {"tokens_per_second": round(tokens / seconds), "filled": round(filled, 4)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--row-length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sentences", type=int, default=20_000, help="per language")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    figures = {"machine": platform.machine(), "rows": arguments.rows, "row_length": arguments.row_length, "goal": GOAL}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("mono", "bitext"):
            sources = make_sources(Path(folder), kind, arguments.sentences)
            for form in FORMS[kind]:
                figures[form] = measure(sources, form, arguments.rows, arguments.row_length, arguments.steps)
                speed, filled = figures[form]["tokens_per_second"], figures[form]["filled"]
                print(f"{form}: {speed:,} tokens/s, {filled:.1%} of slots filled")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    measured = [figures[form]["tokens_per_second"] for forms in FORMS.values() for form in forms]
    return 0 if min(measured) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
