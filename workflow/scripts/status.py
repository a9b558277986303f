"""What the run under way is doing, or how the last one ended; from any terminal, in the folder of the repository.

    make status
    python workflow/scripts/status.py

Jobs done, running and failed, the time left from this machine's benchmark files and from the jobs that ended in this
run, and the last words of each running job: step and losses, where it trains. On a cluster a job counts as running as
soon as it is submitted.
"""

import argparse
import os
import socket
import time
from pathlib import Path

from common.errors import UserError, run_main
from watch.events import (
    EVENTS,
    State,
    benchmarked,
    by_stage,
    cause,
    last_line,
    read_state,
    seconds_left,
    time_words,
)

LOCKS = Path(".snakemake/locks")
MOST = 12  # running jobs that are shown


def alive(state: State) -> bool:
    """Does the Snakemake that wrote the events still run? Of another machine nobody here knows, so: yes."""
    if state.host != socket.gethostname():
        return True
    try:
        os.kill(state.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def locked() -> bool:
    """Did a Snakemake that was killed leave its lock?"""
    return any(LOCKS.glob("*.lock"))


def heading(state: State, going: bool, now: float) -> str:
    words = f"Scale {state.scale}: {state.jobs_done:,} of {state.jobs:,} jobs done"
    if not going:
        if state.ended == "done":
            shown = "results/index.html (make open)" if "make_site" in state.totals else f"results/{state.scale}/"
            return f"{words}; it is finished. Open: {shown}."
        how = "it failed" if state.ended == "failed" else "it was stopped"
        unlock = ", after `make unlock`," if locked() else ""
        return f"{words}; {how}. Nothing runs now; the same command again{unlock} goes on from there."
    left, unknown = seconds_left(state, benchmarked(state.scale, state.totals), now)
    words += f", {len(state.running):,} running, for {time_words(now - state.started)}; {time_words(left)} left"
    return words + (f", and the time of {', '.join(unknown)}, which nobody has measured here yet" if unknown else "")


def lines(state: State, now: float) -> list[str]:
    going = not state.ended and alive(state)
    shown = [heading(state, going, now)]
    at_work: dict[str, int] = {}
    for job in state.running.values() if going else ():
        at_work[job.rule] = at_work.get(job.rule, 0) + 1
    for stage, rules in by_stage(state.totals).items():
        done = sum(state.done.get(rule, 0) for rule in rules)
        own = [
            f"{rule} {state.done.get(rule, 0):,}/{count:,}" + (f" ({at_work[rule]} running)" if rule in at_work else "")
            for rule, count in rules.items()
        ]
        shown.append(f"  {stage:<18} {done:>6,}/{sum(rules.values()):<6,}  {', '.join(own)}")
    for job in sorted(state.running.values() if going else [], key=lambda job: job.started)[:MOST]:
        said = last_line(job.log[0]) if job.log else ""
        shown.append(f"  running for {time_words(now - job.started)}: {job.name}" + (f"\n    {said}" if said else ""))
    for job in state.failed:
        shown.append(f"  FAILED: {job.name}\n    {cause(job)}\n    all that it said: {', '.join(job.log)}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=Path, default=EVENTS, help=f"the file of events (default: {EVENTS})")
    arguments = parser.parse_args()
    if not arguments.events.exists():
        raise UserError(f"{arguments.events}: no such file; nothing has run here yet: make")
    state = read_state(arguments.events)
    if not state.scale:
        raise UserError(f"{arguments.events}: holds no event of a run yet; the default is {EVENTS}")
    print("\n".join(lines(state, time.time())))


if __name__ == "__main__":
    run_main(main)
