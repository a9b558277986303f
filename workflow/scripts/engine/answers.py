"""F1 and exact match of answers to questions, by the published definitions of SQuAD 1.1 and of MLQA.

Both normalise: lower case, punctuation off, articles off, white space. They differ in what is punctuation, in the
articles and in what is a token:

SQuAD   ASCII punctuation; a, an, the, in whatever language; white space. XQuAD and TyDiQA are scored with it.
MLQA    every punctuation character of Unicode; the articles of the context's language; Chinese by character.

The Arabic article of MLQA's script matches its two letters anywhere in a word; the published scores have it so.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from engine.characters import is_punctuation
from engine.metrics import Share, ratio

ASCII_PUNCTUATION = frozenset(string.punctuation)
ARTICLES = {
    "en": re.compile(r"\b(a|an|the)\b"),
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
    "ar": re.compile(r"\sال^|ال"),
}
HAN = re.compile(r"[\u4e00-\u9fa5]")


@dataclass(frozen=True)
class Question:
    """One question with its gold answers; `starts` are their first characters in the context."""

    id: str
    question: str
    context: str
    language: str  # of the context
    answers: tuple[str, ...]
    starts: tuple[int, ...]


Tokens = Callable[[str], list[str]]
Alike = Callable[[Sequence[str], Sequence[str]], float]  # of the tokens of a gold answer and of the one found


def squad_tokens(text: str) -> list[str]:
    text = "".join(character for character in text.lower() if character not in ASCII_PUNCTUATION)
    return ARTICLES["en"].sub(" ", text).split()


@cache
def mlqa_tokens(language: str) -> Tokens:
    """Of answers in a context of this language."""
    articles = ARTICLES.get(language)

    def tokens(text: str) -> list[str]:
        text = "".join(character for character in text.lower() if not is_punctuation(character))
        if articles:
            text = articles.sub(" ", text)
        return mixed_segmentation(text) if language == "zh" else text.split()

    return tokens


def mixed_segmentation(text: str) -> list[str]:
    """Chinese characters one by one, what stands between them by white space."""
    return HAN.sub(r" \g<0> ", text).split()


def token_f1(gold: Sequence[str], found: Sequence[str]) -> float:
    """Of bags of tokens. Nothing in common is 0, also where both are empty: that is the official definition."""
    common = sum((Counter(gold) & Counter(found)).values())
    if not common:
        return 0.0
    precision, recall = common / len(found), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def same(gold: Sequence[str], found: Sequence[str]) -> float:
    return float(list(gold) == list(found))


def best_shares(
    questions: Sequence[Question], answers: dict[str, str], tokens_of: Callable[[Question], Tokens], alike: Alike
) -> list[Share]:
    """Of each question the best over its gold answers; one without an answer counts 0."""
    if not questions:
        raise ValueError("no questions")
    shares = []
    for question in questions:
        tokens, best = tokens_of(question), 0.0
        if question.id in answers:
            found = tokens(answers[question.id])
            best = max(alike(tokens(gold), found) for gold in question.answers)
        shares.append((best, 1))
    return shares


def by_squad(question: Question) -> Tokens:
    return squad_tokens


def by_mlqa(question: Question) -> Tokens:
    return mlqa_tokens(question.language)


def squad_f1_shares(questions: Sequence[Question], answers: dict[str, str]) -> list[Share]:
    return best_shares(questions, answers, by_squad, token_f1)


def squad_f1(questions: Sequence[Question], answers: dict[str, str]) -> float:
    return ratio(squad_f1_shares(questions, answers))


def squad_exact_match(questions: Sequence[Question], answers: dict[str, str]) -> float:
    return ratio(best_shares(questions, answers, by_squad, same))


def mlqa_f1_shares(questions: Sequence[Question], answers: dict[str, str]) -> list[Share]:
    return best_shares(questions, answers, by_mlqa, token_f1)


def mlqa_f1(questions: Sequence[Question], answers: dict[str, str]) -> float:
    return ratio(mlqa_f1_shares(questions, answers))


def mlqa_exact_match(questions: Sequence[Question], answers: dict[str, str]) -> float:
    return ratio(best_shares(questions, answers, by_mlqa, same))


def first_words(questions: Sequence[Question]) -> dict[str, str]:
    return {question.id: " ".join(question.context.split()[:5]) for question in questions}


def first_words_chance(
    measure: Callable[[Sequence[Question], dict[str, str]], float], questions: Sequence[Question]
) -> float:
    """The context's first five words in answer to everything: what is reached without reading the question."""
    return measure(questions, first_words(questions))
