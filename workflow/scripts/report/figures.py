"""Which kind of figure a spec asks for: who draws it, and what it cannot show."""

from types import ModuleType

import matplotlib.pyplot as plt

from report import (
    figure_bars,
    figure_cost,
    figure_curves,
    figure_masks,
    figure_points,
    figure_simulation,
    figure_training,
)
from report.context import Context, own_alone

KINDS = {
    "masks": figure_masks,
    "simulation": figure_simulation,
    "training": figure_training,
    "bars": figure_bars,
    "cost": figure_cost,
    "points": figure_points,
}


def kind_of(spec: dict) -> ModuleType:
    return next((module for key, module in KINDS.items() if key in spec), figure_curves)


def draw(spec: dict, context: Context) -> plt.Figure:
    return kind_of(spec).draw(spec, own_alone(context))


def missing_lines(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """What a figure cannot show, for the appendix: (group, row, what, reason)."""
    return [] if {"diagram", "effects"} & set(spec) else kind_of(spec).missing(spec, own_alone(context))
