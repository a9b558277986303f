"""The profile `slurm`: what is submitted, and that trainings on a real Slurm survive what Slurm does to them.

The first half needs no Slurm: stand-ins for its commands write down how they were called. The second half starts one
on this machine (tests/slurm/cluster.py), and is skipped where Slurm is not installed.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from test_dag import copy_tree

# sbatch writes down its arguments and hands out a number, squeue says that the job has failed: Snakemake ends at once.
STAND_INS = {
    "sbatch": 'for word in "$@"; do printf "%s\\0" "$word"; done >> "$CALLS"; printf "\\n" >> "$CALLS"; echo 1',
    "squeue": 'echo "1|FAILED"',
    "sinfo": 'echo "PARTITION"; echo "main*"',
    "scontrol": 'echo "AccountingStorageType   = $ACCOUNTING"; echo "MinJobAge = 600 sec"; echo "MaxArraySize = 1001"',
    "sacct": 'case "$*" in *--name*) echo "1|FAILED";; *) exit 1;; esac',  # 1: the plugin's guess at an account fails
    "sacctmgr": "echo lab",
    "sshare": "true",
    "scancel": "true",
}


@pytest.fixture
def stand_ins(tmp_path) -> Path:
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def profile(
    tree: Path, *arguments: str, environment: dict[str, str], seconds: float = 120
) -> subprocess.CompletedProcess:
    """snakemake --profile slurm, with the Python that runs the tests."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("SBATCH_", "SLURM_", "SNAKEMAKE_"))
    }
    own |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"} | environment
    own["PATH"] = os.pathsep.join((environment["PATH"], str(Path(sys.executable).parent), os.environ["PATH"]))
    # SIGTERM alone may not end Snakemake while it waits for Slurm
    command = ["timeout", "--kill-after=5", str(seconds), sys.executable, "-m", "snakemake", "--profile", "slurm"]
    command += ["--slurm-init-seconds-before-status-checks", "1", *arguments]
    return subprocess.run(command, cwd=tree, env=own, capture_output=True, text=True, check=False)


CLEANED = "results/paper/corpus/mono/cc-100/sw/3.clean.txt.zst"
SCORED = "results/paper/scores/xlm-r/xnli/cross-lingual-transfer/seed-2.json"
EIGHT = "results/paper/runs/ernie-m-base/seed-1/model.safetensors"
SIXTY_FOUR = "results/paper/runs/xlm-r/seed-1/model.safetensors"
RULES = {CLEANED: ["clean_mono"], SCORED: ["predict", "score"], EIGHT: ["pretrain"], SIXTY_FOUR: ["pretrain"]}


@pytest.fixture(scope="module")
def paper(repository, tmp_path_factory) -> Path:
    """The repository, with empty files for all that the jobs of the paper's scale read which are submitted here."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("paper"))
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--config", "scale=paper", "--", *RULES]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    for block in re.split(r"\n(?:local)?rule ", listed):
        if block.partition(":")[0] in {rule for rules in RULES.values() for rule in rules}:
            files = re.search(r"^    input: (.*)$", block, re.MULTILINE).group(1).split(", ")
            for name in files:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                if name not in RULES and "/predictions/" not in name and not (tree / name).exists():
                    (tree / name).touch()
    return tree


def submitted(tree: Path, stand_ins: Path, target: str, **environment: str) -> list[str]:
    """The arguments of the sbatch that makes this target, what differs from call to call taken out."""
    calls = stand_ins / "calls"
    calls.unlink(missing_ok=True)
    own = {"PATH": str(stand_ins), "CALLS": str(calls), "ACCOUNTING": "accounting_storage/none", **environment}
    arguments = ("--retries", "0", "--config", "scale=paper", "--allowed-rules", *RULES[target], "--", target)
    done = profile(tree, *arguments, environment=own)
    assert calls.exists(), done.stdout + done.stderr
    [call] = calls.read_text().splitlines()
    words = call.split("\0")[:-1]
    for option, shown in {"--job-name": "RUN", "--output": "LOG", "-D": "HERE"}.items():
        words[words.index(option) + 1] = shown
    [wrapped] = [word for word in words if word.startswith("--wrap=")]
    assert all(f"{rule}:scale=paper" in wrapped for rule in RULES[target]), wrapped
    return [word for word in words if word != wrapped]


COMMON = "--parsable --job-name RUN --output LOG --export=ALL --comment"


def test_a_cpu_job(paper, stand_ins):
    expected = f"{COMMON} rule_clean_mono_wildcards_paper_cc-100_sw_3 -p main -t 2880 --mem 8000 --requeue "
    assert submitted(paper, stand_ins, CLEANED) == shlex.split(expected + "--ntasks=1 --cpus-per-task=1 -D HERE")


def test_a_job_of_one_gpu_predicts_and_scores(paper, stand_ins):
    expected = f"{COMMON} rule_evaluate_predict_score -p main -t 150 --mem 32000 --nodes=1 --requeue --cpus-per-task=8 "
    assert submitted(paper, stand_ins, SCORED) == shlex.split(expected + "-D HERE --gpus=1")


def test_a_job_of_eight_gpus(paper, stand_ins):
    expected = f"{COMMON} rule_pretrain_wildcards_paper_ernie-m-base_1 -p main -t 1440 --mem 480000 --nodes=1 "
    expected += "--requeue --cpus-per-task=64 -D HERE --gpus=8"
    (paper / SIXTY_FOUR).parent.mkdir(parents=True, exist_ok=True)
    (paper / SIXTY_FOUR).touch()  # it continues from XLM-R
    words = submitted(paper, stand_ins, EIGHT)
    (paper / SIXTY_FOUR).unlink()
    assert words == shlex.split(expected)


def test_a_job_of_sixty_four_gpus(paper, stand_ins):
    expected = f"{COMMON} rule_pretrain_wildcards_paper_xlm-r_1 -p main -t 1440 --mem 480000 --nodes=8 "
    expected += "--requeue --ntasks=8 --cpus-per-task=64 --gpus-per-node=8 --ntasks-per-node=1 -D HERE"
    assert submitted(paper, stand_ins, SIXTY_FOUR) == shlex.split(expected)


def test_partition_and_account_of_the_environment(paper, stand_ins):
    words = submitted(paper, stand_ins, CLEANED, SBATCH_PARTITION="gpu-a100", SBATCH_ACCOUNT="lab")
    assert words[words.index("-p") + 1] == "gpu-a100" and words[words.index("-A") + 1] == "lab"


@pytest.mark.parametrize(("target", "partition"), [(CLEANED, "cpu"), (SIXTY_FOUR, "gpu")])
def test_a_file_of_partitions(paper, stand_ins, target, partition):
    (stand_ins / "partitions.yaml").write_text(
        "partitions:\n"
        "  cpu: {max_runtime: 2880, max_mem_mb: 512000, max_threads: 128, supports_mpi: false}\n"
        "  gpu: {max_runtime: 1440, max_mem_mb: 512000, max_threads: 128, max_gpu: 8, max_nodes: 16}\n"
    )
    own = {"SNAKEMAKE_SLURM_PARTITIONS": str(stand_ins / "partitions.yaml")}
    words = submitted(paper, stand_ins, target, **own)
    assert words[words.index("-p") + 1] == partition


def test_finished_jobs_are_asked_for_in_the_accounts_where_there_are_some(paper, stand_ins):
    """squeue has answered in the tests above. Here only sacct does; who asks the other waits for ever."""
    (stand_ins / "squeue").write_text("#!/bin/sh\n")
    submitted(paper, stand_ins, CLEANED, ACCOUNTING="accounting_storage/slurmdbd")
