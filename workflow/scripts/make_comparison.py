"""Write one comparison of a paper: what is printed beside ours, as LaTeX, CSV, Markdown or HTML.

The LaTeX is a longtable with its notes, as make_table.py writes it, to be read by \\input from results/tables/all.tex.
A value of ours that is not what is printed has the sign ≠.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from common.atomic import write_text
from common.errors import run_main
from report import latex
from report.comparison_cells import OURS, PRINTED, SCALE, Comparison, Row, Value
from report.comparison_html import render_html
from report.comparison_words import (
    ROOM,
    UNLIKE,
    WIDE,
    Notes,
    caption_words,
    column_words,
    notes_of,
    row_head,
    rows_of,
    shown,
    side_cells,
    source_words,
    unit_of,
    unit_words,
)
from report.comparisons import build
from report.context import add_context_arguments, item_name, label, load_context
from report.table_spec import load_spec
from report.table_text import csv_text, markdown_line
from report.table_words import MISSING

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
    return csv_text(tidy_rows(comparison))


def render_markdown(comparison: Comparison) -> str:
    notes = Notes()
    header, body = rows_of(comparison, notes)
    name = f"**{item_name(comparison.spec, comparison.context)}.** {comparison.spec['title']}."
    lines = [
        f"{name} {caption_words(comparison)}",
        "",
        markdown_line(header),
        markdown_line(["---"] * len(header)),
        *map(markdown_line, body),
    ]
    told = [f"<sup>{letter}</sup> {text}" for text, letter in notes.letters.items()]
    return "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in [*notes_of(comparison), *told])


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
