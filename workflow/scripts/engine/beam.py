"""Beam search for the most likely translations, with the keys and values of what was said before kept.

score(y) = log p(y | x) / |y|^penalty, |y| with the end; a hypothesis is finished where its end is among the `beam` best
continuations, a sentence where `beam` of its hypotheses are. So a beam of one is the greedy search. Of equal scores the
better hypothesis so far comes first, then the smaller token id.

The hypotheses of a sentence read the same source: there they are the K queries of one sentence, and neither its states
nor their keys and values are held K times.

Shapes: B sentences, K hypotheses of each, N = B K rows, S tokens of a source, T of a target so far, D width, H heads,
V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from common.errors import UserError
from engine.assembly import Seq2Seq
from engine.model import FIRST_POSITION, Block, CrossAttention, heads_of
from engine.rows import ordered_batches, pad
from engine.tokenizer import BOS, EOS, PAD

NEVER_SAID = (BOS, PAD)  # and the last id, <mask>


class Hypothesis(NamedTuple):
    tokens: list[int]  # without start and end
    score: float


@dataclass
class Past:
    """Keys and values of each decoder block: of the target so far, and of the source, which stay."""

    own: list[tuple[Tensor, Tensor]]  # (N, H, T, D / H) each
    source: list[tuple[Tensor, Tensor]]  # (B, H, S, D / H) each
    real_BS: Tensor

    def select(self, sentences: list[int], rows_N: Tensor) -> "Past":
        """Of these sentences, and of these rows, which are theirs."""
        own = [(k[rows_N], v[rows_N]) for k, v in self.own]
        if len(sentences) == len(self.real_BS):
            return Past(own, self.source, self.real_BS)
        return Past(own, [(k[sentences], v[sentences]) for k, v in self.source], self.real_BS[sentences])


def start_past(model: Seq2Seq, source_BS: Tensor, real_BS: Tensor, beam: int = 1) -> Past:
    memory_BSD = model.encoder(source_BS, mask=real_BS)
    cross = model.decoder.cross_attention
    source = [heads_of(one.key_value(memory_BSD), 2, one.heads) for one in cross]
    nothing = source[0][0][:, :, :0].repeat(beam, 1, 1, 1)
    return Past([(nothing, nothing)] * len(source), source, real_BS)


def next_scores(model: Seq2Seq, last_N: Tensor, past: Past) -> Tensor:
    """(N, V) log-probabilities of what follows; `past` grows by the last token."""
    positions_N1 = torch.full((len(last_N), 1), FIRST_POSITION + past.own[0][0].shape[2], device=last_N.device)
    x_N1D = model.encoder.embed(last_N[:, None], positions_N1)
    mask = past.real_BS[:, None, None, :]
    for layer, (block, cross) in enumerate(zip(model.decoder.blocks, model.decoder.cross_attention, strict=True)):
        x_N1D, past.own[layer] = attend_to_own(block, x_N1D, *past.own[layer])
        x_N1D = block.feed_forward(attend_to_source(cross, x_N1D, *past.source[layer], mask))
    scores_NV = F.log_softmax(model.logits(x_N1D[:, 0]).float(), dim=-1)
    if scores_NV.isnan().any():
        raise UserError("the model: NaN or infinity in its scores; nothing can be translated with it, train it again")
    scores_NV[:, [*NEVER_SAID, scores_NV.shape[1] - 1]] = -torch.inf
    return scores_NV


def attend_to_own(block: Block, x_N1D: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    query, key, value = heads_of(block.attention.query_key_value(x_N1D), 3, block.attention.heads)
    k, v = torch.cat([k, key], 2), torch.cat([v, value], 2)
    mixed = F.scaled_dot_product_attention(query, k, v).transpose(1, 2).flatten(2)
    return block.attention_norm(x_N1D, block.attention.output(mixed)), (k, v)


def attend_to_source(cross: CrossAttention, x_N1D: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    x_BKD = x_N1D.view(len(k), -1, x_N1D.shape[2])
    [query] = heads_of(cross.query(x_BKD), 1, cross.heads)
    mixed = F.scaled_dot_product_attention(query, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
    return cross.norm(x_BKD, cross.output(mixed)).view_as(x_N1D)


def best_of(scores_BC: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of each row and their places; of equal ones the first, which `topk` leaves open."""
    values, places = scores_BC.topk(min(count + 1, scores_BC.shape[1]))
    cut_B = (values[:, count - 1] == values[:, -1]) & values[:, -1].isfinite()  # the count ends among equal ones
    values, places = values[:, :count], places[:, :count]
    places, order = places.sort()
    values, order = values.gather(1, order).sort(descending=True, stable=True)
    places = places.gather(1, order)
    for b in cut_B.nonzero().flatten().tolist():
        everything, order = scores_BC[b].sort(descending=True, stable=True)
        values[b], places[b] = everything[:count], order[:count]
    return values, places


@torch.inference_mode()
def beam_search(
    model: Seq2Seq, source_BS: Tensor, real_BS: Tensor, limits: Sequence[int], beam: int, penalty: float
) -> list[list[Hypothesis]]:
    """Finished hypotheses of each sentence, the best first; none has more tokens than its sentence's limit."""
    model.eval()
    if model.encoder.config.relative_bias:
        raise UserError("model.relative_bias: translation keeps no distances; train the decoder without it")
    if model.encoder.config.languages:
        raise UserError("model.languages: translation tells no language of a token; train the decoder without it")
    device, vocabulary = source_BS.device, model.encoder.config.vocabulary
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # those that still go on, `beam` rows each
    past = start_past(model, source_BS, real_BS, beam)
    said_NT = torch.full((len(limits) * beam, 1), EOS, device=device)  # the end of the sentence before
    is_end_V = torch.arange(vocabulary, device=device) == EOS
    alive_BK = torch.full((len(limits), beam), -torch.inf, device=device)
    alive_BK[:, 0] = 0.0
    while sentences:
        length = said_NT.shape[1]  # of what is said with the next token, the end included
        scores_BKV = next_scores(model, said_NT[:, -1], past).view(len(sentences), beam, vocabulary)
        scores_BKV += alive_BK[:, :, None]
        full = [limits[s] < length for s in sentences]
        if any(full):
            scores_BKV.masked_fill_(torch.tensor(full, device=device)[:, None, None] & ~is_end_V, -torch.inf)
        best = best_of(scores_BKV.flatten(1), min(2 * beam, beam * vocabulary))
        going_on, kept_rows, kept_tokens, kept_scores = [], [], [], []
        for b, (scores, places) in enumerate(zip(*(part.tolist() for part in best), strict=True)):
            own = []
            for rank, (score, place) in enumerate(zip(scores, places, strict=True)):
                row, token = b * beam + place // vocabulary, place % vocabulary
                if score == -torch.inf:
                    break
                if token != EOS:
                    own.append((row, token, score))
                elif rank < beam:
                    tokens = said_NT[row, 1:].tolist()
                    finished[sentences[b]].append(Hypothesis(tokens, score / length**penalty))
            if len(finished[sentences[b]]) >= beam or not own:
                continue
            own = own[:beam]
            going_on.append(b)
            own += [(*own[0][:2], -torch.inf)] * (beam - len(own))
            for row, token, score in own:
                kept_rows.append(row)
                kept_tokens.append(token)
                kept_scores.append(score)
        sentences = [sentences[b] for b in going_on]
        if sentences:
            rows = torch.tensor(kept_rows, device=device)
            past = past.select(going_on, rows)
            said_NT = torch.cat([said_NT[rows], torch.tensor(kept_tokens, device=device)[:, None]], 1)
            alive_BK = torch.tensor(kept_scores, device=device).view(len(sentences), beam)
    return [sorted(own, key=lambda one: -one.score) for own in finished]


def translate_rows(
    model: Seq2Seq,
    rows: Sequence[Sequence[int]],
    beam: int = 5,
    penalty: float = 1.0,
    batch_rows: int = 64,
    most: float = 2.0,
    extra: int = 10,
    device: str = "cpu",
) -> list[list[int]]:
    """The best translation of each row, at most `most` times as long and `extra` tokens, nor longer than the model."""
    longest = model.encoder.config.positions - FIRST_POSITION - 1
    found: list[list[int]] = [[] for _ in rows]
    for batch in ordered_batches([len(row) for row in rows], batch_rows):
        source_BS, real_BS = pad([rows[i] for i in batch], device)
        limits = [min(longest, int(most * len(rows[i])) + extra) for i in batch]
        for i, hypotheses in zip(batch, beam_search(model, source_BS, real_BS, limits, beam, penalty), strict=True):
            found[i] = hypotheses[0].tokens
    return found
