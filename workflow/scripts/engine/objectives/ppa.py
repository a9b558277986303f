"""Post-pretraining alignment of mBERT (PPA): contrast of [CLS] over translation pairs, beside TLM on the same pairs.

z = W2 ReLU(W1 h), h the last layer's [CLS] of a sentence alone; InfoNCE of engine/objectives/contrast.py over z.

Neither projection has a bias, so the head is positively homogeneous: normalising h and z is normalising z alone. The
paper can also be read as normalising h alone (`h_only`). One coin decides which language the encoder reads and which
one its copy, and the same order holds in the row of TLM.
"""

from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor, nn

from engine.attention_rules import own_side
from engine.dist import Ranks
from engine.model import Encoder, initialise
from engine.objectives.base import Batch, Loss, Objective, joined, mlm_head
from engine.objectives.contrast import (
    MomentumContrast,
    first_tokens,
    info_nce,
    keep_keys,
    sentences_alone,
    side_alone,
)
from engine.objectives.mlm import selected_cross_entropy
from engine.shape import ModelConfig

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


class ProjectionHead(nn.Module):
    def __init__(self, config: ModelConfig, width: int):
        super().__init__()
        self.up = nn.Linear(config.width, config.width, bias=False)
        self.down = nn.Linear(config.width, width, bias=False)
        initialise(self, config.init_std)

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.down(F.relu(self.up(states_ND)))


def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    options = objective.options
    head = ProjectionHead(model.encoder.config, options.projection)
    own = {"ppa_contrast": MomentumContrast(model.encoder, head, options.projection, options.queue)}
    return own if options.sentences == "none" else own | mlm_head(model, objective)


def start(model: nn.Module, objective: "ObjectiveConfig", draw: object, ranks: Ranks) -> None:
    """The queue keeps its random unit vectors: keys of the steps replace them soon."""
    model.ppa_contrast.copy_from(model.encoder)


def vectors(encoder: Encoder, projection: nn.Module, batch: Batch, side: int) -> Tensor:
    """(N, D) of the sentences of one side, each encoded alone and unmasked."""
    alone = side_alone(batch, side)
    alone.tokens = alone.original
    rows_N, columns_N = first_tokens(alone, side=0).unbind(1)
    states_ND = alone.states(encoder)[rows_N, columns_N]
    if batch.objective.options.normalise == "h_only":
        return projection(F.normalize(states_ND, dim=1))
    return F.normalize(projection(states_ND), dim=1)


def encode_keys(model: nn.Module, batch: Batch) -> None:
    contrast = model.ppa_contrast
    keep_keys(batch, vectors(contrast.key_encoder, contrast.key_projection, batch, side=1))


def count(batch: Batch) -> dict[str, int]:
    masked = {} if batch.objective.options.sentences == "none" else {"mlm": len(batch.targets)}
    return masked | {"contrast": len(batch.extra["keys"])}


def ppa_loss(model: nn.Module, batch: Batch) -> Loss:
    options, contrast = batch.objective.options, model.ppa_contrast
    queries_ND = vectors(model.encoder, contrast.projection, batch, side=0)
    loss, signals = info_nce(queries_ND, batch.extra["keys"], contrast.queue, options.temperature)
    sums = {"contrast": loss}
    if options.sentences != "none":
        states_BTD = (
            joined(batch).states(model.encoder) if options.sentences == "tlm" else sentences_alone(model.encoder, batch)
        )
        states_ND = states_BTD.flatten(0, 1)[batch.selected]
        sums["mlm"], correct = selected_cross_entropy(model, states_ND, batch.targets)
        signals["accuracy"] = (correct, len(batch.targets))
    return Loss(sums, signals)


def after_step(model: nn.Module, batches: list[Batch], ranks: Ranks) -> None:
    model.ppa_contrast.after_step(model.encoder, batches, ranks)


PPA = Objective(
    ppa_loss,
    rule=own_side,
    modules=modules,
    training_only=("ppa_contrast",),
    prepare=encode_keys,
    count=count,
    start=start,
    after_step=after_step,
)
