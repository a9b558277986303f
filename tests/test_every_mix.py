"""Every mix of objectives, trained for real: the result depends neither on how rows are cut into forward passes, nor on
the number of processes, nor on an interruption."""

import dataclasses
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import pretrain
import ready
from common.errors import UserError
from engine.config import FirstPhase, InitConfig, OptimizerConfig, ScheduleConfig
from engine.objectives import OBJECTIVES
from mixes import MIXES, STEPS, arguments, log, train, write
from small_engine import run_of
from small_training import command
from training.assembly import PretrainingModel, frozen_weights


def recorded(called: Counter, key: tuple[str, str], hook: Callable) -> Callable:
    def call(*values: object) -> object:
        called[key] += 1
        return hook(*values)

    return call


def test_a_mix_for_every_objective():
    """A new objective without one would be tested neither in two processes nor over an interruption. Translators have
    tests of their own (test_translation.py)."""
    mixed = {objective["name"] for mix in MIXES.values() for objective in mix["objectives"]}
    assert mixed == set(OBJECTIVES) - {"translation"}


@pytest.mark.parametrize("name", ["ppa", "infoxlm", "xlm-align", "hictl", "veco", "ernie-m"])
def test_the_loop_calls_every_hook(corpus, tmp_path, monkeypatch, name):
    """A queue that nobody fills or a copy that never follows would leave all other tests of the loop green."""
    called, expected = Counter(), {}
    objectives = [objective["name"] for objective in MIXES[name]["objectives"]]
    cycle = len(objectives) if MIXES[name].get("schedule", {}).get("alternate") else 1
    for objective in objectives:
        own = OBJECTIVES[objective]
        hooks = {hook: getattr(own, hook) for hook in ("start", "prepare", "meet", "after_step") if getattr(own, hook)}
        wrapped = {hook: recorded(called, (objective, hook), function) for hook, function in hooks.items()}
        monkeypatch.setitem(OBJECTIVES, objective, dataclasses.replace(own, **wrapped))
        expected |= {(objective, hook): 1 if hook == "start" else 4 // cycle for hook in hooks}
    schedule = {"steps": 4} | {key: value for key, value in MIXES[name].get("schedule", {}).items() if key != "first"}
    write(tmp_path, MIXES[name], schedule=schedule, batch={"device_rows": 64})
    torch.set_num_threads(1)
    assert pretrain.pretrain(arguments(corpus, tmp_path)) == 0
    assert expected and dict(called) == expected


def test_objectives_that_take_turns_are_all_logged(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("training.log.LOG_EVERY", 2)
    rows, _ = train(corpus, tmp_path, MIXES["xlm"])
    losses = [(row["step"], [name for name in row if name.endswith("/loss")]) for row in rows]
    assert losses[:5] == [
        (1, ["mmlm/loss"]), (3, ["mmlm/loss"]), (4, ["tlm/loss"]), (7, ["mmlm/loss"]), (8, ["tlm/loss"])
    ]  # fmt: skip


def test_a_weight_scales_the_gradient(corpus, tmp_path):
    """A clipped step would hide it, so the norm before clipping is read."""
    norms = []
    for weight in (1.0, 3.0):
        mix = {"objectives": [{"name": "mmlm", "weight": weight}]}
        rows, _ = train(corpus, tmp_path / str(weight), mix)
        norms.append(rows[0]["gradient_norm"])
    assert norms[1] == pytest.approx(3 * norms[0], rel=1e-4)


def test_the_rate_of_a_first_phase_stays_and_the_second_begins_anew():
    first = FirstPhase(steps=10, train=("cross_attention",), warmup_steps=4)
    schedule = ScheduleConfig(steps=30, warmup_steps=5, first=first)
    run = dataclasses.replace(run_of(), schedule=schedule, optimizer=OptimizerConfig(peak_lr=2.0))
    rates = [pretrain.rate_of(run, step) for step in range(1, 31)]
    assert rates[:10] == [0.5, 1.0, 1.5, *[2.0] * 7]
    assert rates[10:15] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert rates[15:] == pytest.approx([2.0 * (20 - step) / 15 for step in range(6, 21)]) and rates[-1] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": InitConfig("xlm-r", frozen=("encodr",))}, "init.frozen: no weight begins with 'encodr'; the parts"),
        (
            {"schedule": ScheduleConfig(steps=4, warmup_steps=1, first=FirstPhase(1, ("cross_atention",), 0))},
            "schedule.first.train: no weight begins with 'cross_atention'",
        ),
    ],
)
def test_names_of_weights_that_do_not_exist_are_refused(changes, message):
    run = dataclasses.replace(run_of(), **changes)
    with pytest.raises(UserError, match=message):
        frozen_weights(PretrainingModel(run), run)


def differences(one: list[dict], other: list[dict]) -> dict[str, float]:
    """Losses of the two logs that are not the same to 1e-5."""
    assert [row.keys() for row in one] == [row.keys() for row in other]
    losses = [(a[name], b[name], f"step {a['step']} {name}") for a, b in zip(one, other, strict=True) for name in a]
    return {name: a - b for a, b, name in losses if abs(a - b) > 1e-5 * max(1.0, abs(a))}


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory) -> dict[str, list[dict]]:
    """The log of each mix, all rows of a step in one pass."""
    folder = tmp_path_factory.mktemp("one")
    return {name: train(corpus, folder / name, mix)[0] for name, mix in MIXES.items()}


@pytest.mark.parametrize("name", MIXES)
def test_device_rows_do_not_change_the_losses(corpus, one, tmp_path, name, request):
    """Passes of two rows or of one; both with --whole."""
    for n in (2, 1) if request.config.getoption("--whole") else random.Random(name).sample((2, 1), 1):
        assert not differences(one[name], train(corpus, tmp_path / str(n), MIXES[name], batch={"device_rows": n})[0])


def with_dropout(name: str) -> dict:
    return MIXES[name] | {"model": MIXES[name].get("model", {}) | {"dropout": 0.1, "attention_dropout": 0.1}}


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory) -> Callable[[str], tuple[list[dict], dict[str, torch.Tensor]]]:
    """Log and weights of a mix with dropout, trained once."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return cache(lambda name: train(corpus, folder / name, with_dropout(name)))


@pytest.mark.parametrize("name", MIXES)
def test_an_interruption_changes_no_bit(corpus, undisturbed, tmp_path, name, monkeypatch):
    mix = with_dropout(name)
    whole_log, whole = undisturbed(name)
    rng = random.Random(name)
    uninterrupted = pretrain.rate_of
    for stop in sorted(rng.sample(range(4, STEPS), 3)):

        def stopped(run, step, stop=stop):
            if step == stop:
                raise KeyboardInterrupt
            return uninterrupted(run, step)

        monkeypatch.setattr(pretrain, "rate_of", stopped)
        with pytest.raises(KeyboardInterrupt):
            train(corpus, tmp_path / "cut", mix)
        monkeypatch.setattr(pretrain, "rate_of", uninterrupted)
    cut_log, cut = train(corpus, tmp_path / "cut", mix)
    assert cut_log == whole_log
    assert cut.keys() == whole.keys()
    assert all(torch.equal(cut[weight], whole[weight]) for weight in whole)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MIXES)
def test_recomputed_activations_change_no_bit(corpus, undisturbed, tmp_path, name):
    """Dropout too is the same as the first time."""
    kept_log, kept = undisturbed(name)
    again_log, again = train(corpus, tmp_path / "again", with_dropout(name), activations="recompute")
    assert again_log == kept_log
    assert all(torch.equal(again[weight], kept[weight]) for weight in kept)


HALF = {"every_steps": STEPS // 2}
SOME = ("veco", "xlm-e", "ernie-m", "ppa")
PARALLEL = ("replicate", "shard")


def mixes_of(parallel: str, request: pytest.FixtureRequest) -> list[str]:
    whole = request.config.getoption("--whole")
    return [name for name in MIXES if whole or name in SOME or random.Random(name).choice(PARALLEL) == parallel]


OF_TWO = """
import sys
sys.path.insert(0, {scripts!r})
import engine.dist
import pretrain

engine.dist.LARGE = 100  # some gradients by themselves, some in one message
close, pretrain.Ranks.close = pretrain.Ranks.close, lambda ranks: None  # the next run meets the same others
whole = pretrain.rate_of


def cut(run, step):
    if step == 11:
        raise KeyboardInterrupt
    return whole(run, step)


for interrupted, sys.argv in {calls!r}:
    if interrupted:
        pretrain.rate_of = cut
        try:
            pretrain.main()
        except KeyboardInterrupt:
            pretrain.rate_of = whole
        assert pretrain.rate_of is whole
    assert pretrain.main() == 0
close(pretrain.Ranks())
"""


@pytest.fixture(scope="module")
def two(corpus, tmp_path_factory, request) -> Path:
    """All mixes in one start of two processes. Of some also interrupted, with blocks that are computed again, inside
    what is cut or beside gradients that are summed."""
    folder, calls = tmp_path_factory.mktemp("two"), []

    def call(where: str, name: str, **changes: str) -> None:
        write(folder / where / name, MIXES[name], **changes)
        calls.append((where.startswith("cut"), command(corpus, folder / where / name, "--world-size", "2")[1:]))

    for parallel in PARALLEL:
        for name in mixes_of(parallel, request):
            call(parallel, name, parallel=parallel, checkpoint=HALF)
        for name in SOME:
            call(f"cut/{parallel}", name, parallel=parallel, activations="recompute")
    script = folder / "all.py"
    script.write_text(OF_TWO.format(scripts=str(Path(pretrain.__file__).parent), calls=calls))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*ready.torchrun(), str(script)], capture_output=True, text=True, timeout=900, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("parallel", PARALLEL)
def test_two_processes_equal_one(one, two, parallel, request):
    """Some mixes both ways and the others one of them; all both with --whole."""
    for name in mixes_of(parallel, request):
        assert not differences(one[name], log(two / parallel / name)), name
    for name in SOME:
        assert log(two / "cut" / parallel / name) == log(two / parallel / name), name
