"""How often Snakemake looks for jobs that can begin: at each job's end, and once in a while besides."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.scheduling.job_scheduler import JobScheduler


def look_again_once(scheduler: JobScheduler) -> None:
    """Snakemake (9.27) sets a timer at each look, and when that rings it looks again and sets the next. So each job
    that ends adds one for good: after a thousand jobs it looks a thousand times in the span of --max-jobs-per-timespan,
    each time at every input of every job that could begin, and at its end it waits for all timers. One that rings at
    the next full second is enough for all: none rings early, when the limit of jobs in the span would still hold."""
    awaited: set[int] = set()

    def look(second: int) -> None:
        awaited.discard(second)
        scheduler._open_jobs.release()

    def later(seconds: float) -> None:
        now = time.monotonic()
        second = math.ceil(now + seconds)
        if second not in awaited:
            awaited.add(second)
            timer = threading.Timer(second - now, look, [second])
            timer.daemon = True  # nobody waits for it at the end
            timer.start()

    scheduler._schedule_reevalutation = later
