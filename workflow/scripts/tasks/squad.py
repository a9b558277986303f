"""Questions, contexts and answers in SQuAD 1.1's JSON: what XQuAD, MLQA and TyDiQA share.

A prediction file is a JSON object {id: answer}, as XTREME's submissions have it.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.atomic import write_json
from common.errors import UserError
from engine.answers import Question
from tasks.files import check_count, fingerprint, read_bytes

# Of machine-translated questions so many may have an answer that is not in its context; they are left out, as XTREME's
# scripts do. More is another file than it should be.
MOST_MISPLACED = 0.05


def read_squad(path: str | Path, language: str, translated: bool = False, unique: bool = True) -> list[Question]:
    return parse_squad(read_bytes(path), str(path), language, translated, unique)


def read_training(
    paths: dict[str, Path], languages: Sequence[str], counts: dict[str, int]
) -> dict[str, list[Question]]:
    """Of train-<language>; what is not English is a machine translation."""
    return read_files(paths, {language: f"train-{language}" for language in languages}, counts, "en")


def read_files(
    paths: dict[str, Path], names: dict[str, str], counts: dict[str, int], translated_from: str | None = None
) -> dict[str, list[Question]]:
    questions = {}
    for language, name in names.items():
        if name not in paths:
            raise UserError(f"datasets: no {name}; name its file")
        translated = translated_from is not None and language != translated_from
        questions[language] = read_squad(paths[name], language, translated)
        check_count(len(questions[language]), counts.get(language), str(paths[name]))
    return questions


def parse_squad(
    data: bytes, where: str, language: str, translated: bool = False, unique: bool = True
) -> list[Question]:
    """In the order of the file. Every answer must stand in its context, where `answer_start` says. Ids are `unique`, or
    nothing rests on them."""
    misplaced = 0
    content = parse_json(data, where)
    questions: list[Question] = []
    asked = 0
    seen: set[str] = set()
    for a, article in enumerate(parts(content, "data", where), start=1):
        of_article = f"{where}, article {a}"
        for p, paragraph in enumerate(parts(article, "paragraphs", of_article), start=1):
            of_paragraph = f"{of_article}, paragraph {p}"
            context = value(paragraph, "context", str, of_paragraph)
            for item in parts(paragraph, "qas", of_paragraph):
                question = one_question(item, context, where, of_paragraph, language)
                if unique and question.id in seen:
                    raise UserError(f"{where}, id {question.id}: stands twice")
                seen.add(question.id)
                asked += 1
                wrong = next(
                    (
                        answer
                        for answer in zip(question.answers, question.starts, strict=True)
                        if not stands(answer, context)
                    ),
                    None,
                )
                if wrong and not translated:
                    text, start = wrong
                    raise UserError(
                        f"{where}, id {question.id}: the answer {text!r} is not at character {start} of its context"
                    )
                misplaced += wrong is not None
                if not wrong:
                    questions.append(question)
    if not questions:
        raise UserError(f"{where}: no question")
    if misplaced > MOST_MISPLACED * asked:
        raise UserError(f"{where}: {misplaced} of {asked} answers are not in their contexts; download it again")
    return questions


def stands(answer: tuple[str, int], context: str) -> bool:
    text, start = answer
    return bool(text.strip()) and start >= 0 and context[start : start + len(text)] == text


def one_question(item: object, context: str, where: str, of_paragraph: str, language: str) -> Question:
    name = str(value(item, "id", (str, int), of_paragraph))
    where = f"{where}, id {name}"
    text = value(item, "question", str, where)
    answers = parts(item, "answers", where)
    if not answers:
        raise UserError(f"{where}: no answer")
    texts = tuple(value(answer, "text", str, where) for answer in answers)
    starts = tuple(value(answer, "answer_start", int, where) for answer in answers)
    return Question(name, text, context, language, texts, starts)


def value(item: object, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """item[key], of this type, or an error that says which is missing."""
    if not isinstance(item, dict) or key not in item:
        raise UserError(f"{where}: no {key!r}; this is not in SQuAD's format")
    if not isinstance(item[key], kind) or isinstance(item[key], bool):
        raise UserError(f"{where}, {key!r}: {item[key]!r} is not of the right type; this is not in SQuAD's format")
    return item[key]


def parts(item: object, key: str, where: str) -> list:
    return value(item, key, list, where)


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
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=unique)
        if b"\\ud" in data.lower():
            json.dumps(content, ensure_ascii=False).encode()  # half a character, which no file could hold
        return content
    except UnicodeEncodeError:
        raise UserError(f"{where}: half a character, \\ud800 to \\udfff without its other half") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{where}, byte {error.start}: not UTF-8; convert the file or download it again") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{where}, line {error.lineno}: not JSON ({error.msg}); download or make it again") from None
    except (RecursionError, ValueError) as error:  # nested too deep; a number of more digits than Python reads
        raise UserError(f"{where}: not JSON of questions and answers ({error}); download or make it again") from None


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
    if missing := len(known) - len(found):
        print(f"{path}: no answer to {missing} of {len(known)} questions: each counts as wrong", file=sys.stderr)
    return found


def write_predictions(path: str | Path, answers: dict[str, str]) -> None:
    write_json(path, answers)
