"""Word alignment: which words of two sentences translate each other; German, French, Hindi and Romanian with English.

A pair is named by its foreign language; the archive's folders, de-en, en-fr, en-hi and ro-en, say which side comes
first. Words are what white space separates. A prediction file has one line for each sentence pair, links `i-j` from 0.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from engine.alignments import Alignment, Link, agreement_shares, error_rate, precision, recall
from engine.metrics import Metric
from tasks.files import (
    check_count,
    decode_lines,
    fingerprint,
    read_bytes,
    read_lines,
    split_lines,
    tar_members,
    write_lines,
)

METRICS = {
    "error-rate": Metric(error_rate, "diagonal", agreement_shares),
    "precision": Metric(precision, "diagonal"),
    "recall": Metric(recall, "diagonal"),
}
FOLDERS = {"de": "de-en", "fr": "en-fr", "hi": "en-hi", "ro": "ro-en"}
# Links that point past their sentence, as published: no alignment has them, and they count among the sure ones.
KNOWN_BEYOND = {"de": 1, "hi": 1}
NUMBER = "[0-9]{1,9}"
GOLD_LINE = re.compile(rf"(?P<id>{NUMBER})\s+(?P<source>-?{NUMBER})\s+(?P<target>-?{NUMBER})(?:\s+(?P<kind>[SP]))?")
LINK = re.compile(rf"({NUMBER})-({NUMBER})")


class Aligned(NamedTuple):
    """Sentence pairs, first and second side in the order of the folder's name, and their gold links."""

    first: list[str]
    second: list[str]
    gold: list[Alignment]


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, Aligned]:
    found = {}
    for language in languages:
        found[language] = read_folder(paths["gold"], language)
        check_count(len(found[language].gold), counts.get(language), f"{paths['gold']}, {FOLDERS[language]}")
    return found


def read_folder(path: str | Path, language: str) -> Aligned:
    if language not in FOLDERS:
        raise UserError(f"{path}: {language!r} has no gold alignment; use {', '.join(FOLDERS)}")
    folder = FOLDERS[language]
    names = [f"test.{side}" for side in folder.split("-")] + ["alignv2.txt"]

    def wanted(name: str) -> bool:
        return any(name.endswith(f"{folder}/{own}") for own in names)

    files = {name.rpartition("/")[2]: data for name, data in tar_members(path, wanted)}
    for name in names:
        if name not in files:
            raise UserError(f"{path}: no member {folder}/{name}; this is another archive than the task expects")
    lines = {name: decode_lines(files[name], f"{path}, {folder}/{name}") for name in names}
    first, second = (lines[name] for name in names[:2])
    if len(first) != len(second):
        raise UserError(f"{path}, {folder}: {len(first)} sentences in {names[0]}, {len(second)} in {names[1]}")
    sizes = [(len(one.split()), len(other.split())) for one, other in zip(first, second, strict=True)]
    known = KNOWN_BEYOND.get(language, 0)
    return Aligned(first, second, parse_gold(lines["alignv2.txt"], sizes, f"{path}, {folder}/alignv2.txt", known))


def parse_gold(
    lines: Sequence[str], sizes: Sequence[tuple[int, int]], where: str, known_beyond: int = 0
) -> list[Alignment]:
    """`id source target [S|P]`, words from 1, no letter means sure. Ids have holes: their order counts."""
    links: dict[str, tuple[set[Link], set[Link]]] = {}
    lines_of: dict[tuple[str, Link], int] = {}
    for number, line in enumerate(lines, start=1):
        match = GOLD_LINE.fullmatch(line.strip())
        if not match:
            raise UserError(f"{where}, line {number}: not `id source target [S|P]`")
        sure, possible = links.setdefault(match["id"], (set(), set()))
        link = (int(match["source"]) - 1, int(match["target"]) - 1)
        possible.add(link)
        lines_of[match["id"], link] = number
        if match["kind"] != "P":
            sure.add(link)
    if len(links) != len(sizes):
        raise UserError(f"{where}: links of {len(links)} sentence pairs, but there are {len(sizes)}")
    beyond = [
        (lines_of[id_, link], link, size)
        for (id_, (_, possible)), size in zip(links.items(), sizes, strict=True)
        for link in possible
        if not (0 <= link[0] < size[0] and 0 <= link[1] < size[1])
    ]
    if len(beyond) > known_beyond:
        number, link, size = min(beyond)
        raise UserError(
            f"{where}, line {number}: words {link[0] + 1} and {link[1] + 1} of sentences of {size[0]} and {size[1]}; "
            f"{len(beyond)} such links where the published file has {known_beyond}"
        )
    if not any(sure for sure, _ in links.values()):
        raise UserError(f"{where}: no sure link; the error rate rests on them, give a file that has some")
    return [
        Alignment(frozenset(sure), frozenset(possible), size)
        for (sure, possible), size in zip(links.values(), sizes, strict=True)
    ]


def inputs_of(pairs: Aligned) -> str:
    return fingerprint([pairs.first, pairs.second])


def gold_of(pairs: Aligned) -> list[Alignment]:
    return pairs.gold


def read_gold(path: str | Path, language: str) -> list[Alignment]:
    """Of the archive alone: how long the sentences are stands in another file than their links."""
    if not str(path).endswith((".tgz", ".tar.gz", ".tar")):
        raise UserError(f"{path}: give the archive of all test sets, which holds links and sentences")
    return read_folder(path, language).gold


def read_predictions(path: str | Path, gold: Sequence[Alignment]) -> list[frozenset[Link]]:
    return parse_links(read_alignments(path), gold, str(path))


def read_alignments(path: str | Path) -> list[str]:
    """Lines, which all may be empty: nothing is linked, and that has a score too."""
    data = read_bytes(path)
    return split_lines(data, str(path)) if data else read_lines(path)


def read_layer_predictions(path: str | Path, gold: Sequence[Alignment]) -> list[list[frozenset[Link]]]:
    """Of each layer, 0 the embedding output: one tab-separated column each."""
    rows = [line.split("\t") for line in read_alignments(path)]
    if len({len(row) for row in rows}) != 1:
        raise UserError(f"{path}: its lines have different numbers of layers; predict again")
    return [parse_links(column, gold, str(path)) for column in zip(*rows, strict=True)]


def parse_links(lines: Sequence[str], gold: Sequence[Alignment], path: str) -> list[frozenset[Link]]:
    if len(lines) != len(gold):
        raise UserError(f"{path}: {len(lines)} lines for {len(gold)} sentence pairs; they are for others, or cut short")
    found = []
    for number, (line, own) in enumerate(zip(lines, gold, strict=True), start=1):
        links = set()
        for cell in line.split():
            match = LINK.fullmatch(cell)
            if not match:
                raise UserError(f"{path}, line {number}: {cell!r} is not a link; write i-j, counted from 0")
            link = (int(match[1]), int(match[2]))
            if link[0] >= own.words[0] or link[1] >= own.words[1]:
                sizes = " and ".join(map(str, own.words))
                raise UserError(f"{path}, line {number}: {cell} is beyond the sentences, of {sizes} words")
            links.add(link)
        found.append(frozenset(links))
    return found


def write_predictions(path: str | Path, alignments: Sequence[frozenset[Link]]) -> None:
    write_lines(path, map(links_text, alignments))


def write_layer_predictions(path: str | Path, by_layer: Sequence[Sequence[frozenset[Link]]]) -> None:
    write_lines(path, ["\t".join(map(links_text, layers)) for layers in zip(*by_layer, strict=True)])


def links_text(links: frozenset[Link]) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
