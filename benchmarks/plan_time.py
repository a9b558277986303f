"""Seconds to parse the workflow, to plan everything and one table at the paper scale, and to print its bill; best of
three, beside a bare Snakemake. Nothing may be done yet at that scale, or there is less to plan.

Goals: 1.2 s for `snakemake --list`, 20 s for the dry-run of everything, 6 s of one table, 20 s for `make plan`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
GOALS = {"list": 1.2, "paper dry-run": 20.0, "dry-run of one table": 6.0, "paper bill": 20.0}
SNAKEMAKE = ("-m", "snakemake")
DRY_RUN = (*SNAKEMAKE, "--dry-run", "--config", "scale=paper")
ONE_TABLE = "results/tables/ernie-m/table-01.tex"
BILL = ("workflow/scripts/bill.py", "--config", "scale=paper", "--machine", "h100")


def best_of(times: int, arguments: list[str], folder: Path) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return round(min(seconds), 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    figures = {"goals": GOALS}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text("rule nothing:\n    output: 'x'\n    shell: 'touch x'\n")
        figures["bare snakemake --list"] = best_of(3, [*SNAKEMAKE, "--list"], Path(folder))
    figures["list"] = best_of(3, [*SNAKEMAKE, "--list"], REPOSITORY)
    figures["paper dry-run"] = best_of(3, [*DRY_RUN], REPOSITORY)
    figures["dry-run of one table"] = best_of(3, [*DRY_RUN, "--", ONE_TABLE], REPOSITORY)
    figures["paper bill"] = best_of(3, list(BILL), REPOSITORY)
    print(json.dumps(figures, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(figures[what] <= goal for what, goal in GOALS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
