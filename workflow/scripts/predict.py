"""Predict the test part of one task in every language: labels, tags, or nearest neighbours. Reads no gold label.

Writes a folder, whole or not at all: test-<language>.tsv in XTREME's submission format, and predictions.json, which
says to which model and inputs they belong. Retrieval adds layers-<language>.tsv: both directions, every layer.
"""

import argparse
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

from atomic import write_json
from engine.checkpoint import load_encoder, load_weights
from engine.heads import HEADS, classify, mean_states, nearest, tag
from engine.model import Encoder
from engine.rows import pair_rows, sentence_rows, tag_windows
from engine.tokenizer import Tokenizer
from errors import UserError, run_main
from finetune import add_common_arguments, check_vocabulary, longest_row, pick_device
from tasks import task_module, tatoeba
from tasks.recipe import Recipe, load_recipe, raw_paths


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    tokenizer = Tokenizer(args.spm)
    encoder, metadata = load_encoder(args.model)
    check_vocabulary(metadata, args.model, args.spm)
    device = pick_device(args.device)
    head = None if recipe.kind == "retrieval" else load_head(args.model, encoder, metadata, recipe).to(device)
    encoder.to(device)

    module = task_module(recipe.task)
    paths = raw_paths(recipe, args.raw, args.datasets)
    test = module.read_test(paths, recipe.languages, recipe.expected("test", args.counts == "upstream"))
    out = Path(args.out)
    folder = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        described = {}
        for language in recipe.languages:
            examples = test[language]
            described[language] = {"n": len(module.gold_of(examples)), "inputs_sha256": module.inputs_of(examples)}
            predict_language(folder, language, examples, recipe, encoder, head, tokenizer, args.batch, device)
            print(f"{recipe.task} {language}: {described[language]['n']} predicted", flush=True)
        write_json(folder / "predictions.json", describe(args, recipe, encoder, metadata, described))
        shutil.rmtree(out, ignore_errors=True)
        os.replace(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML)")
    parser.add_argument("--model", required=True, help="fine-tuned weights; for retrieval the encoder's")
    parser.add_argument("--spm", required=True, help="SentencePiece model that the encoder was trained with")
    parser.add_argument("--raw", required=True, help="folder of downloads, laid out <host>/<path>")
    parser.add_argument("--run", required=True, help="name of the pre-training run, for the record")
    parser.add_argument("--scale", required=True, help="name of the scale, for the record")
    parser.add_argument("--seed", required=True, type=int, help="evaluation seed, for the record")
    parser.add_argument("--batch", type=int, default=32, help="rows at once (default: %(default)s); changes no answer")
    parser.add_argument("--out", required=True, help="folder to write")
    add_common_arguments(parser)
    return parser.parse_args()


def load_head(path: str, encoder: Encoder, metadata: dict[str, str], recipe: Recipe) -> nn.Module:
    if metadata.get("task") != recipe.task or metadata.get("setting") != recipe.setting:
        raise UserError(
            f"{path}: fine-tuned on {metadata.get('task', 'nothing')} {metadata.get('setting', '')}, "
            f"but the recipe is for {recipe.task} {recipe.setting}; give the weights that finetune.py wrote for it"
        )
    if json.loads(metadata["labels"]) != recipe.labels:
        raise UserError(
            f"{path}: its labels are {metadata['labels']}, not the recipe's {recipe.labels}; fine-tune again"
        )
    head = HEADS[recipe.kind](encoder.config.width, len(recipe.labels), recipe.recipe.dropout)
    weights, _ = load_weights(path)
    head.load_state_dict({k.removeprefix("head."): v for k, v in weights.items() if k.startswith("head.")})
    return head


def predict_language(
    folder: Path,
    language: str,
    examples,
    recipe: Recipe,
    encoder: Encoder,
    head: nn.Module | None,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
) -> None:
    """Write the prediction files of one language."""
    module, max_length = task_module(recipe.task), longest_row(recipe, encoder)
    path = folder / f"test-{language}.tsv"
    if recipe.kind == "classification":
        rows = pair_rows(tokenizer, [e.premise for e in examples], [e.hypothesis for e in examples], max_length)
        classes = classify(encoder, head, rows, language, batch_rows, device)
        module.write_predictions(path, [recipe.labels[c] for c in classes])
    elif recipe.kind == "tagging":
        windows = tag_windows(tokenizer, [sentence.tokens for sentence in examples], max_length)
        tagged = tag(encoder, head, windows, len(examples), language, batch_rows, device)
        module.write_predictions(path, [[recipe.labels[c] for c in tags] for tags in tagged])
    else:
        by_layer = retrieve(examples, language, max_length, encoder, tokenizer, batch_rows, device)
        layer = recipe.recipe.layer_of(encoder.config.layers)
        module.write_predictions(path, by_layer["en-xx", layer])
        tatoeba.write_layer_predictions(folder / f"layers-{language}.tsv", by_layer)


def retrieve(
    pair: tuple[list[str], list[str]],
    language: str,
    max_length: int,
    encoder: Encoder,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
) -> dict[tuple[str, int], list[int]]:
    """Nearest line numbers by (direction, layer). The states of a language stay in memory, and only for its turn."""
    foreign, english = (
        mean_states(encoder, sentence_rows(tokenizer, side, max_length), code, batch_rows, device)
        for side, code in zip(pair, (language, "en"), strict=True)
    )
    answers = {}
    for layer, (foreign_ND, english_ND) in enumerate(zip(foreign, english, strict=True)):
        answers["en-xx", layer], answers["xx-en", layer] = nearest(english_ND, foreign_ND)
    return answers


def describe(args, recipe: Recipe, encoder: Encoder, metadata: dict[str, str], languages: dict) -> dict:
    retrieval = recipe.kind == "retrieval"
    pretrain_seed = metadata.get("seed" if retrieval else "pretrain_seed")
    return {
        "run": args.run,
        "scale": args.scale,
        "seed": args.seed,
        "pretrain_seed": int(pretrain_seed) if pretrain_seed else None,
        "task": recipe.task,
        "task_version": recipe.version,
        "setting": recipe.setting,
        "recipe": recipe.recipe.name,
        "max_length": longest_row(recipe, encoder),
        "split": "test",
        "run_hash": metadata.get("run_hash"),
        "commit": metadata.get("commit"),
        "dtype": str(next(encoder.parameters()).dtype).removeprefix("torch."),
        "layers": encoder.config.layers,
        "layer": recipe.recipe.layer_of(encoder.config.layers) if retrieval else None,
        "selection": json.loads(metadata["selection"]) if "selection" in metadata else None,
        "languages": languages,
    }


if __name__ == "__main__":
    run_main(main)
