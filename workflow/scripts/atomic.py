"""Write whole files or nothing: a final path never holds a partial file."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success flush it to disk and rename it, on failure remove it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it takes the place of what is there, on failure it is removed."""
    path = Path(path)
    folder = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
        shutil.rmtree(path, ignore_errors=True)
        os.replace(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: object) -> None:
    """Sorted keys and a final newline, so that equal values are equal bytes. NaN and infinity, no JSON, raise."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n")
