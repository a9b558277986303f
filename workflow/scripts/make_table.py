"""Write one table of a paper: published numbers and ours side by side, as LaTeX, CSV, Markdown or HTML.

The LaTeX is a longtable with its notes, to be read by \\input from results/tables/all.tex. Two layouts:
wide tables give each model a published line and, below it, a shaded reproduced line; narrow ones have two columns.
"""

import argparse
import csv
import io
import math
import string
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from common.atomic import write_text
from common.errors import run_main
from report import latex
from report.html_tables import Body as HtmlBody
from report.html_tables import Cell as HtmlCell
from report.html_tables import Footnotes, HtmlTable, code, link, relative, render_table, text
from report.html_tables import page as html_page
from report.scores import EN_DEV, MEAN_DEV, OWN_DEV, Summary, group_paths
from report.tables import (
    AVERAGE,
    GAP,
    OTHERS,
    Cell,
    Column,
    Group,
    Row,
    Table,
    add_context_arguments,
    build,
    item_name,
    label,
    load_context,
    load_spec,
    read_rows,
    scale_words,
    seed_words,
)

MISSING = "--"
STAR = "∗"
SIDE_BY_SIDE_COLUMNS = 3  # up to here a table has published and reproduced columns
PORTRAIT_COLUMNS = 9  # up to here it stands upright
OURS_PORTRAIT_COLUMNS = 6  # the same where rows have one line, with label and run
PANEL_COLUMNS = 16  # up to here it is one table; beyond, its columns stand in several below one another
OURS_ONLY = "Parallax only: the paper has no such row"
BOLD = "Bold: the best reproduced value of the block where it leads the next by more than their pooled deviation."
CHANCE = "Chance, at this scale"


# --- LaTeX ----------------------------------------------------------------------------------------------------------


def number(value: float, decimals: int = 1) -> str:
    """One decimal, aligned on the point in a left-aligned column; or a whole number."""
    if decimals == 0:
        return f"{value:.0f}"
    text = f"{abs(value):.1f}"
    if value < 0 and text != "0.0":
        return f"{{-}}{text}"
    return rf"\phantom{{0}}{text}" if value < 9.95 else text


def reproduced_cell(cell: Cell, with_n: bool, decimals: int = 1) -> str:
    """`$61.3_{\\pm0.4}$`, in side-by-side tables `$61.3 \\pm 0.4$ (3)`; `--` where there is no score."""
    if cell.summary is None:
        return MISSING if cell.beyond is None else f"$>{cell.beyond}$"
    mean = number(cell.summary.mean, decimals)
    mean = rf"\mathbf{{{mean}}}" if cell.best else mean
    star = r"^{\ast}" if cell.partial else ""
    if with_n:
        deviation = "" if cell.summary.std is None else rf" \pm {cell.summary.std:.{decimals}f}"
        return f"${mean}{star}{deviation}$ ({cell.summary.n})"
    deviation = "" if cell.summary.std is None else rf"_{{\pm{cell.summary.std:.{decimals}f}}}"
    return f"${mean}{star}{deviation}$"


def published_cell(cell: Cell) -> str:
    if cell.published is None:
        return MISSING
    return rf"\phantom{{0}}{cell.published}" if float(cell.published) < 10 else cell.published


class Notes:
    """Footnotes of one table, lettered in the order of their first use; equal texts share a letter."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def letter(self, text: str) -> str:
        return self.letters.setdefault(text, string.ascii_lowercase[len(self.letters)])

    def mark(self, text: str) -> str:
        return rf"\textsuperscript{{{self.letter(text)}}}"


def reproduced_cells(row: Row, table: Table, with_n: bool, notes: Notes) -> list[str]:
    return [
        reproduced_cell(cell, with_n, column.decimals) + (notes.mark(f"{cell.reason}.") if cell.told else "")
        for cell, column in zip(row.cells, table.columns, strict=True)
    ]


SELECTED_ON = {
    EN_DEV: "English dev data",
    MEAN_DEV: "the mean over the dev sets of all languages",
    OWN_DEV: "the dev set of the language that each model is for",
}


def usual_selection(table: Table) -> str | None:
    """What chose the weights behind most of a table's tasks and rows; None where nothing was fine-tuned."""
    rules = [rule for row in table.rows for rule in row.selection.values()]
    return max(SELECTED_ON, key=rules.count) if rules else None


def selection_words(table: Table) -> str:
    usual = usual_selection(table)
    if usual is None:
        return ""
    marked = any(rule != usual for row in table.rows for rule in row.selection.values())
    return f"Fine-tuned models: selected on {SELECTED_ON[usual]}{', unless marked' if marked else ''}."


def unusual_selections(row: Row, table: Table) -> list[str]:
    """By which other rules the weights behind a row were chosen, and of which tasks where not of all."""
    usual, tasks = usual_selection(table), [task for task, _ in row.selection]
    notes = []
    for rule in dict.fromkeys(rule for rule in row.selection.values() if rule != usual):
        of_rule = [
            task if tasks.count(task) == 1 else f"{task} {setting}"
            for (task, setting), own in row.selection.items()
            if own == rule
        ]
        words = "Selected" if len(of_rule) == len(tasks) else f"{', '.join(of_rule)}: selected"
        notes.append(f"{words} on {SELECTED_ON[rule]}.")
    return notes


def row_notes(row: Row, table: Table) -> list[str]:
    """What must be known of a row's reproduced numbers."""
    notes = unusual_selections(row, table)
    if row.canonical != row.run:
        notes.append(
            f"At this scale {row.run} is {row.canonical}: data, model, objectives and schedule are equal, "
            "so both show the same scores."
        )
    return notes + chosen_layers(row) + lacking_seeds(row, table) + seeds_that_learnt_nothing(row)


def chosen_layers(row: Row) -> list[str]:
    """At which layer a row retrieves, where pairs chose it for each seed."""
    notes = []
    for (task, setting), layer_of in row.layers.items():
        seeds_of: dict[int, list[str]] = {}
        for seed, layer in sorted(layer_of.items()):
            seeds_of.setdefault(layer, []).append(str(seed))
        words = [
            f"layer {layer} of seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
            for layer, seeds in sorted(seeds_of.items())
        ]
        layers = "; ".join(words) if len(seeds_of) > 1 else f"layer {next(iter(seeds_of))}"
        notes.append(f"{task} {setting}: {layers}, chosen on pairs of training text.")
    return notes


def seeds_that_learnt_nothing(row: Row) -> list[str]:
    """A mean hides a seed that diverged in fine-tuning, so each is named; it counts all the same."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for (task, setting), seeds in row.at_chance.items():
        by_seeds.setdefault(seeds, []).append(f"{task} {setting}")
    return [
        f"{', '.join(dict.fromkeys(names))}: seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))} no "
        "better than chance after fine-tuning (diverged, or nothing learnt), and counted."
        for seeds, names in by_seeds.items()
    ]


def lacking_seeds(row: Row, table: Table) -> list[str]:
    """Which seeds stand behind none of a row's numbers, by task where they differ. Training that diverges stops, so its
    seed has no score."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for (task, _), seeds in row.lacking.items():
        by_seeds.setdefault(seeds, []).append(task)
    notes = []
    for seeds, tasks in by_seeds.items():
        named = "" if set(tasks) == tasks_of(table) else f"{', '.join(dict.fromkeys(tasks))}: "
        without = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        notes.append(
            f"{named}{row.expected_seeds - len(seeds)} of {row.expected_seeds} seeds have a score; {without}: not run, "
            "or training diverged."
        )
    return notes


def tasks_of(table: Table) -> set[str]:
    """The tasks behind the columns; an average over tasks is none itself."""
    return {part.task for column in table.columns for part in sum(column.parts, ()) or (column,)}


def run_label(row: Row, notes: Notes, table: Table) -> str:
    marks = "".join(notes.mark(text) for text in row_notes(row, table))
    return latex.code(row.run) + marks


def seeds_label(row: Row) -> str:
    if not row.seeds:
        return ""
    return f", $n={row.seeds[0]}$" if len(row.seeds) == 1 else f", $n={row.seeds[0]}$--${row.seeds[-1]}$"


def model_label(row: Row, notes: Notes) -> str:
    text = latex.escape(row.label)
    for erratum in row.errata:
        text += notes.mark(f"Shown as printed; {erratum}.")
    return text


def needs_separator(group: Group, index: int) -> bool:
    """Does the first row that only we have stand here, below rows of the paper?"""
    row = group.rows[index]
    return row.model is None and index > 0 and group.rows[index - 1].model is not None


def plain_heading(column: Column) -> str:
    """A code, `Avg` or `Gap ↓`: the arrow says that less is better."""
    words = {AVERAGE: "Avg", OTHERS: "Others", GAP: "Gap"}.get(column.language, column.language)
    return f"{words} ↓" if column.less_is_better else words


def heading(column: Column) -> str:
    return latex.escape(plain_heading(column))


def plain_title(column: Column) -> str:
    return column.heading or column.task


def column_title(column: Column) -> str:
    return latex.escape(plain_title(column))


def spans_of(columns: list[Column]) -> list[list[Column]]:
    """Neighbours that share a title: XNLI over en, Avg."""
    spans: list[list[Column]] = []
    for column in columns:
        if spans and (spans[-1][0].task, spans[-1][0].heading) == (column.task, column.heading):
            spans[-1].append(column)
        else:
            spans.append([column])
    return spans


def only_averages(spans: list[list[Column]]) -> bool:
    """Is every column the average (or the gap) of another task, so that the titles say everything?"""
    return all(len(span) == 1 and span[0].is_derived for span in spans) and (
        len({span[0].language for span in spans}) == 1
    )


def only_one_language(spans: list[list[Column]]) -> bool:
    """Does every title stand for one column, of the one language that its task has here?"""
    return all(len(span) == 1 and span[0].languages == (span[0].language,) for span in spans)


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


def chance_words(value: float | None) -> str:
    return MISSING if value is None else number(value)


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


def partial_words(column: Column, partial: tuple[str, ...]) -> str:
    if column.parts:
        return "Mean over the tasks, each over the languages of this scale, not over those of the published average."
    what = "Gap" if column.language == GAP else "Mean"
    return (
        f"{what} over the {len(partial)} languages of this scale ({', '.join(partial)}), "
        f"not over those of the published {'gap' if column.language == GAP else 'average'}."
    )


def language_notes(table: Table) -> list[tuple[bool, str]]:
    """Over which languages the averages of this scale are taken; True where a star in the table leads to the note."""
    of_words: dict[str, list[str]] = {}
    for index, column in enumerate(table.columns):
        for partial in sorted({row.cells[index].partial for row in table.rows if row.cells[index].partial}):
            titles = of_words.setdefault(partial_words(column, partial), [])
            titles += [plain_title(column)] if plain_title(column) not in titles else []
    notes = []
    for words, titles in of_words.items():
        named = f"{', '.join(titles)}: " if len(of_words) > 1 else ""
        notes.append((True, f"{named}{words}"))
    by_languages: dict[tuple[str, ...], list[str]] = {}
    for column in table.columns:
        if column.of_scale and column.is_derived and column.languages:
            titles = by_languages.setdefault(column.languages, [])
            titles += [plain_title(column)] if plain_title(column) not in titles else []
    averages = {column.language for column in table.columns if column.of_scale}
    what = " and ".join(name for key, name in ((AVERAGE, "Avg"), (OTHERS, "Others"), (GAP, "Gap")) if key in averages)
    for languages, titles in by_languages.items():
        notes.append((False, f"{what} of {', '.join(titles)}: over {', '.join(languages)}."))
    return notes


def meaning_notes(table: Table) -> list[str]:
    """What the derived columns are, and where less is better."""
    notes = []
    if any(column.language == GAP for column in table.columns):
        notes.append("Gap: English minus the mean of the other languages.")
    for column in table.columns:
        if not column.parts:
            continue
        of = "gaps" if column.language == GAP else "averages over languages"
        words = f"{column.heading}: unweighted mean over {len(column.parts)} tasks of their {of}"
        if doubled := [parts[0].task for parts in column.parts if len(parts) > 1]:
            words += f", of {', '.join(doubled)} the mean of F1 and exact match"
        notes.append(f"{words}; only where every task has a score.")
    directions: dict[str, dict[str, None]] = {}
    behind = [part for column in table.columns for parts in column.parts for part in parts]
    for column in [*table.columns, *behind]:
        if column.direction:
            directions.setdefault(column.direction, {})[column.heading or column.task] = None
    notes += [f"{'; '.join(titles)}: {DIRECTION_WORDS[direction]}." for direction, titles in directions.items()]
    notes += reach_words(table)
    if any(column.less_is_better for column in table.columns):
        notes.append("↓: less is better.")
    return notes


def reach_words(table: Table) -> list[str]:
    return [
        f"{column.heading}: the first snapshot that scores at least {level(column)} on validation data, greedily, "
        f"where {column.reaches} ends on average over seeds; >N: no seed gets there in N updates."
        for column in table.columns
        if column.reaches
    ]


def level(column: Column) -> str:
    return "as much" if column.target is None else f"{column.target:.1f}"


DIRECTION_WORDS = {
    "en-xx": "English sentences look for those of the other language",
    "xx-en": "sentences of the other language look for English ones",
    "both": "mean of both directions",
}


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


def columns_of(table: Table, begin: int, end: int) -> Table:
    groups = [
        Group(
            group.title,
            group.settings[begin:end],
            [replace(row, cells=row.cells[begin:end]) for row in group.rows],
        )
        for group in table.groups
    ]
    return replace(table, columns=table.columns[begin:end], chance=table.chance[begin:end], groups=groups)


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
    below.append(rf"{MISSING}: no number; the appendix says why." if any_missing(table) else "")
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


def any_missing(table: Table) -> bool:
    return any(
        (row.run is not None and cell.summary is None and cell.beyond is None)
        or (row.model is not None and cell.published is None)
        for row in table.rows
        for cell in row.cells
    )


# --- CSV and Markdown -----------------------------------------------------------------------------------------------


def difference(cell: Cell, table: Table) -> float | None:
    """Reproduced minus published, where they are of the same languages of real data."""
    if cell.summary is None or cell.published is None or cell.partial or table.context.world:
        return None
    return cell.summary.mean - float(cell.published)


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
    buffer = io.StringIO()
    rows = tidy_rows(table)
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def plain(summary: Summary | None, decimals: int = 1) -> str:
    """`61.3 ± 0.4 (3)`."""
    if summary is None:
        return MISSING
    deviation = "" if summary.std is None else f" ± {summary.std:.{decimals}f}"
    return f"{round(summary.mean, decimals) + 0.0:.{decimals}f}{deviation} ({summary.n})"


def plain_cell(cell: Cell, column: Column, notes: Notes) -> str:
    if cell.beyond is not None:
        return f">{cell.beyond}"
    mark = f"<sup>{notes.letter(f'{cell.reason}.')}</sup>" if cell.told else ""
    return plain(cell.summary, column.decimals) + ("*" if cell.partial else "") + mark


def render_markdown(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |"

    titles = [
        f"{column.heading} {column.language}{' ↓' if column.less_is_better else ''}".strip() for column in table.columns
    ]
    words = [f"**{item_name(table.spec, table.context)}.** {table.spec['title']}.", scale_words(table.context)]
    lines = [" ".join(words), "", line(["model", "source", *titles]), line(["---"] * (2 + len(titles)))]
    starred, notes = set(), Notes()
    for group in table.groups:
        lines.append(line([f"**{group.title}**", *[""] * (1 + len(titles))]))
        for row in group.rows:
            if row.model is not None:
                lines.append(line([row.label, "published", *(cell.published or MISSING for cell in row.cells)]))
            if row.run is not None:
                cells = [plain_cell(cell, column, notes) for cell, column in zip(row.cells, table.columns, strict=True)]
                marks = "".join(f"<sup>{notes.letter(text)}</sup>" for text in row_notes(row, table))
                lines.append(line([row.label, f"`{row.canonical}`{marks}", *cells]))
                starred |= {cell.partial for cell in row.cells if cell.partial}
    chance = [MISSING if value is None else f"{value:.1f}" for value in table.chance]
    lines.append(line(["chance", "", *chance]))
    lines += [f"\n\\* mean over the languages of this scale: {', '.join(languages)}" for languages in sorted(starred)]
    lines += [f"\n{text}" for text in [*reach_words(table), selection_words(table)] if text]
    lines += [f"\n<sup>{letter}</sup> {text}" for text, letter in notes.letters.items()]
    return "\n".join(lines) + "\n"


# --- HTML -----------------------------------------------------------------------------------------------------------


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
    return {row["code"]: row["name"] for row in read_rows(root / "config/languages.tsv", "\t")}


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
            html_cell(cell, column, page, footnotes) for cell, column in zip(row.cells, table.columns, strict=True)
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


def html_cell(cell: Cell, column: Column, page: Path, footnotes: Footnotes) -> HtmlCell:
    """`62.0 ± 2.0 (3)`: mean, deviation, number of seeds; the number leads to the first file that it rests on."""
    if cell.summary is None:
        shown = MISSING if cell.beyond is None else f"&gt;{cell.beyond}"
        mark = footnotes.mark(f"{cell.reason}.") if cell.told else ""
        return HtmlCell(shown + mark, kind=kind_of("ours", cell.beyond))
    words, n = plain(cell.summary, column.decimals).rsplit(" ", 1)
    words = f"<strong>{words}</strong>" if cell.best else words
    star = f"<sup>{STAR}</sup>" if cell.partial else ""
    of_seeds = ", ".join(f"seed {seed}: {value:.{column.decimals + 1}f}" for seed, value in cell.values.items())
    more = f"; the first of {len(cell.files)} score files" if len(cell.files) > 1 else ""
    leading = link(words, relative(cell.files[0], page), f"{of_seeds}{more}") if cell.files else words
    return HtmlCell(f"{leading}{star} {n}", kind=kind_of("ours", cell))


def html_chance(table: Table) -> HtmlBody:
    cells = [HtmlCell(MISSING if value is None else f"{value:.1f}", kind="number") for value in table.chance]
    return HtmlBody("", [[HtmlCell(CHANCE, "row", columns=2), *cells]])


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


def missing_notes(table: Table) -> list[str]:
    """Why reproduced numbers are missing: whole rows, then columns, of one reason together."""
    rows: dict[str, dict[str, None]] = {}
    columns: dict[str, dict[str, None]] = {}
    for row in (row for row in table.rows if row.run is not None):
        reasons = [cell.reason for cell in row.cells if cell.summary is None and cell.beyond is None and not cell.told]
        if len(reasons) == len(row.cells) and len(set(reasons)) == 1:
            rows.setdefault(reasons[0], {})[f"{row.label} ({row.run})"] = None
            continue
        for cell, column in zip(row.cells, table.columns, strict=True):
            if cell.summary is None and cell.beyond is None and not cell.told:
                name = " ".join(dict.fromkeys([plain_title(column), plain_heading(column)]))
                columns.setdefault(cell.reason, {})[name] = None
    return [f"{'; '.join(names)}: {reason}." for of in (rows, columns) for reason, names in of.items()]


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


RENDER = {"latex": render_latex, "csv": render_csv, "markdown": render_markdown, "html": render_html}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", required=True, type=Path, help="config/tables/<paper>/<item>.yaml")
    add_context_arguments(parser)
    parser.add_argument("--format", choices=sorted(RENDER), default="latex", help="default: %(default)s")
    parser.add_argument("--out", required=True, type=Path, help="file to write")
    args = parser.parse_args()
    context, _, _ = load_context(args.config, args.scale, args.scores_root, args.override)
    table = build(load_spec(args.spec), context)
    write_text(args.out, render_html(table, args.out) if args.format == "html" else RENDER[args.format](table))


if __name__ == "__main__":
    run_main(main)
