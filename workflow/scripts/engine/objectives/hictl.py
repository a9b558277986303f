"""Hierarchical contrast (HICTL): of sentences with sentences and with words, beside masked language modelling.

Sentences, both directions: - log exp(q.k / t) / (exp(q.k / t) + sum_n exp(q.n' / t)), q and k the <s> states of a pair,
normalised. A negative n that is farther from q than k is drawn towards q, never nearer than k:
n' = q + l (n - q), l = (|q - k| / |q - n|) ^ (0.9 p), p the running mean of exp(- this loss): the better the model, the
harder the negatives. For unit vectors q.n' = 1 - l (1 - q.n).

Words: - mean over the distinct words w of the sentence of log exp(q.e_w / t) / (exp(q.e_w / t) + sum_v exp(q.e_v / t)),
e normalised rows of the token table, v drawn evenly from all other pieces.

Negatives are the other pairs of the step, on all ranks, or a queue; either way no gradient flows into them. Ours where
the paper is not at hand: cosine, even sampling, one temperature, p decayed by 0.99 (the paper: the last 100 steps).

Shapes: N pairs of the batch, M pairs to compare with, X words of the longest sentence, S sampled words, D width.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.attention_rules import own_side
from engine.dist import Ranks
from engine.model import at_least_fp32
from engine.objectives.base import Batch, Loss, Number, Objective, mlm_head
from engine.objectives.contrast import (
    TIE,
    KeyQueue,
    fill_queue,
    first_tokens,
    gathered_keys,
    keep_keys,
    sentences_alone,
)
from engine.objectives.dwa import places
from engine.objectives.mlm import selected_cross_entropy
from engine.randomness import mix, stable_hash
from engine.tokenizer import FIRST_PIECE

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

SLACK = 0.9  # zeta of the paper
DECAY = 0.99
NEVER = -1e4  # logit of what is no negative; finite, so that a sentence without negatives gives no NaN


class HictlContrast(nn.Module):
    def __init__(self, width: int, entries: int):
        super().__init__()
        self.register_buffer("probability", torch.zeros(()))  # p
        self.memory = KeyQueue(2 * width, entries) if entries else None  # of both sides of a pair


def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    contrast = HictlContrast(model.encoder.config.width, objective.options.queue)
    return {"hictl_contrast": contrast} | mlm_head(model, objective)


def start(model: nn.Module, objective: "ObjectiveConfig", draw: Callable[[], list[Batch]], ranks: Ranks) -> None:
    if model.hictl_contrast.memory:
        fill_queue(model.hictl_contrast.memory, partial(encode, model), draw, ranks)


def encode(model: nn.Module, batch: Batch) -> None:
    keep_keys(batch, vectors(sentences_alone(model.encoder, batch), batch).flatten(1))


def vectors(states_BTD: Tensor, batch: Batch) -> Tensor:
    """(N, 2, D) normalised <s> of the two sides of each pair."""
    sides = [states_BTD[first_tokens(batch, side).unbind(1)] for side in (0, 1)]
    return F.normalize(at_least_fp32(torch.stack(sides, 1)), dim=-1)


def prepare(model: nn.Module, batch: Batch) -> None:
    if not model.hictl_contrast.memory:
        encode(model, batch)


def meet(model: nn.Module, batches: list[Batch], ranks: Ranks) -> None:
    """Show every batch the pairs of all others, and which of them are its own."""
    if model.hictl_contrast.memory:
        return
    keys_M2D = gathered_keys(batches, ranks).unflatten(1, (2, -1))
    order_M = ranks.gather(torch.cat([batch.extra["key_order"] for batch in batches])).sort().values
    for batch in batches:
        batch.extra |= {"others": keys_M2D, "own": torch.searchsorted(order_M, batch.extra["key_order"])}


def count(batch: Batch) -> dict[str, int]:
    pairs = len(first_tokens(batch, side=0))
    with_words = sum(int(bag(batch, side)[1].any(1).sum()) for side in (0, 1))
    return {"mlm": len(batch.targets), "sentences": 2 * pairs, "words": with_words}


def hictl_loss(model: nn.Module, batch: Batch) -> Loss:
    contrast = model.hictl_contrast
    states_BTD = sentences_alone(model.encoder, batch)
    masked, correct = selected_cross_entropy(model, states_BTD.flatten(0, 1)[batch.selected], batch.targets)
    with torch.autocast(states_BTD.device.type, enabled=False):
        vectors_N2D = vectors(states_BTD, batch)
        if contrast.memory:
            keep_keys(batch, vectors_N2D.detach().flatten(1))
            others_M2D, own_N = contrast.memory.queue.unflatten(1, (2, -1)), None
        else:
            others_M2D, own_N = batch.extra["others"], batch.extra["own"]
        sentences, found = sentence_contrast(vectors_N2D, others_M2D, own_N, contrast.probability, batch)
        words, found_words, all_words = word_contrast(model.encoder.tokens.weight, vectors_N2D, batch)
    pairs = len(vectors_N2D)
    batch.extra["sentence_loss"] = torch.stack([sentences.detach(), sentences.new_tensor(2.0 * pairs)])
    cosine = (vectors_N2D[:, 0] * vectors_N2D[:, 1]).sum().detach()
    signals = {"accuracy": (correct, len(batch.targets)), "contrast_accuracy": (found, 2 * pairs)}
    signals |= {"word_accuracy": (found_words, all_words), "positive_similarity": (cosine, pairs)}
    return Loss({"mlm": masked, "sentences": sentences, "words": words}, signals)


def sentence_contrast(
    vectors_N2D: Tensor, others_M2D: Tensor, own_N: Tensor | None, probability: Tensor, batch: Batch
) -> tuple[Tensor, Number]:
    """Summed loss of both directions, and how many find their translation among the undisplaced negatives."""
    temperature = batch.objective.options.temperature
    total, found = vectors_N2D.new_zeros(()), 0.0
    for side in (0, 1):
        queries_ND, keys_ND = vectors_N2D[:, side], vectors_N2D[:, 1 - side]
        positive_N1 = (queries_ND * keys_ND).sum(1, keepdim=True)
        negative_NM = queries_ND @ others_M2D[:, 1 - side].to(queries_ND.dtype).T
        harder_NM = drawn_near(positive_N1, negative_NM, probability)
        if own_N is not None:
            own_NM = F.one_hot(own_N, len(others_M2D)).bool()
            harder_NM, negative_NM = harder_NM.masked_fill(own_NM, NEVER), negative_NM.masked_fill(own_NM, NEVER)
        logits_N = torch.logaddexp(positive_N1[:, 0] / temperature, (harder_NM / temperature).logsumexp(1))
        total = total + (logits_N - positive_N1[:, 0] / temperature).sum()
        found = found + (positive_N1 > negative_NM + TIE).all(1).sum()
    return total, found


def drawn_near(positive_N1: Tensor, negative_NM: Tensor, probability: Tensor) -> Tensor:
    """Cosines of the negatives after they were drawn towards the query."""
    with torch.no_grad():
        near_N1, far_NM = ((1 - cosine).clamp(min=1e-9).sqrt() for cosine in (positive_N1, negative_NM))
        share_NM = (near_N1 / far_NM).clamp(max=1.0) ** (SLACK * probability)
    return 1 - share_NM * (1 - negative_NM)


def bag(batch: Batch, side: int) -> tuple[Tensor, Tensor]:
    """(N, X) the words of one side of each pair, and which of them to count: each distinct piece once."""
    places_NX = places(batch, side)
    words_NX = batch.original.flatten()[places_NX.clamp(min=0)].masked_fill(places_NX < 0, -1)
    equal_NXX = words_NX[:, :, None] == words_NX[:, None, :]
    return words_NX, (words_NX >= FIRST_PIECE) & ~equal_NXX.tril(-1).any(2)


def word_contrast(table_VD: Tensor, vectors_N2D: Tensor, batch: Batch) -> tuple[Tensor, Number, Number]:
    """Summed loss over sentences, words that are nearer than every sampled one, and all words."""
    temperature = batch.objective.options.temperature
    total, found, words = vectors_N2D.new_zeros(()), 0.0, 0
    for side in (0, 1):
        queries_ND1 = vectors_N2D[:, side, :, None]
        words_NX, counted_NX = bag(batch, side)
        sampled_NS = sampled_words(batch, side, len(table_VD))
        own_NX = (unit_rows(table_VD, words_NX.clamp(min=0)) @ queries_ND1)[:, :, 0] / temperature
        other_NS = (unit_rows(table_VD, sampled_NS) @ queries_ND1)[:, :, 0] / temperature
        other_NS = other_NS.masked_fill((sampled_NS[:, :, None] == words_NX[:, None, :]).any(2), NEVER)
        losses_NX = (torch.logaddexp(own_NX, other_NS.logsumexp(1, keepdim=True)) - own_NX) * counted_NX
        total = total + (losses_NX.sum(1) / counted_NX.sum(1).clamp(min=1)).sum()
        found = found + ((own_NX > other_NS.amax(1, keepdim=True) + TIE) & counted_NX).sum()
        words = words + counted_NX.sum()
    return total, found, words


def unit_rows(table_VD: Tensor, ids: Tensor) -> Tensor:
    return F.normalize(F.embedding(ids, table_VD), dim=-1)


def sampled_words(batch: Batch, side: int, vocabulary: int) -> Tensor:
    """(N, S) ordinary pieces, a function of the pair's key alone."""
    rows_N, columns_N = first_tokens(batch.host, side=0).unbind(1)
    keys_N = batch.host.key[rows_N, columns_N].numpy().view(np.uint64)
    keys_N = mix(keys_N ^ np.uint64(stable_hash(batch.objective.draws_as, "words", side)))
    numbers_S = np.arange(batch.objective.options.negatives).astype(np.uint64)
    pieces = vocabulary - 1 - FIRST_PIECE
    drawn_NS = FIRST_PIECE + (mix(keys_N[:, None] + numbers_S) % np.uint64(pieces)).astype(np.int64)
    return batch.send(torch.from_numpy(drawn_NS))


def after_step(model: nn.Module, batches: list[Batch], ranks: Ranks) -> None:
    contrast = model.hictl_contrast
    total, sentences = ranks.sum(torch.stack([batch.extra["sentence_loss"] for batch in batches]).sum(0).tolist())
    contrast.probability.lerp_(contrast.probability.new_tensor(math.exp(-total / sentences)), 1 - DECAY)
    if contrast.memory:
        contrast.memory.enqueue(gathered_keys(batches, ranks))


HICTL = Objective(
    hictl_loss,
    rule=own_side,
    modules=modules,
    training_only=("hictl_contrast",),
    prepare=prepare,
    meet=meet,
    count=count,
    start=start,
    after_step=after_step,
)
