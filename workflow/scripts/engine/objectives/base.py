"""What an objective is: a corruption of rows, a loss over a batch, and, where it needs them, modules and hooks.

Most objectives are one loss function, with the defaults for all else. The order within one step, per objective:

    corrupt          numpy, the rows of this rank      which tokens are selected, what the encoder sees
    prepare          torch, no gradient, per batch     generate, align, encode keys
    meet             once, all batches and ranks       what rows must know of each other
    count            per batch                         predictions, summed over the whole step and all ranks
    loss             torch, per batch                  sums, which the engine divides by those counts
    after_step       once, after the optimiser         momentum encoders, queues
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from engine.attention_rules import Rule, Tokens, full
from engine.corruption import mask_tokens
from engine.data import Rows
from engine.dist import Ranks
from engine.masks import Mask, block_mask, boolean_mask
from engine.model import FIRST_POSITION, Encoder, MaskedLanguageModelHead
from engine.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


@dataclass
class Batch:
    """One micro-batch on the device. An objective's `prepare` may put its results in `extra` (or change tokens)."""

    tokens: Tensor  # (B, T) what the encoder sees
    original: Tensor  # (B, T) before corruption
    fields: Tokens  # each (B, T)
    offset: Tensor  # (B, T) index of the token within its item
    key: Tensor  # (B, T) int64, the item's random bits: a draw from it depends on nothing else
    row: Tensor  # (B,) number of the row within the step, over all ranks
    objective: "ObjectiveConfig"
    step: int
    steps: int = 0  # of the whole run
    warmup_steps: int = 0
    first_phase: bool = False  # schedule.first: only some of the model is trained
    block_masks: bool = False  # for FlexAttention
    extra: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self):
        self.selected = self.fields.selected.flatten().nonzero().squeeze(1)  # (N,) flat indices into (B, T)
        self.targets = self.original.flatten()[self.selected]  # (N,)

    def mask(self, rule: Rule = full, fields: Tokens | None = None, keys: Tokens | None = None) -> Mask:
        """Who sees whom among these tokens, or of the keys."""
        return (block_mask if self.block_masks else boolean_mask)(fields or self.fields, rule, keys)

    def states(
        self, encoder: Encoder, rule: Rule = full, all_layers: bool = False, layers: int | None = None
    ) -> Tensor | list[Tensor]:
        """The encoder's states (B, T, D) of the batch as it is; see Encoder.forward."""
        fields, languages = self.fields, self.languages(encoder)
        mask = self.mask(rule)
        return encoder(self.tokens, fields.position, mask, all_layers, fields.side, languages, layers=layers)

    def languages(self, encoder: Encoder) -> Tensor | None:
        return self.fields.language if encoder.config.languages else None


@dataclass(frozen=True)
class Loss:
    """Sums, not means: the engine divides by counts over the whole step, so that micro-batches do not matter."""

    sums: dict[str, Tensor]  # scalars, under the names that `count` uses
    signals: dict[str, tuple[float, float]] = field(default_factory=dict)  # (sum, count), logged as means


def mlm_head(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    return {"mlm_head": MaskedLanguageModelHead(model.encoder.config)}


def count_selected(batch: Batch) -> dict[str, int]:
    return {"loss": len(batch.targets)}


def all_one(objective: "ObjectiveConfig") -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Objective:
    loss: Callable[[nn.Module, Batch], Loss]
    rule: Rule = full  # who sees whom; an objective of several passes names its main one
    modules: Callable[[nn.Module, "ObjectiveConfig"], dict[str, nn.Module]] = mlm_head  # equal names are shared
    training_only: tuple[str, ...] = ()  # modules that the final weights leave out
    corrupt: Callable[[Rows, "ObjectiveConfig", int], tuple[np.ndarray, np.ndarray]] = mask_tokens
    prepare: Callable[[nn.Module, Batch], None] | None = None
    meet: Callable[[nn.Module, list[Batch], Ranks], None] | None = None
    count: Callable[[Batch], dict[str, int]] = count_selected
    weights: Callable[["ObjectiveConfig"], dict[str, float]] = all_one  # of its losses
    start: Callable[[nn.Module, "ObjectiveConfig", Callable[[], list[Batch]], Ranks], None] | None = None
    after_step: Callable[[nn.Module, list[Batch], Ranks], None] | None = None


def joined(batch: Batch) -> Batch:
    """One row `<s> a </s> [</s>] b </s>` of two sides `<s> a </s> <s> b </s>`: the second <s> becomes a hole, or the
    second </s> where there are two, and positions run on."""
    fields = batch.fields
    second_BT = (fields.side == 1) & (fields.document >= 0)
    opening_BT = second_BT & (batch.original == BOS)
    closed_twice = batch.objective.pair_separators == 2
    position_BT = torch.where(second_BT, FIRST_POSITION + batch.offset - (0 if closed_twice else 1), fields.position)
    if closed_twice:
        fields = fields._replace(position=position_BT)
    else:
        document_BT = fields.document.masked_fill(opening_BT, -1)
        fields = fields._replace(position=position_BT.masked_fill(opening_BT, PAD), document=document_BT)
    filler = EOS if closed_twice else PAD
    return dataclasses.replace(
        batch,
        tokens=batch.tokens.masked_fill(opening_BT, filler),
        original=batch.original.masked_fill(opening_BT, filler),
        fields=fields,
        extra={},
    )
