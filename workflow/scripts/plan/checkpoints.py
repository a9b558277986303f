"""Somebody's checkpoints: their files in config/datasets.tsv or in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from common.errors import UserError
from plan.config import Config

HUB = "hub/"  # ids of config/datasets.tsv: hub/<name on the hub>/<file>

WEIGHTS = (".safetensors", ".bin")


def checkpoint_ids(config: Config, hub: str) -> list[str]:
    """The files of a repository on the hub, as config/datasets.tsv has them."""
    return sorted(id_ for id_ in config.datasets if id_.startswith(f"{HUB}{hub}/"))


def checkpoint_folder(config: Config, name: str) -> Path:
    """The folder that a run of kind checkpoint names, from the root of the repository."""
    folder = config.root / config.runs[name]["source"]["folder"]
    if not (folder / "config.json").is_file():
        raise UserError(
            f"config/runs/{name}.yaml, source.folder: {folder} holds no config.json; name the folder of a checkpoint "
            "in Hugging Face's layout, or leave the run out (runs=[...])"
        )
    return folder


def require_folders(config: Config, asked: Iterable[str]) -> None:
    """Of all checkpoints that are not left out: where a rule's inputs cannot be named Snakemake takes its output, if
    that is there, for finished."""
    wanted = config.runs if config.settings.get("runs") in (None, "all") else asked
    for name in config.imported:
        if name in wanted and "folder" in config.runs[name]["source"] and not config.from_reference:
            checkpoint_folder(config, name)
