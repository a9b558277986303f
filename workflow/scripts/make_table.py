"""Write one table of a paper: published numbers and ours side by side, as LaTeX, CSV, Markdown or HTML.

The LaTeX is a longtable with its notes, to be read by \\input from results/tables/all.tex. Two layouts:
wide tables give each model a published line and, below it, a shaded reproduced line; narrow ones have two columns.
"""

import argparse
from pathlib import Path

from common.atomic import write_text
from common.errors import run_main
from report.context import add_context_arguments, load_context
from report.table_html import render_html
from report.table_latex import render_latex
from report.table_spec import load_spec
from report.table_text import render_csv, render_markdown
from report.tables import build

RENDER = {"latex": render_latex, "csv": render_csv, "markdown": render_markdown, "html": render_html}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", required=True, type=Path, help="config/tables/<paper>/<item>.yaml")
    add_context_arguments(parser)
    parser.add_argument("--format", choices=sorted(RENDER), default="latex", help="default: %(default)s")
    parser.add_argument("--out", required=True, type=Path, help="file to write")
    args = parser.parse_args()
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    table = build(load_spec(args.spec), context)
    write_text(args.out, render_html(table, args.out) if args.format == "html" else RENDER[args.format](table))


if __name__ == "__main__":
    run_main(main)
