"""Collect score files into one tidy table, scores.tsv, and refuse what cannot be a score.

Columns: scale run task setting language metric layer direction update epoch value seed n chance task_version run_hash.
Rows are sorted; numbers have ten digits at most, so that equal scores are equal bytes.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from common.atomic import atomic_path
from common.errors import UserError, run_main
from plan.claimed import claim_paths
from plan.evidence import check_hashes
from report.context import add_context_arguments, expected_scores, load_context
from report.scores import Score, group_paths, load_results

IDENTITY = ["scale", "run", "task", "setting", "language", "metric", "layer", "direction", "update"]
COLUMNS = [*IDENTITY, "epoch", "value", "seed", "n", "chance", "task_version", "run_hash"]


def collect(paths: Iterable[Path], scale: str) -> list[Score]:
    """Every number of the given files, checked."""
    scores = []
    for _, of_seed in sorted(group_paths(paths).items()):
        for path in of_seed.values():
            if not path.exists():
                raise UserError(f"{path}: expected by the configured tables and not there; run its score job first")
        for rows in load_results(of_seed, scale).by_seed.values():
            scores += rows
    return scores


def write_scores(scores: list[Score], out: Path) -> None:
    import pandas as pd

    table = pd.DataFrame([{column: getattr(score, column) for column in COLUMNS} for score in scores], columns=COLUMNS)
    for column in ("layer", "update"):
        table[column] = table[column].astype("Int64")
    table = table.sort_values([*IDENTITY, "seed"], kind="stable", na_position="first")
    for column in ("epoch", "value", "chance"):
        table[column] = table[column].map(lambda value: "" if pd.isna(value) else f"{value:.10g}")
    with atomic_path(out) as temporary:
        table.to_csv(temporary, sep="\t", index=False, lineterminator="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_context_arguments(parser)
    parser.add_argument("--all", action="store_true", help="every *.json below --scores-root, expected or not")
    parser.add_argument("--out", required=True, type=Path, help="results/<scale>/scores.tsv")
    args = parser.parse_args()
    if args.all:
        paths = sorted(args.scores_root.rglob("*.json"))
        if not paths:
            raise UserError(f"{args.scores_root}: holds no score file (*.json)")
    else:
        context, tables, figures = load_context(args.config, args.scale, args.scores_root, args.override)
        of_claims = [args.scores_root.joinpath(*Path(path).parts[-4:]) for path in claim_paths(context.config)]
        of_specs = (path for spec in [*tables.values(), *figures.values()] for path in expected_scores(spec, context))
        paths = sorted({*of_specs, *of_claims})
    scores = collect(paths, args.scale)
    if not args.all:
        check_hashes(context.config, scores)
    write_scores(scores, args.out)


if __name__ == "__main__":
    run_main(main)
