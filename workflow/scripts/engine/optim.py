"""AdamW groups and the learning-rate schedule, as plain functions."""

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from engine.dist import Ranks


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """No decay on biases and LayerNorms, as in BERT. Sharded and whole weights cannot share a group."""
    norms = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {(False, True): [], (False, False): []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decayed = not (name.endswith("bias") or id(parameter) in norms)
            groups.setdefault((isinstance(parameter, DTensor), decayed), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": weight_decay if decayed else 0.0}
        for (_, decayed), parameters in groups.items()
    ]


def learning_rate(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Of the update number `step` (from 1): linear up to the peak at warmup_steps, then linear to 0 at the last."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * (steps - step) / max(1, steps - warmup_steps)


def clip_gradients(model: nn.Module, limit: float, ranks: Ranks) -> Tensor:
    """Scale all gradients to a joint norm of at most `limit`; the norm before, for the log, still on the device."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    shards = [gradient.to_local() for gradient in gradients if isinstance(gradient, DTensor)]
    if not shards:
        return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    whole = [gradient for gradient in gradients if not isinstance(gradient, DTensor)]
    [square] = ranks.sum([float(sum_of_squares(shards))])
    total = torch.tensor(square, dtype=torch.float64, device=shards[0].device)
    norm = (total + sum_of_squares(whole) if whole else total).sqrt()
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    for part in (*shards, *whole):
        part.mul_(scale)
    return norm


def sum_of_squares(parts: list[Tensor]) -> Tensor:
    """In fp64, so that it does not depend on how many parts there are."""
    return torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in parts]).square().sum()
