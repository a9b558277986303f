"""What a resolved recipe has and a task's file has not, for the tests that build a recipe of their own."""

from pathlib import Path
from types import SimpleNamespace

import plan
from datasets import load_languages


def files_of(repository: Path, sources: dict[str, str], languages: list[str], train: list[str]) -> dict[str, str]:
    """A task's `datasets`, with the files of these languages; dev is English."""
    tables = SimpleNamespace(languages=load_languages(repository / "config/languages.tsv"))
    languages_of = {**dict.fromkeys(plan.PARTS, languages), "train": train, "dev": ["en"]}
    return plan.expand_datasets(tables, sources, languages_of, "task")
