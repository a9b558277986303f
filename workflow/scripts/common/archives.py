"""What a damaged or strange archive does to a reader, as one line with its name."""

import errno
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from common.errors import UserError, plain, reason

BLOCK = 1 << 20
MOST_UNPACKED = 1 << 30  # bytes of one member: the largest, of BUCC, have a tenth of it
# Of an archive's own bytes. gzip's and bz2's are OSErrors without a number, a place before the beginning is an invalid
# one: those of the disk have others.
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, struct.error, UnicodeError)


def damage(error: BaseException) -> str | None:
    """What is wrong with an archive, if an error is about one."""
    if isinstance(error, NotImplementedError):  # of zipfile
        return f"is packed in a way that is not read here ({error}); unpack it, and pack it with deflate"
    if isinstance(error, RuntimeError) and ("encrypted" in str(error) or "password" in str(error)):
        return "is encrypted, and nobody here knows its password; give it without"
    if isinstance(error, DAMAGED) or (isinstance(error, OSError) and error.errno in (None, errno.EINVAL)):
        return f"not a whole archive ({plain(str(error)) or type(error).__name__}); remove it and download it again"
    return None


class StrictHeader(tarfile.TarInfo):
    """A damaged header, or no end mark, is an error: tarfile takes either for the archive's end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> tarfile.TarInfo:
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError) as error:
            raise tarfile.ReadError(f"{error} at byte {archive.offset:,}") from None


def read_to_end(stream: BinaryIO) -> None:
    """There stands the sum of what was compressed: tarfile stops before."""
    while stream.read(BLOCK):
        pass


def check_unpacked(path: str | Path, member: str, size: int) -> None:
    """Before it is read: an archive of a few kilobytes may say that it unpacks to more than any memory."""
    if size > MOST_UNPACKED:
        raise UserError(
            f"{path}, {member}: unpacks to {size:,} bytes, and no evaluation file has more than {MOST_UNPACKED:,}; "
            "this is another archive than the task expects"
        )


@contextmanager
def damage_told(path: str | Path) -> Iterator[None]:
    """Around what opens or reads an archive, and nothing else."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # A header of random bytes may ask for anything: a negative place, a number that no integer type holds.
        words = damage(error)
        if words is None and isinstance(error, ValueError | OverflowError | IndexError):
            words = f"not a whole archive ({plain(str(error))}); remove it and download it again"
        if words is None and isinstance(error, OSError):
            words = reason(error)
        if words is None:
            raise
        raise UserError(f"{path}: {words}") from None
