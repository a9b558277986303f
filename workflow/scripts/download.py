"""Bring one file of config/datasets.tsv to this machine, whole or not at all.

Sources are asked in this order: the mirrors as given on the command line, the row's url, its fallback_urls. A mirror is
a folder or an http(s) address that holds <host>/<path of the url>. What arrives is kept beside the final path as
`.<name>.<source>.part` until size and sha256 are right, so a killed job continues where it stopped and the final path
never holds a partial file.

Two kinds of failure: 403, 404, a wrong checksum and the like give a source up; 429, 5xx, a broken or silent connection
are tried again with growing pauses. While one source pauses the next is asked, but one that just gave bytes goes on.
"""

import argparse
import contextlib
import csv
import errno
import fcntl
import hashlib
import http.client
import io
import json
import os
import random
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO, TextIO

from common.atomic import atomic_path, keep_sum, sha256_of, told, write_text
from common.errors import UserError, plain, run_main, why_no_file
from plan.datasets import DATASETS_TSV, Dataset, load_datasets, path_of

CHUNK = 1 << 20
LONGEST_WAIT = 86_400  # seconds that an option may ask for
STALL_BYTES = 1024  # fewer bytes than this in one stall time-out is silence
UNREACHABLE_COST = 5  # an unknown host or a closed port is given up sooner than a server that answers "busy"
BYTES = re.compile("[0-9]{1,18}")  # of a file, in ASCII
LOCK_COLUMNS = ("id", "bytes", "sha256", "url")
FICLONE = 0x40049409  # ioctl of Linux: share the blocks instead of copying them (btrfs, xfs)
MAGIC = {".zip": b"PK", ".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}


@dataclass(frozen=True)
class Mirror:
    """`place` is a folder or an http(s) address; in an unchecked one upstream's sums are not expected."""

    place: str
    checked: bool = True

    @property
    def is_http(self) -> bool:
        return self.place.startswith(("https://", "http://"))


@dataclass(frozen=True)
class Patience:
    """How long to go on. `attempts` counts failures of one source in a row that brought next to nothing: less than
    1 MB and than a hundredth of the file."""

    attempts: int = 25
    back_off: float = 1.0
    longest_pause: float = 60.0
    longest_retry_after: float = 3600.0
    stall: float = 60.0
    seed: int | None = None


@dataclass(frozen=True)
class Expected:
    """What the whole file must be; `origin` is what an error names as the one who says so."""

    bytes: int | None = None
    sha256: str | None = None
    origin: str = ""


class SourceFailed(Exception):
    """This source did not give the file: for good, or for now (`again`)."""

    def __init__(self, reason: str, again: bool = False, pause: float | None = None, cost: int = 1, sums: bool = False):
        super().__init__(plain(reason))  # a server's words reach a terminal
        self.again, self.pause, self.cost, self.sums = again, pause, cost, sums


@dataclass
class Source:
    name: str
    url: str | None = None  # http(s)
    folder: Path | None = None
    path: str = ""  # inside the folder
    checked: bool = True
    tries: int = 0
    failures: int = 0  # in a row, without a new byte
    not_before: float = 0.0
    best: int = 0  # most bytes that were ever on disk
    size: int | None = None  # of the whole file, as far as it is known
    given_up: bool = False
    reasons: list[str] = field(default_factory=list)
    wrong_sums: bool = False


# ---------------------------------------------------------------- the lock file: sums that nobody publishes


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


# ---------------------------------------------------------------- checks


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


# ---------------------------------------------------------------- folders


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
                if None in (row["path"], row["sha256"]) or not BYTES.fullmatch(row["bytes"] or ""):
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


# ---------------------------------------------------------------- http


class Progress:
    """One line on stderr: redrawn on a terminal, a new one every few seconds in a log."""

    def __init__(self, label: str, every: float = 5.0):
        self.label, self.tty = label, sys.stderr.isatty()
        self.every = 0.5 if self.tty else every
        self.start = self.last = time.monotonic()
        self.first_bytes: int | None = None

    def show(self, done: int, total: int | None, end: bool = False) -> None:
        now = time.monotonic()
        if self.first_bytes is None:
            self.first_bytes = done
        if not end and now - self.last < self.every:
            return
        self.last = now
        speed = (done - self.first_bytes) / max(now - self.start, 1e-9)
        text = f"{self.label}: {done / 1e6:,.1f} MB"
        if total:
            text += f" of {total / 1e6:,.1f} MB ({100 * done / total:.0f} %)"
        text += f", {speed / 1e6:,.1f} MB/s"
        if total and speed > 0 and not end:
            text += f", {(total - done) / speed:,.0f} s left"
        print(
            ("\r\x1b[K" if self.tty else "") + text,
            end="" if self.tty and not end else "\n",
            file=sys.stderr,
            flush=True,
        )


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds that a Retry-After header asks for (a number or an HTTP date), None where it says nothing."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - (time.time() if now is None else now))


class Watch:
    """Ends a connection that brought too little in `seconds`. A socket's own time-out begins anew with each byte, so a
    byte now and then, in headers, in the lengths of chunks or after the last one, would hold it for ever."""

    def __init__(self, seconds: float):
        self.seconds, self.fired = seconds, False
        self.sockets: list[socket.socket] = []
        self.until = time.monotonic() + seconds
        self.over = threading.Event()

    def __enter__(self) -> "Watch":
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for one in self.sockets:
            one.close()

    def look_after(self, made: socket.socket) -> socket.socket:
        """Watch a new connection, by a handle of our own: ssl takes the first one, from its handshake on."""
        self.sockets.append(socket.socket(fileno=os.dup(made.fileno())))
        self.renew()
        return made

    def renew(self) -> None:
        self.until = time.monotonic() + self.seconds

    def _watch(self) -> None:
        while not self.over.wait(max(0.01, self.until - time.monotonic())):
            if time.monotonic() >= self.until:
                self.fired = True
                for one in self.sockets:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                return


class _Redirects(urllib.request.HTTPRedirectHandler):
    """http and https only: urllib would go on to ftp. What comes with a redirect is not read: it may have no end."""

    def redirect_request(
        self,
        request: urllib.request.Request,
        file: BinaryIO,
        code: int,
        reason: str,
        headers: http.client.HTTPMessage,
        url: str,
    ) -> urllib.request.Request | None:
        if not url.lower().startswith(("https://", "http://")):
            raise SourceFailed(f"HTTP {code}, but to {url!r}, which is neither http nor https")
        file.close()
        return super().redirect_request(request, file, code, reason, headers, url)


def _opener(watch: Watch) -> urllib.request.OpenerDirector:
    """urllib's own, with connections that the watch can end."""

    def connect(*arguments: object, **options: object) -> socket.socket:
        return watch.look_after(socket.create_connection(*arguments, **options))

    def watched(kind: type[http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        def made(*arguments: object, **options: object) -> http.client.HTTPConnection:
            connection = kind(*arguments, **options)
            connection._create_connection = connect
            return connection

        return made

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(watched(http.client.HTTPConnection), request)

    class Secure(urllib.request.HTTPSHandler):
        def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(watched(http.client.HTTPSConnection), request, context=self._context)

    return urllib.request.build_opener(_Redirects, Plain, Secure)


def _open(url: str, headers: dict[str, str], watch: Watch) -> http.client.HTTPResponse:
    # Identity: a server must not compress what we store and resume byte by byte.
    asked = {"User-Agent": "parallax-download/1", "Accept-Encoding": "identity", **headers}
    silence = SourceFailed(f"no answer for {watch.seconds:g} s", again=True)
    try:
        request = urllib.request.Request(url, headers=asked)
        return _opener(watch).open(request, timeout=watch.seconds)
    except SourceFailed:
        raise
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            reason = f"HTTP {error.code} {error.reason}".rstrip()
            if watch.fired:
                raise silence from None
            if error.code == 416:
                raise SourceFailed(f"{reason}: the partial file is longer than the upstream one", again=True) from None
            if error.code in (408, 425, 429) or error.code >= 500:
                raise SourceFailed(reason, again=True, pause=retry_after(error.headers["Retry-After"])) from None
            raise SourceFailed(reason) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise SourceFailed(f"certificate refused: {error.reason.verify_message}") from None
        if isinstance(error.reason, TimeoutError) or watch.fired:
            raise silence from None
        raise SourceFailed(f"cannot reach it: {error.reason}", again=True, cost=UNREACHABLE_COST) from None
    except Exception as error:
        if isinstance(error, TimeoutError) or watch.fired:
            raise silence from None
        if isinstance(error, http.client.HTTPException | OSError) and not isinstance(error, http.client.InvalidURL):
            raise SourceFailed(f"no answer: {str(error) or type(error).__name__}", again=True) from None
        # An address to go on to that is none, a header that no client may send back, and what nobody thought of: the
        # answer is wrong, whatever urllib makes of it.
        raise SourceFailed(f"not an answer in HTTP ({type(error).__name__}: {error})") from None


def _validator(headers: http.client.HTTPMessage) -> dict[str, str]:
    """What identifies this version of the upstream file; a weak ETag does not vouch for bytes (RFC 9110, 13.1.5). It
    will be sent back, so one that is no plain header is none."""
    found = {"etag": headers.get("ETag", ""), "last_modified": headers.get("Last-Modified", "")}
    if found["etag"].startswith("W/"):
        found["etag"] = ""
    return {key: value if re.fullmatch(r"[\x20-\x7e]{0,1000}", value) else "" for key, value in found.items()}


def part_paths(out: Path, url: str) -> tuple[Path, Path]:
    """The partial file of one source, and what is known of its version."""
    key = hashlib.sha256(url.encode()).hexdigest()[:8]
    part = out.with_name(f".{out.name}.{key}.part")
    return part, part.with_name(part.name + ".json")


def _read_state(path: Path) -> dict[str, object]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def fetch_http(source: Source, out: Path, expected: Expected, patience: Patience, label: str) -> tuple[Path, str]:
    """Download to the partial file, from where it stopped if that is safe; return it whole, with its sum."""
    assert source.url is not None
    part, state_path = part_paths(out, source.url)
    with told(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    with open(part, "ab", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{out}: another process is downloading it; wait for it or stop it") from None
        with Watch(patience.stall) as watch:
            resumed = _receive(source, file, state_path, expected, watch, label)
        os.fsync(file.fileno())
    try:
        return part, check(part, source.url, expected)
    except SourceFailed as failure:
        part.unlink()
        state_path.unlink(missing_ok=True)
        if resumed and failure.sums:  # the pieces may stem from two versions: once more, from the start
            raise SourceFailed(f"{failure} (after resuming)", again=True, sums=True) from None
        raise


def _receive(source: Source, file: io.FileIO, state_path: Path, expected: Expected, watch: Watch, label: str) -> bool:
    """Fill the open partial file; return whether earlier bytes were kept."""
    assert source.url is not None
    state = _read_state(state_path)
    have = os.fstat(file.fileno()).st_size
    headers = {}
    validator = state.get("etag") or state.get("last_modified")
    whole = state.get("total")
    if have and isinstance(whole, int) and have == whole:
        return True  # killed between the last byte and the rename
    # Without a validator only a known sha256 can tell that the two halves belong together.
    if have and state and (validator or expected.sha256):
        headers["Range"] = f"bytes={have}-"
        if validator:
            headers["If-Range"] = str(validator)
    try:
        response = _open(source.url, headers, watch)
    except SourceFailed as failure:
        if "HTTP 416" in str(failure):
            file.truncate(0)
            state_path.unlink(missing_ok=True)
        raise
    with response:
        version = _validator(response.headers)
        length = response.headers.get("Content-Length", "")
        total = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        if response.status == 206:
            span = re.fullmatch(
                r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)", response.headers.get("Content-Range", "")
            )
            same = all(not state.get(key) or not version[key] or state[key] == version[key] for key in version)
            total = int(span[2]) if span and span[2] != "*" else None
            same = same and span is not None and int(span[1]) == have and whole in (None, total)
            version = {key: version[key] or str(state.get(key, "")) for key in version}
            if not headers or not same:
                file.truncate(0)
                state_path.unlink(missing_ok=True)
                raise SourceFailed("the upstream file changed since the partial download; starting anew", again=True)
        elif response.status == 200:
            kept = have
            file.truncate(0)
            have = 0
            if kept and headers:
                print(f"{label}: {source.name} sends the file from its start; {kept} bytes dropped", file=sys.stderr)
        else:
            raise SourceFailed(f"HTTP {response.status} instead of a file")
        if response.headers.get_content_type() == "text/html" and not source.url.endswith((".html", ".htm")):
            raise SourceFailed("an HTML page instead of the file")
        coding = response.headers.get("Content-Encoding", "identity")
        if coding != "identity" and not source.url.endswith((".gz", ".tgz")):
            raise SourceFailed(f"sends the file in Content-Encoding {coding}, although identity was asked for")
        if total is None and not response.chunked and expected.bytes is None and expected.sha256 is None:
            raise SourceFailed(
                "it gives no length and no sum is known, so a cut-off file could not be told from a whole one"
            )
        if expected.bytes is not None and total is not None and total != expected.bytes:
            raise SourceFailed(f"{total} bytes, but {expected.origin} says {expected.bytes}", sums=True)
        if total is None and not response.chunked:
            total = expected.bytes  # the only sign of a cut-off file
        if total is not None and total - have > shutil.disk_usage(state_path.parent).free:
            words = f"{state_path.parent}: {total - have} bytes are to come and fewer are free; make room"
            raise UserError(words) if expected.bytes is not None else SourceFailed(words)  # of an unknown size: a lie?
        write_text(state_path, json.dumps({"url": source.url, "total": total, **version}) + "\n")
        source.size = expected.bytes if total is None else total
        resumed = have > 0
        file.seek(0, os.SEEK_END)
        have = _copy_body(response, file, have, source.size, watch, label)
        if total is not None and have != total:
            raise SourceFailed(f"the connection ended after {have} of {total} bytes", again=True)
    return resumed


def _copy_body(
    response: http.client.HTTPResponse, file: io.FileIO, have: int, total: int | None, watch: Watch, label: str
) -> int:
    """Append the body to the partial file, up to its known size; return the bytes that it then has."""
    progress = Progress(label)
    mark = have
    watch.renew()
    while True:
        try:
            chunk = response.read1(CHUNK)
            if watch.fired:
                raise TimeoutError
        except Exception as error:
            if isinstance(error, TimeoutError) or watch.fired:
                what = f"{have - mark} bytes" if have > mark else "no byte"
                raise SourceFailed(f"stalled: {what} in {watch.seconds:g} s (at byte {have})", again=True) from None
            # Also what http.client makes of chunks that are none.
            raise SourceFailed(f"connection lost at byte {have}: {type(error).__name__}", again=True) from None
        if not chunk:
            progress.show(have, total, end=True)
            return have
        if total is not None and have + len(chunk) > total:
            raise SourceFailed(f"sends more than the {total} bytes that the file has")
        view = memoryview(chunk)
        try:
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UserError(f"{file.name}: the disk is full after {have} bytes; make room and run again") from None
            raise
        have += len(chunk)
        if have - mark >= STALL_BYTES:
            mark = have
            watch.renew()
        progress.show(have, total)


# ---------------------------------------------------------------- at most N downloads at once


@contextlib.contextmanager
def slot(directory: Path | None, count: int, label: str = "") -> Iterator[None]:
    """Hold one of `count` places shared by all processes that name the same directory; freed by the kernel on death."""
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        for number in range(count):
            with open(directory / f"slot-{number}", "a") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        if not told:
            print(f"{label}: waiting, {count} downloads are running", file=sys.stderr, flush=True)
            told = True
        time.sleep(0.1 + 0.1 * random.random())


# ---------------------------------------------------------------- all sources in turn


def is_user_supplied(url: str) -> bool:
    """A host below .invalid never resolves (RFC 6761): the row of a file that nobody may distribute."""
    return path_of(url).partition("/")[0].endswith(".invalid")


def sources_of(dataset: Dataset, mirrors: list[Mirror], offline: bool) -> list[Source]:
    """Every place to ask, in order. Mirrors may keep the file under the path of any of the row's urls."""
    sources = []
    for mirror in mirrors:
        for url in dataset.urls:
            path = path_of(url)
            if mirror.is_http:
                address = f"{mirror.place.rstrip('/')}/{path}"
                sources.append(Source(address, url=address, checked=mirror.checked))
            else:
                folder = Path(mirror.place)
                sources.append(Source(str(folder / path), folder=folder, path=path, checked=mirror.checked))
    if not offline:
        sources += [Source(url, url=url) for url in dataset.urls if not is_user_supplied(url)]
    return list({source.name: source for source in reversed(sources)}.values())[::-1]


def download(
    dataset: Dataset,
    out: str | Path,
    mirrors: list[Mirror],
    datasets: str | Path = DATASETS_TSV,
    lock: str | Path | None = None,
    offline: bool = False,
    patience: Patience | None = None,
    slots_dir: str | Path | None = None,
    max_parallel: int = 4,
) -> str:
    """Bring `dataset` to `out` and return the name of the source that gave it; a UserError lists what was tried."""
    patience = patience or Patience()
    out, lock = Path(out), Path(lock) if lock else None
    slots = Path(slots_dir) if slots_dir else None
    chance = random.Random(patience.seed)
    sources = sources_of(dataset, mirrors, offline)
    expected = expectation(dataset, datasets, lock)
    if expected.sha256 and out.is_file() and sha256_of(out) == expected.sha256:
        keep_sum(out, expected.sha256)
        print(f"{dataset.id}: {out} is there already and whole", file=sys.stderr)
        return str(out)
    while alive := [source for source in sources if not source.given_up]:
        # Order of the list among those that may be asked now; else the one whose pause ends first.
        now = time.monotonic()
        source = next((s for s in alive if s.not_before <= now), None) or min(alive, key=lambda s: s.not_before)
        if source.not_before > now:
            time.sleep(source.not_before - now)
        try:
            if source.folder is not None:
                fetch_folder(source, out, expected, lock, dataset)
            else:
                with slot(slots, max_parallel, dataset.id):
                    part, sha256 = fetch_http(source, out, expected, patience, dataset.id)
                if lock and not dataset.sha256:
                    record(lock, dataset, part.stat().st_size, sha256, source.url or "")
                keep_sum(out, sha256)
                os.replace(part, out)
            _forget_parts(sources, out)
            print(f"{dataset.id}: {out.stat().st_size} bytes from {source.name}", file=sys.stderr)
            return source.name
        except SourceFailed as failure:
            _note(source, failure, out, patience, chance)
            if source.folder is None or "no such file" not in str(failure):
                print(plain(f"{dataset.id}: {source.name}: {source.reasons[-1]}"), file=sys.stderr, flush=True)
    raise UserError(*_story(dataset, sources, datasets, lock, offline))


def _note(source: Source, failure: SourceFailed, out: Path, patience: Patience, chance: random.Random) -> None:
    """Give the source up, or set when it may be asked again."""
    source.wrong_sums = failure.sums
    source.tries += 1
    reason = str(failure)
    if failure.again and source.url is not None:
        part = part_paths(out, source.url)[0]
        size = part.stat().st_size if part.exists() else 0
        worth = CHUNK if source.size is None else max(1, min(CHUNK, source.size // 100))
        progress = size >= source.best + worth
        source.best = max(source.best, size) if progress else source.best
        source.failures = 0 if progress else source.failures + failure.cost
        if failure.pause is not None and failure.pause > patience.longest_retry_after:
            reason += f", asks to wait {failure.pause:.0f} s, longer than --max-retry-after"
            source.given_up = True
        elif source.failures >= patience.attempts:
            reason += f" (given up after {source.tries} tries)"
            source.given_up = True
        else:
            growth = min(max(source.failures - 1, 0), 30)
            pause = min(patience.back_off * 2**growth, patience.longest_pause) * (0.5 + 0.5 * chance.random())
            if progress:
                pause = 0.0
            pause = max(pause, failure.pause or 0.0)
            source.not_before = time.monotonic() + pause
            if pause:
                reason += f"; again in {pause:.1f} s"
    else:
        source.given_up = True
    source.reasons.append(reason)


def _forget_parts(sources: list[Source], out: Path) -> None:
    for source in sources:
        if source.url is not None:
            for path in part_paths(out, source.url):
                path.unlink(missing_ok=True)


def _story(
    dataset: Dataset, sources: list[Source], datasets: str | Path, lock: Path | None, offline: bool
) -> list[str]:
    """What was tried, why each failed, and the mend: a line each."""
    lines = [f"{datasets}, id {dataset.id}: no source gave the file"]
    for source in sources:
        lines.append(f"  {source.name}: {source.reasons[-1]}")
    supplied = is_user_supplied(dataset.url)
    if supplied:
        lines.append(f"  the network has none: {dataset.note} ({dataset.licence})")
    elif not sources:
        lines.append("  none to ask: no mirror is given and --offline forbids the network")
    if any(source.wrong_sums for source in sources):
        if dataset.sha256 or not lock:
            where = f"bytes and sha256 of {dataset.id} in {datasets}"
        else:
            where = f"the line of {dataset.id} in {lock}"
        lines.append(
            f"to mend: the source differs from what was published or first downloaded. If you trust the new file, "
            f"correct {where}; if not, give a --mirror that has the old one. For a folder of excerpts or generated "
            f"data use --unchecked-mirror."
        )
    else:
        mend = f"to mend: place the file at <mirror>/{dataset.path} and give --mirror <mirror>"
        if supplied:
            lines.append(mend + ", or leave its language out of the task.")
        else:
            lines.append(mend + ", or correct the url" + (", or run without --offline." if offline else "."))
    return lines


# ---------------------------------------------------------------- command line


class _AddMirror(argparse.Action):
    """Both mirror options fill one list, because the order between them matters."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: str,
        option_string: str | None = None,
    ) -> None:
        checked = option_string != "--unchecked-mirror"
        if not checked and value.startswith(("https://", "http://")):
            parser.error("--unchecked-mirror takes a folder")
        namespace.mirrors.append(Mirror(value, checked))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(mirrors=[])
    parser.add_argument("--dataset", required=True, metavar="ID", help="id of the row, such as opus/MultiUN/ar-en")
    parser.add_argument(
        "--datasets", default=DATASETS_TSV, metavar="TSV", help="table of sources (default: %(default)s)"
    )
    parser.add_argument("--out", required=True, metavar="PATH", help="final path of the file")
    parser.add_argument(
        "--mirror",
        action=_AddMirror,
        metavar="PLACE",
        help="folder or http(s) address that holds <host>/<path>; repeat for several, asked in the order given",
    )
    parser.add_argument(
        "--unchecked-mirror",
        action=_AddMirror,
        metavar="FOLDER",
        help="the same for a folder whose bytes are not upstream's (excerpts, stand-ins, the mini-world): its files "
        "are compared with its own MANIFEST.tsv, where there is one, and never recorded in the lock file",
    )
    parser.add_argument(
        "--lock",
        metavar="TSV",
        help="where sums that nobody publishes are recorded at the first download and enforced after",
    )
    parser.add_argument("--offline", action="store_true", help="ask the mirrors only, never upstream")
    parser.add_argument(
        "--attempts",
        type=int,
        default=25,
        metavar="N",
        help="failures in a row of one source before it is given up; one that brought 1 MB, or a hundredth of the file "
        "is none (default: %(default)s)",
    )
    parser.add_argument(
        "--back-off",
        type=float,
        default=1.0,
        metavar="S",
        help="pause after the first failure, doubled each time up to one minute, less a random part of up to half; "
        "Retry-After is obeyed on top (default: %(default)s)",
    )
    parser.add_argument(
        "--max-retry-after",
        type=float,
        default=3600.0,
        metavar="S",
        help="a source that asks for a longer wait is given up (default: %(default)s)",
    )
    parser.add_argument(
        "--stall-timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="a connection that gives less than 1 kB in this time is closed and tried again (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random part of pauses (default: none)")
    parser.add_argument(
        "--max-parallel",
        type=int,
        default=4,
        metavar="N",
        help="downloads at once over all processes with the same --slots-dir (default: %(default)s)",
    )
    parser.add_argument("--slots-dir", metavar="DIR", help="folder of the lock files that count them (default: no cap)")
    return parser


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.attempts < 1 or arguments.max_parallel < 1:
        parser.error("--attempts and --max-parallel are at least 1")
    # Not NaN either, which is not equal to, above or below any number.
    if not (0 < arguments.stall_timeout <= LONGEST_WAIT and 0 <= arguments.back_off <= LONGEST_WAIT):
        parser.error(f"--stall-timeout is above 0, --back-off not below 0, both at most {LONGEST_WAIT:,} s")
    if arguments.lock == "":
        parser.error("--lock: an empty name; give the name of a file, or leave it out")
    datasets = load_datasets(arguments.datasets)
    if arguments.dataset not in datasets:
        raise UserError(f"{arguments.datasets}, column id: no row {arguments.dataset!r}; add it or correct --dataset")
    for mirror in arguments.mirrors:
        if not mirror.is_http and not Path(mirror.place).is_dir():
            raise UserError(f"mirror {mirror.place}: no such folder; correct it, or leave it out")
    download(
        datasets[arguments.dataset],
        arguments.out,
        arguments.mirrors,
        arguments.datasets,
        arguments.lock,
        arguments.offline,
        Patience(
            attempts=arguments.attempts,
            back_off=arguments.back_off,
            longest_retry_after=arguments.max_retry_after,
            stall=arguments.stall_timeout,
            seed=arguments.seed,
        ),
        arguments.slots_dir,
        arguments.max_parallel,
    )


if __name__ == "__main__":
    run_main(main)
