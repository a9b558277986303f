"""Is what arrived the whole file?"""

import zipfile
from pathlib import Path

from common.atomic import sha256_of
from fetching.sources import Expected, SourceFailed

MAGIC = {".zip": b"PK", ".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}


def check(path: Path, name: str, expected: Expected) -> str:
    """Return the sha256 of a whole file, or raise SourceFailed that says both numbers."""
    size = path.stat().st_size
    if expected.bytes is not None and size != expected.bytes:
        raise SourceFailed(f"{size} bytes, but {expected.origin} says {expected.bytes}", sums=True)
    sha256 = sha256_of(path)
    if expected.sha256 is None:
        if problem := _format_problem(path, name):
            raise SourceFailed(problem)
    elif sha256 != expected.sha256:
        raise SourceFailed(f"sha256 is {sha256}, but {expected.origin} says {expected.sha256}", sums=True)
    return sha256


def _format_problem(path: Path, name: str) -> str | None:
    """Where no sum is known, at least the first bytes must be those of the format that the name promises."""
    suffix = Path(name).suffix
    with open(path, "rb") as file:
        head = file.read(8)
    if not head:
        return "an empty file"
    magic = MAGIC.get(suffix)
    if magic and not head.startswith(magic):
        return f"not a {suffix} file: it begins with {head!r}"
    if suffix == ".zip" and not zipfile.is_zipfile(path):
        return "a damaged .zip file: it has no end record"
    return None
