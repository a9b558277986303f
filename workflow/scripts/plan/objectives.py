"""What the plan knows of objectives: the data they read, and their options as the engine builds them."""

from __future__ import annotations

from typing import Any

from common.errors import UserError
from common.typed import build
from engine.options import DESCRIPTIONS

# What each objective reads.
OBJECTIVE_DATA = {name: about.data for name, about in DESCRIPTIONS.items()}


def with_decoder() -> set[str]:
    """The objectives that train a decoder of their own."""
    return {name for name, about in DESCRIPTIONS.items() if hasattr(about.options, "decoder_layers")}


def options_of(objective: dict, where: str) -> Any:
    """The options of an objective as the engine builds them, from engine/options.py."""
    try:
        return build(DESCRIPTIONS[objective["name"]].options, objective.get("options", {}), "options")
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def depths_of(objective: dict, where: str) -> dict[str, int]:
    """Those options of an objective that are a layer or a number of layers."""
    options = vars(options_of(objective, where))
    return {key: value for key, value in options.items() if key == "layer" or key.endswith("_layers")}


def deepest(objective: dict, where: str) -> int:
    return max(depths_of(objective, where).values(), default=0)


WITH_CROSS_ATTENTION = ("veco-mono", "veco-pairs")
