"""Word links of sentence pairs, learnt from the pairs themselves: does one side say what the other does?"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from common.atomic import atomic_path
from common.errors import UserError
from corpus.characters import normalise
from corpus.corpusio import PairModelThresholds, read_batches
from corpus.words import Words, mix, words_of

SMALLEST_RATIO = (
    0.05  # below it a word pair says that the words avoid each other; leaving it out saves most of the table
)
_SCORED = 4096  # pairs scored at once
_LINKS = 1 << 20  # looked up at once


@dataclass(frozen=True)
class Direction:
    """t(target | source) / p(target) of word pairs that occur together; 0 for the others."""

    cells: np.ndarray  # uint64, sorted: source * number of targets + target
    ratios: np.ndarray  # float32


@dataclass(frozen=True)
class PairModel:
    vocabularies: tuple[np.ndarray, np.ndarray]  # uint64, sorted hashes of known words, sides a and b
    forward: Direction  # a -> b
    backward: Direction  # b -> a
    unigram_weight: float  # smoothing: a word that no word of the other side explains gains log(unigram_weight)
    log_length_ratio: float  # of b to a, in words, median
    usual_gain: float  # median of the sample: what a good pair of this bitext gains

    def gain(self, a: Words, b: Words) -> np.ndarray:
        """float (L,): nats per known word, mean of both directions; 0 where no word is known."""
        known_a, known_b = known_words(a, self.vocabularies[0]), known_words(b, self.vocabularies[1])
        sizes = len(self.vocabularies[0]), len(self.vocabularies[1])
        return (
            gain_of(known_a, known_b, sizes[1], self.forward, self.unigram_weight)
            + gain_of(known_b, known_a, sizes[0], self.backward, self.unigram_weight)
        ) / 2


def known_words(words: Words, vocabulary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vocabulary numbers of known words and their line offsets."""
    place = np.minimum(np.searchsorted(vocabulary, words.hashes), max(0, len(vocabulary) - 1))
    known = vocabulary[place] == words.hashes if len(vocabulary) else np.zeros(len(words.hashes), bool)
    offsets = np.concatenate([[0], np.cumsum(known)])[words.offsets]
    return place[known], offsets


def link(
    source: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray], targets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of words of a line: its cell uint64 (N,) and the target token it belongs to int32 (N,)."""
    counts = np.diff(source[1])
    line_of = np.repeat(np.arange(len(counts)), np.diff(target[1]))  # line of each target token
    many = counts[line_of]
    token = np.repeat(np.arange(len(line_of), dtype=np.int32), many)
    where = np.arange(len(token), dtype=np.int32)  # of the source word among all
    where += np.repeat((source[1][line_of] - np.cumsum(many) + many).astype(np.int32), many)
    cells = source[0].astype(np.uint64)[where]
    cells *= np.uint64(targets)
    cells += target[0].astype(np.uint64)[token]
    return cells, token


def gain_of(
    source: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    targets: int,
    direction: Direction,
    weight: float,
) -> np.ndarray:
    """Mean over the known target words of log(weight + (1 - weight) * mean over source words of t / p)."""
    cells, token = link(source, target, targets)
    place = np.minimum(np.searchsorted(direction.cells, cells), max(0, len(direction.cells) - 1))
    known = direction.cells[place] == cells if len(direction.cells) else np.zeros(len(cells), bool)
    explained = np.bincount(token[known], direction.ratios[place[known]], minlength=len(target[0]))
    counts = np.repeat(np.diff(source[1]), np.diff(target[1]))  # source words that each target word may come from
    gains = np.log(weight + (1 - weight) * explained / np.maximum(counts, 1))
    lengths = np.diff(target[1])
    sums = np.bincount(np.repeat(np.arange(len(lengths)), lengths), gains, minlength=len(lengths))
    both = (lengths > 0) & (np.diff(source[1]) > 0)
    return np.where(both, sums / np.maximum(lengths, 1), 0.0)


def train_direction(
    source: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    sizes: tuple[int, int],
    thresholds: PairModelThresholds,
) -> Direction:
    """EM of IBM model 1, t(target | source), from a uniform start."""
    links, token = link(source, target, sizes[1])
    if not len(links):
        return Direction(np.zeros(0, np.uint64), np.zeros(0, np.float32))
    cells = np.unique(links)
    cell = np.zeros(len(links), np.int32)  # of each link
    for begin in range(0, len(links), _LINKS):
        cell[begin : begin + _LINKS] = np.searchsorted(cells, links[begin : begin + _LINKS])
    del links
    word = (cells // np.uint64(sizes[1])).astype(np.int64)  # source word of each cell
    table = np.ones(len(cells))
    for _ in range(thresholds.iterations):
        share = table[cell]
        share /= np.bincount(token, share, minlength=len(target[0]))[token]
        counts = np.bincount(cell, share, minlength=len(cells))
        table = counts / np.bincount(word, counts, minlength=sizes[0])[word]
    frequency = np.bincount(target[0], minlength=sizes[1]) / len(target[0])
    unigram = frequency[(cells % np.uint64(sizes[1])).astype(np.int64)]
    ratios = table / unigram
    kept = ratios > SMALLEST_RATIO
    return Direction(cells[kept], ratios[kept].astype(np.float32))


def sample_pairs(shards: list[Path], thresholds: PairModelThresholds) -> tuple[list[str], list[str]]:
    """The pairs with the smallest hash of their place: the same ones for any number of shards, one sample in memory."""
    chosen: list[tuple[int, str, str]] = []
    limit = 2**64
    for path in shards:
        for batch in read_batches(path, "bitext"):
            keys = mix(np.array(batch.places, np.uint64)).tolist()
            for key, a, b in zip(keys, batch.texts, batch.others, strict=True):
                if key < limit and a and b and a != b:
                    chosen.append((key, normalise(a), normalise(b)))
            if len(chosen) > 2 * thresholds.pairs:
                chosen = sorted(chosen)[: thresholds.pairs]
                limit = chosen[-1][0]
    chosen = sorted(chosen)[: thresholds.pairs]
    seen: set[tuple[str, str]] = set()  # a pair that comes many times would pull the tables
    unique = [pair for _, *sides in chosen if (pair := tuple(sides)) not in seen and not seen.add(pair)]
    return [a for a, _ in unique], [b for _, b in unique]


def vocabulary_of(words: Words, thresholds: PairModelThresholds) -> np.ndarray:
    hashes, counts = np.unique(words.hashes, return_counts=True)
    order = np.lexsort((hashes, -counts))[: thresholds.words_per_side]
    return np.sort(hashes[order[counts[order] >= thresholds.smallest_count]])


def _lines(words: Words, begin: int, end: int) -> Words:
    """Lines [begin, end)."""
    end = min(end, len(words.offsets) - 1)
    first, last = words.offsets[begin], words.offsets[end]
    left, right = np.append(words.starts, len(words.letters))[[first, last]]
    return Words(words.letters[left:right], words.starts[first:last] - left, words.offsets[begin : end + 1] - first)


def train_pair_model(left: list[str], right: list[str], thresholds: PairModelThresholds) -> PairModel:
    a, b = words_of(left), words_of(right)
    # a bound on the word pairs, which are what memory holds
    within = int(np.searchsorted(np.cumsum(a.counts * b.counts), thresholds.links, side="right"))
    if within < len(left):
        a, b = _lines(a, 0, within), _lines(b, 0, within)
    vocabularies = vocabulary_of(a, thresholds), vocabulary_of(b, thresholds)
    sizes = len(vocabularies[0]), len(vocabularies[1])
    known_a, known_b = known_words(a, vocabularies[0]), known_words(b, vocabularies[1])
    filled = (a.counts > 0) & (b.counts > 0)
    ratios = np.log(b.counts[filled] / a.counts[filled])
    model = PairModel(
        vocabularies,
        train_direction(known_a, known_b, sizes, thresholds),
        train_direction(known_b, known_a, sizes[::-1], thresholds),
        thresholds.unigram_weight,
        float(np.median(ratios)) if len(ratios) else 0.0,
        0.0,
    )
    gains = [model.gain(_lines(a, i, i + _SCORED), _lines(b, i, i + _SCORED)) for i in range(0, len(a.counts), _SCORED)]
    return replace(model, usual_gain=float(np.median(np.concatenate(gains))) if gains else 0.0)


def save(model: PairModel, path: Path) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        np.savez(
            stream,
            words_a=model.vocabularies[0],
            words_b=model.vocabularies[1],
            cells_ab=model.forward.cells,
            ratios_ab=model.forward.ratios,
            cells_ba=model.backward.cells,
            ratios_ba=model.backward.ratios,
            numbers=np.array([model.unigram_weight, model.log_length_ratio, model.usual_gain]),
        )


def load(path: Path) -> PairModel:
    try:
        with np.load(path) as arrays:
            weight, ratio, usual_gain = arrays["numbers"].tolist()
            return PairModel(
                (arrays["words_a"], arrays["words_b"]),
                Direction(arrays["cells_ab"], arrays["ratios_ab"]),
                Direction(arrays["cells_ba"], arrays["ratios_ba"]),
                weight,
                ratio,
                usual_gain,
            )
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"{path}: not a pair model ({error}); run train_pair_model again") from None
