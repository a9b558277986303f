"""What a GPU makes of the engine: tokens per second, model FLOP utilisation and peak memory of every method at base
size, beside transformers' XLM-R on the same rows, and beside the rate of the card's matrix product.

Everything is made up and held in a temporary folder; torch is all that it needs, and transformers for the comparison.
A step is the training loop's own: rows drawn, packed and corrupted in a thread meanwhile, all passes, clipping, AdamW,
the hooks of the objective, one look at the losses. transformers' XLMRobertaForMaskedLM has its rows on the device
beforehand and runs as fast as it knows how: sdpa, bf16, compiled, fused AdamW; once as its users run it (labels of
-100, logits of every token) and once with our trick (logits of the selected tokens alone).

Contestants are built and warmed up one after another, then take turns, each turn in another order. Figures are medians
over the turns; a ratio is the median of the ratios of the turns. MFU counts FLOPs as engine/cost.py does (`ours`:
matrix products, a trained pass is three forward passes, nothing for what is computed again) and divides by the measured
rate of a bf16 product of random matrices; for transformers, by the FLOPs that MMLM needs for these tokens.

    python benchmarks/gpu.py --out gpu.json                        # about eight minutes
    python benchmarks/gpu.py --device cpu --layers 2 --width 64 --vocabulary 1000 --rows 4 --row-length 64 --minutes 0.3
"""

import argparse
import contextlib
import datetime
import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "workflow" / "scripts"), str(Path(__file__).resolve().parent)]
for missing in ("safetensors", "sentencepiece", "yaml"):  # the engine imports them, and nothing here uses them
    if importlib.util.find_spec(missing) is None:
        sys.modules |= {name: MagicMock() for name in (missing, f"{missing}.torch")}
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # as pretrain.py, whichever comes first

import torch  # noqa: E402
from loader_throughput import make_sources  # noqa: E402
from train_step import processor, their_step  # noqa: E402

import pretrain  # noqa: E402
from engine import cost  # noqa: E402
from engine.ahead import ahead  # noqa: E402
from engine.compiling import compile_parts  # noqa: E402
from engine.config import BatchConfig, ObjectiveConfig, OptimizerConfig, RunConfig, ScheduleConfig  # noqa: E402
from engine.corruption import MaskSpec  # noqa: E402
from engine.data import Source  # noqa: E402
from engine.dist import Ranks  # noqa: E402
from engine.model import ModelConfig, RelativeBias  # noqa: E402
from engine.optim import clip_gradients  # noqa: E402
from errors import run_main  # noqa: E402

ALL_MASKED = MaskSpec(0.15, 1.0, 0.0, 0.0)
BASELINE = "MMLM"
USUAL, TRICK = "transformers", "transformers, selected tokens alone"
MFU_GOAL, SPEED_GOAL = 0.45, 1.5  # of MMLM; against the better of the two transformers
COST_GOAL = 1.25  # a method's time per token, relative to MMLM's, over its FLOPs per token, relative to MMLM's
SENTENCES = 4000  # per language
FIRST_STEP = 10**5  # in the middle of a training: no objective is still waiting for its turn
RECORD = tuple[float, float, float]  # seconds, tokens, FLOPs


def objectives_of(layers: int) -> dict[str, tuple[ObjectiveConfig, ...]]:
    """The methods as their papers have them, by name; depths inside the network in proportion."""
    fill = {"generator_layers": max(1, layers // 3)}
    return {
        BASELINE: (ObjectiveConfig("mmlm"),),
        "TLM": (ObjectiveConfig("tlm"),),
        "ERNIE-M": (
            ObjectiveConfig("mmlm"),
            ObjectiveConfig("btmlm", block_sentences=1, options={"start_share": 0.0}),
            ObjectiveConfig("camlm", mask=ALL_MASKED),
            ObjectiveConfig("tlm"),
        ),
        "XLM-E": (
            ObjectiveConfig("mrtd", mask=ALL_MASKED, options=fill),
            ObjectiveConfig("trtd", mask=ALL_MASKED, pair_separators=1, options=fill),
        ),
        "VECO": (ObjectiveConfig("veco-mono"), ObjectiveConfig("veco-pairs", mask=MaskSpec(0.25))),
        "PPA": (ObjectiveConfig("ppa", pair_separators=1),),
    }


def run_of(arguments: argparse.Namespace, name: str, sources: dict[str, list[Source]]) -> RunConfig:
    width = arguments.width
    bias = RelativeBias() if name == "XLM-E" else None
    run = RunConfig(
        name=name,
        data={},
        model=ModelConfig(
            *(arguments.layers, width, width // 64, 4 * width, arguments.row_length + 2, arguments.vocabulary),
            attention_dropout=arguments.attention_dropout,
            relative_bias=bias,
        ),
        objectives=objectives_of(arguments.layers)[name],
        batch=BatchConfig(arguments.rows, arguments.row_length, min(arguments.device_rows, arguments.rows)),
        optimizer=OptimizerConfig(peak_lr=1e-5),
        schedule=ScheduleConfig(steps=10**6, warmup_steps=1),
        precision=arguments.precision,
    )
    return pretrain.tell_sources(run, sources)


class Ours:
    """A run in the middle of its training."""

    def __init__(self, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks, compiled: bool):
        torch.manual_seed(1)
        self.run, self.ranks = run, ranks
        self.model = pretrain.PretrainingModel(run).to(ranks.device).train()
        if compiled:
            compile_parts(self.model)
        self.optimizer = pretrain.new_optimizer(self.model, run, pretrain.frozen_weights(self.model, run), FIRST_STEP)
        mixtures = [pretrain.build_mixture(run, objective, sources, 1, "made up") for objective in run.objectives]
        pretrain.start_objectives(self.model, run, mixtures, ranks)
        self.held = contextlib.ExitStack()
        self.steps = self.held.enter_context(ahead(pretrain.give_all(run, mixtures, ranks, FIRST_STEP)))
        self.masks = pretrain.masks_of(run, ranks.device)

    def step(self) -> tuple[float, float]:
        """Tokens and FLOPs."""
        given = next(self.steps)
        self.optimizer.zero_grad(set_to_none=True)
        readings, done = pretrain.learn(self.model, self.run, given, self.ranks, seed=1)
        norm = clip_gradients(self.model, self.run.optimizer.clip, self.ranks)
        self.optimizer.step()
        for objective, batches in done:
            if after_step := pretrain.OBJECTIVES[objective.name].after_step:
                after_step(self.model, batches, self.ranks)
        signals, _ = pretrain.read(readings, self.ranks, norm)
        seen = pretrain.seen_over(self.run, signals)
        flops = sum(own["ours"] for own in cost.flops(self.run, seen).values())
        return sum(own.tokens for own in seen.values()), flops

    def close(self) -> None:
        self.held.close()


class Theirs:
    """transformers on MMLM's rows. A step is as many passes as ours has, an update after each."""

    masks = "sdpa"

    def __init__(self, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks, compiled: bool, trick: bool):
        torch.manual_seed(1)
        [mixture] = [pretrain.build_mixture(run, own, sources, 1, "made up") for own in run.objectives]
        rows = mixture.assemble(mixture.next_layout())
        self.batches = pretrain.micro_batches(rows, run.objectives[0], run, ranks)
        self.do = their_step(run, trick, ranks.device, compiled)
        self.run = run

    def step(self) -> tuple[float, float]:
        tokens = flops = 0.0
        for batch in self.batches:
            self.do(batch)
            seen = cost.Seen(*map(float, self.counted(batch)))
            tokens += seen.tokens
            flops += cost.flops(self.run, {self.run.objectives[0].name: seen})["mmlm"]["ours"]
        return tokens, flops

    def counted(self, batch: pretrain.Batch) -> tuple[int, int, int, int]:
        tokens, items, attended = pretrain.seen_in(batch.host)
        return tokens, len(batch.targets), items, attended

    def close(self) -> None:
        pass


def matrix_rate(device: torch.device, size: int) -> float:
    """FLOP/s of a bf16 product of random matrices: the median of twenty, after five."""
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    seconds = []
    for _ in range(25):
        wait(device)
        started = time.perf_counter()
        torch.mm(a, b)
        wait(device)
        seconds.append(time.perf_counter() - started)
    return 2 * size**3 / statistics.median(seconds[5:])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(contestant: Ours | Theirs, device: torch.device, steps: int) -> RECORD:
    wait(device)
    started, done = time.perf_counter(), [contestant.step() for _ in range(steps)]
    wait(device)
    return time.perf_counter() - started, sum(tokens for tokens, _ in done), sum(flops for _, flops in done)


def built(build: Callable[[], Ours | Theirs], device: torch.device, steps: int) -> tuple[Ours | Theirs | None, dict]:
    """A contestant after its first steps, which compile; what it needs at most, the others' memory not counted."""
    gc.collect()
    before = 0
    if device.type == "cuda":
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter()
    try:
        contestant = build()
        for _ in range(steps):
            timed(contestant, device, 1)
    except torch.OutOfMemoryError as error:
        return None, {"failed": f"out of memory: {str(error).splitlines()[0]}"}
    told = {"first_steps_seconds": round(time.perf_counter() - started, 1), "masks": contestant.masks}
    if device.type == "cuda":
        told["peak_gib"] = round((torch.cuda.max_memory_allocated(device) - before) / 2**30, 2)
    return contestant, told


def per_token(own: list[RECORD], base: list[RECORD], column: int) -> float:
    """The median over the turns of how many times what the baseline needs for a token."""
    return statistics.median(
        (a[column] / a[1]) / (b[column] / b[1]) for a, b in zip(own, base, strict=False)
    )  # a turn that the time cut short has fewer


def summary(turns: list[RECORD], rate: float) -> dict:
    return {
        "tokens_per_second": round(statistics.median(tokens / seconds for seconds, tokens, _ in turns), 1),
        "mfu": round(statistics.median(flops / seconds for seconds, _, flops in turns) / rate, 4),
        "flops_per_token": round(statistics.median(flops / tokens for _, tokens, flops in turns)),
        "seconds": [round(seconds, 4) for seconds, _, _ in turns],
        "tokens": [round(tokens) for _, tokens, _ in turns],
    }


def contestants(
    arguments: argparse.Namespace, sources: dict[str, list[Source]], ranks: Ranks
) -> dict[str, Callable[[], Ours | Theirs]]:
    """How each is built. The baseline and its rivals come first: should the time run out, they are there."""
    compiled = arguments.compile == "on" or (arguments.compile == "auto" and ranks.device.type == "cuda")
    runs = {name: run_of(arguments, name, sources) for name in objectives_of(arguments.layers)}
    builders: dict[str, Callable[[], Ours | Theirs]] = {
        name: lambda run=run: Ours(run, sources, ranks, compiled) for name, run in runs.items()
    }
    rivals: dict[str, Callable[[], Ours | Theirs]] = {}
    if importlib.util.find_spec("transformers"):
        rivals = {
            name: lambda trick=name == TRICK: Theirs(runs[BASELINE], sources, ranks, compiled, trick)
            for name in (TRICK, USUAL)
        }
    ordered = {BASELINE: builders.pop(BASELINE)} | rivals | builders
    return {name: build for name, build in ordered.items() if not arguments.only or name in arguments.only}


def measure(arguments: argparse.Namespace) -> dict:
    started = time.monotonic()
    until = started + 60 * arguments.minutes
    ranks = Ranks()
    if arguments.device != "auto":
        ranks.device = torch.device(arguments.device)
    device = ranks.device
    if device.type == "cpu":
        torch.set_num_threads(arguments.threads)
    rate = matrix_rate(device, 8192 if device.type == "cuda" else 512)
    print(f"{machine(device)}: a bf16 product at {rate / 1e12:,.2f} TFLOP/s", flush=True)
    found: dict[str, dict] = {}
    alive: dict[str, Ours | Theirs] = {}
    turns: dict[str, list[RECORD]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        sources = {
            kind: make_sources(Path(folder), kind, SENTENCES, arguments.vocabulary) for kind in ("mono", "bitext")
        }
        for name, build in contestants(arguments, sources, ranks).items():
            if alive and time.monotonic() > until - 60 * arguments.minutes * arguments.share_of_turns:
                found[name] = {"failed": "no time left to build it; give more --minutes"}
                continue
            contestant, found[name] = built(build, device, arguments.first_steps)
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
            if contestant:
                alive[name], turns[name] = contestant, []
                ending.callback(contestant.close)
        names, turn = list(alive), 0
        while turn < arguments.turns or time.monotonic() < until:
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if turn >= arguments.turns and time.monotonic() > until:
                    break
                turns[name].append(timed(alive[name], device, arguments.steps))
            turn += 1
    for name, records in turns.items():
        found[name] |= summary(records, rate)
        if BASELINE in turns:
            found[name] |= {
                "time_per_token": round(per_token(records, turns[BASELINE], 0), 3),
                "flops_per_token_relative": round(per_token(records, turns[BASELINE], 2), 3),
            }
    return about(arguments, device) | {
        "matrix_product_tflops": round(rate / 1e12, 3),
        "minutes": round((time.monotonic() - started) / 60, 2),
        "methods": found,
        "goals": goals_of(found, device),
    }


def goals_of(found: dict[str, dict], device: torch.device) -> dict[str, dict]:
    """What is reached of what is aimed at. The goals are a GPU's; elsewhere there are none."""
    reached: dict[str, tuple[float, float]] = {}
    whole = {name: own for name, own in found.items() if "mfu" in own}
    if BASELINE in whole:
        reached[f"{BASELINE}: MFU"] = whole[BASELINE]["mfu"], MFU_GOAL
        rivals = [whole[name]["time_per_token"] for name in (USUAL, TRICK) if name in whole]
        if rivals:
            reached[f"{BASELINE}: tokens per second over the best of transformers"] = round(min(rivals), 3), SPEED_GOAL
        for name, own in whole.items():
            if name not in (BASELINE, USUAL, TRICK):
                over = round(own["time_per_token"] / own["flops_per_token_relative"], 3)
                reached[f"{name}: cost over its share of FLOPs, at most"] = over, COST_GOAL
    on_gpu = device.type == "cuda"
    return {name: {"found": value, "goal": goal if on_gpu else None} for name, (value, goal) in reached.items()}


def is_met(name: str, found: float, goal: float | None) -> bool:
    return goal is None or (found <= goal if name.endswith("at most") else found >= goal)


def machine(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def about(arguments: argparse.Namespace, device: torch.device) -> dict:
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}
    if importlib.util.find_spec("transformers"):
        import transformers

        versions["transformers"] = transformers.__version__
    memory = torch.cuda.get_device_properties(device).total_memory / 2**30 if device.type == "cuda" else None
    left_out = ("out", "device", "minutes")
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "device": machine(device),
        "device_gib": memory and round(memory, 1),
        "cores": os.cpu_count(),
        "versions": versions,
        "arguments": {key: value for key, value in sorted(vars(arguments).items()) if key not in left_out},
    }


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto = cuda if there is one (default)")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64, which is a head")
    parser.add_argument("--vocabulary", type=int, default=250_002)
    parser.add_argument("--row-length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=64, help="of each objective and step")
    parser.add_argument("--device-rows", type=int, default=32, help="of one forward pass")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--attention-dropout", type=float, default=0.1, help="XLM-R's (default); 0: FlexAttention")
    parser.add_argument("--compile", choices=("auto", "on", "off"), default="auto", help="auto: on a GPU")
    parser.add_argument("--only", nargs="+", help="these contestants alone, by name")
    parser.add_argument("--minutes", type=float, default=8.0, help="about, all in all; but never fewer than --turns")
    parser.add_argument("--share-of-turns", type=float, default=0.3, help="of the minutes, kept for the turns")
    parser.add_argument("--turns", type=int, default=3, help="at least")
    parser.add_argument("--steps", type=int, default=4, help="of each contestant in a turn")
    parser.add_argument("--first-steps", type=int, default=4, help="of each contestant, not counted: they compile")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU, where there is no GPU")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    return parser


def main() -> int:
    arguments = make_parser().parse_args()
    figures = measure(arguments)
    for name, own in figures["methods"].items():
        if "mfu" not in own:
            print(f"{name:38} {own['failed']}")
            continue
        memory = f"{own['peak_gib']:6.1f} GiB" if "peak_gib" in own else ""
        print(
            f"{name:38} {own['tokens_per_second']:>12,.0f} tokens/s  MFU {own['mfu']:6.1%}  {memory}  per token: time "
            f"{own.get('time_per_token', 1):.3f} x, FLOPs {own.get('flops_per_token_relative', 1):.3f} x  "
            f"({own['masks']})"
        )
    for name, own in figures["goals"].items():
        print(f"{name}: {own['found']:.3f}" + (f" (goal {own['goal']})" if own["goal"] else ""))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(figures, indent=1, default=str) + "\n")
    return 0 if all(is_met(name, own["found"], own["goal"]) for name, own in figures["goals"].items()) else 1


if __name__ == "__main__":
    run_main(main)
