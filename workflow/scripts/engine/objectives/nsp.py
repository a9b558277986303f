"""mBERT's objective: masked language modelling on two segments, and whether the second one follows the first.

p(next) = softmax(W tanh(W_p h_<s> + b_p) + b); half of the second segments come from elsewhere (engine/forms.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.heads import ClassificationHead
from engine.model import at_least_fp32
from engine.objectives.base import Batch, Loss, Number, Objective, mlm_head
from engine.objectives.contrast import first_tokens
from engine.objectives.mlm import selected_cross_entropy
from engine.randomness import stable_hash, uniform

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


def first_token_head(name: str) -> Callable[[nn.Module, "ObjectiveConfig"], dict[str, nn.Module]]:
    """BERT's pooler and two classes."""

    def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
        config = model.encoder.config
        return {name: ClassificationHead(config.width, 2, dropout=0.0, init_std=config.init_std)}

    return modules


def drawn_by_key(batch: Batch, purpose: str, share: float) -> Tensor:
    """(N,) of each item: whether its form laid something else in the place of its second side."""
    rows_N, columns_N = first_tokens(batch.host, side=0).unbind(1)
    keys_N = batch.host.key[rows_N, columns_N].numpy().view(np.uint64)
    drawn_N = uniform(keys_N ^ np.uint64(stable_hash(purpose))) < share
    return batch.send(torch.from_numpy(drawn_N))


def classify_first_tokens(
    head: nn.Module, states_BTD: Tensor, batch: Batch, classes_N: Tensor
) -> tuple[Tensor, tuple[Number, Number]]:
    """Summed cross-entropy of the items' <s>, and (right, all)."""
    rows_N, columns_N = first_tokens(batch, side=0).unbind(1)
    logits_NC = at_least_fp32(head(states_BTD[rows_N, columns_N][:, None]))
    right = (logits_NC.argmax(1) == classes_N).sum()
    return F.cross_entropy(logits_NC, classes_N, reduction="sum"), (right, len(classes_N))


def nsp_modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    return first_token_head("nsp_head")(model, objective) | mlm_head(model, objective)


def count(batch: Batch) -> dict[str, int]:
    return {"mlm": len(batch.targets), "next_sentence": len(first_tokens(batch, side=0))}


def nsp_loss(model: nn.Module, batch: Batch) -> Loss:
    states_BTD = batch.states(model.encoder)
    total, correct = selected_cross_entropy(model, states_BTD.flatten(0, 1)[batch.selected], batch.targets)
    replaced_N = drawn_by_key(batch, "next sentence", 0.5).long()
    next_sentence, right = classify_first_tokens(model.nsp_head, states_BTD, batch, replaced_N)
    signals = {"accuracy": (correct, len(batch.targets)), "next_sentence_accuracy": right}
    return Loss({"mlm": total, "next_sentence": next_sentence}, signals)


NSP = Objective(nsp_loss, modules=nsp_modules, training_only=("nsp_head",), count=count)
