"""Tokens that a model makes up: drawn from its predictions, without dropout, the same wherever their row lies."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from engine.objectives.base import Batch
from engine.randomness import mix, stable_hash, uniform


def draws(batch: Batch, places_N: Tensor, purpose: str) -> Tensor:
    """A number in (0, 1] for each of these tokens (flat indices into (B, T)), from its item's key."""
    key, offset = (field.flatten()[places_N].cpu().numpy().view(np.uint64) for field in (batch.key, batch.offset))
    numbers = uniform((key + mix(offset)) ^ np.uint64(stable_hash(batch.objective.draws_as, purpose)))
    return torch.from_numpy(1 - numbers).to(batch.tokens.device)


@torch.no_grad()
def sample(logits_NV: Tensor, draws_N: Tensor) -> Tensor:
    """(N,) columns drawn from softmax(logits): the first whose cumulated probability reaches the draw."""
    cumulated_NV = logits_NV.softmax(-1)
    torch.cumsum(cumulated_NV, -1, out=cumulated_NV)
    wanted_N1 = draws_N.to(logits_NV.dtype)[:, None] * cumulated_NV[:, -1:]  # rounded sums end beside 1
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
