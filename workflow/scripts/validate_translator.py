"""Translate the dev part with the weights on the way of a translation model: how it learned, a point for each of them.

Writes {language: {n, points: [{update, epoch, loss, sacrebleu}, ...]}}: the loss is the mean of -log p over all tokens
of the references, the BLEU that of the likeliest next words (a beam of one): another beam for the test part trains and
validates nothing again. Never looks at the test part.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from common.atomic import check_seal, write_sealed
from common.errors import UserError, run_main
from corpus.characters import normalise
from corpus.sampling import read_plan
from engine.assembly import Seq2Seq, load_seq2seq
from engine.objectives.mlm import CHUNK
from engine.rows import ordered_batches, pad, sentence_rows
from engine.tokenizer import EOS, Tokenizer, load_tokenizer
from tasks.known import measure_of, task_module
from tasks.recipe import load_recipe, raw_paths
from training.finetuning import add_common_arguments, check_vocabulary, longest_row, pick_device
from training.predicting import translate_lines


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    tokenizer, device = load_tokenizer(args.spm), pick_device(args.device)
    module, bleu = task_module(recipe.task), measure_of(recipe.task, "sacrebleu")
    paths = raw_paths(recipe, args.raw, args.datasets)
    dev = module.read_dev(paths, recipe.languages, recipe.expected("dev", args.counts == "upstream"))
    per_update = items_of_update(args.cost) / pairs_of(args.plan)
    found: dict[str, dict] = {language: {"n": 0, "points": []} for language in recipe.languages}
    for update, path in snapshots_of(args.snapshots):
        model, metadata = load_seq2seq(path)
        check_vocabulary(metadata, str(path), args.spm)
        model.to(device).eval()
        for language in recipe.languages:
            sources = dev[language].sources[: recipe.recipe.dev_limit]
            gold = module.gold_of(dev[language])[: len(sources)]
            longest = longest_row(recipe, model.encoder)
            said = translate_lines(model, tokenizer, sources, longest, 1, 1.0, args.batch, device)
            point = {"update": update, "epoch": update * per_update, "sacrebleu": bleu(gold, said)}
            point["loss"] = mean_loss(model, tokenizer, sources, gold, longest, args.batch, device)
            found[language]["n"] = len(gold)
            found[language]["points"].append(point)
            print(f"{language} update {update}: {point['sacrebleu']:.2f} BLEU, loss {point['loss']:.4f}", flush=True)
    write_sealed(args.out, found)


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML)")
    parser.add_argument("--snapshots", required=True, type=Path, help="folder of weights that train_translator.py kept")
    parser.add_argument("--cost", required=True, type=Path, help="cost.json of the training: pairs of an update")
    parser.add_argument("--plan", required=True, type=Path, help="sampling plan of the training: pairs of an epoch")
    parser.add_argument("--spm", required=True, help="SentencePiece model that the weights were trained with")
    parser.add_argument("--raw", required=True, help="folder of downloads, laid out <host>/<path>")
    parser.add_argument("--batch", type=int, default=64, help="sentences at once (default: %(default)s)")
    parser.add_argument("--out", required=True, help="JSON to write")
    add_common_arguments(parser)
    args = parser.parse_args()
    if args.batch < 1:
        parser.error(f"--batch {args.batch}: at least 1")
    return args


def snapshots_of(folder: Path) -> list[tuple[int, Path]]:
    """(update, file), in order."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := re.fullmatch(r"step-(\d+)", path.stem))]
    if not found:
        raise UserError(f"{folder}: no step-<number>.safetensors; train again")
    return sorted(found)


def items_of_update(cost: Path) -> float:
    content = json.loads(cost.read_text(encoding="utf-8"))
    check_seal(content, cost, "train again")
    return sum(own["items"] for own in content["objectives"].values()) / content["steps"]


def pairs_of(plan: Path) -> int:
    return sum(row.source.sentences for row in read_plan(plan)) // 2


@torch.inference_mode()
def mean_loss(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    sources: Sequence[str],
    references: Sequence[str],
    longest: int,
    batch_rows: int,
    device: str,
) -> float:
    """-log p of a token of the references, their ends included; what is longer than `longest` with its marks is cut."""
    source_rows = sentence_rows(tokenizer, [normalise(line) for line in sources], longest)
    said = [ids[: longest - 2] for ids in tokenizer.encode([normalise(line) for line in references])]
    total, tokens = 0.0, 0
    for batch in ordered_batches([len(row) for row in source_rows], batch_rows):
        source_BS, real_BS = pad([source_rows[i] for i in batch], device)
        target_BT, inside_BT = pad([[EOS, *said[i]] for i in batch], device)
        wanted_BT, _ = pad([[*said[i], EOS] for i in batch], device)
        states_ND, wanted_N = model(source_BS, real_BS, target_BT)[inside_BT], wanted_BT[inside_BT]
        for states, wanted in zip(states_ND.split(CHUNK), wanted_N.split(CHUNK), strict=True):
            total += F.cross_entropy(model.logits(states).float(), wanted, reduction="sum").item()
        tokens += len(wanted_N)
    return total / tokens


if __name__ == "__main__":
    run_main(main)
