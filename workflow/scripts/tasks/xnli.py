"""XNLI: sentence pairs with one of three labels; dev and test of XNLI 1.0, training pairs of XNLI-MT 1.0.

Every table is read without quote handling, because the sentences hold bare quotation marks.
"""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from engine.metrics import Metric, accuracy, answer_shares
from tasks.files import check_count, read_lines, read_zip_member
from tasks.labels import Pair, gold_of, inputs_of, parse_labels, read_label_predictions, write_predictions

__all__ = ["gold_of", "inputs_of", "write_predictions"]  # of labels.py, as every task module has them

METRICS = {"accuracy": Metric(accuracy, "majority", answer_shares)}
LABELS = ("contradiction", "entailment", "neutral")
TRAIN_LABELS = {"contradictory": "contradiction", **{label: label for label in LABELS}}  # XNLI-MT's word for it

# fmt: off
XNLI_COLUMNS = [
    "language", "gold_label", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse",
    "sentence1", "sentence2", "promptID", "pairID", "genre", "label1", "label2", "label3", "label4", "label5",
    "sentence1_tokenized", "sentence2_tokenized", "match",
]
# fmt: on
TRAIN_COLUMNS = ["premise", "hypo", "label"]


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    """XNLI-MT training pairs per language; `en` is MultiNLI itself, the others its machine translations."""
    pairs = {}
    for language in languages:
        member = f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv"
        where = f"{paths['train']}, {member}"
        pairs[language] = parse_train(read_zip_member(paths["train"], member), where)
        check_count(len(pairs[language]), counts.get(language), where)
    return pairs


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    return read_xnli(paths["gold"], "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Pair]]:
    return read_xnli(paths["gold"], "test", languages, counts)


def read_xnli(
    path: str | Path, split: str, languages: Sequence[str], counts: dict[str, int] | None = None
) -> dict[str, list[Pair]]:
    """Pairs of the languages out of XNLI-1.0.zip, in the order of the file."""
    member = f"XNLI-1.0/xnli.{split}.tsv"
    where = f"{path}, {member}"
    pairs = parse_xnli(read_zip_member(path, member), where)
    for language in languages:
        if language not in pairs:
            raise UserError(f"{where}: no row in language {language!r}; it has {', '.join(sorted(pairs))}")
        check_count(len(pairs[language]), (counts or {}).get(language), f"{where}, {language}")
    return {language: pairs[language] for language in languages}


def parse_xnli(lines: Sequence[str], where: str) -> dict[str, list[Pair]]:
    """The 19-column table, per language. pairID names a row within its language."""
    if lines[0].split("\t") != XNLI_COLUMNS:
        raise UserError(f"{where}, line 1: not the header of XNLI 1.0 ({' '.join(XNLI_COLUMNS)})")
    pairs: dict[str, list[Pair]] = {}
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(XNLI_COLUMNS):
            raise UserError(f"{where}, line {number}: {len(cells)} columns instead of {len(XNLI_COLUMNS)}")
        language, label, premise, hypothesis, pair_id = cells[0], cells[1], cells[6], cells[7], cells[9]
        if label not in LABELS:
            allowed = ", ".join(LABELS)
            raise UserError(f"{where}, line {number}, pairID {pair_id}: unknown label {label!r}; use {allowed}")
        if not premise.strip() or not hypothesis.strip():
            raise UserError(f"{where}, line {number}, pairID {pair_id}: an empty sentence")
        if (language, pair_id) in seen:
            first = seen[language, pair_id]
            raise UserError(f"{where}, line {number}: pairID {pair_id} of {language!r} is already on line {first}")
        seen[language, pair_id] = number
        pairs.setdefault(language, []).append(Pair(premise, hypothesis, label))
    if not pairs:
        raise UserError(f"{where}: a header and no rows")
    return pairs


def parse_train(lines: Sequence[str], where: str) -> list[Pair]:
    if lines[0].split("\t") != TRAIN_COLUMNS:
        raise UserError(f"{where}, line 1: not the header of XNLI-MT 1.0 ({' '.join(TRAIN_COLUMNS)})")
    pairs = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(TRAIN_COLUMNS):
            raise UserError(f"{where}, line {number}: {len(cells)} columns instead of {len(TRAIN_COLUMNS)}")
        premise, hypothesis, label = cells
        if label not in TRAIN_LABELS:
            raise UserError(f"{where}, line {number}: unknown label {label!r}; use {', '.join(TRAIN_LABELS)}")
        pairs.append(Pair(premise, hypothesis, TRAIN_LABELS[label]))
    if len({pair.label for pair in pairs}) < 2:
        raise UserError(
            f"{where}: {len(pairs)} rows with fewer than two different labels; nothing can be learnt from it"
        )
    return pairs


def read_gold(path: str | Path, language: str) -> list[str]:
    """Gold labels of a language from XNLI-1.0.zip, from its xnli.test.tsv, or from a file of one label per line."""
    if str(path).endswith(".zip"):
        return gold_of(read_xnli(path, "test", [language])[language])
    lines = read_lines(path)
    if "\t" in lines[0]:
        pairs = parse_xnli(lines, str(path))
        if language not in pairs:
            raise UserError(f"{path}: no row in language {language!r}; it has {', '.join(sorted(pairs))}")
        return gold_of(pairs[language])
    return parse_labels(lines, path, LABELS)


def read_predictions(path: str | Path, gold: Sequence[str]) -> list[str]:
    return read_label_predictions(path, gold, LABELS)
