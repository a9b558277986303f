"""The training loop as users run it: killed, resumed, spread over processes, cut into smaller forward passes."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

import ready
from small_corpus import write_run
from small_training import SCRIPT, command, losses, train, trained


def test_same_seed_same_bytes_and_a_complete_record(corpus, tmp_path):
    for name in ("a", "b"):
        trained(corpus, tmp_path / name, steps=20)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "a/train.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 10, 20]
    assert rows[-1]["tlm/loss"] < rows[0]["tlm/loss"]
    cost = json.loads((tmp_path / "a/cost.json").read_text())
    assert cost["tokens"] > 0 and cost["flops"] > 0 and cost["steps"] == 20
    assert not (tmp_path / "a/state").exists() or not list((tmp_path / "a/state").iterdir())


def test_device_rows_do_not_change_the_loss(corpus, tmp_path):
    for device_rows in (8, 4, 2, 1):
        trained(corpus, tmp_path / str(device_rows), steps=20, batch={"device_rows": device_rows})
    whole = losses(tmp_path / "8")
    for device_rows in (4, 2, 1):
        assert losses(tmp_path / str(device_rows)) == pytest.approx(whole, abs=1e-5)


def test_two_processes_equal_one(corpus, tmp_path):
    trained(corpus, tmp_path / "one", steps=20)
    folder = tmp_path / "two"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=20)
    done = subprocess.run(
        command(corpus, folder, "--world-size", "2", launcher=ready.torchrun()),
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert losses(folder) == pytest.approx(losses(tmp_path / "one"), abs=1e-5)


def test_a_wrong_number_of_processes_stops_before_the_first_step(corpus, tmp_path):
    write_run(tmp_path / "run.yaml")
    done = subprocess.run(command(corpus, tmp_path, "--world-size", "2"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "asked for 2 processes but 1 were started" in done.stderr


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(corpus, tmp_path):
    """kill -9 while loading, training, saving or finishing; the last weights are those of an undisturbed run.

    The moments are within five times what the first checkpoint takes, on a slow machine as on a fast one."""
    changes = {"steps": 300, "checkpoint": {"every_steps": 2}, "model": {"dropout": 0.1}}  # kills reach some 80
    expected = trained(corpus, tmp_path / "whole", **changes)
    folder = tmp_path / "killed"
    folder.mkdir()
    write_run(folder / "run.yaml", **changes)
    rng = random.Random(7)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    reached = []

    def started() -> subprocess.Popen:
        process = subprocess.Popen(command(corpus, folder), stderr=subprocess.PIPE, text=True, env=environment)
        for line in process.stderr:  # the imports are over: from here on every moment counts
            if line.startswith("run test"):
                break
        return process

    def kill(process: subprocess.Popen) -> None:
        process.kill()
        process.wait()
        process.stderr.read()  # to its end, which is that of the training: ready.py kills it when who called is killed

    process, start = started(), time.monotonic()
    while not list(folder.rglob("step-*.pt")):
        assert process.poll() is None
        time.sleep(0.005)
    first = time.monotonic() - start
    kill(process)
    for _ in range(20):
        process = started()
        time.sleep(rng.uniform(0, 5 * first))
        kill(process)
        reached.append(max((int(p.stem.split("-")[1]) for p in folder.rglob("step-*.pt")), default=0))
    assert len(set(reached)) > 3 and reached == sorted(reached), reached
    done = train(corpus, folder)
    assert done.returncode == 0, done.stderr
    found = load_file(folder / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    log = [json.loads(line)["step"] for line in (folder / "train.jsonl").read_text().splitlines()]
    assert log == [1, *range(10, 301, 10)]


def test_sigterm_saves_and_says_so(corpus, tmp_path):
    write_run(tmp_path / "run.yaml", steps=100_000, checkpoint={"every_steps": 100_000})
    process = subprocess.Popen(command(corpus, tmp_path), stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("run test"):
            break
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "told to stop: saved step" in rest
    assert list(tmp_path.rglob("step-*.pt"))
    assert not (tmp_path / "model.safetensors").exists()


def test_a_damaged_checkpoint_falls_back_to_the_one_before(corpus, tmp_path):
    expected = trained(corpus, tmp_path / "whole", steps=12)
    folder = tmp_path / "damaged"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=12)
    # stop before the end, with checkpoints of steps 6 and 9 on disk
    code = (
        "import sys, pretrain; from engine import optim\n"
        "rate = pretrain.learning_rate\n"
        "def fail(step, *rest):\n    if step == 11: sys.exit(9)\n    return rate(step, *rest)\n"
        "pretrain.learning_rate = fail; sys.argv = sys.argv[1:]; pretrain.run_main(pretrain.main)"
    )
    arguments = command(corpus, folder)[1:]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    newest = max(folder.rglob("step-*.pt"))
    newest.write_bytes(newest.read_bytes()[:1000])
    done = train(corpus, folder)
    assert done.returncode == 0 and "cannot be read" in done.stderr and "continuing after step 6" in done.stderr
    found = load_file(folder / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_changed_run_never_continues_an_old_one(corpus, tmp_path):
    write_run(tmp_path / "run.yaml", steps=100_000, checkpoint={"every_steps": 5})
    process = subprocess.Popen(command(corpus, tmp_path), stderr=subprocess.DEVNULL)
    while not list(tmp_path.rglob("step-*.pt")):
        time.sleep(0.1)
    process.kill()
    process.wait()
    write_run(tmp_path / "run.yaml", steps=8)
    done = train(corpus, tmp_path)
    assert done.returncode == 0 and "continuing" not in done.stderr


def test_a_loss_that_is_not_finite_stops_with_the_step(corpus, tmp_path):
    write_run(tmp_path / "run.yaml", steps=50, optimizer={"peak_lr": 1.0e30, "clip": 1.0e30})
    done = train(corpus, tmp_path)
    assert done.returncode == 2
    assert "is not finite" in done.stderr and "step " in done.stderr and "peak_lr" in done.stderr
    assert not (tmp_path / "model.safetensors").exists()


def test_an_objective_without_data_and_missing_shards_are_named(corpus, tmp_path):
    write_run(tmp_path / "run.yaml")
    plan = (corpus / "plan.tsv").read_text().splitlines()
    only_mono = tmp_path / "mono.tsv"
    only_mono.write_text("\n".join(line for line in plan if not line.startswith("bitext")) + "\n")
    arguments = [str(only_mono) if part == str(corpus / "plan.tsv") else part for part in command(corpus, tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2 and "objective tlm needs bitext data" in done.stderr
    only_mono.write_text(plan[0] + "\nmono\tcc-100\tfr\t1\t1\t1\t1\n")
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2 and "cc-100/fr: no shards" in done.stderr


def test_zero_steps_write_the_initialisation(corpus, tmp_path):
    trained(corpus, tmp_path / "a", steps=0, objectives=[], schedule={"steps": 0, "warmup_steps": 0})
    cost = json.loads((tmp_path / "a/cost.json").read_text())
    assert cost["tokens"] == 0 and (tmp_path / "a/train.jsonl").read_text() == ""


def test_a_run_starts_from_the_weights_of_another(corpus, tmp_path):
    """What is copied, fresh and frozen is exact, and said."""
    parent = trained(corpus, tmp_path / "parent", steps=5, objectives=[{"name": "mmlm"}])
    weights = tmp_path / "parent" / "model.safetensors"
    init = {"run": "parent", "fresh": ["mlm_head.dense"], "frozen": ["encoder.tokens", "encoder.blocks.0."]}
    folder = tmp_path / "child"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=0)
    assert train(corpus, folder).returncode == 0
    untrained = load_file(folder / "model.safetensors")
    for steps in (0, 5):
        write_run(folder / "run.yaml", steps=steps, init=init)
        done = subprocess.run(command(corpus, folder, "--init", str(weights)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "fresh: mlm_head.dense" in done.stderr
        child = load_file(folder / "model.safetensors")
        for name, tensor in child.items():
            start = untrained if name.startswith("mlm_head.dense") else parent
            stays = steps == 0 or name.startswith(("encoder.tokens", "encoder.blocks.0."))
            assert torch.equal(tensor, start[name]) == stays, (steps, name)


def test_weights_that_do_not_fit_are_all_named(corpus, tmp_path):
    trained(corpus, tmp_path, steps=0, model={"layers": 1, "positions": 40})
    (tmp_path / "model.safetensors").rename(tmp_path / "parent.safetensors")
    write_run(tmp_path / "run.yaml", init={"run": "parent"})
    done = train(corpus, tmp_path)
    assert done.returncode == 2 and "the run starts from run parent: give its weights with --init" in done.stderr
    extra = ("--init", str(tmp_path / "parent.safetensors"))
    done = subprocess.run(command(corpus, tmp_path, *extra), capture_output=True, text=True)
    assert done.returncode == 2
    assert "encoder.blocks.1.attention.output.bias" in done.stderr
    assert "encoder.positions.weight [40, 16] -> [34, 16]" in done.stderr
    assert "What is new belongs into init.fresh" in done.stderr
