"""How often Snakemake looks for jobs: not more often the more jobs have ended, and to its end without waiting."""

import subprocess
import time

import ready

SNAKEFILE = """
import sys
sys.path.insert(0, {scripts!r})
from watch.looks import look_again_once

JOBS, SLEEP = 20, {seconds}

rule all:
    input: expand("{{n}}.txt", n=range(JOBS))

rule one:
    output: "{{n}}.txt"
    shell: "sleep {{SLEEP}}; touch {{output}}"

{hook}
"""
HOOK = "onstart:\n    look_again_once(workflow.scheduler)\n"


def looks(folder, repository, hook: str, span: str, seconds: float = 0.02) -> tuple[int, float]:
    """How often Snakemake looked for jobs, and the seconds that it took beyond those of the last job's end."""
    folder.mkdir()
    snakefile = SNAKEFILE.format(scripts=str(repository / "workflow/scripts"), hook=hook, seconds=seconds)
    (folder / "Snakefile").write_text(snakefile, encoding="utf-8")
    words = ["--cores", "1", "--scheduler", "greedy", "--verbose", "--max-jobs-per-timespan", span]
    done = subprocess.run(
        [ready.python(), "-m", "snakemake", *words], cwd=folder, capture_output=True, text=True, check=True
    )
    last = max(path.stat().st_mtime for path in folder.glob("*.txt"))
    assert len(list(folder.glob("*.txt"))) == 20
    return (done.stdout + done.stderr).count("Ready jobs: "), time.time() - last


def test_each_job_that_ends_adds_no_look(repository, tmp_path):
    began = time.time()
    once, _ = looks(tmp_path / "once", repository, HOOK, "50/1s", 0.1)
    assert 20 <= once <= 23 + time.time() - began
    without, _ = looks(tmp_path / "without", repository, "", "50/1s", 0.1)
    assert without > 1.3 * once, "Snakemake has mended it: delete watch/looks.py"


def test_a_limit_of_jobs_in_a_span_still_holds_and_ends(repository, tmp_path):
    began = time.time()
    looks(tmp_path / "few", repository, HOOK, "8/1s")
    assert time.time() - began > 2  # 8 at once, 8 a second later, and the last 4


def test_nobody_waits_for_the_next_look(repository, tmp_path):
    assert looks(tmp_path / "end", repository, HOOK, "50/30s")[1] < 20
