"""What an objective is: a corruption of rows, a loss over a batch, and, where it needs them, modules and hooks.

Most objectives are one loss function, with the defaults for all else. The order within one step, per objective:

    corrupt          numpy, the rows of this rank      which tokens are selected, what the encoder sees
    prepare          torch, no gradient, per batch     generate, align, encode keys
    meet             once, all batches and ranks       what rows must know of each other
    count            per batch                         predictions, summed over the whole step and all ranks
    loss             torch, per batch                  sums, which the engine divides by those counts
    after_step       once, after the optimiser         momentum encoders, queues

A GPU works behind the program's back, as long as nobody asks it for a number: one question waits for everything before
it. So how many there are of something is counted on the host, where every batch has a twin, and what the losses sum up
stays on the device until the end of the step.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from engine.attention_rules import Rule, Tokens, full
from engine.corruption import mask_tokens
from engine.data import Rows
from engine.dist import Ranks
from engine.masks import Mask, Segments, block_mask, boolean_mask, segment_ends
from engine.model import FIRST_POSITION, Encoder, MaskedLanguageModelHead
from engine.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig


Number = float | Tensor  # a scalar that may still be on its way


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device. Nobody waits for it: the memory it is read from is pinned."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True, copy=True)


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
    masks: str = "dense"  # or segments, or blocks: who sees whom as the device computes it fastest (engine/masks.py)
    tile: int = 1  # widths are multiples of it
    twin: "Batch | None" = None  # the same on the host, if this one is on a device
    extra: dict[str, Tensor] = field(default_factory=dict)

    @property
    def host(self) -> "Batch":
        return self.twin or self

    @cached_property
    def selected(self) -> Tensor:
        """(N,) flat indices into (B, T)."""
        return self.places(self.host.fields.selected)

    @cached_property
    def targets(self) -> Tensor:
        """(N,)"""
        return self.original.flatten()[self.selected]

    @cached_property
    def real(self) -> Tensor:
        """(R,) flat indices of what belongs to a document."""
        return self.places(self.host.fields.document >= 0)

    def places(self, wanted_BT: Tensor) -> Tensor:
        """Flat indices, on the device, of what is wanted on the host."""
        return self.send(wanted_BT.flatten().nonzero().squeeze(1))

    def send(self, of_host: Tensor) -> Tensor:
        return send(of_host, self.tokens.device) if self.twin else of_host

    def pinned(self) -> "Batch":
        """In memory from which a device copies while others work. Indices too: they are found here, ahead of time."""
        moved = self.each(Tensor.pin_memory)
        moved.selected, moved.targets = self.selected.pin_memory(), self.targets.pin_memory()
        return moved

    def to(self, device: torch.device) -> "Batch":
        moved = dataclasses.replace(self.each(lambda tensor: send(tensor, device)), twin=self)
        moved.selected, moved.targets = send(self.selected, device), send(self.targets, device)
        return moved

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        names = ("tokens", "original", "offset", "key", "row")
        changed = {name: change(getattr(self, name)) for name in names}
        return dataclasses.replace(self, fields=Tokens(*map(change, self.fields)), **changed)

    def mask(self, rule: Rule = full, fields: Tokens | None = None, keys: Tokens | None = None) -> Mask:
        """Who sees whom among these tokens, or of the keys."""
        if self.masks == "segments" and fields is None and keys is None:
            host = self.host.fields
            if (ends := segment_ends(host, rule)) is not None:
                return Segments(self.send(ends), host.document.shape[1])
        return (block_mask if self.masks == "blocks" else boolean_mask)(fields or self.fields, rule, keys)

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
    signals: dict[str, tuple[Number, Number]] = field(default_factory=dict)  # (sum, count), logged as means


def whole_width(used: int, tile: int, most: int) -> int:
    """Columns for so many tokens: for a GPU whole tiles of its kernels, which are few widths to compile for, too."""
    return max(1, min(-(-used // tile) * tile, most))


def columns_of_side(batch: Batch, side: int) -> tuple[Tensor, Tensor]:
    """(B, W) the columns of that side of all items of each row, in their order and before any other; and which of the W
    are columns of it."""
    inside_BT = (batch.fields.document >= 0) & (batch.fields.side == side)
    host = batch.host.fields
    used = int(((host.document >= 0) & (host.side == side)).sum(1).max())
    width = whole_width(used, batch.tile, batch.tokens.shape[1])
    order_BW = (~inside_BT).byte().argsort(dim=1, stable=True)[:, :width]
    return order_BW, inside_BT.gather(1, order_BW)


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
    twin = joined(batch.twin) if batch.twin else None
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
        twin=twin,
        extra={},
    )
