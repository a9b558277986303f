"""Fine-tune a pre-trained encoder on one task, and keep the weights that are best on dev.

Reads the training and dev parts only. The same inputs and seed give the same weights, bit for bit, on the same CPU.
What takes long keeps its state beside the weights, at a dev evaluation every ten minutes at most, and goes on there
when its job is started again.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError, run_main
from engine.answers import Question
from engine.checkpoint import load_weights
from engine.formats import FORMATS, POOLER
from engine.heads import HEADS, IGNORED, classify, encode, tag
from engine.model import Encoder
from engine.optim import AdamW
from engine.precision import mixed_precision
from engine.rows import answer_labels, pair_rows, tag_windows
from engine.tokenizer import Tokenizer
from tasks.known import measure_of, task_module
from tasks.labels import Pair
from tasks.recipe import FINETUNED_KINDS, Hyperparameters, Recipe, load_recipe, raw_paths
from training.finetuning import (
    PREDICT_ROWS,
    Bookmark,
    DevSet,
    TrainingRows,
    add_common_arguments,
    answers,
    endless_batches,
    generator,
    groups_in_batch,
    learn,
    load_start,
    longest_row,
    open_bookmark,
    question_windows,
    update,
    write_best,
)

SAMPLE_SEED = 0  # train_limit draws the same rows for every run and seed, so that seeds differ in training alone


def main() -> None:
    args = parse_arguments()
    recipe = load_recipe(args.recipe)
    if recipe.kind not in FINETUNED_KINDS or recipe.model:
        raise UserError(
            f"{args.recipe}: {recipe.task} {recipe.setting} has nothing to fine-tune; run predict.py on the weights"
        )
    tokenizer, encoder, metadata, device = load_start(args, recipe)
    max_length = longest_row(recipe, encoder)

    paths = raw_paths(recipe, args.raw, args.datasets)
    train = read_training_rows(recipe, paths, tokenizer, max_length, args.counts == "upstream")
    dev = read_dev_sets(recipe, paths, tokenizer, max_length, args.counts == "upstream")
    with ExitStack() as held:
        bookmark = open_bookmark(args, recipe, [args.spm, *paths.values()], held)
        pooler = pooler_of(args.encoder, metadata) if recipe.kind == "classification" else None
        state, report = search(encoder, train, dev, recipe, args.seed, device, bookmark, pooler)

        report["train_rows"] = len(train.rows)
        report["dev_rows"] = {language: len(dev_set.gold) for language, dev_set in dev.items()}
        write_best(args, recipe, metadata, state, report, bookmark)


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML)")
    parser.add_argument("--encoder", required=True, help="pre-trained model.safetensors")
    parser.add_argument("--spm", required=True, help="vocabulary that the encoder was trained with")
    parser.add_argument("--raw", required=True, help="folder of downloads, laid out <host>/<path>")
    parser.add_argument("--seed", required=True, type=int, help="seed of head, order and dropout")
    parser.add_argument("--out", required=True, help="fine-tuned model.safetensors to write")
    parser.add_argument("--dev-json", required=True, help="dev scores over training and what was selected, to write")
    add_common_arguments(parser)
    return parser.parse_args()


def pooler_of(path: str, metadata: dict[str, str]) -> dict[str, Tensor] | None:
    """The dense layer that a classifier starts from, where the checkpoint's authors have it so: in BERT and ERNIE-M
    the pooler, which they pre-trained. XLM-R's has a fresh one."""
    kept = json.loads(metadata.get("checkpoint", "{}"))
    if not kept or not FORMATS[kept["format"]].pools_in_head:
        return None
    weights, _ = load_weights(path)
    names = {part: f"{POOLER}.{part}" for part in ("weight", "bias")}
    return {part: weights[name] for part, name in names.items()} if names["weight"] in weights else None


# ---------------------------------------------------------------------------------------------------------------------
# Data


def read_training_rows(
    recipe: Recipe, paths: dict, tokenizer: Tokenizer, max_length: int, enforce: bool
) -> TrainingRows:
    """All training languages one after the other, or train_limit rows drawn from them."""
    module = task_module(recipe.task)
    expected = recipe.expected("train", enforce)
    examples_of = module.read_train(paths, recipe.train_languages, expected)
    examples = [example for language in recipe.train_languages for example in examples_of[language]]
    languages = [language for language in recipe.train_languages for _ in examples_of[language]]
    kept = list(range(len(examples)))
    if recipe.train_limit is not None and recipe.train_limit < len(examples):
        drawn = torch.randperm(len(examples), generator=torch.Generator().manual_seed(SAMPLE_SEED))
        kept = sorted(drawn[: recipe.train_limit].tolist())
        examples, languages = [examples[i] for i in kept], [languages[i] for i in kept]
    number = {label: i for i, label in enumerate(recipe.labels or ())}
    if recipe.kind == "classification":
        groups = None
        if recipe.recipe.code_switch:
            english = module.read_train(paths, ["en"], expected)["en"]
            examples = code_switched(examples, originals(examples_of, english, kept), recipe.task)
            languages = [language for language in languages for _ in range(2)]
            groups = twins(range(len(examples)))
        rows = pair_rows(tokenizer, [e.premise for e in examples], [e.hypothesis for e in examples], max_length)
        return TrainingRows(rows, [[number[example.label]] for example in examples], languages, groups)
    if recipe.kind == "question-answering":
        if recipe.recipe.code_switch:
            english = {one.id: one for one in module.read_train(paths, ["en"], expected)["en"]}
            examples = switched_questions(examples, english)
            languages = [language for language in languages for _ in range(2)]
        windows = question_windows(tokenizer, examples, recipe.recipe, max_length)
        labels = [
            answer_labels(window, start, start + len(text))
            for window in windows
            for text, start in [(examples[window.question].answers[0], examples[window.question].starts[0])]
        ]
        groups = twins([window.question for window in windows]) if recipe.recipe.code_switch else None
        return TrainingRows([w.row for w in windows], labels, [languages[w.question] for w in windows], groups)
    windows = tag_windows(tokenizer, [sentence.tokens for sentence in examples], max_length)
    labels, done = [], [0] * len(examples)
    for window in windows:
        tags = examples[window.sentence].tags[done[window.sentence] :]
        done[window.sentence] += len(window.first)
        row_labels = [IGNORED] * len(window.row)
        for place, tag_name in zip(window.first, tags, strict=False):
            row_labels[place] = number[tag_name]
        labels.append(row_labels)
    return TrainingRows([window.row for window in windows], labels, [languages[w.sentence] for w in windows])


def originals(examples_of: dict[str, list[Pair]], english: list[Pair], kept: list[int]) -> list[Pair]:
    """Of the kept training pairs of all languages, one after the other, the English pairs that they translate."""
    for language, examples in examples_of.items():
        if len(examples) != len(english):
            raise UserError(
                f"recipe.code_switch: {len(examples)} training pairs in {language} and {len(english)} in English; "
                "they must be translations line by line"
            )
    return [english[i % len(english)] for i in kept]


def code_switched(pairs: list[Pair], english: list[Pair], where: object) -> list[Pair]:
    """PPA's augmentation: (a_l, b_l) becomes (a_l, b_en) and (a_en, b_l), twins; never all English."""
    mixed = []
    for number, (own, original) in enumerate(zip(pairs, english, strict=True), start=1):
        if own.label != original.label:
            raise UserError(
                f"{where}: training pair {number} is {own.label!r}, its English original {original.label!r}; "
                "code_switch needs translations line by line"
            )
        mixed += [own._replace(hypothesis=original.hypothesis), own._replace(premise=original.premise)]
    return mixed


def twins(example_of_row: Sequence[int]) -> list[list[int]]:
    """Row numbers of what stays in one batch: of the examples 2n and 2n + 1, the first rows of both, the second rows,
    and so on; where one has more rows than the other, each of the rest is by itself."""
    rows_of: list[list[int]] = [[] for _ in range(max(example_of_row) + 1)]
    for row, example in enumerate(example_of_row):
        rows_of[example].append(row)
    return [
        [row for row in pair if row is not None]
        for first, second in zip(rows_of[::2], rows_of[1::2], strict=True)
        for pair in zip_longest(first, second)
    ]


def switched_questions(questions: list[Question], english: dict[str, Question]) -> list[Question]:
    """PPA's augmentation: each question about the English context, and the English question about the own context."""
    mixed = []
    for own in questions:
        if own.id not in english:
            raise UserError(
                f"recipe.code_switch: training question {own.id} is not among the English ones; "
                "they must be translations"
            )
        mixed += [replace(english[own.id], question=own.question), replace(own, question=english[own.id].question)]
    return mixed


def read_dev_sets(
    recipe: Recipe, paths: dict, tokenizer: Tokenizer, max_length: int, enforce: bool
) -> dict[str, DevSet]:
    module = task_module(recipe.task)
    examples_of = module.read_dev(paths, recipe.dev_languages(), recipe.expected("dev", enforce))
    if not examples_of:
        raise UserError(f"{recipe.task}: no dev part in {', '.join(recipe.dev_languages())}; nothing to select on")
    number = {label: i for i, label in enumerate(recipe.labels or ())}
    dev_sets = {}
    for language, examples in examples_of.items():
        examples = examples[: recipe.recipe.dev_limit]
        if recipe.kind == "classification":
            rows = pair_rows(tokenizer, [e.premise for e in examples], [e.hypothesis for e in examples], max_length)
            dev_sets[language] = DevSet(rows, [number[example.label] for example in examples])
        elif recipe.kind == "question-answering":
            dev_sets[language] = DevSet(question_windows(tokenizer, examples, recipe.recipe, max_length), examples)
        else:
            # Tag names, not numbers: the run-level F1 treats names that begin with S apart.
            windows = tag_windows(tokenizer, [sentence.tokens for sentence in examples], max_length)
            dev_sets[language] = DevSet(windows, [sentence.tags for sentence in examples])
    return dev_sets


# ---------------------------------------------------------------------------------------------------------------------
# Training


def search(
    encoder: Encoder,
    train: TrainingRows,
    dev: dict[str, DevSet],
    recipe: Recipe,
    seed: int,
    device: str,
    bookmark: Bookmark | None = None,
    pooler: dict[str, Tensor] | None = None,
) -> tuple[dict[str, Tensor], dict]:
    """Fine-tune once per point of the grid (mostly one) from the same encoder; the (first) best on dev wins. While
    that is below the recipe's bar (`restart`), once more with other draws, so often as it says; a failure that stays
    one is the best of its tries."""
    start = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    left = bookmark.read() if bookmark else {}
    best, trials = left.get("best"), left.get("trials", [])
    tries, kept = left.get("tries", []), left.get("kept")

    def keep(current: dict) -> None:
        if bookmark:
            bookmark.write({"best": best, "trials": trials, "tries": tries, "kept": kept, "current": current})

    points, restart = recipe.recipe.points(), recipe.recipe.restart or {"below": 0, "most": 0}
    while True:
        for point in points[len(trials) - len(tries) * len(points) :]:
            encoder.load_state_dict(start)
            hyper = replace(recipe.recipe, **point)
            state, trial = finetune(
                encoder, train, dev, recipe, hyper, seed, device, left.pop("current", None), keep, pooler, len(tries)
            )
            trials.append({"point": point, **trial})
            if best is None or trial["selection"]["score"] > best[1]["selection"]["score"]:
                best = state, trial
        reached = english_dev(best[1]["selection"])
        if not tries or reached > max(tries):
            kept = best
        tries.append(reached)
        if reached >= restart["below"] or len(tries) > restart["most"]:
            break
        print(f"try {len(tries)}: dev {reached:.2f} is below {restart['below']}; starting again", flush=True)
        best = None
    state, trial = kept
    selection = dict(trial["selection"])
    if recipe.recipe.restart:
        selection |= {"restarts": len(tries) - 1, "tries": tries, "below": restart["below"]}
    return state, {"selection": selection, "trials": trials}


def english_dev(selection: dict) -> float:
    """What a fine-tuning fails on: English dev, or where no English is read (translate-train) the mean of what is."""
    return selection["dev"].get("en", selection["score"])


def finetune(
    encoder: Encoder,
    train: TrainingRows,
    dev: dict[str, DevSet],
    recipe: Recipe,
    hyper: Hyperparameters,
    seed: int,
    device: str = "cpu",
    left: dict | None = None,
    keep: Callable[[dict], None] | None = None,
    pooler: dict[str, Tensor] | None = None,
    restarts: int = 0,
) -> tuple[dict[str, Tensor], dict]:
    """Weights of encoder and head that are best on dev, and the dev history."""
    again = f", restart {restarts}" if restarts else ""
    order = generator(seed, f"order{again}")
    # Dropout and the head's first weights can only draw from torch's global generator: lend it a seed, then restore it.
    with torch.random.fork_rng():
        torch.manual_seed(generator(seed, f"dropout and head{again}").initial_seed())
        head = HEADS[recipe.kind](encoder.config.width, recipe.classes(), hyper.dropout, encoder.config.init_std)
        if pooler:
            head.dense.load_state_dict(pooler)
        model = nn.ModuleDict({"encoder": encoder, "head": head}).to(device)

        updates = max(1, round(hyper.epochs * batches_of_epoch(train, hyper.batch)))
        batches = endless_batches(train, hyper.batch, order)
        return learn(
            model,
            hyper,
            updates,
            recipe.metric,
            batches,
            lambda batch, optimizer: train_step(model, optimizer, train, batch, hyper, device),
            lambda: dev_scores(model, dev, recipe, device),
            left,
            keep,
        )


def batches_of_epoch(train: TrainingRows, batch_rows: int) -> int:
    if train.groups is None:
        return math.ceil(len(train.rows) / batch_rows)
    return math.ceil(len(train.groups) / groups_in_batch(train.groups, batch_rows))


def train_step(
    model: nn.Module, optimizer: AdamW, train: TrainingRows, batch: list[int], hyper: Hyperparameters, device: str
) -> float:
    """One update; the loss is the mean over the batch's labels, however many pieces the batch is computed in."""
    optimizer.zero_grad()
    labelled = sum(label != IGNORED for i in batch for label in train.labels[i])
    total = 0.0
    size = hyper.device_rows or len(batch)
    for start in range(0, len(batch), size):
        part = batch[start : start + size]
        widest = max(len(train.labels[i]) for i in part)
        labels = torch.tensor(
            [train.labels[i] + [IGNORED] * (widest - len(train.labels[i])) for i in part], device=device
        )
        rows, languages = [train.rows[i] for i in part], [train.languages[i] for i in part]
        with mixed_precision(hyper.precision, device):
            states_BTD, real_BT = encode(model["encoder"], rows, languages, device)
            logits = model["head"](states_BTD, real_BT)  # (B, C), (B, T, C) or (B, 2, T)
        loss = F.cross_entropy(logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        loss = loss / labelled
        loss.backward()
        total += loss.item()
    update(model, optimizer, hyper)
    return total


def dev_scores(model: nn.Module, dev: dict[str, DevSet], recipe: Recipe, device: str) -> dict[str, float]:
    measure = measure_of(recipe.task, recipe.metric)
    scores = {}
    for language, dev_set in dev.items():
        if recipe.kind == "classification":
            classes = classify(model["encoder"], model["head"], dev_set.rows, language, PREDICT_ROWS, device)
            scores[language] = measure(dev_set.gold, classes)
        elif recipe.kind == "question-answering":
            found = answers(model["encoder"], model["head"], dev_set, recipe, language, PREDICT_ROWS, device)
            scores[language] = measure(dev_set.gold, found)
        else:
            found = tag(
                model["encoder"], model["head"], dev_set.rows, len(dev_set.gold), language, PREDICT_ROWS, device
            )
            scores[language] = measure(dev_set.gold, [[recipe.labels[c] for c in tags] for tags in found])
    return scores


if __name__ == "__main__":
    run_main(main)
