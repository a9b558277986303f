"""The filters of the cleaning rules: each is a score per line, compared with a threshold of config/cleaning.yaml.

Everything works on a batch of lines at once, because a call of numpy per line would cost more than the work.
Shape letters: L lines of the batch, T tokens of all lines, C characters of all lines.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errors import UserError

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
        return _SPACE.sub(" ", text).strip(" ")
    text = _INVISIBLE.sub("", text).replace(SPACE_SIGN, "_")
    return unicodedata.normalize("NFC", _SPACE.sub(" ", text).strip(" "))


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


# 64-bit hashes of words, lines and windows of words


def mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: spreads every input bit over all 64."""
    x = values.astype(np.uint64)
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
    lengths = np.diff(np.append(starts, len(codes)))
    position = np.arange(len(codes), dtype=np.uint64) - np.repeat(starts.astype(np.uint64), lengths)
    return mix(np.add.reduceat(mix(codes.astype(np.uint64) + _GOLDEN * (position + np.uint64(1))), starts))


@dataclass(frozen=True)
class Words:
    """The folded words of a batch of lines, as hashes."""

    hashes: np.ndarray  # uint64 (T,)
    offsets: np.ndarray  # int64 (L + 1,)
    lengths: np.ndarray  # int64 (T,), characters
    numbers: np.ndarray  # bool (T,): digits only
    skeletons: np.ndarray  # uint64 (L,): the letters alone, 0 where there are none
    skeleton_lengths: np.ndarray  # int64 (L,)

    @property
    def counts(self) -> np.ndarray:  # (L,)
        return np.diff(self.offsets)


def words_of(lines: Sequence[str]) -> Words:
    """Fold a batch of lines (without line ends) and hash its words."""
    codes = _codes(fold("\n".join(lines)))
    ends = codes == 10
    line_of = np.cumsum(ends, dtype=np.int64)  # (C,)
    inside = ~ends & (codes != 32)
    letters = codes[inside]
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    starts = np.flatnonzero(begins[inside])
    counts = np.bincount(line_of[begins], minlength=len(lines)) if len(codes) else np.zeros(len(lines), np.int64)
    word_lengths = np.diff(np.append(starts, len(letters)))

    digits = _is_digit(letters)
    numbers = np.logical_and.reduceat(digits, starts) if len(starts) else np.zeros(0, bool)
    kept = ~digits
    skeleton = letters[kept]
    skeleton_line = line_of[inside][kept]
    skeleton_lengths = np.bincount(skeleton_line, minlength=len(lines))
    skeletons = np.zeros(len(lines), np.uint64)
    if len(skeleton):
        first = np.flatnonzero(np.append(True, skeleton_line[1:] != skeleton_line[:-1]))
        skeletons[skeleton_line[first]] = hash_segments(skeleton, first)
    return Words(
        hash_segments(letters, starts),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        word_lengths,
        numbers,
        skeletons,
        skeleton_lengths,
    )


def exact_hashes(lines: Sequence[str]) -> np.ndarray:
    """uint64 (L,): a hash of each line's characters."""
    codes = _codes("\n".join(lines) + "\n")
    ends = np.flatnonzero(codes == 10)
    return hash_segments(codes, np.concatenate([[0], ends[:-1] + 1]))


def windows(words: Words) -> "Windows":
    return Windows(words.hashes, words.offsets)


class Windows:
    """Hashes of any stretch of words in constant time, by prefix sums of a polynomial modulo 2**64."""

    def __init__(self, hashes: np.ndarray, offsets: np.ndarray):
        self.offsets = offsets
        count = len(hashes)
        powers = _powers(_BASE, count)
        self.inverse = _powers(_BASE_INVERSE, count + 1)
        self.sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes * powers, dtype=np.uint64)])

    def hash(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """uint64: hash of words [start, start + length), equal for equal words wherever they stand."""
        return mix((self.sums[starts + lengths] - self.sums[starts]) * self.inverse[starts] + lengths.astype(np.uint64))


def _powers(base: int, count: int) -> np.ndarray:
    factors = np.full(count, base, np.uint64)
    if count:
        factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


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
    hashes = windows(words)
    anchors = hashes.hash(starts, np.minimum(lengths, inside_words))
    marked = lengths.astype(np.uint64) + whole.astype(np.uint64) * np.uint64(_WHOLE)
    return np.stack([anchors, marked, hashes.hash(starts, lengths)], axis=1)


def leaked(words: Words, index: np.ndarray) -> np.ndarray:
    """bool (L,): lines that hold a test unit of the index (whose first row is its version and `inside_words`)."""
    inside_words, rows = int(index[0, 1]), index[1:]
    counts = words.counts
    found = np.zeros(len(counts), bool)
    if not len(rows) or not len(words.hashes):
        return found
    line_of = np.repeat(np.arange(len(counts)), counts)
    starts = np.arange(len(words.hashes))
    left = words.offsets[line_of + 1] - starts
    # every full window, and the whole of a line that is shorter than a window
    use = (left >= inside_words) | (starts == words.offsets[line_of])
    starts, line_of, left = starts[use], line_of[use], left[use]
    hashes = windows(words)
    anchors = hashes.hash(starts, np.minimum(left, inside_words))
    low = np.searchsorted(rows[:, 0], anchors, side="left")
    high = np.searchsorted(rows[:, 0], anchors, side="right")
    hit = np.flatnonzero(high > low)
    many = high[hit] - low[hit]
    row = np.repeat(low[hit], many) + np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    hit = np.repeat(hit, many)
    whole, lengths = rows[row, 1] >= _WHOLE, (rows[row, 1] % np.uint64(_WHOLE)).astype(np.int64)
    fits = np.where(whole, counts[line_of[hit]] == lengths, left[hit] >= lengths)
    row, hit, lengths = row[fits], hit[fits], lengths[fits]
    same = hashes.hash(starts[hit], lengths) == rows[row, 2]
    found[line_of[hit[same]]] = True
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
    shingles = windows(words).hash(shingle_starts, np.repeat(shingle[full], sizes[full]))
    multipliers, additions = minhash_constants(count)
    for i in range(count):
        values = (shingles * multipliers[i] + additions[i]) >> np.uint64(32)
        signatures[full, i] = np.minimum.reduceat(values, begins).astype(np.uint32)
    return signatures, sizes


def band_hashes(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 (D, bands): documents that share one of these are candidates."""
    values = signatures.astype(np.uint64).reshape(len(signatures), bands, rows)
    hashes = np.tile(np.arange(1, bands + 1, dtype=np.uint64) * _GOLDEN, (len(signatures), 1))
    for row in range(rows):
        hashes = mix(hashes + values[:, :, row])
    return hashes


# Characters: what a line is made of

_LETTER, _DIGIT, _SPACE_CLASS, _SYMBOL, _BROKEN, _OWN = 1, 2, 4, 8, 16, 32
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


class CharacterClasses:
    """Class of every code point for one script, looked up once and kept."""

    def __init__(self, script: str):
        self.names = script_names(script)
        self.table = np.full(0x110000, _UNKNOWN, np.uint8)

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        classes = self.table[codes]
        unknown = classes == _UNKNOWN
        if unknown.any():
            for code in np.unique(codes[unknown]).tolist():
                self.table[code] = self._classify(chr(code))
            classes = self.table[codes]
        return classes

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


_DIGITS = CharacterClasses.__new__(CharacterClasses)
_DIGITS.names, _DIGITS.table = (), np.full(0x110000, _UNKNOWN, np.uint8)


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


def characters_of(lines: Sequence[str], classes: CharacterClasses) -> Characters:
    codes = _codes("\n".join(lines) + "\n") if lines else np.zeros(0, "<u4")
    ends = np.flatnonzero(codes == 10)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64) if len(ends) else np.zeros(0, np.int64)
    kinds = classes(codes)
    kinds[ends] = 0

    def count(bit: int) -> np.ndarray:
        return np.add.reduceat((kinds & bit) != 0, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)

    total = ends - starts
    return Characters(
        total, total - count(_SPACE_CLASS), count(_LETTER), count(_OWN), count(_DIGIT), count(_SYMBOL), count(_BROKEN)
    )


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
    pairs = np.maximum(0, counts - 1)
    line_of = np.repeat(np.arange(len(counts)), pairs)
    starts = np.arange(pairs.sum()) + np.repeat(words.offsets[:-1] - (np.cumsum(pairs) - pairs), pairs)
    hashes = windows(words).hash(starts, np.full(len(starts), 2))
    order = np.lexsort((hashes, line_of))
    hashes, lines = hashes[order], line_of[order]
    new = np.append(True, (hashes[1:] != hashes[:-1]) | (lines[1:] != lines[:-1]))[: len(hashes)]
    distinct = np.bincount(lines[new], minlength=len(counts))
    return (counts >= at_least) & (_share(distinct, pairs) < distinct_share)


def unequal_lengths(a: np.ndarray, b: np.ndarray, usual_log_ratio: float, ratio: float, slack: int) -> np.ndarray:
    """One side has over `ratio` times the words that the other lets expect; `slack` words are forgiven."""
    expected = a * np.exp(usual_log_ratio)
    return (b + slack < (expected + slack) / ratio) | ((b + slack) / ratio > expected + slack)


def copied(a: Words, b: Words, at_least: int) -> np.ndarray:
    """Both sides have the same letters; a name or a number alone (under `at_least` words) may."""
    same = (a.skeletons == b.skeletons) & (a.skeleton_lengths > 0)
    return same & (np.maximum(a.counts, b.counts) >= at_least)


# fastText


class LanguageId:
    """Language of a line by a fastText model, ours or lid.176."""

    def __init__(self, path: str, candidates: int):
        import fasttext

        try:
            self.model = fasttext.FastText._FastText(model_path=str(path))
        except ValueError as error:
            raise UserError(f"{path}: not a fastText model ({error}); make or download it again") from None
        self.candidates = candidates

    def has(self, label: str) -> bool:
        return f"__label__{label}" in self.model.get_labels()

    def predict(self, text: str) -> list[tuple[str, float]]:
        """(label, probability), best first. fastText 0.9.3's predict fails under NumPy 2, its inner one does not."""
        pairs = self.model.f.predict(text.replace("\n", " ") + "\n", self.candidates, 0.0, "strict")
        return [(label.removeprefix("__label__"), min(1.0, probability)) for probability, label in pairs]

    def probability(self, text: str, label: str) -> float:
        """Of the language `label`; 0 if it is not among the candidates."""
        return next((probability for name, probability in self.predict(text) if name == label), 0.0)


def wrong_language(lines: Sequence[str], asked: np.ndarray, model: LanguageId, label: str, share: float) -> np.ndarray:
    """The line's own language has a probability below `share`; only lines `asked` are looked at, the others pass."""
    wrong = np.zeros(len(lines), bool)
    for i in np.flatnonzero(asked).tolist():
        wrong[i] = model.probability(lines[i], label) < share
    return wrong
