"""A table of scores as HTML."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from common.csvfiles import read_rows
from report.context import item_name, scale_words, seed_words
from report.html_tables import Body as HtmlBody
from report.html_tables import Cell as HtmlCell
from report.html_tables import Footnotes, HtmlTable, code, link, relative, render_table, text
from report.html_tables import page as html_page
from report.scores import group_paths
from report.table_latex import OURS_ONLY
from report.table_spec import Column
from report.table_words import (
    BOLD,
    MISSING,
    STAR,
    difference,
    html_chance,
    language_notes,
    meaning_notes,
    missing_notes,
    needs_separator,
    only_averages,
    only_one_language,
    plain_heading,
    plain_title,
    row_notes,
    selection_words,
    spans_of,
    summary_words,
)
from report.tables import Cell, Group, Row, Table


def identity(spec: dict) -> str:
    """The id of an item on a page."""
    return f"{spec['paper']}-{spec['item']}"


def html_table(table: Table, page: Path) -> HtmlTable:
    """The table for `page`: of each model a published line, a reproduced one, and, where both are of the same data, one
    with their difference. Each reproduced number leads to a score file."""
    spec, context = table.spec, table.context
    footnotes = Footnotes(identity(spec))
    name = item_name(spec, context)
    words = f"{spec['title']}. {scale_words(context)} {seed_words(n for row in table.rows for n in row.seeds)}"
    return HtmlTable(
        identity=identity(spec),
        name=name,
        html_caption=f"<strong>{text(name)}.</strong> {text(words)}",
        head=html_head(table),
        bodies=[
            *(html_body(group, table, page, footnotes) for group in table.groups),
            *([html_chance(table)] if any(value is not None for value in table.chance) else []),
        ],
        html_notes=html_notes(table, footnotes),
    )


def html_head(table: Table) -> list[list[HtmlCell]]:
    spans = spans_of(table.columns)
    left = ["Model", "Source"]
    if len(spans) > 1 and (only_averages(spans) or only_one_language(spans)):
        arrows = [plain_title(span[0]) + (" ↓" if span[0].less_is_better else "") for span in spans]
        return [[HtmlCell(text(words), "col") for words in (*left, *arrows)]]
    names = language_names(table.context.root)
    codes = [HtmlCell(html_heading(column, names), "col") for column in table.columns]
    if len(spans) == 1:
        return [[*(HtmlCell(words, "col") for words in left), *codes]]
    over = [HtmlCell(text(plain_title(span[0])), "colgroup", columns=len(span)) for span in spans]
    return [[*(HtmlCell(words, "col", rows=2) for words in left), *over], codes]


@cache
def language_names(root: Path) -> dict[str, str]:
    return {row["code"]: row["name"] for row in read_rows(root / "config/languages.tsv")}


def html_heading(column: Column, names: Mapping[str, str]) -> str:
    words = text(plain_heading(column))
    return f'<abbr title="{text(names[column.language])}">{words}</abbr>' if column.language in names else words


def html_body(group: Group, table: Table, page: Path, footnotes: Footnotes) -> HtmlBody:
    rows = []
    for index, row in enumerate(group.rows):
        if needs_separator(group, index):
            title = f'<span class="group">{OURS_ONLY}</span>'
            rows.append([HtmlCell(title, "rowgroup", columns=2 + len(table.columns), kind="quiet")])
        rows += html_rows(row, table, page, footnotes)
    return HtmlBody(text(group.title), rows)


def html_rows(row: Row, table: Table, page: Path, footnotes: Footnotes) -> list[list[HtmlCell]]:
    lines = []
    if row.model is not None:
        cells = [HtmlCell(cell.published or MISSING, kind=kind_of("published", cell.published)) for cell in row.cells]
        lines.append([HtmlCell("published", "row"), *cells])
    if row.run is not None:
        marks = "".join(footnotes.mark(words) for words in row_notes(row, table))
        cells = [
            html_cell(cell, column, page, footnotes, table.context.scale)
            for cell, column in zip(row.cells, table.columns, strict=True)
        ]
        lines.append([HtmlCell(f"Parallax, {code(row.run)}{marks}", "row", kind="ours"), *cells])
    leads = [difference(cell, table) for cell in row.cells]
    if any(lead is not None for lead in leads):
        cells = [MISSING if lead is None else f"{round(lead, 1) + 0.0:+.1f}" for lead in leads]
        lines.append([HtmlCell("difference", "row"), *(HtmlCell(words, kind="number") for words in cells)])
    label = text(row.label) + "".join(footnotes.mark(f"Shown as printed; {erratum}.") for erratum in row.errata)
    return [[HtmlCell(label, "row", rows=len(lines)), *lines[0]], *lines[1:]]


def kind_of(name: str, shown: object) -> str:
    return f"number {name}" + (" missing" if shown is None else "")


def html_cell(cell: Cell, column: Column, page: Path, footnotes: Footnotes, scale: str) -> HtmlCell:
    """`62.0 ± 2.0 (3)`: mean, deviation, number of seeds; the number leads to the first file that it rests on, and says
    which command computes that again."""
    if cell.summary is None:
        shown = MISSING if cell.beyond is None else f"&gt;{cell.beyond}"
        mark = footnotes.mark(f"{cell.reason}.") if cell.told else ""
        return HtmlCell(shown + mark, kind=kind_of("ours", cell.beyond))
    words, n = summary_words(cell.summary, column.decimals).rsplit(" ", 1)
    words = f"<strong>{words}</strong>" if cell.best else words
    star = f"<sup>{STAR}</sup>" if cell.partial else ""
    of_seeds = ", ".join(f"seed {seed}: {value:.{column.decimals + 1}f}" for seed, value in cell.values.items())
    more = f"; the first of {len(cell.files)} score files" if len(cell.files) > 1 else ""
    leading = (
        link(words, relative(cell.files[0], page), f"{of_seeds}{more}{again(cell.files[0], scale)}")
        if cell.files
        else words
    )
    return HtmlCell(f"{leading}{star} {n}", kind=kind_of("ours", cell))


def again(path: Path, scale: str) -> str:
    target = "/".join(("results", scale, "scores", *path.parts[-4:]))
    return f"; again: snakemake --cores all --config scale={scale} -- {target}"


def html_notes(table: Table, footnotes: Footnotes) -> list[str]:
    notes = [text(BOLD)] if any(cell.best for row in table.rows for cell in row.cells) else []
    notes += map(text, meaning_notes(table))
    notes += [text(words) for words in [selection_words(table)] if words]
    notes += [(f"<sup>{STAR}</sup> " if starred else "") + text(words) for starred, words in language_notes(table)]
    if table.has_published and table.context.world:
        notes.append("No differences: reproduced numbers of a generated world are not comparable in absolute value.")
    notes += [text(f"{MISSING} {words}") for words in missing_notes(table)]
    notes += footnotes.html_notes
    notes += [text(f"Erratum of the paper: {words}.") for words in table.errata]
    return notes + [text(words) for words in table.spec.get("notes", [])]


def render_html(table: Table, page: Path | None = None) -> str:
    """A page with the table and the list of its score files, whose addresses are seen from `page`."""
    page = page or Path(f"results/tables/{table.spec['paper']}/{table.spec['item']}.html")
    files = sorted({path for row in table.rows for cell in row.cells for path in cell.files})
    name = item_name(table.spec, table.context)
    lines = [f"<h1>{text(name)}</h1>", render_table(html_table(table, page))]
    if files:
        lines += ["<h2>Score files</h2>", file_list(files, page)]
    return html_page(f"{name}: {table.spec['title']}", "\n".join(lines))


def file_list(files: Iterable[Path], page: Path) -> str:
    """Score files by run, task and setting, each seed with its address."""
    lines = ["<ul>"]
    for (run, task, setting), of_seed in sorted(group_paths(files).items()):
        seeds = ", ".join(link(f"seed {seed}", relative(path, page)) for seed, path in sorted(of_seed.items()))
        lines.append(f"<li>{code(run)}, {text(task)}, {text(setting)}: {seeds}</li>")
    return "\n".join([*lines, "</ul>"])
