"""Questions, contexts and answers in SQuAD 1.1's JSON: what XQuAD, MLQA and TyDiQA share.

A prediction file is a JSON object {id: answer}, as XTREME's submissions have it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from atomic import write_json
from engine.answers import Question
from errors import UserError
from tasks.files import check_count, fingerprint, read_bytes


def read_squad(path: str | Path, language: str) -> list[Question]:
    return parse_squad(read_bytes(path), str(path), language)


def read_files(paths: dict[str, Path], names: dict[str, str], counts: dict[str, int]) -> dict[str, list[Question]]:
    questions = {}
    for language, name in names.items():
        if name not in paths:
            raise UserError(f"datasets: no {name}; name its file")
        questions[language] = read_squad(paths[name], language)
        check_count(len(questions[language]), counts.get(language), str(paths[name]))
    return questions


def parse_squad(data: bytes, where: str, language: str) -> list[Question]:
    """In the order of the file. Every answer must stand in its context, where `answer_start` says."""
    content = parse_json(data, where)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise UserError(f"{where}: no list 'data'; this is not in SQuAD's format")
    questions: list[Question] = []
    seen: set[str] = set()
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for item in paragraph["qas"]:
                question = one_question(item, paragraph["context"], where, language)
                if question.id in seen:
                    raise UserError(f"{where}, id {question.id}: stands twice")
                seen.add(question.id)
                questions.append(question)
    if not questions:
        raise UserError(f"{where}: no question")
    return questions


def one_question(item: dict, context: str, where: str, language: str) -> Question:
    try:
        name, text = str(item["id"]), item["question"]
        answers = tuple(answer["text"] for answer in item["answers"])
        starts = tuple(answer["answer_start"] for answer in item["answers"])
    except (KeyError, TypeError) as error:
        raise UserError(f"{where}, id {item.get('id')}: lacks {error}; this is not in SQuAD's format") from None
    if not answers:
        raise UserError(f"{where}, id {name}: no answer")
    for answer, start in zip(answers, starts, strict=True):
        if context[start : start + len(answer)] != answer:
            raise UserError(f"{where}, id {name}: the answer {answer!r} is not at character {start} of its context")
    return Question(name, text, context, language, answers, starts)


def parse_json(data: bytes, where: str) -> object:
    """A key that stands twice is an error: the last one would win in silence."""

    def unique(pairs: list[tuple[str, object]]) -> dict:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            raise UserError(f"{where}: key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
        return found

    if not data.strip():
        raise UserError(f"{where}: the file is empty; download or make it again")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise UserError(f"{where}, byte {error.start}: not UTF-8; convert the file or download it again") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{where}, line {error.lineno}: not JSON ({error.msg}); download or make it again") from None


def inputs_of(questions: Sequence[Question]) -> str:
    return fingerprint([[question.id, question.question, question.context] for question in questions])


def gold_of(questions: Sequence[Question]) -> list[Question]:
    return list(questions)


def read_predictions(path: str | Path, gold: Sequence[Question]) -> dict[str, str]:
    """{id: answer}. A question without an answer counts as wrong; an answer to no question is an error."""
    found = parse_json(read_bytes(path), str(path))
    if not isinstance(found, dict) or not all(isinstance(answer, str) for answer in found.values()):
        raise UserError(f"{path}: must be one JSON object, {{id: answer}}")
    known = {question.id for question in gold}
    for name in found:
        if name not in known:
            raise UserError(f"{path}, id {name}: no question of the gold file; the answers are for another split")
    return found


def write_predictions(path: str | Path, answers: dict[str, str]) -> None:
    write_json(path, answers)
