"""Which lines hold a test sentence, or are nearly one: exact windows of words, and MinHash over shingles.

Shape letters: L lines of the batch, T words of all lines.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from corpus.words import GOLDEN, Words, mix, words_of

# Decontamination

EVAL_INDEX_VERSION = 1
_WHOLE = 1 << 32  # added to the length of a unit that only matches a whole line


def index_units(lines: Sequence[str], inside_words: int, inside_letters: int, window_words: int) -> np.ndarray:
    """uint64 (n, 3): anchor, length, hash of every window that stands for one of the test units `lines`.

    A unit of at least `inside_words` words and `inside_letters` letters (a word of one letter counts as two: most are
    Chinese or Thai) is found anywhere in a line: the hash of its first `inside_words` words is the anchor, and the hash
    of all its words confirms. A shorter one only matches a line that has no other words: "I know." leaks nothing. A
    unit longer than `window_words` is cut, so that one sentence of a test paragraph is found too.
    """
    words = words_of(lines)
    counts = words.counts
    pieces = np.maximum(1, -(-counts // window_words))
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    line = np.repeat(np.arange(len(counts)), pieces)
    lengths = np.minimum(counts[line], window_words)
    starts = words.offsets[line] + np.minimum(piece * window_words, counts[line] - lengths)
    singles = np.concatenate([[0], np.cumsum(words.lengths == 1)])[words.offsets]
    whole = (counts < inside_words) | (words.skeleton_lengths + np.diff(singles) < inside_letters)
    filled = lengths > 0
    starts, lengths, whole = starts[filled], lengths[filled], whole[line[filled]]
    hashes = words.windows
    anchors = hashes.hash(starts, np.minimum(lengths, inside_words))
    marked = lengths.astype(np.uint64) + whole.astype(np.uint64) * np.uint64(_WHOLE)
    return np.stack([anchors, marked, hashes.hash(starts, lengths)], axis=1)


class EvalIndex:
    """An index of test units, ready to be searched; most windows of a text are not in it, which one look tells."""

    def __init__(self, index: np.ndarray):
        """`index`: row 0 holds its version and `inside_words`, the others are index_units."""
        self.inside_words = int(index[0, 1])
        self.anchors, self.marked, self.hashes = (np.ascontiguousarray(column) for column in index[1:].T)
        bits = max(8, min(22, (16 * len(self.anchors)).bit_length()))
        self.shift = np.uint64(64 - bits)
        self.seen = np.zeros(1 << bits, bool)
        self.seen[self.anchors >> self.shift] = True


def leaked(words: Words, index: EvalIndex) -> np.ndarray:
    """bool (L,): lines that hold a test unit of the index."""
    counts = words.counts
    found = np.zeros(len(counts), bool)
    if not len(index.anchors) or not len(words.hashes):
        return found
    ends = np.repeat(words.offsets[1:], counts)
    starts = np.arange(len(words.hashes))
    left = ends - starts
    # every full window, and the whole of a line that is shorter than a window
    use = left >= index.inside_words
    use[words.offsets[:-1][counts > 0]] = True
    starts, left = starts[use], left[use]
    anchors = words.windows.hash(starts, np.minimum(left, index.inside_words))
    seen = np.flatnonzero(index.seen[anchors >> index.shift])
    starts, left, anchors = starts[seen], left[seen], anchors[seen]
    low = np.searchsorted(index.anchors, anchors, side="left")
    high = np.searchsorted(index.anchors, anchors, side="right")
    hit = np.flatnonzero(high > low)
    many = high[hit] - low[hit]
    row = np.repeat(low[hit], many) + np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    starts, left = np.repeat(starts[hit], many), np.repeat(left[hit], many)
    line = np.searchsorted(words.offsets, starts, side="right") - 1
    whole = index.marked[row] >= _WHOLE
    lengths = (index.marked[row] % np.uint64(_WHOLE)).astype(np.int64)
    fits = np.where(whole, counts[line] == lengths, left >= lengths)
    row, starts, line, lengths = row[fits], starts[fits], line[fits], lengths[fits]
    found[line[words.windows.hash(starts, lengths) == index.hashes[row]]] = True
    return found


# Near duplicates: MinHash over word shingles


def minhash_constants(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Fixed multipliers (odd) and additions of `count` hash functions."""
    seeds = np.arange(1, 2 * count + 1, dtype=np.uint64) * GOLDEN
    return mix(seeds[:count]) | np.uint64(1), mix(seeds[count:])


def minhash(
    words: Words, starts: np.ndarray, shingle_words: int, shingle_characters: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Signatures uint32 (D, count) and number of shingles (D,) of documents that begin at lines `starts`.

    A shingle is a run of `shingle_words` words, or of `shingle_characters` characters where most words are one letter:
    two Thai letters in a row say nothing.
    """
    bounds = np.append(words.offsets[starts], words.offsets[-1])  # (D + 1,)
    singles = np.concatenate([[0], np.cumsum(words.lengths == 1)])[bounds]
    unspaced = 2 * np.diff(singles) > np.diff(bounds)
    shingle = np.where(unspaced, shingle_characters, shingle_words)  # (D,)
    sizes = np.maximum(0, np.diff(bounds) - shingle + 1)
    signatures = np.full((len(sizes), count), np.iinfo(np.uint32).max, np.uint32)
    full = np.flatnonzero(sizes)
    if not len(full):
        return signatures, sizes
    begins = np.cumsum(sizes[full]) - sizes[full]
    shingle_starts = np.arange(sizes.sum()) - np.repeat(begins, sizes[full]) + np.repeat(bounds[full], sizes[full])
    shingles = words.windows.hash(shingle_starts, np.repeat(shingle[full], sizes[full]))
    multipliers, additions = minhash_constants(count)
    values = np.zeros(len(shingles), np.dtype("<u8"))
    upper = values.view("<u4")[1::2]
    for i in range(count):
        np.multiply(shingles, multipliers[i], out=values)
        values += additions[i]
        signatures[full, i] = np.minimum.reduceat(upper, begins)
    return signatures, sizes


def band_hashes(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 (D, bands): documents that share one of these are candidates."""
    values = signatures.astype(np.uint64).reshape(len(signatures), bands, rows)
    hashes = np.tile(np.arange(1, bands + 1, dtype=np.uint64) * GOLDEN, (len(signatures), 1))
    for row in range(rows):
        hashes = mix(hashes + values[:, :, row])
    return hashes


class NearIndex:
    """MinHash signatures of test units, found by the bands that a line shares with them."""

    def __init__(self, signatures: np.ndarray, limits: "Shingles", similarity: float):
        """`signatures`: uint32 (N, bands * rows)."""
        self.signatures, self.limits, self.similarity = signatures, limits, similarity
        hashes = band_hashes(signatures, limits.bands, limits.rows).ravel()
        order = np.argsort(hashes, kind="stable")
        self.hashes, self.units = hashes[order], order // limits.bands


class Shingles(Protocol):
    """Of the thresholds of duplicates, what says how texts are compared."""

    shingle_words: int
    shingle_characters: int
    bands: int
    rows: int
    smallest_document: int


def signatures_of(words: Words, limits: Shingles) -> tuple[np.ndarray, np.ndarray]:
    """Signatures of lines with enough shingles to be compared, uint32 (N, bands * rows), and their numbers (N,)."""
    lines = np.arange(len(words.offsets) - 1)
    signatures, sizes = minhash(
        words, lines, limits.shingle_words, limits.shingle_characters, limits.bands * limits.rows
    )
    enough = np.flatnonzero(sizes >= limits.smallest_document)
    return signatures[enough], enough


def resembles(words: Words, index: NearIndex | None) -> np.ndarray:
    """bool (L,): lines that are nearly a test unit."""
    found = np.zeros(len(words.offsets) - 1, bool)
    if index is None or not len(index.units):
        return found
    signatures, lines = signatures_of(words, index.limits)
    hashes = band_hashes(signatures, index.limits.bands, index.limits.rows).ravel()
    low, high = (np.searchsorted(index.hashes, hashes, side=side) for side in ("left", "right"))
    many = high - low
    asked = np.repeat(np.arange(len(hashes)) // index.limits.bands, many)
    unit = index.units[np.repeat(low - (np.cumsum(many) - many), many) + np.arange(many.sum())]
    pairs = np.unique(asked * len(index.signatures) + unit)  # of several equal bands one look is enough
    asked, unit = np.divmod(pairs, len(index.signatures))
    alike = (signatures[asked] == index.signatures[unit]).mean(axis=1) >= index.similarity
    found[lines[asked[alike]]] = True
    return found
