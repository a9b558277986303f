"""How often Snakemake looks for jobs that can begin, and what that takes, as it is and with watch/looks.py:

    python benchmarks/looks.py --jobs 400

The jobs do nothing for a while, and each reads four files: those that wait are looked at each time. Seconds are of a
core, of Snakemake and its jobs together; the jobs are the same both times.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow" / "scripts"
SNAKEFILE = """
import sys
sys.path.insert(0, {scripts!r})
from watch.looks import look_again_once

rule all:
    input: expand("{{n}}.done", n=range({jobs}))

rule one:
    input: expand("{{i}}.txt", i=range(4))
    output: "{{n}}.done"
    shell: "sleep {seconds}; touch {{output}}"
"""
HOOK = """
onstart:
    look_again_once(workflow.scheduler)
"""


def looks(
    folder: Path,
    jobs: int,
    seconds: float,
    cores: int = 1,
    once: bool = True,
    span: str = "100/1s",
    python: str = sys.executable,
) -> int:
    """Run so many jobs; how often Snakemake looked for them."""
    folder.mkdir()
    snakefile = SNAKEFILE.format(scripts=str(SCRIPTS), jobs=jobs, seconds=seconds) + (HOOK if once else "")
    (folder / "Snakefile").write_text(snakefile, encoding="utf-8")
    for i in range(4):
        (folder / f"{i}.txt").touch()
    words = ["--cores", str(cores), "--scheduler", "greedy", "--verbose", "--max-jobs-per-timespan", span]
    done = subprocess.run([python, "-m", "snakemake", *words], cwd=folder, capture_output=True, text=True, check=True)
    assert len(list(folder.glob("*.done"))) == jobs
    return (done.stdout + done.stderr).count("Ready jobs: ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="that each takes (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=2, help="(default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for once, name in ((False, "Snakemake as it is"), (True, "with watch/looks.py")):
            began, before = time.time(), os.times()
            found = looks(Path(folder) / str(once), arguments.jobs, arguments.seconds, arguments.cores, once)
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            print(f"{name}: {found} looks, {used:.1f} s of a core, {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
