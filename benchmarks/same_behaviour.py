"""Write down what a move of code may not change; `diff -r` of two such folders, of two commits, says what it changed.

hashes.tsv: of every run at every scale. jobs-<scale>.txt: every job of every target, with its files, its resources and
its command. made.tsv: the digest of every table, figure and page made of the reference scores. losses.jsonl: of one
tiny training with a fixed seed, with all that is before it.

    git clone . /tmp/clone && cd /tmp/clone    # the same path for both commits: it stands in some commands
    git checkout <commit> && git clean -fdxq && python benchmarks/same_behaviour.py /tmp/<commit>
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow/scripts"))

from plan.load import load_config  # noqa: E402
from plan.runs import hash_of  # noqa: E402

SCALES = ("smoke", "mini", "paper")  # of whose jobs a list is made
TARGETS = ("tables", "data", "models", "scores", "training", "formats", "exports", "results/index.html")
TRAINING = "results/smoke/runs/xlm/seed-1/train.jsonl"
MADE = ("tables/**/*", "figures/**/*", "*.html", "*/*.json", "*/scores.tsv")
RULE = re.compile(r"^(?=(?:local)?rule )", re.MULTILINE)
OF_A_JOB = re.compile(
    r"(local)?rule |    (input|output|wildcards|threads|resources): | *(export|python|bash|torchrun|srun) "
)


def snakemake(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "none", "--cores", "1", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def hashes() -> list[str]:
    lines = []
    for path in sorted((REPOSITORY / "config/scales").glob("*.yaml")):
        config = load_config(REPOSITORY, {"scale": path.stem})
        lines += [f"{path.stem}\t{run}\t{hash_of(config, run)}" for run in sorted(config.runs)]
    return lines


def jobs(scale: str) -> list[str]:
    """One line for each job, in the order of the alphabet."""
    text = snakemake("--dry-run", "--forceall", "--printshellcmds", "--config", f"scale={scale}", "--", *TARGETS)
    blocks = RULE.split(text)[1:]
    return sorted(" | ".join(line.strip() for line in block.splitlines() if OF_A_JOB.match(line)) for block in blocks)


def made() -> list[str]:
    snakemake("--config", "scores_from=reference", "--", "tables", "results/index.html")
    results = REPOSITORY / "results"
    paths = sorted({path for pattern in MADE for path in results.glob(pattern) if path.is_file()})
    return [f"{path.relative_to(results)}\t{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths]


def losses() -> list[str]:
    snakemake("--config", "scale=smoke", "--", TRAINING)
    rows = map(json.loads, (REPOSITORY / TRAINING).read_text(encoding="utf-8").splitlines())
    return [json.dumps({key: row[key] for key in row if key == "step" or key.endswith("/loss")}) for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="is made, and lies outside of the repository")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found = {"hashes.tsv": hashes(), **{f"jobs-{scale}.txt": jobs(scale) for scale in SCALES}}
    found |= {"made.tsv": made(), "losses.jsonl": losses()}
    for name, lines in found.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
