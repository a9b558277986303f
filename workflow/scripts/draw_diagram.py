"""Draw what objectives make of an example: the rows, the passes, their modules, who sees whom, what is predicted.

Everything is taken from the engine's own code while it runs on the words of the spec (objective_trace.py): another
rule, another module or another form of the data is another picture. Weights are random, so that a word which the
network makes up says nothing; sizes are those of the run at the scale.
"""

import argparse
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import TextPath

from common.errors import run_main
from common.typed import build
from engine.assembly import decoder_of_veco
from engine.config import RunConfig
from plan.runs import resolve_run
from plan.translators import FROM_WEIGHTS, resolve_translator
from report.context import Context, add_context_arguments, load_context
from report.figure_style import STYLE, add_output_arguments, save_both, title_of
from report.objective_trace import MASK, SPECIALS, VOCABULARY, Output, Part, Pass, Trace, trace_head, trace_objective
from report.table_spec import load_spec

WIDTH = 6.8  # all lengths are inches
LEFT, TOKENS, GAP = 0.1, 5.0, 0.12  # margin, the row of tokens, between the row and the matrices
WIDEST, BOX, LINE = 0.62, 0.19, 0.125  # of one token; heights of a box and of a line of text
MATRIX = WIDTH - LEFT - TOKENS - GAP - 0.1
TINTS = ("#DCEBF7", "#F5BE84")  # of the first and the second language of a panel
KINDS = {
    "mask": {"facecolor": "black", "edgecolor": "black"},
    "another token in its place": {"facecolor": "white", "edgecolor": "black", "hatch": "....."},
    "made up by the network": {"facecolor": "white", "edgecolor": "#D55E00", "hatch": "/////"},
    "read by no one": {"facecolor": "white", "edgecolor": "0.6", "linestyle": ":"},
}
MADE = "made up by the network"
RESULTS = {
    "target of the loss": {"facecolor": "white", "edgecolor": "#009E73", "linewidth": 1.0},
    "result without a target": {"facecolor": "white", "edgecolor": "#009E73", "linewidth": 1.0, "linestyle": "--"},
}
SEEN = {"facecolor": "#0072B2", "edgecolor": "white"}


@dataclass(frozen=True)
class Panel:
    title: str
    note: str  # at the right of the title
    trace: Trace
    tint_of: dict[str, str]  # word -> colour


def read_panels(spec: dict, context: Context) -> list[Panel]:
    about = spec["diagram"]
    panels = []
    for panel in about["panels"]:
        trace, note = trace_of(panel, about, context)
        words = {
            code: [word for line in about["sentences"][code] for word in line.split()] for code in panel["languages"]
        }
        tints = {word: TINTS[i] for i, code in reversed(list(enumerate(words))) for word in words[code]}
        panels.append(Panel(panel["title"], note, trace, tints))
    return panels


def trace_of(panel: dict, about: dict, context: Context) -> tuple[Trace, str]:
    """The trace of a panel, and what else is to be said of it."""
    config, sentences, languages = context.config, about["sentences"], panel["languages"]
    written = resolve_run(config, about["run"])
    run = build(RunConfig, written, "")
    if "objective" in panel:
        trace = trace_objective(run, panel["objective"], sentences, languages, panel.get("options", {}))
        parts = [name if weight == 1 else f"{weight:g} × {name}" for name, weight in trace.losses.items()]
        return trace, f"loss: {' + '.join(parts)}" if parts != ["loss"] else ""
    task = config.tasks[panel["task"]]
    if task["kind"] != "translation":
        return trace_head(run, task["kind"], len(task["labels"]), sentences, languages), ""
    resolved = resolve_translator(config, about["run"], panel["task"], FROM_WEIGHTS)
    translator = build(RunConfig, resolved, "")
    return trace_objective(translator, "translation", sentences, languages, {}), origin(translator)


def origin(translator: RunConfig) -> str:
    """Which layers of the run become its decoder, by the engine's own renaming."""
    if not translator.init or not translator.init.decoder:
        return ""
    [objective] = translator.objectives
    layers = {f"{part}.{i}.x": torch.tensor([i]) for part in PARTS_OF_DECODER for i in range(translator.model.layers)}
    moved = decoder_of_veco(layers, translator.model, objective.options.decoder_layers, translator.init.decoder)
    numbers = [int(number) for name, number in moved.items() if name.startswith("decoder.blocks.")]
    shown = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"decoder: copies of {' and '.join(PARTS_OF_DECODER)}, layer {shown}"


PARTS_OF_DECODER = ("encoder.blocks", "cross_attention")


# --- layout ---------------------------------------------------------------------------------------------------------


class Page:
    """Marks first, size last: y runs downwards in inches from the top."""

    def __init__(self) -> None:
        self.marks: list = []
        self.used: dict[str, dict] = {}  # kinds of boxes that there are, with their looks
        self.y = 0.0

    def text(self, x: float, y: float, words: str, size: float = 7, room: float | None = None, **look: object) -> None:
        """Centred on y; smaller where it would be wider than its room."""
        if room is not None and (wide := width_of(words, size, look.get("weight", "normal"))) > room:
            size *= 0.95 * room / wide  # pixels round small letters up
        self.marks.append(("text", x, y, words, {"fontsize": size, "va": "center", **look}))

    def box(self, x: float, y: float, wide: float, high: float, **look: object) -> None:
        self.marks.append(("box", x, y, wide, high, {"linewidth": 0.7, **look}))

    def arrow(self, x: float, start: float, end: float) -> None:
        self.marks.append(("arrow", x, start, end))

    def figure(self) -> plt.Figure:
        figure = plt.figure(figsize=(WIDTH, self.y))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(self.y, 0))
        axes.set_axis_off()
        for kind, *mark in self.marks:
            if kind == "text":
                x, y, words, look = mark
                axes.text(x, y, words, zorder=4, **look)
            elif kind == "box":
                x, y, wide, high, look = mark
                axes.add_patch(Rectangle((x, y), wide, high, **look))
            else:
                x, start, end = mark
                look = {"arrowstyle": "-|>", "mutation_scale": 5, "linewidth": 0.7, "color": "0.3", "zorder": 3}
                axes.add_patch(FancyArrowPatch((x, start), (x, end), shrinkA=0, shrinkB=0, **look))
        return figure


@cache
def width_of(words: str, size: float, weight: object = "normal") -> float:
    """In inches; measured without a page, so that it is the same in PDF and PNG."""
    if not words.strip():
        return 0.0
    return (
        TextPath((0, 0), words, size=size, prop=FontProperties(family="DejaVu Sans", weight=weight)).get_extents().x1
        / 72
    )


def draw(spec: dict, context: Context) -> plt.Figure:
    page = Page()
    panels = read_panels(spec, context)
    with plt.rc_context(STYLE | {"axes.grid": False}):
        page.y = 0.36  # the title's
        for number, panel in enumerate(panels):
            place_panel(page, panel, f"({'abcdefgh'[number]}) {panel.title}" if len(panels) > 1 else panel.title)
        place_key(page)
        for line in textwrap.wrap(SMALL_PRINT.format(run=spec["diagram"]["run"], scale=context.scale), width=135):
            page.text(LEFT, page.y + 0.05, line, 6.5, color="0.25")
            page.y += 0.12
        page.y += 0.06
        figure = page.figure()
        figure.suptitle(title_of(spec, context), fontsize=10, x=0.01, y=1 - 0.07 / page.y, ha="left", va="top")
    return figure


def place_panel(page: Page, panel: Panel, title: str) -> None:
    page.text(LEFT, page.y + 0.08, title, 8.5, weight="bold")
    page.text(WIDTH - LEFT, page.y + 0.08, panel.note, 6.5, ha="right")
    page.y += 0.22
    for number, one in enumerate(panel.trace.passes, start=1):
        place_pass(page, panel, one, number if len(panel.trace.passes) > 1 else None)
    page.y += 0.06


def place_pass(page: Page, panel: Panel, one: Pass, number: int | None) -> None:
    """From below: tokens with their positions, modules, and above what their states are compared with."""
    trace = panel.trace
    top = page.y
    wide = min(WIDEST, TOKENS / len(one.tokens))
    words = [f"pass {number}"] if number else []
    words += [] if one.trained else ["no gradient"]
    words += [] if one.memory_trained else ["the memory is cut off from the gradient"]
    if words:
        page.text(LEFT, top + 0.06, ", ".join(words), 7, style="italic")
        top += 0.15
    lines = describe(one.modules, trace.parts)
    band = top + (BOX + 0.1 if one.outputs else 0)
    high = LINE * len(lines) + 0.06
    page.box(LEFT, band, TOKENS, high, facecolor="#F2F2F2", edgecolor="0.4")
    for i, line in enumerate(lines):
        page.text(LEFT + 0.06, band + 0.03 + LINE * (i + 0.5), line, 6.4, room=TOKENS - 0.12)
    below = band + high + 0.1
    for i, token in enumerate(one.tokens):
        x = LEFT + i * wide
        kind = kind_of(token, i, one, trace)
        if kind:
            page.used[kind] = KINDS[kind]
        page.arrow(x + wide / 2, below, band + high)
        place_token(page, x, below, wide, token, KINDS.get(kind) or {"facecolor": panel.tint_of.get(token, "white")})
        if one.positions:
            page.text(x + wide / 2, below + BOX + 0.065, str(one.positions[i]), 5, ha="center", color="0.35")
    for tint in TINTS:
        if tint in {panel.tint_of.get(token) for token in one.tokens}:
            name = f"{('first', 'second')[TINTS.index(tint)]} language"
            page.used[name] = {"facecolor": tint, "edgecolor": "0.4"}
    for output in one.outputs:
        kind = "target of the loss" if output.targets else "result without a target"
        page.used[kind] = RESULTS[kind]
        for k, place in enumerate(output.places):
            x = LEFT + place * wide
            shown = output.targets[k] if output.targets else result_of(output, place, one, trace)
            page.arrow(x + wide / 2, band, top + BOX)
            page.box(x + 0.02, top, wide - 0.04, BOX, **RESULTS[kind])
            page.text(x + wide / 2, top + BOX / 2, shown, 6.5, ha="center", room=wide - 0.09)
    place_matrices(page, one, page.y)
    bottom = below + BOX + (0.16 if one.positions else 0.06)
    page.y = max(bottom, page.y + matrix_height(one)) + 0.05


def kind_of(token: str, place: int, one: Pass, trace: Trace) -> str | None:
    """What a token of a pass is, where it is not what the text has there."""
    if token == MASK:
        return "mask"
    as_given = len(one.tokens) == len(trace.given)
    if token == SPECIALS[1] and not (as_given and trace.given[place] == MASK):
        return "read by no one"
    if not as_given or token == trace.original[place]:
        return None if not as_given or trace.given[place] != MASK or not filled(place, one, trace) else MADE
    if token in SPECIALS.values() and trace.given[place] in SPECIALS.values():
        return None  # a mark in another one's place
    return "another token in its place" if token == trace.given[place] else MADE


def filled(place: int, one: Pass, trace: Trace) -> bool:
    """Was it a mask in an earlier pass?"""
    earlier = trace.passes[: trace.passes.index(one)]
    return any(len(other.tokens) == len(one.tokens) and other.tokens[place] == MASK for other in earlier)


def result_of(output: Output, place: int, one: Pass, trace: Trace) -> str:
    """Where nothing is compared: the token that a later pass has there, or a vector."""
    for other in trace.passes[trace.passes.index(one) + 1 :]:
        if len(other.tokens) == len(one.tokens) and other.tokens[place] != one.tokens[place]:
            return other.tokens[place]
    *_, last = trace.parts[output.module].matrices.values()
    return f"vector of {last[0]}"


def place_token(page: Page, x: float, y: float, wide: float, token: str, look: dict) -> None:
    page.box(x + 0.015, y, wide - 0.03, BOX, **{"edgecolor": "0.4", **look})
    black = look.get("facecolor") == "black"
    words = "M" if token == MASK else token
    if look.get("hatch"):  # a clear ground behind the word
        clear = min(wide - 0.1, width_of(words, 6.5) + 0.04)
        page.box(x + (wide - clear) / 2, y + 0.03, clear, BOX - 0.06, facecolor="white", edgecolor="none", zorder=2)
    page.text(x + wide / 2, y + BOX / 2, words, 6.5, ha="center", room=wide - 0.08, color="white" if black else "black")


def describe(modules: list[str], parts: dict[str, Part]) -> list[str]:
    """A line for each part of the pass, the last one first; tables, which it reads first, as one line."""
    tables = [module for module in modules if list(parts[module].matrices) in ([""], ["table"])]
    lines = []
    for module in reversed([module for module in modules if module not in tables]):
        own = parts[module]
        count = f", {len(own.layers)} layer{'s' if len(own.layers) > 1 else ''}" if own.layers else ""
        matrices = (f"{name.rpartition('.')[2]} {size_of(shape)}" for name, shape in own.matrices.items())
        lines.append(f"{module}{count}: {', '.join(matrices)}")
    owners: dict[str, list[str]] = {}
    for module in tables:
        owner, _, name = module.rpartition(".")
        [shape] = parts[module].matrices.values()
        owners.setdefault(owner, []).append(f"{name} {size_of(shape)}")
    read = [f"{owner}: {', '.join(names)}" if owner else ", ".join(names) for owner, names in owners.items()]
    return [*lines, "; ".join(read)]


def size_of(shape: tuple[int, ...]) -> str:
    return "×".join("V" if size == VOCABULARY else str(size) for size in shape)


def matrices_of(one: Pass) -> list[tuple[str, object]]:
    found = [("self-attention", one.seen), ("cross-attention", one.memory_seen)]
    return [(title, seen) for title, seen in found if seen is not None]


def matrix_height(one: Pass) -> float:
    shown = matrices_of(one)
    return 0.16 + max((cell_of(one) * len(seen) for _, seen in shown), default=0.0)


def cell_of(one: Pass) -> float:
    shown = matrices_of(one)
    room = (MATRIX - 0.1 * (len(shown) - 1)) / max(1, len(shown))
    return min(0.09, *(room / seen.shape[1] for _, seen in shown))


def place_matrices(page: Page, one: Pass, top: float) -> None:
    """A row for each token, filled where it sees the column's."""
    x = LEFT + TOKENS + GAP
    shown = matrices_of(one)
    for title, seen in shown:
        cell = cell_of(one)
        rows, columns = seen.shape
        room = MATRIX / len(shown) - 0.05
        page.text(x, top + 0.05, title, 6, room=room)
        page.box(x, top + 0.13, cell * columns, cell * rows, facecolor="white", edgecolor="0.4", linewidth=0.6)
        for q, k in zip(*(indices.tolist() for indices in seen.nonzero()), strict=True):
            page.box(x + k * cell, top + 0.13 + q * cell, cell, cell, linewidth=0.25, **SEEN)
        x += max(cell * columns, min(room, width_of(title, 6))) + 0.1


def place_key(page: Page) -> None:
    x = LEFT
    for words, look in sorted(page.used.items(), key=lambda item: ORDER.index(item[0])):
        wide = 0.28 + width_of(words, 6.5) + 0.12
        if x + wide > WIDTH - LEFT:
            x, page.y = LEFT, page.y + 0.17
        page.box(x, page.y + 0.02, 0.22, 0.11, **look)
        page.text(x + 0.27, page.y + 0.075, words, 6.5)
        x += wide
    page.y += 0.22


SMALL_PRINT = (
    "Drawn by running the engine on an example; weights are random, so words made up by the network say nothing. Below "
    "a token is its position. In a matrix the token of a row sees those of the filled columns. Sizes are those of run "
    "{run} at scale {scale}, V that of the vocabulary."
)
ORDER = ("first language", "second language", *KINDS, *RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--spec", required=True, type=Path, help="config/figures/<paper>/<item>.yaml with `diagram`")
    add_context_arguments(parser)
    add_output_arguments(parser)
    args = parser.parse_args()
    spec = load_spec(args.spec)
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    figure = draw(spec, context)
    save_both(figure, args)


if __name__ == "__main__":
    run_main(main)
