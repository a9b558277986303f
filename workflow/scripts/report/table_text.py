"""A table of scores as CSV and Markdown."""

import csv
import io

from report.context import item_name, scale_words
from report.table_spec import Column
from report.table_words import MISSING, Notes, difference, reach_words, row_notes, selection_words, summary_words
from report.tables import Cell, Table


def tidy_rows(table: Table) -> list[dict[str, str]]:
    """One dictionary per cell, everything as text; absent numbers are empty."""
    rows = []
    for group in table.groups:
        for row in group.rows:
            for column, setting, cell, chance in zip(
                table.columns, group.settings, row.cells, table.chance, strict=True
            ):
                summary = cell.summary
                lead = difference(cell, table)
                rows.append(
                    {
                        "paper": table.spec["paper"],
                        "item": table.spec["item"],
                        "scale": table.context.scale,
                        "setting": setting,
                        "label": row.label,
                        "model": row.model or "",
                        "run": row.canonical or "",
                        "task": column.task,
                        "language": column.language,
                        "metric": column.metric,
                        "published": cell.published or "",
                        "mean": f"{summary.mean:.4f}" if summary else "",
                        "std": f"{summary.std:.4f}" if summary and summary.std is not None else "",
                        "n": str(summary.n) if summary else "",
                        "difference": "" if lead is None else f"{lead:.4f}",
                        "chance": "" if chance is None else f"{chance:.4f}",
                        "averaged": " ".join(cell.partial or column.languages) if column.is_derived else "",
                        "direction": column.direction or "",
                        "reaches": column.reaches or "",
                        "selection": row.selection.get((column.task, setting), "") if summary else "",
                        "reason": cell.reason or "",
                    }
                )
    return rows


def render_csv(table: Table) -> str:
    return csv_text(tidy_rows(table))


def csv_text(rows: list[dict[str, str]]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def plain_cell(cell: Cell, column: Column, notes: Notes) -> str:
    if cell.beyond is not None:
        return f">{cell.beyond}"
    mark = f"<sup>{notes.letter(f'{cell.reason}.')}</sup>" if cell.told else ""
    return summary_words(cell.summary, column.decimals) + ("*" if cell.partial else "") + mark


def markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |"


def render_markdown(table: Table) -> str:
    titles = [
        f"{column.heading} {column.language}{' ↓' if column.less_is_better else ''}".strip() for column in table.columns
    ]
    words = [f"**{item_name(table.spec, table.context)}.** {table.spec['title']}.", scale_words(table.context)]
    lines = [
        " ".join(words),
        "",
        markdown_line(["model", "source", *titles]),
        markdown_line(["---"] * (2 + len(titles))),
    ]
    starred, notes = set(), Notes()
    for group in table.groups:
        lines.append(markdown_line([f"**{group.title}**", *[""] * (1 + len(titles))]))
        for row in group.rows:
            if row.model is not None:
                lines.append(
                    markdown_line([row.label, "published", *(cell.published or MISSING for cell in row.cells)])
                )
            if row.run is not None:
                cells = [plain_cell(cell, column, notes) for cell, column in zip(row.cells, table.columns, strict=True)]
                marks = "".join(f"<sup>{notes.letter(text)}</sup>" for text in row_notes(row, table))
                lines.append(markdown_line([row.label, f"`{row.canonical}`{marks}", *cells]))
                starred |= {cell.partial for cell in row.cells if cell.partial}
    chance = [MISSING if value is None else f"{value:.1f}" for value in table.chance]
    lines.append(markdown_line(["chance", "", *chance]))
    lines += [f"\n\\* mean over the languages of this scale: {', '.join(languages)}" for languages in sorted(starred)]
    lines += [f"\n{text}" for text in [*reach_words(table), selection_words(table)] if text]
    lines += [f"\n<sup>{letter}</sup> {text}" for text, letter in notes.letters.items()]
    return "\n".join(lines) + "\n"
