"""The bill first: what the jobs that Snakemake would run now cost, before the first of them starts.

    make plan CONFIG="scale=paper" MACHINE=h200
    python workflow/scripts/bill.py --config scale=paper --machine h200 --csv plan.csv -- results/tables/all.tex

Prints tokens, FLOPs, GPU-hours, disk, network and memory by rule and by run, what is on the critical path, and in a
few lines what a person should know; --csv writes a line for each job. What is done is not in it: Snakemake says what
that is.

The rate is --flops-per-second (of one device), or that of --machine (config/machines.yaml: its peak times an assumed
utilisation), or, with neither, what the finished trainings of this scale reached; where there are none, the default of
config/machines.yaml (an H100, or one CPU core). What a number rests on stands in the CSV, column basis; what is
assumed, in config/machines.yaml.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from billing import jobs as graph
from billing.jobs import settings_of
from common.atomic import write_text
from common.columns import lined_up
from common.errors import UserError, run_main
from common.yamlfiles import read_yaml
from plan.config import Config
from plan.kept import kept_config

if TYPE_CHECKING:
    from billing.machines import Rate
    from billing.pricing import Bill

TARGET = "results/tables/all.tex"
PROFILE = Path("slurm/config.v8+.yaml")
SHOWN = 12  # runs and jobs of the critical path that are printed
DAY = 86400.0
NO_LIMIT = 10**9


# ---------------------------------------------------------------------------------------------------------------------
# Numbers for a person


def short(value: float, digits: int = 3) -> str:
    """1.23e21 of something, or 1,234."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def size_words(value: float) -> str:
    for unit, power in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= power:
            return f"{value / power:.{0 if value >= 100 * power else 1}f} {unit}"
    return f"{value:.0f} B" if value else "0"


def number_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def time_words(seconds: float) -> str:
    for unit, length in (("years", 365.25 * DAY), ("days", DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length or (unit == "min" and seconds >= 60):
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.0f} s"


def hours_words(hours: float) -> str:
    return f"{hours:,.1f}" if 0 < hours < 100 else f"{hours:,.0f}"


# ---------------------------------------------------------------------------------------------------------------------
# Sums


@dataclass
class Sum:
    jobs: int = 0
    tokens: float = 0.0
    flops: float = 0.0
    device_hours: float = 0.0
    core_hours: float = 0.0
    disk: float = 0.0
    network: float = 0.0

    def add(self, bill: Bill) -> None:
        self.jobs += 1
        for key in ("tokens", "flops", "device_hours", "core_hours", "disk", "network"):
            setattr(self, key, getattr(self, key) + getattr(bill, key))

    def cells(self) -> list[str]:
        hours = [hours_words(hours) for hours in (self.device_hours, self.core_hours)]
        return [
            f"{self.jobs:,}",
            short(self.tokens),
            short(self.flops),
            *hours,
            size_words(self.disk),
            size_words(self.network),
        ]


HEADING = ["jobs", "tokens", "FLOPs", "GPU-hours", "core-hours", "disk", "network"]


def sums(bills: Iterable, key: Callable) -> dict[str, Sum]:
    """By key, the most expensive first."""
    found: dict[str, Sum] = {}
    for bill in bills:
        found.setdefault(key(bill), Sum()).add(bill)
    return dict(
        sorted(found.items(), key=lambda item: (-item[1].device_hours, -item[1].core_hours, -item[1].network, item[0]))
    )


def table(title: str, found: dict[str, Sum], most: int | None = None) -> str:
    shown = list(found.items())[:most]
    rows = [[title, *HEADING], *([name, *own.cells()] for name, own in shown)]
    if len(found) > len(shown):
        rest = Sum()
        for own in list(found.values())[most:]:
            for field in vars(rest):
                setattr(rest, field, getattr(rest, field) + getattr(own, field))
        rows.append([f"{len(found) - len(shown)} more", *rest.cells()])
    return lined_up(rows)


# ---------------------------------------------------------------------------------------------------------------------
# The whole bill


COLUMNS = (
    "job", "rule", "run", "task", "setting", "seed", "wildcards", "tokens", "flops", "gpus", "threads", "seconds",
    "gpu_hours", "core_hours", "disk_bytes", "scratch_bytes", "network_bytes", "device_memory_bytes", "device_bytes",
    "fits", "critical", "after", "precision", "basis", "advice",
)  # fmt: skip


def as_csv(bills: Sequence[Bill], critical: Iterable[int]) -> str:
    """One line a job; `after` are the jobs that it waits for."""
    on_path = set(critical)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for bill in bills:
        job, names = bill.job, bill.job.wildcards
        own = [names.get(key, "") for key in ("run", "task", "setting", "seed")]
        rest = " ".join(
            f"{key}={value}" for key, value in sorted(names.items()) if key not in ("run", "task", "setting", "seed")
        )
        numbers = [
            bill.tokens, bill.flops, bill.devices, job.threads, bill.seconds, bill.device_hours, bill.core_hours,
            bill.disk, bill.scratch, bill.network, bill.memory, bill.room,
        ]  # fmt: skip
        fits = "" if not bill.memory else "no" if bill.memory > bill.room else "yes"
        writer.writerow([
            job.number, job.rule, *own, rest, *(f"{number:.10g}" for number in numbers), fits,
            "yes" if job.number in on_path else "", " ".join(map(str, job.after)), bill.precision, bill.basis,
            bill.advice,
        ])  # fmt: skip
    return out.getvalue()


@dataclass(frozen=True)
class Limits:
    """What runs at once."""

    jobs: int
    gpus: int | None
    downloads: int
    retries: int
    cores: int | None = None  # of one machine; None: the jobs are a cluster's

    def of(self) -> dict[str, float]:
        jobs, cores = (self.jobs, NO_LIMIT) if self.cores is None else (NO_LIMIT, self.cores)
        gpus = NO_LIMIT if self.gpus is None else self.gpus
        return {"jobs": jobs, "cores": cores, "downloads": self.downloads, "gpus": gpus}

    def words(self) -> str:
        if self.cores is None:
            return f"with at most {number_of(self.jobs, 'job')}"
        return f"on {number_of(self.cores, 'core')}"


def read_limits(profile: Path, jobs: int | None, gpus: int | None, cores: int | None = None) -> Limits:
    """Of the profile, and of the command line."""
    content = (read_yaml(profile) or {}) if profile.exists() else {}
    for name, value in (("jobs", jobs), ("gpus", gpus), ("cores", cores)):
        if value is not None and value < 1:
            raise UserError(f"--{name}: {value}, and nothing would run; give at least 1")
    downloads = re.search(r"downloads=(\d+)", str(content.get("resources", "")))
    return Limits(
        jobs if jobs is not None else int(content.get("jobs", 100)),
        gpus,
        int(downloads[1]) if downloads else 4,
        int(content.get("retries", 0)),
        cores,
    )


def for_plan(limits: Limits, bills: Sequence[Bill], jobs: int | None) -> Limits:
    """A plan without GPUs runs on this machine's cores, as plain `make` runs it, where nothing else is asked for."""
    if jobs is not None or limits.cores is not None or any(bill.devices for bill in bills):
        return limits
    return dataclasses.replace(limits, cores=os.cpu_count())


def wall_time(bills: Sequence[Bill], limits: Limits) -> tuple[float, int]:
    """Seconds until all is done, and the most GPUs that are at work at a time."""

    def uses(i: int) -> dict[str, float]:
        own = {"jobs": 1.0}
        if limits.cores is not None:  # Snakemake gives a job no more threads than there are cores
            own["cores"] = float(min(bills[i].job.threads, limits.cores))
        if bills[i].job.rule == "download":
            own["downloads"] = 1.0
        return own | ({"gpus": float(bills[i].devices)} if bills[i].devices else {})

    if limits.gpus is not None and (most := max((bill.devices for bill in bills), default=0)) > limits.gpus:
        raise UserError(
            f"--gpus: {limits.gpus}, but one job takes {most}; give at least as many, or shrink `resources`"
        )
    after, seconds = [bill.job.after for bill in bills], [bill.seconds for bill in bills]
    wall, most = graph.wall_time(after, seconds, limits.of(), uses)
    return wall, round(most["gpus"])


def beyond_limits(bills: Sequence[Bill], limits: Limits) -> list[str]:
    """What would be killed: jobs that cannot end in their time, however often they are submitted again."""
    from billing.pricing import RESUMES

    lines = []
    for rule in sorted({bill.job.rule for bill in bills}):
        own = [bill for bill in bills if bill.job.rule == rule and bill.job.runtime]
        times = [(bill.seconds / 60 / bill.job.runtime, bill) for bill in own]
        if rule in RESUMES:
            late = [(parts, bill) for parts, bill in times if parts > limits.retries + 1]
            if late:
                parts, bill = max(late, key=lambda one: one[0])
                lines.append(
                    f"{len(late)} jobs of {rule} need more than the profile's {limits.retries + 1} submissions of "
                    f"{bill.job.runtime / 60:g} h each ({bill.job.name}: {math.ceil(parts):,}); raise `retries`, "
                    "runtime or GPUs"
                )
        else:
            late = [(parts, bill) for parts, bill in times if parts > 1]
            if late:
                parts, bill = max(late, key=lambda one: one[0])
                lines.append(
                    f"{len(late)} jobs of {rule} need more than their runtime of {bill.job.runtime / 60:g} h and do "
                    f"not resume "
                    f"({bill.job.name}: {time_words(bill.seconds)}); raise resources.{rule}.runtime of the scale"
                )
    return lines


def unfit(bills: Sequence[Bill]) -> list[str]:
    """One line for each run or recipe that does not fit its device."""
    lines: dict[tuple, tuple] = {}
    for bill in bills:
        if bill.memory > bill.room:
            key = (bill.job.rule, bill.job.wildcards.get("run") if bill.job.rule == "pretrain" else "", bill.advice)
            count, most = lines.get(key, (0, bill))
            lines[key] = (count + 1, max(most, bill, key=lambda own: own.memory))
    return [
        f"{count} x {most.job.rule} {most.job.wildcards.get('run', '')}: {size_words(most.memory)} of "
        f"{size_words(most.room)}; {most.advice}"
        for (_, _, _), (count, most) in sorted(lines.items(), key=lambda item: -item[1][1].memory)
    ]


def summary(
    bills: Sequence[Bill], done: int, config: Config, rate: Rate, critical: Sequence[int], limits: Limits
) -> list[str]:
    """What a person acts on."""
    from billing.pricing import RESUMES

    total, (wall, gpus) = total_of(bills), wall_time(bills, limits)
    hours = f"{hours_words(total.device_hours)} GPU-hours and " if any(bill.devices for bill in bills) else ""
    slow = sum(bill.device_hours for bill in bills if bill.precision == "fp32" and bill.job.rule in RESUMES)
    unknown = sum("size unknown" in bill.basis for bill in bills)
    lines = [
        f"Scale {config.scale_name}: {len(bills):,} jobs to run, {done:,} done. {short(total.flops)} FLOPs on "
        f"{short(total.tokens)} tokens: {hours}{hours_words(total.core_hours)} core-hours.",
        f"Rate: {rate.words}.",
    ]
    if slow and slow >= 0.01 * total.device_hours:
        lines[1] += f" {slow / total.device_hours:.0%} of the GPU-hours compute in fp32, for want of `precision: bf16`."
    lines.append(
        f"Time: {time_words(sum(bills[i].seconds for i in critical))} on the critical path, however much runs at once; "
        f"{time_words(wall)} {limits.words()}"
        + (
            f" and {limits.gpus:,} GPUs at once."
            if limits.gpus
            else f" at once, on up to {gpus:,} GPUs."
            if gpus
            else "."
        )
        + ("" if limits.cores else " Without waiting in queues;" if gpus else " Without waiting in queues.")
        + (" 64 GPUs are taken for 64 times one." if gpus else "")
    )
    lines.append(
        f"Disk: {size_words(total.disk)} stay, and up to {size_words(largest_scratch(bills, limits))} come and go with "
        f"checkpoints and the search of duplicates. Network: {size_words(total.network)}"
        + (f"; the sizes of {unknown} files are published nowhere, and assumed." if unknown else ".")
    )
    if misfits := sum(bill.memory > bill.room for bill in bills):
        lines.append(f"Memory: {misfits} jobs do not fit their device; what to change stands above.")
    elif any(bill.memory for bill in bills):
        most = max(bills, key=lambda bill: bill.memory / bill.room if bill.room else 0)
        words = f"{size_words(most.memory)} of {size_words(most.room)}"
        lines.append(f"Memory: all fit; the fullest is {most.job.name}, {words}.")
    trainings = [bill for bill in bills if bill.job.rule in ("pretrain", "train_translator") and bill.flops]
    if trainings:
        sampled = sum("sampled" in bill.basis for bill in trainings)
        assumed = len(trainings) - sampled
        kinds = [f"{sampled} from samples of their shards"] if sampled else []
        kinds += [f"{assumed} from made-up text, as they have no shards yet"] if assumed else []
        lines.append(
            f"Trust: FLOPs of {number_of(len(trainings), 'training')} are counted, {' and '.join(kinds)}; all else "
            "rests on recipes and on what config/machines.yaml assumes (the CSV says it job by job)."
        )
    return lines


def largest_scratch(bills: Sequence[Bill], limits: Limits) -> float:
    """Of the jobs that may run at once."""
    return sum(sorted((bill.scratch for bill in bills), reverse=True)[: limits.cores or limits.jobs])


def critical_lines(bills: Sequence[Bill], critical: Sequence[int]) -> str:
    """The jobs of the critical path that take longest, in their order."""
    longest = set(sorted(critical, key=lambda i: -bills[i].seconds)[:SHOWN])
    rows = [["critical path", "time", "GPUs"]]
    rows += [
        [bills[i].job.name, time_words(bills[i].seconds), str(bills[i].devices or "")] for i in critical if i in longest
    ]
    if len(critical) > len(longest):
        rest = sum(bills[i].seconds for i in critical if i not in longest)
        rows.append([f"{len(critical) - len(longest)} more", time_words(rest), ""])
    return lined_up(rows)


def report(bills: Sequence[Bill], done: int, config: Config, rate: Rate, limits: Limits) -> tuple[str, list[int]]:
    """All that is printed, and the critical path."""
    if not bills:
        return f"Nothing to be done: all {done:,} jobs are.\n", []
    critical = graph.critical_path([bill.job.after for bill in bills], [bill.seconds for bill in bills])
    parts = [table("rule", sums(bills, lambda bill: bill.job.rule) | {"total": total_of(bills)})]
    of_runs = [bill for bill in bills if "run" in bill.job.wildcards]
    if of_runs:
        parts.append(table("run", sums(of_runs, lambda bill: bill.job.wildcards["run"]), SHOWN))
    trainings = sorted((bill for bill in bills if bill.memory and bill.job.rule in ("pretrain", "train_translator")),
                       key=lambda bill: (-bill.flops, bill.job.number))  # fmt: skip
    if trainings:
        rows = [["training", "FLOPs", "time", "GPUs", "memory", "of"]]
        rows += [
            [bill.job.name, short(bill.flops), time_words(bill.seconds), str(bill.devices or ""),
             size_words(bill.memory), size_words(bill.room) + (" !" if bill.memory > bill.room else "")]
            for bill in trainings[:SHOWN]
        ]  # fmt: skip
        parts.append(lined_up(rows))
    parts.append(critical_lines(bills, critical))
    warnings = [*(f"does not fit: {line}" for line in unfit(bills)), *beyond_limits(bills, limits)]
    if warnings:
        parts.append("\n".join(f"! {line}" for line in warnings))
    parts.append("\n".join(summary(bills, done, config, rate, critical, limits)))
    return "\n\n".join(parts) + "\n", critical


def total_of(bills: Iterable) -> Sum:
    total = Sum()
    for bill in bills:
        total.add(bill)
    return total


def main() -> None:
    args = parse_arguments()
    limits = read_limits(PROFILE, args.jobs, args.gpus, args.cores)
    with ProcessPoolExecutor(1) as other, tempfile.TemporaryDirectory() as folder:
        asked = other.submit(graph.planned_jobs, args.config, args.targets)  # Snakemake's graph, and here torch
        import torch

        from billing.machines import choose_rate, load_machines
        from billing.pricing import Pricing

        torch.set_num_threads(1)  # its tensors are small: a second thread would only be waited for
        config, machines = kept_config(".", settings_of(args.config)), load_machines(Path("."))
        rate = choose_rate(config, machines, args.machine, args.utilisation, args.flops_per_second)
        pricing = Pricing(config, machines, rate, Path(folder))
        pricing.get_ready(enough=asked.done)
        found, done = asked.result()
        bills = pricing.bill(found)

    limits = for_plan(limits, bills, args.jobs)
    text, critical = report(bills, done, config, rate, limits)
    if args.csv:
        write_text(args.csv, as_csv(bills, critical))
    print(text, end="")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[TARGET], help=f"as Snakemake's (default: {TARGET})")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as Snakemake's: scale=paper")
    parser.add_argument("--machine", help="a key of config/machines.yaml, such as a100, h100, h200")
    parser.add_argument("--utilisation", type=float, help="share of the machine's peak, in place of the assumed one")
    parser.add_argument("--flops-per-second", type=float, help="of one device, in a training: your own")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--jobs", type=int, help="at once on a cluster (default: the profile's)")
    limit.add_argument("--cores", type=int, help="of one machine (default: this one's, where no job takes a GPU)")
    parser.add_argument("--gpus", type=int, help="at once (default: no limit)")
    parser.add_argument("--csv", type=Path, help="write a line for each job")
    return parser.parse_args()


if __name__ == "__main__":
    run_main(main)
