"""Tables of the repository with a line of columns, .csv or .tsv; what is wrong with one is told in one line."""

import csv
import io
from collections.abc import Collection
from pathlib import Path

from common.errors import UserError, why_no_file


def read_rows(path: Path, columns: Collection[str] = (), shown: str | None = None) -> list[dict[str, str]]:
    """The rows as their columns name them; `columns` are those that it must have."""
    shown = shown or str(path)
    try:
        text = path.read_text(encoding="utf-8").removeprefix("\ufeff")  # which a spreadsheet writes first
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: byte {error.start} is not UTF-8; save the table as UTF-8") from None
    except OSError:
        raise UserError(f"{shown}: {why_no_file(path)}; it belongs to the repository") from None
    form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
    table = csv.DictReader(io.StringIO(text, newline=""), **form)
    if missing := [column for column in columns if column not in (table.fieldnames or ())]:
        raise UserError(f"{shown}, line 1: no column {', '.join(missing)}; restore the file from the repository")
    rows = []
    for row in table:
        if None in row or None in row.values():
            cells = sum(cell is not None for key, cell in row.items() if key is not None) + len(row.get(None, ()))
            mend = "separate them by single tabs" if path.suffix == ".tsv" else "a text with a comma needs quotes"
            raise UserError(
                f"{shown}, line {table.line_num}: {cells} cells for {len(table.fieldnames)} columns; {mend}"
            )
        rows.append(row)
    return rows
