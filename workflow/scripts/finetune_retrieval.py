"""Fine-tune a pre-trained encoder on translated sentences, and keep the weights that retrieve held-out ones best.

The hardest negative of a batch of pairs (x, y), all of one language with English, by binary cross-entropy:

    - log sigma(s(x, y)) - log sigma(- max over y' of s(x, y')) - log sigma(- max over x' of s(x', y)),  mean over pairs

s is similarity_scale * cosine + similarity_offset, of the mean states of the layer that retrieval reads. ERNIE-M names
this loss and prints no formula: its form, the scale, the offset and the batches of one language are ours. Retrieval
never tells languages apart, so neither should the negatives.

Without an offset no cosine above 0 is a good negative. States of an encoder that nothing has aligned all have cosines
near 1: the negatives drive them apart until all cosines are 0, where the loss is 3 log 2 and tells nothing. An offset
of -similarity_scale begins where s of such states is near 0.

A language has n^alpha of the batches, n its pairs in all corpora. The pairs of its batches are random permutations of
its pairs, one after the other, as far as they are needed: of each language only what is drawn is held in memory, as
text, and while it is drawn 17 bytes for each of its pairs. The same inputs and seed give the same weights, bit for bit,
on the same CPU.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError, run_main
from engine.heads import encode, mean_states, mean_tokens
from engine.model import Encoder
from engine.optim import AdamW
from engine.precision import mixed_precision
from engine.retrieval import nearest
from engine.rows import sentence_rows
from engine.tokenizer import Tokenizer
from tasks.recipe import Hyperparameters, Recipe, load_recipe
from training.finetuning import (
    PREDICT_ROWS,
    Bookmark,
    add_machine_arguments,
    generator,
    learn,
    load_start,
    longest_row,
    open_bookmark,
    update,
    write_best,
)
from training.pairs import SUFFIX, PairRows, Sentences, Source, find_sources, held_out_rows, read_sources


def main() -> None:
    args = parse_arguments()
    recipe = load_recipe(args.recipe)
    if not recipe.bitext:
        raise UserError(
            f"{args.recipe}: {recipe.task} {recipe.setting} has no bitext to fine-tune on; predict with the weights"
        )
    tokenizer, encoder, metadata, device = load_start(args, recipe)
    sources = find_sources(args.bitext, recipe)
    languages = languages_of_batches(sources, recipe, args.seed)
    train, dev = read_sources(sources, languages, recipe, args.seed)
    max_length = longest_row(recipe, encoder)
    held_out = {language: held_out_rows(one, tokenizer, max_length) for language, one in dev.items()}
    batches = batches_of(train, languages, recipe.recipe.batch)
    with ExitStack() as held:
        bookmark = open_bookmark(args, recipe, [args.spm, *args.bitext], held)
        state, report = finetune(encoder, batches, held_out, tokenizer, recipe, args.seed, device, bookmark)

        report["pairs"] = {source.language: source.size for source in sources}
        report["train_rows"] = {language: len(one.lines) for language, one in train.items()}
        report["dev_rows"] = {language: len(rows.english) for language, rows in held_out.items()}
        write_best(args, recipe, metadata, state, report, bookmark)


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML)")
    parser.add_argument("--encoder", required=True, help="pre-trained model.safetensors")
    parser.add_argument("--spm", required=True, help="vocabulary that the encoder was trained with")
    parser.add_argument(
        "--bitext",
        required=True,
        nargs="+",
        type=Path,
        help=f"clean pairs, <corpus>/<pair>/<shard>{SUFFIX}, and beside each its counts, <shard>.clean.json",
    )
    parser.add_argument("--seed", required=True, type=int, help="seed of what is drawn and of dropout")
    parser.add_argument("--out", required=True, help="fine-tuned model.safetensors to write")
    parser.add_argument("--dev-json", required=True, help="dev scores over training and what was selected, to write")
    add_machine_arguments(parser)
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------------------------
# Data


def languages_of_batches(sources: Sequence[Source], recipe: Recipe, seed: int) -> list[str]:
    """The language of each update's batch."""
    sizes = torch.tensor([source.size for source in sources], dtype=torch.float64)
    shares = (sizes / sizes.sum()) ** recipe.bitext["alpha"]
    drawn = torch.multinomial(shares, recipe.recipe.steps, replacement=True, generator=generator(seed, "languages"))
    return [sources[i].language for i in drawn.tolist()]


def batches_of(
    train: dict[str, Sentences], languages: Sequence[str], size: int
) -> Iterator[tuple[str, tuple[list[bytes], list[bytes]]]]:
    """The language and the sentences of each update's batch."""
    used = dict.fromkeys(train, 0)
    for language in languages:
        begin = used[language]
        used[language] += size
        yield language, train[language].sides(train[language].order[begin : begin + size].tolist())


# ---------------------------------------------------------------------------------------------------------------------
# Training


def finetune(
    encoder: Encoder,
    batches: Iterator[tuple[str, tuple[list[bytes], list[bytes]]]],
    dev: dict[str, PairRows],
    tokenizer: Tokenizer,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
    bookmark: Bookmark | None = None,
) -> tuple[dict[str, Tensor], dict]:
    """Weights of the encoder that are best on dev, and the dev history."""
    hyper, layer = recipe.recipe, recipe.recipe.layer_of(encoder.config.layers)
    max_length = longest_row(recipe, encoder)

    def step_of(batch: tuple[str, tuple[list[bytes], list[bytes]]], optimizer: AdamW) -> float:
        language, sides = batch
        rows = PairRows(*(sentence_rows(tokenizer, side, max_length) for side in sides))
        return train_step(model, optimizer, rows, language, layer, hyper, device)

    # Dropout can only draw from torch's global generator: lend it a seed, then restore it.
    with torch.random.fork_rng():
        torch.manual_seed(generator(seed, "dropout and head").initial_seed())
        model = nn.ModuleDict({"encoder": encoder}).to(device)
        left, keep = (bookmark.read(), bookmark.write) if bookmark else (None, None)
        return learn(
            model,
            hyper,
            hyper.steps,
            recipe.metric,
            batches,
            step_of,
            lambda: dev_scores(encoder, dev, layer, device),
            left,
            keep,
        )


def train_step(
    model: nn.Module,
    optimizer: AdamW,
    pairs: PairRows,
    language: str,
    layer: int,
    hyper: Hyperparameters,
    device: str,
) -> float:
    optimizer.zero_grad()
    with mixed_precision(hyper.precision, device):
        foreign_BD, english_BD = (
            mean_tokens(*encode(model["encoder"], rows, [code] * len(rows), device, layers=layer))
            for rows, code in ((pairs.foreign, language), (pairs.english, "en"))
        )
    equal_BB = (equals(pairs.foreign) | equals(pairs.english)).to(device)
    scale, offset = hyper.similarity_scale, hyper.similarity_offset
    loss = hardest_negative_loss(foreign_BD.float(), english_BD.float(), equal_BB, scale, offset)
    loss.backward()
    update(model, optimizer, hyper)
    return loss.item()


def equals(rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, B) Which rows are the same."""
    number: dict[tuple[int, ...], int] = {}
    numbers_B = torch.tensor([number.setdefault(tuple(row), len(number)) for row in rows])
    return numbers_B[:, None] == numbers_B[None]


def hardest_negative_loss(
    foreign_BD: Tensor, english_BD: Tensor, equal_BB: Tensor, scale: float, offset: float = 0.0
) -> Tensor:
    """Mean over pairs. What equals a pair in a side, as the pair itself does, is no negative of it."""
    similarity_BB = scale * F.normalize(foreign_BD, dim=1) @ F.normalize(english_BD, dim=1).T + offset
    negative_BB = similarity_BB.masked_fill(equal_BB, -torch.inf)  # softplus(-inf) = 0, with gradient 0
    hardest = F.softplus(negative_BB.amax(1)) + F.softplus(negative_BB.amax(0))
    return (F.softplus(-similarity_BB.diagonal()) + hardest).mean()


def dev_scores(encoder: Encoder, dev: dict[str, PairRows], layer: int, device: str) -> dict[str, float]:
    """Accuracy of retrieval among a language's held-out pairs, the mean of both directions."""
    scores = {}
    for language, pairs in dev.items():
        foreign_ND, english_ND = (
            mean_states(encoder, rows, code, PREDICT_ROWS, device, layers=[layer])[0]
            for rows, code in ((pairs.foreign, language), (pairs.english, "en"))
        )
        found = [i == own for side in nearest(english_ND, foreign_ND) for i, own in enumerate(side)]
        scores[language] = 100 * sum(found) / len(found)
    return scores


if __name__ == "__main__":
    run_main(main)
