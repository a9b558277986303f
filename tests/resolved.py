"""What a resolved recipe has and a task's file has not, for the tests that build a recipe of their own."""

from pathlib import Path
from types import SimpleNamespace

from plan.datasets import load_languages
from plan.recipes import PARTS, expand_datasets


def files_of(repository: Path, sources: dict[str, str], languages: list[str], train: list[str]) -> dict[str, str]:
    """A task's `datasets`, with the files of these languages; dev is English."""
    tables = SimpleNamespace(languages=load_languages(repository / "config/languages.tsv"))
    by_part = {**dict.fromkeys(PARTS, languages), "train": train, "dev": ["en"]}
    return expand_datasets(tables, sources, by_part, "task")
