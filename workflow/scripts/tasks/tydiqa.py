"""TyDiQA-GoldP: questions that people asked in their own language, with the paragraph that answers it; 9 languages.

All languages lie in one file; a question's id begins with the name of its language. Or each has a file of its own, in
which questions are numbered anew. XTREME tests on the dev file and has no other: models are selected on the last tenth
of the English training questions (ours).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import UserError
from engine.answers import Question, squad_exact_match, squad_f1, squad_f1_shares
from engine.metrics import Metric
from tasks.files import check_count
from tasks.squad import gold_of, inputs_of, read_predictions, read_squad, read_training, write_predictions

__all__ = ["gold_of", "inputs_of", "read_predictions", "write_predictions"]  # of squad.py

METRICS = {
    "f1": Metric(squad_f1, "first-words", squad_f1_shares),
    "exact-match": Metric(squad_exact_match, "first-words"),
}
NAMES = {
    "ar": "arabic",
    "bn": "bengali",
    "en": "english",
    "fi": "finnish",
    "id": "indonesian",
    "ko": "korean",
    "ru": "russian",
    "sw": "swahili",
    "te": "telugu",
}
DEV_SHARE = 0.1


def read_train(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    """English of the training file without what dev takes of it; other languages are English in translation, without
    the same questions."""
    translated = [language for language in languages if language != "en"]
    questions = read_training(paths, translated, counts)
    held_out = {question.id for question in english(paths["dev-en"], {})[1]} if translated else set()
    questions = {language: [one for one in own if one.id not in held_out] for language, own in questions.items()}
    if "en" in languages:
        questions["en"] = english(paths["train-en"], counts)[0]
    return {language: questions[language] for language in languages}


def read_dev(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    if list(languages) != ["en"]:
        raise UserError(f"{paths['dev-en']}: a dev part is there for English alone, not for {', '.join(languages)}")
    return {"en": english(paths["dev-en"], {})[1]}


def english(path: str | Path, counts: dict[str, int]) -> tuple[list[Question], list[Question]]:
    """(training, dev) questions."""
    questions = of_file(path, "en")
    check_count(len(questions), counts.get("en"), f"{path}, English")
    kept = len(questions) - max(1, int(DEV_SHARE * len(questions)))
    return questions[:kept], questions[kept:]


def read_test(paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]) -> dict[str, list[Question]]:
    if "test" not in paths:
        own = {language: of_file(paths[f"test-{language}"], language) for language in languages}
        for language in languages:
            check_count(len(own[language]), counts.get(language), str(paths[f"test-{language}"]))
        return own
    where = str(paths["test"])
    everything = read_squad(paths["test"], "")
    questions = {language: of_language(everything, language, where) for language in languages}
    for language in languages:
        check_count(len(questions[language]), counts.get(language), f"{where}, {NAMES[language]}")
    return questions


def of_file(path: str | Path, language: str) -> list[Question]:
    """Of the file of all languages, or of one of this language alone: its ids say no language and stand several times,
    so the questions are named by their number."""
    questions = read_squad(path, language, unique=False)
    if any(question.id.partition("-")[0] in NAMES.values() for question in questions):
        return of_language(questions, language, str(path))
    return [replace(question, id=f"{NAMES[language]}-{number}") for number, question in enumerate(questions, start=1)]


def of_language(questions: Sequence[Question], language: str, where: str) -> list[Question]:
    if language not in NAMES:
        raise UserError(f"{where}: {language!r} is no language of TyDiQA; they are {', '.join(NAMES)}")
    found = [question for question in questions if question.id.startswith(f"{NAMES[language]}-")]
    if not found:
        raise UserError(f"{where}: no question whose id begins with {NAMES[language]}-")
    return found


def read_gold(path: str | Path, language: str) -> list[Question]:
    return of_file(path, language)
