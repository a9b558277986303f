"""Losses for TensorBoard and others (workflow/scripts/curves.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import curves
from common.errors import UserError

SCRIPT = Path(__file__).resolve().parent.parent / "workflow/scripts/curves.py"


class Kept:
    """A writer that keeps what it is given, as the folder of its training says."""

    found: dict[str, list[tuple[int, dict[str, float]]]]

    def __init__(self, name: str, folder: Path):
        self.name = name

    def write(self, step: int, values: dict[str, float]) -> None:
        Kept.found.setdefault(self.name, []).append((step, values))

    def close(self) -> None:
        pass


@pytest.fixture
def kept(monkeypatch) -> dict[str, list[tuple[int, dict[str, float]]]]:
    Kept.found = {}
    monkeypatch.setitem(curves.WRITERS, "tensorboard", (Kept, "tensorboardX"))
    return Kept.found


def log(folder: Path, steps: range, end: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, "mmlm/loss": 1 / step, "note": "words"}) + "\n" for step in steps]
    (folder / "train.jsonl").write_text("".join(lines) + end)
    return folder / "train.jsonl"


def test_every_step_is_given_once_while_a_training_goes_on_and_after_a_retry(tmp_path, kept):
    """A training that was cut back to its checkpoint says the same steps again; the last line is half written."""
    training = tmp_path / "runs/xlm/seed-1"
    state = training / "state/0123abcd"  # the folder that pretrain.py makes for its settings
    log(training / "state/older", range(1, 3))
    os.utime(training / "state/older/train.jsonl", (1, 1))
    log(state, range(1, 5), end='{"step": 5, "mm')
    log(tmp_path / "translators/big/wmt14-en-de/random/seed-2", range(1, 3))
    assert curves.give("tensorboard", tmp_path) == 6
    log(state, range(1, 4))
    assert curves.give("tensorboard", tmp_path) == 0
    log(state, range(1, 8))
    log(training, range(1, 9))  # it has ended
    assert curves.give("tensorboard", tmp_path) == 4
    assert kept == {
        "xlm/seed-1": [(step, {"mmlm/loss": 1 / step}) for step in range(1, 9)],
        "big/wmt14-en-de/random/seed-2": [(step, {"mmlm/loss": 1 / step}) for step in range(1, 3)],
    }


@pytest.mark.usefixtures("kept")
def test_a_damaged_log_is_named(tmp_path):
    path = log(tmp_path / "runs/xlm/seed-1", range(1, 3), end="[1]\n")
    with pytest.raises(UserError, match=rf"{path}, line 3: not a step of a training"):
        curves.give("tensorboard", tmp_path)


def test_event_files_hold_the_losses(tmp_path):
    pytest.importorskip("tensorboardX", reason="event files need tensorboardX, which is optional")
    log(tmp_path / "runs/xlm/seed-1", range(1, 4))
    done = subprocess.run([sys.executable, SCRIPT, "--results", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "/tensorboard, with 3 logged steps more than before" in done.stdout, done.stderr
    from tensorboardX.proto import event_pb2

    [path] = (tmp_path / "tensorboard/xlm/seed-1").glob("events.out.tfevents.*")
    data, found = path.read_bytes(), []
    while data:  # length, its checksum, the event, its checksum
        size = int.from_bytes(data[:8], "little")
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        found += [(event.step, one.tag, one.simple_value) for one in event.summary.value]
        data = data[16 + size :]
    assert found == [(step, "mmlm/loss", pytest.approx(1 / step)) for step in range(1, 4)]


@pytest.mark.parametrize(("to", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_is_one_line(tmp_path, monkeypatch, to, package):
    monkeypatch.setitem(sys.modules, package, None)
    log(tmp_path / "runs/xlm/seed-1", range(1, 3))
    with pytest.raises(UserError, match=rf"--to {to}: {package} is not installed; pip install {package}"):
        curves.give(to, tmp_path)


def test_without_a_training_one_line_says_so(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, "--results", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no training has begun here" in done.stderr
