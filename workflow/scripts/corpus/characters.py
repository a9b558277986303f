"""Lines of text as code points: their one spelling, and what they are made of.

Everything works on a batch of lines at once, because a call of numpy per line would cost more than the work.
Shape letters: L lines of the batch, C characters of all lines.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

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


class Table:
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


_PLAIN = Table(_plain, np.uint8, _UNSEEN)


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


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


def script_names(script: str) -> tuple[str, ...]:
    """Unicode name prefixes of ISO 15924 codes; several codes are separated by commas."""
    names: list[str] = []
    for code in re.split(r"[,+/ ]+", script.strip()):
        if code not in _SCRIPT_NAMES:
            known = ", ".join(_SCRIPT_NAMES)
            raise UserError(f"config/languages.tsv, column script: unknown code {code!r}; use one of {known}")
        names += _SCRIPT_NAMES[code]
    return tuple(names)


class CharacterClasses(Table):
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


def is_digit(codes: np.ndarray) -> np.ndarray:
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
