"""Read the small sources of text that people collect sentence by sentence or verse by verse, each form by its reader.

    lines     plain text, also .gz and .xz: a segment a line
    verses    {"1": [{"chapter": 1, "verse": 1, "text": ...}, ...]} (.json); OSIS (.xml); `### Book` and `[1:1] text`

A segment has a name by which its translations are found: the number of its line, or book, chapter and verse. So two
plain files belong together line by line, and two translations of a book wherever both have the verse.
"""

import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from common.errors import UserError
from corpus.corpusio import LONGEST_LINE, open_bytes, read_lines

# fmt: off
BOOKS = [  # as OSIS abbreviates them, in their order
    "Gen", "Exod", "Lev", "Num", "Deut", "Josh", "Judg", "Ruth", "1Sam", "2Sam", "1Kgs", "2Kgs", "1Chr", "2Chr",
    "Ezra", "Neh", "Esth", "Job", "Ps", "Prov", "Eccl", "Song", "Isa", "Jer", "Lam", "Ezek", "Dan", "Hos", "Joel",
    "Amos", "Obad", "Jonah", "Mic", "Nah", "Hab", "Zeph", "Hag", "Zech", "Mal", "Matt", "Mark", "Luke", "John",
    "Acts", "Rom", "1Cor", "2Cor", "Gal", "Eph", "Phil", "Col", "1Thess", "2Thess", "1Tim", "2Tim", "Titus", "Phlm",
    "Heb", "Jas", "1Pet", "2Pet", "1John", "2John", "3John", "Jude", "Rev",
]
# fmt: on
_BOOK = "### "
_VERSE = re.compile(r"\[([0-9]{1,4}):([0-9]{1,4})\]\s*(.*)")


class Segment(NamedTuple):
    name: tuple[int, ...]  # (line,) or (book, chapter, verse); segments of one chapter follow each other
    text: str


def read_segments(path: Path) -> Iterator[Segment]:
    """In the order of the file; a line end inside a verse is a space."""
    if path.suffix == ".json":
        return _read_json(path)
    if path.suffix == ".xml":
        return _read_osis(path)
    if path.suffix == ".txt" and next(read_lines(path), "").startswith(_BOOK):
        return _read_books(path)
    return (Segment((number,), line) for number, line in enumerate(read_lines(path, LONGEST_LINE), start=1))


def in_verses(path: Path) -> bool:
    return len(next(read_segments(path), Segment((0,), "")).name) == 3


def read_documents(path: Path, alone: bool) -> Iterator[list[tuple[int, str]]]:
    """(number of the segment in the file, text) by document: a chapter, what stands between empty lines, or, where each
    line is a sentence for itself (`alone`), the line."""
    document: list[tuple[int, str]] = []
    before: tuple[int, ...] = ()
    for number, (name, text) in enumerate(read_segments(path), start=1):
        if document and (alone or not text or name[:-1] != before):
            yield document
            document = []
        before = name[:-1]
        if text:
            document.append((number, text))
    if document:
        yield document


def read_aligned(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """(number in the first file, its text, the second's): of lines all, of verses those that both have."""
    if in_verses(first) and in_verses(second):
        verses = {name: text for _, name, text in _once(second)}
        for number, name, text in _once(first):
            if name in verses:
                yield number, text, verses[name]
        return
    if in_verses(first) != in_verses(second):
        raise UserError(f"{first}, {second}: one is verses, the other lines; they cannot be aligned")
    sides = zip_longest(read_segments(first), read_segments(second))
    for number, (one, other) in enumerate(sides, start=1):
        if one is None or other is None:
            ended = first if one is None else second
            raise UserError(
                f"{ended}: ends before line {number}, the other side goes on; lines would no longer be translations: "
                "download both again"
            )
        yield number, one.text, other.text


def _once(path: Path) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """(number, name, text) of verses; one that stands twice has no translation that is known to be its own."""
    seen = set()
    for number, (name, text) in enumerate(read_segments(path), start=1):
        if name in seen:
            raise UserError(f"{path}, segment {number}: a verse that stands there before; remove one of the two")
        seen.add(name)
        yield number, name, text


def _verse_number(value: object) -> int:
    """Chapters and verses are whole numbers, in ASCII where they are text."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,4}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000:
        return value
    raise ValueError(f"{value!r} is no number of a chapter or verse")


def _text(value: str) -> str:
    value.encode()  # half a character, which JSON can spell, cannot be written anywhere
    return " ".join(value.split())


def _read_json(path: Path) -> Iterator[Segment]:
    try:
        with open_bytes(path) as stream:
            chapters = json.load(stream)
        for chapter in chapters.values():
            for verse in chapter:
                name = (0, _verse_number(verse["chapter"]), _verse_number(verse["verse"]))
                yield Segment(name, _text(verse["text"]))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the rule that makes it, or correct the path") from None
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path}: not chapters of verses in JSON ({error}); download it again") from None


def _read_osis(path: Path) -> Iterator[Segment]:
    try:
        for _, element in ElementTree.iterparse(path):
            if element.tag.rpartition("}")[2] == "verse" and (name := element.get("osisID")):
                book, chapter, verse = name.split(".")
                text = " ".join("".join(element.itertext()).split())
                yield Segment((BOOKS.index(book), _verse_number(chapter), _verse_number(verse)), text)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the rule that makes it, or correct the path") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UserError(f"{path}: not verses in OSIS ({error}); download it again") from None


def _read_books(path: Path) -> Iterator[Segment]:
    """A verse of several lines: those without a number belong to the one before."""
    book, name, text = -1, (), ""
    for line in read_lines(path):
        verse = _VERSE.match(line)
        if name and (verse or line.startswith(_BOOK)):
            yield Segment(name, " ".join(text.split()))
            name, text = (), ""
        if line.startswith(_BOOK):
            book += 1
        elif verse:
            name, text = (book, int(verse[1]), int(verse[2])), verse[3]
        elif name:
            text += f" {line}"
    if name:
        yield Segment(name, " ".join(text.split()))
