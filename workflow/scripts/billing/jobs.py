"""The jobs that Snakemake would run now, who waits for whom, and how long that takes.

Snakemake itself is asked, in this process: its graph knows what is done, what is out of date and what was interrupted.
A dry-run knows the same, but spends a third of its time on printing.
"""

from __future__ import annotations

import gc
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import UserError

if TYPE_CHECKING:
    from snakemake import jobs as snakemake_jobs
    from snakemake.dag import DAG


@dataclass(frozen=True)
class Job:
    number: int
    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]
    threads: int
    runtime: float  # minutes that its rule gives it; 0: no limit
    after: tuple[int, ...]  # the jobs that must end before it begins

    @property
    def name(self) -> str:
        return " ".join([self.rule, *(f"{key}={value}" for key, value in sorted(self.wildcards.items()))])


def planned_jobs(
    overrides: Sequence[str], targets: Sequence[str], snakefile: str | Path = "Snakefile"
) -> tuple[list[Job], int]:
    """The jobs to be run for these targets, numbered so that none comes before what it waits for; and how many more are
    done. `overrides` are those of the command line, key=value."""
    collecting = gc.isenabled()
    gc.disable()  # nothing here becomes garbage before the end, and looking for it would take a tenth of the time
    try:
        graph = planned_graph(overrides, targets, Path(snakefile))
        needed = _in_order(graph)
        number = {job: i for i, job in enumerate(needed)}
        jobs = [
            Job(
                number[job],
                job.rule.name,
                {key: value for key, value in job.wildcards_dict.items() if key != "scale"},
                tuple(map(str, job.output)),
                job.threads,
                _runtime(job),
                tuple(sorted(number[other] for other in graph.dependencies[job] if other in number)),
            )
            for job in needed
        ]
        return jobs, sum(1 for _ in graph.jobs) - len(needed)
    finally:
        if collecting:
            gc.enable()


def planned_graph(overrides: Sequence[str], targets: Sequence[str], snakefile: Path) -> DAG:
    from snakemake.api import SnakemakeApi
    from snakemake.exceptions import MissingRuleException, RuleException, WorkflowError
    from snakemake.settings.types import (
        ConfigSettings,
        DAGSettings,
        OutputSettings,
        Quietness,
        ResourceSettings,
        StorageSettings,
    )

    config = settings_of(overrides)
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            opened = api.workflow(
                resource_settings=ResourceSettings(cores=10**6),  # a job's threads are cut down to these
                config_settings=ConfigSettings(config=config),
                storage_settings=StorageSettings(),
                snakefile=snakefile,
            )
            # as `make` and the profile run it: what an interrupted job left is made again
            opened.dag(DAGSettings(targets=set(targets), force_incomplete=True))
            workflow = opened._workflow
            workflow._prepare_dag(forceall=False, ignore_incomplete=False, lock_warn_only=True, nolock=True)
            workflow._build_dag()
            return workflow.dag
    except MissingRuleException as error:
        raise UserError(f"target {' '.join(targets)}: {_one_line(error)}; `snakemake --list` names targets") from None
    except (WorkflowError, RuleException) as error:
        raise UserError(_one_line(error)) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


def _in_order(graph: DAG) -> list[snakemake_jobs.Job]:
    needed = set(graph.needrun_jobs())
    waits = {job: {other for other in graph.dependencies[job] if other in needed} for job in needed}
    order = sorted(needed, key=lambda job: (job.rule.name, [*map(str, job.output)]))
    place = {job: i for i, job in enumerate(order)}
    return [order[i] for i in in_order([[place[other] for other in waits[job]] for job in order])]


def _runtime(job: snakemake_jobs.Job) -> float:
    limit = job.resources.get("runtime", 0)
    return float(limit) if isinstance(limit, int | float) else 0.0


# ---------------------------------------------------------------------------------------------------------------------
# The graph as numbers: after[i] are the jobs that i waits for


def in_order(after: Sequence[Iterable[int]]) -> list[int]:
    """Each job after those that it waits for; of several the first."""
    left = [len(set(own)) for own in after]
    followers: list[list[int]] = [[] for _ in after]
    for i, own in enumerate(after):
        for other in set(own):
            followers[other].append(i)
    ready = [i for i, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for other in followers[i]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    if len(order) < len(left):
        raise ValueError("jobs wait for each other in a circle")
    return order


def to_the_end(after: Sequence[Iterable[int]], seconds: Sequence[float]) -> list[float]:
    """From the start of each job, the time until the last job that rests on it ends."""
    rest = [0.0] * len(after)
    for i in reversed(in_order(after)):
        rest[i] += seconds[i]
        for other in after[i]:
            rest[other] = max(rest[other], rest[i])
    return rest


def critical_path(after: Sequence[Sequence[int]], seconds: Sequence[float]) -> list[int]:
    """The jobs, each waiting for the one before, that take longest together: nothing is faster, on any machine."""
    rest = to_the_end(after, seconds)
    followers: list[list[int]] = [[] for _ in after]
    for i, own in enumerate(after):
        for other in own:
            followers[other].append(i)
    path: list[int] = []
    candidates: Sequence[int] = [i for i, own in enumerate(after) if not own]
    while candidates:
        path.append(max(candidates, key=lambda i: (rest[i], -i)))
        candidates = followers[path[-1]]
    return path


def wall_time(
    after: Sequence[Sequence[int]],
    seconds: Sequence[float],
    limits: dict[str, float],
    uses: Callable[[int], dict[str, float]],
) -> tuple[float, dict[str, float]]:
    """The seconds until the last job ends, if of the ready jobs always the one with most behind it begins, as far as
    the limits allow (`uses` says how much of which a job takes), and the most of each that was taken at a time."""
    rest = to_the_end(after, seconds)
    free, least = dict(limits), dict(limits)
    left = [len(set(own)) for own in after]
    followers: list[list[int]] = [[] for _ in after]
    for i, own in enumerate(after):
        for other in set(own):
            followers[other].append(i)
    # jobs that take the same of the limits wait in one line: only its first needs a look
    lines: dict[tuple, list[tuple[float, int]]] = {}

    def wait(i: int) -> None:
        own = tuple(sorted((key, amount) for key, amount in uses(i).items() if key in limits))
        heapq.heappush(lines.setdefault(own, []), (-rest[i], i))

    for i, count in enumerate(left):
        if not count:
            wait(i)
    now, running = 0.0, []
    while running or any(lines.values()):
        while True:
            open_lines = [
                (line[0], own)
                for own, line in lines.items()
                if line and all(free[key] >= amount for key, amount in own)
            ]
            if not open_lines:
                break
            (_, i), own = min(open_lines)
            heapq.heappop(lines[own])
            for key, amount in own:
                free[key] -= amount
                least[key] = min(least[key], free[key])
            heapq.heappush(running, (now + seconds[i], i, own))
        if not running:
            raise ValueError("a job takes more than there is")
        now, i, own = heapq.heappop(running)
        for key, amount in own:
            free[key] += amount
        for other in followers[i]:
            left[other] -= 1
            if not left[other]:
                wait(other)
    return now, {key: limits[key] - least[key] for key in limits}


def settings_of(overrides: Sequence[str]) -> dict:
    """--config as Snakemake reads it."""
    from snakemake.cli import parse_config

    try:
        return parse_config(overrides)
    except ValueError as error:
        raise UserError(f"--config: {error}") from None
