"""Tables with a line of columns that the configuration is read from; what is wrong with one is told in one line."""

import csv
from collections.abc import Collection
from pathlib import Path

from common.errors import UserError, why_no_file


def read_rows(path: Path, shown: str, columns: Collection[str] = (), delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file as its columns name them; `columns` are those that it must have."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: byte {error.start} is not UTF-8; save the table as UTF-8") from None
    except OSError:
        raise UserError(f"{shown}: {why_no_file(path)}") from None
    table = csv.DictReader(text.splitlines(), delimiter=delimiter)
    if missing := [column for column in columns if column not in (table.fieldnames or ())]:
        raise UserError(f"{shown}, line 1: no column {', '.join(missing)}; restore the file from the repository")
    return list(table)
