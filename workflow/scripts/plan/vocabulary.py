"""How many ids the vocabulary of a scale has."""

from __future__ import annotations

from plan.config import Config

GIVEN_VOCABULARIES = {"xlm-r/sentencepiece": 250_002}  # ids: its 249,997 pieces, four special ones and <mask>


def vocabulary_size(config: Config) -> int:
    """Ids of the scale's vocabulary; 0 where a given one is not known."""
    chosen = config.scale["vocabulary"]
    if "of" in chosen:
        return config.runs[chosen["of"]]["model"]["vocabulary"]
    return GIVEN_VOCABULARIES.get(chosen["given"], 0) if "given" in chosen else chosen["size"]
