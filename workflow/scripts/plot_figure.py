"""Draw one figure of a paper from scores, summaries of trainings or attention predicates.

What a spec holds says which kind of figure it is: `masks` who sees whom, `simulation` how often intervals are wrong,
`training` a signal by step, `bars` languages, `cost` quality against cost, `points` every pre-training by task; the
rest are curves by layer or epoch. draw_diagram.py draws those with `diagram`, draw_effects.py those with `effects`.
"""

import argparse
from pathlib import Path

from common.errors import run_main
from report.context import add_context_arguments, load_context
from report.figure_style import add_output_arguments, save_both
from report.figures import draw
from report.table_spec import load_spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--spec", required=True, type=Path, help="config/figures/<paper>/<item>.yaml")
    add_context_arguments(parser)
    add_output_arguments(parser)
    args = parser.parse_args()
    spec = load_spec(args.spec)
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    figure = draw(spec, context)
    save_both(figure, args)


if __name__ == "__main__":
    run_main(main)
