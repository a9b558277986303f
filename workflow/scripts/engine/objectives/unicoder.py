"""Unicoder's three cross-lingual tasks.

word recovery      x_i is replaced by sum_j a_ij y_j, a_ij = softmax_j(w . [x_i; y_j; x_i * y_j]), over the token
                   embeddings of the two sentences; the encoder reads these alone and predicts every x_i.
paraphrase         whether the two sentences of a row are a pair, from the state of <s>. The paper picks near neighbours
                   as negatives with a model of its own; here they are any pair of the corpus (engine/forms.py).
cross-lingual MLM  masked language modelling on texts whose sentences come from the two languages in turn.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from engine.data import Rows
from engine.objectives.base import Batch, Loss, Objective, mlm_head
from engine.objectives.contrast import first_tokens, side_alone
from engine.objectives.dwa import places
from engine.objectives.mlm import masked_lm_loss, selected_cross_entropy
from engine.objectives.nsp import classify_first_tokens, drawn_by_key, first_token_head
from engine.shape import ModelConfig
from engine.tokenizer import PAD, UNK

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


class WordRecovery(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, config.width) * config.init_std)  # for x, y and x * y

    def forward(self, x_PXD: Tensor, y_PYD: Tensor, y_real_PY: Tensor) -> Tensor:
        """(P, X, D) each x as a mixture of the y of its pair."""
        of_x, of_y, of_both = self.weight
        scores_PXY = (x_PXD * of_both) @ y_PYD.mT + (x_PXD @ of_x)[:, :, None] + (y_PYD @ of_y)[:, None, :]
        weights_PXY = scores_PXY.masked_fill(~y_real_PY[:, None], -math.inf).softmax(-1)
        return weights_PXY.to(y_PYD.dtype) @ y_PYD


def recovery_modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    return {"word_recovery": WordRecovery(model.encoder.config)} | mlm_head(model, objective)


def select_first_side(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Every piece of side 0 is predicted; nothing is masked, since the encoder never reads it."""
    pieces = (rows.tokens > UNK) & (rows.tokens < vocabulary - 1)
    return rows.tokens.copy(), pieces & (rows.side == 0) & (rows.document >= 0)


def word_recovery_loss(model: nn.Module, batch: Batch) -> Loss:
    alone = side_alone(batch, side=0)
    states_BWD = recovered_states(model, batch, alone)
    total, correct = selected_cross_entropy(model, states_BWD.flatten(0, 1)[alone.selected], alone.targets)
    return Loss({"loss": total}, {"accuracy": (correct, len(alone.targets))})


def recovered_states(model: nn.Module, batch: Batch, alone: Batch) -> Tensor:
    """States of side 0, whose words are mixtures of side 1; its <s> and </s> stay."""
    encoder, fields = model.encoder, alone.fields
    x_PX, y_PY = places(alone, side=0), places(batch, side=1)
    x_PXD = encoder.tokens(alone.original.flatten()[x_PX.clamp(min=0)])
    y_PYD = encoder.tokens(batch.original.flatten()[y_PY.clamp(min=0)])
    mixed_PXD = model.word_recovery(x_PXD, y_PYD, y_PY >= 0)
    words = x_PX[x_PX >= 0]
    tokens_BW = alone.original.flatten().index_fill(0, words, PAD).view_as(alone.original)
    B, W = tokens_BW.shape
    # The lookup adds the row of <pad>. It begins as zero, but the tied softmax trains it: it is taken off again.
    recovered_ND = mixed_PXD[x_PX >= 0] - encoder.tokens.weight[PAD].detach()
    added_MD = recovered_ND.new_zeros(B * W, mixed_PXD.shape[-1]).index_copy(0, words, recovered_ND)
    added_BWD = added_MD.view(B, W, -1)
    languages = alone.languages(encoder)
    return encoder(tokens_BW, fields.position, alone.mask(), False, fields.side, languages, added_BWD)


def unmasked(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    return rows.tokens.copy(), np.zeros(rows.tokens.shape, bool)


def count_items(batch: Batch) -> dict[str, int]:
    return {"loss": len(first_tokens(batch, side=0))}


def paraphrase_loss(model: nn.Module, batch: Batch) -> Loss:
    other_N = drawn_by_key(batch, "negative", batch.objective.options.negative_share).long()
    total, right = classify_first_tokens(model.paraphrase_head, batch.states(model.encoder), batch, other_N)
    return Loss({"loss": total}, {"accuracy": right})


WORD_RECOVERY = Objective(
    word_recovery_loss, modules=recovery_modules, training_only=("word_recovery",), corrupt=select_first_side
)
PARAPHRASE = Objective(
    paraphrase_loss,
    modules=first_token_head("paraphrase_head"),
    training_only=("paraphrase_head",),
    corrupt=unmasked,
    count=count_items,
)
CROSS_LINGUAL_MLM = Objective(masked_lm_loss)
