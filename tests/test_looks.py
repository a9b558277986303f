"""How often Snakemake looks for jobs: not more often the more jobs have ended, and to its end without waiting."""

import time
from functools import partial
from types import SimpleNamespace

import pytest

import ready
from beside import module_at
from watch.looks import look_again_once


@pytest.fixture(scope="module")
def looks(repository):
    return partial(module_at(repository / "benchmarks/looks.py").looks, jobs=20, python=ready.python())


def test_each_job_that_ends_adds_no_look(looks, tmp_path):
    began = time.time()
    once = looks(tmp_path / "once", seconds=0.1)
    assert 20 <= once <= 23 + time.time() - began
    without = looks(tmp_path / "without", seconds=0.1, once=False)
    assert without > 1.3 * once, "Snakemake has mended it: delete watch/looks.py"


def test_each_look_is_followed_by_one_when_its_span_is_over():
    """Not before: the jobs that it began would still count, and it would take another span."""
    span, asked, looked = 0.5, [], []
    scheduler = SimpleNamespace(_open_jobs=SimpleNamespace(release=lambda: looked.append(time.monotonic())))
    look_again_once(scheduler)
    for _ in range(20):
        asked.append(time.monotonic())
        scheduler._schedule_reevalutation(span)
        time.sleep(0.1)
    time.sleep(span + 1.5)
    assert all(any(span <= look - one < span + 1.5 for look in looked) for one in asked)
    assert len(looked) <= 5


def test_a_limit_of_jobs_in_a_span_still_holds_and_all_are_run(looks, tmp_path):
    began = time.time()
    looks(tmp_path / "few", seconds=0.02, span="8/1s")
    assert time.time() - began > 2  # 8 at once, 8 a second later, and the last 4


def test_nobody_waits_for_the_next_look(looks, tmp_path):
    looks(tmp_path / "end", seconds=0.02, span="50/30s")
    last = max(path.stat().st_mtime for path in (tmp_path / "end").glob("*.done"))
    assert time.time() - last < 20
