"""benchmarks/gpu.py, small: every contestant trains, and the figures are what they are called."""

import json
import sys

import pytest

import gpu

SMALL = [
    "--layers",
    "2",
    "--width",
    "64",
    "--vocabulary",
    "500",
    "--rows",
    "4",
    "--row-length",
    "64",
    "--minutes",
    "0.01",
]
SMALL += ["--device-rows", "2", "--turns", "2", "--steps", "1", "--first-steps", "1"]


@pytest.fixture()
def figures(device, tmp_path, monkeypatch) -> dict:
    monkeypatch.setattr(sys, "argv", ["gpu.py", *SMALL, "--device", device.type, "--share-of-turns", "0", "--out"])
    monkeypatch.setattr(gpu, "SENTENCES", 200)
    sys.argv += [str(tmp_path / "gpu.json")]
    assert gpu.main() in ((0,) if device.type == "cpu" else (0, 1))  # so small, a GPU reaches no goal
    return json.loads((tmp_path / "gpu.json").read_text())


def test_every_contestant_is_measured_or_says_why_not(figures, device):
    methods = figures["methods"]
    assert set(gpu.objectives_of(2)) <= set(methods)
    assert set(methods) - set(gpu.objectives_of(2)) <= {gpu.USUAL, gpu.TRICK}
    whole = {name: own for name, own in methods.items() if "mfu" in own}
    assert gpu.BASELINE in whole and all("no time" in methods[name]["failed"] for name in set(methods) - set(whole))
    rate = figures["matrix_product_tflops"] * 1e12
    for own in whole.values():
        assert len(own["seconds"]) == len(own["tokens"]) == 2
        # an odd number of turns has a middle; of two, the mean
        speed = sum(n / s for n, s in zip(own["tokens"], own["seconds"], strict=True)) / 2
        assert own["tokens_per_second"] == pytest.approx(speed, rel=0.02)
        assert own["mfu"] == pytest.approx(speed * own["flops_per_token"] / rate, rel=0.1, abs=1e-3)
        assert ("peak_gib" in own) == (device.type == "cuda")
    assert whole[gpu.BASELINE]["time_per_token"] == whole[gpu.BASELINE]["flops_per_token_relative"] == 1
    goals = {name: own["goal"] for name, own in figures["goals"].items()}
    assert goals[f"{gpu.BASELINE}: MFU"] == (gpu.MFU_GOAL if device.type == "cuda" else None)
    assert {"torch", "python"} <= set(figures["versions"]) and figures["date"] and figures["device"]


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
