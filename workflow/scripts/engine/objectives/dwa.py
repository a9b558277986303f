"""Denoising word alignment (DWA) of XLM-Align: align the two sentences with the model, then point from a masked token.

1. Labels, from the unmasked pair, in evaluation mode and without gradient: S_ij = h_i . h_j of one layer, entries <= 0
   become 1e-6; Sinkhorn divides columns, then rows, by their sums, some rounds; itermax (SimAlign) links on the result.
2. Training, on the masked pair: from each selected token that has a link, in both directions,
   p(j) = softmax_j((W_q h_i + b_q) . (W_k h_j + b_k) / sqrt(D)) over the content tokens j of the other side,
   cross-entropy to the linked j. TLM on the same pass.

The details are those of the authors' code: of several links the last one counts, and itermax has one round only where
a side has two tokens or fewer.

Shapes: B rows, T tokens of a row, P pairs of the batch, X and Y tokens of the longest side 0 and side 1, D width.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model import at_least_fp32, initialise
from engine.objectives.base import Batch, Loss, Number, Objective, mlm_head
from engine.objectives.contrast import check_layer
from engine.objectives.mlm import selected_cross_entropy
from engine.objectives.sampling import evaluating
from engine.shape import ModelConfig
from engine.tokenizer import EOS

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

LEAST = 1e-6  # similarity of what is not similar


class Pointer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        initialise(self, config.init_std)

    def forward(self, from_PXD: Tensor, to_PYD: Tensor, to_real_PY: Tensor) -> Tensor:
        """(P, X, Y) logits: -inf at what is no token of the other side."""
        logits_PXY = self.query(from_PXD) @ self.key(to_PYD).mT / math.sqrt(to_PYD.shape[-1])
        return at_least_fp32(logits_PXY).masked_fill(~to_real_PY[:, None], -math.inf)


def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    check_layer(objective.options.layer, model.encoder.config)
    own = {"dwa_pointer": Pointer(model.encoder.config)}
    return own | mlm_head(model, objective) if objective.options.tlm else own


@torch.no_grad()
def align(model: nn.Module, batch: Batch) -> None:
    """Leave in the batch, per side, the places of its tokens (flat, -1: none) and of each the one that it links to."""
    options, encoder = batch.objective.options, model.encoder
    unmasked = dataclasses.replace(batch, tokens=batch.original, extra={})
    with evaluating(encoder):
        states_BTD = unmasked.states(encoder, layers=options.layer)
    x_PX, y_PY = places(batch, side=0), places(batch, side=1)
    with torch.autocast(states_BTD.device.type, enabled=False):
        flat = at_least_fp32(states_BTD.flatten(0, 1))
        similarity_PXY = flat[x_PX.clamp(min=0)] @ flat[y_PY.clamp(min=0)].mT
        real_PXY = (x_PX >= 0)[:, :, None] & (y_PY >= 0)[:, None, :]
        pi_PXY = sinkhorn(similarity_PXY, real_PXY, options.sinkhorn)
    links_PXY = itermax(pi_PXY, real_PXY, options.alpha, options.rounds)
    selected = torch.cat([batch.fields.selected.flatten(), batch.selected.new_zeros(1).bool()])  # place -1: never
    batch.extra |= {"places0": x_PX, "places1": y_PY}
    batch.extra |= {"links0": last_link(links_PXY), "links1": last_link(links_PXY.mT)}
    for side in ("0", "1"):
        linked_PX = batch.extra[f"links{side}"] >= 0
        batch.extra[f"chosen{side}"] = linked_PX & selected[batch.extra[f"places{side}"]]


def places(batch: Batch, side: int) -> Tensor:
    """(P, X) flat places of the content tokens of one side of each pair, -1 after the last: specials link to nothing,
    <unk> is a word like others."""
    fields = batch.fields
    B, T = batch.tokens.shape
    item_BT = torch.arange(B, device=batch.row.device)[:, None] * T + fields.document
    pairs, number_BT = item_BT.masked_fill(fields.document < 0, -1).unique(return_inverse=True)
    padded = int(pairs[0] < 0)  # the first `pair` is what lies in none
    content_BT = (batch.original > EOS) & (fields.side == side) & (fields.document >= 0)
    place_N = content_BT.flatten().nonzero().squeeze(1)
    pair_N = number_BT.flatten()[place_N] - padded
    sizes_P = pair_N.bincount(minlength=len(pairs) - padded)
    before_N = (sizes_P.cumsum(0) - sizes_P)[pair_N]
    within_N = torch.arange(len(place_N), device=place_N.device) - before_N
    places_PX = place_N.new_full((len(sizes_P), max([1, *sizes_P.tolist()])), -1)
    places_PX[pair_N, within_N] = place_N
    return places_PX


def sinkhorn(similarity_PXY: Tensor, real_PXY: Tensor, rounds: int) -> Tensor:
    """(P, X, Y) of which every row sums to 1; 0 outside the sentences."""
    pi_PXY = torch.where(similarity_PXY > 0, similarity_PXY, LEAST) * real_PXY
    tiny = torch.finfo(pi_PXY.dtype).tiny
    for _ in range(rounds):
        pi_PXY = pi_PXY / pi_PXY.sum(1, keepdim=True).clamp(min=tiny)
        pi_PXY = pi_PXY / pi_PXY.sum(2, keepdim=True).clamp(min=tiny)
    return pi_PXY


def itermax(pi_PXY: Tensor, real_PXY: Tensor, alpha: float, rounds: int) -> Tensor:
    """(P, X, Y) bool: tokens that choose each other link; then, round by round, what is free on at least one side,
    where links between two free tokens count fully and others alpha."""
    links_PXY = mutual_best(pi_PXY, real_PXY)
    for _ in range(rounds - 1):
        free_X1 = real_PXY.any(2, keepdim=True) & ~links_PXY.any(2, keepdim=True)
        free_1Y = real_PXY.any(1, keepdim=True) & ~links_PXY.any(1, keepdim=True)
        sizes = real_PXY.any(2).sum(1).minimum(real_PXY.any(1).sum(1))[:, None, None]
        goes_on = (sizes > 2) & free_X1.any(1, keepdim=True) & free_1Y.any(2, keepdim=True)
        weight = (alpha * free_X1 + alpha * free_1Y).clamp(max=1.0)
        links_PXY = links_PXY | (mutual_best(pi_PXY * weight, real_PXY) & (free_X1 | free_1Y) & goes_on)
    return links_PXY


def mutual_best(values_PXY: Tensor, real_PXY: Tensor) -> Tensor:
    """(P, X, Y) bool: the row's largest value and the column's."""
    inside_PXY = values_PXY.masked_fill(~real_PXY, -1.0)
    of_row = torch.zeros_like(real_PXY).scatter_(2, inside_PXY.argmax(2, keepdim=True), True)
    of_column = torch.zeros_like(real_PXY).scatter_(1, inside_PXY.argmax(1, keepdim=True), True)
    return of_row & of_column & real_PXY


def last_link(links_PXY: Tensor) -> Tensor:
    """(P, X) the last of the tokens that each is linked to, -1: none."""
    numbers_Y = torch.arange(1, links_PXY.shape[2] + 1, device=links_PXY.device)
    return (links_PXY * numbers_Y).amax(2) - 1


def count(batch: Batch) -> dict[str, int]:
    masked = {"mlm": len(batch.targets)} if batch.objective.options.tlm else {}
    return masked | {"pointer": sum(int(batch.extra[f"chosen{side}"].sum()) for side in (0, 1))}


def dwa_loss(model: nn.Module, batch: Batch) -> Loss:
    flat = batch.states(model.encoder).flatten(0, 1)
    total, right, pointed = pointer_loss(model.dwa_pointer, flat, batch)
    sums = {"pointer": total}
    signals = {"pointer_accuracy": (right, pointed), "aligned": (pointed, len(batch.targets))}
    if batch.objective.options.tlm:
        sums["mlm"], correct = selected_cross_entropy(model, flat[batch.selected], batch.targets)
        signals["accuracy"] = (correct, len(batch.targets))
    return Loss(sums, signals)


def pointer_loss(pointer: Pointer, flat: Tensor, batch: Batch) -> tuple[Tensor, Number, int]:
    """Summed cross-entropy of both directions, right guesses, and how many pointed."""
    extra = batch.extra
    total, right, pointed = flat.new_zeros(()), 0.0, 0
    for own, other in ((0, 1), (1, 0)):
        to_PY = extra[f"places{other}"]
        logits_PXY = pointer(flat[extra[f"places{own}"].clamp(min=0)], flat[to_PY.clamp(min=0)], to_PY >= 0)
        logits_NY = logits_PXY[extra[f"chosen{own}"]]
        targets_N = extra[f"links{own}"][extra[f"chosen{own}"]]
        total = total + F.cross_entropy(logits_NY, targets_N, reduction="sum")
        right = right + (logits_NY.detach().argmax(1) == targets_N).sum()
        pointed += len(targets_N)
    return total, right, pointed


DWA = Objective(dwa_loss, modules=modules, training_only=("dwa_pointer",), prepare=align, count=count)
