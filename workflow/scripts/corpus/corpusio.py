"""Read and write the text files of the corpus pipeline, and read its thresholds.

Intermediate shards are zstandard text. Line 1 is a JSON header {"files", "kind"}; then one upstream line per line:

    mono    <file number>TAB<upstream line number>TAB<text>                 empty line between documents
    bitext  <file number>TAB<upstream line number>TAB<side a>TAB<side b>

A line's `place` is file number * 2**40 + line number. It does not depend on the number of shards, so "the first of
several duplicates" means the same line however the corpus is cut.
"""

import dataclasses
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, get_args, get_origin

import zstandard

from common.atomic import atomic_path
from common.errors import UserError
from common.thresholds import check_bounds

PLACE_BITS = 40
ZSTD_LEVEL = 3
LONGEST_LINE = 1 << 20  # characters of an upstream line; no cleaning keeps such a one, and what lies behind is not read
LONGEST_DOCUMENT = 10_000  # lines
LONGEST_TEXT = 1 << 20  # characters of a document; one of so many ends where the line does that reaches them
_BLOCK = 1 << 18  # characters read at once
_BATCH_LINES = 4096
_BATCH_CHARACTERS = 1 << 17  # of a batch of lines: its arrays stay in the processor's cache

BROKEN = (lzma.LZMAError, EOFError, zstandard.ZstdError, gzip.BadGzipFile, zlib.error)


def place_of(file: int, line: int) -> int:
    return file << PLACE_BITS | line


def file_and_line(place: int) -> tuple[int, int]:
    return place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)


# Text streams


class ZstReader(io.RawIOBase):
    """zstandard's own reader takes the end of a truncated file for the end of the text."""

    def __init__(self, path: Path):
        self.file = open(path, "rb")  # noqa: SIM115 (close closes it)
        self.frame = zstandard.ZstdDecompressor().decompressobj()
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self.ready:
            compressed = self.frame.unused_data or self.file.read(_BLOCK)
            if self.frame.eof and compressed:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            if not compressed:
                if not self.frame.eof:
                    raise zstandard.ZstdError("the file ends in the middle")
                return 0
            self.ready = memoryview(self.frame.decompress(compressed))
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        self.ready = self.ready[size:]
        return size

    def close(self) -> None:
        self.file.close()
        super().close()


def open_bytes(path: Path) -> io.BufferedIOBase:
    suffix = path.suffix
    if suffix == ".xz":
        return lzma.open(path, "rb")
    if suffix == ".gz":
        return gzip.open(path, "rb")
    if suffix == ".zst":
        return io.BufferedReader(ZstReader(path), _BLOCK)
    return open(path, "rb")


def read_lines(path: str | Path, longest: int = 4 * LONGEST_LINE) -> Iterator[str]:
    """Yield the lines of a .txt, .xz, .gz or .zst file without their ends; only \\n ends a line.

    Bytes that are not UTF-8 become U+FFFD, which a filter then finds. A line of over `longest` characters is cut.
    """
    path = Path(path)
    number = 0
    try:
        with open_bytes(path) as raw:
            for lines in blocks_of_lines(raw, longest):
                yield from lines
                number += len(lines)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the rule that makes it, or correct the path") from None
    except BROKEN as error:
        raise UserError(
            f"{path}: broken after line {number} ({error}); remove the file and let it be made or downloaded again"
        ) from None


def blocks_of_lines(raw: io.BufferedIOBase, longest: int) -> Iterator[list[str]]:
    """The lines of a stream of bytes, many at once: reading one by one takes a fifth of the time of encoding."""
    rest = ""
    with io.TextIOWrapper(raw, "utf-8", errors="replace", newline="\n") as text:
        while block := text.read(_BLOCK):
            if len(rest) >= longest:  # a file without line ends must not fill the memory
                _, newline, block = block.partition("\n")
                if not newline:
                    continue
                yield [rest[:longest]]
                rest = ""
            block = rest + block
            *lines, rest = block.split("\n")
            if "\r" in block:
                lines = [line.rstrip("\r") for line in lines]
            yield lines
    if rest:
        yield [rest[:longest].rstrip("\r")]


@contextmanager
def zst_writer(path: str | Path) -> Iterator[TextIO]:
    """A text file that appears under its name only when the block ends well."""
    with atomic_path(path) as temporary:
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)
        with (
            open(temporary, "wb") as raw,
            compressor.stream_writer(raw, closefd=False) as stream,
            io.TextIOWrapper(io.BufferedWriter(stream, 1 << 18), "utf-8", newline="\n") as text,
        ):
            yield text


@contextmanager
def zst_writers(paths: list[Path]) -> Iterator[list[TextIO]]:
    with ExitStack() as stack:
        yield [stack.enter_context(zst_writer(path)) for path in paths]


# Intermediate shards


@dataclass(frozen=True)
class ShardHeader:
    files: list[str]
    kind: str  # "mono" or "bitext"


@dataclass
class Batch:
    """Whole documents (mono) or pairs (bitext) of one shard, up to a bounded number of lines."""

    places: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # side a of a bitext
    others: list[str] = field(default_factory=list)  # side b; empty for mono
    starts: list[int] = field(default_factory=list)  # first line of each document; every line of a bitext

    def __len__(self) -> int:
        return len(self.places)


def read_header(path: str | Path) -> ShardHeader:
    lines = read_lines(path)
    header = next(lines, "")
    lines.close()
    return _parse_header(path, header)


def _parse_header(path: str | Path, line: str) -> ShardHeader:
    try:
        header = json.loads(line)
        return ShardHeader(header["files"], header["kind"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}:1: not a shard made by split_corpus; make it again") from None


def header_line(files: list[str], kind: str) -> str:
    return json.dumps({"files": files, "kind": kind}, ensure_ascii=False, sort_keys=True) + "\n"


def read_batches(path: str | Path, kind: str) -> Iterator[Batch]:
    """Yield batches of a shard, bounded in lines and in characters; a document is never cut."""
    lines = read_lines(path)
    header = _parse_header(path, next(lines, ""))
    if header.kind != kind:
        raise UserError(f"{path}: holds {header.kind} text, expected {kind}; pass the other kind's shard")
    bitext = kind == "bitext"
    columns = 4 if bitext else 3
    batch = Batch()
    characters = 0
    new_document = True
    for number, line in enumerate(lines, start=2):
        if line:
            cells = line.split("\t", columns - 1)
            if len(cells) != columns:
                raise UserError(f"{path}:{number}: {len(cells)} columns instead of {columns}; make the shard again")
            if bitext or new_document:
                batch.starts.append(len(batch.places))
                new_document = False
            batch.places.append(int(cells[0]) << PLACE_BITS | int(cells[1]))
            batch.texts.append(cells[2])
            characters += len(line)
            if not bitext:
                continue
            batch.others.append(cells[3])
        new_document = True
        if len(batch.places) >= _BATCH_LINES or characters >= _BATCH_CHARACTERS:
            yield batch
            batch = Batch()
            characters = 0
    if len(batch):
        yield batch


# Thresholds


@dataclass(frozen=True)
class LanguageIdThresholds:
    lines_per_language: int
    characters_per_line: int
    dimension: int
    buckets: int
    shortest_ngram: int
    longest_ngram: int
    epochs: int
    learning_rate: float
    candidates: int


@dataclass(frozen=True)
class DuplicateThresholds:
    shingle_words: int
    shingle_characters: int
    bands: int
    rows: int
    similarity: float
    smallest_document: int
    skeleton_characters: int


@dataclass(frozen=True)
class DecontaminationThresholds:
    inside_words: int
    inside_letters: int
    window_words: int
    similarity: float


@dataclass(frozen=True)
class PairModelThresholds:
    pairs: int
    links: int
    words_per_side: int
    smallest_count: int
    iterations: int
    unigram_weight: float


@dataclass(frozen=True)
class MonoThresholds:
    shortest_characters: int
    shortest_words: int
    longest_characters: int
    longest_words: int
    longest_word: int
    symbol_share: float
    number_share: float
    script_share: float
    distinct_share: float
    distinct_words: int
    own_language: float


@dataclass(frozen=True)
class BitextThresholds:
    shortest_words: int
    longest_words: int
    longest_word: int
    length_ratio: float
    length_slack: int
    symbol_share: float
    script_share: float
    own_language: float
    copy_words: int
    pair_gain: float


SECTIONS: dict[str, type] = {
    "language_id": LanguageIdThresholds,
    "duplicates": DuplicateThresholds,
    "decontamination": DecontaminationThresholds,
    "pair_model": PairModelThresholds,
    "mono": MonoThresholds,
    "bitext": BitextThresholds,
}


def load_thresholds(path: str | Path, section: str, overrides: str | None = None) -> Any:
    """One section of the cleaning YAML, merged with a JSON of overrides, as its frozen dataclass."""
    from common.yamlfiles import read_yaml

    config = read_yaml(path)
    if not isinstance(config, dict):
        raise UserError(f"{path}: expected a mapping of sections {', '.join(SECTIONS)}")
    sources = [(str(path), config)]
    if overrides:
        try:
            sources.append(("--overrides", json.loads(overrides)))
        except (ValueError, RecursionError) as error:
            raise UserError(f"--overrides: not JSON ({error}); pass a mapping of sections") from None
    merged: dict[str, Any] = {}
    for name, mapping in sources:
        if not isinstance(mapping, dict):
            raise UserError(f"{name}: expected a mapping of sections {', '.join(SECTIONS)}")
        for key, values in mapping.items():
            if key not in SECTIONS:
                raise UserError(f"{name}, key {key}: unknown section; use one of {', '.join(SECTIONS)}")
            if values is not None and not isinstance(values, dict):
                raise UserError(f"{name}, key {key}: {values!r} is no mapping of thresholds; write name: value")
            known = {f.name: f.type for f in dataclasses.fields(SECTIONS[key])}
            for inner, value in (values or {}).items():
                if inner not in known:
                    raise UserError(f"{name}, key {key}.{inner}: unknown threshold; use one of {', '.join(known)}")
                _check_type(f"{name}, key {key}.{inner}", value, known[inner])
                check_bounds(f"{name}, key {key}.{inner}", inner, value)
            if key == section:
                merged |= values or {}
    missing = [f.name for f in dataclasses.fields(SECTIONS[section]) if f.name not in merged]
    if missing:
        raise UserError(f"{path}, key {section}.{missing[0]}: missing; add it")
    return SECTIONS[section](**merged)


def _check_type(where: str, value: Any, expected: Any) -> None:
    allowed = get_args(expected) if get_origin(expected) else (expected,)
    if float in allowed:
        allowed += (int,)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise UserError(f"{where}: {value!r} is not a number of type {expected.__name__}; correct it")


def add_config_arguments(parser: Any) -> None:
    parser.add_argument("--config", default="config/cleaning.yaml", help="YAML of thresholds (default: %(default)s)")
    parser.add_argument("--overrides", metavar="JSON", help="thresholds of the scale, merged over the file's")
