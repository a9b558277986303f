"""Snakemake's own events, watched from within: a bar on a terminal, a line a minute elsewhere, a failure's cause last.

It hangs on Snakemake's logger as a filter that lets everything through: so it sees every event, however quiet Snakemake
itself is told to be, and can take the bar off the terminal before a message is printed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from watch.events import EVENTS, Job, State, benchmarked, by_stage, cause, short_line

EVERY = 60.0  # seconds between two lines where nobody looks at a terminal
WIDTH = 24  # of the bar
MOST_CAUSES = 3  # of failed jobs that are said at the end
OURS = ("run_info", "job_finished", "progress", "resources_info")
STOPPED = "It was stopped; the same command again goes on from there."
CHATTER = ("Select jobs to execute", "Execute ")  # as often as a job begins


class Watch:
    """A filter of a logger: `logger.addFilter(Watch(...))`."""

    def __init__(
        self,
        scale: str,
        cores: Callable[[], int | None],
        dryrun: Callable[[], bool],
        unknown: Callable[[str], str],
        quiet: Callable[[], bool] = lambda: True,
        stream: TextIO | None = None,
        path: Path = EVENTS,
    ) -> None:
        self.scale, self.cores, self.dryrun, self.path = scale, cores, dryrun, path
        self.unknown = unknown  # what is said of a target that nothing makes
        self.quiet = quiet  # of rules: then Snakemake's words on each job that ended are ours to say
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.state, self.known = State(), {}
        self.lock = threading.RLock()
        self.over = threading.Event()
        self.stopped = False  # by a signal: what its jobs then say is no failure
        self.causes: list[str] = []  # of the jobs that failed
        self.last: str | None = None  # what is printed at the very end
        self.shown = 0.0
        self.drawn = False

    def filter(self, record: logging.LogRecord) -> bool:
        event = str(getattr(record, "event", None) or "")
        with self.lock:
            self._clear()
            with contextlib.suppress(OSError):  # a full disk must not stop the messages that say so
                self._see(event, record.__dict__)
        # of a failed job Snakemake says again, in a long command, that it failed
        said_by_us = event in OURS or str(record.msg).startswith(CHATTER) or "CalledProcessError" in str(record.msg)
        return not (self.state.totals and self.quiet() and said_by_us)

    # -- events -------------------------------------------------------------------------------------------------------

    def _see(self, event: str, said: dict[str, Any]) -> None:
        if event == "error" and (missing := re.search(r"No rule to produce (\S+)", str(said.get("msg", "")))):
            self._say_last(self.unknown(missing[1]))
        if event == "run_info" and not self.state.totals:
            totals = {rule: int(count) for rule, count in said["stats"].items() if rule != "total"}
            if self.dryrun():
                self._print(summary(totals))
            else:
                self._begin(totals)
        elif not self.state.totals:
            return
        elif event == "job_info":
            keys = ("rule_name", "wildcards", "log", "threads")
            rule, wildcards, log, threads = (said.get(key) for key in keys)
            job = {"id": said["jobid"], "rule": rule, "wildcards": {k: str(v) for k, v in (wildcards or {}).items()}}
            self._keep({"event": "start", "job": {**job, "log": list(map(str, log or [])), "threads": threads or 1}})
        elif event == "job_finished":
            self._keep({"event": "finish", "id": said["job_id"]})
        elif event == "job_error":
            self._fail(said)

    def _begin(self, totals: dict[str, int]) -> None:
        self.known = benchmarked(self.scale, totals)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        here = {"host": socket.gethostname(), "process": os.getpid(), "cores": self.cores() or 1}
        self._keep({"event": "run", "scale": self.scale, **here, "totals": totals})
        self._print(summary(totals))
        self.shown = time.monotonic()
        self._heed_signals()
        threading.Thread(target=self._tick, daemon=True).start()
        atexit.register(self.close)

    def _heed_signals(self) -> None:
        """Remember that somebody stopped it, then do what Snakemake does. A closed terminal, which it does not heed and
        which would leave its lock, is taken for a Ctrl-C; not where nohup has it ignored."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        if handlers[signal.SIGHUP] == signal.SIG_DFL:
            handlers[signal.SIGHUP] = handlers[signal.SIGINT]

        def stop(number: int, frame: FrameType | None) -> None:
            self.stopped = True
            handlers[number](number, frame)

        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, stop)

    def _keep(self, event: dict[str, Any]) -> None:
        event["time"] = time.time()
        self.state.feed(event)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def _fail(self, said: dict[str, Any]) -> None:
        if self.stopped:
            self._keep({"event": "stop", "id": said["jobid"]})
            self._say_last(STOPPED)
            return
        failed = len(self.state.failed)
        self._keep({"event": "fail", "id": said["jobid"], "command": str(said.get("shellcmd") or "")})
        for job in self.state.failed[failed:]:
            self._print(f"FAILED: {job.name}; why is said last, and now by make status")
            self.causes.append(failure(job))  # now, for a job that is tried again writes its log anew
        if self.causes:
            self._say_last(failures(self.causes))

    # -- the terminal -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self.over.wait(1.0):
            with self.lock:
                if self.terminal:
                    self._draw()
                elif time.monotonic() - self.shown >= EVERY:
                    self.shown = time.monotonic()
                    self._print(time.strftime("%H:%M ") + short_line(self.state, self.known))

    def _draw(self) -> None:
        share = self.state.jobs_done / max(1, self.state.jobs)
        bar = "#" * int(WIDTH * share) + "." * (WIDTH - int(WIDTH * share))
        line = f"[{bar}] {short_line(self.state, self.known)}"
        self.stream.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        self.stream.flush()
        self.drawn = True

    def _clear(self) -> None:
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.drawn = False

    def _print(self, text: str) -> None:
        self._clear()
        print(text, file=self.stream, flush=True)

    def _say_last(self, text: str) -> None:
        if self.last is None:
            atexit.register(self._print_last)
        self.last = text

    def _print_last(self) -> None:
        with self.lock:
            self._print(f"\n{self.last}")

    def close(self) -> None:
        """At the end of Snakemake, however it ends but by kill -9."""
        self.over.set()
        with self.lock:
            self._clear()
            done = not self.state.failed and self.state.jobs_done == self.state.jobs
            how = "done" if done else "failed" if self.state.failed and not self.stopped else "stopped"
            with contextlib.suppress(OSError):  # no disk, or the folder is gone
                self._keep({"event": "end", "how": how})


def summary(totals: dict[str, int]) -> str:
    """What is to be done, a line for each stage."""
    stages = by_stage(totals)
    width = max(map(len, stages), default=0)
    lines = [f"{sum(totals.values()):,} jobs to run:"]
    for stage, rules in stages.items():
        words = ", ".join(f"{rule} {count:,}" for rule, count in rules.items())
        lines.append(f"  {stage:<{width}}  {sum(rules.values()):>7,}  {words}")
    return "\n".join(lines)


def failure(job: Job) -> str:
    lines = [f"{job.name} failed:", f"  {cause(job)}"]
    lines += [f"  all that it said: {log}" for log in job.log]
    return "\n".join(lines)


def failures(causes: list[str]) -> str:
    """The first failure last, for the others may come of it, or of its being stopped."""
    shown = causes[:MOST_CAUSES][::-1]
    more = len(causes) - len(shown)
    return "\n".join(([f"{more} more failed: make status names each."] if more else []) + shown)
