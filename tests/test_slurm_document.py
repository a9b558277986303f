"""Scale smoke through a real Slurm (`make test-slurm`): its longest test, beside the trainings of test_slurm.py, which
mostly wait.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ready
from trees import copy_tree, edit, snakemake, under_slurm


@pytest.mark.slurm
def test_the_smoke_scale_becomes_a_document(cluster, repository, tmp_path):
    """The document of one paper and one method, as a person would call it; the training on two nodes of two made-up
    GPUs, evaluation on one. More papers and methods are more jobs of the same rules. Each job starts Python three
    times: forks of the process that has read its libraries (ready.py)."""
    tree = copy_tree(repository, tmp_path / "smoke")
    many, one = "{gpu: 2, nodes: 2, threads: 2}", "{gpu: 1}"
    resources = f"resources: {{pretrain: {many}, finetune: {one}, finetune_retrieval: {one}, predict: {one}}}"
    edit(tree, "config/scales/smoke.yaml", "seeds: [1]\n", f"seeds: [1]\n{resources}\n")
    edit(tree, "config/config.yaml", "papers: null", "papers: [ernie-m]")
    edit(tree, "config/scales/smoke.yaml", "runs: [random-init, xlm-r, xlm, ", "runs: [xlm]  # of [")
    wanted = ["results/tables/all.tex", *(["results/tables/all.pdf"] if shutil.which("pdflatex") else [])]
    arguments = ("--local-cores", "2", "--retries", "0", "--config", "scale=smoke", "--", *wanted)
    command, own = under_slurm(*arguments, seconds=2400, **cluster.environment)
    own["PATH"] = os.pathsep.join((str(starting_at_once(tmp_path / "bin", own)), str(ready.commands()), own["PATH"]))
    done = subprocess.run(command, cwd=tree, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert all((tree / name).stat().st_size > 4_000 for name in wanted)
    jobs = [job for job in cluster.jobs() if job["folder"] == str(tree)]
    assert {job["state"] for job in jobs} == {"COMPLETED"} and len(jobs) < 60
    assert sum(job["nodes"] == "n[1-2]" for job in jobs) == 1, "the pre-training"
    submitted = " ".join(job["comment"] for job in jobs)  # rule_<name>, and of a group with each name of its rules
    rules = ["clean_mono", "clean_bitext", "train_vocabulary", "encode_corpus", "pretrain", "finetune", "predict_score"]
    assert [rule for rule in [*rules, "finetune_retrieval"] if rule not in submitted] == []
    assert "Nothing to be done" in snakemake(tree, "--dry-run", "--config", "scale=smoke", "--", *wanted).stdout


def starting_at_once(folder: Path, environment: dict[str, str]) -> Path:
    """sbatch and srun, which put a Python that is ready in place of the one that Snakemake names by its path."""
    folder.mkdir()
    for name in ("sbatch", "srun"):
        program = shutil.which(name, path=environment["PATH"])
        own, forked = shlex.quote(sys.executable), shlex.quote(ready.python())
        text = f'own={own} forked={forked}\nexec {program} "${{@//"$own"/"$forked"}}"\n'
        (folder / name).write_text(f"#!/bin/bash\n{text}", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder
