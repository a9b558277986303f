"""The events of a run, kept in a file as they come, and what they add up to: jobs done, running, failed, time left."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from common.errors import BUG, plain
from common.rule_names import family_of

EVENTS = Path(".snakemake/progress.jsonl")  # of the last run; `make status` reads it from another terminal

# The rules by what a person calls their work, in the order in which it happens.
STAGES = {
    "data": ("build_world", "download", "index_eval_sets"),
    "cleaning": (
        "split_corpus_mono", "split_corpus_bitext", "train_language_id", "find_duplicates_mono",
        "find_duplicates_bitext", "train_pair_model", "clean_mono", "clean_bitext", "count_corpus", "report_cleaning",
        "report_test_sentences",
    ),
    "vocabulary": ("plan_sampling_vocabulary", "train_vocabulary", "encode_corpus"),
    "pre-training": ("resolve_run", "plan_sampling_run", "import_checkpoint", "pretrain", "summarise_training"),
    "fine-tuning": (
        "resolve_recipe", "resolve_translator", "finetune", "finetune_retrieval", "plan_sampling_translator",
        "train_translator", "validate_translator",
    ),
    "evaluation": ("fast_align", "predict", "translate", "score", "collect_scores"),
}  # fmt: skip
REPORT = "tables and report"  # every other rule


def stage_of(rule: str) -> str:
    return next((stage for stage, rules in STAGES.items() if rule in rules), REPORT)


def by_stage(counts: dict[str, int]) -> dict[str, dict[str, int]]:
    """Rule -> number of jobs, grouped by stage, in the order of the work."""
    found: dict[str, dict[str, int]] = {stage: {} for stage in [*STAGES, REPORT]}
    for rule, count in counts.items():
        found[stage_of(rule)][rule] = count
    return {stage: rules for stage, rules in found.items() if rules}


@dataclass
class Job:
    id: int
    rule: str
    wildcards: dict[str, str]
    log: list[str]
    threads: int = 1
    started: float = 0.0
    command: str = ""

    @property
    def name(self) -> str:
        own = [f"{key}={value}" for key, value in self.wildcards.items() if key != "scale"]
        return " ".join([self.rule, *own])


@dataclass
class State:
    """What the events so far add up to."""

    scale: str = ""
    cores: int = 1
    host: str = ""
    process: int = 0
    started: float = 0.0
    totals: dict[str, int] = field(default_factory=dict)  # rule -> jobs
    done: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)  # rule -> of the jobs that ended in this run
    running: dict[int, Job] = field(default_factory=dict)
    failed: list[Job] = field(default_factory=list)
    ended: str = ""  # "done", "failed" or "stopped"
    most_running: int = 1

    def feed(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "run":
            self.scale, self.cores = event["scale"], event["cores"]
            self.host, self.process = event["host"], event["process"]
            self.started, self.totals = event["time"], dict(event["totals"])
        elif kind == "start":
            job = Job(**event["job"], started=event["time"])
            self.running[job.id] = job
            self.most_running = max(self.most_running, len(self.running))
        elif kind == "finish" and (job := self.running.pop(event["id"], None)):
            self.done[job.rule] = self.done.get(job.rule, 0) + 1
            self.seconds.setdefault(job.rule, []).append(event["time"] - job.started)
        elif kind == "fail" and (job := self.running.pop(event["id"], None)):
            job.command = event.get("command", "")
            self.failed.append(job)
        elif kind == "stop":
            self.running.pop(event["id"], None)
        elif kind == "end":
            self.ended = event["how"]

    @property
    def jobs(self) -> int:
        return sum(self.totals.values())

    @property
    def jobs_done(self) -> int:
        return sum(self.done.values())


def read_events(path: Path) -> Iterator[dict]:
    """The last line may be half written: a run is under way."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def read_state(path: Path) -> State:
    state = State()
    for event in read_events(path):
        state.feed(event)
    return state


def benchmarked(scale: str, rules: Iterable[str], root: Path = Path(".")) -> dict[str, float]:
    """Rule -> mean seconds of its jobs on this machine: the newest twenty benchmark files of this scale."""
    found = {}
    for rule in rules:
        folders = [root / f"results/{scale}/benchmarks/{name}" for name in {rule, family_of(rule)}]
        files = [path for folder in folders for path in folder.rglob("*.tsv")] or [
            path for folder in folders if (path := folder.with_suffix(".tsv")).exists()
        ]
        seconds = []
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[-20:]:
            with open(path, encoding="utf-8", newline="") as file:
                seconds += [float(row["s"]) for row in csv.DictReader(file, delimiter="\t")]
        if seconds:
            found[rule] = sum(seconds) / len(seconds)
    return found


def seconds_left(state: State, known: dict[str, float], now: float) -> tuple[float, list[str]]:
    """The work that is left over what does it at once, and the rules of which nobody knows how long they take.

    A rule's jobs take as long as they did in this run, or as `known` says, or, of a rule that nobody knows, as a job
    that trains now will take by its steps. At once work as many as the cores, or as many as ran at once, where a
    cluster has more of them.
    """
    means = known | {rule: sum(own) / len(own) for rule, own in state.seconds.items()}
    means |= by_their_steps([job for job in state.running.values() if job.rule not in means], now)
    running: dict[str, list[float]] = {}
    for job in state.running.values():
        running.setdefault(job.rule, []).append(now - job.started)
    work, longest, unknown = 0.0, 0.0, []
    for rule, total in state.totals.items():
        left = total - state.done.get(rule, 0)
        if left <= 0:
            continue
        if rule not in means:
            unknown.append(rule)
            continue
        work += max(0.0, left * means[rule] - sum(min(spent, means[rule]) for spent in running.get(rule, [])))
        longest = max(
            longest, means[rule] - max(running.get(rule, [0.0])) if left <= len(running.get(rule, [])) else 0.0
        )
    return max(work / max(state.cores, state.most_running), longest), unknown


def by_their_steps(jobs: Iterable[Job], now: float) -> dict[str, float]:
    """Rule -> seconds that the longest of its running jobs takes, if the steps that are left take as long as those that
    are done. Each job's log is read: not for the hundreds of a cluster whose rules are known."""
    found: dict[str, float] = {}
    for job in jobs:
        if job.log and (said := re.match(r"step (\d+)/(\d+) ", last_line(job.log[0]))):
            done, steps = map(int, said.groups())
            found[job.rule] = max(found.get(job.rule, 0.0), (now - job.started) * steps / max(1, done))
    return found


def time_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def last_line(path: str | Path) -> str:
    """What a running job has said last: its losses, where it trains. Progress may end in a carriage return."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 2000))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")]
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line), "")


def cause(job: Job) -> str:
    """Why a job failed, in one line: the message of ours, or the last line of its log."""
    for log in job.log:
        try:
            lines = [
                line for line in Path(log).read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
            ]
        except OSError:
            continue
        ours = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        if ours:  # a message of several lines says where, then why, then the mend
            more = takewhile(lambda line: line.startswith(("  ", "to mend: ")), lines[ours[0] + 1 :])
            said = plain("; ".join([lines[ours[0]], *(line.strip() for line in more)]))
            if said.startswith(f"error: {BUG}") and (place := where_it_broke(lines[: ours[0]])):
                return f"error: {plain(lines[ours[0] - 1].strip())}{place}; {said.removeprefix('error: ')}"
            return said
        if lines:
            last = lines[-1].strip() + where_it_broke(lines)
            if last.startswith("ModuleNotFoundError: "):  # after `make demo` alone, or in a Python of one's own
                last += "; `make setup` installs all of requirements.lock"
            return f"error: {last}"
    return (
        "error: it ended without a word. Killed, perhaps for want of memory: give it more under `resources` of the "
        "scale, or run fewer jobs at once (CORES=1 make)"
    )


def where_it_broke(lines: list[str]) -> str:
    """The last of our files in a traceback, which may be one that a person wrote or changed."""
    frames = [re.match(r'\s+File "(?:.*/)?(workflow/scripts/[^"]+)", line (\d+)', line) for line in lines]
    return next((f" ({frame[1]}, line {frame[2]})" for frame in reversed(frames) if frame), "")


def short_line(state: State, known: dict[str, float], now: float | None = None) -> str:
    """One line: jobs done, running, time left, and what the training that runs longest says of itself."""
    now = time.time() if now is None else now
    left, unknown = seconds_left(state, known, now)
    words = f"{state.jobs_done} of {state.jobs} jobs, {len(state.running)} running"
    heavy = [rule for rule in unknown if stage_of(rule) in ("pre-training", "fine-tuning", "evaluation", "cleaning")]
    if unknown and not left:
        words += f", {time_words(now - state.started)} so far"
    else:
        words += f", {'at least ' if heavy else 'about '}{time_words(left)} left"
    if state.failed:
        words += f", {len(state.failed)} FAILED"
    trains = [job for job in state.running.values() if stage_of(job.rule) in ("pre-training", "fine-tuning")]
    shown = sorted(trains or state.running.values(), key=lambda job: job.started)[:1]
    for job in shown:
        said = last_line(job.log[0]) if job.log and job in trains else ""
        words += f"; {job.name}" + (f": {said}" if said else "")
    return words
