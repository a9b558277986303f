"""What jobs that fine-tune or predict share: the loop with its bookmark, the optimiser, rows, arguments."""

import argparse
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import torch
from torch import Tensor, nn

from common.atomic import sha256_of, write_json
from common.errors import UserError
from common.identity import content_hash
from common.memory import keep_freed_memory
from engine.answers import Question
from engine.attention import choose_kernels
from engine.checkpoint import load_encoder, load_state, save_state, save_weights, sole_use
from engine.heads import answer
from engine.model import FIRST_POSITION, Encoder
from engine.optim import AdamW
from engine.rows import AnswerWindow, Window, answer_windows, shuffled_batches
from engine.tokenizer import Tokenizer, load_tokenizer, vocabulary_sum
from plan.datasets import DATASETS_TSV
from tasks.recipe import Hyperparameters, Recipe

T = TypeVar("T")

PREDICT_ROWS = 128


@dataclass
class TrainingRows:
    rows: list[list[int]]
    # One per row (classification), one per token with IGNORED off the words' first pieces (tagging), or the places of
    # the answer's first and last piece (question answering).
    labels: list[list[int]]
    languages: list[str]
    groups: list[list[int]] | None = None  # numbers of the rows that no batch parts; None: each is by itself


@dataclass
class Bookmark:
    """Where a long fine-tuning stands. Short ones write none: they are as fast without, and may start again."""

    folder: Path
    seconds: float = 600.0  # between two of them
    written: float = field(default_factory=time.monotonic)
    number: int = 0

    def read(self) -> dict:
        content = load_state(self.folder) or {}
        self.number = content.get("number", 0)
        return content

    def write(self, content: dict) -> None:
        if time.monotonic() - self.written < self.seconds:
            return
        self.number += 1
        save_state(self.folder, self.number, content | {"number": self.number}, keep=1)
        self.written = time.monotonic()


@dataclass
class DevSet:
    """One language's dev part: rows to predict for, and gold: label numbers of pairs, tag names of sentences, or
    questions."""

    rows: list[list[int]] | list[Window] | list[AnswerWindow]
    gold: list


def load_start(args: SimpleNamespace, recipe: Recipe) -> tuple[Tokenizer, Encoder, dict[str, str], str]:
    """What a fine-tuning starts from: the tokenizer, the encoder, the metadata of its file, and the device."""
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    tokenizer = load_tokenizer(args.spm)
    encoder, metadata = load_encoder(args.encoder, recipe.recipe.encoder_dropout)
    check_vocabulary(metadata, args.encoder, args.spm)
    return tokenizer, encoder, metadata, pick_device(args.device)


def write_best(
    args: SimpleNamespace,
    recipe: Recipe,
    metadata: dict[str, str],
    state: dict[str, Tensor],
    report: dict,
    bookmark: Bookmark,
) -> None:
    """What a fine-tuning ends with: the weights, the report on dev, and no bookmark any more."""
    tuned_to = {
        "pretrain_seed": metadata.get("seed", ""),
        "seed": str(args.seed),
        "task": recipe.task,
        "task_version": str(recipe.version),
        "setting": recipe.setting,
        "labels": json.dumps(recipe.labels),
        "selection": json.dumps(report["selection"], sort_keys=True),
    }
    save_weights(args.out, state, metadata | tuned_to)
    asked = {"task": recipe.task, "setting": recipe.setting, "seed": args.seed, "recipe": asdict(recipe.recipe)}
    write_json(args.dev_json, report | asked | {"train_languages": recipe.train_languages})
    shutil.rmtree(bookmark.folder, ignore_errors=True)


def open_bookmark(args: SimpleNamespace, recipe: Recipe, data: list[str | Path], held: ExitStack) -> Bookmark:
    """Of this recipe, encoder, data and seed; another job of the same has to wait."""
    stats = {str(path): os.stat(path) for path in data if os.path.exists(path)}  # not all are read by each setting
    files = [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()]
    key = content_hash([asdict(recipe), sha256_of(args.encoder), args.seed, files])
    folder = Path(args.out).parent / "state" / key
    held.callback(remove_if_empty, folder.parent)
    held.enter_context(sole_use(folder))
    return Bookmark(folder)


def remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--datasets", default=DATASETS_TSV, help="table of sources (default: %(default)s)")
    parser.add_argument(
        "--counts",
        choices=("upstream", "any"),
        default="any",
        help="upstream: the files must have the row counts of the task's YAML (default: %(default)s)",
    )
    add_machine_arguments(parser)


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto = cuda if there is one (default)")


def pick_device(name: str) -> str:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    choose_kernels(torch.device(name))
    return name


def longest_row(recipe: Recipe, encoder: Encoder) -> int:
    """The recipe's max_length, or what the model has positions for if that is less."""
    return min(recipe.recipe.max_length, encoder.config.positions - FIRST_POSITION)


def check_vocabulary(metadata: dict[str, str], model_path: str, spm_path: str) -> None:
    expected = metadata.get("vocabulary_sha256")
    found = vocabulary_sum(spm_path)
    if expected and expected != found:
        raise UserError(
            f"{spm_path}: not the vocabulary that {model_path} was trained with (sha256 {found}, not {expected}); "
            "give the SentencePiece model of the same scale, or the tokenizer folder of the imported checkpoint"
        )


def question_windows(
    tokenizer: Tokenizer, questions: list[Question], hyper: Hyperparameters, max_length: int
) -> list[AnswerWindow]:
    texts, contexts = [one.question for one in questions], [one.context for one in questions]
    return answer_windows(tokenizer, texts, contexts, max_length, hyper.max_query, hyper.stride)


def learn(
    model: nn.Module,
    hyper: Hyperparameters,
    updates: int,
    metric: str,
    batches: Iterator[T],
    step_of: Callable[[T, AdamW], float],
    scores_of: Callable[[], dict[str, float]],
    left: dict | None = None,
    keep: Callable[[dict], None] | None = None,
) -> tuple[dict[str, Tensor], dict]:
    """Weights that are best on dev, the first of equals, and the dev history. `step_of` makes one update of one batch
    and gives its loss, `scores_of` the dev score of each language. `keep` is given what `left` needs to go on there.
    Ends where dev is at 100: no later weights could take the place of these."""
    evaluate_at = {round(updates * (i + 1) / hyper.evaluations) for i in range(hyper.evaluations)} - {0}
    warmup = hyper.warmup_steps or round((hyper.warmup_fraction or 0) * updates)
    if warmup >= updates:
        raise UserError(
            f"recipe.warmup_steps: {warmup} of {updates} updates, so the learning rate would never be reached; "
            "set warmup_steps to null and warmup_fraction to a share"
        )
    optimizer = make_optimizer(model, hyper)
    peaks = [group["lr"] for group in optimizer.groups]

    best, history, done = None, [], 0
    if left:
        best, history, done = left["best"], left["history"], left["step"]
        for part, state in zip((model, optimizer), left["parts"], strict=False):  # older ones kept a schedule too
            part.load_state_dict(state)
        set_random_states(left["random"])
        for _ in range(done):
            next(batches)
        print(f"going on after step {done} of {updates}", flush=True)
    loss_sum, since = 0.0, 0
    for step in range(done + 1, updates + 1):
        model.train()
        for group, peak in zip(optimizer.groups, peaks, strict=True):
            group["lr"] = peak * linear(step - 1, warmup, updates)
        loss = step_of(next(batches), optimizer)
        if not math.isfinite(loss):
            raise UserError(
                f"fine-tuning, step {step}: the loss is {loss}; lower recipe.peak_lr, or, where the encoder's training "
                "diverged (make curves), lower its run's optimizer.peak_lr in config/"
            )
        loss_sum, since = loss_sum + loss, since + 1
        if step not in evaluate_at:
            continue
        scores = scores_of()
        mean = sum(scores.values()) / len(scores)
        history.append({"step": step, "train_loss": loss_sum / since, "dev": scores, "mean": mean})
        print(f"step {step}/{updates}  loss {loss_sum / since:.4f}  dev {metric} {mean:.2f}", flush=True)
        loss_sum, since = 0.0, 0
        if best is None or mean > best[0]:
            weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
            best = mean, step, weights, scores
        if mean >= 100:
            break
        if keep and step < updates:
            parts = [part.state_dict() for part in (model, optimizer)]
            keep({"step": step, "best": best, "history": history, "parts": parts, "random": random_states()})
    score, step, weights, scores = best
    selection = {"rule": hyper.selection, "metric": metric, "step": step, "of": updates, "score": score}
    return weights, {"history": history, "selection": {**selection, "dev": scores}}


def random_states() -> list[Tensor]:
    """Of the CPU and of every GPU."""
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *of_gpus]


def set_random_states(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for device, state in enumerate(states[1 : 1 + torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)


def generator(seed: int, purpose: str) -> torch.Generator:
    """A stream of its own per purpose, so that one draw more in one leaves the others as they were."""
    digest = hashlib.sha256(f"finetune/{purpose}/{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def groups_in_batch(groups: list[list[int]], batch_rows: int) -> int:
    """So many that a batch never has more rows."""
    return batch_rows // max(map(len, groups))


def endless_batches(train: TrainingRows, batch_rows: int, order: torch.Generator) -> Iterator[list[int]]:
    if train.groups is None:  # millions of rows: no list for each
        lengths = [len(row) for row in train.rows]
        while True:
            yield from shuffled_batches(lengths, batch_rows, order)
    lengths = [max(len(train.rows[row]) for row in group) for group in train.groups]
    in_batch = groups_in_batch(train.groups, batch_rows)
    while True:
        for batch in shuffled_batches(lengths, in_batch, order):
            yield [row for group in batch for row in train.groups[group]]


def linear(step: int, warmup: int, steps: int) -> float:
    """Factor on the learning rate of update `step` + 1: up to 1 at update `warmup`, down to 0 after the last."""
    if step < warmup:
        return (step + 1) / warmup
    return (steps - step) / max(1, steps - warmup)


def make_optimizer(model: nn.Module, hyper: Hyperparameters) -> AdamW:
    """AdamW, no decay on vectors: biases, LayerNorms, the scale of XLM-E's gates. Layer-wise decay scales the Adam
    update and not the weight decay."""
    layers = model["encoder"].config.layers
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        factor = layer_factor(name, layers, hyper.layer_decay)
        groups.setdefault((factor, parameter.dim() > 1), []).append(parameter)
    return AdamW(
        [
            # AdamW decays by lr * weight_decay, and lr carries the factor: divide it out again.
            {"params": list_, "lr": hyper.peak_lr * f, "weight_decay": hyper.weight_decay / f if decays else 0.0}
            for (f, decays), list_ in groups.items()
        ],
        lr=hyper.peak_lr,
        betas=tuple(hyper.betas),
        eps=hyper.eps,
    )


def layer_factor(name: str, layers: int, decay: float | None) -> float:
    """ERNIE-M's code: decay^(L - l) for block l = 0 ... L-1, decay^(L + 1) for token and position tables, else 1."""
    if decay is None:
        return 1.0
    part = name.split(".")
    if part[:2] == ["encoder", "blocks"]:
        return decay ** (layers - int(part[2]))
    return decay ** (layers + 1) if part[:2] in (["encoder", "tokens"], ["encoder", "positions"]) else 1.0


def update(model: nn.Module, optimizer: AdamW, hyper: Hyperparameters) -> None:
    if hyper.clip:
        nn.utils.clip_grad_norm_(model.parameters(), hyper.clip)
    optimizer.step()


def answers(
    encoder: Encoder, head: nn.Module, part: DevSet, recipe: Recipe, language: str, batch_rows: int, device: str
) -> dict[str, str]:
    """{id: text} of each question's best answer."""
    hyper, questions = recipe.recipe, part.gold
    spans = answer(encoder, head, part.rows, len(questions), language, batch_rows, hyper.max_answer, hyper.best, device)
    return {one.id: one.context[begin:end] for one, (begin, end) in zip(questions, spans, strict=True)}
