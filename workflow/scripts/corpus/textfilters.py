"""The filters of the cleaning rules: each is a score per line, compared with a threshold of config/cleaning.yaml.

Everything works on a batch of lines at once, because a call of numpy per line would cost more than the work.
Shape letters: L lines of the batch, T tokens of all lines, C characters of all lines.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from common.errors import UserError

# Normalisation. It runs before everything else, so that tokenizer and index see one spelling of a text.

_SPACE = re.compile(r"\s+")
# Control, format and non-characters that carry nothing. ZWNJ and ZWJ stay: Persian and Hindi spell with them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
SPACE_SIGN = "\u2581"  # SentencePiece's own sign for a space; as text it would not come back from the tokenizer


def normalise(text: str) -> str:
    """NFC, one space for any white space, no invisible characters."""
    if text.isascii() and text.isprintable():
        return (_SPACE.sub(" ", text) if "  " in text else text).strip(" ")
    text = _INVISIBLE.sub("", text).replace(SPACE_SIGN, "_")
    return unicodedata.normalize("NFC", _SPACE.sub(" ", text).strip(" "))


def codes_of(lines: Sequence[str]) -> np.ndarray:
    """int64 (C,): the code points of all lines, a line feed after each."""
    return _codes("\n".join(lines) + "\n").astype(np.int64) if lines else np.zeros(0, np.int64)


def normalise_lines(lines: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """`normalise` of each line, and their codes_of. Most lines are as they should be, which is seen for all at once."""
    codes = codes_of(lines)
    plain = _PLAIN(codes)
    odd = plain == _ODD
    space = plain == _BLANK
    between = space | (codes == 10)
    odd[1:] |= (space[1:] & between[:-1]) | (between[1:] & space[:-1])
    odd[:1] |= space[:1]
    mark = np.flatnonzero((plain[1:] > 0) & (plain[1:] < _BLANK))  # and the one before: is their order canonical?
    if len(mark):
        before = plain[mark]
        odd[mark[(before < _BLANK) & (before > plain[mark + 1])]] = True
    lines = list(lines)
    changed = False
    for i in np.unique(np.searchsorted(np.flatnonzero(codes == 10), np.flatnonzero(odd))).tolist():
        line = normalise(lines[i])
        changed |= line != lines[i]
        lines[i] = line
    return lines, codes_of(lines) if changed else codes


class _Table:
    """An array over all code points, filled as characters are met."""

    def __init__(self, of: Callable[[int], int], dtype: type, unknown: int):
        self.of, self.unknown = of, unknown
        self.values = np.full(0x110000, unknown, dtype)

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        found = self.values[codes]
        missing = found == self.unknown
        if missing.any():
            for code in np.unique(codes[missing]).tolist():
                self.values[code] = self.of(code)
            found = self.values[codes]
        return found


# In _PLAIN: 0 is a character that stays as it is, 1 to 240 the combining class of such a mark.
_BLANK, _ODD, _UNSEEN = 253, 254, 255


@cache
def _joining_marks() -> frozenset[str]:
    """Marks that may join the character before them in NFC."""
    ranges = (range(0xC0, 0x3400), range(0xF900, 0x20000))  # the others are Chinese and Korean, and have no marks
    pairs = (unicodedata.decomposition(chr(code)).split() for codes in ranges for code in codes)
    return frozenset(chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<"))


def _plain(code: int) -> int:
    character = chr(code)
    if character == " ":
        return _BLANK
    if character == "\n":
        return 0
    if (
        character == SPACE_SIGN
        or character.isspace()
        or _INVISIBLE.match(character)
        or unicodedata.normalize("NFC", character) != character
        or 0x1160 <= code <= 0x11FF  # Korean letters that join syllables
        or (unicodedata.category(character)[0] == "M" and character in _joining_marks())
    ):
        return _ODD
    return unicodedata.combining(character)


_PLAIN = _Table(_plain, np.uint8, _UNSEEN)


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


_FOLDED = _Table(_fold_code, np.int32, -1)


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
    return folded | np.where(_is_digit(folded), _DIGIT_SIGN, 0).astype(np.int32)


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


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BASE = 0xD1342543DE82EF95  # 5 mod 8: its powers modulo 2**64 repeat only after 2**62
_BASE_INVERSE = pow(_BASE, -1, 1 << 64)


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def hash_segments(codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """One hash per non-empty segment codes[starts[i]:starts[i+1]]; position in the segment matters."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    lengths = np.diff(starts, append=len(codes))
    # the position in the segment, from 1, times _GOLDEN
    x = _multiples(len(codes)) - np.repeat(starts.astype(np.uint64) * _GOLDEN, lengths)
    x += codes.astype(np.uint64)
    return _mix(np.add.reduceat(_mix(x), starts))


_MULTIPLES = np.zeros(0, np.uint64)


def _multiples(count: int) -> np.ndarray:
    """1, 2, 3 ... times _GOLDEN."""
    global _MULTIPLES
    if len(_MULTIPLES) < count:
        _MULTIPLES = np.arange(1, 2 * count + 1, dtype=np.uint64) * _GOLDEN
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
    seeds = np.arange(1, 2 * count + 1, dtype=np.uint64) * _GOLDEN
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
    hashes = np.tile(np.arange(1, bands + 1, dtype=np.uint64) * _GOLDEN, (len(signatures), 1))
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


# Characters: what a line is made of

_LETTER, _DIGIT, _SPACE_CLASS, _SYMBOL, _BROKEN, _OWN = 1, 2, 4, 8, 16, 32
_CLASSES = 64  # their sums are below
_UNKNOWN = 255

# ISO 15924 code -> first word of the Unicode names of its letters
_SCRIPT_NAMES = {
    "Arab": ("ARABIC",), "Armn": ("ARMENIAN",), "Beng": ("BENGALI",), "Cyrl": ("CYRILLIC",), "Deva": ("DEVANAGARI",),
    "Ethi": ("ETHIOPIC",), "Geor": ("GEORGIAN",), "Grek": ("GREEK",), "Gujr": ("GUJARATI",), "Guru": ("GURMUKHI",),
    "Hang": ("HANGUL",), "Hani": ("CJK", "IDEOGRAPHIC"), "Hans": ("CJK", "IDEOGRAPHIC"), "Hant": ("CJK", "IDEOGRAPHIC"),
    "Hebr": ("HEBREW",), "Jpan": ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "Khmr": ("KHMER",), "Knda": ("KANNADA",), "Kore": ("HANGUL", "CJK"), "Laoo": ("LAO",),
    "Latn": ("LATIN", "FEMININE", "MASCULINE"),
    "Mlym": ("MALAYALAM",), "Mymr": ("MYANMAR",), "Orya": ("ORIYA",), "Sinh": ("SINHALA",), "Taml": ("TAMIL",),
    "Telu": ("TELUGU",), "Thai": ("THAI",), "Tibt": ("TIBETAN",),
}  # fmt: skip


def script_names(script: str, where: str = "config/languages.tsv") -> tuple[str, ...]:
    """Unicode name prefixes of ISO 15924 codes; several codes are separated by commas."""
    names: list[str] = []
    for code in re.split(r"[,+/ ]+", script.strip()):
        if code not in _SCRIPT_NAMES:
            raise UserError(f"{where}, column script: unknown code {code!r}; use one of {', '.join(_SCRIPT_NAMES)}")
        names += _SCRIPT_NAMES[code]
    return tuple(names)


class CharacterClasses(_Table):
    """Class of every code point for one script, looked up once and kept."""

    def __init__(self, script: str):
        super().__init__(lambda code: self._classify(chr(code)), np.uint8, _UNKNOWN)
        self.names = script_names(script) if script else ()

    def _classify(self, character: str) -> int:
        category = unicodedata.category(character)
        if character == "\ufffd" or category in ("Co", "Cn", "Cs"):
            return _BROKEN
        if category == "Zs":
            return _SPACE_CLASS
        if category[0] == "N":
            return _DIGIT
        if category[0] == "L":
            own = unicodedata.name(character, "").split(" ", 1)[0] in self.names
            return _LETTER | (_OWN if own else 0)
        return 0 if category[0] == "M" or category == "Cf" else _SYMBOL


_DIGITS = CharacterClasses("")


def _is_digit(codes: np.ndarray) -> np.ndarray:
    return _DIGITS(codes) == _DIGIT


@dataclass(frozen=True)
class Characters:
    """Counts per line, each int64 (L,)."""

    total: np.ndarray
    visible: np.ndarray
    letters: np.ndarray
    own: np.ndarray  # letters of the language's script
    digits: np.ndarray
    symbols: np.ndarray
    broken: np.ndarray


def characters_of(lines: Sequence[str], classes: CharacterClasses, codes: np.ndarray | None = None) -> Characters:
    codes = codes_of(lines) if codes is None else codes
    ends = np.flatnonzero(codes == 10)
    kinds = classes(codes)
    kinds[ends] = 0
    lengths = np.diff(ends, prepend=-1)
    # one pass over the characters, whatever is counted
    table = np.bincount(np.repeat(np.arange(len(ends)) * _CLASSES, lengths) + kinds, minlength=len(ends) * _CLASSES)
    table = table.reshape(len(ends), _CLASSES)

    def count(bit: int) -> np.ndarray:
        return table[:, (np.arange(_CLASSES) & bit) != 0].sum(axis=1)

    total = lengths - 1
    return Characters(
        total, total - count(_SPACE_CLASS), count(_LETTER), count(_OWN), count(_DIGIT), count(_SYMBOL), count(_BROKEN)
    )


def spaced_words(characters: Characters) -> np.ndarray:
    """int64 (L,): len(line.split()) of normalised lines, whose only white space is one space between words."""
    return (characters.total - characters.visible + 1) * (characters.total > 0)


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
