"""The items of one language or one pair: which sentences they are, in what order they come, and their random choices.

Every random choice about an item (selection, corruption, swapped sides) is a function of (seed, stream, epoch, item),
so packing and batching cannot change it.

Shapes: P pieces of the items at hand.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from common.errors import UserError
from engine.ragged import ramp
from engine.randomness import generator, mix, stable_hash, uniform
from engine.shards import Shards, open_shards


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


NOTHING = -1
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


@dataclass(frozen=True)
class Form:
    lay: Callable[["Drawn", ItemOptions], np.ndarray]  # the pieces of items, in the order of the items, as PIECE
    bounds: Callable[[Shards, ItemOptions], np.ndarray]  # (items of the shard + 1,) first sentence of each
    fills: bool = False  # items are about as long as they may be
    restarts: bool = False  # positions start again on the second side
    sentences: int = 1  # of an item, at least
    together: int = 1  # items of a shard, at least: 2 where an item borrows from another one
    documents: int = 1  # that an item is made of, about
    lack: str = "sentence to train on"  # where there is no item, with {length}
    mend: str = "lower the cleaning thresholds"


class Stream:
    """The items of one source, shuffled anew each epoch: shards in a random order, items in a random order within."""

    def __init__(
        self, source: Source, form: Form, options: ItemOptions, seed: int, vocabulary_sha256: str | None = None
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
