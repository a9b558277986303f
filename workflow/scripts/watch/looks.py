"""How often Snakemake looks for jobs that can begin: at each job's end, and once in a while besides."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.scheduling.job_scheduler import JobScheduler


def look_again_once(scheduler: JobScheduler) -> None:
    """Snakemake (9.27) sets a timer at each look, and when that rings it looks again and sets the next. So each job
    that ends adds one for good: after a thousand jobs it looks a thousand times in the span of --max-jobs-per-timespan,
    each time at every input of every job that could begin, and at its end it waits for all timers. One is enough."""
    waiting = False

    def look() -> None:
        nonlocal waiting
        waiting = False
        scheduler._open_jobs.release()

    def later(seconds: float) -> None:
        nonlocal waiting
        if not waiting:
            waiting = True
            timer = threading.Timer(seconds, look)
            timer.daemon = True  # nobody waits for it at the end
            timer.start()

    scheduler._schedule_reevalutation = later
