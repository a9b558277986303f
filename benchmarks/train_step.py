"""Tokens per second and peak memory of a training step on a CPU, beside transformers.

1. Masked language modelling at XLM-R base's shape on 8 full rows of 128 tokens, 15 % selected, AdamW, clipping, dropout
   0.1: our step, with the huge pages and the kept memory that pretrain.py asks for; transformers'
   XLMRobertaForMaskedLM as its users run it (labels = -100, so logits of every token); and the same model with our
   trick, logits of the selected tokens alone. In fp32 and in bf16 (autocast).
2. Our step on rows of 512 tokens: packed translation pairs of 5 to 100 tokens a side beside full rows of text, in real
   tokens per second; and the share of the slots that packing fills.

3. With --shape mini or real, 1. alone at the shape of that scale, in its precision, beside --against, the scripts of
   another commit. There a step is too short for a clock: what is compared is processor time.

Each contestant lives in a process of its own, so that its memory can be told; they take turns, one at a time, so that a
busy machine disturbs all alike, and a ratio is the median over the turns. Batches are equal, and new in each turn, as
in training: a number of selected tokens that was there before may cost less. They are made outside the clock.

    python benchmarks/train_step.py --out train_step.json      # five to eight minutes, 18 GiB
    git worktree add ../before HEAD^
    python benchmarks/train_step.py --shape real --threads 1 --against ../before/workflow/scripts
"""

import argparse
import datetime
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from machine import processor

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, os.environ.get("TRAIN_STEP_SCRIPTS") or str(REPOSITORY / "workflow" / "scripts"))

import pretrain  # noqa: E402
from common.errors import UserError, run_main  # noqa: E402
from engine.config import BatchConfig, ObjectiveConfig, OptimizerConfig, RunConfig, ScheduleConfig  # noqa: E402
from engine.data import Mixture  # noqa: E402
from engine.dist import Ranks  # noqa: E402
from engine.objectives.base import Batch  # noqa: E402
from engine.optim import clip_gradients  # noqa: E402
from engine.shape import ModelConfig  # noqa: E402
from engine.shards import write_shard  # noqa: E402
from engine.streams import Source  # noqa: E402
from training.assembly import PretrainingModel, build_mixture, next_batches  # noqa: E402

OURS, USUAL, TRICK = "ours", "transformers", "transformers, selected tokens alone"
BEFORE = "ours, the other commit"
SHAPES = {  # of the scales of these names: heads are as wide as there, and nothing is dropped
    "mini": {"layers": 3, "width": 64, "heads": 4, "vocabulary": 2500, "rows": 20, "row_length": 64},
    "real": {"layers": 4, "width": 192, "heads": 3, "vocabulary": 12_000, "rows": 32, "row_length": 96},
}
PRECISION = {"mini": "fp32", "real": "bf16"}
USUAL_GOAL, FILLED_GOAL, PACKED_GOAL = 2.3, 0.97, 0.9
TRICK_GOAL = 0.97  # no slower, within what turns can tell
SMALL_GOAL = 1.5
SHORT, LONG, PACKED = "short rows", "full rows", "packed pairs"
STEP_ROWS = 64  # of a whole step of long rows; a pass takes as many slots as the short rows have
STEPS_OF_A_TURN = 5  # where a step is short
COUNTED_STEPS = 4  # in which the filled slots are counted

Step = Callable[..., None]  # of one batch for each pass


def made_up_sources(folder: Path, vocabulary: int) -> dict[str, list[Source]]:
    """Sentences longer than any row, which fill theirs, and pairs of 5 to 100 tokens a side, of like lengths."""
    rng = np.random.default_rng(0)
    first = np.clip(rng.geometric(1 / 30, 2000), 5, 100)
    second = np.clip((first * rng.uniform(0.7, 1.4, len(first))).astype(np.int64), 5, 100)
    sources = {}
    for kind, lengths in {"mono": np.full(200, 1000), "bitext": np.stack([first, second], 1).ravel()}.items():
        manifest = folder / kind / "0.json"
        manifest.parent.mkdir(parents=True)
        tokens = rng.integers(4, vocabulary - 1, lengths.sum())
        write_shard(manifest, [(tokens, lengths, np.full(len(lengths) // 2, 2))], kind, vocabulary, "made up", "")
        sources[kind] = [Source(kind, "made-up", "a" if kind == "mono" else "a-b", 1.0, (manifest,))]
    return sources


def run_of(arguments: argparse.Namespace, precision: str, objective: ObjectiveConfig, device_rows: int) -> RunConfig:
    width, longest = arguments.width, 4 * arguments.row_length
    shape = (arguments.layers, width, arguments.heads or width // 64, 4 * width, longest + 2, arguments.vocabulary)
    dropout = 0.0 if arguments.shape else 0.1
    return RunConfig(
        name="benchmark",
        data={},
        model=ModelConfig(*shape, dropout=dropout, attention_dropout=dropout),
        objectives=(objective,),
        batch=BatchConfig(STEP_ROWS, longest, device_rows),
        optimizer=OptimizerConfig(peak_lr=1e-5),
        schedule=ScheduleConfig(steps=1, warmup_steps=1),
        precision=precision,
    )


def runs_of(arguments: argparse.Namespace, precision: str) -> dict[str, RunConfig]:
    """By the name of their rows. All have the same number of slots in a pass."""
    rows = arguments.rows
    short = ObjectiveConfig("mmlm", rows=rows, row_length=arguments.row_length)
    full, packed = ObjectiveConfig("mmlm"), ObjectiveConfig("tlm", pair_separators=1)
    passes = {SHORT: (short, rows), LONG: (full, rows // 4), PACKED: (packed, rows // 4)}
    return {name: run_of(arguments, precision, objective, device) for name, (objective, device) in passes.items()}


def mixture_of(run: RunConfig, folder: Path) -> Mixture:
    [objective] = run.objectives
    return build_mixture(run, objective, made_up_sources(folder, run.model.vocabulary), 1, "made up")


def next_batch(run: RunConfig, mixture: Mixture) -> Batch:
    """The first pass of the next step."""
    return next_batches(run, run.objectives[0], mixture, Ranks(), 1)[0]


def filled_share(mixture: Mixture) -> float:
    """Of the slots of a few steps."""
    steps = [mixture.assemble(mixture.next_layout()) for _ in range(COUNTED_STEPS)]
    return float(np.mean([rows.document >= 0 for rows in steps]))


def our_step(run: RunConfig) -> Step:
    model = PretrainingModel(run).train()
    optimizer = pretrain.new_optimizer(model, run, frozen=set(), step=1)
    ranks = Ranks()

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        pretrain.backward(model, run, batch.objective, [batch], ranks)
        clip_gradients(model, run.optimizer.clip, ranks)
        optimizer.step()

    return step


def their_step(
    run: RunConfig, selected_alone: bool, device: torch.device | None = None, compiled: bool = False
) -> Step:
    """With the fused AdamW, which is the Trainer's default; over several passes it accumulates, as the Trainer does."""
    device = device or torch.device("cpu")
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    own, settings = run.model, run.optimizer
    shape = XLMRobertaConfig(
        vocab_size=own.vocabulary,
        hidden_size=own.width,
        num_hidden_layers=own.layers,
        num_attention_heads=own.heads,
        intermediate_size=own.ffn,
        max_position_embeddings=own.positions,
        type_vocab_size=1,
        layer_norm_eps=own.layer_norm_eps,
        hidden_dropout_prob=own.dropout,
        attention_probs_dropout_prob=own.attention_dropout,
    )
    model = XLMRobertaForMaskedLM(shape).to(device).train()
    if compiled:
        (model.roberta if selected_alone else model).compile()
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.peak_lr, settings.betas, settings.eps, settings.weight_decay, fused=True
    )

    def mixed() -> AbstractContextManager:
        return torch.autocast(device.type, torch.bfloat16) if run.precision == "bf16" else nullcontext()

    def loss_of(batch: Batch) -> torch.Tensor:
        real = (batch.fields.document >= 0).long()
        if not selected_alone:
            labels = batch.original.masked_fill(~batch.fields.selected, -100)
            return model(batch.tokens, attention_mask=real, labels=labels).loss
        states = model.roberta(batch.tokens, attention_mask=real).last_hidden_state
        logits = model.lm_head(states.flatten(0, 1)[batch.selected])
        return F.cross_entropy(logits.float(), batch.targets)

    def step(*batches: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        for batch in batches:
            with mixed():
                loss = loss_of(batch) / len(batches)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return step


def contestant(name: str, arguments: argparse.Namespace, precision: str, pipe: Connection) -> None:
    """In a process of its own: build, then do the steps that are asked for and tell seconds, real tokens and memory."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    if name in (OURS, BEFORE):
        getattr(pretrain, "keep_freed_memory", int)()  # pretrain.py's; an older commit has none
    runs = runs_of(arguments, precision)
    step = our_step(runs[SHORT]) if name in (OURS, BEFORE) else their_step(runs[SHORT], selected_alone=name == TRICK)
    with tempfile.TemporaryDirectory() as folder:
        mixtures = {rows: mixture_of(run, Path(folder, rows)) for rows, run in runs.items()}
        pipe.send(filled_share(mixtures[PACKED]))
        while (asked := pipe.recv()) is not None:
            rows, steps = asked
            batches = [next_batch(runs[rows], mixtures[rows]) for _ in range(steps)]
            started, worked = time.perf_counter(), time.process_time()
            for batch in batches:
                step(batch)
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB
            tokens = sum(int((batch.fields.document >= 0).sum()) for batch in batches)
            pipe.send((seconds, cpu_seconds, tokens, peak))


class Contest:
    """Contestants of one precision. Only one works at a time."""

    def __init__(self, arguments: argparse.Namespace, precision: str, names: list[str]):
        context = multiprocessing.get_context("spawn")
        self.steps = STEPS_OF_A_TURN if arguments.shape else 1
        self.pipes: dict[str, Connection] = {}
        self.processes = []
        for name in names:
            self.pipes[name], other = context.Pipe()
            process = context.Process(target=contestant, args=(name, arguments, precision, other), daemon=True)
            # pretrain.py's; torch's default
            os.environ["THP_MEM_ALLOC_ENABLE"] = "1" if name in (OURS, BEFORE) else "0"
            os.environ["TRAIN_STEP_SCRIPTS"] = str(arguments.against.resolve()) if name == BEFORE else ""
            process.start()
            other.close()
            self.processes.append(process)
            self.filled = self.hear(name)  # built, before the next begins to build

    def hear(self, name: str) -> object:
        try:
            return self.pipes[name].recv()
        except EOFError:
            raise UserError(f"{name}: its process ended; see above, or out of memory: try fewer --layers") from None

    def turns(self, entries: list[tuple[str, str]], seconds: float, least: int) -> dict[tuple[str, str], dict]:
        """Let (contestant, rows) take turns, each time in another order, for that many seconds after the first."""
        told: dict[tuple[str, str], list[tuple]] = {entry: [] for entry in entries}
        turn, until = 0, 0.0
        while turn <= least or time.monotonic() < until:
            for entry in entries[turn % len(entries) :] + entries[: turn % len(entries)]:
                name, rows = entry
                self.pipes[name].send((rows, self.steps))
                answer = self.hear(name)
                print(f"  turn {turn}: {name}, {rows}: {answer[0]:.2f} s", file=sys.stderr, flush=True)
                if turn:  # the first warms up
                    told[entry].append(answer)
            until = until or time.monotonic() + seconds
            turn += 1
        return {entry: summary(answers) for entry, answers in told.items()}

    def close(self) -> None:
        for pipe in self.pipes.values():
            pipe.send(None)
        for process in self.processes:
            process.join()


def summary(answers: list[tuple[float, float, int, float]]) -> dict:
    seconds, cpu_seconds, tokens, peaks = (list(values) for values in zip(*answers, strict=True))
    return {
        "tokens_per_second": round(statistics.median(n / s for n, s in zip(tokens, seconds, strict=True)), 1),
        "peak_gib": round(max(peaks), 2),
        "seconds": [round(value, 3) for value in seconds],
        "cpu_seconds": [round(value, 3) for value in cpu_seconds],
        "tokens": tokens,
    }


def ratio(ours: dict, other: dict, clock: str = "seconds") -> float:
    """Of tokens per second, the median over the turns."""
    speeds = [
        [tokens / seconds for tokens, seconds in zip(one["tokens"], one[clock], strict=True)] for one in (ours, other)
    ]
    return round(statistics.median(a / b for a, b in zip(*speeds, strict=True)), 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64, which is a head")
    parser.add_argument("--vocabulary", type=int, default=250_002)
    parser.add_argument("--rows", type=int, default=8, help="a multiple of 4")
    parser.add_argument("--row-length", type=int, default=128, help="a quarter of the long rows")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each contestant")
    parser.add_argument(
        "--minutes", type=float, default=4.0, help="about, on an idle machine; never fewer than --turns turns"
    )
    parser.add_argument("--turns", type=int, default=2, help="at least, after one that warms up")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--shape", choices=SHAPES, help="of this scale, in its precision; its sizes replace the others")
    parser.add_argument(
        "--against", type=Path, help="with --shape: workflow/scripts of another commit, to compare with"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.set_defaults(heads=None)
    arguments = parser.parse_args()
    if arguments.shape:
        vars(arguments).update(SHAPES[arguments.shape], precisions=[PRECISION[arguments.shape]])
    if arguments.against and not arguments.shape:
        parser.error("--against: give it with --shape")
    for module in ("pretrain.py", "engine/shape.py"):  # the second is the youngest of those that are imported above
        if arguments.against and not (arguments.against / module).exists():
            parser.error(
                f"--against: {arguments.against} has no {module}: give workflow/scripts of a worktree that is young "
                "enough to have it, or take the benchmark of the older commit"
            )
    try:
        theirs = version("transformers")
    except PackageNotFoundError:
        raise UserError("transformers is not installed: pip install --requirement tests/requirements.txt") from None
    figures = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "transformers": theirs,
        **{key: getattr(arguments, key) for key in ("layers", "width", "vocabulary", "rows", "row_length", "threads")},
    }
    goals = compare_small(arguments, figures) if arguments.shape else compare(arguments, figures)
    figures["ratios"] = {name: {"found": value, "goal": goal} for name, (value, goal) in goals.items()}
    for name, (value, goal) in goals.items():
        print(f"{name}: {value:.3f}" + (f" (goal {goal})" if goal else ""))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(goal is None or value >= goal for value, goal in goals.values()) else 1


Goals = dict[str, tuple[float, float | None]]


def compare_small(arguments: argparse.Namespace, figures: dict) -> Goals:
    """Our step beside the other commit's and the model of transformers with our trick, in processor time."""
    names = [OURS, *([BEFORE] if arguments.against else []), TRICK]
    contest = Contest(arguments, arguments.precisions[0], names)
    found = contest.turns([(name, SHORT) for name in names], 60 * arguments.minutes, arguments.turns)
    contest.close()
    figures["shape"] = {name: told for (name, _), told in found.items()}
    for name, told in figures["shape"].items():
        best = max(tokens / seconds for tokens, seconds in zip(told["tokens"], told["cpu_seconds"], strict=True))
        print(
            f"{name}: {best:,.0f} tokens per second of processor time in its best turn, peak {told['peak_gib']:.1f} GiB"
        )
    others = {name: (ratio(found[OURS, SHORT], found[name, SHORT], "cpu_seconds"), SMALL_GOAL) for name in names[1:]}
    return {f"ours / {name}, processor time": goal for name, goal in others.items()}


def compare(arguments: argparse.Namespace, figures: dict) -> Goals:
    share = 60 * arguments.minutes / (len(arguments.precisions) + 1)
    goals: Goals = {}
    for precision in arguments.precisions:
        contest = Contest(arguments, precision, [OURS, USUAL, TRICK])
        found = contest.turns([(name, SHORT) for name in (OURS, USUAL, TRICK)], share, arguments.turns)
        own = figures[precision] = {name: told for (name, _), told in found.items()}
        for name, told in own.items():
            print(f"{precision} {name}: {told['tokens_per_second']:,.0f} tokens/s, peak {told['peak_gib']:.1f} GiB")
        goals[f"{precision}: ours / {USUAL}"] = (
            ratio(own[OURS], own[USUAL]),
            USUAL_GOAL if precision == "fp32" else None,
        )
        goals[f"{precision}: ours / {TRICK}"] = (ratio(own[OURS], own[TRICK]), TRICK_GOAL)
        contest.close()
    contest = Contest(arguments, arguments.precisions[0], [OURS])
    found = contest.turns([(OURS, LONG), (OURS, PACKED)], share, arguments.turns)
    contest.close()
    figures["packing"] = {rows: told for (_, rows), told in found.items()}
    goals["filled slots of packed pairs"] = (round(contest.filled, 4), FILLED_GOAL)
    goals["packed pairs / full rows, real tokens per second"] = (
        ratio(found[OURS, PACKED], found[OURS, LONG]),
        PACKED_GOAL,
    )
    return goals


if __name__ == "__main__":
    run_main(main)
