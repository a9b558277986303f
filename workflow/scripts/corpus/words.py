"""The words of lines, as hashes of what two lines must share to count as the same.

Shape letters: L lines of the batch, T words and C characters of all lines.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corpus.characters import Table, _codes, codes_of, is_digit

# Folding: what two lines must share to count as the same words.

_DIACRITICS = (
    (0x0300, 0x036F), (0x0483, 0x0487), (0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06ED), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0xFE20, 0xFE2F),
)  # fmt: skip
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029),
    (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)  # fmt: skip


def _inside(code: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


class _Folding(dict):
    """A str.translate table, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character == "\n":
            folded = "\n"
        elif category == "Cf" or _inside(code, _DIACRITICS):
            folded = ""
        elif category[0] not in "LMN":
            folded = " "
        elif _inside(code, _UNSPACED):
            folded = f" {character} "  # scripts without spaces: each character is a word
        else:
            folded = character
        self[code] = folded
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    """Casefolded compatibility form without diacritics and punctuation; words separated by spaces, lines kept.

    Vowel signs of Indic scripts are no diacritics: without them different words would fall together.
    """
    return unicodedata.normalize("NFKD", text.casefold()).translate(_FOLDING)


# The same on code points: the folded one with these signs, or _OTHER and the number of the list that it becomes.
_ALONE = 1 << 21  # a word of its own
_MARK = 1 << 22  # a mark whose place among other marks NFKD may change
_DIGIT_SIGN = 1 << 23
_OTHER = 1 << 30
_CODE = (1 << 21) - 1
_LISTS: list[list[int]] = [[]]


def _fold_code(code: int) -> int:
    folded = fold(chr(code))
    words = folded.replace(" ", "")
    alone = words != "" and all(_inside(ord(character), _UNSPACED) for character in words)
    signs = []
    for character in words if alone else folded:
        mark, digit = unicodedata.combining(character), unicodedata.category(character)[0] == "N"
        signs.append(ord(character) | _ALONE * alone | _MARK * (mark > 0) | _DIGIT_SIGN * digit)
    if len(signs) == 1:
        return signs[0]
    if not signs:
        return _OTHER
    _LISTS.append(signs)
    return _OTHER | len(_LISTS) - 1


_FOLDED = Table(_fold_code, np.int32, -1)


def fold_codes(codes: np.ndarray) -> np.ndarray:
    """int32: what `fold` makes of these code points, but with _ALONE in place of the spaces around a character."""
    folded = _FOLDED(codes)
    other = np.flatnonzero(folded >= _OTHER)
    if len(other):
        kinds, kind = np.unique(folded[other], return_inverse=True)
        lists = [_LISTS[i] for i in (kinds - _OTHER).tolist()]
        sizes = np.array([len(signs) for signs in lists])
        if not sizes.any():
            folded = np.delete(folded, other)
        else:
            begins = np.cumsum(sizes) - sizes
            counts = np.ones(len(folded), np.int64)
            counts[other] = sizes[kind]
            at = (np.cumsum(counts) - counts)[other]
            folded = np.repeat(folded, counts)
            many = sizes[kind]
            within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            pool = np.array([sign for signs in lists for sign in signs], np.int32)
            folded[np.repeat(at, many) + within] = pool[np.repeat(begins[kind], many) + within]
    marks = (folded & _MARK) != 0
    pairs = np.flatnonzero(marks[1:] & marks[:-1])
    for a, b in np.unique(np.stack([folded[pairs], folded[pairs + 1]], 1) & _CODE, axis=0).tolist():
        if unicodedata.combining(chr(a)) > unicodedata.combining(chr(b)):  # NFKD may put them into another order
            text = codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
            return _fold_slowly(text)
    return folded


def _fold_slowly(text: str) -> np.ndarray:
    folded = _codes(fold(text)).astype(np.int32)
    return folded | np.where(is_digit(folded), _DIGIT_SIGN, 0).astype(np.int32)


# 64-bit hashes of words, lines and windows of words


def mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: spreads every input bit over all 64."""
    return _mix(values.astype(np.uint64))


def _mix(x: np.ndarray) -> np.ndarray:
    """The same in place."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BASE = 0xD1342543DE82EF95  # 5 mod 8: its powers modulo 2**64 repeat only after 2**62
_BASE_INVERSE = pow(_BASE, -1, 1 << 64)


def hash_segments(codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """One hash per non-empty segment codes[starts[i]:starts[i+1]]; position in the segment matters."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    lengths = np.diff(starts, append=len(codes))
    # the position in the segment, from 1, times GOLDEN
    x = _multiples(len(codes)) - np.repeat(starts.astype(np.uint64) * GOLDEN, lengths)
    x += codes.astype(np.uint64)
    return _mix(np.add.reduceat(_mix(x), starts))


_MULTIPLES = np.zeros(0, np.uint64)


def _multiples(count: int) -> np.ndarray:
    """1, 2, 3 ... times GOLDEN."""
    global _MULTIPLES
    if len(_MULTIPLES) < count:
        _MULTIPLES = np.arange(1, 2 * count + 1, dtype=np.uint64) * GOLDEN
    return _MULTIPLES[:count]


@dataclass(frozen=True)
class Words:
    """The folded words of a batch of lines, as hashes."""

    letters: np.ndarray  # int32 (C,): of all words, with the signs of fold_codes
    starts: np.ndarray  # int64 (T,): first letter of each word
    offsets: np.ndarray  # int64 (L + 1,): first word of each line

    @cached_property
    def hashes(self) -> np.ndarray:  # uint64 (T,)
        return hash_segments(self.letters & _CODE, self.starts)

    @cached_property
    def lengths(self) -> np.ndarray:  # int64 (T,), characters
        return np.diff(self.starts, append=len(self.letters))

    @cached_property
    def counts(self) -> np.ndarray:  # (L,)
        return np.diff(self.offsets)

    @cached_property
    def _digits(self) -> np.ndarray:  # which letters are digits; few are
        return np.flatnonzero(self.letters & _DIGIT_SIGN)

    @cached_property
    def numbers(self) -> np.ndarray:  # bool (T,): digits only
        word = np.searchsorted(self.starts, self._digits, side="right") - 1
        return np.bincount(word, minlength=len(self.starts)) == self.lengths

    @cached_property
    def skeleton_lengths(self) -> np.ndarray:  # int64 (L,): letters that are no digits
        bounds = np.append(self.starts, len(self.letters))[self.offsets]
        return np.diff(bounds) - np.diff(np.searchsorted(self._digits, bounds))

    @cached_property
    def skeletons(self) -> np.ndarray:  # uint64 (L,): hash of the letters alone, 0 where there are none
        letters = np.delete(self.letters, self._digits) if len(self._digits) else self.letters
        filled = np.flatnonzero(self.skeleton_lengths)
        skeletons = np.zeros(len(self.offsets) - 1, np.uint64)
        starts = np.cumsum(self.skeleton_lengths)[filled] - self.skeleton_lengths[filled]
        skeletons[filled] = hash_segments(letters & _CODE, starts)
        return skeletons

    @cached_property
    def windows(self) -> "Windows":
        return Windows(self.hashes)


def words_of(lines: Sequence[str], codes: np.ndarray | None = None) -> Words:
    """Fold a batch of lines (without line ends) and cut it into words; `codes` are their codes_of, if at hand."""
    folded = fold_codes(codes_of(lines) if codes is None else codes)
    ends = folded == 10
    inside = ~(ends | (folded == 32))
    begins = inside.copy()
    joined = inside[:-1]
    alone = (folded & _ALONE) != 0
    if alone.any():
        joined = joined & ~(alone[:-1] | alone[1:])
    begins[1:] &= ~joined
    offsets = np.zeros(len(lines) + 1, np.int64)
    offsets[1:] = np.searchsorted(np.flatnonzero(begins), np.flatnonzero(ends))
    return Words(folded[inside], np.flatnonzero(begins[inside]), offsets)


def exact_hashes(lines: Sequence[str], codes: np.ndarray | None = None) -> np.ndarray:
    """uint64 (L,): a hash of each line's characters."""
    codes = codes_of(lines) if codes is None else codes
    ends = np.flatnonzero(codes == 10)
    return hash_segments(codes, np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends)


class Windows:
    """Hashes of any stretch of words in constant time, by prefix sums of a polynomial modulo 2**64."""

    def __init__(self, hashes: np.ndarray):
        self.inverse = _powers(_BASE_INVERSE, len(hashes) + 1)
        self.sums = np.zeros(len(hashes) + 1, np.uint64)
        np.cumsum(hashes * _powers(_BASE, len(hashes)), out=self.sums[1:])

    def hash(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """uint64: hash of words [start, start + length), equal for equal words wherever they stand."""
        x = self.sums[starts + lengths]
        x -= self.sums[starts]
        x *= self.inverse[starts]
        x += lengths.astype(np.uint64)
        return _mix(x)


_POWERS: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    if len(_POWERS.get(base, ())) < count:
        factors = np.full(max(2 * count, 1 << 16), base, np.uint64)
        factors[0] = 1
        _POWERS[base] = np.cumprod(factors, dtype=np.uint64)
    return _POWERS[base][:count] if count else np.zeros(0, np.uint64)
