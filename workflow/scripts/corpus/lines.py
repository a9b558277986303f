"""Lines of clean text in UTF-8."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from corpus.corpusio import BROKEN, open_bytes, read_lines

_BLOCK = 1 << 18  # bytes read at once


def read_utf8_lines(path: Path) -> Iterator[bytes]:
    """The lines of read_lines in UTF-8, as SentencePiece takes them; a str of each would be made, and encoded again."""
    rest = b""
    try:
        with open_bytes(path) as raw:
            while block := raw.read(_BLOCK):
                whole, newline, rest = (rest + block).rpartition(b"\n")
                if newline:
                    yield from _split_utf8(whole)
        if rest:
            yield from _split_utf8(rest)
    except (FileNotFoundError, *BROKEN):
        deque(read_lines(path), maxlen=0)  # stops at the same place, and says what to mend
        raise


def _split_utf8(text: bytes) -> list[bytes]:
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    lines = text.split(b"\n")
    return [line.rstrip(b"\r") for line in lines] if b"\r" in text else lines
