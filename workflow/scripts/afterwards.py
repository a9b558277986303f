"""What a finished call leaves a person with: what was trained, one difference that it found, what to open, what next.

    python workflow/scripts/afterwards.py --config scale=mini

`make` and `make demo` end with it. The hours of the next step are those of the runs that were trained here, times the
runs that were not: an estimate, from the benchmark files of this machine.
"""

import argparse
import csv
import json
import os
import sys
from pathlib import Path

from common.errors import run_main
from plan.claimed import all_needs
from plan.config import Config
from plan.evidence import reference_scores, seeds_of
from plan.kept import kept_config
from plan.runs import with_ancestors
from watch.events import time_words

TRAINING_RULES = ("pretrain", "finetune", "finetune_retrieval", "predict", "score", "train_translator", "translate")
DECIDED = ("reproduced", "not reproduced")


def seconds_of_runs(folder: Path) -> dict[str, float]:
    """Run -> the seconds of all its jobs that were timed."""
    found: dict[str, float] = {}
    for rule in TRAINING_RULES:
        for path in (folder / rule).glob("*/**/*.tsv"):
            run = path.relative_to(folder / rule).parts[0]
            with open(path, encoding="utf-8", newline="") as file:
                found[run] = found.get(run, 0.0) + sum(float(row["s"]) for row in csv.DictReader(file, delimiter="\t"))
    return found


def trained_words(config: Config, seconds: dict[str, float]) -> str:
    if config.from_reference:
        return "Nothing was trained: the scores are those of reference/, with machine and dates in PROVENANCE.tsv."
    there = {path.parent.name for path in Path(f"results/{config.scale_name}/runs").glob("*/seed-*")}
    runs = sorted(there & seconds.keys() & config.selected)
    if not runs:
        return "Nothing was trained."
    return (
        f"Trained and evaluated: {', '.join(runs)}, {len(seeds_of(config, runs[0]))} seeds, in "
        f"{time_words(sum(seconds[run] for run in runs))} of one machine's jobs one after the other."
    )


def headline(claims: list[dict], warning: str | None) -> str:
    """The first claim that the scores decide, and how; one that stands after correction before the others."""
    if warning:
        return f"Found: nothing; {warning}."
    for verdict in ("verdict_corrected", "verdict"):
        for claim in claims:
            for link in claim["links"]:
                if claim[verdict] in DECIDED and link["interval"] is not None:
                    found, _, published = link["measured_words"].partition(" of ")
                    published = published.replace(" here)", " in these languages)")
                    paper = f"; the paper has {published}" if published else ""
                    return (
                        f"{claim['verdict'].capitalize()}: {claim['says']} ({claim['paper_name']}). {link['words']}: "
                        f"{found} {link['unit']}, {100 * link['level']:g} % interval{paper}."
                    )
    tried = sum(claim["verdict"] not in ("no data", "not testable at this scale") for claim in claims)
    return f"No claim is decided: of {len(claims)}, {tried} could be tried with the runs that have scores."


def next_words(config: Config, seconds: dict[str, float], cores: int) -> str:
    if config.from_reference:
        return "Next: `make` trains XLM-R and XLM at scale mini, on a CPU, in 15 to 40 minutes."
    everything = kept_config(config.root, {"scale": config.scale_name, "runs": "all"})
    asked = with_ancestors(everything, sorted({run for run, _, _ in all_needs(everything)}))
    missing = [run for run in asked if run in everything.pretrained and run not in seconds]
    if not missing:
        return "Next: make plan SCALE=small prices the same on real data."
    per_run = max(seconds.values(), default=0.0)
    hours = f", some {time_words(per_run * len(missing) / cores)} on this machine" if per_run else ""
    named = "" if config.scale_name == "mini" else f" SCALE={config.scale_name}"
    return (
        f"Next: make{named} CONFIG=runs=all trains the {len(missing)} other runs that tables name{hours}; make plan"
        f"{named} CONFIG=runs=all prices them one by one; make demo shows the finished scores of scale mini."
    )


def lines(config: Config, cores: int) -> list[str]:
    scale = Path(f"results/{config.scale_name}")
    seconds = seconds_of_runs(scale / "benchmarks")
    path = scale / "claims.json"
    found = json.loads(path.read_text(encoding="utf-8"))["claims"] if path.exists() else []
    tables, numbers = "results/tables/all.tex", f"{scale}/scores.tsv"
    if config.from_reference:  # make demo asks for the page alone
        named = "" if config.scale_name == "mini" else f"SCALE={config.scale_name} "
        tables, numbers = f"make {named}CONFIG=scores_from=reference", f"{reference_scores(config)}/"
    return [
        trained_words(config, seconds),
        headline(found, config.scale.get("warning")),
        f"Open: results/index.html (make open). The tables as LaTeX: {tables}.",
        f"Each number, with run, seed and commit: {numbers}.",
        next_words(config, seconds, cores),
    ]


def main() -> None:
    from billing.jobs import settings_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="as Snakemake's: scale=smoke")
    arguments = parser.parse_args()
    config = kept_config(".", settings_of(arguments.config))
    print("\n".join(["", *lines(config, os.cpu_count() or 1)]), file=sys.stderr)


if __name__ == "__main__":
    run_main(main)
