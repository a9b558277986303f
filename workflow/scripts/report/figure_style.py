"""What all figures share: looks that colour-blind readers and a grey print tell apart, titles, small print, saving.

The same content gives the same bytes: no dates in the files, fixed size and fonts.
"""

import argparse
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from common.atomic import atomic_path
from report.context import Context, citations, item_name

# Okabe and Ito's palette and a grey: distinct for colour-blind readers; neighbours differ in a grey print too.
COLOURS = ("#0072B2", "#D55E00", "#000000", "#CC79A7", "#009E73", "#56B4E9", "#7F7F7F", "#E69F00")
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "/////", ".....", "xxxxx", "-----", "+++++", "ooooo", "*****")
SIZE_INCHES = (6.8, 3.8)
SMALL_PRINT = {"fontsize": 7, "color": "0.25", "x": 0.01, "ha": "left"}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "pdf.compression": 6,
    "savefig.dpi": 200,
    "svg.hashsalt": "parallax",
}


def colour_of(spec: dict, label: str, number: int) -> str:
    """That of the spec, or else the palette's in the order of the spec."""
    return spec.get("colours", {}).get(label, COLOURS[number % len(COLOURS)])


def title_of(spec: dict, context: Context) -> str:
    after = f" (after {item_name(spec, context)})" if citations(context)[spec["paper"]] else ""
    return spec["title"] + after


def dress(figure: plt.Figure, spec: dict, context: Context, small_print: str = "") -> None:
    """The title above, and below what keeps the picture alone from being taken for the paper's."""
    figure.suptitle(title_of(spec, context), fontsize=10, x=0.01, ha="left")
    if small_print:
        figure.supxlabel(textwrap.fill(small_print, width=125), **SMALL_PRINT)


def row_name(row: dict) -> str:
    """As the appendix of the document names a row."""
    return f"{row['label']} ({row['run']})" if row.get("run") else row["label"]


REASONS = 2  # that an empty figure tells itself; the appendix has them all


def nothing_to_draw(spec: dict, context: Context, missing: Sequence[tuple[str, ...]] = ()) -> plt.Figure:
    """In place of a figure without a number: it says why it is empty, by the reasons of most of its rows."""
    reasons = [reason for reason, _ in Counter(reason for *_, reason in missing).most_common(REASONS)]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(SIZE_INCHES[0], 1.2), layout="constrained")
        axes.set_axis_off()
        words = f"No number is published for this figure, and at scale {context.scale} nothing behind it is computed."
        words = "\n".join([words, *(textwrap.fill(f"{reason[:1].upper()}{reason[1:]}.", 110) for reason in reasons)])
        axes.text(0.5, 0.5, words, ha="center", va="center", fontsize=9)
        dress(figure, spec, context)
    return figure


def seeds_of(number: int) -> str:
    return f"{number} seed{'s' if number > 1 else ''}"


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out-pdf", required=True, type=Path, help="vector picture to write")
    parser.add_argument("--out-png", required=True, type=Path, help="the same as pixels")


def save_both(figure: plt.Figure, args: argparse.Namespace) -> None:
    save(figure, args.out_pdf, "pdf")
    save(figure, args.out_png, "png")
    plt.close(figure)


def save(figure: plt.Figure, out: Path, kind: str) -> None:
    """Without dates and program versions: the same picture is the same file."""
    absent = {
        "pdf": ("CreationDate", "ModDate", "Producer", "Creator"),
        "png": ("Software",),
        "svg": ("Date", "Creator"),
    }
    with plt.rc_context(STYLE), atomic_path(out) as temporary:
        figure.savefig(temporary, format=kind, metadata=dict.fromkeys(absent[kind]))
