"""From a damaged text to the text: denoising (mBART) and span corruption (mT5), an encoder and a decoder on one text.

L = - sum_t log p(y_t | y_1 ... y_{t-1}, source)

denoising   source   the sentences in another order, 35 % of the tokens gone in spans of Poisson(3.5) tokens, each of
                     which leaves one <mask>; then the language's tag
            target   the tag, the text, the tag
spans       source   the text, 15 % of the tokens gone in spans of 3 on average, each of which leaves a sentinel
            target   the sentinel and the tokens of each span

The decoder reads the target up to a token and predicts the next one. In denoising a span of length 0 puts a mask in, as
in BART, and the marks </s> between sentences stay; for spans they are tokens like others.

XLM-R's vocabulary has no tags and no sentinels. A tag is <s> and the k-th sentinel is <mask>, with a learned vector of
the language or of k added where it is read. Where it is predicted it is <s> or <mask> alone: the language is known, and
sentinels come in order.

Shapes: I items (texts), B rows, S tokens of the sources of a row, T of the targets, D width.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from engine.attention_rules import Tokens, full, own_side_so_far
from engine.data import Rows
from engine.model import FIRST_POSITION, Decoder
from engine.objectives.base import Batch, Loss, Objective, columns_of_side, mlm_head
from engine.objectives.mlm import selected_cross_entropy
from engine.ragged import ramp
from engine.randomness import mix, stable_hash, uniform
from engine.streams import language_codes
from engine.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

START, END = -1, np.iinfo(np.int64).max  # places before and behind a text
LONGEST_SPAN = 64  # the Poisson distribution is cut off here


# The noise, in NumPy. Arrays over the tokens of all texts, one text after the other, are flat.


class Texts(NamedTuple):
    """The items of some rows: each text lies there twice, as side 0 and as side 1."""

    source: np.ndarray  # (I,) first place of side 0 in the flat rows
    target: np.ndarray  # (I,) of side 1
    room: np.ndarray  # (I,) tokens of a side
    key: np.ndarray  # (I,) uint64, for the random choices about an item

    def draw(self, purpose: str) -> np.ndarray:
        return mix(self.key ^ np.uint64(stable_hash(purpose)))

    def draws(self, size: np.ndarray, purpose: str) -> np.ndarray:
        """`size` random numbers for each text, flat."""
        return mix(np.repeat(self.draw(purpose), size) + mix(ramp(size).astype(np.uint64)))


def find_texts(rows: Rows) -> Texts:
    first = np.flatnonzero((rows.position == FIRST_POSITION) & (rows.document >= 0))
    source, target = first[::2], first[1::2]
    return Texts(source, target, target - source, rows.key.reshape(-1)[source])


def denoising_rows(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """(R, T) what encoder and decoder see, (R, T) where the decoder predicts; its targets go into rows.tokens."""
    options, seen = objective.options, rows.tokens.copy()
    texts = find_texts(rows)
    size = texts.room - 1  # <s> is the tag
    item = np.repeat(np.arange(len(size)), size)
    tokens = seen.reshape(-1)[np.repeat(texts.target + 1, size) + ramp(size)]
    if options.permute:
        tokens = tokens[sentences_shuffled(tokens, item, texts)]
    ordinary = np.flatnonzero(tokens != EOS)
    count = np.bincount(item[ordinary], minlength=len(size))
    mask_item, mask_start, kept = spans_out(count, options.removed_share, options.span, texts)
    # a mask stands before the first token that it replaces; one behind all tokens, after the last of them
    behind = mask_start == np.cumsum(count)[mask_item]
    mask_place = 2 * ordinary[mask_start - behind] + 2 * behind
    stays = tokens == EOS
    stays[ordinary[kept]] = True
    write(
        *(rows, seen, texts.source, texts.room),
        (item[stays], 2 * np.flatnonzero(stays) + 1, tokens[stays]),
        (mask_item, mask_place, vocabulary - 1),
        (np.arange(len(size)), END, BOS),
    )
    return seen, predict_next(rows, seen, texts.target, texts.room, BOS)


def sentences_shuffled(tokens: np.ndarray, item: np.ndarray, texts: Texts) -> np.ndarray:
    """Order of the tokens with the sentences of each text in a random one."""
    closes = tokens == EOS
    sentence = np.cumsum(closes) - closes
    sentences = np.bincount(item[closes], minlength=len(texts.key))
    draw = texts.draws(sentences, "order of sentences")
    return np.lexsort((np.arange(len(tokens)), sentence, draw[sentence], item))


def spans_out(count: np.ndarray, share: float, mean: float, texts: Texts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For texts of `count` tokens: the text and the first token of each span that goes, and the tokens that stay.

    Tokens are numbered through all texts. Spans lie anywhere, and do not overlap.
    """
    gone = np.floor(share * count + uniform(texts.draw("tokens to go")))
    gone = np.minimum(np.maximum(gone, 1), count).astype(np.int64)
    lengths, used = span_lengths(gone, mean, texts)
    spans = used.sum(1)
    slots = count - gone + spans  # a token that stays, or a span
    rank = ranks(slots, texts.draws(slots, "places of spans"))
    item = np.repeat(np.arange(len(count)), slots)
    is_span = rank < spans[item]
    takes = np.ones(len(rank), np.int64)
    takes[is_span] = lengths[used][(np.cumsum(spans) - spans)[item[is_span]] + rank[is_span]]
    start = np.cumsum(takes) - takes
    return item[is_span], start[is_span], start[~is_span]


def span_lengths(gone: np.ndarray, mean: float, texts: Texts) -> tuple[np.ndarray, np.ndarray]:
    """(I, spans) Poisson lengths of each text and which of them are used: those until `gone` tokens are covered, the
    last one cut. Of lengths 0 only so many that a text does not grow."""
    most = int(gone.max(initial=0)) + 16
    u = uniform(texts.draws(np.full(len(gone), most), "lengths of spans")).reshape(len(gone), most)
    lengths = np.searchsorted(poisson(mean), u, side="right")
    lengths[:, -1] = gone  # if all draws together should not be enough
    before = np.cumsum(lengths, 1) - lengths
    used = before < gone[:, None]
    lengths = np.minimum(lengths, np.maximum(gone[:, None] - before, 0))
    empty = used & (lengths == 0)
    room = gone - (used & ~empty).sum(1)
    return lengths, used & ~(empty & (np.cumsum(empty, 1) > room[:, None]))


def poisson(mean: float) -> np.ndarray:
    """P(length <= 0, 1, 2, ...)."""
    steps = np.concatenate([[1.0], mean / np.arange(1, LONGEST_SPAN)])
    return np.minimum(np.cumsum(np.cumprod(steps) * np.exp(-mean)), 1.0)


def span_rows(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """As denoising_rows."""
    options, seen = objective.options, rows.tokens.copy()
    texts = find_texts(rows)
    size, every = texts.room - 2, np.arange(len(texts.room))  # <s> and the last </s> stay
    item, tokens = np.repeat(every, size), seen.reshape(-1)[np.repeat(texts.target + 1, size) + ramp(size)]
    gone, opens = span_noise(size, options.removed_share, options.span, texts)
    place = 2 * np.arange(len(tokens)) + 1
    sentinels = (item[opens], place[opens] - 1, vocabulary - 1)
    begin = (every, START, BOS)
    stay, go = ((item[part], place[part], tokens[part]) for part in (~gone, gone))
    write(rows, seen, texts.source, texts.room, begin, stay, sentinels, (every, END, EOS))
    predicted = write(rows, seen, texts.target, texts.room, begin, sentinels, go)
    return seen, predict_next(rows, seen, texts.target, predicted, EOS)


def span_noise(size: np.ndarray, share: float, mean: float, texts: Texts) -> tuple[np.ndarray, np.ndarray]:
    """Flat, T5's: which tokens go, and which of these open a span. What stays and what goes are each cut at random into
    as many parts, which take turns; a text begins with a part that stays."""
    gone = np.minimum(np.clip(np.rint(share * size), 1, np.maximum(size - 1, 1)), size).astype(np.int64)
    spans = np.clip(np.rint(gone / mean), 1, np.maximum(size - gone, 1)).astype(np.int64)
    part = [parts_of(size - gone, spans, texts, "parts that stay"), parts_of(gone, spans, texts, "parts that go")]
    item = [np.repeat(np.arange(len(size)), own) for own in (size - gone, gone)]
    goes = np.repeat([False, True], [len(part[0]), len(part[1])])
    order = np.lexsort((goes, np.concatenate(part), np.concatenate(item)))
    goes = goes[order]
    return goes, goes & ~(np.append(False, goes[:-1]) & (ramp(size) > 0))


def parts_of(size: np.ndarray, parts: np.ndarray, texts: Texts, purpose: str) -> np.ndarray:
    """Flat: the part of each of `size` tokens, cut into so many parts at random, none of them empty."""
    draws = texts.draws(size, purpose)
    draws[ramp(size) == 0] = np.iinfo(np.uint64).max  # before the first token there is no cut
    cuts = np.cumsum(ranks(size, draws) < np.repeat(parts - 1, size))
    return cuts - np.repeat(np.append(0, cuts)[np.cumsum(size) - size], size)


def ranks(size: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Flat: how many of the `size` draws of the text are smaller."""
    rank = np.empty(len(draws), np.int64)
    rank[np.lexsort((draws, np.repeat(np.arange(len(size)), size)))] = ramp(size)
    return rank


def write(rows: Rows, seen: np.ndarray, start: np.ndarray, room: np.ndarray, *parts: tuple) -> np.ndarray:
    """One side of each text anew: parts of (text, place, token) in the order of their places, then holes. Returns its
    (I,) lengths."""
    item = np.concatenate([part[0] for part in parts])
    place = np.concatenate([np.broadcast_to(part[1], part[0].shape) for part in parts])
    token = np.concatenate([np.broadcast_to(part[2], part[0].shape) for part in parts])
    size = np.bincount(item, minlength=len(start))
    assert (size <= room).all()
    at, everywhere = np.repeat(start, size) + ramp(size), np.repeat(start, room) + ramp(room)
    document = rows.document.reshape(-1)[start]
    for array, hole, values in (
        (seen, PAD, token[np.lexsort((place, item))]),
        (rows.document, -1, np.repeat(document, size)),
        (rows.position, PAD, FIRST_POSITION + ramp(size)),
    ):
        array.reshape(-1)[everywhere] = hole
        array.reshape(-1)[at] = values
    return size


def predict_next(rows: Rows, seen: np.ndarray, start: np.ndarray, size: np.ndarray, end: int) -> np.ndarray:
    """Each token of the target predicts the one behind it, the last one `end`; (R, T) bool, where that is."""
    at = np.repeat(start, size) + ramp(size)
    following = np.append(seen.reshape(-1)[at][1:], end)
    following[np.cumsum(size) - 1] = end
    rows.tokens.reshape(-1)[at] = following
    predicts = np.zeros(seen.size, bool)
    predicts[at] = True
    return predicts.reshape(seen.shape)


# The network, in torch.


class Side(NamedTuple):
    tokens: Tensor  # (B, S)
    targets: Tensor
    fields: Tokens


def tokens_of_side(batch: Batch, side: int) -> Side:
    """That side of all items of each row, moved together: encoder and decoder each run over their own tokens alone."""
    order_BW, kept_BW = columns_of_side(batch, side)
    outside = ~kept_BW
    fields = Tokens(*(field.gather(1, order_BW) for field in batch.fields))
    fields = fields._replace(
        document=fields.document.masked_fill(outside, -1),
        position=fields.position.masked_fill(outside, PAD),
    )
    tokens_BW = batch.tokens.gather(1, order_BW).masked_fill(outside, PAD)
    return Side(tokens_BW, batch.original.gather(1, order_BW), fields)


def predicting_states(
    model: nn.Module, batch: Batch, inputs: Callable[[Side], dict[str, Tensor | None]]
) -> tuple[Tensor, Tensor]:
    """The decoder's states (N, D) of the target tokens that predict, and what they are to predict (N,).

    `inputs` are what the embeddings of a side are told besides tokens and positions."""
    encoder, source, target = model.encoder, tokens_of_side(batch, 0), tokens_of_side(batch, 1)
    memory_BSD = encoder(source.tokens, source.fields.position, batch.mask(full, source.fields), **inputs(source))
    states_BTD = model.decoder(
        encoder.embed(target.tokens, target.fields.position, **inputs(target)),
        target.fields.position,
        memory_BSD,
        batch.mask(own_side_so_far, target.fields),
        batch.mask(full, target.fields, source.fields),
    )
    predicts_N = batch.places((tokens_of_side(batch.twin, 1) if batch.twin else target).fields.selected)
    return states_BTD.flatten(0, 1)[predicts_N], target.targets.flatten()[predicts_N]


def seq2seq_loss(model: nn.Module, batch: Batch, marks: Callable[[nn.Module, Side], Tensor]) -> Loss:
    def inputs(side: Side) -> dict[str, Tensor | None]:
        language = side.fields.language if model.encoder.config.languages else None
        return {"sides_BT": side.fields.side, "languages_BT": language, "added_BTD": marks(model, side)}

    total, correct = selected_cross_entropy(model, *predicting_states(model, batch, inputs))
    return Loss({"loss": total}, {"accuracy": (correct, len(batch.targets))})


def tag_vectors(model: nn.Module, side: Side) -> Tensor:
    """(B, T, D), zero but at the tags."""
    return model.tags(side.fields.language.long()) * (side.tokens == BOS)[..., None]


def sentinel_vectors(model: nn.Module, side: Side) -> Tensor:
    """(B, T, D), zero but at the sentinels."""
    is_sentinel = side.tokens == model.encoder.config.vocabulary - 1
    return model.sentinels(sentinel_numbers(is_sentinel, side.fields.position)) * is_sentinel[..., None]


def sentinel_numbers(is_sentinel_BT: Tensor, position_BT: Tensor) -> Tensor:
    """How many came before it in its item; items begin at the first position."""
    count = is_sentinel_BT.cumsum(1)
    before_item = torch.where(position_BT == FIRST_POSITION, count - is_sentinel_BT.long(), 0).cummax(1).values
    return (count - before_item - 1).clamp(min=0)


def decoder_and_head(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    return mlm_head(model, objective) | {"decoder": Decoder(model.encoder.config, objective.options.decoder_layers)}


def vectors(model: nn.Module, number: int) -> nn.Embedding:
    table = nn.Embedding(number, model.encoder.config.width)
    nn.init.normal_(table.weight, std=model.encoder.config.init_std)
    return table


def denoising_modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    tags = vectors(model, len(language_codes(objective.sources)))
    return decoder_and_head(model, objective) | {"tags": tags}


def span_modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    config, options = model.encoder.config, objective.options
    most = int(config.positions * options.removed_share / options.span) + 1  # spans of the longest text
    return decoder_and_head(model, objective) | {"sentinels": vectors(model, most)}


DENOISING = Objective(partial(seq2seq_loss, marks=tag_vectors), modules=denoising_modules, corrupt=denoising_rows)
SPANS = Objective(partial(seq2seq_loss, marks=sentinel_vectors), modules=span_modules, corrupt=span_rows)
