"""What the runs of the papers would cost, from full rows."""

from pathlib import Path

import resolve_run
from engine import cost
from engine.config import RunConfig, load_run
from engine.cost import Seen
from plan.config import Config


def seen_by(run: RunConfig) -> dict[str, Seen]:
    """What full rows of one document each would give."""
    seen = {}
    for objective in run.objectives:
        length = objective.row_length or run.batch.row_length
        tokens = (objective.rows or run.batch.rows) * length * run.schedule.steps
        seen[objective.name] = Seen(tokens, objective.mask.rate * tokens, tokens / length, tokens * length)
    return seen


def total(run: RunConfig, kind: str = "ours") -> float:
    return sum(own[kind] for own in cost.flops(run, seen_by(run)).values())


def load_resolved(config: Config, name: str, folder: Path) -> RunConfig:
    """A run as a training reads it, with the vocabulary of XLM-R."""
    path = folder / f"{name}.yaml"
    text = resolve_run.render(config, name)
    path.write_text(text.replace("model:\n", "model:\n  vocabulary: 250002\n"), encoding="utf-8")
    return load_run(path)
