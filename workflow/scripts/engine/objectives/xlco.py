"""Cross-lingual contrast (XLCO) of InfoXLM: each row is two sentences of one language, its key their translations.

q = W h, h the state of <s> at layer 8 of a *masked* row `<s> c1 </s> d1 </s>`; no normalisation. InfoNCE of
engine/objectives/contrast.py over q, with a queue that is full before the first step.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn

from engine.attention_rules import own_side
from engine.corruption import mask_tokens_per_side
from engine.dist import Ranks
from engine.model import Encoder, initialise
from engine.objectives.base import Batch, Loss, Objective
from engine.objectives.contrast import (
    MomentumContrast,
    check_layer,
    fill_queue,
    first_tokens,
    info_nce,
    keep_keys,
    side_alone,
)

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    config, options = model.encoder.config, objective.options
    check_layer(options.layer, config)
    projection = nn.Linear(config.width, config.width, bias=False)
    initialise(projection, config.init_std)
    return {"xlco_contrast": MomentumContrast(model.encoder, projection, config.width, options.queue)}


def start(model: nn.Module, objective: "ObjectiveConfig", draw: Callable[[], list[Batch]], ranks: Ranks) -> None:
    model.xlco_contrast.copy_from(model.encoder)
    fill_queue(model.xlco_contrast, partial(encode_keys, model), draw, ranks)


def vectors(encoder: Encoder, projection: nn.Module, batch: Batch, side: int) -> Tensor:
    """(N, D) of the rows of one side, masked."""
    alone = side_alone(batch, side)
    rows_N, columns_N = first_tokens(alone, side=0).unbind(1)
    return projection(alone.states(encoder, layers=batch.objective.options.layer)[rows_N, columns_N])


def encode_keys(model: nn.Module, batch: Batch) -> None:
    contrast = model.xlco_contrast
    keep_keys(batch, vectors(contrast.key_encoder, contrast.key_projection, batch, side=1))


def count(batch: Batch) -> dict[str, int]:
    return {"loss": len(batch.extra["keys"])}


def xlco_loss(model: nn.Module, batch: Batch) -> Loss:
    contrast = model.xlco_contrast
    queries_ND = vectors(model.encoder, contrast.projection, batch, side=0)
    temperature = batch.objective.options.temperature
    loss, signals = info_nce(queries_ND, batch.extra["keys"], contrast.queue, temperature)
    return Loss({"loss": loss}, signals)


def after_step(model: nn.Module, batches: list[Batch], ranks: Ranks) -> None:
    model.xlco_contrast.after_step(model.encoder, batches, ranks)


XLCO = Objective(
    xlco_loss,
    rule=own_side,
    modules=modules,
    corrupt=mask_tokens_per_side,
    training_only=("xlco_contrast",),
    prepare=encode_keys,
    count=count,
    start=start,
    after_step=after_step,
)
