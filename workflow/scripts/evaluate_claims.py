"""Which claims of the papers hold at one scale: every claim of config/claims.yaml with what was measured and a verdict.

Each claim is a difference that has to lie above a margin. Its 95 % interval is over pre-trainings, their fine-tunings
and the test items (intervals.py). The verdict is `reproduced` where the whole interval lies above the margin and the
difference is at least half of the published one, `direction only` where it is less, `not reproduced` where the interval
lies below, and `undecided` between; of a chain of differences all have to lie above, and each interval is wider for
their number. A claim that two runs are equal is tried by two one-sided tests. From fewer than three pre-trainings
follows nothing, and without the scores there is no verdict but the reason. make_ledger.py shows them, scale by scale.
"""

import argparse
import statistics
from pathlib import Path

from common.atomic import write_json
from common.errors import run_main
from plan.kept import kept_config
from report.context import add_context_arguments, parse_overrides
from report.verdicts import counts_of, tried, words_of_verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_context_arguments(parser)
    parser.add_argument("--trainings-root", required=True, type=Path, help="results/<scale>/trainings")
    parser.add_argument("--out", required=True, type=Path, help="all numbers: results/<scale>/claims.json")
    args = parser.parse_args()
    path = args.config.resolve()
    root = path.parent.parent
    config = kept_config(root, {**parse_overrides(args.override), "scale": args.scale}, path.relative_to(root))
    found = tried(config, args.scores_root, args.trainings_root)
    about = {
        "scale": config.scale_name,
        "words": words_of_verdicts(config),
        "counts": counts_of(claim["verdict"] for claim in found),
        "counts_corrected": counts_of(claim["verdict_corrected"] for claim in found),
    }
    write_json(args.out, about | {"claims": found})
    for claim in found:
        print(f"{claim['id']}: {', '.join(filter(None, (claim['verdict'], claim['reason'])))}")
    mean = statistics.fmean(len(claim["files"]) for claim in found) if found else 0
    print(f"{len(found)} claims; {mean:.1f} files behind each")


if __name__ == "__main__":
    run_main(main)
