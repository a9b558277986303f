"""PAWS-X: paraphrase or not, 7 languages; English training pairs of PAWS-Wiki and their machine translations.

Some sentences of dev and test are the placeholder NS: they have no translation, and count, as in XTREME. Tables are
read without quote handling.
"""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, accuracy, answer_shares
from tasks.files import check_count, decode_lines, read_lines, tar_members
from tasks.labels import Pair, gold_of, inputs_of, parse_labels, read_label_predictions, write_predictions

__all__ = ["gold_of", "inputs_of", "write_predictions"]  # of labels.py, as every task module has them

METRICS = {"accuracy": Metric(accuracy, "majority", answer_shares)}
LABELS = ("0", "1")  # 1: both sentences say the same
COLUMNS = ["id", "sentence1", "sentence2", "label"]


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    names = {language: "train.tsv" if language == "en" else "translated_train.tsv" for language in languages}
    pairs = read_pawsx(paths["gold"], names, counts)
    for language, own in pairs.items():
        if len({pair.label for pair in own}) < 2:
            where = f"{paths['gold']}, x-final/{language}/{names[language]}"
            raise UserError(f"{where}: {len(own)} rows with fewer than two labels; nothing can be learnt from it")
    return pairs


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    return read_pawsx(paths["gold"], dict.fromkeys(languages, "dev_2k.tsv"), counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    return read_pawsx(paths["gold"], dict.fromkeys(languages, "test_2k.tsv"), counts)


def read_pawsx(path: str | Path, names: dict[str, str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    """Pairs out of x-final.tar.gz; names = the file of each language's folder."""
    members = {f"x-final/{language}/{name}": language for language, name in names.items()}
    pairs = {}
    for member, data in tar_members(path, members.__contains__):
        where = f"{path}, {member}"
        language = members[member]
        pairs[language] = parse_pawsx(decode_lines(data, where), where, "translated_" in member)
        check_count(len(pairs[language]), counts.get(language), where)
    for member, language in members.items():
        if language not in pairs:
            raise UserError(f"{path}: no member {member}; this is another archive than the task expects")
    return {language: pairs[language] for language in names}


def parse_pawsx(lines: Sequence[str], where: str, machine_translated: bool = False) -> list[Pair]:
    """A machine translation may be empty; what people wrote may not."""
    if lines[0].split("\t") != COLUMNS:
        raise UserError(f"{where}, line 1: not the header of PAWS-X ({' '.join(COLUMNS)})")
    pairs = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(f"{where}, line {number}: {len(cells)} columns instead of {len(COLUMNS)}")
        row_id, first, second, label = cells
        if label not in LABELS:
            raise UserError(f"{where}, line {number}, id {row_id}: unknown label {label!r}; use {', '.join(LABELS)}")
        if not machine_translated and not (first.strip() and second.strip()):
            raise UserError(f"{where}, line {number}, id {row_id}: an empty sentence")
        if row_id in seen:
            raise UserError(f"{where}, line {number}: id {row_id} is already on line {seen[row_id]}")
        seen[row_id] = number
        pairs.append(Pair(first, second, label))
    if not pairs:
        raise UserError(f"{where}: a header and no rows")
    return pairs


def read_gold(path: str | Path, language: str) -> list[str]:
    """Gold labels of a language from x-final.tar.gz, from one of its tables, or from a file of one label per line."""
    if str(path).endswith((".tgz", ".tar.gz", ".tar")):
        return gold_of(read_pawsx(path, {language: "test_2k.tsv"}, {})[language])
    lines = read_lines(path)
    return gold_of(parse_pawsx(lines, str(path))) if "\t" in lines[0] else parse_labels(lines, path, LABELS)


def read_predictions(path: str | Path, gold: Sequence[str]) -> list[str]:
    return read_label_predictions(path, gold, LABELS)
