"""From shards to the rows of one training step, the same for any number of ranks, workers and interruptions.

1. A Stream walks one language (blocks of whole sentences, as long as a row or shorter) or one language pair (pairs), in
   a new seeded order each epoch. Its place is three integers.
2. A Mixture draws streams with the probabilities q of the sampling plan. Step s draws the same items whoever asks.
3. Packing lays items into rows (first the longest); what finds no room waits for the next step.
4. Assembly turns the items of the rows that this rank owns into arrays.

Every random choice about an item (selection, corruption, swapped sides) is a function of (seed, stream, epoch, item),
so packing and batching cannot change it.

Shapes: R rows, T tokens of a row, I items of a step, S sentences of a step.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.randomness import generator, mix, stable_hash, uniform
from engine.shards import Shards, open_shards
from engine.tokenizer import BOS, EOS, PAD
from errors import UserError

FIRST_POSITION = PAD + 1


@dataclass(frozen=True)
class Source:
    """One line of the sampling plan."""

    kind: str  # mono or bitext
    corpus: str
    name: str  # language, or pair
    probability: float
    manifests: tuple[Path, ...]

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.name.split("-")) if self.kind == "bitext" else (self.name,)


@dataclass
class Rows:
    """Rows before corruption. Every array is (R, T); document is -1 on padding."""

    tokens: np.ndarray
    document: np.ndarray  # item number within the row
    side: np.ndarray  # 0, or 1 for the second sentence of a pair
    position: np.ndarray  # id in the position table; restarts at each document
    language: np.ndarray  # number of the language
    key: np.ndarray  # uint64 per token: the item's key, for random choices
    offset: np.ndarray  # index of the token within its item


class Stream:
    """The items of one source, shuffled anew each epoch: shards in a random order, items in a random order within."""

    def __init__(self, source: Source, block_length: int, seed: int, vocabulary_sha256: str | None = None):
        self.source, self.block_length, self.seed = source, block_length, seed
        self.shards: list[Shards] = [open_shards([path], vocabulary_sha256) for path in source.manifests]
        self.key = stable_hash("stream", source.kind, source.corpus, source.name)
        self.epoch, self.shard_rank, self.offset = 0, 0, 0
        self.offsets: dict[int, np.ndarray] = {}
        self.items: dict[int, np.ndarray] = {}  # shard -> (items + 1,) first sentence of each item
        self.order: np.ndarray | None = None
        self.shard: int | None = None  # that `order` is of
        if not any(len(self.item_bounds(shard)) > 1 for shard in range(len(self.shards))):
            raise UserError(f"{source.manifests[0]}: no sentence to train on; lower the cleaning thresholds or drop it")

    def state(self) -> list[int]:
        return [self.epoch, self.shard_rank, self.offset]

    def load_state(self, state: list[int]) -> None:
        self.epoch, self.shard_rank, self.offset = state
        self.order = None

    def item_bounds(self, shard: int) -> np.ndarray:
        if shard not in self.items:
            shards = self.shards[shard]
            if self.source.kind == "bitext":
                self.items[shard] = shards.document_offsets()
            else:
                self.items[shard] = block_bounds(shards.sentence_lengths(), self.block_length)
        return self.items[shard]

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
                items = len(self.item_bounds(shard)) - 1
                self.order = generator(self.seed, self.key, self.epoch, shard).permutation(items)
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


def block_bounds(lengths: np.ndarray, block_length: int) -> np.ndarray:
    """First sentence of each block: <s>, then whole sentences, each closed by </s>, until the next does not fit."""
    ends = np.cumsum(lengths.astype(np.int64) + 1)
    bounds, first, before = [0], 0, 0
    while first < len(ends):
        last = int(np.searchsorted(ends, before + block_length - 1, side="right"))
        first = max(last, first + 1)  # a sentence that is too long alone makes a block of its own, cut
        before = int(ends[first - 1])
        bounds.append(first)
    return np.asarray(bounds, np.int64)


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
        rows: int,
        row_length: int,
        seed: int,
        languages: list[str],
        pair_separators: int = 2,
        reset_positions: bool = False,
        swap_sides: bool = True,
        packing: bool = True,
        block_length: int | None = None,
        vocabulary_sha256: str | None = None,
    ):
        self.sources, self.rows, self.row_length, self.seed = sources, rows, row_length, seed
        self.block_length = block_length or row_length
        self.streams = [Stream(source, self.block_length, seed, vocabulary_sha256) for source in sources]
        self.cumulative = np.cumsum([source.probability for source in sources])
        self.cumulative /= self.cumulative[-1]
        self.pairs = sources[0].kind == "bitext"
        self.language_ids = [[languages.index(code) for code in source.languages] for source in sources]
        self.pair_separators, self.reset_positions, self.swap_sides = pair_separators, reset_positions, swap_sides
        self.packing = packing and (self.pairs or self.block_length < row_length)
        counts = [shard.manifests[0] for stream in self.streams for shard in stream.shards]
        tokens, documents = (sum(count[key] for count in counts) for key in ("tokens", "documents"))
        self.mean_length = min(tokens / max(1, documents) + 2 + pair_separators, self.block_length)  # of an item, about
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

    def sentence_lengths(self, stream: int, shard: int, sentences: np.ndarray) -> np.ndarray:
        offsets = self.streams[stream].token_offsets(shard)
        return offsets[sentences + 1] - offsets[sentences]

    def side_lengths(self, drawn: np.ndarray) -> np.ndarray:
        """(n, 2) tokens of the two sides of each pair, cut to the row: the longer side gives way first."""
        lengths = np.empty((len(drawn), 2), np.int64)
        for stream, shard in np.unique(drawn[:, :2], axis=0):
            mine = (drawn[:, 0] == stream) & (drawn[:, 1] == shard)
            first = self.streams[stream].item_bounds(int(shard))[drawn[mine, 2]]
            for side in (0, 1):
                lengths[mine, side] = self.sentence_lengths(int(stream), int(shard), first + side)
        budget = self.row_length - 2 - self.pair_separators
        half = budget // 2
        other = lengths[:, ::-1]
        return np.minimum(lengths, np.maximum(half, budget - other))

    def item_lengths(self, drawn: np.ndarray) -> np.ndarray:
        if not len(drawn):
            return np.empty(0, np.int64)
        if self.pairs:
            return self.side_lengths(drawn).sum(1) + 2 + self.pair_separators
        lengths = np.empty(len(drawn), np.int64)
        for stream, shard in np.unique(drawn[:, :2], axis=0):
            mine = (drawn[:, 0] == stream) & (drawn[:, 1] == shard)
            bounds = self.streams[stream].item_bounds(int(shard))
            first, last = bounds[drawn[mine, 2]], bounds[drawn[mine, 2] + 1]
            offsets = self.streams[stream].token_offsets(int(shard))
            lengths[mine] = offsets[last] - offsets[first] + (last - first) + 1
        return np.minimum(lengths, self.block_length)

    def assemble(self, layout: Layout, rank: int = 0, world_size: int = 1) -> Rows:
        """The rows rank, rank + world_size, ... of the layout."""
        mine = layout.row % world_size == rank
        items, stream, lengths = layout.items[mine], layout.stream[mine], layout.lengths[mine]
        row, column = layout.row[mine] // world_size, layout.column[mine]
        R = len(range(rank, self.rows, world_size))
        T = self.row_length
        flat = R * T
        tokens = np.full(flat, PAD, np.int64)
        document = np.full(flat, -1, np.int64)
        side = np.zeros(flat, np.int8)
        language = np.zeros(flat, np.int16)

        # columns of the item-wide arrays; documents are numbered in the order of their columns
        start = row * T + column  # (I,)
        by_place = np.lexsort((column, row))
        rank_in_row = np.empty(len(row), np.int64)
        rank_in_row[by_place] = running_count(row[by_place])
        place = np.repeat(start, lengths) + ramp(lengths)  # (tokens of all items,)
        document[place] = np.repeat(rank_in_row, lengths)
        offset = np.zeros(flat, np.int64)
        offset[place] = ramp(lengths)
        key = np.zeros(flat, np.uint64)
        key[place] = np.repeat(items[:, 3].view(np.uint64), lengths)
        tokens[start] = BOS

        if self.pairs:
            self.write_pairs(items, stream, start, tokens, side, language)
        else:
            self.write_blocks(items, stream, start, lengths, tokens, language)
        position = np.where(document >= 0, offset + FIRST_POSITION, PAD)
        if self.reset_positions and self.pairs:
            position = restart_on_second_side(position, document, side, R, T)
        shape = (R, T)
        arrays = (tokens, document, side, position, language, key, offset)
        return Rows(*(array.reshape(shape) for array in arrays))

    def write_blocks(self, items, stream, start, lengths, tokens, language) -> None:
        for number, shard in np.unique(np.stack([stream, items[:, 0]], 1), axis=0):
            mine = np.flatnonzero((stream == number) & (items[:, 0] == shard))
            shards = self.streams[number].shards[shard]
            bounds = self.streams[number].item_bounds(int(shard))
            first, last = bounds[items[mine, 1]], bounds[items[mine, 1] + 1]
            sentences = np.repeat(first, last - first) + ramp(last - first)  # (S,)
            ids, offsets = shards.gather(sentences)
            size = np.diff(offsets)
            # each sentence begins after the sentences of its block before it, their </s> and the block's <s>
            before = np.cumsum(size + 1) - (size + 1)
            block = np.repeat(np.arange(len(mine)), last - first)
            block_first = np.concatenate([[0], np.cumsum(last - first)[:-1]])
            inside = before - before[block_first][block] + 1
            room = lengths[mine][block] - 1  # the last token is </s>
            begin = start[mine][block] + inside
            kept = np.minimum(size, room - inside)
            at = np.repeat(begin, size) + ramp(size)
            keep = ramp(size) < np.repeat(kept, size)
            tokens[at[keep]] = ids[keep]
            tokens[begin + kept] = EOS
            everything = np.repeat(start[mine], lengths[mine]) + ramp(lengths[mine])
            language[everything] = self.language_ids[number][0]

    def write_pairs(self, items, stream, start, tokens, side, language) -> None:
        drawn = np.concatenate([stream[:, None], items], 1)
        sizes = self.side_lengths(drawn)  # (I, 2) of side a and side b as they lie in the shard
        swapped = np.zeros(len(items), bool)
        if self.swap_sides:
            swapped = mix(items[:, 3].view(np.uint64) ^ np.uint64(stable_hash("swap"))) & np.uint64(1) == 1
        for number, shard in np.unique(drawn[:, :2], axis=0):
            mine = np.flatnonzero((stream == number) & (items[:, 0] == shard))
            shards = self.streams[number].shards[shard]
            pair_first = self.streams[number].item_bounds(int(shard))[items[mine, 1]]
            first_size = np.where(swapped[mine], sizes[mine, 1], sizes[mine, 0])
            for which in (0, 1):  # the side that comes first in the row, then the other
                stored = np.where(swapped[mine], 1 - which, which)
                size = np.where(stored == 1, sizes[mine, 1], sizes[mine, 0])
                ids, offsets = shards.gather(pair_first + stored)
                whole = np.diff(offsets)
                begin = start[mine] + 1 + (0 if which == 0 else first_size + self.pair_separators)
                at = np.repeat(begin, whole) + ramp(whole)
                keep = ramp(whole) < np.repeat(size, whole)
                tokens[at[keep]] = ids[keep]
                tokens[begin + size] = EOS
                if which == 1 and self.pair_separators == 2:
                    tokens[begin - 1] = EOS  # opens the second side
                codes = np.where(stored == 1, self.language_ids[number][1], self.language_ids[number][0])
                lead = 1 if which == 0 else self.pair_separators - 1
                span = size + 1 + lead
                everything = np.repeat(begin - lead, span) + ramp(span)
                side[everything] = which
                language[everything] = np.repeat(codes, span)


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


def restart_on_second_side(position, document, side, R: int, T: int) -> np.ndarray:
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
