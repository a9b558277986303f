"""Kill the study without Snakemake at random moments; its scores and weights must be those of a quiet one.

    python tests/faults/kill_study.py --mirror /data/mirror --kills 12 --seed 1

Scale real in small: three languages, two sources, two runs of which the second starts where the first ended, and the
tasks that are scored soonest. The study is computed once undisturbed and once killed: some seconds after each start the
command and the script that it runs are told to end (TERM) or ended (KILL), and the same command is given again.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from kill import REPOSITORY, copy_repository, differences

SCALE = """
extends: real
name: real-small
description: scale real in small, to be killed
languages: [de, en, fr]
sources: {text: [ntrex, tico19], pairs: [ntrex, tico19]}
vocabulary: {size: 600, sentences: 20000}
decontaminate: [tatoeba]
left_out:
  bucc: &small not in the small study
  flores: *small
  tydiqa-goldp: *small
  ud-pos: *small
  wikiann-ner: *small
  word-alignment: *small
runs: [xlm-r, xlm-r-continued, ernie-m-base]
run_overrides:
  model: {layers: 2, width: 48, heads: 2, ffn: 96}
  batch: {rows: 8, device_rows: 8}
  schedule: {steps: 60, warmup_steps: 6}
  checkpoint: {every_steps: 5, keep: 2}
task_overrides:
  tatoeba:
    languages: [de, fr]
    recipe: {settings: {retrieval-fine-tuned: {steps: 20, dev_limit: 50}}}
seeds: [1]
pretrain_seeds: 1
"""
COMPARED = ("scores/**/*.json", "runs/**/model.safetensors", "finetuned/**/model.safetensors")


def make_tree(tree: Path) -> Path:
    copy_repository(tree)
    (tree / "config/scales/real-small.yaml").write_text(SCALE, encoding="utf-8")
    return tree


def start(tree: Path, mirror: Path) -> subprocess.Popen:
    command = [sys.executable, "workflow/scripts/study.py", "--scale", "real-small", "--mirror", str(mirror)]
    with open(tree / "study.log", "ab") as log:
        return subprocess.Popen(command, cwd=tree, stdout=log, stderr=log, start_new_session=True)


def end(study: subprocess.Popen, how: signal.Signals) -> None:
    """The command and the script that it runs: they are a group of their own."""
    os.killpg(study.pid, how)
    try:
        study.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(study.pid, signal.SIGKILL)
        study.wait()


def products(tree: Path) -> dict[str, bytes]:
    at = tree / "results/real-small"
    return {str(path.relative_to(at)): path.read_bytes() for glob in COMPARED for path in sorted(at.glob(glob))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, required=True, help="a folder of downloads")
    parser.add_argument("--kills", type=int, default=12, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "results/faults", help="default: results/faults")
    args = parser.parse_args()
    rng, mirror = random.Random(args.seed), args.mirror.resolve()

    quiet = make_tree(args.folder.resolve() / "quiet-study")
    begun = time.monotonic()
    if start(quiet, mirror).wait() != 0:
        raise SystemExit(f"error: the undisturbed study failed: {quiet / 'study.log'}")
    whole = time.monotonic() - begun
    print(f"undisturbed: {whole:.0f} s", flush=True)

    # A third of the pauses end while the files are read and cleaned, which takes a third of the time.
    tree, struck = make_tree(quiet.with_name("killed-study")), []
    while True:
        study = start(tree, mirror)
        if len(struck) < args.kills:
            how = rng.choice((signal.SIGKILL, signal.SIGTERM))
            try:
                study.wait(rng.uniform(2, 2 * whole / args.kills))
            except subprocess.TimeoutExpired:
                end(study, how)
                struck.append(how.name)
                continue
        if study.wait() == 0:
            break
        raise SystemExit(f"error: the study does not go on after {len(struck)} kills: {tree / 'study.log'}")
    expected = products(quiet)
    wrong = differences(products(tree), expected)
    print(f"{len(struck)} kills ({struck.count('SIGKILL')} KILL, {struck.count('SIGTERM')} TERM): ", end="")
    print(f"{len(wrong)} files differ: {', '.join(wrong[:5])}" if wrong else f"{len(expected)} files identical")
    return 1 if wrong or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
