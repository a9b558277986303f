"""Draw the effect of every claim at each scale, with its interval, beside the published one. Reads the ledger alone."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from common.errors import run_main
from report.context import Context, add_context_arguments, load_context
from report.figure_style import (
    COLOURS,
    MARKERS,
    SIZE_INCHES,
    STYLE,
    add_output_arguments,
    dress,
    nothing_to_draw,
    save_both,
)
from report.ledger import Line, lines_of, read_ledger
from report.table_spec import load_spec

COLUMNS = 2
LINE_INCHES = 0.19
PUBLISHED = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "0.2", "markersize": 4, "linestyle": "none"}


def in_columns(lines: list[Line]) -> list[list[Line]]:
    """Whole papers, in turn, into columns of about equal height."""
    papers: dict[str, list[Line]] = {}
    for line in lines:
        papers.setdefault(line.paper, []).append(line)
    columns: list[list[Line]] = [[] for _ in range(COLUMNS)]
    for own in papers.values():
        min(columns, key=len).extend(own)
    return [column for column in columns if column]


def draw(spec: dict, ledger: dict, context: Context) -> plt.Figure:
    lines, scales = lines_of(ledger), [one["scale"] for one in ledger["scales"]]
    if not lines:
        return nothing_to_draw(spec, context)
    columns = in_columns(lines)
    with plt.rc_context(STYLE | {"axes.spines.left": False}):
        tallest = LINE_INCHES * max(map(len, columns))
        figure = plt.figure(figsize=(SIZE_INCHES[0], 1.5 + tallest), layout="constrained")
        grid = figure.add_gridspec(2, len(columns), height_ratios=[tallest, 0.25])
        for number, column in enumerate(columns):
            draw_column(figure.add_subplot(grid[0, number]), column, scales, spec["effects"]["linear"])
        handles = [Line2D([], [], label="published", **PUBLISHED)]
        handles += [Line2D([], [], label=scale, linewidth=1, **look_of(i)) for i, scale in enumerate(scales)]
        below = figure.add_subplot(grid[1, :])
        below.set_axis_off()
        below.legend(handles=handles, loc="center", ncols=len(handles), fontsize=8)
        words = "Points in favour of the paper, with 95 % intervals; none from fewer than three pre-trainings."
        dress(figure, spec, context, f"{words} What a scale shows is of this scale, and not of the paper's.")
    return figure


def look_of(number: int) -> dict:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 3}


def draw_column(axes: plt.Axes, lines: list[Line], scales: list[str], linear: float) -> None:
    axes.set_xscale("symlog", linthresh=linear, linscale=0.6)
    ticks = (-20, -5, -1, 0, 1, 5, 20)
    axes.set_xticks(ticks, [f"{tick:+}".replace("-", "−") if tick else "0" for tick in ticks], fontsize=6.5)
    axes.minorticks_off()
    axes.axvline(0, color="0.4", linewidth=0.8, zorder=1)
    for row, line in enumerate(lines):
        if line.published is not None:
            axes.plot(line.published, row, zorder=5, **PUBLISHED)
        for number, scale in enumerate(scales):
            if scale not in line.at:
                continue
            effect, interval = line.at[scale]
            y = row + 0.22 * (number - (len(scales) - 1) / 2)
            if interval:
                axes.plot(interval, (y, y), color=look_of(number)["color"], linewidth=0.9, zorder=2)
            axes.plot(effect, y, linestyle="none", zorder=4, **look_of(number))
    axes.set_yticks(range(len(lines)), [line.name for line in lines], fontsize=5.5)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    before = None
    for row, line in enumerate(lines):
        if line.paper != before and before is not None:
            axes.axhline(row - 0.5, color="0.6", linewidth=0.6)
        before = line.paper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, type=Path, help="config/figures/<paper>/<item>.yaml with `effects`")
    add_context_arguments(parser)
    parser.add_argument("--ledger", required=True, type=Path, help="ledger.json of make_ledger")
    add_output_arguments(parser)
    args = parser.parse_args()
    spec = load_spec(args.spec)
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    figure = draw(spec, read_ledger(args.ledger, context.scale), context)
    save_both(figure, args)


if __name__ == "__main__":
    run_main(main)
