"""A source on the web: resumed where it stopped, watched, and never trusted."""

import contextlib
import errno
import fcntl
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO

from common.atomic import told, write_text
from common.errors import UserError
from fetching.checks import check
from fetching.sources import CHUNK, Expected, Patience, Source, SourceFailed

STALL_BYTES = 1024  # fewer bytes than this in one stall time-out is silence
UNREACHABLE_COST = 5  # an unknown host or a closed port is given up sooner than a server that answers "busy"


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
