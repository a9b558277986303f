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

from common.errors import UserError, plain, reason

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
