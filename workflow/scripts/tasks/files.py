"""Text files of the tasks, read strictly: UTF-8, newline-ended lines, errors that name the file and the line."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from common.archives import BLOCK, StrictHeader, check_unpacked, damage_told, read_to_end
from common.atomic import write_text
from common.errors import UserError, reason

OPENERS = {b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file), b"BZh": bz2.BZ2File, b"\xfd7zXZ\x00": lzma.LZMAFile}


def split_lines(data: bytes, where: str) -> list[str]:
    """Lines of a UTF-8 text. Only \\n and \\r\\n end a line: U+2028 and its like occur inside sentences."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where}, line {line}: not UTF-8; convert the text, or download the file again") from None
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def decode_lines(data: bytes, where: str) -> list[str]:
    """As split_lines, of a file that holds something."""
    if not data.strip():
        raise UserError(f"{where}: the file is empty; download or make it again")
    return split_lines(data, where)


def read_lines(path: str | Path) -> list[str]:
    return decode_lines(read_bytes(path), str(path))


def read_bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {reason(error)}") from None


def read_zip_member(path: str | Path, member: str) -> list[str]:
    """Lines of one member of a zip archive."""
    return decode_lines(read_zip_bytes(path, member), f"{path}, {member}")


def read_zip_bytes(path: str | Path, member: str) -> bytes:
    try:
        with damage_told(path), zipfile.ZipFile(path) as archive:
            check_unpacked(path, member, archive.getinfo(member).file_size)
            return archive.read(member)
    except KeyError:
        raise UserError(f"{path}: no member {member}; this is another archive than the task expects") from None


def decompressed(path: str | Path, data: bytes | None) -> BinaryIO:
    """An archive's own bytes, out of what its first bytes say it is packed with."""
    plain = open(path, "rb") if data is None else io.BytesIO(data)  # noqa: SIM115
    start = plain.read(6)
    plain.seek(0)
    for magic, opener in OPENERS.items():
        if start.startswith(magic):
            return opener(plain)
    return plain


def tar_members(
    path: str | Path, wanted: Callable[[str], bool], data: bytes | None = None
) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files of a tar archive that `wanted(name)` accepts, in the order of the archive.

    Read as a stream, once: a compressed tar has no index, and seeking back would decompress it again. And to its end,
    where the sum of what was compressed stands: tarfile would stop before. `data`: the archive itself, where `path` is
    but its name.
    """
    try:
        with ExitStack() as opened:
            stream = opened.enter_context(decompressed(path, data))
            archive = opened.enter_context(tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK, tarinfo=StrictHeader))
            for member in archive:
                if member.isfile() and wanted(member.name):
                    check_unpacked(path, member.name, member.size)
                    yield member.name, archive.extractfile(member).read()
            read_to_end(stream)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UserError:
        raise
    # Numbers of a header that are none are a ValueError of tarfile, or what int() and seek() make of them.
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: not a whole tar archive ({error}); download it again") from None


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(line + "\n" for line in lines))


def check_count(found: int, expected: int | None, where: str) -> None:
    """`expected` is None where the counts of the upstream files do not apply (a mini-world, an excerpt)."""
    if expected is not None and found != expected:
        raise UserError(
            f"{where}: {found} rows where the upstream file has {expected}; download it again, "
            "or say --counts any for files of another size"
        )


def fingerprint(inputs: object) -> str:
    """Hash of what a model is shown, by which score.py sees that predictions belong to its gold file."""
    return hashlib.sha256(json.dumps(inputs, ensure_ascii=False).encode()).hexdigest()
