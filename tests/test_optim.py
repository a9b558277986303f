"""The optimizer: torch's own update, without torch's compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from engine.optim import AdamW

GROUPS = [("0.weight", 0.1, 1e-2), ("0.bias", 0.0, 3e-2), ("1.weight", 0.1, 3e-2), ("1.bias", 0.0, 1e-2)]


def two_models() -> list[nn.Module]:
    torch.manual_seed(0)
    first, second = (nn.Sequential(nn.Linear(33, 17), nn.Linear(17, 5)) for _ in range(2))
    second.load_state_dict(first.state_dict())
    return [first, second]


def groups_of(model: nn.Module) -> list[dict]:
    weights = dict(model.named_parameters())
    return [{"params": [weights[name]], "weight_decay": decay, "lr": rate} for name, decay, rate in GROUPS]


def optimizers(own: nn.Module, their: nn.Module) -> tuple[AdamW, torch.optim.AdamW]:
    settings = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-6}
    return AdamW(groups_of(own), **settings), torch.optim.AdamW(groups_of(their), **settings, fused=True)


def learn(model: nn.Module, optimizer: AdamW | torch.optim.AdamW, step: int) -> None:
    """One update; every third leaves the last layer out, as a first phase of training does."""
    optimizer.zero_grad()
    torch.manual_seed(step)
    hidden = model[0](torch.randn(8, 33))
    out = hidden if step % 3 == 0 else model[1](hidden)
    out.square().sum().backward()
    optimizer.step()


def assert_equal(own: nn.Module, their: nn.Module) -> None:
    for name, weight in own.named_parameters():
        assert torch.equal(weight, their.get_parameter(name)), name


def test_its_updates_are_torchs_bit_for_bit():
    own, their = two_models()
    ours, theirs = optimizers(own, their)
    start = own[0].weight.detach().clone()
    for step in range(10):
        learn(own, ours, step)
        learn(their, theirs, step)
        assert_equal(own, their)
    assert not torch.equal(own[0].weight, start)


@pytest.mark.parametrize("writer", ["ours", "torchs"])
def test_it_goes_on_from_a_state_that_either_wrote(writer):
    own, their = two_models()
    ours, theirs = optimizers(own, their)
    for step in range(4):
        learn(own, ours, step)
        learn(their, theirs, step)
    later, other = two_models()
    later.load_state_dict(own.state_dict())
    goes_on, _ = optimizers(later, other)
    goes_on.load_state_dict((ours if writer == "ours" else theirs).state_dict())
    for step in range(4, 8):
        learn(own, ours, step)
        learn(later, goes_on, step)
    assert_equal(later, own)


@pytest.mark.parametrize("script", ["pretrain", "finetune", "finetune_retrieval"])
def test_no_training_waits_for_torchs_compiler(repository, script):
    """Which, and what cuts weights over ranks, is half of what a short training takes."""
    code = f"""
import sys, torch
import {script}
from engine.optim import AdamW
weight = torch.nn.Parameter(torch.ones(2))
optimizer = AdamW([{{"params": [weight], "weight_decay": 0.0}}], 1e-3, (0.9, 0.98), 1e-6)
weight.square().sum().backward()
torch.nn.utils.clip_grad_norm_([weight], 1.0)
optimizer.step()
print([name for name in ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository / "workflow/scripts", capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
