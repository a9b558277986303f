"""Cross-attention masked language modelling (CAMLM): ERNIE-M, section 3.

L_CAMLM = - sum_{m in M_src} log p(x_m | X without M and X_src) - sum_{m in M_tgt} log p(x_m | X without M and X_tgt)

A mask is predicted from what is not masked of the other side, and from itself: no layer may bring it anything of its
own side, so everything else is confined to its side (attention_rules.camlm). A mask that cannot see its own sentence
must be told the language: a table, zero at first, is added at the masks alone and is left out of the final weights.

The paper's example lets a mask see masked tokens of the other side, against its equations. `masks: append` does what
the example says: the pair stays whole, the masks stand after it with the positions of the tokens that they ask for.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from engine import corruption
from engine.attention_rules import Tokens, camlm, camlm_siblings
from engine.corruption import mask_tokens_per_side, select
from engine.data import Rows
from engine.objectives.base import Batch, Loss, Objective, mlm_head
from engine.objectives.mlm import selected_cross_entropy
from engine.ragged import running_count
from engine.streams import language_codes

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

LANGUAGES_OF_MASKS = "mask_languages"


def mask_modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    if objective.options.language_embedding == "none":
        return mlm_head(model, objective)
    zeros = torch.zeros(len(language_codes(objective.sources)), model.encoder.config.width)
    table = nn.Embedding.from_pretrained(zeros, freeze=False)
    return {**mlm_head(model, objective), LANGUAGES_OF_MASKS: table}


def corrupt(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    if objective.options.masks == "in-place":
        return mask_tokens_per_side(rows, objective, vocabulary)
    chosen = select(rows, objective.mask.rate, objective.draws_as, vocabulary, per_side=True)
    selected = repeat_after_item(rows, chosen)
    return corruption.corrupt(rows, selected, objective.mask, objective.draws_as, vocabulary), selected


def repeat_after_item(rows: Rows, chosen: np.ndarray) -> np.ndarray:
    """Copy the chosen tokens into the slots reserved after their items, positions and all; (R, T) bool, where to."""
    R, T = chosen.shape
    real = np.flatnonzero(rows.document.ravel() >= 0)
    item = (real // T) * T + rows.document.ravel()[real]  # a number per document of the batch, in the order of places
    ends = np.append(item[1:] != item[:-1], True) if len(item) else np.zeros(0, bool)
    last = dict(zip(item[ends].tolist(), real[ends].tolist(), strict=True))
    source = np.flatnonzero(chosen)
    of_item = (source // T) * T + rows.document.ravel()[source]
    slot = np.array([last[number] + 1 for number in of_item.tolist()], np.int64) + running_count(of_item)
    assert (slot // T == source // T).all() and (rows.document.flat[slot] < 0).all(), "no slots were reserved"
    for array in (rows.tokens, rows.document, rows.side, rows.position, rows.language, rows.key, rows.offset):
        array.flat[slot] = array.flat[source]
    selected = np.zeros(R * T, bool)
    selected[slot] = True
    return selected.reshape(R, T)


def camlm_loss(model: nn.Module, batch: Batch) -> Loss:
    states_ND = mask_states(model, batch, batch.tokens, batch.fields, batch.selected)
    total, correct = selected_cross_entropy(model, states_ND, batch.targets)
    return Loss({"loss": total}, {"accuracy": (correct, len(batch.targets))})


def mask_states(model: nn.Module, batch: Batch, tokens_BT: Tensor, fields: Tokens, masks_N: Tensor) -> Tensor:
    """(N, D) last states of the masks (flat indices into (B, T)), which are what `fields` calls selected."""
    options = batch.objective.options
    added_BTD = None
    if options.language_embedding == "queries":
        told_ND = getattr(model, LANGUAGES_OF_MASKS)(fields.language.flatten()[masks_N].long())
        nowhere = told_ND.new_zeros(tokens_BT.numel(), told_ND.shape[1])
        added_BTD = nowhere.index_copy(0, masks_N, told_ND).view(*tokens_BT.shape, -1)
    states_BTD = model.encoder(
        tokens_BT,
        fields.position,
        batch.mask(camlm_siblings if options.siblings else camlm, fields),
        sides_BT=fields.side,
        languages_BT=batch.languages(model.encoder),
        added_BTD=added_BTD,
    )
    return states_BTD.flatten(0, 1)[masks_N]


CAMLM = Objective(camlm_loss, rule=camlm, modules=mask_modules, training_only=(LANGUAGES_OF_MASKS,), corrupt=corrupt)
