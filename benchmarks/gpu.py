"""What a GPU makes of the engine: tokens per second, model FLOP utilisation and peak memory of every method at base
size, beside transformers' XLM-R on the same rows, and beside the rate of the card's matrix product.

Everything is made up and held in a temporary folder; torch is all that it needs, and transformers for the comparison.
A step is the training loop's own: rows drawn, packed and corrupted in a thread meanwhile, all passes, clipping, AdamW,
the hooks of the objective, one look at the losses. transformers' XLMRobertaForMaskedLM has its rows on the device
beforehand and runs as fast as it knows how: sdpa (with cuDNN's kernel too, which the engine leaves out), bf16,
compiled, fused AdamW after as many passes as ours; once as its users run it (labels of -100, logits of every token) and
once with our trick (logits of the selected tokens alone).

Contestants are built and warmed up one after another, then take turns, each turn in another order. A turn ends when
the rows of the next step are drawn too, so the thread that draws them costs what it costs, and disturbs nobody else.
Figures are medians over the turns; a ratio is the median of the ratios of the turns. MFU counts FLOPs as engine/cost.py
does (`ours`: matrix products, a trained pass is three forward passes, nothing for what is computed again; for
transformers, the FLOPs that MMLM needs for these tokens). It is told twice: of the measured rate of a bf16 product of
random matrices (`mfu`, which the goal is about), and of the peak in the card's data sheet (config/machines.yaml).

A contestant that fails is named with its error, and the others go on. --out is written after every contestant that is
built and every turn, so what is killed leaves what it has measured.

    python benchmarks/gpu.py --out gpu.json --minutes 7            # and one for the last turn
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
import re
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
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
from machine import processor  # noqa: E402
from train_step import their_step  # noqa: E402

import pretrain  # noqa: E402
from common.atomic import atomic_path  # noqa: E402
from common.errors import run_main  # noqa: E402
from engine import cost  # noqa: E402
from engine.ahead import ahead  # noqa: E402
from engine.attention import choose_kernels  # noqa: E402
from engine.compiling import compile_parts  # noqa: E402
from engine.config import (  # noqa: E402
    BatchConfig,
    MaskSpec,
    ObjectiveConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
)
from engine.dist import Ranks  # noqa: E402
from engine.optim import clip_gradients  # noqa: E402
from engine.shape import ModelConfig, RelativeBias  # noqa: E402
from engine.streams import Source  # noqa: E402
from training.assembly import (  # noqa: E402
    PretrainingModel,
    build_mixture,
    frozen_weights,
    masks_of,
    micro_batches,
    seen_in,
    seen_over,
    tell_sources,
)
from training.readings import read  # noqa: E402

ALL_MASKED = MaskSpec(0.15, 1.0, 0.0, 0.0)
BASELINE = "MMLM"
USUAL, TRICK = "transformers", "transformers, selected tokens alone"
MFU_GOAL, SPEED_GOAL = 0.45, 1.5  # of MMLM; against the better of the two transformers
COST_GOAL = 1.25  # a method's time per token, relative to MMLM's, over its FLOPs per token, relative to MMLM's
KERNELS = ("flash", "mem_efficient", "cudnn", "math")  # of scaled_dot_product_attention
NO_TIME = "no time left to build it; give more --minutes"
SENTENCES = 4000  # per language
PROFILED = 3  # steps
FIRST_STEP = 10**5  # in the middle of a training: no objective is still waiting for its turn
CUDNN = torch.backends.cuda.cudnn_sdp_enabled()  # by default
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
    return tell_sources(run, sources)


class Ours:
    """A run in the middle of its training."""

    def __init__(self, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks, compiled: bool):
        torch.manual_seed(1)
        self.run, self.ranks = run, ranks
        self.model = PretrainingModel(run).to(ranks.device).train()
        if compiled:
            compile_parts(self.model)
        self.optimizer = pretrain.new_optimizer(self.model, run, frozen_weights(self.model, run), FIRST_STEP)
        mixtures = [build_mixture(run, objective, sources, 1, "made up") for objective in run.objectives]
        pretrain.start_objectives(self.model, run, mixtures, ranks)
        self.held, self.at_rest = contextlib.ExitStack(), threading.Event()
        given = self.told(pretrain.give_all(run, mixtures, ranks, FIRST_STEP))
        self.steps = self.held.enter_context(ahead(given))
        self.masks = masks_of(run, ranks.device)

    def told(self, steps: Iterator[pretrain.Given]) -> Iterator[pretrain.Given]:
        """The same, and when the thread that makes them has none to make."""
        try:
            for given in steps:
                self.at_rest.set()
                yield given
                self.at_rest.clear()
        finally:
            self.at_rest.set()

    def rest(self) -> None:
        self.at_rest.wait()

    def step(self) -> tuple[float, float]:
        """Tokens and FLOPs."""
        given = next(self.steps)
        self.optimizer.zero_grad()
        readings, done = pretrain.learn(self.model, self.run, given, self.ranks, seed=1)
        norm = clip_gradients(self.model, self.run.optimizer.clip, self.ranks)
        self.optimizer.step()
        for objective, batches in done:
            if after_step := pretrain.OBJECTIVES[objective.name].after_step:
                after_step(self.model, batches, self.ranks)
        signals, _ = read(readings, self.ranks, norm)
        seen = seen_over(self.run, signals)
        flops = sum(own["ours"] for own in cost.flops(self.run, seen).values())
        return sum(own.tokens for own in seen.values()), flops

    def close(self) -> None:
        self.held.close()
        self.model = self.optimizer = None  # room for the others


class Theirs:
    """transformers on MMLM's rows. A step is as many passes as ours has, and an update after the last."""

    masks = "sdpa"

    def __init__(self, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks, compiled: bool, trick: bool):
        torch.manual_seed(1)
        [mixture] = [build_mixture(run, own, sources, 1, "made up") for own in run.objectives]
        rows = mixture.assemble(mixture.next_layout())
        self.batches = micro_batches(rows, run.objectives[0], run, ranks)
        self.do = their_step(run, trick, ranks.device, compiled)
        seen = [cost.Seen(*map(float, self.counted(batch))) for batch in self.batches]
        self.tokens = sum(own.tokens for own in seen)
        self.flops = sum(cost.flops(run, {run.objectives[0].name: own})["mmlm"]["ours"] for own in seen)

    def step(self) -> tuple[float, float]:
        chosen = torch.backends.cuda.cudnn_sdp_enabled()
        torch.backends.cuda.enable_cudnn_sdp(CUDNN)
        try:
            self.do(*self.batches)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(chosen)
        return self.tokens, self.flops

    def rest(self) -> None:
        pass

    def counted(self, batch: pretrain.Batch) -> tuple[int, int, int, int]:
        tokens, items, attended = seen_in(batch.host)
        return tokens, len(batch.targets), items, attended

    def close(self) -> None:
        self.do = None


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


def kernels(contestant: Ours | Theirs, device: torch.device, most: int) -> dict:
    """The kernels that take the most time of a step, in milliseconds and times, and all of them together."""
    on_gpu = device.type == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    contestant.rest()
    wait(device)
    with torch.profiler.profile(activities=[activity]) as profile:
        for _ in range(PROFILED):
            contestant.step()
        wait(device)
    spent = [
        (
            (own.self_device_time_total if on_gpu else own.self_cpu_time_total) / PROFILED / 1000,
            own.count / PROFILED,
            own.key,
        )
        for own in profile.key_averages()
    ]
    shown = [[name[:160], round(ms, 3), round(times, 1)] for ms, times, name in sorted(spent, reverse=True)[:most]]
    return {"kernels": shown, "kernels_together_ms": round(sum(ms for ms, _, _ in spent), 3)}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(contestant: Ours | Theirs, device: torch.device, steps: int) -> RECORD:
    contestant.rest()
    wait(device)
    started, done = time.perf_counter(), [contestant.step() for _ in range(steps)]
    wait(device)
    contestant.rest()  # as many steps are drawn as are done
    return time.perf_counter() - started, sum(tokens for tokens, _ in done), sum(flops for _, flops in done)


def built(build: Callable[[], Ours | Theirs], device: torch.device, steps: int) -> tuple[Ours | Theirs | None, dict]:
    """A contestant after its first steps, which compile; what it needs at most, the others' memory not counted."""
    contestant = None
    try:
        gc.collect()
        before = 0
        if device.type == "cuda":
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
        started = time.perf_counter()
        contestant = build()
        for _ in range(steps):
            timed(contestant, device, 1)
        told = {"first_steps_seconds": round(time.perf_counter() - started, 1), "masks": contestant.masks}
        if device.type == "cuda":
            told["peak_gib"] = round((torch.cuda.max_memory_allocated(device) - before) / 2**30, 2)
    except Exception as error:
        if contestant:
            contestant.close()
        return None, failure(error)
    return contestant, told


def failure(error: Exception) -> dict:
    lines = str(error).strip().splitlines() or ["no message"]
    print(traceback.format_exc(), file=sys.stderr, flush=True)
    return {"failed": f"{type(error).__name__}: {lines[0]}", "traceback": traceback.format_exc().splitlines()[-60:]}


def per_token(own: list[RECORD], base: list[RECORD], column: int) -> float:
    """The median over the turns of how many times what the baseline needs for a token."""
    return statistics.median(
        (a[column] / a[1]) / (b[column] / b[1]) for a, b in zip(own, base, strict=False)
    )  # a turn that the time cut short has fewer


def summary(turns: list[RECORD], rate: float, peak: float | None) -> dict:
    flops_per_second = statistics.median(flops / seconds for seconds, _, flops in turns)
    of_peak = {"mfu_of_data_sheet_peak": round(flops_per_second / peak, 4)} if peak else {}
    return {
        "tokens_per_second": round(statistics.median(tokens / seconds for seconds, tokens, _ in turns), 1),
        "mfu": round(flops_per_second / rate, 6),
        **of_peak,
        "flops_per_token": round(statistics.median(flops / tokens for _, tokens, flops in turns)),
        "seconds": [round(seconds, 6) for seconds, _, _ in turns],
        "tokens": [round(tokens) for _, tokens, _ in turns],
        "flops": [round(flops) for _, _, flops in turns],
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
    if arguments.device not in ("auto", ranks.device.type):
        ranks.device = torch.device(arguments.device)
    device = ranks.device
    choose_kernels(device)
    if device.type == "cpu":
        torch.set_num_threads(arguments.threads)
    rate = matrix_rate(device, 8192 if device.type == "cuda" else 512)
    peak = data_sheet_peak(machine(device))
    print(f"{machine(device)}: a bf16 product at {rate / 1e12:,.2f} TFLOP/s", flush=True)
    found: dict[str, dict] = {}
    alive: dict[str, Ours | Theirs] = {}
    turns: dict[str, list[RECORD]] = {}

    def told(finished: bool = False) -> dict:
        """All that is known by now, and in --out."""
        figures = about(arguments, device) | {
            "finished": finished,
            "matrix_product_tflops": round(rate / 1e12, 6),
            "data_sheet_tflops": peak and round(peak / 1e12, 1),
            "minutes": round((time.monotonic() - started) / 60, 2),
            "methods": (methods := {name: own | compared(name, turns, rate, peak) for name, own in found.items()}),
            "goals": goals_of(methods, device),
        }
        if arguments.out:
            with atomic_path(arguments.out) as temporary:
                temporary.write_text(json.dumps(figures, indent=1, default=str) + "\n")
        return figures

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        sources = {
            kind: make_sources(Path(folder), kind, SENTENCES, arguments.vocabulary) for kind in ("mono", "bitext")
        }
        for name, build in contestants(arguments, sources, ranks).items():
            if alive and time.monotonic() > until - 60 * arguments.minutes * arguments.share_of_turns:
                found[name] = {"failed": NO_TIME}
                continue
            contestant, found[name] = built(build, device, arguments.first_steps)
            print(f"{name}: {shown(found[name])}", file=sys.stderr, flush=True)
            if contestant:
                alive[name], turns[name] = contestant, []
                ending.callback(contestant.close)
            told()
        turn = 0
        while alive and turn < arguments.most_turns and (turn < arguments.turns or time.monotonic() < until):
            names = list(alive)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if turn >= arguments.turns and time.monotonic() > until:
                    break
                try:
                    turns[name].append(timed(alive[name], device, arguments.steps))
                except Exception as error:
                    found[name] |= failure(error)
                    alive.pop(name).close()
            turn += 1
            told()
            if arguments.kernels and turn == 1:
                for name, own in alive.items():
                    found[name] |= kernels(own, device, arguments.kernels)
                told()
            print(f"turn {turn} after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return told(finished=True)


def shown(told: dict) -> dict:
    return {key: value for key, value in told.items() if key not in ("traceback", "kernels")}


def compared(name: str, turns: dict[str, list[RECORD]], rate: float, peak: float | None) -> dict:
    """The figures of a contestant that has had a turn, and beside the baseline if that has had one."""
    own, base = turns.get(name), turns.get(BASELINE)
    if not own:
        return {}
    relative = {}
    if base:
        relative = {
            "time_per_token": round(per_token(own, base, 0), 3),
            "flops_per_token_relative": round(per_token(own, base, 2), 3),
        }
    return summary(own, rate, peak) | relative


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


def data_sheet_peak(name: str) -> float | None:
    """bf16 FLOP/s of a card as its maker states them, where config/machines.yaml has it (SXM, not the slower cards of
    the same name)."""
    if "yaml" in sys.modules and isinstance(sys.modules["yaml"], MagicMock):
        return None
    import yaml

    machines = yaml.safe_load((REPOSITORY / "config" / "machines.yaml").read_text(encoding="utf-8"))["machines"]
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & {"pcie", "nvl"}:
        return None
    return next((own["peak"].get("bf16") for key, own in machines.items() if key in words), None)


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
        "attention_kernels": {
            "cudnn": torch.backends.cudnn.version(),
            "enabled": [name for name in KERNELS if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()],
            "transformers_has_cudnn_too": CUDNN,
        },
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
    parser.add_argument("--most-turns", type=int, default=10**6, help="at most, however much time is left")
    parser.add_argument("--steps", type=int, default=12, help="of each contestant in a turn")
    parser.add_argument("--first-steps", type=int, default=4, help="of each contestant, not counted: they compile")
    parser.add_argument("--kernels", type=int, default=0, help="write so many kernels of each, the longest first")
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
        of_peak = f" ({own['mfu_of_data_sheet_peak']:.1%} of the data sheet)" if "mfu_of_data_sheet_peak" in own else ""
        memory = f"{own['peak_gib']:6.1f} GiB" if "peak_gib" in own else ""
        failed = f"  then failed: {own['failed']}" if "failed" in own else ""
        print(
            f"{name:38} {own['tokens_per_second']:>12,.0f} tokens/s  MFU {own['mfu']:6.1%}{of_peak}  {memory}  "
            f"per token: time {own.get('time_per_token', 1):.3f} x, "
            f"FLOPs {own.get('flops_per_token_relative', 1):.3f} x  ({own['masks']}){failed}"
        )
    for name, own in figures["goals"].items():
        print(f"{name}: {own['found']:.3f}" + (f" (goal {own['goal']})" if own["goal"] else ""))
    broken = [name for name, own in figures["methods"].items() if own.get("failed", NO_TIME) != NO_TIME]
    missed = [name for name, own in figures["goals"].items() if not is_met(name, own["found"], own["goal"])]
    return 1 if broken or missed else 0


if __name__ == "__main__":
    run_main(main)
