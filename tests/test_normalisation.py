"""How the losses of several objectives are weighed against each other: a mean of each, or one count for all."""

import copy
import dataclasses

import pytest
import torch

from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.objectives import OBJECTIVES
from engine.options import DESCRIPTIONS
from plan.load import load_config
from plan.runs import resolve_run
from pretrain import Given, Part, learn, start_objectives
from small_corpus import mixture
from small_engine import model_of, run_of
from training.assembly import next_batches

ANYWHERE = {"queue": 8, "momentum": 0.9, "layer": 1}
MIXES = {
    "infoxlm": (ObjectiveConfig("mmlm"), ObjectiveConfig("tlm"), ObjectiveConfig("xlco", options=ANYWHERE)),
    "xlm-align": (ObjectiveConfig("mmlm"), ObjectiveConfig("dwa", weight=2.0, options={"layer": 1})),
}


@pytest.mark.parametrize("device_rows", [99, 3])
@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("normalisation", ["objective", "joint"])
@pytest.mark.usefixtures("double")
def test_the_gradient_is_the_hand_computed_one(shards, name, normalisation, device_rows):
    run = dataclasses.replace(run_of(*MIXES[name], device_rows=device_rows), normalisation=normalisation)
    ranks = Ranks()
    about = [DESCRIPTIONS[objective.name] for objective in run.objectives]
    mixtures = [mixture(shards, one.data, form=one.form, row_length=32) for one in about]
    model = model_of(run)
    start_objectives(model, run, mixtures, ranks)
    twin = copy.deepcopy(model)
    drawn = [
        (objective, next_batches(run, objective, own, ranks, 1))
        for objective, own in zip(run.objectives, mixtures, strict=True)
    ]
    parts = [Part(objective, copy.deepcopy(batches), 1) for objective, batches in drawn]
    learn(model, run, Given(1, parts, []), ranks, seed=1)

    sums, counts = [], []
    for objective, batches in drawn:
        own = OBJECTIVES[objective.name]
        for batch in batches:
            if own.prepare:
                with torch.no_grad():
                    own.prepare(twin, batch)
        losses = [own.loss(twin, batch).sums for batch in batches]
        for loss in losses[0]:
            sums.append(objective.weight * sum(each[loss] for each in losses))
            counts.append(sum(own.count(batch)[loss] for batch in batches))
    assert len(set(counts)) > 1  # else both ways would be one
    if normalisation == "joint":
        total = sum(sums) / sum(counts)
    else:
        total = sum(own / count for own, count in zip(sums, counts, strict=True))
    total.backward()
    for (weight, found), expected in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (found.grad is None) == (expected.grad is None), weight
        if found.grad is not None:
            assert torch.allclose(found.grad, expected.grad, rtol=1e-9, atol=1e-13), weight


def test_who_adds_and_who_averages(repository):
    """InfoXLM's and XLM-Align's code has one count, what the papers print is a sum of means; nobody else is asked."""
    for scale in ("paper", "small", "mini"):
        config = load_config(repository, {"scale": scale})
        joint = {
            name for name in config.pretrained
            if resolve_run(config, name).get("normalisation", "objective") == "joint"
        }  # fmt: skip
        assert joint == {"infoxlm-base", "infoxlm-large", "xlm-align-base"}
