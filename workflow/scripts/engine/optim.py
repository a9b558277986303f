"""AdamW, its groups, the learning-rate schedule, and clipping."""

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from engine.dist import Ranks, cut_like, is_cut, local, whole

MOMENTS = ("exp_avg", "exp_avg_sq")


class AdamW:
    """The fused update of torch.optim.AdamW, bit for bit. That class imports torch's compiler before its first step,
    which takes a second: as long as all else that a short fine-tuning does before it."""

    def __init__(
        self, groups: list[dict], lr: float, betas: tuple[float, float], eps: float, ranks: Ranks | None = None
    ):
        self.ranks = ranks  # over which the moments of whole matrices are cut
        self.groups = [{"lr": lr, **group} for group in groups]  # of each: params, weight_decay, lr
        self.betas, self.eps = betas, eps
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}  # of each weight that had a gradient

    def weights(self) -> list[nn.Parameter]:
        return [weight for group in self.groups for weight in group["params"]]

    def zero_grad(self) -> None:
        for weight in self.weights():
            weight.grad = None

    def is_shared(self, weight: Tensor) -> bool:
        whole_matrix = weight.dim() > 1 and not is_cut(weight)
        return self.ranks is not None and whole_matrix and weight.numel() >= self.ranks.world_size

    def own_part(self, weight: nn.Parameter, whole: Tensor) -> Tensor:
        """Of a weight, or what belongs to it, what this rank updates."""
        if not self.is_shared(weight):
            return local(whole)
        return whole.reshape(-1)[self.ranks.slices(whole.numel())[self.ranks.rank]]

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            states = [self.state_of(weight) for weight in weights]
            adamw(
                [self.own_part(weight, weight) for weight in weights],
                [self.own_part(weight, weight.grad) for weight in weights],
                *([local(state[key]) for state in states] for key in MOMENTS),
                max_exp_avg_sqs=[],
                state_steps=[state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=self.eps,
                maximize=False,
            )
            for weight in filter(self.is_shared, weights):
                self.ranks.exchange(weight.view(-1))

    def state_of(self, weight: nn.Parameter) -> dict[str, Tensor]:
        if weight not in self.state:
            step = torch.zeros((), dtype=torch.float32, device=weight.device)
            own = self.own_part(weight, weight) if self.is_shared(weight) else weight
            moments = {key: torch.zeros_like(own, requires_grad=False) for key in MOMENTS}
            self.state[weight] = {"step": step, **moments}
        return self.state[weight]

    def whole_state(self, weight: nn.Parameter) -> dict[str, Tensor]:
        """What all ranks hold of a weight, for a checkpoint. Every rank must call it."""
        held = self.state[weight]
        moments = {key: held[key] for key in MOMENTS}
        if self.is_shared(weight):
            return {"step": held["step"]} | {key: self.ranks.join(own, weight) for key, own in moments.items()}
        return {"step": held["step"]} | {key: whole(own) for key, own in moments.items()}

    def cut_state(self, weight: nn.Parameter, saved: dict[str, Tensor]) -> dict[str, Tensor]:
        """What this rank holds of it."""
        moments = {key: saved[key] for key in MOMENTS}
        if self.is_shared(weight):
            return {"step": saved["step"]} | {key: self.own_part(weight, moment) for key, moment in moments.items()}
        return {"step": saved["step"]} | {key: cut_like(moment, weight) for key, moment in moments.items()}

    def state_dict(self) -> dict[str, dict[int, dict[str, Tensor]]]:
        """By the number of the weight, as torch.optim writes it."""
        return {"state": {i: self.state[weight] for i, weight in enumerate(self.weights()) if weight in self.state}}

    def load_state_dict(self, saved: dict[str, dict[int, dict[str, Tensor]]]) -> None:
        weights = self.weights()
        self.state = {
            weights[i]: {key: value.to(weights[i].device, copy=True) for key, value in state.items()}
            for i, state in saved["state"].items()
        }


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """No decay on biases and LayerNorms, as in BERT."""
    norms = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decayed = not (name.endswith("bias") or id(parameter) in norms)
            groups[decayed].append(parameter)
    return [
        {"params": parameters, "weight_decay": weight_decay if decayed else 0.0}
        for decayed, parameters in groups.items()
    ]


def learning_rate(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Of the update number `step` (from 1): linear up to the peak at warmup_steps, then linear to 0 at the last."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * (steps - step) / max(1, steps - warmup_steps)


def clip_gradients(model: nn.Module, limit: float, ranks: Ranks) -> Tensor:
    """Scale all gradients to a joint norm of at most `limit`; the norm before, for the log, still on the device."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    shards = [local(gradient) for gradient in gradients if is_cut(gradient)]
    if not shards:
        return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    whole = [gradient for gradient in gradients if not is_cut(gradient)]
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
