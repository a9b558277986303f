"""Draw one figure of a paper: a reproduced curve by layer or epoch for each run, published points as hollow markers; or
who sees whom in the attention of an objective, from the predicates that training uses.

Curves are told apart by colour, line style and marker, cells by colour and hatching, so that a grey print reads too.
The same scores give the same bytes: no dates in the files, fixed size and fonts.
"""

import argparse
import statistics
import textwrap
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch, Rectangle

from atomic import atomic_path
from engine.attention_rules import Tokens, camlm, camlm_siblings, full
from errors import UserError, run_main
from scores import BY_UPDATE, Results, Summary
from tables import (
    SCALE_LANGUAGES,
    Context,
    PublishedNumbers,
    add_context_arguments,
    citations,
    column_setting,
    item_name,
    load_context,
    load_expected,
    load_spec,
    models,
    no_file,
    scale_words,
    why_missing,
)

# Okabe and Ito's palette and a grey: distinct for colour-blind readers; neighbours differ in a grey print too.
COLOURS = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F")
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIZE_INCHES = (6.8, 3.8)
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
RULES = {rule.__name__: rule for rule in (full, camlm, camlm_siblings)}
CELLS = {
    "sees its own sentence": {"facecolor": "#0072B2", "edgecolor": "white"},
    "sees the other sentence": {"facecolor": "#E69F00", "edgecolor": "white", "hatch": "/////"},
    "a mask sees itself": {"facecolor": "#000000", "edgecolor": "white"},
    "does not see": {"facecolor": "white", "edgecolor": "0.6"},
}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "pdf.compression": 6,
    "savefig.dpi": 200,
    "svg.hashsalt": "parallax",
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
    missing: list[tuple[str, str]]  # label, reason


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
            one = results.get((context.canonical(row["run"], task), task, setting))
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
            missing.append((row["label"], reason))
        if printed or points:
            lines.append(Line(row["label"], row.get("run"), points, printed, depth, style))
    if not lines:
        raise UserError(f"{spec['paper']}/{spec['item']}: no published point and no score to draw at {context.scale}")
    depths = {line.depth for line in lines if line.points}
    depths |= {line.published_layers for line in lines if line.published}
    same_depth = place == "epoch" or len(depths) == 1
    known_chances = [value for value in chances if value is not None]
    chance = statistics.fmean(known_chances) if known_chances else None
    return Curves(lines, place, listed, chance, same_depth, missing)


def draw(curves: Curves, spec: dict, context: Context) -> plt.Figure:
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
            colour = COLOURS[line.style % len(COLOURS)]
            marker = MARKERS[line.style % len(MARKERS)]
            if line.points:
                scale = 1 if curves.same_depth else line.depth
                x = [point / scale for point in line.points]
                mean = [summary.mean for summary in line.points.values()]
                deviation = [summary.std or 0.0 for summary in line.points.values()]
                seeds = max(summary.n for summary in line.points.values())
                axes.plot(
                    x,
                    mean,
                    color=colour,
                    linestyle=LINE_STYLES[line.style % len(LINE_STYLES)],
                    marker=marker,
                    markersize=4.5,
                    linewidth=1.5,
                    label=f"{line.label} ({seeds} seed{'s' if seeds > 1 else ''})",
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
                part.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
            else:
                part.set_xlabel("relative depth" if apart else "relative depth (0 = embeddings, 1 = last)")
            part.margins(y=0.06)  # room below zero, so that a marker at zero is whole
            part.autoscale_view()
        if not curves.same_depth:
            papers.set_xlim(-0.05, 1.05)
        papers.set_ylabel(METRICS[spec["columns"][0]["metric"]][0])
        # beside the axes: nothing can lie under the legend, however the curves run
        figure.legend(loc="outside right center", fontsize=8, handlelength=3.2, labelspacing=0.6)
        figure.suptitle(title_of(spec, context), fontsize=10, x=0.01, ha="left")
        words = caption_of_scale(curves, METRICS[spec["columns"][0]["metric"]][1], context)
        figure.supxlabel(words, fontsize=7, color="0.25", x=0.01, ha="left")
    return figure


def caption_of_scale(curves: Curves, point: str, context: Context) -> str:
    """Small print under the axes, so that the picture alone cannot be taken for the paper's."""
    words = f"Reproduced: {point.format(languages=len(curves.languages))}; band: one standard deviation over seeds."
    if not curves.same_depth:
        words += " The models differ in depth: each point stands at its layer divided by its model's number of layers."
    return textwrap.fill(f"{words} {scale_words(context)}", width=125)


@dataclass(frozen=True)
class Panel:
    labels: list[str]
    fields: Tokens  # arrays (T,)
    seen: np.ndarray  # (T, T) bool: the row's token sees the column's


def read_panel(panel: dict, where: str) -> Panel:
    """The row that a panel describes: documents of sides, in turn the first and the second, of tokens like x1 or M2."""
    if panel["rule"] not in RULES:
        raise UserError(f"{where}, rule: `{panel['rule']}` is unknown; known: {', '.join(RULES)}")
    tokens = [
        (number, turn % 2, label)
        for number, sides in enumerate(panel["documents"])
        for turn, labels in enumerate(sides)
        for label in labels
    ]
    document, side = (np.array([token[i] for token in tokens]) for i in (0, 1))
    labels = [label for *_, label in tokens]
    selected = np.array([label.startswith("M") for label in labels])
    position = np.array([int(label[1:]) for label in labels])
    fields = Tokens(document, side, selected, position, side)
    query, key = (Tokens(*(np.expand_dims(field, axis) for field in fields)) for axis in (1, 0))
    return Panel(labels, fields, (query.document == key.document) & RULES[panel["rule"]](query, key))


def draw_masks(spec: dict, context: Context) -> plt.Figure:
    """One matrix for each panel: the token of a row sees those of the columns that are filled."""
    named = item_name(spec, context)
    panels = [read_panel(panel, f"{named}, masks entry {i}") for i, panel in enumerate(spec["masks"], start=1)]
    widths = [len(panel.labels) for panel in panels]
    with plt.rc_context(STYLE | {"axes.grid": False, "hatch.linewidth": 0.6}):
        cell = min(0.26, (SIZE_INCHES[0] - 0.55 * len(panels)) / sum(widths))
        size = (SIZE_INCHES[0], cell * max(widths) + 1.35)
        figure, axes = plt.subplots(
            1, len(panels), figsize=size, layout="constrained", width_ratios=widths, squeeze=False
        )
        for part, panel, about in zip(axes[0], panels, spec["masks"], strict=True):
            draw_panel(part, panel, about["title"])
        axes[0, 0].set_ylabel("the token of a row", fontsize=8)
        patches = [Patch(label=kind, **look) for kind, look in CELLS.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=len(CELLS), fontsize=8)
        figure.suptitle(title_of(spec, context), fontsize=10, x=0.01, ha="left")
    return figure


def title_of(spec: dict, context: Context) -> str:
    after = f" (after {item_name(spec, context)})" if citations(context)[spec["paper"]] else ""
    return spec["title"] + after


def draw_panel(axes: plt.Axes, panel: Panel, title: str) -> None:
    T = len(panel.labels)
    fields = panel.fields
    for q, k in np.argwhere(panel.seen).tolist():
        kind = "sees its own sentence" if fields.side[q] == fields.side[k] else "sees the other sentence"
        if q == k and fields.selected[q]:
            kind = "a mask sees itself"
        axes.add_patch(Rectangle((k, q), 1, 1, linewidth=0.8, **CELLS[kind]))
    for i in range(1, T):  # between tokens; heavier between sides and documents
        apart = (fields.document[i], fields.side[i]) != (fields.document[i - 1], fields.side[i - 1])
        for line in (axes.axhline, axes.axvline):
            line(i, color="0.25" if apart else "0.85", linewidth=1.0 if apart else 0.5, zorder=2 if apart else 0)
    axes.set(xlim=(0, T), ylim=(T, 0), aspect="equal", anchor="N")
    names = [rf"${label[0]}_{{{label[1:]}}}$" for label in panel.labels]
    axes.set_xticks(np.arange(T) + 0.5, names, fontsize=8)
    axes.set_yticks(np.arange(T) + 0.5, names, fontsize=8)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_title(title, fontsize=8.5)


def save(figure: plt.Figure, out: Path, kind: str) -> None:
    """Without dates and program versions: the same picture is the same file."""
    absent = {"pdf": ("CreationDate", "ModDate", "Producer", "Creator"), "png": ("Software",)}
    with plt.rc_context(STYLE), atomic_path(out) as temporary:
        figure.savefig(temporary, format=kind, metadata=dict.fromkeys(absent[kind]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--spec", required=True, type=Path, help="config/figures/<paper>/<item>.yaml")
    add_context_arguments(parser)
    parser.add_argument("--out-pdf", required=True, type=Path, help="vector picture to write")
    parser.add_argument("--out-png", required=True, type=Path, help="the same as pixels")
    args = parser.parse_args()
    spec = load_spec(args.spec)
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    figure = draw_masks(spec, context) if "masks" in spec else draw(read_curves(spec, context), spec, context)
    save(figure, args.out_pdf, "pdf")
    save(figure, args.out_png, "png")
    plt.close(figure)


if __name__ == "__main__":
    run_main(main)
