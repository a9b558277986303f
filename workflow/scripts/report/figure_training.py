"""Signals of pre-training by step: one line for each row, of a run and its signal, a band over the seeds.

A loss that is a mean negative log-likelihood may be shown as its exponential, the perplexity.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.pyplot as plt

from common.errors import UserError
from plan.figure_specs import row_signal
from report.context import Context, item_name, scale_words, training_files, why_unselected
from report.figure_style import (
    LINE_STYLES,
    MARKERS,
    SIZE_INCHES,
    STYLE,
    colour_of,
    dress,
    nothing_to_draw,
    row_name,
    seeds_of,
)
from report.scores import Summary, summarise
from report.trainings import Training, by_run, read_training

# `as` of a spec -> what is drawn of a value
SHOWN = {"value": lambda value: value, "perplexity": math.exp}


@dataclass(frozen=True)
class Line:
    label: str
    points: dict[int, Summary]  # step -> mean and deviation over seeds
    mark: int | None  # first step of the signal that marks a place
    style: int


def read_trainings(run: str, context: Context) -> Mapping[int, Training]:
    """Those of a run that there are, by seed."""
    found = by_run(
        read_training(path, context.scale) for path in training_files(run, context).values() if path.exists()
    )
    return next(iter(found.values()), {})


def why_untrained(row: dict, trainings: Mapping[int, Training], context: Context) -> str | None:
    """Why a row has nothing of a pre-training; None where it has."""
    run = row.get("run")
    if run is None:
        return "published only: this row names no run"
    if reason := why_unselected(run, context):
        return reason
    if not trainings:
        return "not among the reference trainings" if context.reference else "no summary of its training found"
    return None


def read_lines(spec: dict, context: Context) -> tuple[list[Line], list[tuple[str, str, str]]]:
    """The lines, and (group, row, reason) of the rows that have none."""
    mark = spec["training"].get("mark", {}).get("signal")
    shown = SHOWN[spec["training"].get("as", "value")]
    lines, missing = [], []
    rows = [(row, group) for group in spec["groups"] for row in group["rows"]]
    for style, (row, group) in enumerate(rows):
        trainings = read_trainings(row["run"], context) if "run" in row else {}
        if reason := why_untrained(row, trainings, context):
            missing.append((group["title"], row_name(row), reason))
            continue
        signal = row_signal(spec["training"], row)
        values: dict[int, list[float]] = {}
        for training in trainings.values():
            if signal not in training.curves:
                known = ", ".join(sorted(training.curves))
                key = f"row {row['label']!r}, signal" if "signal" in row else "training.signal"
                raise UserError(
                    f"{item_name(spec, context)}, {key}: run {row['run']} logs no {signal!r}; it has {known}"
                )
            for step, value in training.curves[signal]:
                values.setdefault(step, []).append(shown(value))
        begins = [curve[0][0] for one in trainings.values() if (curve := one.curves.get(mark))]
        points = {step: summarise(found) for step, found in sorted(values.items())}
        lines.append(Line(row["label"], points, min(begins, default=None), style))
    return lines, missing


def draw(spec: dict, context: Context) -> plt.Figure:
    lines, lacking = read_lines(spec, context)
    if not lines:
        return nothing_to_draw(spec, context, lacking)
    about = spec["training"]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
        if about.get("as") == "perplexity":
            axes.set_yscale("log")  # it falls from the size of the vocabulary to a few
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        for line in lines:
            colour, steps = colour_of(spec, line.label, line.style), list(line.points)
            summaries = list(line.points.values())
            axes.plot(
                steps,
                [summary.mean for summary in summaries],
                color=colour,
                linestyle=LINE_STYLES[line.style % len(LINE_STYLES)],
                marker=MARKERS[line.style % len(MARKERS)],
                markevery=(line.style, 5),  # beside those of the other lines
                markersize=4.5,
                linewidth=1.4,
                label=f"{line.label} ({seeds_of(max(summary.n for summary in summaries))})",
                zorder=3,
            )
            low, high = zip(*(band(summary) for summary in summaries), strict=True)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        marks = [line.mark for line in lines if line.mark is not None]
        if marks:
            label = about["mark"]["label"]
            axes.axvline(min(marks), color="0.45", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label=label)
        axes.set_xlabel("steps")
        axes.set_ylabel(about["label"])
        figure.legend(loc="outside right center", fontsize=8, handlelength=3.2, labelspacing=0.6)
        dress(figure, spec, context, small_print(spec, context))
    return figure


def band(summary: Summary) -> tuple[float, float]:
    deviation = summary.std or 0.0
    # a scale of powers has no zero: a band that would go below stops short of it
    return max(summary.mean - deviation, summary.mean / 10), summary.mean + deviation


def small_print(spec: dict, context: Context) -> str:
    rows = [row for group in spec["groups"] for row in group["rows"]]
    signals = list(dict.fromkeys(row_signal(spec["training"], row) for row in rows))
    words = f"{'Signals' if len(signals) > 1 else 'Signal'} {', '.join(signals)} of the training log, means over "
    words += "neighbouring steps"
    if spec["training"].get("as") == "perplexity":
        words += "; perplexity is the exponential of this mean negative log-likelihood of a masked token"
    return f"{words}; band: one standard deviation over seeds. {scale_words(context)}"


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    return [(group, row, "curve", reason) for group, row, reason in read_lines(spec, context)[1]]
