"""Index the sentences of evaluation sets, so that cleaning finds them in training text, also inside longer lines.

A new task is one reader in READERS: a function from a file to its units of text.
Output: uint64 (1 + n, 3) .npy; row 0 = (version, inside_words, number of units), then (anchor, length, hash), sorted.
With --signatures, uint32 (m, bands * rows) .npy: MinHash of the units, by which lines that resemble one are found;
empty where decontamination.similarity is 0.
"""

import argparse
from pathlib import Path

import numpy as np

from common.atomic import check_sum, summed_path
from common.errors import run_main
from corpus.corpusio import (
    add_config_arguments,
    load_thresholds,
)
from corpus.eval_index import READERS, build_index, build_signatures, parse_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--task",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FILE",
        help=f"evaluation files, NAME one of {', '.join(READERS)}; none gives an empty index",
    )
    parser.add_argument("--out", type=Path, required=True, help="the index, .npy")
    parser.add_argument("--signatures", type=Path, help="MinHash of the units, .npy, for near duplicates")
    add_config_arguments(parser)
    args = parser.parse_args()
    thresholds = load_thresholds(args.config, "decontamination", args.overrides)
    tasks = parse_tasks(args.task)
    for _, path in tasks:
        check_sum(path, "delete it, and run again: what it lacks would be left in the corpus")
    index = build_index(tasks, thresholds)
    if args.signatures:
        shingles = load_thresholds(args.config, "duplicates", args.overrides)
        with summed_path(args.signatures) as temporary, open(temporary, "wb") as stream:
            np.save(stream, build_signatures(tasks, thresholds, shingles))
    with summed_path(args.out) as temporary, open(temporary, "wb") as stream:
        np.save(stream, index)
    print(f"{int(index[0, 2])} units, {len(index) - 1} windows")


if __name__ == "__main__":
    run_main(main)
