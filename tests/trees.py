"""A copy of the repository, its files, and Snakemake in it."""

import csv
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import ready


@cache
def tracked(repository: Path) -> list[str]:
    """Files of the repository: tracked ones, and new ones that git would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (repository / name).is_file()]


def copy_tree(repository: Path, to: Path, own_reference: bool = True) -> Path:
    """With own_reference=False its reference/ is the repository's, to be read alone: most of all files are there."""
    for name in tracked(repository):
        if not own_reference and name.startswith("reference/"):
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(repository / name, to / name)
    if not own_reference:
        (to / "reference").symlink_to(repository.resolve() / "reference", target_is_directory=True)
    return to


def snakemake(tree: Path, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess:
    """The rules call `python`: the one that runs the tests, with what it imports read before (ready.py). To read it
    in an environment of its own for one plan does not pay."""
    start = {name: value for name, value in environment.items() if name in ("PYTHONHASHSEED", "PYTHONPATH")}
    once = start and "--dry-run" in arguments
    folders = (*([] if once else [str(ready.commands(**start))]), str(Path(sys.executable).parent), os.environ["PATH"])
    # All of Snakemake's own words: those of the profile are tested in test_daily.py. The rest is the profile's.
    own = ["--workflow-profile", "none", "--scheduler", "greedy"]
    done = subprocess.run(
        ["python", "-m", "snakemake", *own, *arguments],
        cwd=tree,
        env={**os.environ, "PATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def planned(
    tree: Path, *arguments: str, scale: str = "smoke", settings: tuple[str, ...] = (), **environment: str
) -> dict[str, int]:
    """Rule -> number of jobs that a dry-run plans, without the target rule."""
    done = snakemake(tree, "--dry-run", "--config", f"scale={scale}", *settings, "--", *arguments, **environment)
    text = done.stdout + done.stderr
    if "Nothing to be done" in text:
        return {}
    table = re.search(r"^job +count\n-[- ]+\n(.*?)^total", text, re.MULTILINE | re.DOTALL)
    assert table, text[-2000:]
    counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table.group(1), re.MULTILINE)}
    counts.pop("tables", None)
    return counts


def edit(tree: Path, file: str, old: str, new: str) -> None:
    path = tree / file
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{file} no longer holds {old!r}: mend this test"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rule_blocks(repository: Path) -> dict[str, str]:
    blocks = {}
    for path in sorted((repository / "workflow/rules").glob("*.smk")):
        for block in re.split(r"^(?=rule )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            blocks[re.match(r"rule (\w+):", block).group(1)] = block
    return blocks


def under_slurm(*arguments: str, seconds: float = 120, **environment: str) -> tuple[list[str], dict]:
    """Command and environment of snakemake --profile slurm, with the Python that runs the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SBATCH", "SLURM", "SNAKEMAKE"))}
    own |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"} | environment
    first, _, rest = own["PATH"].partition(os.pathsep)  # the stand-ins, or the cluster's
    own["PATH"] = os.pathsep.join((first, str(Path(sys.executable).parent), rest))
    # SIGTERM alone may not end Snakemake while it waits for Slurm
    command = ["timeout", "--kill-after=5", str(seconds), sys.executable, "-m", "snakemake", "--profile", "slurm"]
    return [*command, "--slurm-init-seconds-before-status-checks", "1", *arguments], own
