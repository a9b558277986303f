"""download.py against a real HTTP server on the loopback that misbehaves as upstream hosts do."""

import contextlib
import email.utils
import hashlib
import io
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import download as d
from common.errors import UserError
from fetching.lock import read_lock, record
from fetching.sources import Mirror, Patience, Source, SourceFailed
from fetching.web import Progress, part_paths, retry_after
from plan.datasets import Dataset

SCRIPT = Path(d.__file__)
BODY = bytes(range(256)) * 1200  # 307,200 bytes
OTHER = BODY[::-1]
FAST = Patience(attempts=3, back_off=0.0, stall=1.0, seed=1)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- a server with a script


class Server(ThreadingHTTPServer):
    """`plan[path]` is the list of answers to successive requests; the last one repeats. Every request is kept."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: dict[str, list] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.now_open = self.most_open = 0
        self.guard = threading.Lock()
        self.release = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def ranges(self, path: str) -> list[str | None]:
        return [headers.get("range") for asked, headers in self.requests if asked == path]

    def handle_error(self, request, client_address):
        """Clients hang up in these tests; that is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        with server.guard:
            server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            answers = server.plan.get(self.path, [status(404)])
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            server.now_open += 1
            server.most_open = max(server.most_open, server.now_open)
        try:
            answer(self)
        finally:
            with server.guard:
                server.now_open -= 1
        self.close_connection = True

    def reply(self, code, body=b"", length=None, **headers):
        self.send_response(code)
        if length != "none":
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Connection", "close")
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def status(code, **headers):
    return lambda handler: handler.reply(code, b"no\n", **headers)


def whole(body=BODY, **headers):
    """Ignores Range."""
    return lambda handler: handler.reply(200, body, **headers)


def truncated(size, body=BODY, **headers):
    return lambda handler: handler.reply(200, body[:size], length=len(body), **headers)


def ranged(body=BODY, cut=None, etag='"v1"', obey_if_range=True, **headers):
    """Supports Range and If-Range; sends at most `cut` bytes of what it announces."""

    def answer(handler):
        start = 0
        asked = handler.headers.get("Range")
        condition = handler.headers.get("If-Range")
        if asked and (not obey_if_range or condition in (None, etag)):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        tags = {"ETag": etag} if etag else {}
        if start > len(body):
            return handler.reply(416)
        part = body[start:]
        if start:
            tags["Content_Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        handler.reply(206 if start else 200, part[:cut], length=len(part), **tags, **headers)

    return answer


def stalled(size, body=BODY):
    def answer(handler):
        handler.reply(200, body[:size], length=len(body), ETag='"v1"')
        handler.server.release.wait(10)

    return answer


def dripping(handler):
    """A byte now and then: each read succeeds, the download never ends."""
    handler.reply(200, b"", length=len(BODY), ETag='"v1"')
    for _ in range(100):
        if handler.server.release.wait(0.1):
            return
        handler.wfile.write(b"x")
        handler.wfile.flush()


def chunked(body=BODY, end=True):
    def answer(handler):
        handler.reply(200, length="none", Transfer_Encoding="chunked")
        for start in range(0, len(body), 50_000):
            piece = body[start : start + 50_000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if end:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def row(url, fallbacks=(), body=BODY, known=True, id="toy/file"):
    """A row of datasets.tsv; `known` says whether its sums are published."""
    size, sum_ = (len(body), sha(body)) if known else (None, None)
    return Dataset(id, url, tuple(fallbacks), size, sum_, "none", ("en",), "eval", "")


class Final:
    """Watch the final path during a download: it is absent or whole, at every moment."""

    def __init__(self, path: Path, *bodies: bytes):
        self.path, self.sizes = path, {len(body) for body in bodies}
        self.bad: list[int] = []
        self.done = threading.Event()

    def look(self):
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size not in self.sizes:
            self.bad.append(size)

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.002):
            self.look()

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.look()
        assert not self.bad, f"a partial file of {self.bad} bytes lay at the final path"


def files_beside(path: Path) -> list[str]:
    return sorted(other.name for other in path.parent.iterdir())


def fetch(dataset, tmp_path, *, expect=BODY, mirrors=(), patience=FAST, **options):
    """Download; success must give exactly `expect`, failure must leave nothing at the final path."""
    out = tmp_path / "raw" / "file.bin"
    with Final(out, BODY, expect):
        try:
            source = d.download(dataset, out, list(mirrors), patience=patience, **options)
        except UserError:
            assert not out.exists()
            raise
    assert out.read_bytes() == expect
    assert files_beside(out) == [".file.bin.sha256", "file.bin"], "temporary files were left behind"
    return source


# ---------------------------------------------------------------- answers of a server


def test_a_good_server_is_asked_once(server, tmp_path):
    server.plan["/f"] = [whole()]
    assert fetch(row(server.url("/f")), tmp_path) == server.url("/f")
    assert len(server.requests) == 1
    assert server.requests[0][1]["accept-encoding"] == "identity"


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_turns_to_the_next_source_at_once(server, tmp_path, code):
    server.plan["/f"] = [status(code)]
    server.plan["/g"] = [whole()]
    assert fetch(row(server.url("/f"), [server.url("/g")]), tmp_path) == server.url("/g")
    assert [path for path, _ in server.requests] == ["/f", "/g"]


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, tmp_path, code):
    server.plan["/f"] = [status(code), status(code), whole()]
    fetch(row(server.url("/f")), tmp_path)
    assert len(server.requests) == 3


def test_twenty_failures_then_success_with_the_default_number_of_attempts(server, tmp_path):
    server.plan["/f"] = [status(429), status(503)] * 10 + [whole()]
    fetch(row(server.url("/f")), tmp_path, patience=Patience(back_off=0.0))
    assert len(server.requests) == 21


def test_attempts_are_bounded_and_every_source_is_named(server, tmp_path):
    server.plan["/f"] = [status(503)]
    server.plan["/g"] = [status(404)]
    with pytest.raises(UserError) as error:
        fetch(row(server.url("/f"), [server.url("/g")]), tmp_path)
    assert f"{server.url('/f')}: HTTP 503" in str(error.value)
    assert "after 3 tries" in str(error.value)
    assert f"{server.url('/g')}: HTTP 404" in str(error.value)
    assert "to mend: place the file at <mirror>/127.0.0.1" in str(error.value)


def test_retry_after_in_seconds_is_obeyed(server, tmp_path):
    server.plan["/f"] = [status(503, Retry_After="1"), whole()]
    start = time.monotonic()
    fetch(row(server.url("/f")), tmp_path)
    assert time.monotonic() - start >= 1.0


def test_retry_after_as_a_date_is_obeyed(server, tmp_path):
    until = time.time() + 2
    server.plan["/f"] = [status(429, Retry_After=email.utils.formatdate(until, usegmt=True)), whole()]
    fetch(row(server.url("/f")), tmp_path)
    assert time.time() >= int(until)  # HTTP dates have whole seconds


def test_retry_after_beyond_the_limit_gives_the_source_up(server, tmp_path):
    server.plan["/f"] = [status(503, Retry_After="7200")]
    server.plan["/g"] = [whole()]
    assert fetch(row(server.url("/f"), [server.url("/g")]), tmp_path) == server.url("/g")
    with pytest.raises(UserError, match="asks to wait 7200 s"):
        fetch(row(server.url("/f")), tmp_path / "again")


def test_a_pausing_source_does_not_hold_up_its_fallback(server, tmp_path):
    server.plan["/f"] = [status(503, Retry_After="30")]
    server.plan["/g"] = [whole()]
    start = time.monotonic()
    assert fetch(row(server.url("/f"), [server.url("/g")]), tmp_path) == server.url("/g")
    assert time.monotonic() - start < 5


def test_retry_after_parses():
    assert retry_after("17") == 17
    assert retry_after(None) is None
    assert retry_after("soon") is None
    assert retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=40.0) == 60
    assert retry_after("Thu, 01 Jan 1970 00:00:10 GMT", now=40.0) == 0


def test_pauses_double_with_jitter_and_a_ceiling(tmp_path):
    import random

    source = Source("s", url="http://127.0.0.1/x")
    chance = random.Random(3)
    pauses = []
    for _ in range(12):
        before = time.monotonic()
        d._note(source, SourceFailed("HTTP 503", again=True), tmp_path / "x", Patience(), chance)
        pauses.append(source.not_before - before)
    for number, pause in enumerate(pauses):
        top = min(2.0**number, 60.0)
        assert top / 2 <= pause <= top + 0.1
    assert len({round(pause / min(2.0**n, 60.0), 3) for n, pause in enumerate(pauses)}) > 6


def test_a_closed_port_is_given_up_and_named(tmp_path, server):
    dead = "http://127.0.0.1:9/f"
    server.plan["/g"] = [whole()]
    assert fetch(row(dead, [server.url("/g")]), tmp_path) == server.url("/g")
    with pytest.raises(UserError, match="cannot reach it"):
        fetch(row(dead), tmp_path / "again")


# ---------------------------------------------------------------- broken transfers


def test_truncation_resumes_where_it_stopped(server, tmp_path):
    server.plan["/f"] = [ranged(cut=100_000)]
    fetch(row(server.url("/f")), tmp_path)
    assert server.ranges("/f") == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]
    assert all(headers.get("if-range") == '"v1"' for _, headers in server.requests[1:])


def test_truncation_without_range_support_starts_anew(server, tmp_path, capsys):
    server.plan["/f"] = [truncated(100_000, ETag='"v1"'), whole(ETag='"v1"')]
    fetch(row(server.url("/f")), tmp_path)
    assert server.ranges("/f") == [None, "bytes=100000-"]
    assert "from its start" in capsys.readouterr().err


def test_endless_truncation_at_one_place_ends_in_an_error(server, tmp_path):
    server.plan["/f"] = [truncated(100_000)]
    with pytest.raises(UserError, match=r"ended after 100000 of 307200 bytes \(given up after 4 tries\)"):
        fetch(row(server.url("/f")), tmp_path)


def test_truncation_is_noticed_where_no_sum_is_known(server, tmp_path):
    server.plan["/f"] = [truncated(100_000)]
    with pytest.raises(UserError, match="ended after 100000"):
        fetch(row(server.url("/f"), known=False), tmp_path)


def test_a_cut_off_body_without_a_length_is_noticed(server, tmp_path):
    server.plan["/f"] = [lambda handler: handler.reply(200, BODY[:5000], length="none"), whole()]
    fetch(row(server.url("/f")), tmp_path)
    server.plan["/g"] = [lambda handler: handler.reply(200, BODY[:5000], length="none")]
    with pytest.raises(UserError, match="no length"):
        fetch(row(server.url("/g"), known=False), tmp_path / "again")


def test_chunked_bodies(server, tmp_path):
    server.plan["/f"] = [chunked(end=False), chunked()]
    fetch(row(server.url("/f"), known=False), tmp_path)
    assert len(server.requests) == 2


@pytest.mark.parametrize("behaviour", [stalled(50_000), stalled(0), dripping], ids=["midway", "at once", "dripping"])
def test_a_silent_connection_is_closed_and_tried_again(server, tmp_path, behaviour):
    server.plan["/f"] = [behaviour, ranged()]
    patience = Patience(attempts=3, back_off=0.0, stall=0.4)
    start = time.monotonic()
    # Dripping leaves a few wrong bytes, which are resumed: the sum notices, and the file is fetched anew.
    fetch(row(server.url("/f")), tmp_path, patience=patience)
    assert time.monotonic() - start < 20


def test_a_server_that_never_answers(server, tmp_path):
    server.plan["/f"] = [lambda handler: handler.server.release.wait(10)]
    with pytest.raises(UserError, match=r"no answer for 0\.2 s"):
        fetch(row(server.url("/f")), tmp_path, patience=Patience(attempts=2, back_off=0.0, stall=0.2))


# ---------------------------------------------------------------- answers that are none


def raw(answer: bytes, *, endless: bytes = b"", pause: float = 0.0):
    """Whatever bytes, then `endless` again and again until the client hangs up; without it the server hangs up."""

    def reply(handler):
        handler.wfile.write(answer)
        handler.close_connection = not endless
        while endless and not handler.server.release.wait(pause):
            handler.wfile.write(endless)
            handler.wfile.flush()

    return reply


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
FOUND = b"HTTP/1.1 302 Found\r\nLocation: "
STRANGE = {
    "a redirect to an open bracket": FOUND + b"http://[::1\r\n\r\n",
    "to a host of 300 letters": FOUND + b"http://" + b"a" * 300 + b"/f\r\n\r\n",
    "to bytes that are not ASCII": FOUND + b"http://127.0.0.1:1/\xff\xe2\x80\xa8\r\n\r\n",
    "to a host that is not ASCII": FOUND + b"http://\xc3\xbc\xff.invalid/f\r\n\r\n",
    "to a port that is none": FOUND + b"http://127.0.0.1:99999999/f\r\n\r\n",
    "to a blank": FOUND + b"http://127.0.0.1:1/a b\tc\r\n\r\n",
    "to a file": FOUND + b"file:///etc/passwd\r\n\r\n",
    "to ftp": FOUND + b"ftp://127.0.0.1/f\r\n\r\n",
    "to itself": FOUND + b"/f\r\n\r\n",
    "superscripts for a length": OK + "Content-Length: ²³\r\n\r\n".encode(),
    "a length of 5,000 digits": OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a length below nothing": OK + b"Content-Length: -1\r\n\r\n",
    "a chunk below nothing": CHUNKED + b"-5\r\nabcde\r\n",
    "a chunk that is no number": CHUNKED + b"zz\r\nabcde\r\n",
    "a chunk of 10 ** 30 bytes": CHUNKED + b"f" * 25 + b"\r\nabcde\r\n",
    "a tag that no client may send": OK + b"ETag: a\x00\x7f\xff\r\n b\r\nContent-Length: 307200\r\n\r\nab",
    "a hundred and one headers": OK + b"a: b\r\n" * 101 + b"\r\n",
    "a header of 70,000 letters": OK + b"a: " + b"b" * 70_000 + b"\r\n\r\n",
    "a status that is none": "HTTP/1.1 ² OK\r\n\r\n".encode(),
    "no HTTP": b"\x16\x03\x01 what?\r\n",
    "a wait of 10 ** 400 seconds": b"HTTP/1.1 503 No\r\nRetry-After: 1" + b"0" * 400 + b"\r\n\r\n",
    "a wait until the year 99999": b"HTTP/1.1 503 No\r\nRetry-After: Mon, 01 Jan 99999 00:00:00 GMT\r\n\r\n",
    "escape sequences": b"HTTP/1.1 404 \x1b[2J\x1b]0;owned\x07\x9b31m\r\n\r\n",
    "escapes in a header": OK + b"Content-Encoding: \x1b[2J\r\nContent-Length: 307200\r\n\r\n",
}


@pytest.mark.parametrize("name", STRANGE)
def test_an_answer_that_is_none_turns_to_the_next_source(server, tmp_path, capsys, name):
    server.plan = {"/f": [raw(STRANGE[name])], "/good": [whole()]}
    fetch(row(server.url("/f"), [server.url("/good")]), tmp_path)
    said = capsys.readouterr().err
    controls = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"}
    assert f"{server.url('/f')}: " in said and not set(said) & controls


def test_a_refusal_is_one_plain_line(server, tmp_path):
    server.plan = {"/f": [raw(STRANGE["escape sequences"])]}
    with pytest.raises(UserError, match=r"HTTP 404 \\x1b\[2J\\x1b\]0;owned") as error:
        fetch(row(server.url("/f")), tmp_path)
    assert "\x1b" not in str(error.value)


def test_random_answers_turn_to_the_next_source(server, tmp_path):
    """200 seeded inputs: answers with bytes changed, cut out, doubled or cut off. The file is always the right one."""
    chance = random.Random(22)
    good = OK + b'ETag: "v1"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n' % len(BODY) + BODY
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(BODY) // 4, BODY[i::4]) for i in range(4))
    seeds = [*STRANGE.values(), good, CHUNKED + pieces + b"0\r\n\r\n"]
    for number in range(200):
        answer = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 2, 8))):
            place = chance.randrange(min(len(answer), 200) or 1)
            match chance.randrange(4):
                case 0:
                    answer[place : place + 1] = [chance.randrange(256)]
                case 1:
                    del answer[place : place + chance.randrange(1, 20)]
                case 2:
                    answer[place:place] = answer[: chance.randrange(1, 40)]
                case 3:
                    answer = answer[: place + 1]
        server.plan = {"/f": [raw(bytes(answer))], "/good": [whole()]}
        # No answer stays open: what ends a download here is never the clock, however busy the machine.
        patience = Patience(attempts=1, back_off=0.0, stall=60, seed=number)
        fetch(row(server.url("/f"), [server.url("/good")]), tmp_path / str(number), patience=patience)


def test_a_chunked_body_without_end_stops_at_the_known_size(server, tmp_path):
    server.plan = {"/f": [raw(CHUNKED, endless=b"10000\r\n" + b"x" * 65536 + b"\r\n")], "/good": [whole()]}
    fetch(row(server.url("/f"), [server.url("/good")]), tmp_path)
    with pytest.raises(UserError, match="sends more than the 307200 bytes that the file has"):
        fetch(row(server.url("/f"), id="toy/other"), tmp_path / "other")
    assert sum(path.stat().st_size for path in (tmp_path / "other").rglob("*") if path.is_file()) <= 2 * len(BODY)


def test_a_length_beyond_every_disk_turns_to_the_next_source(server, tmp_path, capsys):
    """Where no size is known the server may lie; a known one that does not fit is the user's to mend."""
    server.plan = {"/f": [raw(OK + b"Content-Length: 99999999999999999\r\n\r\nab")], "/good": [whole()]}
    fetch(row(server.url("/f"), [server.url("/good")], known=False), tmp_path)
    assert "99999999999999999 bytes are to come and fewer are free; make room" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "endless", "pause"),
    [
        (OK, b"a", 0.05),  # one header that goes on and on
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
        (CHUNKED, b"0", 0.05),  # the length of a chunk
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n", 0.01),  # what may follow the last chunk
        (b"HTTP/1.1 302 Found\r\nLocation: /nothing\r\n\r\n", b"x" * 65536, 0.0),
        (b"HTTP/1.1 404 No\r\n\r\n", b"x" * 65536, 0.0),
    ],
    ids=["headers", "continue", "chunk length", "trailers", "redirect", "refusal"],
)
def test_no_drip_and_no_flood_outlasts_the_stall_timeout(server, tmp_path, answer, endless, pause):
    server.plan = {"/f": [raw(answer, endless=endless, pause=pause)], "/good": [whole()]}
    start = time.monotonic()
    patience = Patience(attempts=2, back_off=60.0, stall=0.8)  # the good source, too, has no more
    fetch(row(server.url("/f"), [server.url("/good")]), tmp_path, patience=patience)
    assert time.monotonic() - start < 20


def test_a_handshake_that_drips_ends(server, tmp_path):
    """https: one record of 16 kB, a byte at a time."""
    stop, listening = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def drip():
        with contextlib.suppress(OSError):
            accepted, _ = listening.accept()
            accepted.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
            while not stop.wait(0.05):
                accepted.sendall(b"\0")

    threading.Thread(target=drip, daemon=True).start()
    server.plan = {"/good": [whole()]}
    start = time.monotonic()
    url = f"https://127.0.0.1:{listening.getsockname()[1]}/f"
    fetch(row(url, [server.url("/good")]), tmp_path, patience=Patience(attempts=2, back_off=0.0, stall=0.8))
    assert time.monotonic() - start < 20
    stop.set()
    listening.close()


def test_ten_bytes_an_answer_are_failures_with_pauses(server, tmp_path):
    server.plan = {"/f": [ranged(cut=10)], "/g": [ranged(cut=20_000)]}
    with pytest.raises(UserError, match="given up after 4 tries"):
        fetch(row(server.url("/f")), tmp_path, patience=Patience(attempts=4, back_off=0.05, stall=1.0, seed=1))
    assert len(server.requests) == 4
    # More than a hundredth of the file: slow, and on its way.
    fetch(row(server.url("/g"), id="toy/other"), tmp_path / "other", patience=Patience(attempts=2, back_off=9.0))


# ---------------------------------------------------------------- resuming across versions


@pytest.mark.parametrize("obey", [True, False], ids=["If-Range obeyed", "If-Range ignored"])
def test_a_file_that_changed_between_attempts_is_never_mixed(server, tmp_path, obey):
    new = OTHER
    server.plan["/f"] = [ranged(BODY, cut=100_000), ranged(new, etag='"v2"', obey_if_range=obey)]
    fetch(row(server.url("/f"), known=False), tmp_path, expect=new)


def test_a_changed_file_of_the_same_tag_is_caught_by_its_sum(server, tmp_path):
    server.plan["/f"] = [ranged(OTHER, cut=100_000), ranged(BODY)]
    fetch(row(server.url("/f")), tmp_path)
    assert server.ranges("/f") == [None, "bytes=100000-", None]


def test_without_validator_nor_sum_nothing_is_resumed(server, tmp_path):
    server.plan["/f"] = [ranged(cut=100_000, etag=None), ranged(etag=None)]
    fetch(row(server.url("/f"), known=False), tmp_path)
    assert server.ranges("/f") == [None, None]


def test_without_validator_a_known_sum_allows_to_resume(server, tmp_path):
    server.plan["/f"] = [ranged(cut=100_000, etag=None), ranged(etag=None)]
    fetch(row(server.url("/f")), tmp_path)
    assert server.ranges("/f") == [None, "bytes=100000-"]


def test_last_modified_serves_where_the_tag_is_weak(server, tmp_path):
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    server.plan["/f"] = [truncated(100_000, ETag='W/"v1"', Last_Modified=date), whole()]
    fetch(row(server.url("/f"), known=False), tmp_path)
    assert server.requests[1][1]["if-range"] == date


def test_a_partial_file_longer_than_upstream_is_dropped(server, tmp_path):
    short = BODY[:1000]
    server.plan["/f"] = [ranged(cut=100_000), ranged(short)]
    fetch(row(server.url("/f"), known=False), tmp_path, expect=short)


def test_each_source_keeps_its_own_partial_file(server, tmp_path):
    server.plan["/f"] = [ranged(OTHER, cut=100_000), status(404)]
    server.plan["/g"] = [ranged(BODY)]
    fetch(row(server.url("/f"), [server.url("/g")], known=False), tmp_path)
    assert server.ranges("/g") == [None]


# ---------------------------------------------------------------- wrong bytes


def test_wrong_bytes_are_an_error_with_both_sums(server, tmp_path):
    server.plan["/f"] = [whole(OTHER)]
    with pytest.raises(UserError) as error:
        fetch(row(server.url("/f")), tmp_path, datasets="config/datasets.tsv")
    assert sha(OTHER) in str(error.value)
    assert f"config/datasets.tsv says {sha(BODY)}" in str(error.value)
    assert "correct bytes and sha256 of toy/file in config/datasets.tsv" in str(error.value)
    assert len(server.requests) == 1, "a whole but wrong file is not asked for again"


def test_a_wrong_size_is_an_error_before_the_download(server, tmp_path):
    server.plan["/f"] = [whole(BODY + b"!")]
    with pytest.raises(UserError, match=r"307201 bytes, but config/datasets\.tsv says 307200"):
        fetch(row(server.url("/f")), tmp_path)


def test_wrong_bytes_of_one_source_turn_to_the_next(server, tmp_path):
    server.plan["/f"] = [whole(OTHER)]
    server.plan["/g"] = [whole()]
    assert fetch(row(server.url("/f"), [server.url("/g")]), tmp_path) == server.url("/g")


def test_an_html_page_is_no_data(server, tmp_path):
    server.plan["/f.zip"] = [whole(b"<html>please log in</html>", Content_Type="text/html; charset=utf-8")]
    with pytest.raises(UserError, match="HTML page"):
        fetch(row(server.url("/f.zip"), known=False), tmp_path)


@pytest.mark.parametrize("suffix", [".zip", ".xz", ".gz", ".tgz", ".bz2"])
def test_where_no_sum_is_known_the_format_is_looked_at(server, tmp_path, suffix):
    server.plan["/f" + suffix] = [whole(b"sorry, moved")]
    with pytest.raises(UserError, match="not a"):
        fetch(row(server.url("/f" + suffix), known=False), tmp_path)
    good = io.BytesIO()
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("a", "b")
    server.plan["/cut.zip"] = [whole(good.getvalue()[:-10])]
    with pytest.raises(UserError, match="damaged"):
        fetch(row(server.url("/cut.zip"), known=False), tmp_path)


# ---------------------------------------------------------------- killed, then continued


def command(tmp_path, url, *options, out="raw/file.bin", id="toy/file", known=True):
    table = tmp_path / f"{id.replace('/', '-')}.tsv"
    size, sum_ = (len(BODY), sha(BODY)) if known else ("", "")
    header = "id\turl\tfallback_urls\tbytes\tsha256\tlicence\tlanguages\tkind\tnote\n"
    table.write_text(header + f"{id}\t{url}\t\t{size}\t{sum_}\tnone\ten\teval\t\n")
    arguments = ["--dataset", id, "--datasets", table, "--out", tmp_path / out, "--back-off", "0", *options]
    return [sys.executable, str(SCRIPT), *map(str, arguments)]


def test_kill_9_midway_then_continue(server, tmp_path):
    server.plan["/f"] = [stalled(120_000), ranged()]
    out = tmp_path / "raw" / "file.bin"
    with Final(out, BODY):
        process = subprocess.Popen(command(tmp_path, server.url("/f")), stderr=subprocess.PIPE)
        part = part_paths(out, server.url("/f"))[0]
        deadline = time.monotonic() + 10
        while not (part.exists() and part.stat().st_size == 120_000):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not out.exists()
        subprocess.run(command(tmp_path, server.url("/f")), check=True, stderr=subprocess.PIPE, timeout=20)
    assert out.read_bytes() == BODY
    assert server.ranges("/f") == [None, "bytes=120000-"]
    assert files_beside(out) == [".file.bin.sha256", "file.bin"]


def test_kill_between_the_last_byte_and_the_rename_needs_no_second_download(server, tmp_path):
    server.plan["/f"] = [ranged()]
    out = tmp_path / "raw" / "file.bin"
    part, state = part_paths(out, server.url("/f"))
    part.parent.mkdir()
    part.write_bytes(BODY)
    state.write_text('{"total": 307200, "etag": "\\"v1\\""}')
    fetch(row(server.url("/f")), tmp_path)
    assert server.requests == []


def test_two_processes_never_write_one_partial_file(server, tmp_path):
    server.plan["/f"] = [stalled(1000), ranged()]
    process = subprocess.Popen(command(tmp_path, server.url("/f")), stderr=subprocess.DEVNULL)
    try:
        part = part_paths(tmp_path / "raw" / "file.bin", server.url("/f"))[0]
        deadline = time.monotonic() + 10
        while not (part.exists() and part.stat().st_size == 1000):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(UserError, match="another process is downloading it"):
            fetch(row(server.url("/f")), tmp_path)
    finally:
        process.kill()
        process.wait()


def test_the_cap_on_parallel_downloads_holds_over_processes(server, tmp_path):
    def slow(handler):
        time.sleep(0.4)
        handler.reply(200, BODY)

    processes = []
    for number in range(5):
        server.plan[f"/{number}"] = [slow]
        options = ("--slots-dir", tmp_path / "slots", "--max-parallel", "2")
        line = command(tmp_path, server.url(f"/{number}"), *options, out=f"raw/{number}", id=f"toy/{number}")
        processes.append(subprocess.Popen(line, stderr=subprocess.PIPE, text=True))
    messages = [process.communicate(timeout=20)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 5, messages
    assert server.most_open <= 2
    assert all((tmp_path / "raw" / str(number)).read_bytes() == BODY for number in range(5))


def test_a_slot_is_free_again_after_its_holder(tmp_path):
    taken = threading.Event()
    with d.slot(tmp_path, 1):

        def second():
            with d.slot(tmp_path, 1):
                taken.set()

        thread = threading.Thread(target=second)
        thread.start()
        assert not taken.wait(0.4)
    assert taken.wait(5)
    thread.join()


# ---------------------------------------------------------------- the lock file


def test_an_unpublished_sum_is_recorded_and_enforced(server, tmp_path):
    lock = tmp_path / "lock.tsv"
    server.plan["/f"] = [whole(), whole(OTHER)]
    fetch(row(server.url("/f"), known=False), tmp_path, lock=lock)
    url = server.url("/f")
    assert lock.read_text() == f"id\tbytes\tsha256\turl\ntoy/file\t{len(BODY)}\t{sha(BODY)}\t{url}\n"
    with pytest.raises(UserError) as error:
        fetch(row(server.url("/f"), known=False), tmp_path / "again", lock=lock)
    assert sha(OTHER) in str(error.value) and f"{lock} says {sha(BODY)}" in str(error.value)
    assert f"correct the line of toy/file in {lock}" in str(error.value)


def test_a_published_sum_is_not_recorded_and_wins_over_the_lock(server, tmp_path):
    lock = tmp_path / "lock.tsv"
    server.plan["/f"] = [whole()]
    fetch(row(server.url("/f")), tmp_path, lock=lock)
    assert not lock.exists()
    lock.write_text(f"id\tbytes\tsha256\turl\ntoy/file\t3\t{sha(b'old')}\thttp://x\n")
    fetch(row(server.url("/f")), tmp_path / "again", lock=lock)


def test_a_failed_download_records_nothing(server, tmp_path):
    server.plan["/f"] = [truncated(10)]
    with pytest.raises(UserError):
        fetch(row(server.url("/f"), known=False), tmp_path, lock=tmp_path / "lock.tsv")
    assert not (tmp_path / "lock.tsv").exists()


def test_the_lock_file_loses_nothing_under_parallel_writers(tmp_path):
    lock = tmp_path / "lock.tsv"
    ids = [f"toy/{number:02}" for number in range(24)]

    def write(id_):
        record(lock, row("http://h/x", id=id_, known=False), 1, sha(id_.encode()), "http://h/x")

    threads = [threading.Thread(target=write, args=(id_,)) for id_ in reversed(ids)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(read_lock(lock)) == ids
    with pytest.raises(UserError, match=f"{sha(b'new')}.*{sha(b'toy/03')}"):
        record(lock, row("http://h/x", id="toy/03"), 1, sha(b"new"), "http://h/x")


def test_a_broken_lock_file_is_named_with_its_line(tmp_path):
    lock = tmp_path / "lock.tsv"
    lock.write_text(f"id\tbytes\tsha256\turl\na\t1\t{sha(b'')}\tu\nb\tmany\t{sha(b'')}\tu\n")
    with pytest.raises(UserError, match=r"lock\.tsv:3: "):
        read_lock(lock)
    lock.write_text("something else\n")
    with pytest.raises(UserError, match=r"lock\.tsv:1: "):
        read_lock(lock)


# ---------------------------------------------------------------- mirrors


def folder(tmp_path, name, path, body):
    place = tmp_path / name / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)
    return tmp_path / name


def test_mirrors_are_asked_in_their_order_before_the_network(server, tmp_path):
    dataset = row(server.url("/f"))
    server.plan["/f"] = [whole()]
    server.plan[f"/m/{dataset.path}"] = [whole()]
    empty = tmp_path / "empty"
    empty.mkdir()
    http = Mirror(server.url("/m/"))
    assert fetch(dataset, tmp_path, mirrors=[Mirror(str(empty)), http]) == server.url(f"/m/{dataset.path}")
    full = folder(tmp_path, "full", dataset.path, BODY)
    source = fetch(dataset, tmp_path / "b", mirrors=[Mirror(str(full)), http])
    assert source == str(full / dataset.path)
    assert fetch(dataset, tmp_path / "c", mirrors=[Mirror(str(empty))]) == server.url("/f")


def test_a_mirror_may_keep_the_file_under_the_fallback_address(tmp_path):
    dataset = row("http://gone.example/a", ["http://second.example/b"])
    place = folder(tmp_path, "m", "second.example/b", BODY)
    assert fetch(dataset, tmp_path, mirrors=[Mirror(str(place))], offline=True) == str(place / "second.example/b")


def test_a_file_that_nobody_may_distribute_comes_from_a_mirror_alone(tmp_path):
    dataset = replace(row("https://user-supplied.invalid/conll/deu.train"), note="lay it into a folder", licence="ECI")
    with pytest.raises(UserError) as error:
        fetch(dataset, tmp_path)
    said = str(error.value)
    assert "the network has none: lay it into a folder (ECI)" in said and "leave its language out" in said
    assert "place the file at <mirror>/user-supplied.invalid/conll/deu.train" in said
    place = tmp_path / "mirror/user-supplied.invalid/conll"
    place.mkdir(parents=True)
    (place / "deu.train").write_bytes(BODY)
    assert fetch(dataset, tmp_path, mirrors=[Mirror(str(tmp_path / "mirror"))]) == str(place / "deu.train")


def test_offline_asks_no_upstream_and_says_so(server, tmp_path):
    server.plan["/f"] = [whole()]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError) as error:
        fetch(row(server.url("/f")), tmp_path, mirrors=[Mirror(str(empty))], offline=True)
    assert "no such file" in str(error.value) and "without --offline" in str(error.value)
    with pytest.raises(UserError, match="none to ask"):
        fetch(row(server.url("/f")), tmp_path / "b", offline=True)
    assert server.requests == []


def test_a_checked_folder_with_other_bytes_is_passed_over(server, tmp_path):
    dataset = row(server.url("/f"))
    server.plan["/f"] = [whole()]
    bad = folder(tmp_path, "bad", dataset.path, OTHER)
    assert fetch(dataset, tmp_path, mirrors=[Mirror(str(bad))]) == server.url("/f")
    with pytest.raises(UserError) as error:
        fetch(dataset, tmp_path / "b", mirrors=[Mirror(str(bad))], offline=True)
    assert sha(OTHER) in str(error.value) and sha(BODY) in str(error.value)
    assert "--unchecked-mirror" in str(error.value)


def test_an_unchecked_folder_gives_its_own_bytes_and_locks_nothing(tmp_path):
    dataset = row("http://h.example/f", known=False)
    lock = tmp_path / "lock.tsv"
    lock.write_text(f"id\tbytes\tsha256\turl\ntoy/file\t{len(BODY)}\t{sha(BODY)}\thttp://h.example/f\n")
    before = lock.read_bytes()
    place = folder(tmp_path, "m", dataset.path, OTHER)
    fetch(dataset, tmp_path, expect=OTHER, mirrors=[Mirror(str(place), False)], offline=True, lock=lock)
    assert lock.read_bytes() == before


def manifest(folder, path, body, kind=None):
    head, line = ["path", "bytes", "sha256"], [path, str(len(body)), sha(body)]
    if kind:
        head, line = [*head, "kind"], [*line, kind]
    (folder / "MANIFEST.tsv").write_text("\t".join(head) + "\n" + "\t".join(line) + "\n")


def test_an_unchecked_folder_is_checked_against_its_manifest(tmp_path):
    dataset = row("http://h.example/f")
    place = folder(tmp_path, "m", dataset.path, OTHER)
    mirrors = [Mirror(str(place), False)]
    manifest(place, dataset.path, OTHER)
    fetch(dataset, tmp_path, expect=OTHER, mirrors=mirrors, offline=True)
    manifest(place, dataset.path, BODY)
    with pytest.raises(UserError) as error:
        fetch(dataset, tmp_path / "b", mirrors=mirrors, offline=True)
    assert f"MANIFEST.tsv says {sha(BODY)}" in str(error.value) and sha(OTHER) in str(error.value)
    manifest(place, "h.example/another", BODY)
    with pytest.raises(UserError, match=r"MANIFEST\.tsv does not list it"):
        fetch(dataset, tmp_path / "c", mirrors=mirrors, offline=True)


def test_a_folder_below_the_manifest_is_checked_too(tmp_path):
    dataset = row("http://h.example/f")
    place = folder(tmp_path / "m", "excerpts", dataset.path, OTHER)
    manifest(tmp_path / "m", "excerpts/h.example/f", BODY)
    with pytest.raises(UserError, match=r"MANIFEST\.tsv says"):
        fetch(dataset, tmp_path, mirrors=[Mirror(str(place), False)], offline=True)


def test_a_folder_that_calls_a_file_repacked_does_not_lock_its_sum(tmp_path):
    dataset = row("http://h.example/f", known=False)
    place = folder(tmp_path, "m", dataset.path, OTHER)
    manifest(place, dataset.path, OTHER, kind="repacked")
    lock = tmp_path / "lock.tsv"
    fetch(dataset, tmp_path, expect=OTHER, mirrors=[Mirror(str(place))], offline=True, lock=lock)
    assert not lock.exists()
    manifest(place, dataset.path, OTHER, kind="exact")
    fetch(dataset, tmp_path / "b", expect=OTHER, mirrors=[Mirror(str(place))], offline=True, lock=lock)
    assert read_lock(lock)["toy/file"]["sha256"] == sha(OTHER)


def test_the_copy_is_new_and_the_mirror_untouched(tmp_path):
    dataset = row("http://h.example/f")
    place = folder(tmp_path, "m", dataset.path, BODY)
    original = place / dataset.path
    os.utime(original, (1_000_000_000, 1_000_000_000))
    fetch(dataset, tmp_path, mirrors=[Mirror(str(place))], offline=True)
    out = tmp_path / "raw" / "file.bin"
    assert time.time() - out.stat().st_mtime < 60
    out.write_bytes(b"changed afterwards")
    assert original.read_bytes() == BODY and original.stat().st_mtime == 1_000_000_000


def test_a_whole_file_is_not_fetched_again(server, tmp_path):
    server.plan["/f"] = [whole()]
    fetch(row(server.url("/f")), tmp_path)
    fetch(row(server.url("/f")), tmp_path)
    assert len(server.requests) == 1


# ---------------------------------------------------------------- command line


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=20
    )


def test_command_line_mirrors_in_order(tmp_path):
    line = command(tmp_path, "http://h.example/f", "--offline", "--lock", tmp_path / "lock.tsv", known=False)
    first = folder(tmp_path, "first", "h.example/f", OTHER)
    second = folder(tmp_path, "second", "h.example/f", BODY)
    result = subprocess.run(
        [*line, "--unchecked-mirror", first, "--mirror", second], capture_output=True, text=True, timeout=20
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "raw" / "file.bin").read_bytes() == OTHER
    assert not (tmp_path / "lock.tsv").exists()
    result = subprocess.run(
        [*line, "--mirror", second, "--unchecked-mirror", first], capture_output=True, text=True, timeout=20
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "raw" / "file.bin").read_bytes() == BODY
    assert (tmp_path / "lock.tsv").exists()


def test_command_line_errors_are_short(tmp_path):
    line = command(tmp_path, "http://h.example/f", "--offline")
    table = tmp_path / "toy-file.tsv"
    missing = run("--dataset", "no/such", "--datasets", table, "--out", tmp_path / "x")
    assert missing.returncode == 2 and "no row 'no/such'" in missing.stderr
    nowhere = subprocess.run([*line, "--mirror", tmp_path / "none"], capture_output=True, text=True, timeout=20)
    assert nowhere.returncode == 2 and "no such folder" in nowhere.stderr
    for result in (missing, nowhere):
        assert "Traceback" not in result.stderr and result.stderr.startswith("error: ")


def test_help_names_every_option():
    text = run("--help").stdout
    for option in ("--mirror", "--unchecked-mirror", "--lock", "--offline", "--stall-timeout", "--slots-dir"):
        assert option in text


def test_progress_is_a_line_now_and_then_in_a_log(capsys):
    progress = Progress("toy", every=0.0)
    progress.show(0, 100_000_000)
    progress.show(50_000_000, 100_000_000)
    progress.show(100_000_000, 100_000_000, end=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "50.0 MB of 100.0 MB (50 %)" in lines[1] and "s left" in lines[1]
    assert "\r" not in "".join(lines)


def test_real_mirror_files(mirror, repository, tmp_path):
    """An exact file passes its published sum; excerpts and stand-ins pass as what their manifest says they are."""
    table = d.load_datasets(repository / "config" / "datasets.tsv")
    mirrors = [
        Mirror(str(mirror)),
        Mirror(str(mirror / "excerpts"), False),
        Mirror(str(mirror / "standins"), False),
    ]
    lock = tmp_path / "lock.tsv"
    for id_, place in (
        ("xquad/de", ""),
        ("xnli/1.0", "excerpts"),
        ("squad/1.1-dev", "excerpts"),
        ("cc-100/zh-Hans", "standins"),
        ("alignment/test-sets", ""),
    ):
        out = tmp_path / table[id_].path
        source = d.download(table[id_], out, mirrors, lock=lock, offline=True)
        assert source.startswith(str(mirror / place))
        assert out.read_bytes() == Path(source).read_bytes()
    assert not lock.exists()
