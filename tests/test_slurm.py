"""The profile `slurm`: what is submitted, and that trainings on a real Slurm survive what Slurm does to them.

The first half needs no Slurm: stand-ins for its commands write down how they were called. The second half (`make
test-slurm`) starts one on this machine, tests/slurm/cluster.py, and is skipped where Slurm is not installed.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plan import allocation
from plan.config import Config
from plan.load import load_config
from plan.runs import resolve_run
from slurm import cluster as slurm
from trees import copy_tree, edit, snakemake, under_slurm

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


CLEANED = "results/paper/corpus/mono/cc-100/sw/3.clean.txt.zst"
SCORED = "results/paper/scores/xlm-r/xnli/cross-lingual-transfer/seed-2.json"
EIGHT = "results/paper/runs/ernie-m-base/seed-1/model.safetensors"
SIXTY_FOUR = "results/paper/runs/xlm-r/seed-1/model.safetensors"
RULES = {CLEANED: ["clean_mono"], SCORED: ["predict", "score"], EIGHT: ["pretrain"], SIXTY_FOUR: ["pretrain"]}


@pytest.fixture(scope="module")
def paper(repository, tmp_path_factory) -> Path:
    """The repository, with empty files for all that the jobs of the paper's scale read which are submitted here."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("paper"))
    plainly = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "host"]
    command = [*plainly, "--config", "scale=paper", "--", *RULES]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    for block in re.split(r"\n(?:local)?rule ", listed):
        if block.partition(":")[0] in {rule for rules in RULES.values() for rule in rules}:
            files = re.search(r"^    input: (.*)$", block, re.MULTILINE).group(1).split(", ")
            for name in files:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                if name not in RULES and "/predictions/" not in name and not (tree / name).exists():
                    (tree / name).touch()
    return tree


def submitted(tree: Path, stand_ins: Path, target: str, to_its_end: bool = False, **environment: str) -> list[str]:
    """The arguments of the sbatch that makes this target, what differs from call to call taken out. What Snakemake does
    afterwards, ten seconds of waiting for the most part, is waited for where it is asked for."""
    calls = stand_ins / "calls"
    calls.unlink(missing_ok=True)
    own = {"CALLS": str(calls), "ACCOUNTING": "accounting_storage/none", **environment}
    own["PATH"] = f"{stand_ins}{os.pathsep}{os.environ['PATH']}"
    arguments = (
        "--nolock",
        "--retries",
        "0",
        "--config",
        "scale=paper",
        "--allowed-rules",
        *RULES[target],
        "--",
        target,
    )
    command, own = under_slurm(*arguments, **own)
    with open(stand_ins / "log", "w") as log:
        process = subprocess.Popen(command, cwd=tree, env=own, stdout=log, stderr=log, start_new_session=True)
    called = lambda: calls.exists() and calls.read_text().endswith("\n")  # noqa: E731
    wait_until(lambda: process.poll() is not None or (called() and not to_its_end))
    if to_its_end:
        assert process.returncode == 1, (stand_ins / "log").read_text()  # 124: waited until its time was up
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert called(), (stand_ins / "log").read_text()
    [call] = calls.read_text().splitlines()
    words = call.split("\0")[:-1]
    for option, shown in {"--job-name": "RUN", "--output": "LOG", "-D": "HERE"}.items():
        words[words.index(option) + 1] = shown
    [wrapped] = [word for word in words if word.startswith("--wrap=")]
    assert "--config 'scale=paper'" in wrapped and all(f"'{rule}:" in wrapped for rule in RULES[target]), wrapped
    return [word for word in words if word != wrapped]


COMMON = "--parsable --job-name RUN --output LOG --export=ALL --comment"


def test_a_cpu_job(paper, stand_ins):
    expected = f"{COMMON} rule_clean_mono_wildcards_cc-100_sw_3 -p main -t 2880 --mem 2000 --requeue "
    assert submitted(paper, stand_ins, CLEANED) == shlex.split(expected + "--ntasks=1 --cpus-per-task=1 -D HERE")


def test_a_job_of_one_gpu_predicts_and_scores(paper, stand_ins):
    expected = f"{COMMON} rule_evaluate_predict_score -p main -t 150 --mem 32000 --nodes=1 --requeue --cpus-per-task=8 "
    assert submitted(paper, stand_ins, SCORED) == shlex.split(expected + "-D HERE --gpus=1")


def test_a_job_of_eight_gpus(paper, stand_ins):
    expected = f"{COMMON} rule_pretrain_wildcards_ernie-m-base_1 -p main -t 1440 --mem 480000 --nodes=1 "
    expected += "--requeue --cpus-per-task=64 -D HERE --gpus=8"
    (paper / SIXTY_FOUR).parent.mkdir(parents=True, exist_ok=True)
    (paper / SIXTY_FOUR).touch()  # it continues from XLM-R
    words = submitted(paper, stand_ins, EIGHT)
    (paper / SIXTY_FOUR).unlink()
    assert words == shlex.split(expected)


def test_a_job_of_sixty_four_gpus(paper, stand_ins):
    expected = f"{COMMON} rule_pretrain_wildcards_xlm-r_1 -p main -t 1440 --mem 480000 --nodes=8 "
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
    """squeue does not answer, sacct does; who asks the other waits for ever."""
    (stand_ins / "squeue").write_text("#!/bin/sh\n")
    submitted(paper, stand_ins, CLEANED, to_its_end=True, ACCOUNTING="accounting_storage/slurmdbd")


def test_a_failed_job_is_asked_for_in_the_queue_where_there_are_no_accounts(paper, stand_ins):
    (stand_ins / "sacct").write_text("#!/bin/sh\n")
    submitted(paper, stand_ins, CLEANED, to_its_end=True)


# --- How large a training is --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def configuration(repository) -> Config:
    return load_config(repository, {"scale": "paper"})


def test_a_training_takes_the_nodes_that_its_size_asks_for(configuration):
    most = allocation.Allocation(**configuration.scale["resources"]["pretrain"])
    given = {run: allocation.allocated(configuration, "pretrain", {"run": run}) for run in configuration.pretrained}
    assert (given["xlm-r"].nodes, given["ernie-m-base"].nodes, given["ppa-250k"].nodes) == (8, 1, 1)
    assert given["ppa-250k"].processes == given["random-init"].processes == 1
    assert all(own.processes <= most.processes and own.runtime <= most.runtime for own in given.values())
    by_size = sorted(given, key=lambda run: allocation.rough_flops(resolve_run(configuration, run)))
    assert [given[run].processes for run in by_size] == sorted(given[run].processes for run in by_size)
    for run, own in given.items():
        rows = resolve_run(configuration, run)["batch"]["rows"]
        assert rows % own.processes == 0, run
        assert own.threads_per_process * max(1, own.gpu) <= own.threads <= most.threads


def test_rough_flops_are_near_the_counted_ones(configuration):
    """By the closed form of engine/cost.py for a run of one objective whose rows are full: XLM-R."""
    from engine.cost import Pass, ours
    from engine.shape import ModelConfig

    run = resolve_run(configuration, "xlm-r")
    tokens = run["schedule"]["steps"] * run["batch"]["rows"] * run["batch"]["row_length"]
    model = ModelConfig(**{**run["model"], "vocabulary": allocation.VOCABULARY})
    counted = ours(Pass(tokens, model.layers, context=0, logits=0.15 * tokens), model)
    assert allocation.rough_flops(run) == pytest.approx(counted, rel=0.01)


def test_a_scale_of_one_node_keeps_what_it_states(repository):
    small = load_config(repository, {"scale": "small"})
    stated = allocation.Allocation(**small.scale["resources"]["pretrain"])
    assert {allocation.allocated(small, "pretrain", {"run": run}) for run in small.pretrained} == {stated}


def test_a_training_is_started_by_what_it_is_given():
    """A process for each GPU, on each node; several nodes by one `srun` with its own counts."""
    one, node, nodes = (allocation.Allocation(gpu, n, 8, 4000, 60) for gpu, n in ((1, 1), (4, 1), (4, 2)))
    assert allocation.launcher(one) == ["python"]
    assert allocation.launcher(node) == ["torchrun", "--standalone", "--nproc-per-node=4"]
    words = allocation.launcher(nodes)
    assert words[0] == "srun" and words[-3:] == ["bash", "workflow/scripts/launch_node.sh", "4"]
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=8"} <= {*words}
    assert allocation.launcher(allocation.Allocation(0, 2, 8, 4000, 60))[-1] == "1"  # a process of each node's CPU


def test_slurm_is_asked_for_gpus_once():
    assert allocation.slurm_wants(0, 1) == {} and allocation.slurm_wants(4, 1) == {"gpu": 4, "nodes": 1}
    counts = {"mpi": "srun", "nodes": 2, "tasks": 2}
    assert allocation.slurm_wants(0, 2) == {**counts, "slurm_extra": "--ntasks-per-node=1"}
    assert allocation.slurm_wants(4, 2) == {**counts, "slurm_extra": "--gpus-per-node=4 --ntasks-per-node=1"}


@pytest.mark.parametrize(("minutes", "seconds"), [(6, 300), (60, 3000), (120, 6600), (2880, 172200)])
def test_a_training_ends_a_sixth_and_at_most_ten_minutes_before_its_job(minutes, seconds):
    assert allocation.time_budget(minutes) == seconds


# --- A real Slurm -------------------------------------------------------------------------------------------------

TRAINED = "results/smoke/runs/xlm-r/seed-1/model.safetensors"
LOG = "results/smoke/logs/pretrain/xlm-r/seed-1.log"
LONGEST = 1500  # seconds that anything is waited for: beside the rest of the suite, on a slow machine


@pytest.fixture(scope="module")
def prepared(repository, tmp_path_factory) -> Path:
    """All that a training of some ten seconds reads: longer than it takes to disturb it, and no longer."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("prepared"))
    edit(tree, "config/scales/smoke.yaml", "schedule: {steps: 30, warmup_steps: 3}", "schedule: {steps: 1000}")
    edit(tree, "config/scales/smoke.yaml", "every_steps: 10,", "every_steps: 200,")
    wanted = ("results/smoke/runs/xlm-r/sampling_plan.tsv", "results/smoke/vocab/spm.model")
    snakemake(tree, "--cores", "2", "--config", "scale=smoke", "--", *wanted)
    return tree


@pytest.fixture(scope="module")
def undisturbed(prepared, tmp_path_factory) -> Path:
    tree = shutil.copytree(prepared, tmp_path_factory.mktemp("undisturbed") / "tree", symlinks=True)
    snakemake(tree, "--cores", "1", "--config", "scale=smoke", "--", TRAINED)
    return tree


@contextlib.contextmanager
def training(cluster: slurm.Cluster, tree: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
    """Snakemake, whose job is training by now."""
    arguments = (*arguments, "--config", "scale=smoke", "--", TRAINED)
    command, own = under_slurm(*arguments, seconds=LONGEST, **(cluster.environment | environment))
    with open(tree / "snakemake.log", "w") as log:
        process = subprocess.Popen(command, cwd=tree, env=own, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or any(tree.glob(f"{Path(TRAINED).parent}/state/*/train.jsonl")))
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for job in jobs_of(cluster, tree, "pending,running,completing"):
            cluster.call("scancel", job["id"], check=False)


def wait_until(condition: Callable[[], bool], seconds: float = LONGEST) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)


def jobs_of(cluster: slurm.Cluster, tree: Path, states: str = "all") -> list[dict[str, str]]:
    """The pre-training's jobs in the order of their numbers."""
    found = [job for job in cluster.jobs(states) if job["folder"] == str(tree) and "pretrain" in job["comment"]]
    return sorted(found, key=lambda job: int(job["id"]))


def finish(cluster: slurm.Cluster, tree: Path, process: subprocess.Popen) -> None:
    """Wait for the end; who waits in the queue for a later moment need not, in a test."""

    def ended() -> bool:
        for job in jobs_of(cluster, tree, "pending"):
            if job["reason"] == "BeginTime":
                cluster.call("scontrol", "update", f"JobId={job['id']}", "StartTime=now", check=False)
        return process.poll() is not None

    wait_until(ended, LONGEST)
    text = (tree / "snakemake.log").read_text()
    assert process.returncode == 0, text[-5000:]


def check_equal(tree: Path, undisturbed: Path) -> None:
    """Saved, continued, and at the end as if nothing had been."""
    assert re.search(r"continuing after step [1-9]", (tree / LOG).read_text()), (tree / LOG).read_text()
    assert (tree / TRAINED).read_bytes() == (undisturbed / TRAINED).read_bytes()


@pytest.fixture
def tree(prepared, tmp_path) -> Path:
    return shutil.copytree(prepared, tmp_path / "tree", symlinks=True)


def requeue(cluster: slurm.Cluster, job: dict[str, str]) -> None:
    cluster.call("scontrol", "requeue", job["id"])


def take_node_down(cluster: slurm.Cluster, job: dict[str, str]) -> None:
    cluster.call("scontrol", "update", f"NodeName={job['nodes']}", "State=DOWN", "Reason=test")


def lose_node(cluster: slurm.Cluster, job: dict[str, str]) -> None:
    """As when its power fails: daemon and job are gone at once, and the node answers no more.

    Slurm's own processes go first: one that outlived its job would still tell the controller that the job has failed.
    """
    cluster.kill(f"slurmd-{job['nodes']}")
    of_slurm, of_job = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if f"SLURM_JOB_ID={job['id']}".encode() in variables and (folder / "cwd").resolve() == Path(job["folder"]):
                of_job.add(int(folder.name))
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if (Path("/proc") / parent / "cmdline").read_bytes().startswith(b"slurmstepd: "):
                    of_slurm.add(int(parent))
    for pid in [*of_slurm, *of_job]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def preempt(cluster: slurm.Cluster, _job: dict[str, str]) -> None:
    cluster.call("srun", "--partition=high", "--nodes=2", "--exclusive", "--time=1", "sleep", "1", seconds=120)


def warn(cluster: slurm.Cluster, job: dict[str, str]) -> None:
    cluster.call("scancel", "--signal=USR1", job["id"])


def stand_still_until_the_time_limit(cluster: slurm.Cluster, job: dict[str, str]) -> None:
    """Slurm tells it to end some time within a minute after its limit, and ends it half a minute later."""
    cluster.call("scontrol", "update", f"JobId={job['id']}", "TimeLimit=1")
    [pid] = stop_training(job)
    wait_until(lambda: is_told_to_end(pid), 180)
    os.kill(pid, signal.SIGCONT)


def is_told_to_end(pid: int) -> bool:
    waiting = re.search(r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE).group(1)
    return bool(int(waiting, 16) >> (signal.SIGTERM - 1) & 1)


# disturbance -> the states in which its jobs end
DISTURBANCES = {
    stand_still_until_the_time_limit: ["TIMEOUT", "COMPLETED"],
    requeue: ["COMPLETED"],
    take_node_down: ["COMPLETED"],
    lose_node: ["COMPLETED"],
    preempt: ["COMPLETED"],
    warn: ["FAILED", "COMPLETED"],
}


@pytest.mark.slurm
def test_a_training_longer_than_its_jobs_goes_on_in_the_next(cluster, tree, undisturbed):
    """A job of two minutes: the training stops by itself after 100 seconds, which it has spent standing still. Slurm's
    own limit is put off: a busy machine needs more than the twenty seconds between for starting, Snakemake included."""
    with training(cluster, tree, "--set-resources", "pretrain:runtime=2") as process:
        [job] = jobs_of(cluster, tree)
        cluster.call("scontrol", "update", f"JobId={job['id']}", "TimeLimit=10")
        for pid in stop_training(job):
            time.sleep(max(0.0, 101 - age(pid)))
            os.kill(pid, signal.SIGCONT)
        finish(cluster, tree, process)
    assert [one["state"] for one in jobs_of(cluster, tree)] == ["FAILED", "COMPLETED"]
    check_equal(tree, undisturbed)


@pytest.mark.slurm
@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda one: one.__name__)
def test_a_disturbed_training_continues(cluster, tree, undisturbed, disturb):
    partition = "low" if disturb is preempt else "main"
    with training(cluster, tree, SBATCH_PARTITION=partition) as process:
        [job] = jobs_of(cluster, tree)
        # These two may have no time to save: what they go on from has to be there.
        saved = disturb not in (lose_node, stand_still_until_the_time_limit)
        wait_until(lambda: saved or any(tree.glob(f"{Path(TRAINED).parent}/state/*/step-*.pt")))
        disturb(cluster, job)
        finish(cluster, tree, process)
    if disturb is lose_node:
        cluster.start_node(job["nodes"], 4500)
    if disturb is take_node_down:
        cluster.call("scontrol", "update", f"NodeName={job['nodes']}", "State=RESUME")
    slurm.wait_for_idle(cluster)
    assert [one["state"] for one in jobs_of(cluster, tree)] == DISTURBANCES[disturb]
    check_equal(tree, undisturbed)


@pytest.mark.slurm
def test_two_nodes_of_two_processes_learn_as_one_does(cluster, tree):
    """The form that a job of several nodes has, on made-up GPUs: srun, one torchrun per node, gloo."""
    resources = "seeds: [1]\nresources: {pretrain: {gpu: 2, nodes: 2, threads: 2}}\n"
    edit(tree, "config/scales/smoke.yaml", "seeds: [1]\n", resources)
    edit(tree, "config/scales/smoke.yaml", "schedule: {steps: 1000}", "schedule: {steps: 40}")
    with training(cluster, tree) as process:
        finish(cluster, tree, process)
    [job] = jobs_of(cluster, tree)
    assert (job["state"], job["nodes"]) == ("COMPLETED", "n[1-2]")
    assert json.loads((tree / TRAINED).with_name("cost.json").read_text())["world_size"] == 4
    alone = shutil.copytree(tree, tree.with_name("alone"), symlinks=True)
    shutil.rmtree((alone / TRAINED).parent)
    edit(alone, "config/scales/smoke.yaml", resources, "seeds: [1]\n")
    snakemake(alone, "--cores", "1", "--config", "scale=smoke", "--", TRAINED)
    assert len(losses(tree)) == 5 and losses(tree) == pytest.approx(losses(alone), abs=1e-4)


@pytest.mark.slurm
def test_a_training_goes_on_with_fewer_nodes(cluster, tree):
    """Begun on two nodes, stopped for good, continued on one: the same data in the same order, and nothing twice."""
    two, one = (f"seeds: [1]\nresources: {{pretrain: {{gpu: 2, nodes: {nodes}, threads: 2}}}}\n" for nodes in (2, 1))
    edit(tree, "config/scales/smoke.yaml", "seeds: [1]\n", two)
    edit(tree, "config/scales/smoke.yaml", "schedule: {steps: 1000}", "schedule: {steps: 300}")
    alone = shutil.copytree(tree, tree.with_name("alone"), symlinks=True)
    with training(cluster, tree, "--retries", "0") as process:
        warn(cluster, jobs_of(cluster, tree)[0])
        wait_until(lambda: process.poll() is not None)
    assert process.returncode == 1
    edit(tree, "config/scales/smoke.yaml", two, one)
    with training(cluster, tree) as process:
        finish(cluster, tree, process)
    assert re.search(r"continuing after step [1-9]", (tree / LOG).read_text())
    assert json.loads((tree / TRAINED).with_name("cost.json").read_text())["world_size"] == 2
    edit(alone, "config/scales/smoke.yaml", two, "seeds: [1]\n")
    snakemake(alone, "--cores", "1", "--config", "scale=smoke", "--", TRAINED)
    assert losses(tree) == pytest.approx(losses(alone), abs=1e-3)


LATE = """
import os, subprocess, sys

replace = os.replace


def late(source, target, **options):
    if not sys.argv[0].endswith("pretrain.py") or "/state/" in str(target):
        return replace(source, target, **options)
    hidden = f"{target}.late"
    os.link(source, hidden)
    os.unlink(source)
    subprocess.Popen(["sh", "-c", 'sleep 8; mv "$0" "$1"', hidden, str(target)], start_new_session=True)


os.replace = late
"""


@pytest.mark.slurm
def test_outputs_may_appear_late(cluster, tree, tmp_path):
    """A file system that shows new files after eight seconds: the job is waited for, and not made again."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late/sitecustomize.py").write_text(LATE)
    edit(tree, "config/scales/smoke.yaml", "schedule: {steps: 1000}", "schedule: {steps: 40}")
    with training(cluster, tree, PYTHONPATH=str(tmp_path / "late")) as process:
        finish(cluster, tree, process)
    assert [job["state"] for job in jobs_of(cluster, tree)] == ["COMPLETED"]
    assert not list(tree.rglob("*.late")) and len(losses(tree)) == 5


@pytest.mark.slurm
def test_an_interrupted_snakemake_cancels_its_jobs(cluster, tree):
    """Interrupted before its first look: while it asks Slurm after its jobs Snakemake's list of them is empty."""
    with training(cluster, tree, "--slurm-init-seconds-before-status-checks", "45") as process:
        [snakemake_itself] = children(process.pid)  # `timeout` before it would pass on a second interrupt
        os.kill(snakemake_itself, signal.SIGINT)
        wait_until(lambda: process.poll() is not None)
        wait_until(lambda: jobs_of(cluster, tree)[0]["state"] == "CANCELLED")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def losses(tree: Path) -> list[float]:
    lines = (tree / TRAINED).with_name("train.jsonl").read_text().splitlines()
    return [json.loads(line)["mmlm/loss"] for line in lines]


def stop_training(job: dict[str, str]) -> list[int]:
    """Let the training of this job stand still; its process, or its processes."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"workflow/scripts/pretrain.py"] and (folder / "cwd").resolve() == Path(job["folder"]):
                found.append(int(folder.name))
    assert found, "no training"
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    return found


def age(pid: int) -> float:
    """Seconds since the process began."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
