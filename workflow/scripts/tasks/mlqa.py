"""MLQA: questions about Wikipedia in 7 languages; question and context are of one language, `de` (XLT), or of two,
context before question, `de-en` (G-XLT).

F1 and exact match by MLQA's own script, in the language of the context. Trained on English SQuAD 1.1, or on its machine
translations.
"""

from collections.abc import Sequence
from pathlib import Path

from engine.answers import Question, mlqa_exact_match, mlqa_f1, mlqa_f1_shares
from engine.metrics import Metric
from tasks.files import check_count, read_zip_bytes
from tasks.squad import (
    gold_of,
    inputs_of,
    parse_squad,
    read_predictions,
    read_squad,
    read_training,
    write_predictions,
)

__all__ = ["gold_of", "inputs_of", "read_predictions", "write_predictions"]  # of squad.py

METRICS = {"f1": Metric(mlqa_f1, "first-words", mlqa_f1_shares), "exact-match": Metric(mlqa_exact_match, "first-words")}


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_training(paths, languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_mlqa(paths["gold"], "dev", languages, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_mlqa(paths["gold"], "test", languages, counts)


def read_mlqa(
    path: str | Path, split: str, languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Question]]:
    questions = {}
    for language in languages:
        context, _, question = language.partition("-")
        member = f"MLQA_V1/{split}/{split}-context-{context}-question-{question or context}.json"
        where = f"{path}, {member}"
        questions[language] = parse_squad(read_zip_bytes(path, member), where, context)
        check_count(len(questions[language]), counts.get(language), where)
    return questions


def read_gold(path: str | Path, language: str) -> list[Question]:
    """From MLQA_V1.zip, or one JSON file."""
    if str(path).endswith(".zip"):
        return read_mlqa(path, "test", [language], {})[language]
    return read_squad(path, language.partition("-")[0])
