"""From shards to the rows of one training step, the same for any number of ranks, workers and interruptions.

1. A Stream walks one language or one language pair, in a new seeded order each epoch. Its place is three integers.
2. A Mixture draws streams with the probabilities q of the sampling plan. Step s draws the same items whoever asks.
3. Packing lays items into rows (first the longest); what finds no room waits for the next step.
4. Assembly turns the items of the rows that this rank owns into arrays.

What an item is, and how its sentences lie in it, is its form; a form is one `lay_` function that lists the pieces of
items, and an entry in FORMS. No item is longer than block_length tokens, marks included.

Text of one language, s1, s2, ... consecutive sentences, as many as fit (and at most block_sentences, where that is set;
a sentence is a line of the text):

    blocks          <s> s1 </s> s2 </s> s3 </s>
    placeholders    <s> s1 </s> s2 </s> </s> ? ? </s>
                                                   a block, and as side 1 slots that hold <pad> until they are filled:
                                                   reserved_share of the block's tokens, at least one
    twice           <s> s1 </s> s2 </s> <s> s1 </s> s2 </s>
                                                   a block of at most half the length, as side 0 and as side 1
    segments        <s> s1 </s> s2 </s> <s> s3 </s>
                                                   sentences of one document, cut into two sides at the sentence's end
                                                   that is nearest the middle
    next-sentences  <s> s1 </s> s2 </s> s3 </s>    the same without a second <s>; in half of the items (by chance) the
                                                   second side is that of another item

Translation pairs (x, y), (x', y'):

    pairs           <s> x </s> </s> y </s>         pair_separators 1 leaves out one </s>
    apart           <s> x </s> <s> y </s>          two sides that start alike
    mixup           <s> x </s> x' </s> <s> y' </s> y </s>
                                                   two pairs, the second one by chance: one language is side 0, the
                                                   other side 1, each in an order of its own
    alternating     <s> x1 </s> y2 </s> x3 </s>    consecutive pairs, as many as fit, the language changing from one to
                                                   the next; all of it is side 0

Pairs with a reserved_share are followed by as many slots of their own (of each side, rounded down, plus one) that
belong to no document yet; what fills them must say where they belong. Slots have the item's key and offsets. With a
negative_share, the second side of a pair is that often (by chance) that of another pair.

Which language comes first is a coin, unless swap_sides is off or, in pairs and apart, source_language says it. A
sentence that is too long is cut; of two, the longer one first. A document whose sentences are too few or too long for a
form gives no item of it. Positions run on through the item, but start again at the second side in the forms twice,
segments, apart and mixup, and on request in pairs (reset_positions).

Every random choice about an item (selection, corruption, swapped sides) is a function of (seed, stream, epoch, item),
so packing and batching cannot change it.

Shapes: R rows, T tokens of a row, I items of a step, P pieces of these items.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from common.errors import UserError
from engine.randomness import generator, mix, stable_hash, uniform
from engine.shards import Shards, open_shards
from engine.tokenizer import BOS, EOS, PAD

FIRST_POSITION = PAD + 1


@dataclass(frozen=True)
class Source:
    """One line of the sampling plan."""

    kind: str  # mono or bitext
    corpus: str
    name: str  # language, or pair
    probability: float
    manifests: tuple[Path, ...]
    share: float = 1.0  # of each shard, from its beginning

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.name.split("-")) if self.kind == "bitext" else (self.name,)


def language_codes(sources: Iterable[Source]) -> list[str]:
    """The languages of a plan; a language's number is its place here."""
    return sorted({code for source in sources for code in source.languages})


@dataclass
class Rows:
    """Rows before corruption. Every array is (R, T); document is -1 on padding, and on slots of no document yet."""

    tokens: np.ndarray
    document: np.ndarray  # item number within the row
    side: np.ndarray  # 0, or 1 for the second sentence of a pair
    position: np.ndarray  # id in the position table; restarts at each document
    language: np.ndarray  # number of the language
    key: np.ndarray  # uint64 per token: the item's key, for random choices
    offset: np.ndarray  # index of the token within its item


class Stream:
    """The items of one source, shuffled anew each epoch: shards in a random order, items in a random order within."""

    def __init__(
        self, source: Source, form: "Form", options: "ItemOptions", seed: int, vocabulary_sha256: str | None = None
    ):
        self.source, self.form, self.options, self.seed = source, form, options, seed
        self.shards: list[Shards] = [open_shards([path], vocabulary_sha256) for path in source.manifests]
        self.key = stable_hash("stream", source.kind, source.corpus, source.name)
        self.epoch, self.shard_rank, self.offset = 0, 0, 0
        self.offsets: dict[int, np.ndarray] = {}
        self.bounds: dict[int, np.ndarray] = {}  # shard -> (runs + 1,) first sentence of each run that may be an item
        self.items: dict[int, np.ndarray] = {}  # shard -> (items,) the runs that are
        self.order: np.ndarray | None = None
        self.shard: int | None = None  # that `order` is of
        if not any(len(self.shard_items(shard)) for shard in range(len(self.shards))):
            lack = form.lack.format(length=options.length)
            raise UserError(
                f"{source.manifests[0]}: no {lack} in {source.corpus}/{source.name}; {form.mend} or drop it"
            )

    def state(self) -> list[int]:
        return [self.epoch, self.shard_rank, self.offset]

    def load_state(self, state: list[int]) -> None:
        self.epoch, self.shard_rank, self.offset = state
        self.order = None

    def item_bounds(self, shard: int) -> np.ndarray:
        if shard not in self.bounds:
            self.bounds[shard] = self.form.bounds(self.shards[shard], self.options)
        return self.bounds[shard]

    def shard_items(self, shard: int) -> np.ndarray:
        if shard not in self.items:
            items = np.flatnonzero(np.diff(self.item_bounds(shard)) >= self.form.sentences)
            items = self.of_wanted_length(shard, items)
            items = items[: math.ceil(self.source.share * len(items))]
            self.items[shard] = items if len(items) >= self.form.together else items[:0]
        return self.items[shard]

    def of_wanted_length(self, shard: int, items: np.ndarray) -> np.ndarray:
        least, most = self.options.least_tokens, self.options.most_tokens
        if least <= 1 and most is None:
            return items
        first = self.item_bounds(shard)[items]
        sizes = np.diff(self.token_offsets(shard))[first[:, None] + np.arange(2)]  # (n, 2) tokens of both sides
        return items[(sizes.min(1) >= least) & (sizes.sum(1) <= (FAR if most is None else most))]

    def token_offsets(self, shard: int) -> np.ndarray:
        """First token of each sentence: the memory map as a plain array, which indexes faster; nothing is copied."""
        if shard not in self.offsets:
            self.offsets[shard] = np.asarray(self.shards[shard].shards[0].sentences)
        return self.offsets[shard]

    def current_shard(self) -> int:
        return int(generator(self.seed, self.key, self.epoch).permutation(len(self.shards))[self.shard_rank])

    def take(self, n: int) -> np.ndarray:
        """The next n items as (n, 4) int64: shard, item, epoch, and the item's key as int64 bits."""
        taken = []
        while n:
            if self.order is None:
                self.shard = shard = self.current_shard()
                self.order = generator(self.seed, self.key, self.epoch, shard).permutation(self.shard_items(shard))
            shard = self.shard
            part = self.order[self.offset : self.offset + n]
            self.offset += len(part)
            n -= len(part)
            rows = np.empty((len(part), 4), np.int64)
            rows[:, 0], rows[:, 1], rows[:, 2] = shard, part, self.epoch
            base = np.uint64(stable_hash(self.seed, self.key, self.epoch, shard))
            rows[:, 3] = mix(base + part.astype(np.uint64)).view(np.int64)
            taken.append(rows)
            if self.offset == len(self.order):
                self.order, self.offset = None, 0
                self.shard_rank += 1
                if self.shard_rank == len(self.shards):
                    self.shard_rank, self.epoch = 0, self.epoch + 1
        return np.concatenate(taken) if taken else np.empty((0, 4), np.int64)


def block_bounds(
    lengths: np.ndarray, block_length: float, sentences: int | None = None, documents: np.ndarray | None = None
) -> np.ndarray:
    """First sentence of each block: <s>, then whole sentences, each closed by </s>, until the next does not fit.

    Lengths are (S,), or (ways, S) where a block must fit in each of several ways. A block holds at most `sentences`
    sentences. With `documents`, (D + 1,) the first sentence of each, a block also ends where its document ends.
    """
    ways = np.atleast_2d(lengths) + 1
    S = ways.shape[1]
    following = np.full(S, S) if documents is None else np.repeat(documents[1:], np.diff(documents))
    for sizes in ways:
        ends = np.cumsum(sizes, dtype=np.float64)
        fit = np.searchsorted(ends, ends - sizes + block_length - 1, side="right")
        following = np.minimum(following, fit)  # (S,) where the next block begins if one begins here
    if sentences:
        following = np.minimum(following, np.arange(S) + sentences)
    # a sentence that is too long alone makes a block of its own, cut
    following = np.maximum(following, np.arange(1, S + 1))
    bounds = [0]
    while bounds[-1] < S:
        bounds.append(int(following[bounds[-1]]))
    return np.asarray(bounds, np.int64)


@dataclass(frozen=True)
class ItemOptions:
    """What an objective may choose about its items, whatever their form."""

    length: int  # tokens of the longest item
    sentences: int | None = None  # of the longest item, in the forms that take as many as fit
    pair_separators: int = 2
    swap_sides: bool = True
    source_language: int | None = None  # number of the language that is always side 0
    reserved_share: float = 0.0  # slots per token, in the forms that have slots
    negative_share: float = 0.0  # of pairs whose second side is another pair's
    least_tokens: int = 1  # of each side of a pair; shorter ones are left out
    most_tokens: int | None = None  # of both sides together


@dataclass(frozen=True)
class Drawn:
    """Some items of one shard of a stream."""

    stream: Stream
    shard: int
    languages: np.ndarray  # number of the stream's language, or of its two
    item: np.ndarray  # (n,) number within the shard
    key: np.ndarray  # (n,) uint64

    @property
    def first(self) -> np.ndarray:
        """(n,) first sentence of each item."""
        return self.stream.item_bounds(self.shard)[self.item]

    def coin(self, purpose: str) -> np.ndarray:
        """(n,) bool, heads or tails."""
        return mix(self.key ^ np.uint64(stable_hash(purpose))) & np.uint64(1) == 1

    def chance(self, purpose: str) -> np.ndarray:
        """(n,) in [0, 1)."""
        return uniform(self.key ^ np.uint64(stable_hash(purpose)))

    def partners(self) -> "Drawn":
        """For each item another one of its shard, and never itself."""
        items = self.stream.shard_items(self.shard)
        further = 1 + (self.chance("partner") * (len(items) - 1)).astype(np.int64)
        return replace(self, item=items[(np.searchsorted(items, self.item) + further) % len(items)])

    def sentences(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All sentences of the items, (P,) each: index of the item, number within it, number within the shard."""
        bounds = self.stream.item_bounds(self.shard)
        first, count = bounds[self.item], bounds[self.item + 1] - bounds[self.item]
        number = ramp(count)
        return np.repeat(np.arange(len(first)), count), number, np.repeat(first, count) + number

    def pieces(self, item: np.ndarray, sentence: np.ndarray) -> np.ndarray:
        """Whole sentences, without marks before them, as PIECE."""
        pieces = np.zeros(sentence.shape, PIECE)
        pieces["item"], pieces["sentence"] = item, sentence
        offsets = self.stream.token_offsets(self.shard)
        pieces["size"] = offsets[sentence + 1] - offsets[sentence]
        pieces["lead"], pieces["closed"] = NOTHING, True
        pieces["language"] = self.languages[sentence % len(self.languages)]  # the sides of a bitext take turns
        return pieces


NOTHING = -1
SHORTEST = 10  # tokens that hold the marks and one token of each sentence, in any form
FAR = np.iinfo(np.int64).max

PIECE = np.dtype(
    [
        ("item", np.int64),  # index among the items at hand
        ("lead", np.int64),  # mark before the sentence: BOS, EOS or NOTHING
        ("sentence", np.int64),  # number within the shard, or NOTHING: slots
        ("size", np.int64),  # tokens of the sentence, from its start; slots
        ("closed", np.bool_),  # by </s>; what is not closed belongs to no document yet
        ("side", np.int8),
        ("language", np.int16),
    ]
)


def piece_lengths(pieces: np.ndarray) -> np.ndarray:
    return (pieces["lead"] != NOTHING) + pieces["size"] + pieces["closed"]


def tokens_before(pieces: np.ndarray) -> np.ndarray:
    """(P,) where each piece begins within its item."""
    lengths = piece_lengths(pieces)
    before = np.cumsum(lengths) - lengths
    first = np.flatnonzero(np.diff(pieces["item"], prepend=-1))  # piece of each item
    return before - np.repeat(before[first], np.diff(first, append=len(pieces)))


def by_item(*parts: np.ndarray) -> np.ndarray:
    """Pieces of the same items as one list: of each item, first those of the first part."""
    pieces = np.concatenate(parts)
    return pieces[np.argsort(pieces["item"], kind="stable")]


def lay_blocks(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_sentences(drawn, options.length - 2)


def lay_sentences(drawn: Drawn, longest: int) -> np.ndarray:
    """<s> and all sentences of the items; only one that is alone in its item can be too long."""
    item, number, sentence = drawn.sentences()
    pieces = drawn.pieces(item, sentence)
    pieces["lead"][number == 0] = BOS
    pieces["size"] = np.minimum(pieces["size"], longest)
    return pieces


def lay_twice(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    pieces = lay_sentences(drawn, options.length // 2 - 2)
    again = pieces.copy()
    again["side"] = 1
    return by_item(pieces, again)


def lay_placeholders(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    share = options.reserved_share
    pieces = lay_sentences(drawn, int((room_beside_slots(options) - 1) / (1 + share)))
    slots = pieces[pieces["lead"] == BOS]
    tokens = np.bincount(pieces["item"], pieces["size"])
    slots["lead"], slots["sentence"], slots["side"] = EOS, NOTHING, 1
    slots["size"] = np.maximum(1, np.rint(share * tokens))
    return by_item(pieces, slots)


def lay_segments(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    pieces = halves(drawn)
    pieces["lead"][running_count(2 * pieces["item"] + pieces["side"]) == 0] = BOS
    return pieces


def lay_next_sentences(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    own, other = halves(drawn), halves(drawn.partners())
    replaced = drawn.chance("next sentence") < 0.5
    kept = (own["side"] == 0) | ~replaced[own["item"]]
    pieces = by_item(own[kept], other[(other["side"] == 1) & replaced[other["item"]]])
    pieces["lead"][running_count(pieces["item"]) == 0] = BOS
    room = options.length - tokens_before(pieces) - (pieces["lead"] != NOTHING) - 1
    pieces["size"] = np.minimum(pieces["size"], room)  # the other item's half may be longer
    return pieces[room > 0]


def halves(drawn: Drawn) -> np.ndarray:
    """The sentences of the items, those after the sentence's end that is nearest the middle as side 1."""
    item, number, sentence = drawn.sentences()
    pieces = drawn.pieces(item, sentence)
    first = np.flatnonzero(number == 0)
    length = pieces["size"] + 1
    done = np.cumsum(length)  # tokens up to the end of each sentence
    before = (done - length)[first][item]
    whole = np.add.reduceat(length, first)[item]
    distance = np.abs(2 * (done - before) - whole)  # greatest at the item's own end, so neither side is empty
    nearest = distance == np.minimum.reduceat(distance, first)[item]
    last_of_first = np.minimum.reduceat(np.where(nearest, number, FAR), first)
    pieces["side"] = number > last_of_first[item]
    return pieces


def lay_pairs(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_two(drawn, options, EOS if options.pair_separators == 2 else NOTHING)


def lay_apart(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_two(drawn, options, BOS)


def lay_two(drawn: Drawn, options: ItemOptions, second_lead: int) -> np.ndarray:
    swapped = drawn.coin("swap") & options.swap_sides
    if options.source_language is not None:
        swapped = np.full(len(drawn.item), drawn.languages[1] == options.source_language)
    first = np.stack([drawn.first, drawn.first], 1)  # (n, 2)
    if options.negative_share:
        negative = drawn.chance("negative") < options.negative_share
        first[negative, 1] = drawn.partners().first[negative]
    pieces = drawn.pieces(np.arange(len(first))[:, None], first + np.stack([swapped, ~swapped], 1))
    pieces["lead"] = BOS, second_lead
    pieces["side"] = 0, 1
    room = options.length - 3 - (second_lead != NOTHING)
    if share := options.reserved_share:
        pieces["size"] = cut_longer(pieces["size"], int((room - 2) / (1 + share)))
        slots = pieces[:, 1:].copy()
        slots["lead"], slots["sentence"], slots["closed"] = NOTHING, NOTHING, False
        slots["size"] = (np.floor(share * pieces["size"]) + 1).sum(1, keepdims=True)
        return np.concatenate([pieces, slots], 1).ravel()
    pieces["size"] = cut_longer(pieces["size"], room)
    return pieces.ravel()


def lay_mixup(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    n = len(drawn.item)
    pairs = np.stack([drawn.first, drawn.partners().first], 1)  # (n, 2) first sentence of either pair
    swapped = drawn.coin("swap") & options.swap_sides
    sides = []
    for language, purpose in ((swapped, "order of the query"), (~swapped, "order of the key")):
        turned = drawn.coin(purpose)
        sides.append(np.where(turned[:, None], pairs[:, ::-1], pairs) + language[:, None])
    pieces = drawn.pieces(np.arange(n)[:, None, None], np.stack(sides, 1))  # (n, side, place)
    pieces["lead"] = [[BOS, NOTHING], [BOS, NOTHING]]
    pieces["side"] = [[0], [1]]
    rooms = cut_longer(pieces["size"].sum(2), options.length - 6)
    pieces["size"] = cut_longer(pieces["size"], rooms[:, :, None])
    return pieces.ravel()


def lay_alternating(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    item, number, sentence = drawn.sentences()
    swapped = drawn.coin("swap") & options.swap_sides
    chosen = number % 2 == (number // 2 + swapped[item]) % 2
    pieces = drawn.pieces(item[chosen], sentence[chosen])
    pieces["lead"][number[chosen] < 2] = BOS
    return pieces


def cut_longer(lengths: np.ndarray, room: int | np.ndarray) -> np.ndarray:
    """(..., 2) lengths that fit the room together: the longer one gives way first."""
    return np.minimum(lengths, np.maximum(room // 2, room - lengths[..., ::-1]))


def bounds_of_blocks(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length, options.sentences)


def bounds_of_half_blocks(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length // 2, options.sentences)


def bounds_beside_slots(shards: Shards, options: ItemOptions) -> np.ndarray:
    lengths = shards.sentence_lengths() * (1 + options.reserved_share)
    return block_bounds(lengths, room_beside_slots(options) + 1, options.sentences)


def room_beside_slots(options: ItemOptions) -> float:
    """For sentences with their </s> and their share of the slots: <s>, twice </s>, and rounding up by half at most."""
    return options.length - 3.5


def bounds_within_documents(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length, options.sentences, shards.document_offsets())


def bounds_of_segments(shards: Shards, options: ItemOptions) -> np.ndarray:
    room = options.length - 1  # a second <s>
    return block_bounds(shards.sentence_lengths(), room, options.sentences, shards.document_offsets())


def bounds_of_alternation(shards: Shards, options: ItemOptions) -> np.ndarray:
    """Runs of pairs that fit whichever language comes first."""
    lengths = shards.sentence_lengths().reshape(-1, 2)  # (pairs, 2)
    pair = np.arange(len(lengths))
    ways = [lengths[pair, (pair + first) % 2] for first in (0, 1)]
    return 2 * block_bounds(np.stack(ways), options.length, options.sentences)


def bounds_of_documents(shards: Shards, options: ItemOptions) -> np.ndarray:
    return shards.document_offsets()


@dataclass(frozen=True)
class Form:
    lay: Callable[[Drawn, ItemOptions], np.ndarray]  # the pieces of items, in the order of the items, as PIECE
    bounds: Callable[[Shards, ItemOptions], np.ndarray]  # (items of the shard + 1,) first sentence of each
    fills: bool = False  # items are about as long as they may be
    restarts: bool = False  # positions start again on the second side
    sentences: int = 1  # of an item, at least
    together: int = 1  # items of a shard, at least: 2 where an item borrows from another one
    documents: int = 1  # that an item is made of, about
    lack: str = "sentence to train on"  # where there is no item, with {length}
    mend: str = "lower the cleaning thresholds"


WITHIN_DOCUMENTS = {
    "sentences": 2,
    "lack": "two neighbouring sentences of one document that fit {length} tokens",
    "mend": "raise block_length, encode text that still has its documents (a blank line ends one),",
}

TWO_PAIRS = {"together": 2, "lack": "two pairs", "mend": "lower the cleaning thresholds"}

NEIGHBOURING_PAIRS = {
    "sentences": 4,
    "lack": "two neighbouring pairs that fit {length} tokens, a sentence of each",
    "mend": "raise block_length",
}

FORMS = {
    "blocks": Form(lay_blocks, bounds_of_blocks, fills=True),
    "placeholders": Form(lay_placeholders, bounds_beside_slots, fills=True),
    "twice": Form(lay_twice, bounds_of_half_blocks, fills=True, restarts=True),
    "segments": Form(lay_segments, bounds_of_segments, restarts=True, **WITHIN_DOCUMENTS),
    "next-sentences": Form(lay_next_sentences, bounds_within_documents, together=2, **WITHIN_DOCUMENTS),
    "pairs": Form(lay_pairs, bounds_of_documents),
    "apart": Form(lay_apart, bounds_of_documents, restarts=True),
    "mixup": Form(lay_mixup, bounds_of_documents, restarts=True, documents=2, **TWO_PAIRS),
    "alternating": Form(lay_alternating, bounds_of_alternation, fills=True, **NEIGHBOURING_PAIRS),
}


@dataclass
class Layout:
    """The items of one step and where each lies. Arrays are (I,) or (I, 4)."""

    stream: np.ndarray
    items: np.ndarray  # rows of Stream.take
    lengths: np.ndarray  # tokens of each item, specials included
    row: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    column: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


class Mixture:
    """Streams drawn with the plan's probabilities and laid into rows."""

    def __init__(
        self,
        sources: list[Source],
        form: str,
        rows: int,
        row_length: int,
        seed: int,
        languages: list[str],
        pair_separators: int = 2,
        reset_positions: bool = False,
        swap_sides: bool = True,
        source_language: str | None = None,
        reserved_share: float = 0.0,
        negative_share: float = 0.0,
        least_tokens: int = 1,
        most_tokens: int | None = None,
        packing: bool = True,
        block_length: int | None = None,
        block_sentences: int | None = None,
        vocabulary_sha256: str | None = None,
    ):
        self.sources, self.rows, self.row_length, self.seed = sources, rows, row_length, seed
        self.form = replace(FORMS[form], **TWO_PAIRS) if negative_share else FORMS[form]
        for source in sources if source_language else []:
            if source_language not in source.languages:
                raise UserError(
                    f"{source.corpus}/{source.name}: holds no {source_language}, the language to start from"
                )
        length = min(block_length or row_length, row_length)
        if length < SHORTEST:
            raise UserError(f"items of {length} tokens: raise row_length and block_length to {SHORTEST} or more")
        self.options = ItemOptions(
            length,
            block_sentences,
            pair_separators,
            swap_sides,
            None if source_language is None else languages.index(source_language),
            reserved_share,
            negative_share,
            least_tokens,
            most_tokens,
        )
        self.streams = [Stream(source, self.form, self.options, seed, vocabulary_sha256) for source in sources]
        self.cumulative = np.cumsum([source.probability for source in sources])
        self.cumulative /= self.cumulative[-1]
        self.language_ids = [np.array([languages.index(code) for code in source.languages]) for source in sources]
        self.restarts = self.form.restarts or reset_positions
        self.packing = packing and (length < row_length or bool(block_sentences) or not self.form.fills)
        counts = [shard.manifests[0] for stream in self.streams for shard in stream.shards]
        tokens, documents = (sum(count[key] for count in counts) for key in ("tokens", "documents"))
        document_length = tokens / max(1, documents) + 2 + pair_separators
        self.mean_length = min(document_length * self.form.documents, length)  # of an item, about
        self.drawn = 0  # items so far, over all streams
        self.waiting = np.empty((0, 5), np.int64)  # items without room: stream, then Stream.take's columns
        self.key = stable_hash("mixture", *(f"{s.kind}/{s.corpus}/{s.name}" for s in sources))

    def state(self) -> dict:
        streams = [stream.state() for stream in self.streams]
        return {"drawn": self.drawn, "waiting": self.waiting.tolist(), "streams": streams}

    def load_state(self, state: dict) -> None:
        self.drawn = state["drawn"]
        self.waiting = np.asarray(state["waiting"], np.int64).reshape(-1, 5)
        for stream, saved in zip(self.streams, state["streams"], strict=True):
            stream.load_state(saved)

    def draw(self, n: int) -> np.ndarray:
        """The next n items, (n, 5): stream, shard, item, epoch, key."""
        numbers = np.arange(self.drawn, self.drawn + n).astype(np.uint64)
        self.drawn += n
        base = np.uint64(stable_hash(self.seed, self.key))
        streams = np.searchsorted(self.cumulative, uniform(base ^ mix(numbers)), side="right")
        drawn = np.empty((n, 5), np.int64)
        drawn[:, 0] = streams
        for number in np.unique(streams):
            mine = streams == number
            drawn[mine, 1:] = self.streams[number].take(int(mine.sum()))
        return drawn

    def next_layout(self) -> Layout:
        """The items of the next step, placed. Every rank lays out the whole step: it is cheap and needs no talk."""
        if not self.packing:
            drawn = self.draw(self.rows)
            layout = Layout(drawn[:, 0], drawn[:, 1:], self.item_lengths(drawn))
            layout.row, layout.column = np.arange(self.rows), np.zeros(self.rows, np.int64)
            return layout
        pool, lengths = self.waiting, self.item_lengths(self.waiting)
        room = self.rows * self.row_length
        while lengths.sum() < room:
            more = self.draw(int((room - lengths.sum()) / self.mean_length) + 1)
            pool = np.concatenate([pool, more])
            lengths = np.concatenate([lengths, self.item_lengths(more)])
        row, column = pack(lengths, self.rows, self.row_length, first=len(self.waiting))
        placed = row >= 0
        self.waiting = pool[~placed]
        return Layout(pool[placed, 0], pool[placed, 1:], lengths[placed], row[placed], column[placed])

    def pieces(self, drawn: np.ndarray) -> Iterator[tuple[Shards, np.ndarray]]:
        """The pieces of the drawn items, a run of items of one shard at a time: few runs if they are sorted."""
        changes = (drawn[1:, :2] != drawn[:-1, :2]).any(1)
        bounds = [0, *(np.flatnonzero(changes) + 1), len(drawn)] if len(drawn) else [0]
        for first, last in pairwise(bounds):
            number, shard = map(int, drawn[first, :2])
            stream, mine = self.streams[number], drawn[first:last]
            items = Drawn(stream, shard, self.language_ids[number], mine[:, 2], mine[:, 4].view(np.uint64))
            pieces = self.form.lay(items, self.options)
            pieces["item"] += first
            yield stream.shards[shard], pieces

    def item_lengths(self, drawn: np.ndarray) -> np.ndarray:
        """(n,) tokens of each drawn item."""
        lengths = np.zeros(len(drawn), np.int64)
        order = by_shard(drawn)
        for _, pieces in self.pieces(drawn[order]):
            np.add.at(lengths, order[pieces["item"]], piece_lengths(pieces))
        return lengths

    def assemble(self, layout: Layout, rank: int = 0, world_size: int = 1) -> Rows:
        """The rows rank, rank + world_size, ... of the layout."""
        drawn = np.concatenate([layout.stream[:, None], layout.items], 1)
        mine = np.flatnonzero(layout.row % world_size == rank)
        mine = mine[by_shard(drawn[mine])]
        drawn, lengths = drawn[mine], layout.lengths[mine]
        row, column = layout.row[mine] // world_size, layout.column[mine]
        R = len(range(rank, self.rows, world_size))
        T = self.row_length
        flat = R * T
        tokens = np.full(flat, PAD, np.int64)
        document = np.full(flat, -1, np.int64)
        side = np.zeros(flat, np.int8)
        language = np.zeros(flat, np.int16)
        key = np.zeros(flat, np.uint64)
        offset = np.zeros(flat, np.int64)

        start = row * T + column  # (I,)
        within = ramp(lengths)  # (tokens of all items,)
        place = np.repeat(start, lengths) + within
        by_place = np.lexsort((column, row))  # documents are numbered in the order of their columns
        number = np.empty(len(row), np.int64)
        number[by_place] = running_count(row[by_place])
        offset[place] = within
        key[place] = np.repeat(drawn[:, 4].view(np.uint64), lengths)

        pieces = []
        for shards, own in self.pieces(drawn):
            write_tokens(tokens, shards, own, start)
            pieces.append(own)
        pieces = np.concatenate(pieces) if pieces else np.zeros(0, PIECE)
        size = piece_lengths(pieces)
        document[place] = np.repeat(np.where(pieces["closed"], number[pieces["item"]], -1), size)
        side[place] = np.repeat(pieces["side"], size)
        language[place] = np.repeat(pieces["language"], size)
        position = np.where(document >= 0, offset + FIRST_POSITION, PAD)
        if self.restarts:
            position = restart_on_second_side(position, document, side, R, T)
        shape = (R, T)
        arrays = (tokens, document, side, position, language, key, offset)
        return Rows(*(array.reshape(shape) for array in arrays))


def by_shard(drawn: np.ndarray) -> np.ndarray:
    """Order of drawn items by stream, then shard."""
    return np.lexsort((drawn[:, 1], drawn[:, 0]))


def write_tokens(tokens: np.ndarray, shards: Shards, pieces: np.ndarray, start: np.ndarray) -> None:
    """Sentences and marks of one shard's pieces into flat rows; `start` is where each item begins."""
    lead, size = pieces["lead"], pieces["size"]
    begin = start[pieces["item"]] + tokens_before(pieces)
    marked = lead != NOTHING
    tokens[begin[marked]] = lead[marked]
    begin += marked
    closed = pieces["closed"]
    tokens[(begin + size)[closed]] = EOS
    text = pieces["sentence"] != NOTHING
    begin, size = begin[text], size[text]
    ids, offsets = shards.gather(pieces["sentence"][text])
    whole = np.diff(offsets)
    if (size < whole).any():
        ids = ids[ramp(whole) < np.repeat(size, whole)]
    tokens[np.repeat(begin, size) + ramp(size)] = ids


def ramp(lengths: np.ndarray) -> np.ndarray:
    """[2, 3] -> [0, 1, 0, 1, 2]."""
    total = int(lengths.sum())
    return np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def running_count(values: np.ndarray) -> np.ndarray:
    """For sorted values, how many equal ones came before: [3, 3, 5] -> [0, 1, 0]."""
    fresh = (
        np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if len(values) else np.empty(0, np.int64)
    )
    sizes = np.diff(np.append(fresh, len(values)))
    return ramp(sizes)


def restart_on_second_side(position: np.ndarray, document: np.ndarray, side: np.ndarray, R: int, T: int) -> np.ndarray:
    """XLM's numbering: the second sentence of a pair begins again at the first position."""
    out = position.reshape(R, T).copy()
    second = (side.reshape(R, T) == 1) & (document.reshape(R, T) >= 0)
    begins = second & ~np.pad(second, ((0, 0), (1, 0)))[:, :-1]
    column = np.maximum.accumulate(np.where(begins, np.arange(T), 0), axis=1)  # where the token's second side begins
    first = np.take_along_axis(out, column, axis=1)
    out[second] += FIRST_POSITION - first[second]
    return out.reshape(-1)


def pack(lengths: np.ndarray, rows: int, row_length: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each item, -1 where there is no room: the `first` waiting items, then the longest, best fit."""
    order = np.concatenate([np.arange(first), first + np.argsort(-lengths[first:], kind="stable")])
    row = np.full(len(lengths), -1, np.int64)
    column = np.zeros(len(lengths), np.int64)
    free: list[list[int]] = [[] for _ in range(row_length + 1)]  # rows by the room that they have left
    free[row_length] = list(range(rows - 1, -1, -1))
    rooms = [row_length]  # the rooms that some row has, sorted
    for item, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        at = bisect_left(rooms, length)
        if at == len(rooms):
            continue
        room = rooms[at]
        chosen = free[room].pop()
        if not free[room]:
            rooms.pop(at)
        row[item], column[item] = chosen, row_length - room
        left = room - length
        if not free[left]:
            rooms.insert(bisect_left(rooms, left), left)
        free[left].append(chosen)
    return row, column
