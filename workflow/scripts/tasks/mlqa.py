"""MLQA: questions about Wikipedia in 7 languages; question and context are of one language, `de` (XLT), or of two,
context before question, `de-en` (G-XLT).

F1 and exact match by MLQA's own script, in the language of the context. Trained on English SQuAD 1.1, or on its machine
translations.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
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
LANGUAGES = ("ar", "de", "en", "es", "hi", "vi", "zh")
NAMED = re.compile(r"context-(\w+)-question-(\w+)")


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
    """From MLQA_V1.zip, or one JSON file, whose name may say the languages of context and question."""
    context, _, question = language.partition("-")
    for code in (context, question or context):
        if code not in LANGUAGES:
            raise UserError(f"--language {language}: write one of {', '.join(LANGUAGES)}, or context-question as de-en")
    if str(path).endswith(".zip"):
        return read_mlqa(path, "test", [language], {})[language]
    named = NAMED.search(Path(path).name)
    if named and named.groups() != (context, question or context):
        raise UserError(f"{path}: a file of {'-'.join(named.groups())} by its name, not of --language {language}")
    return read_squad(path, context)
