"""Predict the test part of one task in every language: labels, tags, answers, nearest neighbours, mined pairs, links.

Never looks at an answer of the test part: from the files that hold them it takes the inputs and the number of items.
Mining sets its threshold on dev. Writes a folder, whole or not at all: test-<language>.tsv in XTREME's submission
format, and predictions.json, which says to which model and inputs they belong. Retrieval and alignment add
layers-<language>.tsv: every layer.

Centred retrieval subtracts from each state, at every layer, the mean of its language: of `pairs` sentence pairs of each
language with English, spread evenly over its corpora, training text and never a test. English has a mean for each
language, that of the translations: the two means differ in the language alone and not in what is talked about. The
layer is the one that retrieves held-out pairs best; where the scale has none, those of the means.
"""

import argparse
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from common.atomic import atomic_folder, write_json
from common.errors import UserError, run_main
from engine.checkpoint import load_encoder, load_weights
from engine.heads import HEADS, align_words, classify, mean_states, tag
from engine.mining import best_threshold
from engine.model import Encoder
from engine.retrieval import mined, nearest
from engine.rows import pair_rows, sentence_rows, tag_windows, word_pairs
from engine.tokenizer import Tokenizer, load_tokenizer
from tasks import tatoeba, word_alignment
from tasks.bucc import Piles
from tasks.known import task_module
from tasks.recipe import FINETUNED_KINDS, Recipe, load_recipe, raw_paths
from training.finetuning import (
    DevSet,
    add_common_arguments,
    answers,
    check_vocabulary,
    longest_row,
    pick_device,
    question_windows,
)
from training.pairs import Sentences, Source, find_sources, held_out_rows, read_pairs, spread_numbers
from training.predicting import Centre, describe


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    tokenizer = load_tokenizer(args.spm)
    encoder, metadata = load_encoder(args.model)
    check_vocabulary(metadata, args.model, args.spm)
    device = pick_device(args.device)
    check_model(args.model, metadata, recipe)
    head = load_head(args.model, encoder, metadata, recipe).to(device) if recipe.kind in FINETUNED_KINDS else None
    encoder.to(device)

    module = task_module(recipe.task)
    paths = raw_paths(recipe, args.raw, args.datasets)
    enforce = args.counts == "upstream"
    test = module.read_test(paths, recipe.languages, recipe.expected("test", enforce))
    dev = module.read_dev(paths, recipe.languages, recipe.expected("dev", enforce)) if recipe.kind == "mining" else {}
    centre = None
    if recipe.centre:
        held_out = {
            code: tatoeba.read_pair(paths[f"held_foreign-{code}"], paths[f"held_english-{code}"])
            for code in recipe.centre["held_out"]
        }
        sources = find_sources(args.bitext, recipe)
        centre = find_centre(sources, held_out, test, recipe, encoder, tokenizer, args.batch, device)
    elif args.bitext:
        raise UserError(f"--bitext: {recipe.task} {recipe.setting} centres nothing; leave it out")
    with atomic_folder(args.out) as folder:
        described = {}
        for language in recipe.languages:
            examples = test[language]
            described[language] = {"n": len(module.gold_of(examples)), "inputs_sha256": module.inputs_of(examples)}
            described[language] |= predict_language(
                folder,
                language,
                examples,
                dev.get(language),
                centre,
                recipe,
                encoder,
                head,
                tokenizer,
                args.batch,
                device,
            )
            print(f"{recipe.task} {language}: {described[language]['n']} predicted", flush=True)
        write_json(folder / "predictions.json", describe(args, recipe, encoder, metadata, centre, described))


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML)")
    parser.add_argument("--model", required=True, help="fine-tuned weights; for retrieval the encoder's")
    parser.add_argument("--spm", required=True, help="vocabulary that the encoder was trained with")
    parser.add_argument("--raw", required=True, help="folder of downloads, laid out <host>/<path>")
    parser.add_argument(
        "--bitext", nargs="*", default=[], type=Path, help="clean shards <corpus>/<pair>/<shard>, of centred retrieval"
    )
    parser.add_argument("--run", required=True, help="name of the pre-training run, for the record")
    parser.add_argument("--scale", required=True, help="name of the scale, for the record")
    parser.add_argument("--seed", required=True, type=int, help="evaluation seed, for the record")
    parser.add_argument("--batch", type=int, default=32, help="rows at once (default: %(default)s); changes no answer")
    parser.add_argument("--out", required=True, help="folder to write")
    add_common_arguments(parser)
    return parser.parse_args()


def check_model(path: str, metadata: dict[str, str], recipe: Recipe) -> None:
    """The weights are those of the task and setting that this recipe predicts with."""
    if recipe.model:
        wanted = (recipe.model["task"], recipe.model["setting"])
    elif recipe.kind in FINETUNED_KINDS or recipe.bitext:
        wanted = (recipe.task, recipe.setting)
    else:
        return
    if (metadata.get("task"), metadata.get("setting")) != wanted:
        raise UserError(
            f"{path}: fine-tuned on {metadata.get('task', 'nothing')} {metadata.get('setting', '')}, "
            f"but the recipe is for {' '.join(wanted)}; give the weights that were fine-tuned for it"
        )


def load_head(path: str, encoder: Encoder, metadata: dict[str, str], recipe: Recipe) -> nn.Module:
    if json.loads(metadata["labels"]) != recipe.labels:
        raise UserError(
            f"{path}: its labels are {metadata['labels']}, not the recipe's {recipe.labels}; fine-tune again"
        )
    head = HEADS[recipe.kind](encoder.config.width, recipe.classes(), recipe.recipe.dropout)
    weights, _ = load_weights(path)
    head.load_state_dict({k.removeprefix("head."): v for k, v in weights.items() if k.startswith("head.")})
    return head


def predict_language(
    folder: Path,
    language: str,
    examples: list | tuple[list[str], list[str]] | word_alignment.Aligned | Piles,
    dev: Piles | None,
    centre: Centre | None,
    recipe: Recipe,
    encoder: Encoder,
    head: nn.Module | None,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
) -> dict:
    """Write the prediction files of one language; what else there is to say about them."""
    module, max_length = task_module(recipe.task), longest_row(recipe, encoder)
    path = folder / f"test-{language}.tsv"
    code = language.partition("-")[0]  # of a context and a question, the context's
    if recipe.kind == "classification":
        rows = pair_rows(tokenizer, [e.premise for e in examples], [e.hypothesis for e in examples], max_length)
        classes = classify(encoder, head, rows, code, batch_rows, device)
        module.write_predictions(path, [recipe.labels[c] for c in classes])
    elif recipe.kind == "tagging":
        windows = tag_windows(tokenizer, [sentence.tokens for sentence in examples], max_length)
        tagged = tag(encoder, head, windows, len(examples), code, batch_rows, device)
        module.write_predictions(path, [[recipe.labels[c] for c in tags] for tags in tagged])
    elif recipe.kind == "question-answering":
        part = DevSet(question_windows(tokenizer, examples, recipe.recipe, max_length), examples)
        module.write_predictions(path, answers(encoder, head, part, recipe, code, batch_rows, device))
    elif recipe.kind == "retrieval":
        means = centre.means[code] if centre else None
        by_layer = retrieve(examples, code, max_length, encoder, tokenizer, batch_rows, device, means)
        layer = centre.layer if centre else recipe.recipe.layer_of(encoder.config.layers)
        module.write_predictions(path, by_layer["en-xx", layer])
        tatoeba.write_layer_predictions(folder / f"layers-{language}.tsv", by_layer)
    elif recipe.kind == "alignment":
        sides = ([line.split() for line in side] for side in (examples.first, examples.second))
        pairs = word_pairs(tokenizer, *sides, max_length)
        links = align_words(encoder, pairs, code, recipe.recipe.iterations, batch_rows, device, recipe.recipe.clamp)
        module.write_predictions(path, links[recipe.recipe.layer_of(encoder.config.layers)])
        word_alignment.write_layer_predictions(folder / f"layers-{language}.tsv", links)
    else:

        def scored(piles: Piles) -> list[tuple[float, tuple[str, str]]]:
            return mine(piles, code, recipe, max_length, encoder, tokenizer, batch_rows, device)

        threshold, f1 = best_threshold(scored(dev), dev.gold)
        module.write_predictions(path, [pair for score, pair in scored(examples) if score >= threshold])
        return {"threshold": threshold if f1 else None, "dev_f1": f1}  # none where dev has no right candidate
    return {}


def retrieve(
    pair: tuple[list[str], list[str]],
    language: str,
    max_length: int,
    encoder: Encoder,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
    means: tuple[Tensor, Tensor] | None = None,
) -> dict[tuple[str, int], list[int]]:
    """Nearest line numbers by (direction, layer). The states of a language stay in memory, and only for its turn."""
    rows = [sentence_rows(tokenizer, side, max_length) for side in pair]
    states = states_of(rows, language, encoder, batch_rows, device)
    return nearest_by_layer(*(centred(*one) for one in zip(states, means, strict=True)) if means else states)


def states_of(
    sides: Sequence[list[list[int]]], language: str, encoder: Encoder, batch_rows: int, device: str
) -> tuple[Tensor, Tensor]:
    """(layers, N, D) of the foreign rows and of the English ones."""
    foreign, english = sides
    return (
        mean_states(encoder, foreign, language, batch_rows, device),
        english_states(tuple(map(tuple, english)), encoder, batch_rows, device),
    )


@lru_cache(maxsize=1)  # FLORES asks for the same sentences in every language
def english_states(rows: tuple[tuple[int, ...], ...], encoder: Encoder, batch_rows: int, device: str) -> Tensor:
    return mean_states(encoder, rows, "en", batch_rows, device)


def nearest_by_layer(foreign: Tensor, english: Tensor) -> dict[tuple[str, int], list[int]]:
    answers = {}
    for layer, (foreign_ND, english_ND) in enumerate(zip(foreign, english, strict=True)):
        answers["en-xx", layer], answers["xx-en", layer] = nearest(english_ND, foreign_ND)
    return answers


def centred(states_LND: Tensor, mean_LD: Tensor) -> Tensor:
    return (states_LND.double() - mean_LD[:, None]).float()


def find_centre(
    sources: Sequence[Source],
    held_out: dict[str, tuple[list[str], list[str]]],
    test: dict[str, tuple[list[str], list[str]]],
    recipe: Recipe,
    encoder: Encoder,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
) -> Centre:
    """Means of each language, and the layer that retrieves held-out pairs best after subtracting them: mean accuracy
    over languages and both directions, of equals the lowest layer. Without held-out pairs those of the means choose."""
    means, kept, left_out, found = {}, {}, {}, []
    longest = longest_row(recipe, encoder)
    for source in sources:
        language = source.language
        lines, left_out[language] = centre_lines(source, test[language], recipe.centre["pairs"])
        if len(lines) < 2:
            raise UserError(f"{source.paths[0].parent}: {len(lines)} pairs that are no test; at least 2 are needed")
        pairs = Sentences(lines, torch.arange(len(lines)), source.pair.startswith("en-"))
        rows = held_out_rows(pairs, tokenizer, longest)
        kept[language] = len(rows.english)
        states = states_of((rows.foreign, rows.english), language, encoder, batch_rows, device)
        means[language] = tuple(side.double().mean(1) for side in states)
        if not held_out:
            found.append(centred_accuracy(states, means[language]))
    for language, pair in held_out.items():
        sides = [sentence_rows(tokenizer, side, longest) for side in pair]
        found.append(centred_accuracy(states_of(sides, language, encoder, batch_rows, device), means[language]))
    accuracy = [sum(of_layer) / len(found) for of_layer in zip(*found, strict=True)]
    described = {"run": recipe.centre["run"], "pairs": kept, "left_out": left_out, "accuracy": accuracy}
    described["held_out"] = {language: len(foreign) for language, (foreign, _) in held_out.items()}
    return Centre(means, accuracy.index(max(accuracy)), described)


def centred_accuracy(states: tuple[Tensor, Tensor], means: tuple[Tensor, Tensor]) -> list[float]:
    """Of each layer, in %, the mean of both directions; pair i belongs together."""
    answers = nearest_by_layer(*(centred(*one) for one in zip(states, means, strict=True)))
    own = range(states[0].shape[1])
    right = {key: sum(i == j for i, j in zip(numbers, own, strict=True)) for key, numbers in answers.items()}
    return [50 * sum(right[way, layer] for way in tatoeba.DIRECTIONS) / len(own) for layer in range(len(states[0]))]


def centre_lines(source: Source, test: tuple[list[str], list[str]], count: int) -> tuple[list[bytes], int]:
    """`count` lines of a source, spread evenly, but those with a sentence of the test, and how many these are."""
    count = min(count, source.size)
    lines = read_pairs(source, spread_numbers(source.size, count).tolist())
    tested = {sentence.strip().encode() for side in test for sentence in side}
    free = [line for line in lines.values() if not any(side.strip() in tested for side in line.split(b"\t"))]
    return free, len(lines) - len(free)


def mine(
    piles: Piles,
    language: str,
    recipe: Recipe,
    max_length: int,
    encoder: Encoder,
    tokenizer: Tokenizer,
    batch_rows: int,
    device: str,
) -> list[tuple[float, tuple[str, str]]]:
    """(score, ids) by falling score. Equal sentences are searched as one, and left out: which of them is meant is not
    known."""
    layer = recipe.recipe.layer_of(encoder.config.layers)
    vectors, ids = [], []
    for pile, code in ((piles.foreign, language), (piles.english, "en")):
        ids_of: dict[str, list[str]] = {}
        for id_, sentence in pile.items():
            ids_of.setdefault(sentence, []).append(id_)
        rows = sentence_rows(tokenizer, list(ids_of), max_length)
        vectors.append(mean_states(encoder, rows, code, batch_rows, device, layers=[layer])[0])
        ids.append([own[0] if len(own) == 1 else None for own in ids_of.values()])
    candidates = [(score, (ids[0][q], ids[1][m])) for score, q, m in mined(*vectors, recipe.recipe.neighbours)]
    return [(score, pair) for score, pair in candidates if None not in pair]


if __name__ == "__main__":
    run_main(main)
