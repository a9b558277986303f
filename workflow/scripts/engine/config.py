"""The resolved run, typed. One dataclass per concern; an unknown or missing key is an error that names it."""

import typing
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import UserError
from common.typed import build
from common.yamlfiles import read_resolved
from engine.options import DESCRIPTIONS, check_restart
from engine.shape import ModelConfig
from engine.streams import Source


@dataclass(frozen=True)
class MaskSpec:
    """BERT's recipe: `rate` of the tokens are selected; of these 80 % become <mask>, 10 % a random token, 10 % stay."""

    rate: float = 0.15
    mask: float = 0.8
    random: float = 0.1
    keep: float = 0.1

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise UserError(f"mask.rate: {self.rate} is not between 0 and 1")
        if abs(self.mask + self.random + self.keep - 1) > 1e-9:
            raise UserError("mask: the shares mask, random and keep must sum to 1")


@dataclass(frozen=True)
class ObjectiveConfig:
    name: str
    weight: float = 1.0
    mask: MaskSpec = field(default_factory=MaskSpec)
    pair_separators: int = 2  # </s> between the sides: 2 in ERNIE-M and VECO, 1 in InfoXLM, XLM-Align and XLM-E
    reset_positions: bool = False  # XLM numbers the second side from the start again
    rows: int | None = None  # in place of batch.rows
    row_length: int | None = None
    block_length: int | None = None  # of monolingual text, in tokens; None: the whole row
    block_sentences: int | None = None  # lines of text in one block, at most; None: as many as fit
    packing: bool = True  # several pairs (or blocks shorter than a row) in one row
    draws: str | None = None  # objectives with one value here draw the same items with the same random choices
    options: typing.Any = field(default_factory=dict)  # of this objective alone: a class of engine/options.py
    sources: tuple[Source, ...] = ()  # of all kinds of data, from the sampling plan; pretrain.py fills it in

    def __post_init__(self):
        if self.name in DESCRIPTIONS and isinstance(self.options, dict):
            object.__setattr__(self, "options", build(DESCRIPTIONS[self.name].options, self.options, "options"))

    @property
    def draws_as(self) -> str:
        return self.draws or self.name


@dataclass(frozen=True)
class BatchConfig:
    rows: int  # of each objective and step, over all devices
    row_length: int
    device_rows: int  # rows of one forward pass on one device; the rest is accumulated


@dataclass(frozen=True)
class OptimizerConfig:
    peak_lr: float
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip: float = 1.0


@dataclass(frozen=True)
class FirstPhase:
    """Steps at the start that train some modules alone, at a constant rate; the optimiser starts afresh after them."""

    steps: int
    train: tuple[str, ...]  # modules of the model; everything else is frozen
    warmup_steps: int


@dataclass(frozen=True)
class ScheduleConfig:
    steps: int  # the first phase included
    warmup_steps: int
    decay: str = "linear"
    alternate: bool = False  # one objective a step, in turn, instead of all of them
    first: FirstPhase | None = None

    def __post_init__(self):
        if self.decay != "linear":
            raise UserError(f"schedule.decay: `{self.decay}` is unknown; known: linear")
        if not 0 <= self.warmup_steps <= self.steps:
            raise UserError(f"schedule.warmup_steps: {self.warmup_steps} is not between 0 and steps ({self.steps})")


@dataclass(frozen=True)
class InitConfig:
    """Start from the final weights of another run. New parts must be named: whatever else is missing is an error."""

    run: str
    fresh: tuple[str, ...] = ()  # modules, or prefixes of weights, that keep their random initialisation
    frozen: tuple[str, ...] = ()  # prefixes of weights that are never trained
    decoder: str | None = None  # first or last: copies of the first or last layers of a VECO run become the decoder
    run_hash: str = ""  # of that run; the plan writes it, so that a changed parent makes this another run


@dataclass(frozen=True)
class CheckpointConfig:
    every_steps: int = 1000
    keep: int = 2
    snapshots: int = 0  # weights that are kept for good, equally spaced, the last ones those of the last step
    average: int = 1  # the final weights are the mean of so many snapshots, the last ones

    def __post_init__(self):
        if self.average > max(1, self.snapshots):
            raise UserError(
                f"checkpoint.average: {self.average} of {self.snapshots} snapshots; keep more, or average less"
            )


@dataclass(frozen=True)
class RunConfig:
    name: str
    data: dict
    model: ModelConfig
    objectives: tuple[ObjectiveConfig, ...]
    batch: BatchConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    init: InitConfig | None = None
    precision: str = "fp32"
    normalisation: str = "objective"  # a mean of each objective, or joint: their sums over one common count
    parallel: str = "replicate"  # shard: blocks and their optimiser state are cut over the devices (FSDP2)
    activations: str = "keep"  # recompute: blocks again on the way back, to keep less of them
    numerics: int = 1  # raised by hand when the engine's results change on purpose
    kind: str = "pretrain"
    finetune_recipe: str | None = None  # for the evaluation jobs; the engine does not read it
    run_hash: str = ""


def load_run(path: Path) -> RunConfig:
    values = read_resolved(path)
    try:
        run = build(RunConfig, values, "")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    for objective in run.objectives:
        if objective.name not in DESCRIPTIONS:
            known = ", ".join(DESCRIPTIONS)
            raise UserError(f"{path}: objectives: `{objective.name}` is unknown to the engine; known: {known}")
        where = f"{path}: objectives: {objective.name}.reset_positions"
        check_restart(objective.reset_positions, run.model.languages, run.model.token_types, where)
        length = objective.row_length or run.batch.row_length
        if length > run.model.positions - 2:
            raise UserError(
                f"{path}: rows of {length} tokens need model.positions >= {length + 2}, not {run.model.positions}"
            )
    for key, value, known in (
        ("precision", run.precision, ("fp32", "bf16")),
        ("parallel", run.parallel, ("replicate", "shard")),
        ("activations", run.activations, ("keep", "recompute")),
        ("normalisation", run.normalisation, ("objective", "joint")),
    ):
        if value not in known:
            raise UserError(f"{path}: {key}: `{value}` is unknown; known: {', '.join(known)}")
    return run
