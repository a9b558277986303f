"""AdamW groups and the learning-rate schedule, as plain functions."""

import torch
from torch import nn


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """No decay on biases and LayerNorms, as in BERT."""
    decayed, plain = [], []
    norms = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (plain if name.endswith("bias") or id(parameter) in norms else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def learning_rate(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Of the update number `step` (from 1): linear up to the peak at warmup_steps, then linear to 0 at the last."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * (steps - step) / max(1, steps - warmup_steps)


def clip_gradients(model: nn.Module, limit: float) -> float:
    """Scale all gradients to a joint norm of at most `limit`; the norm before, for the log."""
    return float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))
