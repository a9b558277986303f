"""The training loop as users run it, on the GPU if there is one: prefetched or not, interrupted or not, compiled, over
two devices; and its memory."""

import argparse
import gc
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from small_gpu import OnDevice, mixtures_of, model_of, path_of, run_of, sources  # noqa: F401  (a fixture)
from torch.nn.attention import SDPBackend, sdpa_kernel

import pretrain
from common.errors import UserError
from conftest import no_gpu
from engine.ahead import ahead
from engine.checkpoint import load_weights
from mixes import MIXES, log, mixed
from small_corpus import write_run
from small_training import command
from training.assembly import frozen_weights
from training.readings import read

ON_GPU = torch.cuda.is_available()
NAMES = ["xlm", "ernie-m", "xlm-e", "veco", "ppa", "infoxlm"]
pytestmark = pytest.mark.usefixtures("whole_engine")


@pytest.fixture()
def repeatable(monkeypatch):
    """What a GPU adds up in any order, it adds up in one. Flash and memory-efficient attention do so only where
    everything must, so attention is written out here."""
    torch.use_deterministic_algorithms(ON_GPU, warn_only=True)
    monkeypatch.setattr("training.assembly.has_flash_attention", lambda device: False)
    with sdpa_kernel(SDPBackend.MATH) if ON_GPU else nullcontext():
        yield
    torch.use_deterministic_algorithms(False)


def write(folder: Path, name: str, **changes: object) -> None:
    """At a size that a GPU's kernels take, with dropout: what is drawn must not depend on an interruption."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = {"width": 64, "heads": 2, "ffn": 64, "dropout": 0.1, "attention_dropout": 0.1}
    mix = MIXES[name] | {"objectives": mixed(MIXES[name]["objectives"])}
    mix |= {"model": mix.get("model", {}) | shape, "precision": "bf16" if ON_GPU else "fp32"}
    write_run(folder / "run.yaml", steps=12, **(mix | changes))


def arguments(corpus: Path, folder: Path, prefetch: str, compiled: str = "off") -> argparse.Namespace:
    words = command(corpus, folder, launcher=(sys.executable,))[
        2:
    ]  # no python with all libraries read: there may be few
    parser = pretrain.make_parser("")
    return parser.parse_args([*words, "--prefetch", prefetch, "--compile", compiled])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_weights(folder / "model.safetensors")[0]


def assert_same(found: Path, expected: Path) -> None:
    own, known = weights(found), weights(expected)
    assert own.keys() == known.keys()
    if ON_GPU:  # some of its kernels have no order
        assert all(torch.allclose(own[name], known[name], rtol=1e-3, atol=1e-5) for name in known)
    else:
        assert log(found) == log(expected)
        assert all(torch.equal(own[name], known[name]) for name in known)


@pytest.mark.filterwarnings("ignore:.*deterministic")
@pytest.mark.parametrize("name", NAMES)
def test_prefetched_or_interrupted_is_the_same(corpus, tmp_path, monkeypatch, repeatable, name):
    """Killed after rows were drawn ahead: the checkpoint says where the data of its own step end."""
    for way in ("off", "on"):
        write(tmp_path / way, name)
        assert pretrain.pretrain(arguments(corpus, tmp_path / way, way)) == 0
    assert_same(tmp_path / "on", tmp_path / "off")
    uninterrupted = pretrain.rate_of
    write(tmp_path / "cut", name)
    for stop in (5, 8, 9):

        def stopped(run, step, stop=stop):
            if step == stop:
                raise KeyboardInterrupt
            return uninterrupted(run, step)

        monkeypatch.setattr(pretrain, "rate_of", stopped)
        with pytest.raises(KeyboardInterrupt):
            pretrain.pretrain(arguments(corpus, tmp_path / "cut", "on"))
    monkeypatch.setattr(pretrain, "rate_of", uninterrupted)
    assert pretrain.pretrain(arguments(corpus, tmp_path / "cut", "off")) == 0
    assert_same(tmp_path / "cut", tmp_path / "off")


def test_an_error_in_the_data_is_told_and_nothing_goes_on(corpus, tmp_path, monkeypatch):
    write(tmp_path, "xlm")
    give = pretrain.give

    def damaged(run, mixtures, ranks, step):
        if step == 7:
            raise UserError("shard 3: damaged")
        return give(run, mixtures, ranks, step)

    monkeypatch.setattr(pretrain, "give", damaged)
    with pytest.raises(UserError, match="shard 3: damaged"):
        pretrain.pretrain(arguments(corpus, tmp_path, "on"))
    monkeypatch.setattr(pretrain, "give", give)
    saved = max(tmp_path.rglob("step-*.pt"))
    assert "step-000000006" in saved.name  # as without a thread: the last one before step 7
    assert pretrain.pretrain(arguments(corpus, tmp_path, "on")) == 0


def test_memory_does_not_grow(sources, device):  # noqa: F811
    """Of the device, or on a CPU the tensors that are alive: a graph that is kept would add to them each step."""
    run = run_of(sources, "mmlm", "tlm", "ppa", device_rows=3)
    model, ranks = model_of(run, device), OnDevice(device)
    optimizer = pretrain.new_optimizer(model, run, frozen_weights(model, run), 1)
    used = {}
    with ahead(pretrain.give_all(run, mixtures_of(run, sources), ranks, 1)) as steps:
        for given in steps:
            optimizer.zero_grad()
            readings, done = pretrain.learn(model, run, given, ranks, seed=1)
            optimizer.step()
            for objective, batches in done:
                if after_step := pretrain.OBJECTIVES[objective.name].after_step:
                    after_step(model, batches, ranks)
            read(readings, ranks)
            del readings, done
            if device.type == "cuda":
                used[given.step] = torch.cuda.memory_allocated()
            elif given.step in (5, 20):
                gc.collect()
                used[given.step] = sum(1 for one in gc.get_objects() if issubclass(type(one), torch.Tensor))
            if given.step == 20:
                break
    assert used[20] <= used[5] * 1.02, used


def test_two_ranks_are_one(corpus, tmp_path):
    """Over two GPUs where they are, over two processes of a CPU where there is none."""
    if ON_GPU and (reason := no_gpu(2)):
        pytest.skip(reason)
    shape = {"dropout": 0.0, "attention_dropout": 0.0}
    for folder in ("one", "two"):
        write(tmp_path / folder, "ppa", precision="fp32")
        text = (tmp_path / folder / "run.yaml").read_text()
        for key in shape:
            text = text.replace(f"{key}: 0.1", f"{key}: 0.0")
        (tmp_path / folder / "run.yaml").write_text(text)
    assert pretrain.pretrain(arguments(corpus, tmp_path / "one", "on")) == 0
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    words = command(corpus, tmp_path / "two", "--world-size", "2", "--prefetch", "on", launcher=launcher)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(path_of(pretrain).parent)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [[json.loads(line) for line in (tmp_path / own / "train.jsonl").open()] for own in ("one", "two")]
    for one, two in zip(*rows, strict=True):
        losses = [name for name in one if name.endswith("/loss")]
        assert losses and all(one[name] == pytest.approx(two[name], abs=1e-4) for name in losses)
