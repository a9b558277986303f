"""Tokens that a model makes up: drawn from its predictions, without dropout, the same wherever their row lies."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from engine import by_hand
from engine.objectives.base import Batch
from engine.randomness import GOLDEN, stable_hash


def draws(batch: Batch, places_N: Tensor, purpose: str) -> Tensor:
    """A number in (0, 1] for each of these tokens (flat indices into (B, T)), from its item's key."""
    key, offset = (field.flatten()[places_N] for field in (batch.key, batch.offset))
    return 1 - uniform((key + mix(offset)) ^ stable_hash(batch.objective.draws_as, purpose))


def mix(keys: Tensor) -> Tensor:
    """As engine.randomness.mix, where the keys are: int64 in place of uint64, which torch cannot add."""
    z = keys + signed(GOLDEN)
    z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shifted(z, 31)


def uniform(keys: Tensor) -> Tensor:
    return shifted(mix(keys), 11) * torch.tensor(2.0**-53, dtype=torch.float64)


def shifted(z: Tensor, bits: int) -> Tensor:
    """To the right, zeros from the left whatever the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    return int(number) - (1 << 64) if int(number) >> 63 else int(number)


@torch.no_grad()
def sample(logits_NV: Tensor, draws_N: Tensor) -> Tensor:
    """(N,) columns drawn from softmax(logits), in fp32 at least: the first whose cumulated probability reaches the
    draw. Rows of logits beyond the draws do not count."""
    columns = [sample_block(logits_NV[rows], draws_N[rows]) for rows in by_hand.blocks_of(logits_NV, len(draws_N))]
    return torch.cat(columns)


def sample_block(logits_NV: Tensor, draws_N: Tensor) -> Tensor:
    cumulated_NV = logits_NV.softmax(-1, torch.promote_types(logits_NV.dtype, torch.float32))
    torch.cumsum(cumulated_NV, -1, out=cumulated_NV)
    wanted_N1 = draws_N.to(cumulated_NV.dtype)[:, None] * cumulated_NV[:, -1:]  # rounded sums end beside 1
    return torch.searchsorted(cumulated_NV, wanted_N1).squeeze(1)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """No dropout inside; every module's mode as it was after."""
    training = [part for module in modules for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
