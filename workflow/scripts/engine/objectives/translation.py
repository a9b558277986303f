"""Translation: an encoder reads the source, a decoder says the target.

L = - sum_t [(1 - e) log p(y_t | y_1 ... y_{t-1}, x) + (e / V) sum_v log p(v | y_1 ... y_{t-1}, x)]

e is the label smoothing (Szegedy et al. 2016). The decoder begins with </s>, as beam search does (engine/beam.py), and
says </s> at the end:

    source   <s> x </s>
    target   reads </s> y, predicts y </s>

Neither side has a language embedding or a token type: which side a token is on says the network that reads it.

Shapes: I items (pairs), R rows, B rows of a batch, T tokens of a row, N predicted tokens, D width, V vocabulary.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.data import Rows
from engine.model import FIRST_POSITION, at_least_fp32
from engine.objectives.base import Batch, Loss, Objective
from engine.objectives.mlm import in_chunks
from engine.objectives.seq2seq import Side, decoder_and_head, predict_next, predicting_states
from engine.tokenizer import EOS, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


def translation_rows(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """(R, T) what encoder and decoder see, (R, T) where the decoder predicts; its targets go into rows.tokens.

    Of the target `<s> y </s>` the decoder reads all but the last token, which becomes a hole."""
    seen = rows.tokens.copy()
    of_target = np.flatnonzero((rows.side == 1) & (rows.document >= 0))
    opens = rows.position.reshape(-1)[of_target] == FIRST_POSITION
    start = of_target[opens]  # (I,)
    size = np.bincount(np.cumsum(opens) - 1, minlength=len(start)) - 1
    seen.reshape(-1)[start] = EOS
    for array, hole in ((seen, PAD), (rows.document, -1), (rows.position, PAD)):
        array.reshape(-1)[start + size] = hole
    return seen, predict_next(rows, seen, start, size, EOS)


def translation_loss(model: nn.Module, batch: Batch) -> Loss:
    states_ND, targets_N = predicting_states(model, batch, no_inputs)
    one_chunk = partial(smoothed_cross_entropy, model, batch.objective.options.label_smoothing)
    loss, likelihood, right = (
        torch.stack(own).sum() for own in zip(*in_chunks(one_chunk, states_ND, targets_N), strict=True)
    )
    n = len(targets_N)
    return Loss({"loss": loss}, {"nll": (float(likelihood), n), "accuracy": (float(right), n)})


def no_inputs(side: Side) -> dict[str, Tensor | None]:
    return {}


def smoothed_cross_entropy(
    model: nn.Module, smoothing: float, states_ND: Tensor, targets_N: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed: the loss, without smoothing, and the right guesses."""
    logits_NV = at_least_fp32(model.mlm_head(states_ND, model.encoder.tokens.weight))
    loss = F.cross_entropy(logits_NV, targets_N, reduction="sum", label_smoothing=smoothing)
    with torch.no_grad():
        likelihood = F.cross_entropy(logits_NV, targets_N, reduction="sum")
        return loss, likelihood, (logits_NV.argmax(-1) == targets_N).sum()


TRANSLATION = Objective(translation_loss, modules=decoder_and_head, corrupt=translation_rows)
