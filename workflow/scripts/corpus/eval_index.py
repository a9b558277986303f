"""The sentences of evaluation sets, as an index that cleaning looks text up in."""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from common.archives import damage
from common.errors import UserError, why_no_file
from corpus.characters import normalise
from corpus.corpusio import DecontaminationThresholds, DuplicateThresholds, read_lines
from corpus.likeness import EVAL_INDEX_VERSION, index_units, signatures_of
from corpus.words import words_of
from tasks import panx
from tasks.files import decode_lines, tar_members
from tasks.squad import parse_json, parts, value

_BATCH = 4096


def read_xnli(path: Path) -> Iterator[str]:
    """Both sentences of xnli.dev.tsv and xnli.test.tsv; quotes are text."""
    with zipfile.ZipFile(path) as archive:
        members = sorted(
            name
            for name in archive.namelist()
            if name.endswith(("/xnli.dev.tsv", "/xnli.test.tsv")) and not name.startswith("__MACOSX")
        )
        if len(members) != 2:
            raise UserError(f"{path}: expected XNLI-1.0/xnli.dev.tsv and xnli.test.tsv; download the archive again")
        for member in members:
            with archive.open(member) as raw:
                lines = io.TextIOWrapper(raw, "utf-8", newline="\n")
                header = next(lines, "").rstrip("\r\n").split("\t")
                try:
                    columns = [header.index("sentence1"), header.index("sentence2")]
                except ValueError:
                    raise UserError(
                        f"{path}, {member}:1: no column sentence1 or sentence2; is this XNLI 1.0?"
                    ) from None
                for number, line in enumerate(lines, start=2):
                    cells = line.rstrip("\r\n").split("\t")
                    if len(cells) <= max(columns):
                        raise UserError(f"{path}, {member}:{number}: {len(cells)} columns, fewer than its header has")
                    yield from (cells[column] for column in columns)


def read_ud(path: Path) -> Iterator[str]:
    """`# text =` of every dev and test file of a UD archive, or of a single .conllu."""

    def sentences(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line.startswith("# text ="):
                yield line.split("=", 1)[1].strip()

    if path.suffix == ".conllu":
        yield from sentences(read_lines(path))
        return
    found = False
    for name, data in tar_members(path, lambda name: name.endswith(("-dev.conllu", "-test.conllu"))):
        found = True
        yield from sentences(decode_lines(data, f"{path}, {name}"))
    if not found:
        raise UserError(f"{path}: no *-dev.conllu or *-test.conllu in it; is this ud-treebanks?")


def read_entities(path: Path) -> Iterator[str]:
    """Tokens of one file of WikiANN, with spaces between them."""
    yield from (" ".join(sentence.tokens) for sentence in panx.read_file(path))


def read_piles(path: Path) -> Iterator[str]:
    """What follows the id, in BUCC's files; of the gold, another id."""
    yield from (line.partition("\t")[2] for line in read_lines(path))


def read_aligned_sentences(path: Path) -> Iterator[str]:
    """Both sides of every folder of the archive of word alignments."""
    for name, data in tar_members(path, lambda name: Path(name).name.startswith("test.")):
        yield from decode_lines(data, f"{path}, {name}")


def read_questions(path: Path) -> Iterator[str]:
    """Questions, and contexts once each, in SQuAD's format."""
    content = parse_json(path.read_bytes(), str(path))
    for article in parts(content, "data", str(path)):
        for paragraph in parts(article, "paragraphs", str(path)):
            yield value(paragraph, "context", str, str(path))
            yield from (value(item, "question", str, str(path)) for item in parts(paragraph, "qas", str(path)))


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    "xnli": read_xnli,
    "ud-pos": read_ud,
    "tatoeba": read_lines,
    "wmt14-en-de": read_lines,
    "wmt14-en-fr": read_lines,
    "bucc": read_piles,
    "flores": read_lines,
    "tydiqa-goldp": read_questions,
    "wikiann-ner": read_entities,
    "word-alignment": read_aligned_sentences,
    "text": read_lines,
}


def read_units(task: str, path: Path) -> Iterator[str]:
    """Normalised, non-empty units of text of one file of a task."""
    if not path.is_file():
        raise UserError(f"{path}: {why_no_file(path)}; run the download rule, or correct --task {task}=...")
    number = 0
    try:
        for number, text in enumerate(READERS[task](path), start=1):  # noqa: B007 - the number goes into the message
            if text := normalise(text):
                yield text
    except Exception as error:
        if words := damage(error):
            raise UserError(f"{path}: broken after unit {number}: {words}") from None
        raise


def parse_tasks(tasks: list[str]) -> list[tuple[str, Path]]:
    pairs = []
    for text in tasks:
        name, equals, path = text.partition("=")
        if not equals or name not in READERS:
            raise UserError(f"--task {text}: write name=path with a name of {', '.join(READERS)}")
        pairs.append((name, Path(path)))
    return sorted(pairs)


def build_signatures(
    tasks: list[tuple[str, Path]], thresholds: DecontaminationThresholds, shingles: DuplicateThresholds
) -> np.ndarray:
    """uint32 (m, bands * rows), of the units that are long enough to be compared."""
    found = [np.zeros((0, shingles.bands * shingles.rows), np.uint32)]
    for task, path in tasks if thresholds.similarity else []:
        reader = read_units(task, path)
        while lines := list(islice(reader, _BATCH)):
            found.append(signatures_of(words_of(lines), shingles)[0])
    return np.unique(np.concatenate(found), axis=0)


def build_index(tasks: list[tuple[str, Path]], thresholds: DecontaminationThresholds) -> np.ndarray:
    """uint64 (1 + n, 3)."""
    if not 1 < thresholds.inside_words <= thresholds.window_words:
        raise UserError("decontamination.inside_words: must be at least 2 and at most window_words; correct it")
    parts = [np.zeros((0, 3), np.uint64)]
    units = 0
    for task, path in tasks:
        before = units
        reader = read_units(task, path)
        while lines := list(islice(reader, _BATCH)):
            parts.append(
                index_units(lines, thresholds.inside_words, thresholds.inside_letters, thresholds.window_words)
            )
            units += len(lines)
        if units == before:
            raise UserError(f"{path}: no text in it for task {task}; check the download")
    rows = np.unique(np.concatenate(parts), axis=0)
    return np.concatenate([np.array([[EVAL_INDEX_VERSION, thresholds.inside_words, units]], np.uint64), rows])
