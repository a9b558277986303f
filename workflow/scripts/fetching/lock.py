"""The lock file: sums of first downloads, where nobody publishes one."""

import contextlib
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path

from common.atomic import write_text
from common.errors import UserError
from fetching.sources import Expected
from plan.datasets import Dataset

BYTES = re.compile("[0-9]{1,18}")  # of a file, in ASCII
LOCK_COLUMNS = ("id", "bytes", "sha256", "url")


def read_lock(path: str | Path) -> dict[str, dict[str, str]]:
    """Rows of the lock file by dataset id; an absent file is an empty one."""
    path = Path(path)
    if not path.exists():
        return {}
    rows: dict[str, dict[str, str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason}); restore the file or remove it") from None
    if not lines or tuple(lines[0].split("\t")) != LOCK_COLUMNS:
        raise UserError(f"{path}:1: the header is not {' '.join(LOCK_COLUMNS)}; restore the file or remove it")
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if (
            len(cells) != 4
            or not BYTES.fullmatch(cells[1])
            or not re.fullmatch("[0-9a-f]{64}", cells[2])
            or cells[0] in rows
        ):
            raise UserError(
                f"{path}:{number}: not a line of id, bytes, sha256, url; restore the file or remove the line"
            )
        rows[cells[0]] = dict(zip(LOCK_COLUMNS, cells, strict=True))
    return rows


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def record(lock: str | Path, dataset: Dataset, size: int, sha256: str, url: str) -> None:
    """Add the sum of a first download; a sum that is there already must be the same. Safe between processes."""
    lock = Path(lock)
    with _exclusive(lock.with_name(f".{lock.name}.flock")):
        rows = read_lock(lock)
        known = rows.get(dataset.id)
        if known and known["sha256"] != sha256:
            raise UserError(
                f"{dataset.id}: sha256 is {sha256}, but {lock} recorded {known['sha256']} meanwhile; "
                f"the upstream gives changing bytes; decide which is right and remove the other"
            )
        if known:
            return
        rows[dataset.id] = {"id": dataset.id, "bytes": str(size), "sha256": sha256, "url": url}
        lines = ["\t".join(LOCK_COLUMNS)]
        lines += ["\t".join(rows[id_][column] for column in LOCK_COLUMNS) for id_ in sorted(rows)]
        write_text(lock, "\n".join(lines) + "\n")


def expectation(dataset: Dataset, datasets: str | Path, lock: str | Path | None) -> Expected:
    """The published sums, else those of the lock file, else nothing."""
    if dataset.sha256:
        return Expected(dataset.bytes, dataset.sha256, str(datasets))
    known = read_lock(lock).get(dataset.id) if lock else None
    if known:
        return Expected(int(known["bytes"]), known["sha256"], str(lock))
    return Expected(dataset.bytes, None, str(datasets))
