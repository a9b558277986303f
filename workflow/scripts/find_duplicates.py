"""Find exact, skeleton and near duplicates over all shards of a corpus, in memory that does not grow with the corpus.

Output: one .npy per shard, sorted by place: (place, reasons), reasons = 1 exact | 2 skeleton | 4 near (the place of a
document's first line, and stands for the whole document).
"""

import argparse
from pathlib import Path

from common.errors import UserError, run_main
from corpus.corpusio import (
    add_config_arguments,
    load_thresholds,
)
from corpus.duplicates import HELD, find_duplicates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", nargs="+", type=Path, required=True, help="all shards of one corpus, in order")
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one .npy per shard, in the same order")
    parser.add_argument("--threads", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--held-mb",
        type=int,
        default=HELD >> 20,
        help="megabytes of records that each process holds; its peak is about four times that (default: %(default)s)",
    )
    add_config_arguments(parser)
    args = parser.parse_args()
    if len(args.shards) != len(args.out):
        raise UserError(f"--out: {len(args.out)} files for {len(args.shards)} shards; name one for each")
    if args.held_mb < 1:
        raise UserError(f"--held-mb {args.held_mb}: must be at least 1")
    thresholds = load_thresholds(args.config, "duplicates", args.overrides)
    totals = find_duplicates(args.shards, args.out, thresholds, args.threads, args.held_mb << 20)
    print(f"{totals['exact']} exact, {totals['skeleton']} skeleton, {totals['near']} near-duplicate documents")


if __name__ == "__main__":
    run_main(main)
