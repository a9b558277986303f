"""The whole configuration, read and checked: data, and what follows from it without looking at runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from plan.datasets import Dataset, Language


@dataclass(frozen=True)
class Config:
    """Everything under config/, read and checked. `root` is the folder that holds config/."""

    root: Path
    settings: dict  # config/config.yaml with the overrides of the command line
    scale: dict  # config/scales/<scale>.yaml
    runs: dict[str, dict]  # as written; resolve_run makes them those of the scale
    tasks: dict[str, dict]
    tables: dict[str, dict]  # "ernie-m/table-01" -> spec; those that the configuration selects
    figures: dict[str, dict]
    languages: dict[str, Language]
    datasets: dict[str, Dataset]
    not_here: set[str] = field(default_factory=set)  # the runs that this scale cannot have: runs.absent
    claims: list[dict] = field(default_factory=list)  # all, or those that the selected items can test
    _resolved: dict[str, dict] = field(default_factory=dict, repr=False, compare=False)
    _hashes: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)
    derived: dict = field(default_factory=dict, repr=False, compare=False)  # what the other modules work out once
    _recipes: dict[tuple[str, str, str], dict] = field(default_factory=dict, repr=False, compare=False)

    @property
    def tie(self) -> float:
        """Points between two scores that count as none, from config/claims.yaml."""
        return self.derived.get("tie", 0.0)

    @property
    def scale_name(self) -> str:
        return self.settings["scale"]

    @property
    def specs(self) -> dict[str, dict]:
        return {**self.tables, **self.figures}

    @property
    def seeds(self) -> list[int]:
        """Those asked for, or of this scale: where tables rest on the reference, of what lies there."""
        of_reference = self.scale.get("reference_seeds") if self.from_reference else None
        return self.settings.get("seeds") or of_reference or self.scale["seeds"]

    @property
    def has_world(self) -> bool:
        """Does this scale read the generated mini-world in place of the network?"""
        return self.scale.get("world") is not None

    @cached_property
    def selected(self) -> frozenset[str]:
        """The runs that tables may ask for: those of config.yaml, or else of the scale, or else all."""
        chosen = self.settings.get("runs") or ("all" if self.from_reference else self.scale.get("runs")) or "all"
        return frozenset(self.runs if chosen == "all" else chosen) - self.not_here

    @cached_property
    def untrained(self) -> frozenset[str]:
        """The runs whose pre-training has no step."""
        return frozenset(name for name, run in self.runs.items() if run.get("schedule", {}).get("steps") == 0)

    @cached_property
    def pretrained(self) -> list[str]:
        """The runs that are trained here; the others are somebody's checkpoints, or align words without a model."""
        return [name for name, run in self.runs.items() if run["kind"] == "pretrain"]

    @cached_property
    def imported(self) -> list[str]:
        """The runs whose weights are somebody's checkpoint, as far as this scale can have them."""
        found = (name for name, run in self.runs.items() if run["kind"] == "checkpoint")
        return [name for name in found if not (self.has_world and "hub" in self.runs[name]["source"])]

    @property
    def from_reference(self) -> bool:
        """Are tables made from the reference scores that lie in the repository, with nothing trained?"""
        return self.settings.get("scores_from") == "reference"

    @property
    def on_request(self) -> dict[str, str]:
        """What is computed only where runs are named, with the reason: tasks, or settings of them as task/setting."""
        return {} if self.from_reference or self.settings.get("runs") else self.scale.get("on_request", {})

    @property
    def listed(self) -> list[str]:
        """The runs that somebody asks for, by name or by the word all: `models` trains them, table or not."""
        chosen = self.settings.get("runs") or self.scale.get("runs") or []
        if self.from_reference:
            return []
        return sorted({*self.runs} - self.not_here if chosen == "all" else chosen)


COMMAND_LINE = "--config (or --configfile)"
