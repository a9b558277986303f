"""UD-POS: universal part-of-speech tags of Universal Dependencies 2.5, all treebanks of a language together."""

import posixpath
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, run_f1, run_shares, tag_accuracy
from tasks.conllu import TAGS, parse_conllu
from tasks.files import check_count, decode_lines, read_lines, tar_members
from tasks.tags import Sentence, gold_of, inputs_of, parse_tags, read_tag_predictions, write_predictions

__all__ = ["gold_of", "inputs_of", "write_predictions"]  # of tags.py, as every task module has them

METRICS = {"f1": Metric(run_f1, "shuffled-tags", run_shares), "accuracy": Metric(tag_accuracy, "majority")}
LABELS = TAGS


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_split(paths, "train", languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    """kk, th, tl and yo have no development part; they are absent from the answer."""
    return read_split(paths, "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Sentence]]:
    return read_split(paths, "test", languages, counts)


def read_split(
    paths: dict[str, Path], split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Sentence]]:
    """Of the archive of all treebanks, or of one treebank of each language (test-de, ...)."""
    archive = paths.get("train" if split == "train" else "gold")
    if archive:
        return read_ud(archive, split, languages, counts, all_present=split != "dev")
    sentences = {}
    for language in languages:
        path = paths[f"{split}-{language}"]
        sentences[language] = read_treebank(path, language)
        check_count(len(sentences[language]), counts.get(language), str(path))
    return sentences


def read_treebank(path: str | Path, language: str) -> list[Sentence]:
    sentences = parse_conllu(read_lines(path), str(path), language)
    if not sentences:
        raise UserError(f"{path}: no usable sentence")
    return sentences


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


def read_gold(path: str | Path, language: str) -> list[tuple[str, ...]]:
    """Gold tags from the UD archive, from one .conllu file, or from a file of one tag per line."""
    if str(path).endswith((".tgz", ".tar.gz", ".tar")):
        return gold_of(read_ud(path, "test", [language])[language])
    if str(path).endswith(".conllu"):
        return gold_of(read_treebank(path, language))
    return parse_tags(read_lines(path), path, LABELS)


def read_predictions(path: str | Path, gold: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return read_tag_predictions(path, gold, LABELS)
