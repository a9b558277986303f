"""A step asks the device for nothing until its end: one question waits for everything before it.

On a GPU torch itself watches. On a CPU every tensor that a GPU would hold is followed from its birth, and whatever
would have to bring one of them to the host is an error.
"""

import warnings

import pytest
import torch
from small_gpu import OnDevice, fed, host_batches, model_of, run_of, sources  # noqa: F401  (a fixture)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

import pretrain
from engine import by_hand
from engine.objectives import OBJECTIVES
from engine.objectives.btmlm import is_among
from training.readings import read

# The others count on the device what their data decide: dwa, word-recovery, hictl, translation.
CASES = ["mmlm", "tlm", "camlm", "camlm-append", "btmlm", "btmlm-sample", "btmlm-before", "mrtd", "trtd", "trtd-eval"]
CASES += ["veco-mono", "veco-pairs", "ppa", "ppa-mlm", "xlco", "nsp", "paraphrase", "denoising", "spans"]
ASKING = {
    torch.ops.aten.nonzero.default,
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.bincount.default,
    torch.ops.aten._unique2.default,
    torch.ops.aten.unique_consecutive.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.isin.Tensor_Tensor,
    torch.ops.aten.repeat_interleave.Tensor,
}


class Watched(TorchDispatchMode):
    """Tensors of the `device`: those given, what is sent (copied without waiting), and whatever is computed of them."""

    def __init__(self, tensors: list[Tensor]):
        super().__init__()
        self.device = WeakTensorKeyDictionary(dict.fromkeys(tensors, True))

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        named = named or {}
        given = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, Tensor)]
        of_device = any(leaf in self.device for leaf in given)
        sent = operation is torch.ops.aten._to_copy.default and named.get("non_blocking")
        if of_device:
            by_truth = operation is torch.ops.aten.index.Tensor and any(
                leaf is not None and leaf.dtype == torch.bool for leaf in arguments[1]
            )
            if operation in ASKING or by_truth:
                raise AssertionError(f"{operation} waits for the device")
        found = operation(*arguments, **named)
        if of_device or sent:
            for leaf in tree_leaves(found):
                if isinstance(leaf, Tensor):
                    self.device[leaf] = True
        return found


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_asked_before_the_end_of_a_step(sources, device, case, monkeypatch):  # noqa: F811
    monkeypatch.setattr(by_hand, "answers_at_once", lambda _: False)  # the CPU here stands for a GPU
    run = run_of(sources, case)
    [(objective, batches)] = host_batches(run, sources)
    model = model_of(run, device)
    own, ranks = OBJECTIVES[objective.name], OnDevice(device)

    def step() -> None:
        given = fed(batches, device, "dense")
        readings = pretrain.accumulate(model, run, objective, given, ranks)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if own.after_step:
            own.after_step(model, given, ranks)
        seen.append(readings)

    seen: list = []
    if device.type == "cuda":
        step()  # the libraries' first calls may wait
        torch.cuda.set_sync_debug_mode("error")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        with Watched([*model.parameters(), *model.buffers()]):
            step()
    signals, _ = read(seen[-1:], ranks)
    assert signals[f"{objective.name}/loss"] > 0


def test_the_watch_sees_a_question():
    weight = torch.ones(3)
    for ask in (float, torch.nonzero, lambda own: own[own > 0]):
        with pytest.raises(AssertionError, match="waits for the device"), Watched([weight]):
            ask(weight.clone() * 2 if ask is not float else (weight * 2).sum())


@pytest.mark.parametrize(("keys", "known"), [(0, 0), (7, 0), (0, 7), (9, 1), (1000, 700), (3000, 5), (5, 3000)])
def test_what_is_among_others_is_told_without_waiting(device, keys, known):
    generator = torch.Generator().manual_seed(keys + known)
    asked, others = (torch.randint(0, 900, (n,), generator=generator) for n in (keys, known))
    assert torch.equal(is_among(asked.to(device), others.to(device)).cpu(), torch.isin(asked, others))
