"""Code-switched sentences (ALM): phrases replaced by their translations, then masked language modelling as ever.

Of the pairs, source_share stay the first sentence, target_share become the second one; in all others phrases are
replaced, at random, until replaced_share of the words are. The paper takes its phrases from a word aligner over words;
here there is no word and no aligner, so it is done with less: IBM model 1 between pieces, both ways, learned from the
first pairs of each language pair; pieces that choose each other are linked; a phrase is a run of up to four pieces
whose partners are a run in the same order, cut by coins. So a phrase keeps its length, and so does the sentence.

The other sentence of the pair becomes a hole in its row: half of the row is not trained on.

Shapes: P pairs, X and Y pieces of the longest first and second sentence, C pieces that occur together.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engine.corruption import mask_tokens
from engine.data import FIRST_POSITION, Rows
from engine.objectives.base import Objective
from engine.objectives.mlm import masked_lm_loss
from engine.ragged import ramp, running_count
from engine.randomness import mix, stable_hash, uniform
from engine.shards import open_shards
from engine.streams import Source, language_codes
from engine.tokenizer import FIRST_PIECE, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

PAIRS = 10_000  # of each language pair, to learn its lexicon from
LONGEST_SENTENCE = 60
LONGEST_PHRASE = 4
ROUNDS = 5  # of expectation and maximisation
LEAST = 0.02  # of a translation's probability
CHUNK = 256  # pairs whose links are looked up at one time


class Lexicon(NamedTuple):
    """p(y | x) of pieces, by the sorted keys ((language of x, language of y), x, y)."""

    keys: np.ndarray
    probabilities: np.ndarray

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.probabilities[at], 0.0)


def key_of(languages: tuple, x: np.ndarray, y: np.ndarray, vocabulary: int, all_languages: int) -> np.ndarray:
    pair = np.asarray(languages[0], np.int64) * all_languages + languages[1]
    return (pair * vocabulary + x) * vocabulary + y


@lru_cache(maxsize=4)
def lexicon_of(sources: tuple[Source, ...], vocabulary: int) -> Lexicon:
    codes = language_codes(sources)
    parts = []
    by_languages: dict[tuple[int, ...], list[Source]] = {}
    for source in sources:
        if source.kind == "bitext":
            by_languages.setdefault(tuple(map(codes.index, source.languages)), []).append(source)
    for languages, own in by_languages.items():
        sides = first_pairs(own)
        for x, y in ((0, 1), (1, 0)):
            xs, ys, probabilities = model_1(*sides[x], *sides[y], vocabulary)
            keys = key_of((languages[x], languages[y]), xs, ys, vocabulary, len(codes))
            parts.append((keys, probabilities))
    keys, probabilities = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(keys)
    return Lexicon(keys[order], probabilities[order])


def first_pairs(sources: list[Source]) -> list[tuple[np.ndarray, np.ndarray]]:
    """(pieces, length of each sentence) of both sides of the first pairs, an equal number from each source."""
    sides: tuple[list, list] = ([], [])
    for source in sources:
        shards = open_shards(source.manifests)
        pairs = np.arange(min(PAIRS // len(sources) + 1, len(shards.document_offsets()) - 1))
        for side in (0, 1):
            pieces, offsets = shards.gather(2 * pairs + side)
            kept = ramp(np.diff(offsets)) < LONGEST_SENTENCE
            sides[side].append((pieces[kept], np.minimum(np.diff(offsets), LONGEST_SENTENCE)))
    return [tuple(np.concatenate(arrays).astype(np.int64) for arrays in zip(*side, strict=True)) for side in sides]


def model_1(
    x: np.ndarray, x_lengths: np.ndarray, y: np.ndarray, y_lengths: np.ndarray, vocabulary: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IBM model 1: (x, y, p(y | x)) of all pieces that occur together and whose p is not tiny."""
    together = x_lengths * y_lengths
    pair_C = np.repeat(np.arange(len(together)), together)
    i_C, j_C = np.divmod(ramp(together), np.repeat(y_lengths, together))
    i_C += (np.cumsum(x_lengths) - x_lengths)[pair_C]
    j_C += (np.cumsum(y_lengths) - y_lengths)[pair_C]
    entries, entry_C = np.unique(x[i_C] * vocabulary + y[j_C], return_inverse=True)
    xs = entries // vocabulary
    t = np.ones(len(entries))
    for _ in range(ROUNDS):
        share_C = t[entry_C]
        share_C = share_C / np.bincount(j_C, share_C, minlength=len(y))[j_C]
        t = np.bincount(entry_C, share_C)
        t /= np.bincount(xs, t)[xs]
    kept = t >= LEAST
    return xs[kept], entries[kept] % vocabulary, t[kept]


def switch_and_mask(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    lexicon = lexicon_of(objective.sources, vocabulary)
    switch(rows, objective, vocabulary, lexicon, len(language_codes(objective.sources)))
    return mask_tokens(rows, objective, vocabulary)


def switch(rows: Rows, objective: "ObjectiveConfig", vocabulary: int, lexicon: Lexicon, all_languages: int) -> None:
    """Make one sentence of each pair, in place; the numbers of rows, columns and keys stay."""
    options = objective.options
    flat = {name: getattr(rows, name).reshape(-1) for name in ("tokens", "document", "side", "language", "key")}
    place = np.flatnonzero(flat["document"] >= 0)
    starts = np.flatnonzero(rows.offset.reshape(-1)[place] == 0)
    item = np.cumsum(rows.offset.reshape(-1)[place] == 0) - 1  # of each token; items lie in the order of their places
    key_P = flat["key"][place[starts]] ^ np.uint64(stable_hash(objective.draws_as, "code switch"))
    fate_P = uniform(key_P)
    target_P = fate_P >= 1 - options.target_share

    side, piece = flat["side"][place], flat["tokens"][place] >= FIRST_PIECE
    x_PX, y_PY = (padded(place, item, piece & (side == own), len(starts)) for own in (0, 1))
    parts = [slice(first, first + CHUNK) for first in range(0, len(starts), CHUNK)]
    some_links = [links(flat, x_PX[part], y_PY[part], vocabulary, lexicon, all_languages) for part in parts]
    link_PX = np.concatenate(some_links) if parts else x_PX
    link_PX[(fate_P < options.source_share) | target_P] = -1
    chosen_PX = choose_phrases(link_PX, (x_PX >= 0).sum(1), key_P, options.replaced_share)
    to = x_PX[chosen_PX]
    take = y_PY[np.nonzero(chosen_PX)[0], link_PX[chosen_PX]]
    flat["tokens"][to], flat["language"][to] = flat["tokens"][take], flat["language"][take]

    opens = np.zeros(len(place), bool)
    opens[starts] = True
    between = (side == 1) & (np.append(0, side[:-1]) == 0) & (objective.pair_separators == 2)
    kept = opens | np.where(target_P[item], (side == 1) & ~between, side == 0)
    language_P = flat["language"][place[np.flatnonzero(np.diff(np.append(item, -1)) != 0)]]  # of each second side
    flat["language"][place[starts[target_P]]] = language_P[target_P]
    gone, left = place[~kept], place[kept]
    flat["tokens"][gone], flat["document"][gone] = PAD, -1
    flat["side"][place] = 0
    rows.position.reshape(-1)[gone] = PAD
    rows.position.reshape(-1)[left] = FIRST_POSITION + running_count(item[kept])


def padded(place: np.ndarray, item: np.ndarray, wanted: np.ndarray, items: int) -> np.ndarray:
    """(P, W) places of the wanted tokens of each item, -1 after the last."""
    counts = np.bincount(item[wanted], minlength=items)
    found = np.full((items, max([1, *counts.tolist()])), -1)
    found[item[wanted], running_count(item[wanted])] = place[wanted]
    return found


def links(
    flat: dict[str, np.ndarray],
    x_PX: np.ndarray,
    y_PY: np.ndarray,
    vocabulary: int,
    lexicon: Lexicon,
    all_languages: int,
) -> np.ndarray:
    """(P, X) the number of the piece of y that each piece of x and that piece choose of all, -1: none."""
    x, y = (np.where(places >= 0, flat["tokens"][places], PAD) for places in (x_PX, y_PY))
    of_x, of_y = (flat["language"][places[:, :1]].astype(np.int64)[..., None] for places in (x_PX, y_PY))
    y_given_x = lexicon.look_up(key_of((of_x, of_y), x[:, :, None], y[:, None, :], vocabulary, all_languages))
    x_given_y = lexicon.look_up(key_of((of_y, of_x), y[:, None, :], x[:, :, None], vocabulary, all_languages))
    best_x_PY, best_y_PX = y_given_x.argmax(1), x_given_y.argmax(2)
    agree_PX = np.take_along_axis(best_x_PY, best_y_PX, 1) == np.arange(x.shape[1])
    known_PX = np.take_along_axis(np.minimum(y_given_x, x_given_y), best_y_PX[..., None], 2)[..., 0] > 0
    return np.where(agree_PX & known_PX, best_y_PX, -1)


def choose_phrases(link_PX: np.ndarray, lengths_P: np.ndarray, key_P: np.ndarray, share: float) -> np.ndarray:
    """(P, X) bool: whole phrases, in a random order, while they are at most `share` of the sentence."""
    P, X = link_PX.shape
    column = np.arange(X)
    previous = np.pad(link_PX, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    begins = (link_PX < 0) | (previous < 0) | (link_PX != previous + 1)
    begins |= uniform(key_P[:, None] + mix(column.astype(np.uint64))) < 0.5  # long phrases alone would seldom fit
    run = column - np.maximum.accumulate(np.where(begins, column, 0), axis=1)
    begins |= run % LONGEST_PHRASE == 0
    first_PX = np.maximum.accumulate(np.where(begins, column, 0), axis=1)  # column where the phrase begins
    item, place = np.nonzero(link_PX >= 0)
    first = first_PX[item, place]
    draw = uniform(mix(key_P)[item] + mix(first.astype(np.uint64)))
    order = np.lexsort((place, first, draw, item))
    so_far = running_count(item[order]) + 1
    last = np.zeros((P, X), np.int64)  # by the phrase: how many pieces are replaced when it is
    np.maximum.at(last, (item[order], first[order]), so_far)
    chosen = np.zeros((P, X), bool)
    chosen[item, place] = last[item, first] <= share * lengths_P[item]
    return chosen


CODE_SWITCH = Objective(masked_lm_loss, corrupt=switch_and_mask)
