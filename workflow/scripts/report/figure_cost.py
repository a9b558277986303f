"""Quality against what pre-training cost: each row is a point, each group of several rows a line through its points.

What a run costs are the floating-point operations of its pre-training and of all that it starts from, out of the
summaries of the trainings; quality is one average of the tables. Published points are hollow.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.pyplot as plt

from common.csvfiles import read_rows
from common.errors import UserError
from plan.claimed import cost_unknown
from plan.runs import lineage
from report.context import Context, scale_words
from report.figure_style import LINE_STYLES, MARKERS, SIZE_INCHES, STYLE, colour_of, dress, nothing_to_draw, row_name
from report.figure_training import read_trainings, why_untrained
from report.scores import Summary
from report.tables import Row, build
from report.trainings import Training

# `counting` of a spec (engine/cost.py has both) -> the key of a training's cost, and what the axis calls it
COUNTINGS = {"ours": "flops", "papers": "flops_by_the_papers_counting"}
WORDS = {"ours": "our counting", "papers": "the paper's counting"}


@dataclass(frozen=True)
class Point:
    label: str
    flops: float
    quality: Summary
    steps: int  # of its own training


@dataclass(frozen=True)
class Line:
    label: str  # the group's title
    points: list[Point]
    published: list[tuple[float, float]]  # cost, quality
    style: int  # index into the styles: the group's place in the spec


def cost_of(run: str, context: Context, counting: str) -> tuple[float, int, Mapping[int, Training]]:
    """Operations with those of all that it starts from, means over seeds; its own steps and trainings. Nothing where
    one of these is missing."""
    total, own = 0.0, {}
    for number, parent in enumerate(lineage(context.config, run)):
        trainings = read_trainings(parent, context)
        if not trainings:
            return 0.0, 0, {}
        total += statistics.fmean(one.cost[COUNTINGS[counting]] for one in trainings.values())
        own = own if number else trainings
    return total, int(next(iter(own.values())).cost["steps"]), own


def published_cost(spec: dict, context: Context) -> dict[str, float]:
    """Model -> the sum of its numbers of these metrics."""
    about = spec["cost"].get("published")
    total: dict[str, float] = {}
    for row in read_rows(context.root / about["file"]) if about else []:
        if row["metric"] in about["metrics"]:
            try:
                total[row["model"]] = total.get(row["model"], 0.0) + float(row["value"])
            except ValueError:
                raise UserError(f"{about['file']}: {row['model']} {row['metric']}: no number in 'value'") from None
    return total


def read_lines(spec: dict, context: Context) -> tuple[list[Line], list[tuple[str, str, str]]]:
    """The lines, and (group, row, reason) of the rows that have no point."""
    table, printed = build(spec, context), published_cost(spec, context)
    lines, missing = [], []
    for style, (group, about) in enumerate(zip(table.groups, spec["groups"], strict=True)):
        line = Line(group.title, [], [], style)
        for row, written in zip(group.rows, about["rows"], strict=True):
            [cell] = row.cells
            if cell.published and row.model in printed:
                line.published.append((printed[row.model], float(cell.published)))
            point, reason = point_of(row, written, spec, context)
            if point:
                line.points.append(point)
            else:
                missing.append((group.title, row_name(written), reason))
        line.points.sort(key=lambda point: point.flops)
        line.published.sort()
        lines.append(line)
    return [line for line in lines if line.points or line.published], missing


def point_of(row: Row, written: dict, spec: dict, context: Context) -> tuple[Point | None, str | None]:
    [cell] = row.cells
    if cell.summary is None:
        return None, cell.reason
    if reason := cost_unknown(context.config, row.run):
        return None, reason
    flops, steps, trainings = cost_of(row.run, context, spec["cost"]["counting"])
    if reason := why_untrained(written, trainings, context):
        return None, reason
    return Point(row.label, flops, cell.summary, steps), None


def draw(spec: dict, context: Context) -> plt.Figure:
    lines, lacking = read_lines(spec, context)
    if not lines:
        return nothing_to_draw(spec, context, lacking)
    counting = spec["cost"]["counting"]
    reproduced, published = any(line.points for line in lines), any(line.published for line in lines)
    comparable = not context.world and counting == "papers"
    apart = reproduced and published and not comparable
    with plt.rc_context(STYLE):
        figure, parts = plt.subplots(
            1,
            1 + apart,
            figsize=SIZE_INCHES,
            layout="constrained",
            width_ratios=[2, 3] if apart else [1],
            squeeze=False,
        )
        papers, axes = parts[0, 0], parts[0, -1]
        if apart:
            papers.set_title("published", fontsize=9)
            axes.set_title(f"reproduced, scale {context.scale}", fontsize=9)
        for line in lines:
            colour, marker = colour_of(spec, line.label, line.style), MARKERS[line.style % len(MARKERS)]
            if line.points:
                axes.errorbar(
                    [point.flops for point in line.points],
                    [point.quality.mean for point in line.points],
                    yerr=[point.quality.std or 0.0 for point in line.points],
                    color=colour,
                    linestyle=LINE_STYLES[line.style % len(LINE_STYLES)] if len(line.points) > 1 else "none",
                    marker=marker,
                    markersize=5,
                    linewidth=1.4,
                    elinewidth=0.9,
                    capsize=2,
                    label=f"{line.label}{steps_words(line.points)}",
                    zorder=3,
                )
            if line.published:
                x, y = zip(*line.published, strict=True)
                look = {"markerfacecolor": "none", "markeredgewidth": 1.4, "markersize": 7.5}
                label = f"{line.label}, published"
                papers.plot(x, y, color=colour, linestyle="none", marker=marker, label=label, zorder=4, **look)
        for part in figure.axes:
            of_paper = published and part is papers
            part.set_xlabel(f"training FLOPs\n{WORDS['papers' if of_paper else counting]}")
            part.margins(0.08)
            if of_paper:
                part.set_xscale("log")  # the published costs differ by a hundred times
                part.margins(x=0.15)
            else:
                exponent = math.floor(math.log10(max(point.flops for line in lines for point in line.points)))
                part.set_xlabel(f"training, $10^{{{exponent}}}$ FLOPs\n{WORDS[counting]}")
                part.xaxis.set_major_formatter(lambda value, _, unit=10.0**exponent: f"{value / unit:g}")
        papers.set_ylabel(spec["cost"]["label"])
        figure.legend(loc="outside right center", fontsize=8, handlelength=3.2, labelspacing=0.6)
        dress(figure, spec, context, small_print(reproduced, context))
    return figure


def steps_words(points: list[Point]) -> str:
    """`: 500, 1000 and 2000 steps`, as the paper writes steps beside its points."""
    steps = [f"{point.steps:,}" for point in points]
    return "\n" + (", ".join(steps[:-1]) + " and " if len(steps) > 1 else "") + f"{steps[-1]} steps"


def small_print(reproduced: bool, context: Context) -> str:
    words = "A run's cost has with it that of the runs whose weights it starts from; fine-tuning is left out."
    if reproduced:
        words += " Reproduced: mean over seeds, whiskers one standard deviation; each point is a training of its own."
    return f"{words} {scale_words(context)}"


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    return [(group, row, "point", reason) for group, row, reason in read_lines(spec, context)[1]]
