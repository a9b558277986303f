"""Losses and signals of a step: summed pass by pass, and read from the device and all ranks at once."""

import dataclasses

import torch
from torch import Tensor

from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.objectives import OBJECTIVES
from engine.objectives.base import Number


@dataclasses.dataclass
class Readings:
    """What the losses and signals of one objective sum up to on this rank, pass by pass and not looked at yet."""

    objective: ObjectiveConfig
    count: dict[str, float]  # of all ranks
    sums: dict[str, list[Number]]
    noted: dict[str, list[tuple[Number, Number]]] = dataclasses.field(default_factory=dict)
    known: dict[str, float] = dataclasses.field(default_factory=dict)  # of the rows

    def all(self) -> list[list[Number]]:
        """The sums, and of each signal its sums and its counts."""
        return [
            *self.sums.values(),
            *(list(half) for pairs in self.noted.values() for half in zip(*pairs, strict=True)),
        ]


def read(readings: list[Readings], ranks: Ranks, *others: Number) -> tuple[dict[str, float], list[float]]:
    """Losses and signals as means over all ranks, and the other numbers as they are: one look at the device a step, and
    one message."""
    columns = [column for own in readings for column in own.all()]
    told = iter(looked_at([number for column in (*columns, others) for number in column]))
    sums = iter(ranks.sum([sum((next(told) for _ in column), 0.0) for column in columns]))
    signals: dict[str, float] = {}
    for own in readings:
        kind, names = OBJECTIVES[own.objective.name], list(own.sums)
        means = {name: next(sums) / max(1, own.count[name]) for name in names}
        for name in own.noted:
            total, n = next(sums), next(sums)
            means[name] = total / max(1, n)
        means.setdefault("loss", sum(kind.weights(own.objective).get(name, 1.0) * means[name] for name in names))
        means["predictions"] = own.count[names[0]]
        signals |= {f"{own.objective.name}/{name}": value for name, value in (means | own.known).items()}
    return signals, list(told)


def looked_at(numbers: list[Number]) -> list[float]:
    """All of them in one transfer."""
    kinds: dict[torch.dtype, list[int]] = {}
    for place, number in enumerate(numbers):
        if isinstance(number, Tensor):
            kinds.setdefault(number.dtype, []).append(place)
    found = list(numbers)
    if kinds:
        stacks = [torch.stack([numbers[place] for place in places]).double() for places in kinds.values()]
        values = torch.cat(stacks).tolist()
        for place, value in zip((place for places in kinds.values() for place in places), values, strict=True):
            found[place] = value
    return [float(number) for number in found]
