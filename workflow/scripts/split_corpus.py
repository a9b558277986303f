"""Cut upstream text into shards by document (mono) or by pair (bitext), each line with the place that it came from.

A corpus is one file of a language or an archive of a pair, or it is gathered from many small files (segments.py).
"""

import argparse
import io
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO

from common.archives import damage
from common.errors import UserError, run_main
from corpus.corpusio import (
    LONGEST_DOCUMENT,
    LONGEST_LINE,
    LONGEST_TEXT,
    header_line,
    read_lines,
    zst_writers,
)
from corpus.segments import read_aligned, read_documents
from corpus.sides import open_sides, shown_name


def split_gathered(texts: list[Path], alone: set[Path], root: Path | None, out: list[Path]) -> dict[str, int]:
    """As split_mono, of files in any form of segments.py. In those of `alone` each line is a document."""
    lines = documents = 0
    with zst_writers(out) as writers:
        for writer in writers:
            writer.write(header_line([shown_name(path, root) for path in texts], "mono"))
        for file, path in enumerate(texts):
            for document in read_documents(path, path in alone):
                for begin in range(0, len(document), LONGEST_DOCUMENT):
                    piece = document[begin : begin + LONGEST_DOCUMENT]
                    text = "".join(f"{file}\t{number}\t{line}\n" for number, line in piece)
                    writers[documents % len(writers)].write(f"{text}\n")
                    documents += 1
                    lines += len(piece)
    if not lines:
        raise UserError(f"{', '.join(map(str, texts))}: no line of text; check the download")
    return {"lines": lines, "documents": documents}


def split_mono(texts: list[Path], root: Path | None, out: list[Path]) -> dict[str, int]:
    """Document number i goes to shard i mod n; returns counts of lines and documents."""
    names = [shown_name(path, root) for path in texts]
    lines = documents = 0
    with zst_writers(out) as writers:
        for writer in writers:
            writer.write(header_line(names, "mono"))
        for file, path in enumerate(texts):
            document: list[str] = []  # the open one; the next rules hold one in memory too, so it has to end
            characters = 0
            for number, line in enumerate(chain(read_lines(path, LONGEST_LINE), [""]), start=1):
                if line:
                    document.append(f"{file}\t{number}\t{line}\n")
                    characters += len(line)
                    if len(document) < LONGEST_DOCUMENT and characters < LONGEST_TEXT:
                        continue
                if document:
                    document.append("\n")
                    writers[documents % len(writers)].write("".join(document))
                    documents += 1
                    lines += len(document) - 1
                    document = []
                    characters = 0
        if not lines:
            raise UserError(f"{', '.join(map(str, texts))}: no line of text; check the download")
    return {"lines": lines, "documents": documents}


def _lines(member: BinaryIO) -> Iterator[str]:
    """One by one: where an archive is broken, it is known how many there were."""
    with io.TextIOWrapper(member, "utf-8", errors="replace", newline="\n") as text:
        while line := text.readline(LONGEST_LINE):
            rest = line
            while rest and not rest.endswith("\n"):  # too long for any cleaning to keep, or the last one
                rest = text.readline(LONGEST_LINE)
            yield line.rstrip("\r\n")


def split_bitext(archives: list[Path], suffixes: list[tuple[str, ...]], root: Path | None, out: list[Path]) -> dict:
    """Pair number i goes to shard i mod n; returns the count of pairs."""
    pairs = 0
    names = []
    for archive in archives:
        with open_sides(archive, suffixes) as (member, _, _):
            names.append(f"{shown_name(archive, root)}#{member}")
    with zst_writers(out) as writers:
        for writer in writers:
            writer.write(header_line(names, "bitext"))
        for file, archive in enumerate(archives):
            number = 0
            try:
                with open_sides(archive, suffixes) as (member, first, second):
                    sides = zip_longest(_lines(first), _lines(second))
                    for number, (a, b) in enumerate(sides, start=1):
                        if a is None or b is None:
                            short = "first" if a is None else "second"
                            raise UserError(
                                f"{archive}, {member}, line {number}: the {short} side ends here, the other goes on; "
                                "lines would no longer be translations: download the archive again"
                            )
                        a, b = a.replace("\t", " "), b.replace("\t", " ")
                        writers[pairs % len(writers)].write(f"{file}\t{number}\t{a}\t{b}\n")
                        pairs += 1
            except Exception as error:
                if words := damage(error):
                    raise UserError(f"{archive}: broken after pair {number}: {words}") from None
                raise
        if not pairs:
            raise UserError(f"{', '.join(map(str, archives))}: no pair; check the download")
    return {"pairs": pairs}


def split_aligned(files: list[Path], root: Path | None, out: list[Path]) -> dict:
    """As split_bitext, of files in twos, in any form of segments.py."""
    twos = list(zip(files[::2], files[1::2], strict=True))
    pairs = 0
    with zst_writers(out) as writers:
        for writer in writers:
            writer.write(header_line([f"{shown_name(a, root)}#{b.name}" for a, b in twos], "bitext"))
        for file, (first, second) in enumerate(twos):
            for number, a, b in read_aligned(first, second):
                a, b = a.replace("\t", " "), b.replace("\t", " ")
                writers[pairs % len(writers)].write(f"{file}\t{number}\t{a}\t{b}\n")
                pairs += 1
    if not pairs:
        raise UserError(f"{', '.join(map(str, files))}: no pair; check the downloads")
    return {"pairs": pairs}


def pair_suffixes(pair: str, members: list[str] | None, languages: str) -> list[tuple[str, ...]]:
    """What the two members may end in: --members, or the pair's codes and their names in OPUS."""
    codes = pair.split("-")
    if len(codes) != 2:
        raise UserError(f"--pair {pair}: write two language codes joined by '-'")
    if members:
        return [(members[0],), (members[1],)]
    from plan.datasets import load_languages

    table = load_languages(languages)
    return [tuple(dict.fromkeys((code, *(table[code].opus if code in table else ())))) for code in codes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    mono = kinds.add_parser("mono", help="one paragraph per line, empty line between documents")
    mono.add_argument("--text", nargs="+", type=Path, required=True, help="files of one language, in a fixed order")
    mono.add_argument("--gathered", action="store_true", help="they are small sources, in any form of segments.py")
    mono.add_argument(
        "--alone", nargs="*", type=Path, default=[], help="of a gathered corpus: files of single sentences"
    )
    bitext = kinds.add_parser("bitext", help="archives of Moses or WMT: two members with as many lines")
    sources = bitext.add_mutually_exclusive_group(required=True)
    sources.add_argument("--archive", nargs="+", type=Path, help=".zip, .tgz or .tar, in a fixed order")
    sources.add_argument("--aligned", nargs="+", type=Path, help="files in twos, first side before second")
    bitext.add_argument("--pair", required=True, help="language codes in alphabetical order, such as de-en")
    bitext.add_argument("--members", nargs=2, metavar="SUFFIX", help="suffixes of the two members, if not the codes")
    bitext.add_argument("--languages", default="config/languages.tsv", help="table of languages (default: %(default)s)")
    for kind in (mono, bitext):
        kind.add_argument("--root", type=Path, help="folder of downloads; names in rejects are relative to it")
        kind.add_argument("--out", nargs="+", type=Path, required=True, help="the shards; their number is n")
    args = parser.parse_args()
    if args.kind == "mono" and args.gathered:
        counts = split_gathered(args.text, set(args.alone), args.root, args.out)
    elif args.kind == "mono":
        counts = split_mono(args.text, args.root, args.out)
    elif args.aligned:
        if len(args.aligned) % 2:
            raise UserError(f"--aligned: {len(args.aligned)} files; name them in twos")
        counts = split_aligned(args.aligned, args.root, args.out)
    else:
        counts = split_bitext(args.archive, pair_suffixes(args.pair, args.members, args.languages), args.root, args.out)
    print(", ".join(f"{value} {key}" for key, value in counts.items()))


if __name__ == "__main__":
    run_main(main)
