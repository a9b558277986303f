"""Curves by layer or epoch: a reproduced line for each run, published points as hollow markers.

Curves are told apart by colour, line style and marker, so that a grey print reads too.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from common.errors import UserError
from plan.needs import canonical_run
from report.context import Context, load_expected, scale_words
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
from report.scores import BY_UPDATE, Results, Summary
from report.table_spec import SCALE_LANGUAGES, PublishedNumbers, models
from report.tables import column_setting, no_file, why_missing

# metric -> label of its axis, and what a point is
METRICS = {
    "accuracy-by-layer": ("accuracy, per cent", "mean over {languages} languages and both directions"),
    "error-rate-by-layer": ("error rate, per cent (less is better)", "mean over {languages} languages"),
    f"sacrebleu{BY_UPDATE}": (
        "sacreBLEU",
        "on greedily translated validation data, newstest2013 or what a generated world has in its place, because the "
        "test set is looked at once (the paper does not say which set its curves are of)",
    ),
}


@dataclass(frozen=True)
class Line:
    label: str
    run: str | None
    points: dict[float, Summary]  # reproduced: layer or epoch -> mean and deviation over seeds
    published: dict[float, float]  # layer or epoch -> value
    published_layers: int | None  # of the published model
    style: int  # index into the styles: the row's place in the spec

    @property
    def depth(self) -> int:
        return max(self.points)


@dataclass(frozen=True)
class Curves:
    lines: list[Line]
    place: str  # what x is: layer or epoch
    languages: list[str]
    chance: float | None
    same_depth: bool  # every model shown has as many layers, or x is none: the axis counts what x is
    missing: list[tuple[str, str, str]]  # of rows without a curve: group, row, reason


def place_of(metric: str) -> str:
    return "epoch" if metric.endswith(BY_UPDATE) else "layer"


def points_of(results: Results, metric: str, languages: list[str]) -> dict[float, Summary]:
    if place_of(metric) == "epoch":
        return {one.epoch: one.summary for one in results.by_update(metric, languages).values()}
    return results.by_layer(metric, languages)


def published_points(
    rows: list[dict[str, str]], task: str, metric: str, place: str, path: Path | None
) -> dict[float, float]:
    points = {}
    for row in rows:
        if (row["task"], row["metric"]) != (task, metric) or not row["value"]:
            continue
        if not row.get(place, "").isdigit():
            named = f"{path}: {row['model']} {row['value']}"
            raise UserError(f"{named}: column '{place}' is needed in a figure by {place}")
        points[int(row[place])] = float(row["value"])
    return dict(sorted(points.items()))


def read_curves(spec: dict, context: Context) -> Curves:
    """The lines of a figure by layer or epoch. One column: a figure shows one task, each group in its setting."""
    if len(spec["columns"]) != 1:
        raise UserError(f"{spec['paper']}/{spec['item']}: a figure by layer or epoch has one column")
    column = spec["columns"][0]
    if column["metric"] not in METRICS:
        raise UserError(
            f"{spec['paper']}/{spec['item']}: metric {column['metric']!r} is none by layer or by update; "
            f"use {', '.join(METRICS)}"
        )
    task, metric, place = column["task"], column["metric"], place_of(column["metric"])
    rows = [(row, group, column_setting(column, group)) for group in spec["groups"] for row in group["rows"]]
    published = PublishedNumbers(context.root / spec["published"] if "published" in spec else None)
    results = load_expected(spec, context)
    found = {}
    for row, _, setting in rows:
        if why_missing(row, task, setting, context) is None:
            one = results.get((canonical_run(context.config, row["run"], task), task, setting))
            if one and one.by_seed:
                found[row["run"], setting] = one
    listed = sorted({code for one in found.values() for code in one.languages(metric)})
    if column["languages"] != SCALE_LANGUAGES:
        listed = [code for code in column["languages"] if code in listed]
    lines, missing, chances = [], [], []
    for style, (row, group, setting) in enumerate(rows):
        printed, depth, points = {}, None, {}
        if "published" in row:
            published_setting = group.get("published_setting", setting)
            of_model = published.of_model(published_setting, row["published"], row.get("published_note"))
            named = column.get("published_task", task), column.get("published_metric", metric)
            printed = published_points(of_model, *named, place, published.path)
            known = models(context.root).get(row["published"], {}).get("layers", "")
            depth = int(known) if known.isdigit() else None
            if place == "layer" and printed and depth is None:
                raise UserError(
                    f"config/published/models.tsv: {row['published']}: column 'layers' is needed by a figure"
                )
        if one := found.get((row.get("run"), setting)):
            points = points_of(one, metric, listed)
            chances += [one.chance(code, metric) for code in listed]
        else:
            reason = why_missing(row, task, setting, context) or no_file(context)
            missing.append((group["title"], row_name(row), reason))
        if printed or points:
            lines.append(Line(row["label"], row.get("run"), points, printed, depth, style))
    depths = {line.depth for line in lines if line.points}
    depths |= {line.published_layers for line in lines if line.published}
    same_depth = place == "epoch" or len(depths) < 2
    known_chances = [value for value in chances if value is not None]
    chance = statistics.fmean(known_chances) if known_chances else None
    return Curves(lines, place, listed, chance, same_depth, missing)


def draw(spec: dict, context: Context) -> plt.Figure:
    curves = read_curves(spec, context)
    if not curves.lines:
        return nothing_to_draw(spec, context, curves.missing)
    # Numbers that are not comparable get axes of their own: on one scale the larger ones would hide the others' shape.
    apart = context.world and any(line.points for line in curves.lines) and any(line.published for line in curves.lines)
    with plt.rc_context(STYLE):
        shares = [2, 3] if apart else [1]
        figure, parts = plt.subplots(
            1, len(shares), figsize=SIZE_INCHES, layout="constrained", width_ratios=shares, squeeze=False
        )
        papers, axes = parts[0, 0], parts[0, -1]
        if apart:
            papers.set_title("published", fontsize=9)
            axes.set_title(f"reproduced, scale {context.scale}", fontsize=9)
        for line in curves.lines:
            colour = colour_of(spec, line.label, line.style)
            marker = MARKERS[line.style % len(MARKERS)]
            if line.points:
                scale = 1 if curves.same_depth else line.depth
                x = [point / scale for point in line.points]
                mean = [summary.mean for summary in line.points.values()]
                deviation = [summary.std or 0.0 for summary in line.points.values()]
                seeds = seeds_of(max(summary.n for summary in line.points.values()))
                axes.plot(
                    x,
                    mean,
                    color=colour,
                    linestyle=LINE_STYLES[line.style % len(LINE_STYLES)],
                    marker=marker,
                    markersize=4.5,
                    linewidth=1.5,
                    label=f"{line.label} ({seeds})",
                    zorder=3,
                )
                low = [max(0.0, m - d) for m, d in zip(mean, deviation, strict=True)]
                high = [m + d for m, d in zip(mean, deviation, strict=True)]
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
            if line.published:
                scale = 1 if curves.same_depth else line.published_layers
                papers.plot(
                    [point / scale for point in line.published],
                    list(line.published.values()),
                    color=colour,
                    linestyle="none",
                    marker=marker,
                    markersize=7.5,
                    markerfacecolor="none",
                    markeredgewidth=1.4,
                    label=f"{line.label}, published",
                    zorder=4,
                )
        if curves.chance is not None:
            axes.axhline(
                curves.chance,
                color="0.45",
                linewidth=0.9,
                linestyle=(0, (1, 2)),
                zorder=1,
                label=f"chance ({curves.chance:.2g})",
            )
        for part in figure.axes:
            if curves.place == "epoch":
                part.set_xlabel("epochs")
                part.update_datalim([(0, 0)])  # from nothing: a curve that starts high is not to look as if it rose
            elif curves.same_depth:
                part.set_xlabel("layer (0 = embeddings)")
                part.xaxis.set_major_locator(MaxNLocator(integer=True))
            else:
                part.set_xlabel("relative depth" if apart else "relative depth (0 = embeddings, 1 = last)")
            part.margins(y=0.06)  # room below zero, so that a marker at zero is whole
            part.autoscale_view()
        if not curves.same_depth:
            papers.set_xlim(-0.05, 1.05)
        papers.set_ylabel(METRICS[spec["columns"][0]["metric"]][0])
        # beside the axes: nothing can lie under the legend, however the curves run
        figure.legend(loc="outside right center", fontsize=8, handlelength=3.2, labelspacing=0.6)
        dress(figure, spec, context, small_print(curves, METRICS[spec["columns"][0]["metric"]][1], context))
    return figure


def small_print(curves: Curves, point: str, context: Context) -> str:
    words = f"Reproduced: {point.format(languages=len(curves.languages))}; band: one standard deviation over seeds."
    if not curves.same_depth:
        words += " The models differ in depth: each point stands at its layer divided by its model's number of layers."
    return f"{words} {scale_words(context)}"


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    return [(group, row, "curve", reason) for group, row, reason in read_curves(spec, context).missing]
