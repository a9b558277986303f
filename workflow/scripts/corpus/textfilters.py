"""The filters of the cleaning rules: each is a score per line, compared with a threshold of config/cleaning.yaml.

Shape letters: L lines of the batch.
"""

import numpy as np

from corpus.characters import Characters
from corpus.words import Words

# Filters. Each returns bool (L,), true = reject.


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return part / np.maximum(whole, 1)


def is_empty(characters: Characters) -> np.ndarray:
    return characters.visible == 0


def is_broken(characters: Characters) -> np.ndarray:
    """Bytes that were not UTF-8, private use and unassigned characters."""
    return characters.broken > 0


def too_short(characters: Characters, words: Words, shortest_characters: int, shortest_words: int) -> np.ndarray:
    return (characters.total < shortest_characters) | (words.counts < shortest_words)


def too_long(characters: Characters, words: Words, longest_characters: int, longest_words: int) -> np.ndarray:
    return (characters.total > longest_characters) | (words.counts > longest_words)


def too_many_symbols(characters: Characters, share: float) -> np.ndarray:
    """Punctuation and symbols among all characters but spaces."""
    return _share(characters.symbols, characters.visible) > share


def too_many_numbers(words: Words, share: float) -> np.ndarray:
    """Numbers among the words: tables, scores, codes. In characters a single year would fill a short Chinese line."""
    counts = words.counts
    numbers = np.concatenate([[0], np.cumsum(words.numbers)])
    return _share(numbers[words.offsets[1:]] - numbers[words.offsets[:-1]], counts) > share


def wrong_script(characters: Characters, share: float) -> np.ndarray:
    """Too few of the letters are of the language's script; a line without letters has none."""
    return _share(characters.own, characters.letters) < share


def long_word(words: Words, longest: int) -> np.ndarray:
    """A word too long to be one: encoded data, an address, words run together."""
    longest_words = np.zeros(len(words.offsets) - 1, np.int64)
    filled = np.flatnonzero(words.counts)
    if len(filled):
        longest_words[filled] = np.maximum.reduceat(words.lengths, words.offsets[filled])
    return longest_words > longest


def repetitive(words: Words, distinct_share: float, at_least: int) -> np.ndarray:
    """Few different pairs of neighbouring words among many. Single words would not do: Thai has few letters."""
    counts = words.counts
    asked = np.flatnonzero(counts >= max(at_least, 2))
    pairs = counts[asked] - 1
    line_of = np.repeat(np.arange(len(asked)), pairs)
    starts = np.arange(len(line_of)) + np.repeat(words.offsets[asked] - (np.cumsum(pairs) - pairs), pairs)
    hashes = words.windows.hash(starts, np.full(len(starts), 2))
    # One number of line and hash sorts several times faster than two.
    bits = np.uint64(len(asked).bit_length())
    keys = np.sort(line_of.astype(np.uint64) << (np.uint64(64) - bits) | hashes >> bits)
    new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    distinct = np.bincount((keys[new] >> (np.uint64(64) - bits)).astype(np.int64), minlength=len(asked))
    flags = counts >= at_least
    flags &= distinct_share > 0  # a line without pairs has a share of 0
    flags[asked] = _share(distinct, pairs) < distinct_share
    return flags


def unequal_lengths(a: np.ndarray, b: np.ndarray, usual_log_ratio: float, ratio: float, slack: int) -> np.ndarray:
    """One side has over `ratio` times the words that the other lets expect; `slack` words are forgiven."""
    expected = a * np.exp(usual_log_ratio)
    return (b + slack < (expected + slack) / ratio) | ((b + slack) / ratio > expected + slack)


def copied(a: Words, b: Words, at_least: int) -> np.ndarray:
    """Both sides have the same letters; a name or a number alone (under `at_least` words) may."""
    same = (a.skeletons == b.skeletons) & (a.skeleton_lengths > 0)
    return same & (np.maximum(a.counts, b.counts) >= at_least)
