"""How far this machine's scores are from those in reference/, of the same runs, tasks, settings and seeds:

    python benchmarks/against_reference.py [--scale mini]

The same code and seeds give the same numbers on a CPU of the same kind. On another one sums are rounded otherwise: what
is computed from finished weights hardly moves, and a fine-tuning that leaves its start late ends elsewhere, as with
another seed. A row for each task and setting: files, those that are the same in every number, the largest difference of
a number, and over the files the mean and the largest difference of a file's mean. Files of another run_hash are of
another configuration; they are counted and left out.
"""

import argparse
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow" / "scripts"))

from common.errors import UserError, run_main
from report.scores import Score, read_score_file

HEADER = ("task", "setting", "files", "same", "largest", "mean", "largest of a mean")


@dataclass
class Distance:
    """Of the files of one task and setting; points, ours less the reference's."""

    same: int = 0
    largest: float = 0.0  # of one number, without its sign
    means: list[float] = field(default_factory=list)  # a file's, over its numbers


def numbers_of(scores: list[Score]) -> dict[tuple, float]:
    return {(s.language, s.metric, s.layer, s.direction, s.update): s.value for s in scores}


def distances(own: Path, reference: Path) -> tuple[dict[tuple[str, str], Distance], int]:
    """By task and setting, and how many files are of another configuration."""
    found: dict[tuple[str, str], Distance] = defaultdict(Distance)
    others = 0
    for path in sorted(own.glob("*/*/*/seed-*.json")):
        kept = reference / path.relative_to(own)
        if not kept.exists():
            continue
        ours, theirs = read_score_file(path), read_score_file(kept)
        if ours[0].run_hash != theirs[0].run_hash:
            others += 1
            continue
        mine, other = numbers_of(ours), numbers_of(theirs)
        differences = [mine[name] - other[name] for name in mine.keys() & other.keys()]
        distance = found[ours[0].task, ours[0].setting]
        distance.same += mine == other
        distance.largest = max([distance.largest, *map(abs, differences)])
        distance.means.append(statistics.fmean(differences))
    return found, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--results", type=Path, help="scores of this machine; default: results/<scale>/scores")
    parser.add_argument("--reference", type=Path, help="default: reference/scores/<scale>")
    arguments = parser.parse_args()
    own = arguments.results or Path("results", arguments.scale, "scores")
    reference = arguments.reference or Path("reference/scores", arguments.scale)
    found, others = distances(own, reference)
    if not found and not others:
        has = ", ".join(sorted(path.name for path in Path("reference/scores").iterdir()))
        raise UserError(
            f"{own}: no score file that {reference} has too (reference/ has those of {has}); "
            f"to mend: make SCALE={arguments.scale}"
        )
    print(*HEADER, sep="\t")
    for (task, setting), distance in sorted(found.items()):
        means = distance.means
        figures = (distance.largest, statistics.fmean(means), max(map(abs, means)))
        print(task, setting, len(means), distance.same, *(f"{figure:.1f}" for figure in figures), sep="\t")
    print(f"{sum(len(one.means) for one in found.values())} files, {sum(one.same for one in found.values())} the same")
    if others:
        print(f"{others} of another configuration, left out")


if __name__ == "__main__":
    run_main(main)
