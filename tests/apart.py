"""Look for test sentences in cleaned text by brute force, with nothing of the code that cleans.

  python tests/apart.py --clean results/real/corpus --tests results/real/raw/.../tatoeba.deu-eng.deu ...

A test sentence is found as a run of whole words in a line, without regard to case, accents and punctuation; one of
under three words or twelve letters (digits are none: a date may be an entity) only as a whole line. A line is nearly a
test sentence where seven tenths of the two-word runs of both together are common to both. Chinese and Thai signs are
words each.
"""

import argparse
import gzip
import io
import json
import tarfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

ALIKE = 0.7
LEAST_RUNS = 6  # of near sentences: below that a share means little


def units(path: Path) -> Iterator[str]:
    """The sentences of a file of a test set, by what its name says of its form."""
    name = path.name
    if name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and Path(member.name).name.startswith("test."):
                    yield from archive.extractfile(member).read().decode().splitlines()
        return
    with gzip.open(path, "rt") if name.endswith(".gz") else open(path, encoding="utf-8", newline="\n") as stream:
        text = stream.read()
    if name.endswith(".json"):
        for article in json.loads(text)["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]
                yield from (item["question"] for item in paragraph["qas"])
    elif "-ud-" in name:
        yield from (line[9:] for line in text.split("\n") if line.startswith("# text = "))
    elif name.startswith("zh-en."):  # BUCC: id, sentence
        yield from (line.partition("\t")[2] for line in text.split("\n") if not name.endswith(".gold"))
    elif "panx" in path.parts or "wikiann" in path.parts or "WikiANN" in path.parts:
        for sentence in text.split("\n\n"):
            rows = [line.split("\t") for line in sentence.split("\n") if line.strip()]
            tokens = (row[0].partition(":")[2] if "WikiANN" in path.parts else row[-2] for row in rows)
            yield " ".join(tokens)
    else:
        yield from text.split("\n")


def unspaced(sign: str) -> bool:
    name = unicodedata.name(sign, "")
    return name.startswith(("CJK", "THAI", "HIRAGANA", "KATAKANA", "LAO", "MYANMAR", "KHMER"))


def words(text: str) -> list[str]:
    signs = []
    for sign in unicodedata.normalize("NFKD", text.casefold()):
        kind = unicodedata.category(sign)
        if kind[0] in "LN":
            signs.append(f" {sign} " if unspaced(sign) else sign)
        elif kind in ("Mn", "Me") and not unicodedata.name(sign, "").startswith(INDIC):
            continue
        elif kind[0] != "M" and kind != "Cf":
            signs.append(" ")
        elif kind[0] == "M":
            signs.append(f" {sign} " if unspaced(sign) else sign)
    return "".join(signs).split()


INDIC = ("DEVANAGARI", "THAI", "BENGALI", "TAMIL", "TELUGU", "MALAYALAM")


def runs(line: list[str]) -> set[tuple[str, ...]]:
    size = 3 if sum(len(word) == 1 for word in line) * 2 > len(line) else 2
    return {tuple(line[i : i + size]) for i in range(len(line) - size + 1)}


class Tests:
    def __init__(self, sentences: Iterable[str]):
        self.inside: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        self.whole: set[tuple[str, ...]] = set()
        self.near: dict[tuple[str, ...], list[set]] = defaultdict(list)
        for line in {tuple(words(sentence)) for sentence in sentences} - {()}:
            letters = sum(sum(not sign.isnumeric() for sign in word) + (len(word) == 1) for word in line)
            if len(line) >= 3 and letters >= 12:
                self.inside[line[:3]].add(line[:40])
            else:
                self.whole.add(line)
            own = runs(list(line))
            if LEAST_RUNS <= len(own) <= 60:
                # two sets that share so much share one of these, in whatever order all runs are put
                for run in sorted(own)[: len(own) - int(ALIKE * len(own)) + 1]:
                    self.near[run].append(own)

    def verdict(self, text: str) -> str | None:
        """`whole`, `near`, or nothing."""
        line = tuple(words(text))
        if line in self.whole:
            return "whole"
        for i in range(len(line) - 2):
            if any(line[i : i + len(test)] == test for test in self.inside.get(line[i : i + 3], ())):
                return "whole"
        own = runs(list(line))
        if len(own) < LEAST_RUNS:
            return None
        for run in sorted(own)[: len(own) - int(ALIKE * len(own)) + 1]:
            if any(len(own & test) >= ALIKE * len(own | test) for test in self.near.get(run, ())):
                return "near"
        return None


def clean_lines(path: Path) -> Iterator[str]:
    """Lines of text, and both sides of pairs."""
    with open(path, "rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
        for line in io.TextIOWrapper(stream, "utf-8", newline="\n"):
            yield from (side for side in line.rstrip("\n").split("\t") if side)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clean", type=Path, required=True, help="folder below which *.clean.*.zst lie")
    parser.add_argument("--tests", type=Path, nargs="+", required=True, help="files of test sets")
    args = parser.parse_args()
    tests = Tests(sentence for path in args.tests for sentence in units(path))
    files = sorted([*args.clean.rglob("*.clean.txt.zst"), *args.clean.rglob("*.clean.tsv.zst")])
    found, lines = Counter(), 0
    for path in files:
        for line in clean_lines(path):
            lines += 1
            if verdict := tests.verdict(line):
                found[verdict] += 1
                print(f"{path}: {verdict}: {line}")
    print(f"{found['whole']} test sentences and {found['near']} near ones in {lines} lines of {len(files)} files")
    return 1 if found or not lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
