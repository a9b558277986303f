"""From shards to the rows of one training step, the same for any number of ranks, workers and interruptions.

1. A Stream walks one language or one language pair, in a new seeded order each epoch. Its place is three integers.
2. A Mixture draws streams with the probabilities q of the sampling plan. Step s draws the same items whoever asks.
3. Packing lays items into rows (first the longest); what finds no room waits for the next step.
4. Assembly turns the items of the rows that this rank owns into arrays.

What an item is, and how its sentences lie in it, is its form: engine/forms.py.

Every random choice about an item (selection, corruption, swapped sides) is a function of (seed, stream, epoch, item),
so packing and batching cannot change it.

Shapes: R rows, T tokens of a row, I items of a step, P pieces of these items.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from common.errors import UserError
from engine.forms import FORMS, SHORTEST, TWO_PAIRS
from engine.ragged import ramp, running_count
from engine.randomness import mix, stable_hash, uniform
from engine.shards import Shards
from engine.streams import NOTHING, PIECE, Drawn, ItemOptions, Source, Stream, piece_lengths, tokens_before
from engine.tokenizer import EOS, PAD

FIRST_POSITION = PAD + 1


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
