"""WikiANN (PAN-X): persons, organisations and places in Wikipedia, 40 languages, in Rahimi's splits.

A zip of one archive per language with the files train, dev and test; a line is `language:token<TAB>tag`. Or one file of
each language: such a one, XTREME's `token<TAB>tag` (.tsv), or `number<TAB>token<TAB>tag` (.conllu).
"""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, span_f1, span_shares, tag_accuracy
from tasks.entities import is_table, labels_of, parse_columns
from tasks.files import check_count, decode_lines, read_lines, read_zip_bytes, tar_members
from tasks.tags import Sentence, gold_of, inputs_of, parse_tags, read_tag_predictions, write_predictions

__all__ = ["gold_of", "inputs_of", "write_predictions"]  # of tags.py, as every task module has them

METRICS = {"f1": Metric(span_f1, "shuffled-tags", span_shares), "accuracy": Metric(tag_accuracy, "majority")}
LABELS = labels_of(("LOC", "ORG", "PER"))


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_split(paths, "train", languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_split(paths, "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_split(paths, "test", languages, counts)


def read_split(
    paths: dict[str, Path], split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Sentence]]:
    if "gold" in paths:
        return read_panx(paths["gold"], split, languages, counts)
    sentences = {}
    for language in languages:
        path = paths[f"{split}-{language}"]
        sentences[language] = read_file(path, language)
        check_count(len(sentences[language]), counts.get(language), str(path))
    return sentences


def read_file(path: str | Path, language: str | None = None) -> list[Sentence]:
    """Without a language its rows may be of any."""
    lines, suffix = read_lines(path), Path(path).suffix
    if suffix == ".tsv":
        return parse_columns(lines, str(path), LABELS, separator="\t", columns=(2,))
    if suffix == ".conllu":
        numbered = [line.partition("\t")[2] for line in lines]
        return parse_columns(numbered, str(path), LABELS, separator="\t", columns=(2,))
    return parse_panx(lines, str(path), language)


def read_panx(
    path: str | Path, split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Sentence]]:
    sentences = {}
    for language in languages:
        where = f"{path}, {language}.tar.gz, {split}"
        archive = read_zip_bytes(path, f"{language}.tar.gz")
        members = dict(tar_members(where, {split, f"./{split}"}.__contains__, archive))
        if not members:
            raise UserError(f"{where}: no such member; this is another archive than the task expects")
        (data,) = list(members.values())[:1]
        sentences[language] = parse_panx(decode_lines(data, where), where, language)
        check_count(len(sentences[language]), counts.get(language), where)
    return sentences


def parse_panx(lines: Sequence[str], where: str, language: str | None) -> list[Sentence]:
    """The prefix goes up to the first colon alone: `de::` is the token `:`. It is the language of every row."""
    tables = parse_columns(lines, where, LABELS, separator="\t", columns=(2,))
    number = 0
    sentences = []
    for sentence in tables:
        for token in sentence.tokens:
            number += 1
            if ":" not in token:
                raise UserError(f"{where}, token {number}: {token!r} has no language before a colon")
            if language is not None and not token.startswith(f"{language}:"):
                raise UserError(f"{where}, token {number}: {token!r} is not of language {language}")
        sentences.append(Sentence(tuple(token.partition(":")[2] for token in sentence.tokens), sentence.tags))
    return sentences


def read_gold(path: str | Path, language: str) -> list[tuple[str, ...]]:
    """Gold tags from panx_dataset.zip, from one of its files, or from a file of one tag per line."""
    if str(path).endswith(".zip"):
        return gold_of(read_panx(path, "test", [language], {})[language])
    lines = read_lines(path)
    return gold_of(read_file(path, language)) if is_table(lines) else parse_tags(lines, path, LABELS)


def read_predictions(path: str | Path, gold: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return read_tag_predictions(path, gold, LABELS)
