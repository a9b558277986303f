"""A panel for each column of a table, a line in it for each row, and on it a point for each seed: what one pre-training
says, and how far two of them lie apart. The stroke is their mean.
"""

import textwrap

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from report.context import Context, scale_words
from report.figure_style import COLOURS, SIZE_INCHES, STYLE, dress, nothing_to_draw, row_name
from report.table_spec import Column
from report.table_words import plain_title
from report.tables import Table, build

ROW_INCHES, GAP = 0.2, 0.7  # of a row; between two groups, in rows
LESS = " ↓"
POINT = {"color": COLOURS[0], "marker": "o", "markersize": 4.5, "linestyle": "none"}
THROUGH = {"color": COLOURS[0], "linewidth": 0.8, "linestyle": "--"}
CHANCE = {"color": "0.4", "linewidth": 0.8, "linestyle": ":"}


def draw(spec: dict, context: Context) -> plt.Figure:
    table = build(spec, context)
    if not any(cell.values for row in table.rows for cell in row.cells):
        return nothing_to_draw(spec, context, missing(spec, context))
    heights = places(table)
    with plt.rc_context(STYLE | {"axes.spines.left": False}):
        tallest = ROW_INCHES * (heights[-1] + 1)
        figure = plt.figure(figsize=(SIZE_INCHES[0], 1.5 + tallest), layout="constrained")
        grid = figure.add_gridspec(2, len(table.columns), height_ratios=[tallest, 0.25])
        parts = [figure.add_subplot(grid[0, 0])]
        parts += [figure.add_subplot(grid[0, n], sharey=parts[0]) for n in range(1, len(table.columns))]
        for number, (axes, column) in enumerate(zip(parts, table.columns, strict=True)):
            draw_column(axes, spec["points"], table, number, heights)
            axes.tick_params(labelleft=not number)
            axes.set_title(heading(column), fontsize=8)
            axes.tick_params(axis="x", labelsize=7)
            axes.tick_params(axis="y", length=0, labelsize=7.5)
        parts[0].set_yticks(heights, [row.label for row in table.rows])
        parts[0].set_ylim(heights[-1] + 0.6, -0.6)
        below = figure.add_subplot(grid[1, :])
        below.set_axis_off()
        below.legend(handles=legend(spec["points"], table), loc="center", ncols=4, fontsize=7)
        dress(figure, spec, context, f"A point is one pre-training, a stroke their mean. {scale_words(context)}")
    return figure


def places(table: Table) -> list[float]:
    """Of each row, from above, with a gap after each group."""
    rows = [number for number, group in enumerate(table.groups) for _ in group.rows]
    return [row + GAP * group for row, group in enumerate(rows)]


def draw_column(axes: plt.Axes, about: dict, table: Table, number: int, heights: list[float]) -> None:
    for row, y in zip(table.rows, heights, strict=True):
        values = list(row.cells[number].values.values())
        if not values:
            continue
        axes.plot(row.cells[number].summary.mean, y, color="0.5", marker="|", markersize=9, linestyle="none", zorder=3)
        face = "white" if row.run in about["hollow"] else POINT["color"]
        axes.plot(values, [y] * len(values), **POINT, markerfacecolor=face, zorder=4)
        if row.run == about["line"]:
            axes.axvline(row.cells[number].summary.mean, **THROUGH, zorder=2)
    if (chance := table.chance[number]) is not None:
        axes.axvline(chance, **CHANCE, zorder=2)
    axes.margins(x=0.12)


def legend(about: dict, table: Table) -> list[Line2D]:
    label = next(row.label for row in table.rows if row.run == about["line"])
    return [
        Line2D([], [], **THROUGH, label=f"mean of {label}"),
        Line2D([], [], **CHANCE, label="chance"),
        Line2D([], [], **POINT, markerfacecolor=POINT["color"], label="a method"),
        Line2D([], [], **POINT, markerfacecolor="white", label="untrained, or a control"),
    ]


def heading(column: Column) -> str:
    return textwrap.fill(plain_title(column) + (LESS if column.less_is_better else ""), 10)


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Rows without a point in some panel."""
    table = build(spec, context)
    found = []
    for group, about in zip(table.groups, spec["groups"], strict=True):
        for row, written in zip(group.rows, about["rows"], strict=True):
            for column, cell in zip(table.columns, row.cells, strict=True):
                if not cell.values:
                    found.append((group.title, row_name(written), plain_title(column), cell.reason))
    return found
