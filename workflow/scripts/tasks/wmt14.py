"""WMT14: translate newstest2014 from English, scored by BLEU and chrF; what wmt14_en_de.py and wmt14_en_fr.py share.

Plain text, one segment a line on either side. A prediction is the translation of each line, detokenised. dev is
newstest2013, for French after newstest2012.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from engine.bleu import chrf, sacrebleu, tokenised_bleu
from engine.metrics import Metric
from tasks.files import check_count, fingerprint, read_bytes, read_lines, write_lines

BREAKS = str.maketrans("\r\n", "  ")


class Lines(NamedTuple):
    """Equally many; line i of the references translates line i of the sources."""

    sources: list[str]
    references: list[str]


def metrics(language: str) -> dict[str, Metric]:
    """Tokenised BLEU has rules for each language."""
    return {
        "sacrebleu": Metric(sacrebleu, "nothing"),
        "bleu": Metric(partial(tokenised_bleu, language=language), "nothing"),
        "chrf": Metric(chrf, "nothing"),
    }


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, Lines]:
    return {language: read_parts(paths, [""], language, counts) for language in languages}


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, Lines]:
    dev = {}
    for language in languages:
        older = ["older_"] if f"older_english-{language}" in paths else []
        dev[language] = read_parts(paths, [*older, "dev_"], language, counts)
    return dev


def read_parts(paths: dict[str, Path], parts: Sequence[str], language: str, counts: dict[str, int]) -> Lines:
    """The files of these parts one after another; the count is of all together."""
    lines = Lines([], [])
    for part in parts:
        own = read_pair(paths[f"{part}english-{language}"], paths[f"{part}foreign-{language}"])
        lines.sources.extend(own.sources)
        lines.references.extend(own.references)
    where = ", ".join(str(paths[f"{part}foreign-{language}"]) for part in parts)
    check_count(len(lines.sources), counts.get(language), where)
    return lines


def read_pair(source_path: str | Path, reference_path: str | Path) -> Lines:
    sources, references = read_text(source_path), read_text(reference_path)
    if len(sources) != len(references):
        raise UserError(
            f"{reference_path}: {len(references)} lines, but {source_path} has {len(sources)}; "
            "the two sides are aligned line by line, download both again"
        )
    return Lines(sources, references)


def read_text(path: str | Path) -> list[str]:
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise UserError(f"{path}, line {number}: an empty line; every segment has text, download the file again")
    return lines


def inputs_of(lines: Lines) -> str:
    return fingerprint(lines.sources)


def gold_of(lines: Lines) -> list[str]:
    return lines.references


def read_gold(path: str | Path, language: str) -> list[str]:
    """A file of references, one a line."""
    return read_text(path)


def read_predictions(path: str | Path, gold: Sequence[str]) -> list[str]:
    """One translation a line; it may be empty, and so may all be: then the score is 0."""
    data = read_bytes(path)
    blank = data and not data.strip()
    predictions = data.decode().removesuffix("\n").split("\n") if blank else read_lines(path)
    if len(predictions) != len(gold):
        raise UserError(
            f"{path}: {len(predictions)} translations for {len(gold)} reference lines; "
            "they are for another test set, or cut short"
        )
    return predictions


def write_predictions(path: str | Path, translations: Sequence[str]) -> None:
    """A line end within a translation would shift those that follow: it becomes a blank, which no measure minds."""
    write_lines(path, (translation.translate(BREAKS) for translation in translations))
