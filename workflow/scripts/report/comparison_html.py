"""A comparison as HTML."""

from collections.abc import Iterator

from report import html_tables
from report.comparison_cells import PRINTED, Block, Comparison, Value
from report.comparison_words import (
    caption_words,
    column_words,
    missing_notes,
    notes_of,
    row_head,
    shown,
    side_cells,
    source_words,
)
from report.context import item_name


def html_table(comparison: Comparison) -> html_tables.HtmlTable:
    """For a page of the site, or for a page of its own."""
    spec, context = comparison.spec, comparison.context
    identity, name = f"{spec['paper']}-{spec['item']}", item_name(spec, context)
    notes = html_tables.Footnotes(identity)
    head, blocks = (html_side if comparison.side else html_lines)(comparison, notes)
    caption = f"<strong>{html_tables.text(name)}.</strong> {html_tables.text(spec['title'])}. "
    return html_tables.HtmlTable(
        identity=identity,
        name=name,
        html_caption=caption + html_tables.text(caption_words(comparison)),
        head=head,
        bodies=blocks,
        html_notes=[
            *map(html_tables.text, notes_of(comparison, "see below") + missing_notes(comparison)),
            *notes.html_notes,
        ],
    )


def html_cell(value: Value, source: str, notes: html_tables.Footnotes) -> html_tables.Cell:
    mark = notes.mark(value.note) if value.note else ""
    kind = "published" if source == PRINTED else "ours"
    missing = " missing" if value.reason and not value.text else ""
    return html_tables.Cell(html_tables.text(shown(value)) + mark, kind=f"number {kind}{missing}")


def html_side(
    comparison: Comparison, notes: html_tables.Footnotes
) -> tuple[list[list[html_tables.Cell]], list[html_tables.Body]]:
    sources = comparison.sources
    first = [html_tables.Cell(html_tables.text(row_head(comparison)), "col", rows=2)]
    first += [html_tables.Cell(html_tables.text(name), "colgroup", columns=len(sources)) for name in comparison.columns]
    second = [
        html_tables.Cell(html_tables.text(column_words(comparison, index, source)), "col")
        for index in range(len(comparison.columns))
        for source in sources
    ]
    named = sources * len(comparison.columns)
    body = [
        [
            html_tables.Cell(html_tables.text(row.label), "row"),
            *(html_cell(cell, source, notes) for cell, source in zip(side_cells(comparison, row), named, strict=True)),
        ]
        for row in comparison.rows
    ]
    return [first, second], [html_tables.Body("", body)]


def html_lines(
    comparison: Comparison, notes: html_tables.Footnotes
) -> tuple[list[list[html_tables.Cell]], list[html_tables.Body]]:
    names = [row_head(comparison), "source", *comparison.columns]
    return [[html_tables.Cell(html_tables.text(name), "col") for name in names]], [
        html_tables.Body(html_tables.text(block.title), list(html_rows(comparison, block, notes)))
        for block in comparison.blocks
    ]


def html_rows(comparison: Comparison, block: Block, notes: html_tables.Footnotes) -> Iterator[list[html_tables.Cell]]:
    for row in block.rows:
        for line in row.lines:
            head = [html_tables.Cell(html_tables.text(row.label), "row", rows=len(row.lines))]
            source = html_tables.Cell(html_tables.text(source_words(comparison, line.source)), "row", kind="source")
            cells = [html_cell(cell, line.source, notes) for cell in line.cells]
            yield [*(head if line is row.lines[0] else []), source, *cells]


def render_html(comparison: Comparison) -> str:
    name = item_name(comparison.spec, comparison.context)
    heading = f"<h1>{html_tables.text(name)}</h1>\n"
    return html_tables.page(name, heading + html_tables.render_table(html_table(comparison)))
