"""Throughput of the cleaning chain per core: split, search of duplicates, cleaning with language identification.

Text of each language is recombined as in big_corpus.py and goes through the three stages in this process, whose CPU
time counts; rates are bytes of upstream text per second. The goal is 5 MB/s for the whole chain. Then two processes do
the same work at once, each on its own shard, beside one alone; and SentencePiece's own batch encode in the same way,
because two cores of a machine may be two threads of one.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from big_corpus import PIECES, REPOSITORY, documents, pools_of, train_language_id, write_text

from clean_mono import Rules, clean_shard
from common.errors import run_main
from corpus.characters import CharacterClasses
from corpus.cleaning import load_eval_index, open_language_id, script_of
from corpus.corpusio import load_thresholds, read_lines
from corpus.duplicates import find_duplicates
from corpus.eval_index import build_index
from corpus.likeness import EvalIndex
from split_corpus import split_mono
from train_vocabulary import train

GOAL = 5.0
CONFIG, LANGUAGES = REPOSITORY / "config" / "cleaning.yaml", str(REPOSITORY / "config" / "languages.tsv")


def rules_of(language: str, language_id: Path, index: EvalIndex) -> Rules:
    candidates = load_thresholds(CONFIG, "language_id").candidates
    model, label = open_language_id(language_id, language, LANGUAGES, candidates)
    classes = CharacterClasses(script_of(language, LANGUAGES))
    return Rules(load_thresholds(CONFIG, "mono"), classes, model, label, index)


def stages(text: Path, folder: Path, rules: Rules) -> list[Callable[[], object]]:
    raw, found = folder / "0.raw.zst", folder / "0.duplicates.npy"
    thresholds = load_thresholds(CONFIG, "duplicates")
    return [
        lambda: split_mono([text], None, [raw]),
        lambda: find_duplicates([raw], [found], thresholds),
        lambda: clean_shard(raw, found, rules, folder / "0.clean.txt.zst", folder / "0.rejects.tsv.zst"),
    ]


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(text: Path, folder: Path, rules: Rules, repeats: int) -> list[float]:
    """CPU seconds of the three stages, medians."""
    runs = stages(text, folder, rules)
    return [median(times) for times in zip(*([cpu_seconds(run) for run in runs] for _ in range(repeats)), strict=True)]


# Two at once


def work(kind: str, language: str, folder: Path, language_id: Path, barrier: object, results: object) -> None:
    """What one of the processes does: get ready, wait for the others, report the seconds by the clock."""
    own = Path(tempfile.mkdtemp(dir=folder))
    text = folder / f"{language}.txt.xz"
    if kind == "chain":
        runs = stages(text, own, rules_of(language, language_id, load_eval_index(folder / "index.npy")))
    else:
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
        lines = [line for line in read_lines(text) if line]
        runs = [lambda: [model.encode(lines, num_threads=1) for _ in range(4)]]
    barrier.wait()
    start = time.perf_counter()
    for run in runs:
        run()
    results.put(time.perf_counter() - start)


def seconds_of(count: int, *arguments: object) -> float:
    """The slowest of `count` processes that do the same work at once."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(count), context.Queue()
    processes = [context.Process(target=work, args=(*arguments, barrier, results)) for _ in range(count)]
    for process in processes:
        process.start()
    slowest = max(results.get() for _ in processes)
    for process in processes:
        process.join()
    return slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--text", nargs="+", type=Path, help="CODE.txt.xz to recombine, more than one (default: made up)"
    )
    parser.add_argument("--language-id", type=Path, help="lid.176.bin (default: a stand-in of its size)")
    parser.add_argument("--megabytes", type=float, default=4, help="of each language (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each language; medians count (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="of one and two processes (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    pools = pools_of(args.text)
    size = args.megabytes * 1e6
    by_language, total, spent = {}, 0, [0.0, 0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        language_id = args.language_id or folder / "lid.bin"
        if not args.language_id:
            train_language_id(pools, language_id)
        for number, (language, lines) in enumerate(pools.items()):
            other = list(pools)[number - 1]
            units = folder / "tests.txt"
            units.write_text("".join(documents(lines, pools[other], 500_000, seed=1)), encoding="utf-8")
            index = build_index([("text", units)], load_thresholds(CONFIG, "decontamination"))
            with open(folder / "index.npy", "wb") as stream:
                np.save(stream, index)
            text = folder / f"{language}.txt.xz"
            written = write_text(text, lines, pools[other], round(size))
            rules = rules_of(language, language_id, EvalIndex(index))
            seconds = measure(text, folder, rules, args.repeats)
            total += written
            spent = [a + b for a, b in zip(spent, seconds, strict=True)]
            by_language[language] = round(written / 1e6 / sum(seconds), 2)
            print(f"{language}: {by_language[language]} MB/s", flush=True)
        ratios = {}
        first = next(iter(pools))
        train(iter(pools[first]), folder / "spm.model", PIECES)
        for kind in ("chain", "sentencepiece"):
            turns = [
                [seconds_of(count, kind, first, folder, language_id) for count in (1, 2)] for _ in range(args.turns)
            ]
            ratios[kind] = round(median(2 * one / two for one, two in turns), 3)
    result = {
        "languages": len(pools),
        "megabytes_per_language": args.megabytes,
        "chain_mb_per_second": round(total / 1e6 / sum(spent), 2),
        "split_corpus_mb_per_second": round(total / 1e6 / spent[0], 2),
        "find_duplicates_mb_per_second": round(total / 1e6 / spent[1], 2),
        "clean_mono_mb_per_second": round(total / 1e6 / spent[2], 2),
        "by_language": by_language,
        "two_processes_against_one": ratios,
        "goal": GOAL,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if result["chain_mb_per_second"] >= GOAL else 1


if __name__ == "__main__":
    run_main(main)
