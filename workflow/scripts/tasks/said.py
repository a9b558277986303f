"""Which languages a task has, and what a file's name says of its language: a score under a wrong code looks like any.

Rows that name their language themselves (XNLI, WikiANN, BUCC, TyDiQA) are compared where they are read.
"""

import os
import re
from functools import cache
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import read_yaml
from plan.datasets import load_languages

CONFIG = Path(__file__).resolve().parents[3] / "config"
CODE = "[a-z]{2,3}"
PART = "(?:train|dev|test)"
SUBMITTED = rf"(?:.*/)?{PART}-(?P<code>{CODE}(?:-{CODE})?)\.(?:tsv|txt|json)"  # of predict.py, of XTREME's submissions
# What upstream calls its files, with their folder where that says it. `code` is the project's code, `three` that of
# languages.tsv, column tatoeba. Any other name says nothing.
TRANSLATED = r".*(?:\.eng-\w{3}|-ref|-src|newstest\d{4})\.(?P<three>[a-z]{2,3})(?:\.txt)?"
UPSTREAM = {
    "conll-ner": r"(?:.*/)?(?P<conll>deu|eng|esp|ned)\.(?:train|test[ab])",
    "flores": r"(?:.*/)?(?P<three>[a-z]{3})(?:_\w+)?\.(?:dev|devtest)",
    "mlqa": rf"(?:.*/)?{PART}-context-(?P<code>{CODE})-question-(?P<second>{CODE})\.json",
    "paws-x": rf".*/(?P<code>{CODE})/(?:translated_)?{PART}(?:_2k)?\.tsv",
    "tatoeba": r"(?:.*/)?tatoeba\.(?P<three>\w+)-eng\.\w+",
    "tydiqa-goldp": rf"(?:.*/)?tydiqa[.-](?:goldp[.-])?(?P<code>{CODE})\.{PART}\.json",
    "ud-pos": rf"(?:.*/)?(?P<code>{CODE})_\w+-ud-{PART}\.conllu",
    "wikiann-ner": rf".*/(?P<code>{CODE})/{PART}(?:\.tsv|\.conllu)?",
    "wmt14-en-de": TRANSLATED,
    "wmt14-en-fr": TRANSLATED,
    "xquad": rf"(?:.*/)?xquad\.(?P<code>{CODE})\.json",
}
CONLL = {"deu": "de", "eng": "en", "esp": "es", "ned": "nl"}


def check_language(task: str, language: str, gold: str | Path, predictions: str | Path) -> None:
    """`language` is one of the task's, and the one that the names of both files say, if they say one."""
    codes = read_yaml(CONFIG / f"tasks/{task}.yaml", f"config/tasks/{task}.yaml")["languages"]
    most = 2 if task == "mlqa" else 1  # of a context and a question
    parts = language.split("-")
    if len(parts) > most or not set(parts) <= set(codes):
        also = ", or two of them, context-question, as de-en" if most > 1 else ""
        raise UserError(f"--language {language}: {task} has no such language; write one of {', '.join(codes)}{also}")
    for path in (gold, predictions):
        said = language_said(task, path)
        if said and joined(said) != joined(language):
            raise UserError(f"{path}: a file of {joined(said)} by its name, not of --language {language}")


def joined(language: str) -> str:
    """de-de is de."""
    return "-".join(dict.fromkeys(language.split("-")))


def language_said(task: str, path: str | Path) -> str | None:
    text = os.path.abspath(path)  # a folder says it too, where the path begins within it
    found = re.fullmatch(UPSTREAM.get(task, SUBMITTED), text) or re.fullmatch(SUBMITTED, text)
    if not found:
        return None
    said = found.groupdict()
    if "conll" in said:
        return CONLL[said["conll"]]
    if "three" in said:
        return by_three_letters().get(said["three"], said["three"])
    return "-".join(filter(None, (said["code"], said.get("second"))))


@cache
def by_three_letters() -> dict[str, str]:
    table = load_languages(CONFIG / "languages.tsv")
    return {language.tatoeba: code for code, language in table.items() if language.tatoeba}
