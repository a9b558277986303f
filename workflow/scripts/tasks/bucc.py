"""BUCC 2018: find the translations among two piles of sentences; German, French, Russian and Chinese with English.

XTREME's dev is the sample of the shared task, its test the training set: the gold of the real test set is not public.
A prediction file has one `foreign id<TAB>English id` a line.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from engine.metrics import Metric
from engine.mining import Pair, pair_f1, pair_shares
from tasks.files import check_count, decode_lines, fingerprint, read_bytes, read_lines, tar_members, write_lines

METRICS = {"f1": Metric(pair_f1, "nothing", pair_shares)}
PARTS = {"dev": "sample", "test": "training"}


class Piles(NamedTuple):
    foreign: dict[str, str]  # id -> sentence
    english: dict[str, str]
    gold: list[Pair]


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, Piles]:
    return read_parts(paths, "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, Piles]:
    return read_parts(paths, "test", languages, counts)


def read_parts(
    paths: dict[str, Path], split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, Piles]:
    return {
        language: read_piles(paths[f"{split}-{language}"], split, language, counts)
        if f"{split}-{language}" in paths
        else read_half(paths, split, language, counts)
        for language in languages
    }


def read_half(paths: dict[str, Path], split: str, language: str, counts: dict[str, int]) -> Piles:
    """Of the sample alone (foreign, english and gold of a language), where the archives are not to be had: dev is every
    other gold pair and every other sentence of no pair, test the rest: the threshold sees no test."""
    files = [paths[f"{part}-{language}"] for part in ("foreign", "english", "gold")]
    foreign, english = (parse_pile(read_lines(path), str(path)) for path in files[:2])
    gold = parse_pairs(read_lines(files[2]), str(files[2]))
    check_gold(gold, {str(files[0]): foreign, str(files[1]): english}, str(files[2]))
    parity = ("dev", "test").index(split)
    kept = gold[parity::2]
    check_count(len(kept), counts.get(language), f"{files[2]}, {split}")
    return Piles(*(half_of(pile, side, gold, parity) for side, pile in enumerate((foreign, english))), kept)


def half_of(pile: dict[str, str], side: int, gold: Sequence[Pair], parity: int) -> dict[str, str]:
    paired = {pair[side]: number for number, pair in enumerate(gold)}
    alone = (id_ for id_ in pile if id_ not in paired)
    numbers = paired | {id_: number for number, id_ in enumerate(alone)}
    return {id_: sentence for id_, sentence in pile.items() if numbers[id_] % 2 == parity}


def read_piles(path: str | Path, split: str, language: str, counts: dict[str, int]) -> Piles:
    """Of bucc2018-<l>-en.<part>-gold.tar.bz2; `counts` are those of gold pairs."""
    stem = f"bucc2018/{language}-en/{language}-en.{PARTS[split]}"
    names = [f"{stem}.{side}" for side in (language, "en", "gold")]
    wanted = {prefix + name: name for name in names for prefix in ("", "./")}
    files = {wanted[name]: data for name, data in tar_members(path, wanted.__contains__)}
    for name in names:
        if name not in files:
            raise UserError(f"{path}: no member {name}; this is another archive than the task expects")
    lines = {name: decode_lines(data, f"{path}, {name}") for name, data in files.items()}
    foreign, english = (parse_pile(lines[name], f"{path}, {name}") for name in names[:2])
    where = f"{path}, {names[2]}"
    gold = parse_pairs(lines[names[2]], where)
    check_ids(gold, language, where)
    check_count(len(gold), counts.get(language), where)
    check_gold(gold, {names[0]: foreign, names[1]: english}, where)
    return Piles(foreign, english, gold)


def check_gold(gold: Sequence[Pair], piles: dict[str, dict[str, str]], where: str) -> None:
    for number, pair in enumerate(gold, start=1):
        for id_, (name, pile) in zip(pair, piles.items(), strict=True):
            if id_ not in pile:
                raise UserError(f"{where}, line {number}: id {id_} is not in {name}")


def parse_pile(lines: Sequence[str], where: str) -> dict[str, str]:
    pile: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        id_, tab, sentence = line.partition("\t")
        if not tab or not id_ or not sentence.strip():
            raise UserError(f"{where}, line {number}: not `id<TAB>sentence`")
        if id_ in pile:
            raise UserError(f"{where}, line {number}: id {id_} stands twice")
        pile[id_] = sentence
    return pile


def parse_pairs(lines: Sequence[str], where: str) -> list[Pair]:
    pairs: dict[Pair, int] = {}
    for number, line in enumerate(lines, start=1):
        cells = tuple(line.split("\t"))
        if len(cells) != 2 or not all(cells):
            raise UserError(f"{where}, line {number}: not `foreign id<TAB>English id`")
        if cells in pairs:
            raise UserError(f"{where}, line {number}: the pair is already on line {pairs[cells]}")
        pairs[cells] = number
    return list(pairs)


def check_ids(pairs: Sequence[Pair], language: str, where: str) -> None:
    """An id as upstream writes it begins with its language, `de-000000123`."""
    for number, pair in enumerate(pairs, start=1):
        for id_, code in zip(pair, (language, "en"), strict=True):
            named = re.fullmatch("([a-z]{2,3})-[0-9]+", id_)
            if named and named[1] != code:
                raise UserError(f"{where}, pair {number}: id {id_} is of language {named[1]}, not of {code}")


def inputs_of(piles: Piles) -> str:
    return fingerprint([sorted(piles.foreign.items()), sorted(piles.english.items())])


def gold_of(piles: Piles) -> list[Pair]:
    return piles.gold


def read_gold(path: str | Path, language: str) -> list[Pair]:
    """From the archive of the training set, or from a file of gold pairs."""
    if str(path).endswith((".tar.bz2", ".tgz", ".tar.gz", ".tar")):
        return read_piles(path, "test", language, {}).gold
    pairs = parse_pairs(read_lines(path), str(path))
    check_ids(pairs, language, str(path))
    return pairs


def read_predictions(path: str | Path, gold: Sequence[Pair]) -> list[Pair]:
    """Any number of pairs, also none: what was not found is left out."""
    data = read_bytes(path)
    return parse_pairs(decode_lines(data, str(path)), str(path)) if data else []


def write_predictions(path: str | Path, pairs: Sequence[Pair]) -> None:
    write_lines(path, ["\t".join(pair) for pair in pairs])
