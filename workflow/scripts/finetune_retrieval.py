"""Fine-tune a pre-trained encoder on translated sentences, and keep the weights that retrieve held-out ones best.

The hardest negative of a batch of pairs (x, y), all of one language with English, by binary cross-entropy:

    - log sigma(s(x, y)) - log sigma(- max over y' of s(x, y')) - log sigma(- max over x' of s(x', y)),  mean over pairs

s is the cosine, times similarity_scale, of the mean states of the layer that retrieval reads. ERNIE-M names this loss
and prints no formula: its form, the scale and the batches of one language are ours. Retrieval never tells languages
apart, so neither should the negatives.

A language has n^alpha of the batches, n its pairs in all corpora. The pairs of its batches are random permutations of
its pairs, one after the other, as far as they are needed: of each language only what is drawn is held in memory, as
text, and while it is drawn 17 bytes for each of its pairs. The same inputs and seed give the same weights, bit for bit,
on the same CPU.
"""

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.atomic import write_json
from common.errors import UserError, run_main
from encode_corpus import read_utf8_lines
from engine.checkpoint import load_encoder, save_weights
from engine.heads import encode, mean_states, mean_tokens
from engine.model import Encoder
from engine.retrieval import nearest
from engine.rows import sentence_rows
from engine.tokenizer import Tokenizer, load_tokenizer
from finetune import (
    PREDICT_ROWS,
    Bookmark,
    add_machine_arguments,
    check_vocabulary,
    describe,
    generator,
    learn,
    longest_row,
    open_bookmark,
    pick_device,
    update,
)
from tasks.recipe import Hyperparameters, Recipe, load_recipe

HELD_OUT = 0.05  # of a language's pairs, and at most recipe.dev_limit: they choose the weights and train none
SUFFIX = ".clean.tsv.zst"


@dataclass
class Source:
    """The clean shards of one pair of languages, all corpora, and the number of pairs in each."""

    pair: str
    paths: list[Path]
    sizes: list[int]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def language(self) -> str:
        return next(code for code in self.pair.split("-") if code != "en")


@dataclass
class Sentences:
    """Pairs of one language with English: each line, and the lines of its batches one after the other."""

    lines: list[bytes]
    order: Tensor
    english_first: bool

    def sides(self, numbers: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """(foreign, English) of these lines."""
        first, second = zip(*(self.lines[i].split(b"\t") for i in numbers), strict=True)
        return (list(second), list(first)) if self.english_first else (list(first), list(second))


@dataclass
class PairRows:
    foreign: list[list[int]]
    english: list[list[int]]


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    if not recipe.bitext:
        raise UserError(
            f"{args.recipe}: {recipe.task} {recipe.setting} has no bitext to fine-tune on; predict with the weights"
        )
    tokenizer = load_tokenizer(args.spm)
    encoder, metadata = load_encoder(args.encoder)
    check_vocabulary(metadata, args.encoder, args.spm)
    device = pick_device(args.device)

    sources = find_sources(args.bitext, recipe)
    languages = languages_of_batches(sources, recipe, args.seed)
    train, dev = read_sources(sources, languages, recipe, args.seed)
    max_length = longest_row(recipe, encoder)
    held_out = {language: held_out_rows(one, tokenizer, max_length) for language, one in dev.items()}
    batches = batches_of(train, languages, recipe.recipe.batch)
    with ExitStack() as held:
        bookmark = open_bookmark(args, recipe, [args.spm, *args.bitext], held)
        state, report = finetune(encoder, batches, held_out, tokenizer, recipe, args.seed, device, bookmark)

        report |= {"task": recipe.task, "setting": recipe.setting, "seed": args.seed, "recipe": asdict(recipe.recipe)}
        report |= {"train_languages": recipe.train_languages}
        report["pairs"] = {source.language: source.size for source in sources}
        report["train_rows"] = {language: len(one.lines) for language, one in train.items()}
        report["dev_rows"] = {language: len(rows.english) for language, rows in held_out.items()}
        save_weights(args.out, state, describe(metadata, recipe, args.seed, report["selection"]))
        write_json(args.dev_json, report)
        shutil.rmtree(bookmark.folder, ignore_errors=True)


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


def find_sources(paths: Sequence[Path], recipe: Recipe) -> list[Source]:
    """The given shards by pair of languages, in an order that the command line does not change."""
    named = recipe.centre or recipe.bitext
    wanted = {(pair, corpus) for pair, corpora in named["corpora"].items() for corpus in corpora}
    found: dict[str, list[Path]] = {}
    for path in sorted(paths, key=lambda path: (path.parent, len(path.name), path.name)):
        pair, corpus = path.parent.name, path.parent.parent.name
        if (pair, corpus) not in wanted or not path.name.endswith(SUFFIX):
            raise UserError(f"{path}: not a shard <corpus>/<pair>/<shard>{SUFFIX} of the recipe's corpora")
        found.setdefault(pair, []).append(path)
    for pair, corpus in sorted(wanted):
        if corpus not in {path.parent.parent.name for path in found.get(pair, [])}:
            raise UserError(f"--bitext: no shard of {corpus} {pair}, which the recipe's corpora name; add it")
    sources = [Source(pair, own, [count_of(path) for path in own]) for pair, own in sorted(found.items())]
    for source in sources:
        if source.size * HELD_OUT < 1:
            raise UserError(
                f"{source.paths[0].parent}: {source.size} clean pairs, of which none can be held out; "
                f"at least {round(1 / HELD_OUT)} are needed"
            )
    return sources


def count_of(path: Path) -> int:
    counts = path.with_name(path.name.removesuffix(SUFFIX) + ".clean.json")
    try:
        return json.loads(counts.read_text(encoding="utf-8"))["out"]["documents"]
    except FileNotFoundError:
        raise UserError(f"{counts}: no such file; it lies beside the pairs that clean_bitext.py wrote") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{counts}: not the counts of clean_bitext.py; clean again") from None


def languages_of_batches(sources: Sequence[Source], recipe: Recipe, seed: int) -> list[str]:
    """The language of each update's batch."""
    sizes = torch.tensor([source.size for source in sources], dtype=torch.float64)
    shares = (sizes / sizes.sum()) ** recipe.bitext["alpha"]
    drawn = torch.multinomial(shares, recipe.recipe.steps, replacement=True, generator=generator(seed, "languages"))
    return [sources[i].language for i in drawn.tolist()]


def read_sources(
    sources: Sequence[Source], languages: Sequence[str], recipe: Recipe, seed: int
) -> tuple[dict[str, Sentences], dict[str, Sentences]]:
    """What is drawn of each language, and what is held out of it: every n-th pair, the same for all seeds."""
    train, dev = {}, {}
    for source in sources:
        held = held_out_numbers(source.size, recipe.recipe.dev_limit)
        free_N = torch.ones(source.size, dtype=torch.bool)
        free_N[held] = False
        drawn = languages.count(source.language) * recipe.recipe.batch
        order = free_N.nonzero()[:, 0][permutations(len(free_N) - len(held), drawn, generator(seed, source.pair))]
        numbers, places = order.unique(return_inverse=True)
        lines = read_pairs(source, torch.cat([numbers, held]).sort().values.tolist())
        english_first = source.pair.startswith("en-")
        train[source.language] = Sentences([lines[i] for i in numbers.tolist()], places, english_first)
        dev[source.language] = Sentences([lines[i] for i in held.tolist()], torch.arange(len(held)), english_first)
    return train, dev


def held_out_numbers(size: int, limit: int | None) -> Tensor:
    """Spread evenly: the corpora of a language follow each other."""
    count = min(int(size * HELD_OUT), limit or size)
    return torch.arange(1, count + 1) * size // count - 1


def permutations(size: int, count: int, draw: torch.Generator) -> Tensor:
    """`count` numbers below `size`, each as often as any other, or once less."""
    rounds = [torch.randperm(size, generator=draw) for _ in range(-(-count // size))]
    return torch.cat(rounds)[:count] if rounds else torch.empty(0, dtype=torch.int64)


def read_pairs(source: Source, numbers: Sequence[int]) -> dict[int, bytes]:
    """{number: foreign TAB English, or the other way round} of the wanted ones of all lines of a source."""
    found: dict[int, bytes] = {}
    wanted = iter(numbers)
    following, first = next(wanted, None), 0
    for path, size in zip(source.paths, source.sizes, strict=True):
        count = 0
        for count, line in enumerate(read_utf8_lines(path), start=1):
            if first + count - 1 == following:
                if line.count(b"\t") != 1:
                    raise UserError(f"{path}, line {count}: not two sentences with a tab between them; clean again")
                found[following] = line
                following = next(wanted, None)
        if count != size:
            raise UserError(f"{path}: {count} pairs, but its counts say {size}; clean again")
        first += size
    return found


def held_out_rows(sentences: Sentences, tokenizer: Tokenizer, max_length: int) -> PairRows:
    """Of pairs with an equal side only the first: which of two equal sentences is meant is not known."""
    foreign, english = (
        sentence_rows(tokenizer, side, max_length) for side in sentences.sides(sentences.order.tolist())
    )
    seen: tuple[set, set] = set(), set()
    kept = []
    for i, pair in enumerate(zip(map(tuple, foreign), map(tuple, english), strict=True)):
        if not any(row in rows for row, rows in zip(pair, seen, strict=True)):
            kept.append(i)
            for row, rows in zip(pair, seen, strict=True):
                rows.add(row)
    return PairRows([foreign[i] for i in kept], [english[i] for i in kept])


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

    def step_of(batch: tuple[str, tuple[list[bytes], list[bytes]]], optimizer: torch.optim.Optimizer) -> float:
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
    optimizer: torch.optim.Optimizer,
    pairs: PairRows,
    language: str,
    layer: int,
    hyper: Hyperparameters,
    device: str,
) -> float:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, torch.bfloat16, enabled=hyper.precision == "bf16"):
        foreign_BD, english_BD = (
            mean_tokens(*encode(model["encoder"], rows, [code] * len(rows), device, layers=layer))
            for rows, code in ((pairs.foreign, language), (pairs.english, "en"))
        )
    equal_BB = (equals(pairs.foreign) | equals(pairs.english)).to(device)
    loss = hardest_negative_loss(foreign_BD.float(), english_BD.float(), equal_BB, hyper.similarity_scale)
    loss.backward()
    update(model, optimizer, hyper)
    return loss.item()


def equals(rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, B) Which rows are the same."""
    number: dict[tuple[int, ...], int] = {}
    numbers_B = torch.tensor([number.setdefault(tuple(row), len(number)) for row in rows])
    return numbers_B[:, None] == numbers_B[None]


def hardest_negative_loss(foreign_BD: Tensor, english_BD: Tensor, equal_BB: Tensor, scale: float) -> Tensor:
    """Mean over pairs. What equals a pair in a side, as the pair itself does, is no negative of it."""
    similarity_BB = scale * F.normalize(foreign_BD, dim=1) @ F.normalize(english_BD, dim=1).T
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
