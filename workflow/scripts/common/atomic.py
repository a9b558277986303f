"""Write whole files or nothing, and notice what was changed afterwards.

A final path never holds a partial file: not after a kill, not on a full disk. JSON that becomes a number of a table
carries a checksum of its own content, a folder a file of checksums (that of `sha256sum`), so that a byte that a disk
changed is an error and never another number.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import UserError, reason

CHECKSUM = "checksum"  # key of sealed JSON
SUMS = "SHA256SUMS"  # file of a folder
MENDS = {
    errno.ENOSPC: "the disk is full; make room and run again",
    errno.EDQUOT: "the quota of the disk is used up; make room and run again",
    errno.EFBIG: "the file would be larger than is allowed here (ulimit -f); raise the limit and run again",
    errno.EROFS: "the file system is read-only; mount it writable, or give another place",
    errno.EACCES: "no permission to write there; change the permissions of the folder, or give another place",
    errno.EPERM: "no permission to write there; change the permissions of the folder, or give another place",
}


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What a disk refuses becomes an error with the final path and the mend."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if number := refusal(error, path):
            raise UserError(f"{path}: {MENDS[number]}. What was there is as it was") from error
        if isinstance(error, OSError) and error.filename is not None and _is_ours(error, path):
            raise UserError(f"{path}: cannot be written: {reason(error)}; give another place") from error
        raise


def check_writable(path: Path) -> None:
    """A file may take this place: what stands there is a file or nothing, and no part of the system."""
    with suppress(OSError):
        found = path.stat().st_mode
        if stat.S_ISDIR(found):
            raise UserError(f"{path}: is a folder, and a file is to be written; give the name of a file")
        if not stat.S_ISREG(found) or str(path.parent) == "/dev":  # /dev/stdout may be a file
            raise UserError(f"{path}: is no regular file and cannot be replaced by one; give the name of a file")


def refusal(error: BaseException | None, path: Path) -> int | None:
    """Which of MENDS an error is, if it is about this path: an input that cannot be read is another matter."""
    while error is not None and not isinstance(error, OSError):
        if type(error).__name__ == "SafetensorError" and (number := re.search(r"\(os error (\d+)\)", str(error))):
            return int(number[1]) if int(number[1]) in MENDS else None
        error = error.__cause__ or error.__context__  # torch raises anew what a write has raised
    if error is None or error.errno not in MENDS:
        return None
    return error.errno if error.filename is None or _is_ours(error, path) else None


def _is_ours(error: OSError, path: Path) -> bool:
    """Is a named file the path, above or below it, or what is written beside it until it is whole?"""
    named = Path(os.fsdecode(error.filename))
    beside = path.parent in named.parents and named.relative_to(path.parent).parts[0].startswith(f".{path.name}.")
    return beside or named.is_relative_to(path) or path.is_relative_to(named)


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success flush it to disk and rename it, on failure remove it."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with told(path):
            check_writable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):  # not there, or not to be changed
            temporary.unlink()


@contextmanager
def summed_path(path: str | Path) -> Iterator[Path]:
    """atomic_path for a file that is computed with: its sum is remembered."""
    path = Path(path)
    with told(path):
        sum_file(path).unlink(missing_ok=True)  # of what was there; killed here, the file has none
    with atomic_path(path) as temporary:
        yield temporary
        sha256 = sha256_of(temporary)
    keep_sum(path, sha256)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it gets the checksums of its files and takes the place of what is
    there, on failure it is removed."""
    path = Path(path)
    folder = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    before = path.with_name(f".{path.name}.{os.getpid()}.old")
    for left in (folder, before):
        shutil.rmtree(left, ignore_errors=True)
    try:
        with told(path):
            if path.exists() and not path.is_dir():
                raise UserError(f"{path}: is a file, and a folder is to be written; give the name of a folder")
            folder.mkdir(parents=True)
            yield folder
            names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
            sums = "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)
            (folder / SUMS).write_text(sums, encoding="utf-8")
            if path.exists():  # a folder that is not empty cannot be renamed over
                os.replace(path, before)
            try:
                os.replace(folder, path)
            except OSError:
                if before.exists():
                    os.replace(before, path)
                raise
    finally:
        for left in (folder, before):
            shutil.rmtree(left, ignore_errors=True)


def check_folder(path: str | Path, mend: str) -> None:
    """The files of a folder are those that atomic_folder closed it with. Older folders have no checksums."""
    path = Path(path)
    if not (path / SUMS).exists():
        return
    for line in (path / SUMS).read_bytes().decode("utf-8", "replace").splitlines():
        known, _, name = line.partition("  ")
        try:
            found = sha256_of(path / name)
        except (OSError, ValueError):
            found = "missing"
        if found != known:
            raise UserError(f"{path / name}: not as it was written (sha256 is {found}, {SUMS} says {known}); {mend}")


def keep_sum(path: str | Path, sha256: str) -> None:
    """Remember what a single file is, in a hidden file beside it."""
    write_text(sum_file(Path(path)), sha256 + "\n")


def write_summed(path: str | Path, text: str) -> None:
    """A text whose sum is remembered: what it says is computed with, and one digit more is another number."""
    with summed_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_sum(path: str | Path, mend: str) -> None:
    """A file is what was remembered, where something was."""
    path = Path(path)
    with suppress(FileNotFoundError):
        known = sum_file(path).read_bytes().decode("utf-8", "replace").strip()
        if known != (found := sha256_of(path)):
            raise UserError(
                f"{path}: not as it was written (sha256 is {found}, {sum_file(path).name} says {known}); {mend}"
            )


def sum_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.sha256")


def sha256_of(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: object) -> None:
    """Sorted keys and a final newline, so that equal values are equal bytes. NaN and infinity, no JSON, raise."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_sealed(path: str | Path, content: dict) -> None:
    """JSON with a checksum of itself."""
    write_json(path, content | {CHECKSUM: checksum_of(content)})


def checksum_of(content: dict) -> str:
    """Of what a reader understands, so a space more or less is no damage."""
    kept = json.loads(json.dumps({key: value for key, value in content.items() if key != CHECKSUM}))
    text = json.dumps(kept, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_seal(content: object, path: str | Path, mend: str) -> None:
    """Sealed content says what it said when it was written. What a person wrote by hand has no checksum."""
    if isinstance(content, dict) and CHECKSUM in content and content[CHECKSUM] != checksum_of(content):
        raise UserError(f"{path}: not as it was written (its checksum is another): a damaged disk, or an edit; {mend}")
