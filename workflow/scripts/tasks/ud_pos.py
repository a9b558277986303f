"""UD-POS: universal part-of-speech tags of Universal Dependencies 2.5, all treebanks of a language together."""

import posixpath
from collections.abc import Sequence
from pathlib import Path

from engine.metrics import Metric, run_f1, tag_accuracy
from errors import UserError
from tasks.conllu import TAGS, Sentence, parse_conllu
from tasks.files import check_count, decode_lines, fingerprint, read_lines, tar_members, write_lines

METRICS = {"f1": Metric(run_f1, "shuffled-tags"), "accuracy": Metric(tag_accuracy, "majority")}
LABELS = TAGS


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_ud(paths["train"], "train", languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    """kk, th, tl and yo have no development part; they are absent from the answer."""
    return read_ud(paths["gold"], "dev", languages, counts, all_present=False)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_ud(paths["gold"], "test", languages, counts)


def read_ud(
    path: str | Path,
    split: str,
    languages: Sequence[str],
    counts: dict[str, int] | None = None,
    all_present: bool = True,
) -> dict[str, list[Sentence]]:
    """Sentences of each language out of ud-treebanks-v2.5.tgz, treebanks in file-name order.

    A treebank belongs to the language that its *file* is named after (`el_gdt-ud-train.conllu`): by folder, Greek
    would take Ancient_Greek with it.
    """
    wanted = set(languages)

    def is_wanted(name: str) -> bool:
        return name.endswith(f"-ud-{split}.conllu") and treebank_language(name) in wanted

    files = sorted((posixpath.basename(name), data) for name, data in tar_members(path, is_wanted))
    sentences: dict[str, list[Sentence]] = {}
    for name, data in files:
        language = treebank_language(name)
        where = f"{path}, {name}"
        sentences.setdefault(language, []).extend(parse_conllu(decode_lines(data, where), where, language))
    for language in languages:
        if not sentences.get(language):
            if all_present:
                raise UserError(f"{path}: no usable sentence in any {language}_*-ud-{split}.conllu")
            sentences.pop(language, None)
            continue
        check_count(len(sentences[language]), (counts or {}).get(language), f"{path}, {split} of {language}")
    return {language: sentences[language] for language in languages if language in sentences}


def treebank_language(name: str) -> str:
    """`UD_English-EWT/en_ewt-ud-test.conllu` -> en."""
    return posixpath.basename(name).split("_")[0]


def inputs_of(sentences: Sequence[Sentence]) -> str:
    return fingerprint([sentence.tokens for sentence in sentences])


def gold_of(sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    return [sentence.tags for sentence in sentences]


def read_gold(path: str | Path, language: str) -> list[tuple[str, ...]]:
    """Gold tags from the UD archive, from one .conllu file, or from a file of one tag per line."""
    if str(path).endswith((".tgz", ".tar.gz", ".tar")):
        return gold_of(read_ud(path, "test", [language])[language])
    lines = read_lines(path)
    if str(path).endswith(".conllu"):
        sentences = parse_conllu(lines, str(path), language)
        if not sentences:
            raise UserError(f"{path}: no usable sentence")
        return gold_of(sentences)
    return parse_tags(lines, path)


def parse_tags(lines: Sequence[str], path: str | Path) -> list[tuple[str, ...]]:
    """XTREME's format: one tag per line, a blank line between sentences."""
    sentences: list[tuple[str, ...]] = []
    tags: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip():
            if tags:
                sentences.append(tuple(tags))
            tags = []
            continue
        if line not in TAGS:
            raise UserError(f"{path}, line {number}: unknown label {line!r}; use {', '.join(TAGS)}")
        tags.append(line)
    return sentences


def read_predictions(path: str | Path, gold: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Tags in XTREME's format, exactly as many per sentence as the gold has."""
    predictions = parse_tags(read_lines(path), path)
    line = 1
    for index, (expected, found) in enumerate(zip(gold, predictions, strict=False), start=1):
        if len(expected) != len(found):
            raise UserError(
                f"{path}, line {line}, sentence {index}: {len(found)} tags for {len(expected)} gold tokens; "
                "the predictions are for another split or another conversion of multi-word tokens"
            )
        line += len(found) + 1
    if len(gold) != len(predictions):
        raise UserError(
            f"{path}: {len(predictions)} tagged sentences for {len(gold)} gold sentences; "
            "they are for another split or language, or cut short"
        )
    return predictions


def write_predictions(path: str | Path, sentences: Sequence[Sequence[str]]) -> None:
    lines: list[str] = []
    for tags in sentences:
        lines.extend(tags)
        lines.append("")
    write_lines(path, lines)
