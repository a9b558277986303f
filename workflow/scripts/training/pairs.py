"""Sentence pairs for retrieval: their sources, those that are held out, and their rows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from common.errors import UserError
from corpus.lines import read_utf8_lines
from engine.rows import sentence_rows
from engine.tokenizer import Tokenizer
from tasks.recipe import Recipe
from training.finetuning import generator

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
    return spread_numbers(size, min(int(size * HELD_OUT), limit or size))


def spread_numbers(size: int, count: int) -> Tensor:
    """`count` numbers below `size`, spread evenly: the corpora of a language follow each other."""
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
