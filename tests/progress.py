"""Which test files are done, what comes next, and how long is left: a pytest plugin for the whole suite.

tests/durations.tsv says how many seconds of a core each file took, its processes with it, when it was last written:
by `python -m pytest --write-durations`, on a busy machine too. The longest files are begun first, so that no core waits
for the last of them; files that are not in it are begun before.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

import ready

DURATIONS = Path(__file__).with_name("durations.tsv")
FEW = 20  # files; who asked for so few sees what pytest says


def known_durations() -> dict[str, float]:
    lines = DURATIONS.read_text(encoding="utf-8").splitlines()[1:] if DURATIONS.exists() else []
    return {name: float(seconds) for name, seconds in (line.split("\t") for line in lines)}


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[2]


def seconds_left(known: dict[str, float], total: Counter, done: Counter, elapsed: float, workers: int) -> float:
    """The rest of the known durations, at the pace of what is done. A file that nobody knows takes as long as a mean
    one; of a file that is begun as much is left as of its tests."""
    usual = sum(known.values()) / max(1, len(known))
    whole = {name: known.get(name, usual) for name in total}
    behind = sum(seconds * done[name] / total[name] for name, seconds in whole.items())
    ahead = sum(whole.values()) - behind
    pace = elapsed * workers / behind if behind > 0.02 * (ahead + behind) else 1.0
    return ahead * pace / workers


def in_words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(5, round(seconds / 5) * 5):.0f} s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write {DURATIONS.name} again, from this run")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = known_durations()
    items.sort(key=lambda item: (-known.get(item.path.name, float("inf")), item.path.name))


def used() -> float:
    """Seconds of a core that this process has taken, those that it has waited for, and those of ready.py."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both) + sum(map(ready.used, ready.SERVERS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.user_properties.append(("used before", used()))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, object]:
    """Each of setup, call and teardown says what it took: a process of pytest-xdist tells it to the first."""
    report = yield
    (name, before), now = item.user_properties.pop(), used()
    item.user_properties.append((name, now))
    report.user_properties = [("used", now - before)]
    return report


class Progress:
    def __init__(self, config: pytest.Config):
        self.config = config
        self.workers = len(getattr(config.option, "tx", None) or [1])
        self.known = known_durations()
        self.total: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.began = time.monotonic()

    def collected(self, nodeids: list[str]) -> None:
        if not self.total:
            self.total.update(map(file_of, nodeids))
            self.began = time.monotonic()
            if len(self.total) > FEW:
                left = seconds_left(self.known, self.total, self.done, 0, self.workers)
                self.say(
                    f"{len(nodeids)} tests of {len(self.total)} files, {self.workers} at once: about {in_words(left)}"
                )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self.collected(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = file_of(report.nodeid)
        self.seconds[name] += dict(report.user_properties).get("used", 0)
        self.failed[name] += report.failed
        if report.when != "teardown":
            return
        self.done[name] += 1
        if self.done[name] == self.total[name] and len(self.total) > FEW:
            finished = sum(self.done[other] == self.total[other] for other in self.total)
            left = seconds_left(self.known, self.total, self.done, time.monotonic() - self.began, self.workers)
            wrong = f", {self.failed[name]} FAILED" if self.failed[name] else ""
            self.say(
                f"{finished} of {len(self.total)} files: {name} {self.seconds[name]:.0f} s{wrong}; "
                f"about {in_words(left)} left"
            )

    def say(self, words: str) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(words)

    def pytest_sessionfinish(self) -> None:
        if self.config.getoption("--write-durations"):
            found = self.known | {name: round(seconds, 1) for name, seconds in self.seconds.items()}
            files = {path.name for path in DURATIONS.parent.rglob("test_*.py")}
            there = {name: seconds for name, seconds in sorted(found.items()) if name in files}
            lines = ["file\tseconds", *(f"{name}\t{seconds:.1f}" for name, seconds in there.items())]
            DURATIONS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and not config.option.collectonly:
        config.pluginmanager.register(Progress(config), "parallax-progress")
