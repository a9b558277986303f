"""Translate text, a line for a line, by beam search.

By hand, with the weights of train_translator.py:
  translate.py --model MODEL.safetensors --spm SPM.model < ENGLISH.txt > GERMAN.txt
The job form translates the test part of a task, and never looks at its references:
  translate.py --model M --spm S --recipe RECIPE --raw RAW --validation JSON --run RUN --scale S --seed N --out FOLDER
It writes a folder, whole or not at all: test-<language>.txt, a translation a line, and predictions.json, which says to
which model and sources they belong, and how the model learned.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import torch

from common.atomic import atomic_folder, check_seal, write_json
from common.errors import UserError, run_main
from engine.assembly import Seq2Seq, load_seq2seq
from engine.model import FIRST_POSITION
from engine.tokenizer import Tokenizer, load_tokenizer
from tasks.files import split_lines
from tasks.known import task_module
from tasks.recipe import load_recipe, raw_paths
from training.finetuning import add_common_arguments, check_vocabulary, longest_row, pick_device
from training.predicting import describe, translate_lines

JOB = ("recipe", "raw", "validation", "run", "scale", "seed", "out")


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    tokenizer, device = load_tokenizer(args.spm), pick_device(args.device)
    model, metadata = load_seq2seq(args.model)
    check_vocabulary(metadata, args.model, args.spm)
    model.to(device).eval()
    if args.recipe:
        translate_task(args, model, metadata, tokenizer, device)
        return
    lines = split_lines(sys.stdin.buffer.read(), "standard input")
    longest = model.encoder.config.positions - FIRST_POSITION
    beam = 5 if args.beam is None else args.beam
    penalty = 1.0 if args.penalty is None else args.penalty
    for line in translate_lines(model, tokenizer, lines, longest, beam, penalty, args.batch, device):
        sys.stdout.buffer.write(line.encode() + b"\n")


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="weights of train_translator.py")
    parser.add_argument("--spm", required=True, help="SentencePiece model that they were trained with")
    parser.add_argument("--batch", type=int, default=64, help="sentences at once (default: %(default)s)")
    hand = parser.add_argument_group("by hand")
    hand.add_argument("--beam", type=int, help="hypotheses of a sentence (default: 5)")
    hand.add_argument("--penalty", type=float, help="exponent of the length (default: 1)")
    job = parser.add_argument_group("job form; beam and penalty are the recipe's")
    job.add_argument("--recipe", help="resolved recipe (YAML)")
    job.add_argument("--raw", help="folder of downloads, laid out <host>/<path>")
    job.add_argument("--validation", type=Path, help="JSON of validate_translator.py")
    job.add_argument("--run", help="name of the pre-training run, for the record")
    job.add_argument("--scale", help="name of the scale, for the record")
    job.add_argument("--seed", type=int, help="evaluation seed, for the record")
    job.add_argument("--pretrain-seed", type=int, help="seed of the run that the model started from, for the record")
    job.add_argument("--out", help="folder to write")
    add_common_arguments(parser)
    args = parser.parse_args()
    given = [name for name in JOB if getattr(args, name) is not None]
    if given and (missing := [f"--{name}" for name in JOB if name not in given]):
        parser.error(f"{', '.join(missing)} missing; the job form needs them all, by hand none of them")
    if given and (args.beam is not None or args.penalty is not None):
        parser.error("--beam and --penalty are for translating by hand; in the job form the recipe has them")
    for name in ("beam", "batch"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"--{name} {getattr(args, name)}: at least 1")
    return args


def translate_task(
    args: SimpleNamespace, model: Seq2Seq, metadata: dict[str, str], tokenizer: Tokenizer, device: str
) -> None:
    recipe = load_recipe(args.recipe)
    module, hyper = task_module(recipe.task), recipe.recipe
    paths = raw_paths(recipe, args.raw, args.datasets)
    test = module.read_test(paths, recipe.languages, recipe.expected("test", args.counts == "upstream"))
    validation = read_validation(args.validation, recipe.languages)
    longest = longest_row(recipe, model.encoder)
    with atomic_folder(args.out) as folder:
        described = {}
        for language in recipe.languages:
            sources = test[language].sources
            said = translate_lines(model, tokenizer, sources, longest, hyper.beam, hyper.penalty, args.batch, device)
            module.write_predictions(folder / f"test-{language}.txt", said)
            described[language] = {"n": len(said), "inputs_sha256": module.inputs_of(test[language])}
            own = validation[language]
            described[language] |= {"validation": own["points"], "validation_n": own["n"]}
            print(f"{recipe.task} {language}: {len(said)} translated", flush=True)
        content = describe(args, recipe, model.encoder, metadata, None, described)
        content |= {"beam": hyper.beam, "penalty": hyper.penalty, "averaged": int(metadata.get("averaged", 1))}
        write_json(folder / "predictions.json", content | {"pretrain_seed": args.pretrain_seed})


def read_validation(path: Path, languages: Sequence[str]) -> dict[str, dict]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        check_seal(content, path, "delete the file and let it be written again")
        return {language: content[language] for language in languages}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run validate_translator.py") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not what validate_translator.py writes ({error}); run it again") from None


if __name__ == "__main__":
    run_main(main)
