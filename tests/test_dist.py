"""Sums of gradients that begin before the pass back has ended. That two processes learn what one does, and go on from
an interruption, is in test_every_mix.py."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from engine import dist

ROWS = torch.ones(2, 3)


@pytest.fixture
def sent(monkeypatch) -> list[Tensor]:
    """What this rank of two tells the other, in order; the other adds nothing."""
    messages = []

    def all_reduce(tensor: Tensor, async_op: bool = False) -> SimpleNamespace | None:
        messages.append(tensor)
        return SimpleNamespace(wait=lambda: None) if async_op else None

    monkeypatch.setattr(dist.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(dist, "LARGE", 9)
    return messages


@pytest.fixture
def two() -> dist.Ranks:
    ranks = dist.Ranks()
    ranks.world_size = 2
    return ranks


def layers() -> nn.ModuleList:
    torch.manual_seed(1)
    return nn.ModuleList(nn.Linear(3, 3) for _ in range(4))


def names_of(sent: list[Tensor], model: nn.Module) -> list[str]:
    found = {id(parameter.grad): name for name, parameter in model.named_parameters()}
    return [found.get(id(message), "others") for message in sent]


def test_a_sum_begins_before_the_pass_back_has_ended(two, sent):
    model = layers()
    begun = {}
    first = model[0].weight.register_hook(lambda gradient: begun.update(before=len(sent)))
    sums = dist.GradientSums(model, two)
    sums.watch()
    nn.Sequential(*model)(ROWS).sum().backward()
    assert begun["before"] == 3 and len(sent) == 4
    first.remove()
    two.sum_gradients(model, sums)
    expected = [f"{layer}.weight" for layer in (3, 2, 1, 0)]
    assert names_of(sent, model)[:4] == expected and len(sent) == 6  # which were used, and all biases in one
    assert len(sent[4]) == 8 and len(sent[5]) == 12


@pytest.mark.parametrize("used", [[0, 1, 2, 3], [0, 2], [2], [3, 0], []])
def test_the_order_is_the_same_whatever_a_rank_uses(two, sent, used):
    model = layers()
    alone = layers()
    for one in (model, alone):
        one[1](ROWS).sum().backward()  # an earlier pass
    sums = dist.GradientSums(model, two)
    sums.watch()
    for one in (model, alone):
        if used:
            nn.Sequential(*(one[number] for number in used))(ROWS).sum().backward()
    sums.send_the_rest()
    assert names_of(sent, model) == [f"{layer}.weight" for layer in (3, 2, 1, 0)]
    two.sum_gradients(model, sums)
    for (name, parameter), own in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert (parameter.grad is None) == (own.grad is None), name  # what no rank used has no gradient
        assert own.grad is None or parameter.grad.equal(own.grad), name


def test_an_earlier_pass_begins_no_sum(two, sent):
    """Its gradient is no whole one: more is added to it."""
    model = layers()
    sums = dist.GradientSums(model, two)
    nn.Sequential(*model)(ROWS).sum().backward()
    assert not sent
    sums.watch()
    assert not sent
    sums.send_the_rest()
    assert len(sent) == 4


def test_one_process_says_nothing(sent):
    model, alone = layers(), dist.Ranks()
    sums = dist.GradientSums(model, alone)
    sums.watch()
    nn.Sequential(*model)(ROWS).sum().backward()
    sums.send_the_rest()
    alone.sum_gradients(model, sums)
    assert not sent and all(parameter.grad is not None for parameter in model.parameters())
