"""A table of scores in LaTeX: reproduced lines beside or under the published ones, on paper of some width."""

import math

from report import latex
from report.context import item_name, label, scale_words, seed_words
from report.table_spec import Column
from report.table_words import (
    BOLD,
    CHANCE,
    MISSING,
    Notes,
    any_missing,
    chance_words,
    column_title,
    columns_of,
    heading,
    language_notes,
    meaning_notes,
    model_label,
    needs_separator,
    only_averages,
    only_one_language,
    published_cell,
    reproduced_cells,
    run_label,
    seeds_label,
    selection_words,
    spans_of,
)
from report.tables import Table

SIDE_BY_SIDE_COLUMNS = 3  # up to here a table has published and reproduced columns
PORTRAIT_COLUMNS = 9  # up to here it stands upright
OURS_PORTRAIT_COLUMNS = 6  # the same where rows have one line, with label and run
PANEL_COLUMNS = 16  # up to here it is one table; beyond, its columns stand in several below one another
OURS_ONLY = "Parallax only: the paper has no such row"


def title_row(spans: list[list[Column]], parts: int, before: int, alone: bool) -> tuple[str, str]:
    """Titles over their columns, each `parts` wide, with a rule below; `before` columns on the left have none.
    `alone`: no heading stands below them that could say where less is better."""
    titles, rules, start = [""] * before, [], before + 1
    for span in spans:
        size = parts * len(span)
        title = column_title(span[0]) + (latex.escape(" ↓") if alone and span[0].less_is_better else "")
        titles.append(rf"\multicolumn{{{size}}}{{{'c' if size > 1 else 'l'}}}{{{title}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
        start += size
    return " & ".join(titles) + r" \\", "".join(rules)


def lines_layout(table: Table, notes: Notes, titled: bool) -> tuple[str, str, list[str]]:
    """Column format, header and body of a table with two lines per model. `titled`: its columns are of several tasks or
    metrics, or it is a panel of such a table, so that titles tell them apart."""
    width = len(table.columns) + 1
    spans = spans_of(table.columns)
    header = " & ".join(["Model", *(heading(column) for column in table.columns)]) + r" \\"
    if titled and (only_averages(spans) or only_one_language(spans)):
        header = "Model" + title_row(spans, 1, 1, alone=True)[0]
    elif titled:
        header = "\n".join(["".join(title_row(spans, 1, 1, alone=False)), header])
    body = []
    for position, group in enumerate(table.groups):
        if position:
            body.append(r"\midrule")
        body.append(rf"\multicolumn{{{width}}}{{l}}{{\bfseries {latex.escape(group.title)}}} \\*")
        for index, row in enumerate(group.rows):
            if needs_separator(group, index):
                body.append(r"\addlinespace[2pt]")
                body.append(rf"\multicolumn{{{width}}}{{l}}{{\itshape {OURS_ONLY}}} \\*")
            if row.model is not None:
                end = r" \\*" if row.run else r" \\"
                body.append(" & ".join([model_label(row, notes), *map(published_cell, row.cells)]) + end)
            if row.run is not None:
                run = run_label(row, notes, table) + seeds_label(row)
                run = rf"\quad {run}" if row.model is not None else f"{model_label(row, notes)} ({run})"
                shade = r"\rowcolor{black!8}" if row.seeds else r"\rowcolor{black!3}"
                cells = reproduced_cells(row, table, False, notes)
                body.append(shade + " & ".join([run, *cells]) + r" \\")
    if any(value is not None for value in table.chance):
        body.append(r"\midrule")
        body.append(" & ".join([CHANCE, *map(chance_words, table.chance)]) + r" \\")
    # equal widths, so that a column with scores and one without stand alike; bold with a two-figure deviation fits
    wide = "3.95em" if any(row.seeds for row in table.rows) else "2.4em"
    return rf"l*{{{width - 1}}}{{w{{l}}{{{wide}}}}}", header, body


def side_layout(table: Table, notes: Notes) -> tuple[str, str, list[str]]:
    """Column format, header and body of a table with a published and a reproduced column for each number."""
    parts = 2 if table.has_published else 1
    columns = table.columns
    width = 2 + parts * len(columns)
    spans = spans_of(columns)
    alone = only_one_language(spans) or (parts == 2 and only_averages(spans))
    second = ["Model", "Run"]
    for column in columns:
        own = "" if alone else heading(column)
        second += [f"{own} published".strip(), f"{own} Parallax".strip()] if parts == 2 else [own]
    if alone and parts == 1:
        header = "Model & Run" + title_row(spans, parts, 1, alone)[0]
    else:
        header = "".join(title_row(spans, parts, 2, alone)) + "\n" + " & ".join(second) + r" \\"
    body = []
    for position, group in enumerate(table.groups):
        if position:
            body.append(r"\midrule")
        if len(table.groups) > 1:
            body.append(rf"\multicolumn{{{width}}}{{l}}{{\bfseries {latex.escape(group.title)}}} \\*")
        for index, row in enumerate(group.rows):
            if needs_separator(group, index):
                body.append(r"\addlinespace[2pt]")
                body.append(rf"\multicolumn{{{width}}}{{l}}{{\itshape {OURS_ONLY}}} \\*")
            run = run_label(row, notes, table) if row.run else MISSING
            line = [model_label(row, notes), run if parts == 2 else run + seeds_label(row)]
            for cell, shown in zip(row.cells, reproduced_cells(row, table, parts == 2, notes), strict=True):
                line += [published_cell(cell)] if parts == 2 else []
                line.append(shown)
            body.append(" & ".join(line) + r" \\")
    if any(value is not None for value in table.chance):
        line = [CHANCE, ""]
        for value in table.chance:
            line += [""] if parts == 2 else []
            line.append(chance_words(value))
        body += [r"\midrule", " & ".join(line) + r" \\"]
    return rf"ll*{{{width - 2}}}{{l}}", header, body


def panels_of(table: Table) -> list[Table]:
    """A table that is too wide for a page as several of some of its columns, cut between tasks where that suffices."""
    if len(table.columns) <= PANEL_COLUMNS:
        return [table]
    cuts, start = [], 0
    for span in spans_of(table.columns):
        pieces = math.ceil(len(span) / PANEL_COLUMNS)
        for piece in range(pieces):
            begin = start + len(span) * piece // pieces
            end = start + len(span) * (piece + 1) // pieces
            if cuts and pieces == 1 and end - cuts[-1][0] <= PANEL_COLUMNS:
                cuts[-1] = (cuts[-1][0], end)
            else:
                cuts.append((begin, end))
        start += len(span)
    return [columns_of(table, begin, end) for begin, end in cuts]


def render_latex(table: Table) -> str:
    """One table with its caption and notes; the same table gives the same bytes."""
    context, spec, notes = table.context, table.spec, Notes()
    side = not table.has_published or len(table.columns) <= SIDE_BY_SIDE_COLUMNS
    panels, titled = panels_of(table), len(spans_of(table.columns)) > 1
    upright = PORTRAIT_COLUMNS if table.has_published else OURS_PORTRAIT_COLUMNS
    landscape = max(len(panel.columns) for panel in panels) > upright
    size = r"\small" if side else r"\scriptsize"
    name = item_name(spec, context)
    caption = [
        rf"\textbf{{{latex.escape(name)}.}} {latex.escape(spec['title'])}.",
        latex.escape(scale_words(context)),
        latex.escape(seed_words(n for row in table.rows for n in row.seeds)),
    ]
    tables = []
    for number, panel in enumerate(panels):
        layout, header, body = side_layout(panel, notes) if side else lines_layout(panel, notes, titled)
        width = len(panel.columns) * (2 if side and table.has_published else 1) + (2 if side else 1)
        again = rf"\multicolumn{{{width}}}{{l}}{{\itshape {latex.escape(name)}, continued}} \\"
        title = rf"\caption{{{' '.join(caption)}}}\label{{{label(spec)}}}\\" if number == 0 else again
        tables += latex.longtable(layout, title, again, header, body)
    below = []
    if table.has_published and not side:
        below.append(r"Plain lines: published. Shaded lines: reproduced, with the name of the run.")
    if any(cell.best for row in table.rows for cell in row.cells):
        below.append(BOLD)
    below.append(rf"{MISSING}: no number; the appendix of all.tex says why." if any_missing(table) else "")
    below += map(latex.escape, meaning_notes(table))
    below.append(selection_words(table))
    for starred, words in language_notes(table):
        below.append((r"\textsuperscript{$\ast$} " if starred else "") + latex.escape(words))
    below += [rf"\textsuperscript{{{letter}}} {latex.escape(text)}" for text, letter in notes.letters.items()]
    below += [rf"Erratum of the paper: {latex.escape(text)}." for text in table.errata]
    below += [latex.escape(text) for text in spec.get("notes", [])]
    lines = [
        f"% {name}, scale {context.scale}: written by make_table.py",
        *([r"\begin{landscape}"] if landscape else []),
        # the document's heading stands on the page of its first table, also on a turned page
        r"\ifdefined\itemheading\itemheading\global\let\itemheading\undefined\fi",
        rf"\begingroup{size}\setlength{{\tabcolsep}}{{2.2pt}}\renewcommand{{\arraystretch}}{{1.05}}",
        r"\setlength{\LTcapwidth}{\linewidth}",
        *tables,
        r"\vspace{-1.2ex}\noindent\begin{minipage}{\linewidth}\footnotesize\raggedright",
        *(text + r"\par" for text in below if text),
        r"\end{minipage}\par",
        r"\endgroup",
        *([r"\end{landscape}"] if landscape else []),
    ]
    return "\n".join(lines) + "\n"
