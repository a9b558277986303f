"""benchmarks/gpu.py, small: every contestant trains, and the figures are what they are called."""

import importlib.util
import json
import sys
import threading
from pathlib import Path

import pytest

import gpu

SHAPE = {"layers": 2, "width": 64, "vocabulary": 500, "rows": 4, "row-length": 64, "device-rows": 2, "compile": "off"}
SHAPE |= {"minutes": 10, "turns": 2, "most-turns": 2, "steps": 1, "first-steps": 1}
SMALL = [word for key, value in SHAPE.items() for word in (f"--{key}", str(value))]


@pytest.fixture()
def small(device, tmp_path, monkeypatch) -> Path:
    """Where the figures are written."""
    monkeypatch.setattr(gpu, "SENTENCES", 200)
    monkeypatch.setattr(sys, "argv", ["gpu.py", *SMALL, "--device", device.type, "--out", str(tmp_path / "gpu.json")])
    return tmp_path / "gpu.json"


def test_every_contestant_is_measured(small, device):
    assert gpu.main() in ((0,) if device.type == "cpu" else (0, 1))  # so small, a GPU reaches no goal
    figures = json.loads(small.read_text())
    methods, rivals = figures["methods"], [gpu.USUAL, gpu.TRICK] * bool(importlib.util.find_spec("transformers"))
    assert figures["finished"] and set(methods) == {*gpu.objectives_of(2), *rivals}
    whole = {name: own for name, own in methods.items() if "mfu" in own and "failed" not in own}
    assert whole.keys() == methods.keys(), {name: own.get("failed") for name, own in methods.items()}
    rate = figures["matrix_product_tflops"] * 1e12
    for own in whole.values():
        assert len(own["seconds"]) == len(own["tokens"]) == 2
        # an odd number of turns has a middle; of two, the mean
        per_second = {
            what: sum(n / seconds for n, seconds in zip(own[what], own["seconds"], strict=True)) / 2
            for what in ("tokens", "flops")
        }
        assert own["tokens_per_second"] == pytest.approx(per_second["tokens"], rel=0.02)
        assert own["mfu"] == pytest.approx(per_second["flops"] / rate, rel=0.02, abs=1e-3)
        per_token = sum(f / n for f, n in zip(own["flops"], own["tokens"], strict=True)) / 2
        assert own["flops_per_token"] == pytest.approx(per_token, rel=0.001)
        assert ("peak_gib" in own) == (device.type == "cuda")
    assert whole[gpu.BASELINE]["time_per_token"] == whole[gpu.BASELINE]["flops_per_token_relative"] == 1
    goals = {name: own["goal"] for name, own in figures["goals"].items()}
    assert goals[f"{gpu.BASELINE}: MFU"] == (gpu.MFU_GOAL if device.type == "cuda" else None)
    kernels = figures["attention_kernels"]
    assert "math" in kernels["enabled"] and (device.type == "cpu" or "cudnn" not in kernels["enabled"])
    assert {"torch", "python"} <= set(figures["versions"]) and figures["date"] and figures["device"]


def test_one_that_fails_is_named_and_the_others_go_on(small, device, monkeypatch):
    """While it is built, and in its second turn; --out has at every time what is known by then."""
    step, failed = gpu.Ours.step, []

    def broken(self, run, *rest, init=gpu.Ours.__init__):
        if run.name == "XLM-E":
            raise RuntimeError("no kernel for this\nand a second line")
        init(self, run, *rest)

    def tired(self):
        if self.run.name == "PPA" and (done := json.loads(small.read_text())["methods"].get("PPA", {}).get("seconds")):
            failed.append(len(done))
            raise ValueError("too many tokens")
        return step(self)

    monkeypatch.setattr(gpu.Ours, "__init__", broken)
    monkeypatch.setattr(gpu.Ours, "step", tired)
    sys.argv += ["--only", "MMLM", "XLM-E", "PPA"]
    assert gpu.main() == 1
    methods = json.loads(small.read_text())["methods"]
    assert methods["XLM-E"]["failed"] == "RuntimeError: no kernel for this"
    assert any("no kernel for this" in line for line in methods["XLM-E"]["traceback"])
    assert methods["PPA"]["failed"] == "ValueError: too many tokens" and len(methods["PPA"]["seconds"]) == 1
    assert len(methods["MMLM"]["seconds"]) == 2 and methods["MMLM"]["mfu"] > 0
    assert failed == [1]
    assert "ahead" not in {thread.name for thread in threading.enumerate()}


def test_a_killed_run_leaves_what_it_measured(small, device, monkeypatch):
    timed, taken = gpu.timed, []

    def stopped(*given):
        taken.append(given)
        if len(taken) == 4:  # after the first steps of two, and a turn of one
            raise KeyboardInterrupt
        return timed(*given)

    monkeypatch.setattr(gpu, "timed", stopped)
    sys.argv += ["--only", "MMLM", "TLM"]
    with pytest.raises(KeyboardInterrupt):
        gpu.main()
    figures = json.loads(small.read_text())
    assert not figures["finished"] and [*figures["methods"]] == ["MMLM", "TLM"]
    assert all("first_steps_seconds" in own for own in figures["methods"].values())


def test_the_data_sheet_knows_a_card_by_its_name():
    assert gpu.data_sheet_peak("NVIDIA H200") == gpu.data_sheet_peak("NVIDIA H100 80GB HBM3") == 989.4e12
    assert gpu.data_sheet_peak("NVIDIA A100-SXM4-80GB") == 312e12
    assert {gpu.data_sheet_peak(name) for name in ("NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA B200")} == {None}


def test_the_thread_rests_when_its_rows_are_drawn():
    made, go_on = [], threading.Event()
    ours = object.__new__(gpu.Ours)
    ours.at_rest = threading.Event()

    def slow():
        for number in range(3):
            go_on.wait(10)
            made.append(number)
            yield number

    with gpu.ahead(ours.told(slow())) as numbers:
        assert not ours.at_rest.wait(0.05) and not made
        go_on.set()
        assert next(numbers) == 0
        while len(made) < 2:
            ours.rest()
        ours.rest()
        assert made == [0, 1]


def test_flops_per_token_are_those_of_the_shape():
    """MMLM by hand: 3 forward passes of 12 products a layer, attention over the row, and logits of 15 in 100 tokens."""
    arguments = gpu.make_parser().parse_args([])
    h, f, s, v = 768, 3072, 512, 250_002
    seen = gpu.cost.Seen(1000.0, 150.0, 2.0, 1000.0 * s)
    run = gpu.run_of(arguments, gpu.BASELINE, {"mono": [], "bitext": []})
    by_hand = 3 * (12 * (8 * h * h + 4 * h * f + 4 * s * h) + 0.15 * (2 * h * v + 2 * h * h))
    assert gpu.cost.flops(run, {"mmlm": seen})["mmlm"]["ours"] / 1000 == pytest.approx(by_hand)


def test_goals_are_met_from_the_right_side():
    assert gpu.is_met("MMLM: MFU", 0.46, 0.45) and not gpu.is_met("MMLM: MFU", 0.44, 0.45)
    assert gpu.is_met("PPA: cost, at most", 1.2, 1.25) and not gpu.is_met("PPA: cost, at most", 1.3, 1.25)
    assert gpu.is_met("PPA: cost, at most", 9.0, None)
