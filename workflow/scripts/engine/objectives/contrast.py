"""Contrast of sentences with a momentum copy of the encoder and a queue (MoCo): what PPA and InfoXLM's XLCO share.

L = - log exp(q.k / t) / (exp(q.k / t) + sum_{n in queue} exp(q.n / t))

q is a sentence of side 0 under the encoder, k its translation, side 1, under the copy, which follows the encoder after
each optimiser step: k <- m k + (1 - m) q, projection included. The keys of a step enter the queue after its loss, all
of them in the order of (row, column): neither micro-batches nor ranks change what is compared with what.

Shapes: B rows, T tokens of a row, N sentences of the batch, D width of their vectors, K entries of the queue.
"""

import copy
import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError
from engine.attention_rules import own_side
from engine.dist import Ranks
from engine.model import Encoder
from engine.objectives.base import Batch, Number, columns_of_side
from engine.shape import ModelConfig
from engine.tokenizer import BOS, PAD

TIE = 1e-4  # by less than this nothing wins: at the start all sentences look alike, and rounding would decide


class KeyQueue(nn.Module):
    """The last keys, at first random unit vectors."""

    def __init__(self, width: int, entries: int):
        super().__init__()
        if entries < 1:
            raise UserError(f"options.queue: {entries} is not a number of keys; the least is 1")
        self.register_buffer("queue", F.normalize(torch.randn(entries, width), dim=1))  # (K, D)
        self.register_buffer("pointer", torch.zeros((), dtype=torch.int64))  # the oldest entry: the next to go

    @torch.no_grad()
    def enqueue(self, keys_ND: Tensor) -> None:
        """First in, first out. Of more keys than the queue holds, the last ones stay."""
        places_N = (self.pointer + torch.arange(len(keys_ND), device=keys_ND.device)) % len(self.queue)
        kept = slice(-len(self.queue), None)
        self.queue[places_N[kept]] = keys_ND[kept].to(self.queue.dtype)
        self.pointer.copy_((self.pointer + len(keys_ND)) % len(self.queue))


class MomentumContrast(KeyQueue):
    """The queue, the projection and the momentum copies; everything of a contrast but the encoder itself."""

    def __init__(self, encoder: Encoder, projection: nn.Module, width: int, entries: int):
        super().__init__(width, entries)
        self.projection = projection
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.key_projection = copy.deepcopy(projection).requires_grad_(False)

    def weights(self, encoder: Encoder) -> list[tuple[Tensor, Tensor]]:
        """(copy, original) of every weight."""
        copies = [*self.key_encoder.parameters(), *self.key_projection.parameters()]
        return list(zip(copies, [*encoder.parameters(), *self.projection.parameters()], strict=True))

    @torch.no_grad()
    def copy_from(self, encoder: Encoder) -> None:
        for key, query in self.weights(encoder):
            key.copy_(query)

    @torch.no_grad()
    def follow(self, encoder: Encoder, momentum: float) -> None:
        for key, query in self.weights(encoder):
            key.lerp_(query, 1 - momentum)

    def after_step(self, encoder: Encoder, batches: list[Batch], ranks: Ranks) -> None:
        self.follow(encoder, batches[0].objective.options.momentum)
        self.enqueue(gathered_keys(batches, ranks))


def info_nce(
    queries_ND: Tensor, keys_ND: Tensor, queue_KD: Tensor, temperature: float
) -> tuple[Tensor, dict[str, tuple[Number, Number]]]:
    """Summed loss of each query among its own key and the queue, and the signals; in fp32 at least."""
    with torch.autocast(queries_ND.device.type, enabled=False):
        queries_ND, keys_ND = queries_ND.to(queue_KD.dtype), keys_ND.to(queue_KD.dtype)
        positive_N = (queries_ND * keys_ND).sum(1) / temperature
        negative_NK = queries_ND @ queue_KD.T / temperature
        loss = (torch.logaddexp(positive_N, negative_NK.logsumexp(1)) - positive_N).sum()
    found = (positive_N > negative_NK.amax(1) + TIE).sum()
    cosine = F.cosine_similarity(queries_ND.detach(), keys_ND).sum()
    count = len(queries_ND)
    return loss, {"contrast_accuracy": (found, count), "positive_similarity": (cosine, count)}


def gathered_keys(batches: list[Batch], ranks: Ranks) -> Tensor:
    """The keys that `prepare` left in the batches of all ranks, by row and column."""
    keys_ND = ranks.gather(torch.cat([batch.extra["keys"] for batch in batches]))
    order_N = ranks.gather(torch.cat([batch.extra["key_order"] for batch in batches]))
    return keys_ND[order_N.argsort()]


def keep_keys(batch: Batch, keys_ND: Tensor) -> None:
    rows_N, columns_N = first_tokens(batch, side=1).unbind(1)
    batch.extra |= {"keys": keys_ND, "key_order": (batch.row[rows_N] << 32) | columns_N}


def fill_queue(
    contrast: KeyQueue, encode: Callable[[Batch], None], draw: Callable[[], list[Batch]], ranks: Ranks
) -> None:
    """Before the first step: as many keys as it holds."""
    filled = 0
    while filled < len(contrast.queue):
        batches = draw()
        with torch.no_grad():
            for batch in batches:
                encode(batch)
        keys_ND = gathered_keys(batches, ranks)
        contrast.enqueue(keys_ND)
        filled += len(keys_ND)


def first_tokens(batch: Batch, side: int) -> Tensor:
    """(N, 2) row and column of the <s> of each item's side, in the order of the items."""
    host = batch.host
    return batch.send(((host.original == BOS) & (host.fields.side == side) & (host.fields.document >= 0)).nonzero())


def sentences_alone(encoder: Encoder, batch: Batch) -> Tensor:
    """States (B, T, D) of the two sides, which do not see each other: each is a first sentence."""
    mask, position = batch.mask(own_side), batch.fields.position
    return encoder(batch.tokens, position, mask, sides_BT=None, languages_BT=batch.languages(encoder))


def side_alone(batch: Batch, side: int) -> Batch:
    """The tokens of one side, moved together to the left: sentences by themselves, so all of them are side 0."""
    twin = side_alone(batch.twin, side) if batch.twin else None
    fields = batch.fields
    order_BW, kept_BW = columns_of_side(batch, side)

    def pick(values_BT: Tensor, padding: int) -> Tensor:
        return values_BT.gather(1, order_BW).masked_fill(~kept_BW, padding)

    padding = {"document": -1, "side": 0, "selected": 0, "position": PAD, "language": 0}
    picked = fields._replace(**{name: pick(getattr(fields, name), value) for name, value in padding.items()})
    return dataclasses.replace(
        batch,
        tokens=pick(batch.tokens, PAD),
        original=pick(batch.original, PAD),
        fields=picked._replace(side=torch.zeros_like(picked.side)),
        offset=pick(batch.offset, 0),
        key=pick(batch.key, 0),
        twin=twin,
        extra={},
    )


def check_layer(layer: int, config: ModelConfig) -> None:
    if not 0 <= layer <= config.layers:
        raise UserError(
            f"options.layer: the model has layers 0 (the embeddings) to {config.layers}, but {layer} is asked for"
        )
