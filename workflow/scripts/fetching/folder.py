"""A mirror that is a folder of this machine."""

import contextlib
import csv
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from common.atomic import atomic_path, keep_sum
from common.errors import UserError, why_no_file
from fetching.checks import check
from fetching.lock import BYTES, record
from fetching.sources import CHUNK, Expected, Source, SourceFailed
from plan.datasets import Dataset

FICLONE = 0x40049409  # ioctl of Linux: share the blocks instead of copying them (btrfs, xfs)


@contextlib.contextmanager
def _table(path: Path) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            yield file
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{path}: not a table in UTF-8 ({error}); restore it from where the folder comes from"
        ) from None


def _manifest(folder: Path) -> tuple[Path, dict[str, tuple[int, str, str]]] | None:
    """MANIFEST.tsv of a mirror folder, or of one above it that lists its files; paths relative to `folder`."""
    for root in (folder, *folder.parents[:2]):
        path = root / "MANIFEST.tsv"
        if not path.is_file():
            continue
        prefix = folder.relative_to(root).as_posix()
        prefix = "" if prefix == "." else prefix + "/"
        rows: dict[str, tuple[int, str, str]] = {}
        with _table(path) as file:
            reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            if missing := {"path", "bytes", "sha256"} - set(reader.fieldnames or ()):
                raise UserError(f"{path}:1: no column {', '.join(sorted(missing))}; expected path, bytes and sha256")
            for row in reader:
                if None in (row["path"], row["bytes"], row["sha256"]):
                    raise UserError(f"{path}:{reader.line_num}: too few columns; copy the file again from its source")
                if not BYTES.fullmatch(row["bytes"]):
                    raise UserError(f"{path}:{reader.line_num}, column bytes: {row['bytes']!r} is no number")
                if row["path"].startswith(prefix):
                    rows[row["path"][len(prefix) :]] = (int(row["bytes"]), row["sha256"], row.get("kind") or "")
        if rows or root == folder:
            return path, rows
    return None


def _copy(source: Path, target: Path) -> None:
    # No hard link: it would share its time stamps with the mirror, which may itself be an input of the workflow.
    with open(source, "rb") as reading, open(target, "wb") as writing:
        try:
            fcntl.ioctl(writing, FICLONE, reading.fileno())
        except OSError:
            shutil.copyfileobj(reading, writing, CHUNK)


def fetch_folder(source: Source, out: Path, expected: Expected, lock: Path | None, dataset: Dataset) -> None:
    """Copy from a folder, checked against upstream's sums or, where its bytes are others, against its manifest."""
    assert source.folder is not None
    original = source.folder / source.path
    if not original.is_file():
        raise SourceFailed(why_no_file(original))
    checked = source.checked
    manifest = _manifest(source.folder)
    listed = manifest[1].get(source.path) if manifest else None
    if checked and listed and listed[2] not in ("", "exact"):
        checked = False  # the folder itself says that these are not upstream's bytes
    if not checked:
        if manifest and not listed:
            raise SourceFailed(f"{manifest[0]} does not list it")
        expected = Expected(listed[0], listed[1], str(manifest[0])) if manifest and listed else Expected()
    with atomic_path(out) as temporary:
        _copy(original, temporary)
        sha256 = check(temporary, source.path, expected)
        if checked and lock and not dataset.sha256:
            record(lock, dataset, temporary.stat().st_size, sha256, str(original))
        keep_sum(out, sha256)  # score.py looks whether the file is still that
