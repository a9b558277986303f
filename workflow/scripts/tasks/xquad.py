"""XQuAD: 240 paragraphs of SQuAD's dev set and their 1,190 questions, translated by people; 11 languages in XTREME.

Training and selection on English SQuAD 1.1, or on its machine translations (XTREME's).
"""

from collections.abc import Sequence
from pathlib import Path

from engine.answers import Question, squad_exact_match, squad_f1, squad_f1_shares
from engine.metrics import Metric
from tasks.squad import (
    gold_of,
    inputs_of,
    read_files,
    read_predictions,
    read_squad,
    read_training,
    write_predictions,
)

__all__ = ["gold_of", "inputs_of", "read_predictions", "write_predictions"]  # of squad.py

METRICS = {
    "f1": Metric(squad_f1, "first-words", squad_f1_shares),
    "exact-match": Metric(squad_exact_match, "first-words"),
}


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_training(paths, languages, counts)


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_files(paths, {language: f"dev-{language}" for language in languages}, counts)


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    return read_files(paths, {language: f"test-{language}" for language in languages}, counts)


def read_gold(path: str | Path, language: str) -> list[Question]:
    return read_squad(path, language)
