"""Where a file may be had, what it must be, and how long to go on asking."""

from dataclasses import dataclass, field
from pathlib import Path

from common.errors import plain
from plan.datasets import Dataset, path_of

CHUNK = 1 << 20  # bytes that are read at once


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
