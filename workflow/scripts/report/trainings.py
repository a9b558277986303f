"""What a pre-training leaves behind for tables, figures, claims and the report: its cost, and its curves in short.

A file is results/{scale}/trainings/{run}/seed-{seed}.json. Logs have a line every few steps and differ in length; a
summary has at most forty points a signal, each the mean of the steps since the point before.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from common.atomic import check_seal
from common.errors import UserError
from report.scores import SEED_FILE, is_number, refuse_constant

# equal at every step, or the machine's
HIDDEN = ("tokens", "items", "attended", "predictions", "tokens_per_second", "lr", "step")
POINTS = 40
COST = ("flops", "flops_by_the_papers_counting", "tokens", "steps", "seconds", "parameters")

Points = list[tuple[int, float]]  # (step, value), by step


@dataclass(frozen=True)
class Training:
    """One pre-training: run and seed as in the file, and what it says of them."""

    run: str
    seed: int
    run_hash: str
    cost: Mapping  # cost.json of pretrain.py
    curves: Mapping[str, Points]  # signal ("mmlm/loss") -> points


def read_log(path: Path) -> list[dict[str, float]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}); delete the file and train again") from None
    return rows


def signals(rows: Iterable[Mapping[str, float]]) -> dict[str, Points]:
    """Signal -> its points, without what is equal at every step."""
    found: dict[str, Points] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if name.split("/")[-1] not in HIDDEN:
                found[name].append((row["step"], value))
    return dict(sorted(found.items()))


def shortened(points: Points, most: int = POINTS) -> Points:
    """At most so many points: means over equal stretches of the log, each at its last step."""
    count = min(len(points), most)
    cuts = [len(points) * i // count for i in range(count + 1)]
    pieces = (points[begin:end] for begin, end in pairwise(cuts))
    return [(piece[-1][0], float(f"{fmean(value for _, value in piece):.6g}")) for piece in pieces]


def read_training(path: Path, scale: str | None = None) -> Training:
    """One summary, checked against its own path."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the job summarise_training of its run") from None
    except ValueError as error:
        raise UserError(f"{path}: not a usable summary ({error}); delete it and let it be written again") from None
    check_seal(content, path, "delete it and let it be written again")
    match = SEED_FILE.fullmatch(path.name)
    expected = {"run": path.parent.name, "seed": int(match[1]) if match else None}
    expected |= {} if scale is None else {"scale": scale}
    for key, value in expected.items():
        if not isinstance(content, dict) or content.get(key) != value:
            found = content.get(key) if isinstance(content, dict) else content
            raise UserError(f"{path}, key {key!r}: is {found!r} and its path says {value!r}; delete it and run again")
    cost, curves = content.get("cost"), content.get("curves")
    for key in COST:
        if not isinstance(cost, dict) or key not in cost or not (key == "parameters" or is_number(cost[key])):
            raise UserError(f"{path}, cost.{key}: missing or no number; delete it and let it be written again")
    points = {name: [(int(step), float(value)) for step, value in of] for name, of in (curves or {}).items()}
    return Training(content["run"], content["seed"], str(content.get("run_hash")), cost, points)


def by_run(trainings: Iterable[Training]) -> dict[str, dict[int, Training]]:
    """Run -> seed -> its training, sorted; the seeds of one run are of one run file."""
    found: dict[str, dict[int, Training]] = {}
    for one in sorted(trainings, key=lambda one: (one.run, one.seed)):
        found.setdefault(one.run, {})[one.seed] = one
    for run, of_seed in found.items():
        if len({one.run_hash for one in of_seed.values()}) > 1:
            raise UserError(f"trainings of {run}: the seeds have different run_hash; delete the older and run again")
    return found
