"""What each method costs per token, relative to MMLM + TLM: seconds of a training step, and FLOPs by our accounting.

All methods take turns on made-up text of real lengths, with the rows, row length and model shape given here; a method's
own parts (generator, cross-attention, momentum encoder) keep their proportions. `cost` is the median over the turns of
(seconds per token of the method) / (seconds per token of MMLM + TLM in the same turn); `flops` the same ratio of the
FLOPs of these steps by our counting, `flops_by_the_papers_counting` by that of XLM-E's table 2 (engine/cost.py).
ERNIE-M's paper says 1.075.

    python benchmarks/method_cost.py --out benchmarks/results/method_cost.json      # a quarter of an hour
"""

import argparse
import dataclasses
import datetime
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))

from loader_throughput import make_sources  # noqa: E402

import pretrain  # noqa: E402
from common.typed import build  # noqa: E402
from engine import cost  # noqa: E402
from engine.config import RunConfig  # noqa: E402
from engine.dist import Ranks  # noqa: E402
from engine.optim import clip_gradients  # noqa: E402
from engine.streams import Source  # noqa: E402
from plan.config import Config  # noqa: E402
from plan.load import load_config  # noqa: E402
from plan.runs import resolve_run  # noqa: E402
from training.assembly import (  # noqa: E402
    PretrainingModel,
    build_mixture,
    frozen_weights,
    seen_over,
    tell_sources,
)

BASELINE = "xlm"
METHODS = ("xlm-r", BASELINE, "ernie-m-base", "xlm-e-base", "veco-large", "ppa-250k", "infoxlm-base", "xlm-align-base")
COUNTINGS = {"ours": "flops", "papers": "flops_by_the_papers_counting"}
SHAPE = ("layers", "width", "heads", "ffn")


def shaped(config: Config, name: str, arguments: argparse.Namespace) -> RunConfig:
    """The run as its paper has it, at the benchmark's size, without its warming up: every part of it at work."""
    values = resolve_run(config, name)
    deep = values["model"]["layers"]
    for objective in values["objectives"]:
        options = objective.get("options", {})
        for key in ("generator_layers", "layer"):
            if key in options:
                options[key] = max(1, options[key] * arguments.layers // deep)
        if "queue" in options:
            options["queue"] = 256
        if "start_share" in options:
            options["start_share"] = 0.0
        objective["row_length"] = objective["rows"] = None
        objective["block_length"] = arguments.block_length
    values["model"] |= {key: getattr(arguments, key) for key in SHAPE}
    values["model"] |= {"positions": arguments.row_length + 2, "vocabulary": arguments.vocabulary}
    values["batch"] = {
        "rows": arguments.rows,
        "row_length": arguments.row_length,
        "device_rows": arguments.rows,
    }
    values["schedule"]["first"] = None
    values["init"] = None
    values["precision"] = arguments.precision
    return build(RunConfig, values, "")


class Trainer:
    """A run in the middle of its training."""

    def __init__(self, run: RunConfig, sources: dict[str, list[Source]], ranks: Ranks):
        run = tell_sources(run, sources)
        run = dataclasses.replace(run, schedule=dataclasses.replace(run.schedule, steps=10**6, alternate=False))
        self.run, self.ranks, self.step = run, ranks, 10**5
        self.model = PretrainingModel(run).to(ranks.device).train()
        self.mixtures = [build_mixture(run, objective, sources, 1, "made up") for objective in run.objectives]
        self.optimizer = pretrain.new_optimizer(self.model, run, frozen_weights(self.model, run), self.step)
        pretrain.start_objectives(self.model, run, self.mixtures, ranks)

    def train(self) -> dict[str, float]:
        """One step: its seconds, tokens, and FLOPs by both countings."""
        self.step += 1
        started = time.perf_counter()
        self.optimizer.zero_grad()
        signals, done = pretrain.train_step(self.model, self.run, self.mixtures, self.ranks, self.step, seed=1)
        clip_gradients(self.model, self.run.optimizer.clip, self.ranks)
        self.optimizer.step()
        for objective, batches in done:
            if after_step := pretrain.OBJECTIVES[objective.name].after_step:
                after_step(self.model, batches, self.ranks)
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        flops = cost.flops(self.run, seen_over(self.run, signals)).values()
        return {
            "seconds": seconds,
            "tokens": sum(value for name, value in signals.items() if name.endswith("/tokens")),
            **{counting: sum(one[counting] for one in flops) for counting in COUNTINGS},
        }


def per_token(own: list[dict[str, float]], base: list[dict[str, float]], what: str) -> list[float]:
    """Turn by turn, how many times what the baseline needs for a token."""
    pairs = zip(own, base, strict=True)
    return [(a[what] / a["tokens"]) / (b[what] / b["tokens"]) for a, b in pairs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="files of config/runs")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--ffn", type=int, default=3072)
    parser.add_argument("--vocabulary", type=int, default=250_002)
    parser.add_argument("--rows", type=int, default=4, help="of each objective")
    parser.add_argument("--row-length", type=int, default=256)
    parser.add_argument("--block-length", type=int, help="of monolingual text; default: the row")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1, help="of each method and turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = load_config(REPOSITORY, {"scale": "paper", "runs": None})
    names = list(dict.fromkeys([BASELINE, *arguments.methods]))
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        sources = {kind: make_sources(Path(folder), kind, 2000, arguments.vocabulary) for kind in ("mono", "bitext")}
        for turn in range(arguments.turns + 1):  # the first warms up
            for name in names:
                trainer = Trainer(shaped(config, name, arguments), sources, Ranks())
                trainer.train()
                done = [trainer.train() for _ in range(arguments.steps)]
                del trainer
                if turn:
                    turns[name].append({key: sum(step[key] for step in done) for key in done[0]})
    rows = {}
    for name in names:
        ratios = per_token(turns[name], turns[BASELINE], "seconds")
        rows[name] = {
            "cost": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
            "tokens_per_second": round(statistics.median(turn["tokens"] / turn["seconds"] for turn in turns[name])),
            **{
                written: round(statistics.median(per_token(turns[name], turns[BASELINE], counting)), 3)
                for counting, written in COUNTINGS.items()
            },
        }
        found = rows[name]
        print(
            f"{name:16} {found['cost']:.3f} x  ({found['least']:.3f} to {found['most']:.3f})  "
            f"{found['tokens_per_second']:,} tokens/s  FLOPs {found['flops']:.3f} x, by the papers' counting "
            f"{found['flops_by_the_papers_counting']:.3f} x"
        )
    if arguments.out:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
        about = {
            "date": datetime.date.today().isoformat(),
            "device": device,
            "threads": arguments.threads,
            "torch": torch.__version__,
            **{key: getattr(arguments, key) for key in (*SHAPE, "vocabulary", "rows", "row_length", "precision")},
            "turns": arguments.turns,
            "baseline": BASELINE,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"about": about, "methods": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
