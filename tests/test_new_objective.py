"""What it takes to add an objective: a mask rule, a loss function, and a run that names them."""

import pytest
from torch import Tensor, nn

from common.errors import UserError
from engine.attention_rules import Tokens, full
from engine.cost import PASSES, one_pass
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch, Loss, Objective
from engine.objectives.mlm import selected_cross_entropy
from engine.options import DESCRIPTIONS, Description
from mixes import train


def look_back(query: Tokens, key: Tokens) -> Tensor:
    """A token sees what came before it."""
    return key.position <= query.position


def one_sided_loss(model: nn.Module, batch: Batch) -> Loss:
    states_ND = batch.states(model.encoder, look_back).flatten(0, 1)[batch.selected]
    total, _ = selected_cross_entropy(model, states_ND, batch.targets)
    return Loss({"loss": total})


def test_an_objective_is_a_function_a_rule_and_a_run(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "one-sided", Objective(one_sided_loss, rule=look_back))
    monkeypatch.setitem(DESCRIPTIONS, "one-sided", Description("mono", "blocks"))
    objectives = [{"name": "one-sided"}, {"name": "mmlm", "draws": "one-sided"}]
    with pytest.raises(UserError, match="PASSES: objective 'one-sided' does not say which passes it runs"):
        train(corpus, tmp_path / "undeclared", {"objectives": objectives})
    monkeypatch.setitem(PASSES, "one-sided", one_pass)
    rows, weights = train(corpus, tmp_path / "new", {"objectives": objectives})
    assert rows[-1]["one-sided/loss"] < rows[0]["one-sided/loss"]
    assert rows[0]["one-sided/loss"] != rows[0]["mmlm/loss"]  # the same rows and the same places, seen by another rule
    assert rows[0]["one-sided/predictions"] == rows[0]["mmlm/predictions"]
    assert weights["encoder.tokens.weight"].isfinite().all()
    monkeypatch.setitem(OBJECTIVES, "one-sided", Objective(same_as_mmlm, rule=full))
    rows, _ = train(corpus, tmp_path / "same", {"objectives": objectives})
    assert rows[0]["one-sided/loss"] == rows[0]["mmlm/loss"]


def test_every_objective_declares_its_passes():
    assert PASSES.keys() == OBJECTIVES.keys()


def same_as_mmlm(model: nn.Module, batch: Batch) -> Loss:
    return Loss({"loss": OBJECTIVES["mmlm"].loss(model, batch).sums["loss"]})
