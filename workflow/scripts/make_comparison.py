"""Write one comparison of a paper: what is printed beside ours, as LaTeX, CSV, Markdown or HTML.

The LaTeX is a longtable with its notes, as make_table.py writes it, to be read by \\input from results/tables/all.tex.
A value of ours that is not what is printed has the sign ≠.
"""

import argparse
import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from common.atomic import write_text
from common.errors import run_main
from make_table import MISSING
from report import html_tables, latex
from report.comparisons import OURS, PRINTED, SCALE, Block, Comparison, Row, Value, build, missing_cells
from report.tables import Context, add_context_arguments, item_name, label, load_context, load_spec, scale_words

UNLIKE = "≠"
ROOM = 90  # characters of a line that are not printed smallest
WIDE = 9  # columns from which lines are printed on a turned page


class Notes:
    """Footnotes of one table, lettered in the order of their first use; equal texts share a letter."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def letter(self, text: str) -> str:
        return self.letters.setdefault(text, html_tables.letter_of(len(self.letters)))


# --- what all formats say -------------------------------------------------------------------------------------------


def shown(value: Value) -> str:
    """A cell as plain text: `≠ 0.9`; `--` where there is none of ours, nothing where none is due."""
    text = value.text or (MISSING if value.reason else "")
    return f"{UNLIKE} {text}" if value.differs else text


def source_words(comparison: Comparison, source: str) -> str:
    """`published`, `Parallax` or `at mini`; sizes of corpora are of this scale alone."""
    if source == SCALE:
        return f"at {comparison.context.scale}" if OURS in comparison.sources else "Parallax"
    return source


def column_words(comparison: Comparison, index: int, source: str) -> str:
    """`published, GB` over one column of what stands side by side."""
    unit = unit_of(comparison, index, source)
    return source_words(comparison, source) + (f", {unit}" if unit else "")


def unit_of(comparison: Comparison, index: int, source: str) -> str:
    return comparison.units[source][index] if source in comparison.units else ""


def row_head(comparison: Comparison) -> str:
    kind, how = next(iter(comparison.spec["compare"].items()))
    return {"corpora": how.get("by", ""), "resources": "corpus", "models": "model"}.get(kind, "")


def side_cells(comparison: Comparison, row: Row) -> list[Value]:
    """The cells of one line: of each column what is printed, then ours."""
    return [line.cells[i] for i in range(len(comparison.columns)) for line in row.lines]


def rows(spec: dict, context: Context) -> tuple[list[str], list[list[str]]]:
    """Header and rows of plain text. Side by side a row is one line; else one for each source, which it names."""
    return rows_of(build(spec, context))


def rows_of(comparison: Comparison, notes: Notes | None = None) -> tuple[list[str], list[list[str]]]:
    """With `notes` a cell that has one gets its letter."""

    def marked(value: Value) -> str:
        mark = f"<sup>{notes.letter(value.note)}</sup>" if notes and value.note else ""
        return shown(value) + mark

    if comparison.side:
        header = [row_head(comparison)]
        for index, column in enumerate(comparison.columns):
            header += [f"{column} {column_words(comparison, index, source)}" for source in comparison.sources]
        return header, [[row.label, *map(marked, side_cells(comparison, row))] for row in comparison.rows]
    lines = []
    for block in comparison.blocks:
        if block.title:
            lines.append([block.title, *[""] * (1 + len(comparison.columns))])
        for row in block.rows:
            for line in row.lines:
                lines.append([row.label, source_words(comparison, line.source), *map(marked, line.cells)])
    return [row_head(comparison), "source", *comparison.columns], lines


def cells_of(comparison: Comparison) -> Iterator[Value]:
    for row in comparison.rows:
        for line in row.lines:
            yield from line.cells


def notes_of(comparison: Comparison, why: str = "the appendix says why") -> list[str]:
    """What stands below the table, footnotes apart."""
    notes = []
    if any(cell.differs for cell in cells_of(comparison)):
        notes.append(f"{UNLIKE}: ours is not what is printed.")
    if OURS in comparison.sources:
        notes.append(
            "Parallax: what our files say, at the paper's own size. "
            f"At {comparison.context.scale}: what this scale makes of it."
        )
    else:
        notes.append(f"Parallax: ours at scale {comparison.context.scale}.")
    if any(cell.reason and not cell.text for cell in cells_of(comparison)):
        notes.append(f"{MISSING}: none of ours; {why}.")
    return [*notes, *comparison.notes, *comparison.spec.get("notes", [])]


def unit_words(comparison: Comparison) -> str:
    """Where several rows share a line, the heading has no room for units."""
    told = []
    for index, column in enumerate(comparison.columns):
        units = [
            f"{source_words(comparison, source)} in {UNIT_NAMES.get(unit, unit)}"
            for source in comparison.units
            if (unit := unit_of(comparison, index, source))
        ]
        told += [f"{column}: {', '.join(units)}"] if units else []
    return f"{'. '.join(told)}." if told else ""


UNIT_NAMES = {"k": "thousands", "M": "millions"}


def caption_words(comparison: Comparison) -> str:
    """Where something was counted or measured, what the data are; else what the scale is."""
    context = comparison.context
    if "hyperparameters" in comparison.spec["compare"] and context.description:
        return f"Scale {context.scale}: {context.description}."
    return scale_words(context)


# --- LaTeX ----------------------------------------------------------------------------------------------------------


UNLIKE_LATEX = r"$\neq$"


def latex_text(text: str) -> str:
    """A note; the sign of a difference and the dash of what is missing look as in the cells."""
    if text.startswith(f"{MISSING}: "):
        return MISSING + latex.escape(text.removeprefix(MISSING))
    return UNLIKE_LATEX.join(map(latex.escape, text.split(UNLIKE)))


def latex_cell(value: Value, notes: Notes) -> str:
    text = latex.escape(value.text) if value.text else MISSING if value.reason else ""
    mark = rf"\textsuperscript{{{notes.letter(value.note)}}}" if value.note else ""
    return (rf"{UNLIKE_LATEX}\,{text}" if value.differs else text) + mark


def latex_side(comparison: Comparison, notes: Notes) -> tuple[str, str, list[str]]:
    """Column format, header and body where a row is one line, or several rows are."""
    sources, columns, across = comparison.sources, comparison.columns, comparison.across
    own = len(columns) * len(sources)
    first, second, rules, start = [], [], [], 1
    for _ in range(across):
        first.append("")
        second.append(latex.escape(row_head(comparison) if across == 1 else ""))
        start += 1
        for index, column in enumerate(columns):
            first.append(rf"\multicolumn{{{len(sources)}}}{{c}}{{{latex.escape(column)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + len(sources) - 1}}}")
            words = column_words if across == 1 else lambda comparison, index, source: source_words(comparison, source)
            second += [latex.escape(words(comparison, index, source)) for source in sources]
            start += len(sources)
    header = " & ".join(second) + r" \\"
    if across == 1 or len(columns) > 1:  # else the caption says what the one column is
        header = " & ".join(first) + r" \\" + "".join(rules) + "\n" + header
    body = []
    for begin in range(0, len(comparison.rows), across):
        some = comparison.rows[begin : begin + across]
        line = []
        for row in some:
            line += [latex.escape(row.label), *(latex_cell(cell, notes) for cell in side_cells(comparison, row))]
        line += [""] * ((across - len(some)) * (1 + own))
        body.append(" & ".join(line) + r" \\")
    align = "r" if across > 1 else "l"
    return r"@{\hspace{0.9em}}".join(["l" + align * own] * across), header, body


def latex_lines(comparison: Comparison, notes: Notes) -> tuple[str, str, list[str]]:
    """The same where each row has a line for each source, ours shaded."""
    width = len(comparison.columns) + 1
    header = " & ".join(["", *map(latex.escape, comparison.columns)]) + r" \\"
    body = []
    for position, block in enumerate(comparison.blocks):
        if position:
            body.append(r"\midrule")
        if block.title:
            body.append(rf"\multicolumn{{{width}}}{{l}}{{\bfseries {latex.escape(block.title)}}} \\*")
        for number, row in enumerate(block.rows):
            body += [r"\addlinespace[2pt]"] if number else []
            for line in row.lines:
                last = line is row.lines[-1]
                if line.source == PRINTED:
                    name, shade = latex.escape(row.label), ""
                else:
                    name, shade = rf"\quad {latex_source(comparison, row, line.source)}", r"\rowcolor{black!8}"
                cells = [latex_cell(cell, notes) for cell in line.cells]
                body.append(shade + " & ".join([name, *cells]) + (r" \\" if last else r" \\*"))
    return "l" * width, header, body


def latex_source(comparison: Comparison, row: Row, source: str) -> str:
    """`Parallax, xlm-r`; the run is named once."""
    words = latex.escape(source_words(comparison, source))
    named = row.run and (source == OURS or OURS not in comparison.sources)
    return f"{words}, {latex.code(row.run)}" if named else words


def font(comparison: Comparison) -> str:
    if comparison.side:
        return r"\small" if comparison.across == 1 else r"\scriptsize"
    cells = zip(*(line.cells for row in comparison.rows for line in row.lines), strict=True)
    widths = [max(len(shown(cell)) for cell in column) for column in cells]
    heads = [max(len(row.label), len(row.run) + 12) for row in comparison.rows]
    wide = max(heads) + sum(max(pair) for pair in zip(widths, map(len, comparison.columns), strict=True))
    return r"\footnotesize" if wide <= ROOM else r"\scriptsize"


def render_latex(comparison: Comparison) -> str:
    context, spec, notes = comparison.context, comparison.spec, Notes()
    side, name = comparison.side, item_name(spec, context)
    layout, header, body = (latex_side if side else latex_lines)(comparison, notes)
    width = header.rpartition("\n")[2].count("&") + 1
    landscape = not side and width > WIDE
    caption = [
        rf"\textbf{{{latex.escape(name)}.}} {latex.escape(spec['title'])}.",
        latex.escape(caption_words(comparison)),
    ]
    below = [latex_text(text) for text in notes_of(comparison)]
    below = [latex_text(unit_words(comparison)) if comparison.across > 1 else "", *below]
    below += [rf"\textsuperscript{{{letter}}} {latex.escape(text)}" for text, letter in notes.letters.items()]
    again = rf"\multicolumn{{{width}}}{{l}}{{\itshape {latex.escape(name)}, continued}} \\"
    lines = [
        f"% {name}, scale {context.scale}: written by make_comparison.py",
        *([r"\begin{landscape}"] if landscape else []),
        # the document's heading stands on the page of its first table, also on a turned page
        r"\ifdefined\itemheading\itemheading\global\let\itemheading\undefined\fi",
        rf"\begingroup{font(comparison)}\setlength{{\tabcolsep}}{{2.1pt}}",
        r"\renewcommand{\arraystretch}{1.05}\setlength{\LTcapwidth}{\linewidth}",
        *latex.longtable(layout, rf"\caption{{{' '.join(caption)}}}\label{{{label(spec)}}}\\", again, header, body),
        r"\vspace{-1.2ex}\noindent\begin{minipage}{\linewidth}\footnotesize\raggedright",
        *(text + r"\par" for text in below if text),
        r"\end{minipage}\par",
        r"\endgroup",
        *([r"\end{landscape}"] if landscape else []),
    ]
    return "\n".join(lines) + "\n"


# --- CSV, Markdown and HTML -----------------------------------------------------------------------------------------


def tidy_rows(comparison: Comparison) -> list[dict[str, str]]:
    """One dictionary per cell, everything as text."""
    found = []
    for block in comparison.blocks:
        for row in block.rows:
            for line in row.lines:
                for index, (column, cell) in enumerate(zip(comparison.columns, line.cells, strict=True)):
                    found.append(
                        {
                            "paper": comparison.spec["paper"],
                            "item": comparison.spec["item"],
                            "scale": comparison.context.scale,
                            "block": block.title,
                            "row": row.label,
                            "run": row.run,
                            "column": column,
                            "source": "scale" if line.source == SCALE else line.source.lower(),
                            "unit": unit_of(comparison, index, line.source),
                            "value": cell.text,
                            "differs": "yes" if cell.differs else "",
                            "note": cell.note,
                            "reason": cell.reason,
                        }
                    )
    return found


def render_csv(comparison: Comparison) -> str:
    buffer = io.StringIO()
    found = tidy_rows(comparison)
    writer = csv.DictWriter(buffer, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return buffer.getvalue()


def render_markdown(comparison: Comparison) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |"

    notes = Notes()
    header, body = rows_of(comparison, notes)
    name = f"**{item_name(comparison.spec, comparison.context)}.** {comparison.spec['title']}."
    lines = [f"{name} {caption_words(comparison)}", "", line(header), line(["---"] * len(header)), *map(line, body)]
    told = [f"<sup>{letter}</sup> {text}" for text, letter in notes.letters.items()]
    return "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in [*notes_of(comparison), *told])


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


def missing_notes(comparison: Comparison) -> list[str]:
    """A page of its own has no appendix that says why a cell is empty."""
    return [
        f"{MISSING} {row}{'' if cells == 'all' else f', {cells}'}: {reason}."
        for _, row, cells, reason in missing_cells(comparison.spec, comparison.context)
    ]


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


RENDER: dict[str, Callable[[Comparison], str]] = {
    "latex": render_latex,
    "csv": render_csv,
    "markdown": render_markdown,
    "html": render_html,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--spec", required=True, type=Path, help="config/tables/<paper>/<item>.yaml, one with `compare`"
    )
    add_context_arguments(parser)
    parser.add_argument("--format", choices=sorted(RENDER), default="latex", help="default: %(default)s")
    parser.add_argument("--out", required=True, type=Path, help="file to write")
    args = parser.parse_args()
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    write_text(args.out, RENDER[args.format](build(load_spec(args.spec), context)))


if __name__ == "__main__":
    run_main(main)
