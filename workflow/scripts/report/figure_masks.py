"""Who sees whom in the attention of an objective, from the predicates that training uses.

Cells are told apart by colour and hatching, so that a grey print reads too.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch, Rectangle

from common.errors import UserError
from engine.attention_rules import Tokens, camlm, camlm_siblings, full
from report.context import Context, item_name
from report.figure_style import SIZE_INCHES, STYLE, dress

RULES = {rule.__name__: rule for rule in (full, camlm, camlm_siblings)}
CELLS = {
    "sees its own sentence": {"facecolor": "#0072B2", "edgecolor": "white"},
    "sees the other sentence": {"facecolor": "#E69F00", "edgecolor": "white", "hatch": "/////"},
    "a mask sees itself": {"facecolor": "#000000", "edgecolor": "white"},
    "does not see": {"facecolor": "white", "edgecolor": "0.6"},
}


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


def draw(spec: dict, context: Context) -> plt.Figure:
    """One matrix for each panel: the token of a row sees those of the columns that are filled."""
    named = item_name(spec, context)
    panels = [read_panel(panel, f"{named}, masks entry {i}") for i, panel in enumerate(spec["masks"], start=1)]
    widths = [len(panel.labels) for panel in panels]
    with plt.rc_context(STYLE | {"axes.grid": False}):
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
        dress(figure, spec, context)
    return figure


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


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Nothing: they need no run."""
    return []
