"""What an objective is: rows of one kind of data, a corruption, an attention rule, and a loss over a batch."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from engine.attention_rules import Rule, Tokens


@dataclass
class Batch:
    """One micro-batch on the device. tokens is what the encoder sees, targets what stood at the selected places."""

    tokens: Tensor  # (B, T)
    fields: Tokens  # each (B, T)
    mask: Tensor  # (B, 1, T, T) bool
    selected: Tensor  # (N,) flat indices into (B, T)
    targets: Tensor  # (N,)


@dataclass(frozen=True)
class Loss:
    """Sums, not means: the engine divides by the count over the whole step, so that micro-batches do not matter."""

    total: Tensor  # scalar
    count: int
    signals: dict[str, float]  # sums over `count`, logged as means


@dataclass(frozen=True)
class Objective:
    data: str  # mono or bitext
    rule: Rule
    loss: Callable[[nn.Module, Batch], Loss]
