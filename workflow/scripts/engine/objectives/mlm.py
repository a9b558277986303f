"""Masked language modelling on text of many languages (MMLM) and on translation pairs (TLM).

L_MMLM = - sum_{m in M} log p(x_m | x without M)                       XLM-R; ERNIE-M eq. 1
L_TLM  = - sum_{m in M_x + M_y} log p((x, y)_m | (x, y) without M)     XLM; ERNIE-M eq. 2

The two differ in their rows alone: every token sees the whole document, and a pair is one document.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.attention_rules import full
from engine.objectives.base import Batch, Loss, Objective

CHUNK = 4096  # selected positions whose logits exist at one time


def masked_lm_loss(model: nn.Module, batch: Batch) -> Loss:
    states_BTD = batch.states(model.encoder, full)
    states_ND = states_BTD.flatten(0, 1)[batch.selected]
    total, correct = selected_cross_entropy(model, states_ND, batch.targets)
    return Loss({"loss": total}, {"accuracy": (correct, len(batch.targets))})


def selected_cross_entropy(model: nn.Module, states_ND: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy and number of right guesses."""
    parts = in_chunks(partial(chunk_cross_entropy, model), states_ND, targets_N)
    return torch.stack([loss for loss, _ in parts]).sum(), torch.stack([right for _, right in parts]).sum()


def in_chunks(function: Callable, *tensors: Tensor) -> list:
    """What the function makes of each chunk of selected positions. Logits exist for one chunk at a time and are
    computed again on the way back, so that memory does not grow with the batch."""
    if len(tensors[0]) <= CHUNK:
        return [function(*tensors)]
    chunks = zip(*(tensor.split(CHUNK) for tensor in tensors), strict=True)
    return [checkpoint(function, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]


def chunk_cross_entropy(model: nn.Module, states_ND: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    return model.mlm_head.cross_entropy(states_ND, model.encoder.tokens.weight, targets_N)


MMLM = Objective(masked_lm_loss)
TLM = Objective(masked_lm_loss)
