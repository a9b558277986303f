"""Say of each test set how much of it the upstream text held, and that the cleaned text holds none.

A line counts where it holds a sentence of the test set, or resembles one (decontamination.similarity), whatever else
speaks against it; of pairs, where either side does. `left` is the same of the cleaned text. tests/apart.py looks for
the same in another way, without any of the code that cleans.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

from common.atomic import write_text
from common.errors import UserError, run_main
from corpus.characters import normalise_lines
from corpus.corpusio import add_config_arguments, load_thresholds, read_batches, read_header, read_lines
from corpus.eval_index import build_index, build_signatures, parse_tasks
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles
from corpus.words import Words, words_of

COLUMNS = ("test set", "sentences", "text: whole", "text: nearly", "pairs: whole", "pairs: nearly", "left")
_BATCH = 8192


class TestSet(NamedTuple):
    name: str
    sentences: int
    index: EvalIndex
    near: NearIndex | None


def read_test_sets(tasks: list[tuple[str, Path]], config: str, overrides: str | None) -> list[TestSet]:
    thresholds = load_thresholds(config, "decontamination", overrides)
    shingles = load_thresholds(config, "duplicates", overrides)
    found = []
    for name, files in groupby(tasks, key=lambda pair: pair[0]):
        own = list(files)
        index = build_index(own, thresholds)
        signatures = build_signatures(own, thresholds, shingles)
        near = NearIndex(signatures, shingles, thresholds.similarity) if thresholds.similarity else None
        found.append(TestSet(name, int(index[0, 2]), EvalIndex(index), near))
    return found


def raw_lines(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Batches of a shard: texts, and the second sides of pairs."""
    kind = read_header(path).kind
    for batch in read_batches(path, kind):
        yield normalise_lines(batch.texts)[0], normalise_lines(batch.others)[0]


def clean_lines(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    lines = (line for line in read_lines(path) if line)
    while batch := list(islice(lines, _BATCH)):
        sides = [line.partition("\t") for line in batch]
        yield [a for a, _, _ in sides], [b for _, tab, b in sides if tab]


def count(batches: Iterable[tuple[list[str], list[str]]], tests: list[TestSet]) -> dict[str, tuple[int, int]]:
    """(lines that hold a sentence, lines that only resemble one) of each test set."""
    counts = {test.name: (0, 0) for test in tests}
    for texts, others in batches:
        sides: list[Words] = [words_of(side) for side in (texts, others) if side]
        for test in tests:
            whole = sum(leaked(side, test.index) for side in sides) > 0
            near = (sum(resembles(side, test.near) for side in sides) > 0) & ~whole
            before = counts[test.name]
            counts[test.name] = (before[0] + int(whole.sum()), before[1] + int(near.sum()))
    return counts


def added(counts: list[dict[str, tuple[int, int]]], name: str) -> tuple[int, int]:
    return tuple(sum(one[name][i] for one in counts) for i in (0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with mono/ and bitext/")
    parser.add_argument("--task", nargs="+", required=True, metavar="NAME=FILE", help="as for index_eval_sets")
    parser.add_argument("--out", type=Path, required=True, help="the table, .tsv")
    add_config_arguments(parser)
    args = parser.parse_args()
    tests = read_test_sets(parse_tasks(args.task), args.config, args.overrides)
    found = {}
    for kind, suffix in (("mono", "txt"), ("bitext", "tsv")):
        raw = sorted(args.corpus.glob(f"{kind}/*/*/*.raw.zst"))
        clean = [path.with_name(path.name.replace(".raw.zst", f".clean.{suffix}.zst")) for path in raw]
        if missing := [path for path in clean if not path.exists()]:
            raise UserError(f"{missing[0]}: not there; clean the corpora first")
        found[kind] = [count(raw_lines(path), tests) for path in raw]
        found[f"{kind} left"] = [count(clean_lines(path), tests) for path in clean]
    rows = [COLUMNS]
    for test in tests:
        left = sum(sum(added(found[f"{kind} left"], test.name)) for kind in ("mono", "bitext"))
        cells = (*added(found["mono"], test.name), *added(found["bitext"], test.name), left)
        rows.append((test.name, *map(str, (test.sentences, *cells))))
    write_text(args.out, "".join("\t".join(row) + "\n" for row in rows))
    for row in rows:
        print(f"{row[0]:<20}" + "".join(f"{cell:>15}" for cell in row[1:]))


if __name__ == "__main__":
    run_main(main)
