"""CoNLL-2002 and -2003: persons, organisations, places and others in news; Spanish, Dutch, English and German.

2002: word, (part of speech,) tag in IOB2. 2003: word, (lemma,) part of speech, chunk, tag; IOB1 at first,
IOB2 in later copies. Everything is read as IOB2. dev is testa, test is testb.
"""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, span_f1, span_shares, tag_accuracy
from tasks.entities import decode_latin, is_table, labels_of, parse_columns, sentences_in_iob2
from tasks.files import check_count, read_bytes, read_zip_member
from tasks.tags import Sentence, gold_of, inputs_of, parse_tags, read_tag_predictions, write_predictions

__all__ = ["gold_of", "inputs_of", "write_predictions"]  # of tags.py, as every task module has them

METRICS = {"f1": Metric(span_f1, "shuffled-tags", span_shares), "accuracy": Metric(tag_accuracy, "majority")}
LABELS = labels_of(("LOC", "MISC", "ORG", "PER"))
ZIP_MEMBERS = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}  # of the public copy of the English part
COLUMNS = (2, 3, 4, 5)


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_conll(paths, "train", languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_conll(paths, "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_conll(paths, "test", languages, counts)


def read_conll(
    paths: dict[str, Path], split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Sentence]]:
    """paths[<split>-<language>] is a file of the shared task, or the zip of all three parts."""
    sentences = {}
    for language in languages:
        name = f"{split}-{language}"
        if name not in paths:
            raise UserError(f"datasets: no {name}; name its file")
        where = str(paths[name])
        if where.endswith(".zip"):
            lines = read_zip_member(where, ZIP_MEMBERS[split])
            where = f"{where}, {ZIP_MEMBERS[split]}"
        else:
            lines = decode_latin(read_bytes(where), where)
        sentences[language] = parse_conll(lines, where)
        check_count(len(sentences[language]), counts.get(language), where)
    return sentences


def parse_conll(lines: Sequence[str], where: str) -> list[Sentence]:
    return sentences_in_iob2(parse_columns(lines, where, LABELS, separator=None, columns=COLUMNS))


def read_gold(path: str | Path, language: str) -> list[tuple[str, ...]]:
    """Gold tags from a file of the shared task, from the zip of its English part, or from one tag per line."""
    if str(path).endswith(".zip"):
        if language != "en":
            raise UserError(f"{path}: a zip is the English part, not of --language {language}; give the file itself")
        return gold_of(read_conll({f"test-{language}": Path(path)}, "test", [language], {})[language])
    lines = decode_latin(read_bytes(path), str(path))
    return gold_of(parse_conll(lines, str(path))) if is_table(lines) else parse_tags(lines, path, LABELS)


def read_predictions(path: str | Path, gold: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return read_tag_predictions(path, gold, LABELS)
