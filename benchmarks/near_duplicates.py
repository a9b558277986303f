"""Near-duplicate documents: ours beside datatrove's MinHash on the same text, with our bands and with its defaults.

    python -m venv PEER && PEER/bin/pip install "datatrove[io,processing]" spacy orjson     # apart: it pins others
    python benchmarks/near_duplicates.py --peer PEER/bin/python --out benchmarks/results/near_duplicates.json

Documents are made of recombined lines (big_corpus.py), and every twentieth is an earlier one with a tenth of its words
changed. They take turns, one process each; processor time counts, without imports. Ours reads a compressed shard, looks
for repeated lines too, and compares the signatures of what shares a bucket; datatrove removes all that does. `planted`
is the share of the changed copies that are found, `others` counts the documents that are removed beside them.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from big_corpus import REPOSITORY, pools_of, thirds_of
from machine import processor

from common.errors import UserError, run_main
from corpus.corpusio import DuplicateThresholds, file_and_line, load_thresholds
from corpus.duplicates import NEAR, find_duplicates
from split_corpus import split_mono

GOAL = 1.0
DEFAULTS = {"shingle_words": 5, "bands": 14, "rows": 8}  # of datatrove
EVERY, CHANGED = 20, 0.1  # document, and share of its words

# What datatrove's Python runs: documents as JSON lines in, seconds and numbers of removed documents out.
PEER = """
import json, sys, time
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from loguru import logger
import numpy as np

logger.remove()
given = json.loads(sys.argv[1])
config = MinhashConfig(n_grams=given["shingle_words"], num_buckets=given["bands"], hashes_per_bucket=given["rows"])
folder = given["folder"]
steps = [
    [JsonlReader(folder + "/text"), MinhashDedupSignature(folder + "/signatures", config, language=given["language"])],
    [MinhashDedupBuckets(folder + "/signatures", folder + "/buckets", config=config)],
    [MinhashDedupCluster(folder + "/buckets", folder + "/removed", config=config)],
]
start = time.process_time()
for number, step in enumerate(steps):
    tasks = given["bands"] if number == 1 else 1
    LocalPipelineExecutor(step, tasks=tasks, workers=1, logging_dir=f"{folder}/logs/{number}").run()
seconds = time.process_time() - start
removed = np.fromfile(folder + "/removed/000000.remove", dtype="<u4").tolist()
print(json.dumps({"seconds": seconds, "removed": removed}))
"""


def made_up_documents(lines: list[str], size: int, seed: int) -> Iterator[tuple[list[str], bool]]:
    """Documents of at least `size` bytes together, and whether each is a changed copy."""
    rng = np.random.default_rng(seed)
    heads, middles, tails = thirds_of(lines)
    vocabulary = sorted({word for line in lines for word in line.split(" ")})
    made: list[list[str]] = []
    written = 0
    while written < size:
        copied = len(made) % EVERY == EVERY - 1
        if copied:
            document = [changed(line, vocabulary, rng) for line in made[int(rng.integers(len(made)))]]
        else:
            ids = rng.integers(len(lines), size=(int(rng.integers(6, 20)), 3)).tolist()
            document = [(heads[a] + middles[b] + tails[c]).strip(" ") for a, b, c in ids]
        made.append(document)
        written += sum(len(line.encode()) + 1 for line in document) + 1
        yield document, copied


def changed(line: str, vocabulary: list[str], rng: np.random.Generator) -> str:
    words = line.split(" ")
    return " ".join(
        vocabulary[int(rng.integers(len(vocabulary)))] if rng.random() < CHANGED else word for word in words
    )


def ours(folder: Path, thresholds: DuplicateThresholds) -> tuple[float, set[int]]:
    """Processor time, and the numbers of the first lines of near-duplicate documents."""
    start = time.process_time()
    find_duplicates([folder / "0.raw.zst"], [folder / "0.duplicates.npy"], thresholds)
    seconds = time.process_time() - start
    found = np.load(folder / "0.duplicates.npy")
    return seconds, {file_and_line(int(place))[1] for place, reasons in found if reasons & NEAR}


def ask(python: Path, code: str, given: dict) -> dict:
    """What the other's Python says last, of the documents in the folder given["text"]."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "text").symlink_to(given["text"])
        call = [str(python), "-c", code, json.dumps(given | {"folder": name})]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"--peer {python}: datatrove ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def theirs(python: Path, given: dict) -> tuple[float, set[int]]:
    found = ask(python, PEER, given)
    return found["seconds"], set(found["removed"])


def quality(removed: set[int], planted: list[bool]) -> dict[str, float | int]:
    copies = {number for number, copied in enumerate(planted) if copied}
    return {"planted": round(len(removed & copies) / len(copies), 4), "others": len(removed - copies)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="Python of an environment with datatrove (default: ours alone)")
    parser.add_argument("--text", nargs=1, type=Path, help="CODE.txt.xz to recombine (default: made up)")
    parser.add_argument("--language", default="eng", help="datatrove's name of its words (default: %(default)s)")
    parser.add_argument("--megabytes", type=float, default=10, help="of text (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="medians count (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    thresholds = load_thresholds(REPOSITORY / "config/cleaning.yaml", "duplicates")
    lines = next(iter(pools_of(args.text).values()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text").mkdir()
        written, planted, number_at, line = 0, [], {}, 1
        with (
            open(folder / "text.txt", "w", encoding="utf-8") as plain,
            open(folder / "text/0.jsonl", "w", encoding="utf-8") as objects,
        ):
            for document, copied in made_up_documents(lines, round(args.megabytes * 1e6), seed=0):
                text = "\n".join(document)
                plain.write(text + "\n\n")
                objects.write(json.dumps({"text": text, "id": str(len(planted))}, ensure_ascii=False) + "\n")
                number_at[line] = len(planted)
                line += len(document) + 1
                planted.append(copied)
                written += len(text.encode()) + 2
        split_mono([folder / "text.txt"], None, [folder / "0.raw.zst"])
        given = {"text": str(folder / "text"), "language": args.language}
        peers = {
            "datatrove": {key: getattr(thresholds, key) for key in DEFAULTS},
            "datatrove, its defaults": DEFAULTS,
        }
        spent: dict[str, list[float]] = {name: [] for name in ("ours", *(peers if args.peer else ()))}
        found: dict[str, dict] = {}
        for _ in range(args.turns):
            for name, times in spent.items():
                if name == "ours":
                    seconds, removed = ours(folder, thresholds)
                    removed = {number_at[line] for line in removed}
                else:
                    seconds, removed = theirs(args.peer, given | peers[name])
                times.append(seconds)
                found[name] = quality(removed, planted)
    speeds = {name: round(written / 1e6 / statistics.median(times), 2) for name, times in spent.items()}
    ratios = {
        name: round(statistics.median(its / own for own, its in zip(spent["ours"], times, strict=True)), 2)
        for name, times in spent.items()
        if name != "ours"
    }
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": processor(),
        "documents": len(planted),
        "megabytes": round(written / 1e6, 1),
        "mb_per_second_of_a_core": speeds,
        "found": found,
        "times_as_fast_as": ratios,
        "goal": GOAL,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(any(ratio < GOAL for ratio in ratios.values()))


if __name__ == "__main__":
    run_main(main)
