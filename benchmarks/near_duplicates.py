"""Near-duplicate documents: ours beside datatrove's MinHash on the same text, with our bands and with its defaults.

    python -m venv PEER && PEER/bin/pip install "datatrove[io,processing]" spacy orjson     # apart: it pins others
    python benchmarks/near_duplicates.py --peer PEER/bin/python --out benchmarks/results/near_duplicates.json

Documents are made of recombined lines (big_corpus.py), and every twentieth is an earlier one with a tenth of its words
changed. They take turns, one process each; processor time counts, without imports. Ours reads a compressed shard, looks
for repeated lines too, and compares the signatures of what shares a bucket; datatrove removes all that does. `planted`
is the share of the changed copies that are found, `others` counts the documents that are removed beside them.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from big_corpus import REPOSITORY, pools_of, thirds_of
from peer import ask, tell

from common.errors import run_main
from corpus.corpusio import DuplicateThresholds, file_and_line, load_thresholds
from corpus.duplicates import NEAR, find_duplicates
from split_corpus import split_mono

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
    return tell(spent, written, {"documents": len(planted), "found": found}, args.out)


if __name__ == "__main__":
    run_main(main)
