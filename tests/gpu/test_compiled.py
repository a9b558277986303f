"""Compiled layers compute what the layers compute, and are compiled a few times, not at every new shape.

On a CPU the compiler traces and differentiates, and leaves the kernels as they are; on a GPU it writes them.
"""

import pytest
import torch
import torch._dynamo
from small_gpu import (
    BIASED,
    distance,
    fed,
    flexible,  # noqa: F401  (a fixture)
    gradients,
    host_batches,
    model_of,
    run_of,
    sources,  # noqa: F401  (a fixture)
)
from torch._dynamo.utils import counters

from engine.compiling import METHODS, compile_parts
from engine.model import Block, CrossAttention

CASES = [(case, "dense") for case in ("mmlm", "tlm", "trtd", "veco-pairs", "ppa", "btmlm", "camlm", "spans")]
ON_GPU = [("tlm", "segments"), ("ppa", "segments"), ("mmlm", "blocks"), ("trtd", "blocks"), ("veco-pairs", "blocks")]
ON_GPU += [("camlm", "blocks")]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def both(sources, device, case: str, masks: str) -> None:  # noqa: F811
    precision = "bf16" if masks == "segments" and device.type == "cuda" else "fp32"
    run = run_of(sources, case, precision=precision)
    given = host_batches(run, sources, tile=64)
    found = []
    for compiled in (False, True):
        model = model_of(run, device)
        if compiled:
            compile_parts(model, "inductor" if device.type == "cuda" else "aot_eager")
        moved = [(own, fed(batches, device, masks)) for own, batches in given]
        found.append(gradients(run, model, moved, device))
    (signals, expected), (compiled_signals, own) = found
    name = f"{run.objectives[0].name}/loss"
    assert counters["stats"]["unique_graphs"] > 0
    assert compiled_signals[name] == pytest.approx(signals[name], rel=1e-4 if precision == "fp32" else 0.02)
    assert distance(own, expected) < (1e-3 if precision == "fp32" else 0.05)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "masks"), CASES)
def test_compiled_layers_compute_the_same(sources, device, case, masks):  # noqa: F811
    both(sources, device, case, masks)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "masks"), ON_GPU)
def test_compiled_layers_compute_the_same_with_the_masks_of_a_gpu(sources, flexible, device, case, masks):  # noqa: F811
    if device.type == "cpu" and masks == "segments":
        pytest.skip("segments are a loop on a CPU")
    if device.type == "cpu" and case in BIASED:
        pytest.skip("on a CPU the way back knows no gradient of a bias that is computed within the graph")
    both(sources, device, case, masks)


@pytest.mark.parametrize("masks", ["dense", "segments"])
def test_new_shapes_are_no_new_compilations(sources, device, masks):  # noqa: F811
    """Other numbers of rows, columns, segments and selected tokens: after a second shape, any shape."""
    if device.type == "cpu" and masks == "segments":
        pytest.skip("segments are a loop on a CPU")
    run = run_of(sources, "tlm", precision="bf16" if masks == "segments" else "fp32", rows=24, device_rows=24)
    model = model_of(run, device)
    compile_parts(model, "inductor" if device.type == "cuda" else "aot_eager")
    [(objective, [batch])] = host_batches(run, sources)
    graphs = []
    for rows, width in ((8, 64), (7, 96), (6, 80), (5, 88), (3, 72), (9, 56), (4, 40)):
        cut = batch.each(lambda own, rows=rows, width=width: own[:rows, :width] if own.dim() == 2 else own[:rows])
        gradients(run, model, [(objective, fed([cut], device, masks))], device)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[3] == graphs[-1] <= 16, graphs


def test_a_layer_is_compiled_once_for_all_layers(sources, device):  # noqa: F811
    run = run_of(sources, "mmlm", layers=6)
    model = model_of(run, device)
    names = set(model.state_dict())
    compile_parts(model, "inductor" if device.type == "cuda" else "aot_eager")
    assert set(model.state_dict()) == names
    [(objective, batches)] = host_batches(run, sources)
    gradients(run, model, [(objective, fed(batches[:1], device, "dense"))], device)
    no_decoder = sum(len(methods) for kind, methods in METHODS.items() if kind is not CrossAttention)
    assert counters["stats"]["unique_graphs"] == no_decoder


def test_chunks_of_several_lengths_are_found_again_on_the_way_back(sources, device, monkeypatch):  # noqa: F811
    """Logits are computed anew there: by the compilation that computed them, whichever came after."""
    run = run_of(sources, "mmlm", rows=24, device_rows=24)
    given = host_batches(run, sources, tile=64)
    [(_, [batch])] = given
    found = []
    for chunk, compiled in ((10**6, False), (len(batch.targets) // 2 - 3, True)):
        monkeypatch.setattr("engine.objectives.mlm.CHUNK", chunk)
        model = model_of(run, device)
        if compiled:
            compile_parts(model, "inductor" if device.type == "cuda" else "aot_eager")
        moved = [(own, fed(batches, device, "dense")) for own, batches in given]
        found.append(gradients(run, model, moved, device))
    (signals, expected), (compiled_signals, own) = found
    no_head = sum(len(methods) for kind, methods in METHODS.items() if kind is Block)
    assert counters["stats"]["unique_graphs"] == no_head + 1, "one of the loss, whatever its length"
    assert compiled_signals["mmlm/loss"] == pytest.approx(signals["mmlm/loss"], rel=1e-4)
    assert distance(own, expected) < 1e-3
