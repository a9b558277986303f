"""Bars by language: of each language one bar for each row, published ones hollow, languages in the order of a size.

Rows are told apart by colour and hatching, so that a grey print reads too.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from common.csvfiles import read_rows
from common.errors import UserError
from report.context import Context, scale_words
from report.figure_style import (
    HATCHES,
    MARKERS,
    SIZE_INCHES,
    STYLE,
    colour_of,
    dress,
    nothing_to_draw,
    row_name,
    seeds_of,
)
from report.scores import Summary
from report.tables import Table, build

WIDTH = 0.8  # of the bars of one language together, in languages


@dataclass(frozen=True)
class Bars:
    label: str
    published: dict[str, float]  # language -> value
    points: dict[str, Summary]  # language -> reproduced
    style: int  # index into the styles: the row's place in the spec


def sizes(path: Path, column: str) -> dict[str, float]:
    rows = read_rows(path)
    try:
        return {row["language"]: float(row[column]) for row in rows}
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: needs the columns 'language' and '{column}', the latter with numbers") from None


def read_bars(spec: dict, table: Table) -> tuple[list[Bars], list[str]]:
    """The bars of each row, and the languages from the smallest size to the largest."""
    order = sizes(table.context.root / spec["bars"]["order"], spec["bars"]["column"])
    codes = [column.language for column in table.columns]
    for code in codes:
        if code not in order:
            raise UserError(f"{spec['bars']['order']}: no line for language {code!r}, which the figure shows; add one")
    bars = [
        Bars(
            row.label,
            {code: float(cell.published) for code, cell in zip(codes, row.cells, strict=True) if cell.published},
            {code: cell.summary for code, cell in zip(codes, row.cells, strict=True) if cell.summary},
            style,
        )
        for style, row in enumerate(table.rows)
    ]
    return bars, sorted(codes, key=lambda code: (order[code], code))


def draw(spec: dict, context: Context) -> plt.Figure:
    bars, codes = read_bars(spec, build(spec, context))
    published = [one for one in bars if one.published]
    reproduced = [one for one in bars if one.points]
    if not published and not reproduced:
        return nothing_to_draw(spec, context, missing(spec, context))
    apart = bool(context.world and published and reproduced)  # not comparable: axes of their own
    with plt.rc_context(STYLE):
        figure, parts = plt.subplots(
            1 + apart, 1, figsize=(SIZE_INCHES[0], 5.2 if apart else 3.4), layout="constrained", squeeze=False
        )
        papers, axes = parts[0, 0], parts[-1, 0]
        if apart:
            papers.set_title("published", fontsize=9)
            axes.set_title(f"reproduced, scale {context.scale}", fontsize=9)
        if published:
            draw_published(papers, published, codes, spec, apart)
        if reproduced:
            own = [code for code in codes if not apart or any(code in row.points for row in reproduced)]
            draw_reproduced(axes, reproduced, own, spec)
        for part in figure.axes:
            part.grid(visible=False, axis="x")
            part.set_ylabel(spec["bars"]["label"])
            top = part.get_ylim()[1] * 1.3  # the legend's room, whatever the bars are
            part.set_yticks([tick for tick in part.get_yticks() if 0 <= tick <= min(top, 100)])
            part.set_ylim(0, top)
            part.legend(loc="upper center", ncols=2, fontsize=8, borderaxespad=0.2)
        axes.set_xlabel(spec["bars"]["order_label"])
        words = "Reproduced: mean over seeds, whiskers one standard deviation. " if reproduced else ""
        dress(figure, spec, context, words + scale_words(context))
    return figure


def places(number: int, rows: list[Bars], codes: list[str], values: dict) -> tuple[list[float], list[str], float]:
    """Where the bars of one row stand, their languages, and their width."""
    width = WIDTH / len(rows)
    own = [(i, code) for i, code in enumerate(codes) if code in values]
    return [i + (number - (len(rows) - 1) / 2) * width for i, _ in own], [code for _, code in own], width


def draw_published(axes: plt.Axes, rows: list[Bars], codes: list[str], spec: dict, as_bars: bool) -> None:
    """Hollow bars, or, where reproduced ones stand on the same axes, hollow markers above these."""
    for number, row in enumerate(rows):
        x, own, width = places(number, rows, codes, row.published)
        y, colour, label = [row.published[code] for code in own], colour_of(spec, row.label, row.style), row.label
        if as_bars:
            hatch = HATCHES[row.style % len(HATCHES)]
            look = {"facecolor": "none", "edgecolor": colour, "linewidth": 0.9, "hatch": hatch}
            axes.bar(x, y, width * 0.86, label=f"{label}, published", **look)
        else:
            marker = MARKERS[row.style % len(MARKERS)]
            look = {"markerfacecolor": "white", "markeredgecolor": colour, "markersize": 5, "markeredgewidth": 1.2}
            axes.plot(x, y, linestyle="none", marker=marker, label=f"{label}, published", zorder=4, **look)
    name_languages(axes, codes)


def draw_reproduced(axes: plt.Axes, rows: list[Bars], codes: list[str], spec: dict) -> None:
    for number, row in enumerate(rows):
        x, own, width = places(number, rows, codes, row.points)
        summaries = [row.points[code] for code in own]
        axes.bar(
            x,
            [summary.mean for summary in summaries],
            width * 0.92,
            yerr=[summary.std or 0.0 for summary in summaries],
            error_kw={"elinewidth": 0.9, "capsize": 1.5, "ecolor": "0.2"},
            facecolor=colour_of(spec, row.label, row.style),
            edgecolor="white",
            linewidth=0.4,
            hatch=HATCHES[row.style % len(HATCHES)],
            label=f"{row.label} ({seeds_of(max(summary.n for summary in summaries))})",
        )
    name_languages(axes, codes)


def name_languages(axes: plt.Axes, codes: list[str]) -> None:
    axes.set_xticks(range(len(codes)), codes, fontsize=7.5)
    axes.set_xlim(-0.6, len(codes) - 0.4)
    axes.tick_params(axis="x", length=0)


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Rows without a bar of their own, whole or for some languages."""
    table = build(spec, context)
    found = []
    for group, about in zip(table.groups, spec["groups"], strict=True):
        for row, written in zip(group.rows, about["rows"], strict=True):
            by_reason: dict[str, list[str]] = {}
            for column, cell in zip(table.columns, row.cells, strict=True):
                if not cell.summary:
                    by_reason.setdefault(cell.reason, []).append(column.language)
            for reason, codes in by_reason.items():
                whole = len(codes) == len(table.columns)
                found.append((group.title, row_name(written), "all bars" if whole else ", ".join(codes), reason))
    return found
