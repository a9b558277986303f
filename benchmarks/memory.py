"""Peak memory of every kind of job beside what its rule asks for, from the benchmark files of a finished run.

    make && python benchmarks/memory.py --scale mini

Snakemake looks at `max_rss` when a job begins and then every few seconds: of a job of a second it says too little. Ends
with status 1 where a job took more than its `mem_mb`, for which a cluster would have ended it. What a rule asks for
holds for all scales that do not say otherwise in `resources`, so at a small scale most jobs take a fraction of it.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow/scripts"))

from common.errors import UserError, run_main  # noqa: E402
from plan.allocation import DEFAULTS  # noqa: E402
from plan.config import Config  # noqa: E402
from plan.load import load_config  # noqa: E402

FOLDER = re.compile(r"benchmarks/(\w+)")
ASKED = re.compile(r'mem_mb=(?:resource|of_training)\("(\w+)", "mem_mb"(?:, (\d+))?\)')


def peaks(folder: Path) -> dict[str, list[tuple[float, Path]]]:
    """Rule -> MB and file of each of its jobs that was looked at."""
    found: dict[str, list[tuple[float, Path]]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        with open(path, encoding="utf-8") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                if row["max_rss"] not in ("-", "NA", ""):
                    rule = path.relative_to(folder).parts[0].removesuffix(".tsv")
                    found.setdefault(rule, []).append((float(row["max_rss"]), path))
    if not found:
        raise UserError(f"{folder}: no benchmark files with max_rss; run the workflow at this scale first")
    return found


def asked(config: Config) -> dict[str, int]:
    """Folder of benchmark files -> MB, as the rule or this scale says; of trainings the most that one asks for."""
    found: dict[str, int] = {}
    for path in sorted((REPOSITORY / "workflow/rules").glob("*.smk")):
        for block in path.read_text(encoding="utf-8").split("\nrule ")[1:]:
            folder, own = FOLDER.search(block), ASKED.search(block)
            if folder and own:
                rule, default = own.groups()
                stated = config.scale.get("resources", {}).get(rule, {}).get("mem_mb", default)
                found[folder[1]] = int(stated or DEFAULTS.mem_mb)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", required=True, help="whose finished run lies in results/<scale>")
    parser.add_argument("--results", type=Path, help="default: results/<scale>")
    arguments = parser.parse_args()
    config = load_config(REPOSITORY, {"scale": arguments.scale})
    wanted = asked(config)
    too_much = 0
    print("rule\tjobs\tpeak MB\tasked MB\tshare")
    for rule, own in peaks((arguments.results or REPOSITORY / "results" / arguments.scale) / "benchmarks").items():
        peak, path = max(own)
        if rule not in wanted:
            raise UserError(f"{path}: no rule {rule} asks for mem_mb; is it of another commit?")
        print(f"{rule}\t{len(own)}\t{peak:.0f}\t{wanted[rule]}\t{peak / wanted[rule]:.2f}")
        if peak > wanted[rule]:
            print(f"{path}: {peak:.0f} MB of {wanted[rule]}; raise mem_mb of rule {rule}", file=sys.stderr)
            too_much += 1
    return int(too_much > 0)


if __name__ == "__main__":
    run_main(main)
