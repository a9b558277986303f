"""Every objective in small, computed the plain way on a CPU and the way a GPU is fed, on either."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pretrain
import training.assembly
from engine import attention
from engine.config import BatchConfig, MaskSpec, ObjectiveConfig, OptimizerConfig, RunConfig, ScheduleConfig
from engine.data import Mixture
from engine.dist import Ranks
from engine.objectives import OBJECTIVES
from engine.objectives.base import Batch, whole_width
from engine.shape import ModelConfig, RelativeBias
from engine.streams import Source
from small_corpus import VOCABULARY, plan_rows, write_corpus
from training.assembly import PretrainingModel, build_mixture, tell_sources
from training.readings import read

MODEL = ModelConfig(2, 64, 2, 128, 98, VOCABULARY, dropout=0.0, attention_dropout=0.0, init_std=0.1)
ALL_MASKED = MaskSpec(0.15, 1.0, 0.0, 0.0)
CASES: dict[str, ObjectiveConfig] = {
    "mmlm": ObjectiveConfig("mmlm", block_sentences=1),
    "tlm": ObjectiveConfig("tlm", reset_positions=True),
    "camlm": ObjectiveConfig("camlm", mask=ALL_MASKED),
    "camlm-append": ObjectiveConfig("camlm", mask=ALL_MASKED, options={"masks": "append"}),
    "btmlm": ObjectiveConfig("btmlm", block_sentences=1, options={"start_share": 0.0}),
    "btmlm-sample": ObjectiveConfig("btmlm", options={"start_share": 0.0, "decoding": "sample"}),
    "btmlm-before": ObjectiveConfig("btmlm", block_sentences=1, options={"start_share": 1.0}),
    "mrtd": ObjectiveConfig("mrtd", mask=ALL_MASKED, options={"generator_layers": 1}),
    "trtd": ObjectiveConfig("trtd", mask=ALL_MASKED, pair_separators=1, options={"generator_layers": 1}),
    "trtd-eval": ObjectiveConfig("trtd", mask=ALL_MASKED, options={"generator_layers": 1, "sampling": "eval"}),
    "veco-mono": ObjectiveConfig("veco-mono"),
    "veco-pairs": ObjectiveConfig("veco-pairs", mask=MaskSpec(0.25)),
    "ppa": ObjectiveConfig("ppa", pair_separators=1, options={"queue": 64, "projection": 32}),
    "ppa-mlm": ObjectiveConfig("ppa", options={"queue": 64, "projection": 32, "sentences": "mlm"}),
    "xlco": ObjectiveConfig("xlco", options={"queue": 64, "layer": 1, "temperature": 20.0}),
    "dwa": ObjectiveConfig("dwa", pair_separators=1, options={"layer": 1}),
    "nsp": ObjectiveConfig("nsp"),
    "word-recovery": ObjectiveConfig("word-recovery"),
    "paraphrase": ObjectiveConfig("paraphrase"),
    "cross-lingual-mlm": ObjectiveConfig("cross-lingual-mlm"),
    "code-switch": ObjectiveConfig("code-switch"),
    "hictl": ObjectiveConfig("hictl"),
    "denoising": ObjectiveConfig("denoising", options={"decoder_layers": 1}),
    "spans": ObjectiveConfig("spans", options={"decoder_layers": 1}),
    "translation": ObjectiveConfig("translation", options={"decoder_layers": 1}),
}
assert {case.name for case in CASES.values()} == set(OBJECTIVES)
BIASED = ("mrtd", "trtd", "trtd-eval")  # XLM-E's models
DRAWING = ("btmlm", "btmlm-sample", "mrtd", "trtd", "trtd-eval", "dwa")  # what is likeliest may differ by a rounding


@pytest.fixture(scope="session")
def sources(tmp_path_factory) -> dict[str, list[Source]]:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, shards=1)
    found: dict[str, list[Source]] = {"mono": [], "bitext": []}
    for kind, corpus, name, q in plan_rows():
        found[kind].append(Source(kind, corpus, name, q, (folder / kind / corpus / name / "0.json",)))
    return found


def run_of(
    sources: dict[str, list[Source]],
    *cases: str,
    precision: str = "fp32",
    rows: int = 8,
    device_rows: int = 4,
    **model: object,
) -> RunConfig:
    bias = RelativeBias(16, 32) if set(cases) & set(BIASED) else None
    run = RunConfig(
        name="small",
        data={},
        model=dataclasses.replace(MODEL, relative_bias=bias, **model),
        objectives=tuple(CASES[case] for case in cases),
        batch=BatchConfig(rows, row_length=96, device_rows=device_rows),
        optimizer=OptimizerConfig(peak_lr=1e-3),
        schedule=ScheduleConfig(steps=100, warmup_steps=0),
        precision=precision,
    )
    return tell_sources(run, sources)


class OnDevice(Ranks):
    """One process on the device that the test names, whichever there are."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device = device


def model_of(run: RunConfig, device: torch.device, seed: int = 1) -> nn.Module:
    """The same weights on every device."""
    torch.manual_seed(seed)
    return PretrainingModel(run).to(device).train()


def mixtures_of(run: RunConfig, sources: dict[str, list[Source]]) -> list[Mixture]:
    return [build_mixture(run, objective, sources, 1, "test") for objective in run.objectives]


def fed(batches: list[Batch], device: torch.device, masks: str) -> list[Batch]:
    """Host batches as a GPU gets them: twins, and masks that are no matrix. On a CPU they move nowhere."""
    return [dataclasses.replace(batch, masks=masks).to(device) for batch in batches]


def host_batches(
    run: RunConfig, sources: dict[str, list[Source]], step: int = 50, tile: int = 1
) -> list[tuple[ObjectiveConfig, list[Batch]]]:
    cpu = OnDevice(torch.device("cpu"))
    found = []
    for objective, mixture in zip(run.objectives, mixtures_of(run, sources), strict=True):
        with tiles_of(tile):
            batches = training.assembly.host_batches(mixture.assemble(mixture.next_layout()), objective, run, cpu, step)
        found.append((objective, [dataclasses.replace(batch, tile=tile) for batch in batches]))
    return found


@contextmanager
def tiles_of(tile: int) -> Iterator[None]:
    """Widths as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        whole = whole_width
        patch.setattr("training.assembly.whole_width", lambda used, _, most: whole(used, tile, most))
        yield


def gradients(
    run: RunConfig,
    model: nn.Module,
    given: list[tuple[ObjectiveConfig, list[Batch]]],
    device: torch.device,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Signals and gradients of one step, on the CPU in fp64."""
    ranks = OnDevice(device)
    model.zero_grad()
    torch.manual_seed(7)
    readings = [pretrain.accumulate(model, run, objective, batches, ranks) for objective, batches in given]
    signals, _ = read(readings, ranks)
    found = {name: p.grad.detach().double().cpu() for name, p in model.named_parameters() if p.grad is not None}
    return signals, found


def distance(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """|found - expected| / |expected| of all gradients together; not a number if any of them is none."""
    assert found.keys() == expected.keys()
    difference = sum(float((found[name] - expected[name]).square().sum()) for name in expected)
    return (difference / sum(float(own.square().sum()) for own in expected.values())) ** 0.5


@pytest.fixture()
def flexible(monkeypatch):
    """FlexAttention on a CPU too: there it is traced and differentiated, and its kernels stay as they are written."""
    of_gpu = attention.compiled_flex_attention()  # which also raises the limit of variants
    of_cpu = torch.compile(attention.flex_attention, backend="aot_eager", fullgraph=True)

    def chosen():
        return lambda query, *rest, **named: (of_gpu if query.is_cuda else of_cpu)(query, *rest, **named)

    monkeypatch.setattr(attention, "compiled_flex_attention", chosen)
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None, raising=False)


def path_of(module: object) -> Path:
    return Path(module.__file__)
