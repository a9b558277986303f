"""Run the corpus chain on generated text of several sizes, shard by shard, and record memory and throughput.

The text is given text, recombined: the first third of a line, the middle of another and the end of a third one, in
documents, with copies, changed copies, other languages and garbage among them. It is streamed into an .xz as upstream
has it, and never in memory. Each stage is the script that the workflow runs, one process at a time; what a stage has
read is removed, so that the disk holds about the size of the text at once.

Peak memory is the kernel's count of each process (VmHWM), the curve is sampled. The goal is a peak of at most 1 GiB
at every size. Where the machine does other work too, the seconds are upper bounds.
"""

import argparse
import datetime
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "workflow" / "scripts"
sys.path.insert(0, str(SCRIPTS))

import numpy as np  # noqa: E402
from machine import processor  # noqa: E402

from common.errors import UserError, run_main  # noqa: E402
from corpus.corpusio import read_lines  # noqa: E402

GOAL_MB = 1024
POINTS = 40  # of a curve
LABELS = 176  # of lid.176, whose size and settings the stand-in has
PIECES = 1500  # of the vocabulary

# Text

Thirds = tuple[list[str], list[str], list[str]]


def made_up_lines(alphabet: str, count: int = 1000) -> list[str]:
    """Lines of words of random letters, frequent ones more often."""
    rng = np.random.default_rng(len(alphabet))
    words = ["".join(alphabet[i] for i in rng.integers(0, len(alphabet), rng.integers(2, 9))) for _ in range(3000)]
    ranks = np.minimum(rng.zipf(1.2, size=(count, 20)), len(words)) - 1
    return [" ".join(words[i] for i in row) for row in ranks]


def pools_of(texts: list[Path] | None) -> dict[str, list[str]]:
    """Lines by language, which is what a file's name begins with."""
    if not texts:
        return {"en": made_up_lines("abcdefghijklmnopqrstuvwxyz"), "ru": made_up_lines("абвгдежзийклмнопрстуфхц")}
    pools = {path.name.split(".")[0].split("-")[0]: [line for line in read_lines(path) if line] for path in texts}
    if empty := [language for language, lines in pools.items() if len(lines) < 10]:
        raise UserError(f"--text: fewer than ten lines of {empty[0]}; name a longer file")
    return pools


def thirds_of(lines: list[str]) -> Thirds:
    """Lines cut at two spaces, or where there are few, anywhere."""
    parts: Thirds = ([], [], [])
    for line in lines:
        words = line.split(" ")
        unit, glue = (words, " ") if len(words) > 5 else (line, "")
        size = len(unit) // 3
        for part, piece in zip(parts, (unit[:size], unit[size : 2 * size], unit[2 * size :]), strict=True):
            part.append(glue.join(piece) + glue)
    return parts


def documents(lines: list[str], foreign: list[str], size: int, seed: int = 0) -> Iterator[str]:
    """Documents of upstream's form, of at least `size` bytes together."""
    rng = np.random.default_rng(seed)
    heads, middles, tails = thirds_of(lines)
    recent: list[list[str]] = []
    written = 0
    while written < size:
        ids = rng.integers(len(lines), size=(int(rng.integers(4, 20)), 3)).tolist()
        dirt = rng.random(len(ids) + 1).tolist()
        document = [(heads[a] + middles[b] + tails[c]).strip(" ") for a, b, c in ids]
        if recent and dirt.pop() < 0.06:  # a copy, changed at its end
            document = [*recent[ids[0][0] % len(recent)][:-1], document[0]]
        else:
            for i, (share, number) in enumerate(zip(dirt, ids, strict=False)):
                if share < 0.03:
                    document[i] = foreign[number[0] % len(foreign)]
                elif share < 0.07 and recent:
                    document[i] = recent[number[0] % len(recent)][0]
                elif share < 0.08:
                    document[i] = "*** " + "=/" * 8
        recent = [*recent[-49:], document]
        text = "\n".join(document) + "\n\n"
        written += len(text.encode())
        yield text


def write_text(path: Path, lines: list[str], foreign: list[str], size: int) -> int:
    """Write an .xz; return the bytes of text in it."""
    written = 0
    with lzma.open(path, "wb", preset=0) as out:
        for text in documents(lines, foreign, size):
            data = text.encode()
            written += len(data)
            out.write(data)
    return written


def train_language_id(pools: dict[str, list[str]], out: Path) -> None:
    """A model of the size and settings of lid.176, as slow as that one, that knows these languages."""
    import fasttext

    rng = np.random.default_rng(0)
    examples = [f"__label__{language} {line}\n" for language, lines in pools.items() for line in lines[:500]]
    for label in range(LABELS - len(pools)):
        for _ in range(10):
            words = rng.integers(0x10A0, 0x1240, size=(8, 5)).tolist()
            examples.append(f"__label__none-{label} " + " ".join("".join(map(chr, word)) for word in words) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "lines.txt")
        text.write_text("".join(examples[i] for i in rng.permutation(len(examples)).tolist()), encoding="utf-8")
        model = fasttext.train_supervised(
            str(text), dim=16, bucket=2_000_000, minn=2, maxn=4, epoch=8, lr=0.5, loss="hs", thread=1, verbose=0
        )
        model.save_model(str(out))


# Processes


def resident_mb(pid: int) -> float:
    """Of a process and its children; 0 when it has ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20 + sum(resident_mb(int(child)) for child in children)


# ru_maxrss would begin with what this process had when it started the other.
PEAK = """
import atexit, re, runpy, sys
from pathlib import Path
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(script: str, *arguments: object) -> dict:
    """Run a script of the workflow; return seconds, CPU seconds, peak memory and the curve."""
    command = [sys.executable, "-c", PEAK, str(SCRIPTS / f"{script}.py"), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, env=environment)
        curve: list[tuple[float, float]] = []
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(0.2):
                curve.append((time.perf_counter() - start, resident_mb(process.pid)))

        sampler = threading.Thread(target=sample)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        sampler.join()
        log.seek(0)
        said = log.read()
        if process.returncode:
            raise UserError(f"{script}: status {process.returncode}: {said[-2000:]}")
    step = max(1, -(-len(curve) // POINTS))
    highest = [max(curve[i : i + step], key=lambda point: point[1]) for i in range(0, len(curve), step)]
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(int(said.split()[-1]) / 1024),
        "curve": [[round(at, 1), round(mb)] for at, mb in highest],
    }


def together(runs: list[dict], size: int) -> dict:
    """One stage over all its shards: their seconds added, the highest peak with its curve."""
    highest = max(runs, key=lambda one: one["peak_mb"])
    seconds, cpu = (round(sum(one[key] for one in runs), 2) for key in ("seconds", "cpu_seconds"))
    return {
        "processes": len(runs),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "mb_per_cpu_second": round(size / 1e6 / cpu, 2),
        "peak_mb": highest["peak_mb"],
        "curve": highest["curve"],
    }


def chain(folder: Path, pools: dict[str, list[str]], language: str, language_id: Path, size: int, shards: int) -> dict:
    """Every stage on a text of `size` bytes."""
    others = [line for other, lines in pools.items() if other != language for line in lines]
    text = folder / f"{language}.txt.xz"
    start = time.perf_counter()
    size = write_text(text, pools[language], others or made_up_lines("абвгдежзийклмнопрстуфхц"), size)
    written = round(time.perf_counter() - start, 1)
    corpus = folder / "corpus" / "mono" / "big" / language
    corpus.mkdir(parents=True)
    raw, found = ([corpus / f"{i}.{end}" for i in range(shards)] for end in ("raw.zst", "duplicates.npy"))
    units = folder / "tests.txt"
    units.write_text("".join(documents(pools[language], others or ["x"], 200_000, seed=1)), encoding="utf-8")
    index = folder / "index.npy"
    run("index_eval_sets", "--task", f"text={units}", "--out", index)
    stages = {"split_corpus": [run("split_corpus", "mono", "--text", text, "--root", folder, "--out", *raw)]}
    text.unlink()
    stages["find_duplicates"] = [run("find_duplicates", "--shards", *raw, "--out", *found)]
    stages["clean_mono"], counts = [], []
    for i in range(shards):
        counts.append(corpus / f"{i}.clean.json")
        stages["clean_mono"].append(
            run("clean_mono", "--shard", raw[i], "--duplicates", found[i], "--language-id", language_id,
                "--eval-index", index, "--language", language, "--out", corpus / f"{i}.clean.txt.zst",
                "--counts", counts[-1], "--rejects", corpus / f"{i}.rejects.tsv.zst")
        )  # fmt: skip
        raw[i].unlink()
    plan, vocabulary = folder / "plan.tsv", folder / "spm.model"
    stages["plan_sampling"] = [run("plan_sampling", "--counts", *counts, "--alpha", 0.3, "--out", plan)]
    stages["train_vocabulary"] = [
        run("train_vocabulary", "--plan", plan, "--corpus", folder / "corpus", "--size", PIECES,
            "--sentences", 20000, "--out", vocabulary)
    ]  # fmt: skip
    stages["encode_corpus"] = []
    for i in range(shards):
        clean, manifest = corpus / f"{i}.clean.txt.zst", folder / "shards" / f"{i}.json"
        stages["encode_corpus"].append(
            run("encode_corpus", "--text", clean, "--vocabulary", vocabulary, "--out", manifest)
        )
        for path in (clean, *manifest.parent.glob("*.bin")):
            path.unlink()
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in counts]
    lines, left = (sum(count[side]["sentences"] for count in kept) for side in ("in", "out"))
    return {
        "bytes": size,
        "shards": shards,
        "seconds_to_generate": written,
        "lines": lines,
        "lines_kept": left,
        "stages": {name: together(runs, size) for name, runs in stages.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--gigabytes", nargs="+", type=float, default=[0.1, 0.5, 1.0], help="sizes of text (default: %(default)s)"
    )
    parser.add_argument(
        "--text", nargs="+", type=Path, help="CODE.txt.xz to recombine, more than one (default: made up)"
    )
    parser.add_argument("--language", default="en", help="of the text; the others are dirt (default: %(default)s)")
    parser.add_argument("--language-id", type=Path, help="lid.176.bin (default: a stand-in of its size)")
    parser.add_argument("--shards", type=int, default=4, help="at every size (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where to work; 1.5 bytes per byte of text (default: temporary)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    pools = pools_of(args.text)
    if args.language not in pools:
        raise UserError(f"--language {args.language}: no --text of it; name {args.language}.txt.xz")
    results = []
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        language_id = args.language_id or Path(folder, "lid.bin")
        if not args.language_id:
            train_language_id(pools, language_id)
        for gigabytes in args.gigabytes:
            free = shutil.disk_usage(folder).free / 1e9
            if free < 2 * gigabytes:
                raise UserError(f"--gigabytes {gigabytes:g}: {free:.0f} GB are free in {folder}; name another --folder")
            part = Path(folder, f"{gigabytes:g}")
            part.mkdir()
            results.append(chain(part, pools, args.language, language_id, round(gigabytes * 1e9), args.shards))
            shutil.rmtree(part)
            peaks = {name: stage["peak_mb"] for name, stage in results[-1]["stages"].items()}
            rates = {name: stage["mb_per_cpu_second"] for name, stage in results[-1]["stages"].items()}
            if args.out:  # after each, because the next one takes longer
                args.out.parent.mkdir(parents=True, exist_ok=True)
                result = {
                    "command": " ".join(["python", "benchmarks/big_corpus.py", *sys.argv[1:]]),
                    "date": datetime.date.today().isoformat(),
                    "processor": processor(),
                    "goal_mb": GOAL_MB,
                    "language": args.language,
                    "sizes": results,
                }
                args.out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(f"{gigabytes:g} GB: peak MB {peaks}; MB per second of a core {rates}", flush=True)
    return 0 if all(stage["peak_mb"] <= GOAL_MB for one in results for stage in one["stages"].values()) else 1


if __name__ == "__main__":
    run_main(main)
