"""Summarise one pre-training: cost.json, and train.jsonl in at most forty points a signal, as one small JSON.

Tables, figures, claims and the report read this, as they read scores: it is what stays where weights and logs do not.
"""

import argparse
import json
from pathlib import Path

from common.atomic import CHECKSUM, check_seal, sha256_of, write_sealed
from common.errors import UserError, run_main
from common.identity import run_hash
from common.yamlfiles import read_resolved
from report.trainings import read_log, shortened, signals


def summarise(run_file: Path, cost_file: Path, log: Path, seed: int, scale: str) -> dict:
    run = read_resolved(run_file)
    try:
        cost = json.loads(cost_file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{cost_file}: not JSON ({error}); delete the run's weights and train again") from None
    mend = "delete the run's weights and train again"
    check_seal(cost, cost_file, mend)
    if cost.pop("log_sha256", own := sha256_of(log)) != own:
        raise UserError(f"{log}: not the log that {cost_file} was written with: a damaged disk, or an edit; {mend}")
    cost.pop(CHECKSUM, None)
    curves = {name: shortened(points) for name, points in signals(read_log(log)).items()}
    found = {"run": run["name"], "seed": seed, "scale": scale, "run_hash": run_hash(run)[:16]}
    return {**found, "cost": cost, "curves": curves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run-file", required=True, type=Path, help="results/<scale>/runs/<run>/run.yaml")
    parser.add_argument("--cost", required=True, type=Path, help="cost.json of pretrain.py")
    parser.add_argument("--log-json", required=True, type=Path, help="train.jsonl of pretrain.py")
    parser.add_argument("--seed", required=True, type=int, help="of the pre-training")
    parser.add_argument("--scale", required=True, help="name of config/scales, for example mini")
    parser.add_argument("--out", required=True, type=Path, help="JSON to write")
    args = parser.parse_args()
    write_sealed(args.out, summarise(args.run_file, args.cost, args.log_json, args.seed, args.scale))


if __name__ == "__main__":
    run_main(main)
