"""Write results/tables/all.tex: every table and figure in one document, and an appendix of what has no number and why.

The document reads the tables and figures by relative path, so it compiles where it lies:
cd results/tables && pdflatex all.tex && pdflatex all.tex
"""

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from common.atomic import write_text
from common.csvfiles import read_rows
from common.errors import UserError, run_main
from report import comparisons, latex
from report.context import (
    Context,
    add_context_arguments,
    citations,
    expected_scores,
    item_name,
    label,
    load_context,
    scale_words,
)
from report.figures import missing_lines
from report.scores import group_paths
from report.table_spec import AVERAGE, GAP, OTHERS, item_key, paper_names
from report.tables import Table, build

SUMMARY = "parallax/summary"  # opens the document
SECTIONS = (
    ("Claims", "what the papers claim, tried on the scores"),
    ("Audit", "what follows from the papers' own numbers, computed again"),
)
Sections = list[tuple[str, str, Path]]  # title, what it shows, file


class Items(NamedTuple):
    tables: list[tuple[dict, Table | None]]  # None: a comparison, which rests on no score of its own
    figures: list[dict]


PREAMBLE = r"""\documentclass[10pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usepackage{textcomp}
\usepackage[a4paper,margin=17mm]{geometry}
\usepackage{amsmath}
\usepackage{graphicx}
\usepackage{booktabs}
\usepackage{longtable}
\usepackage{array}
\usepackage[table]{xcolor}
\usepackage{pdflscape}
\usepackage{caption}
\usepackage{hyperref}
\hypersetup{hidelinks,pdftitle={Parallax: published and reproduced},pdfcreator={},pdfproducer={}}
% the same text gives the same file: no dates, no random identifier
\ifdefined\pdfinfoomitdate\pdfinfoomitdate=1\fi
\ifdefined\pdfsuppressptexinfo\pdfsuppressptexinfo=-1\fi
\ifdefined\pdftrailerid\pdftrailerid{}\fi
\captionsetup{labelformat=empty,font=small,justification=raggedright,singlelinecheck=false,skip=4pt}
\setlength{\LTleft}{0pt}\setlength{\LTright}{0pt plus 1fill}
\setlength{\LTpre}{4pt}\setlength{\LTpost}{6pt}
\setcounter{LTchunksize}{500} % whole tables at once: the column widths are right after one run
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt plus 1pt}
\emergencystretch=2em
"""


def relative(path: Path, out: Path) -> str:
    """How `out` names `path`: with forward slashes, from the folder of `out`."""
    return Path(os.path.relpath(path, out.parent)).as_posix()


# --- missing cells --------------------------------------------------------------------------------------------------


def missing_cells(table: Table) -> list[tuple[str, str, str, str]]:
    """Every cell without a reproduced number: (block, row, cells, reason), cells of one reason together."""
    rows = []
    for group in table.groups:
        for row in group.rows:
            by_reason: dict[str, list[str]] = {}
            for column, cell in zip(table.columns, row.cells, strict=True):
                name = f"{column.heading} {column.language}".strip()
                if cell.summary is None:
                    by_reason.setdefault(cell.reason, []).append(name)
                elif cell.partial:
                    left_out = [code for code in column.languages if code not in cell.partial]
                    reason = f"mean without {', '.join(left_out)}: not evaluated at scale {table.context.scale}"
                    shown = {c.language for c in table.columns if (c.task, c.metric) == (column.task, column.metric)}
                    if left_out and not set(left_out) <= shown:  # else they are listed themselves
                        by_reason.setdefault(reason, []).append(name)
            for reason, cells in by_reason.items():
                whole = len(cells) == len(table.columns) and len(cells) > 1
                name = f"{row.label} ({row.run})" if row.run else row.label
                rows.append((group.title, name, "all" if whole else ", ".join(cells), reason))
    return rows


def list_missing(items: Items, context: Context) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Item -> what it lacks."""
    of_tables = (
        (spec, missing_cells(table) if table else comparisons.missing_cells(spec, context))
        for spec, table in items.tables
    )
    of_figures = ((spec, missing_lines(spec, context)) for spec in items.figures)
    return [(item_name(spec, context), rows) for spec, rows in (*of_tables, *of_figures)]


Missing = tuple[str, str, str, str]  # block, row, cells, reason
RUN_OF_ROW = re.compile(r"\(([a-z0-9][a-z0-9.-]*)\)$")  # ends a row's name


def by_run(listed: list[tuple[str, list[Missing]]]) -> dict[str, dict[str, list[str]]]:
    """Run -> reason -> what lacks it for that: an item, or some cells of it. Rows without a run stand under "" with
    their names."""
    found: dict[str, dict[str, dict[str, dict[str, None]]]] = {}
    for item, rows in listed:
        for _, row, cells, reason in rows:
            match = RUN_OF_ROW.search(row)
            run = match[1] if match else ""
            words = cells if match else f"{row}" + ("" if cells == "all" else f" ({cells})")
            found.setdefault(run, {}).setdefault(reason, {}).setdefault(item, {})[words] = None
    return {
        run: {reason: [item_words(item, list(cells)) for item, cells in items.items()] for reason, items in of.items()}
        for run, of in sorted(found.items(), key=lambda pair: (not pair[0], pair[0]))
    }


def item_words(item: str, cells: list[str]) -> str:
    return item if "all" in cells else f"{item}: {', '.join(dict.fromkeys(', '.join(cells).split(', ')))}"


def render_missing(listed: list[tuple[str, list[Missing]]]) -> str:
    """The appendix page: of each run the reasons, and the items and cells that lack a number for it."""
    lines = ["% written by make_document.py"]
    if not any(rows for _, rows in listed):
        return "\n".join([*lines, "Every cell of every item has a number.", ""])
    lines += [
        "An item alone lacks all numbers of a row; else the cells are named.",
        r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}",
        r"\begin{longtable}{@{}>{\raggedright\arraybackslash}p{0.34\linewidth}"
        r">{\raggedright\arraybackslash}p{0.62\linewidth}@{}}",
        r"\toprule",
        r"Why there is no number & Items and cells \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
    ]
    for run, of_reason in by_run(listed).items():
        name = rf"Run {latex.code(run)}" if run else "Rows without a run"
        lines.append(rf"\addlinespace[3pt]\multicolumn{{2}}{{@{{}}l}}{{\bfseries {name}}} \\*")
        for reason, items in of_reason.items():
            lines.append(f"{latex.escape(reason)} & {latex.escape('; '.join(items))}" + r" \\")
    lines += [r"\end{longtable}", r"\endgroup", ""]
    return "\n".join(lines)


# --- the front page -------------------------------------------------------------------------------------------------


def describe_runs(tables: Iterable[Table]) -> list[tuple[str, str]]:
    """Run -> its other names at this scale, for all runs with scores."""
    others: dict[str, set[str]] = {}
    for table in tables:
        for row in table.rows:
            if row.seeds and row.run not in table.context.borrowed:
                others.setdefault(row.canonical, set()).add(row.run)
    return [(run, ", ".join(sorted(names - {run}))) for run, names in sorted(others.items())]


def seeds_found(context: Context, specs: Iterable[dict]) -> tuple[list[int], int]:
    """Seeds that have a score file, and how many score files there are."""
    files = sorted({path for spec in specs for path in expected_scores(spec, context) if path.exists()})
    seeds = {seed for by_seed in group_paths(files).values() for seed in by_seed}
    return sorted(seeds), len(files)


def language_legend(context: Context, tables: Iterable[Table]) -> str:
    """`ar Arabic, bg Bulgarian, ...` of every code that a table shows."""
    names = {row["code"]: row["name"] for row in read_rows(context.root / "config/languages.tsv")}
    used = {code for table in tables for column in table.columns for code in (*column.languages, column.language)}
    used -= {AVERAGE, OTHERS, GAP}
    for code in sorted(used - set(names)):
        raise UserError(f"config/languages.tsv: no line for language {code!r}, which a table shows; add one")
    return ", ".join(rf"\texttt{{{code}}}~{latex.escape(names[code])}" for code in sorted(used))


def render_front(context: Context, description: str, items: Items, sections: Sections) -> str:
    tables = [table for _, table in items.tables if table]
    specs = [*(spec for spec, _ in items.tables), *items.figures]
    seeds, files = seeds_found(context, specs)
    runs = describe_runs(tables)
    borrowed = sorted({row.run for table in tables for row in table.rows if row.seeds} & context.borrowed)
    run_words = ", ".join(
        latex.code(run) + (f" (also as {latex.escape(names)})" if names else "") for run, names in runs
    )
    facts = [
        ("Scale", rf"\texttt{{{latex.escape(context.scale)}}}: {latex.escape(description)}"),
        ("Data", "the generated mini-world" if context.world else "real corpora and evaluation sets"),
        ("Seeds", ", ".join(map(str, seeds)) or "none yet"),
        ("Runs", run_words or "none yet"),
        *([("From reference/", ", ".join(map(latex.code, borrowed)))] if borrowed else []),
        ("Score files", str(files)),
    ]
    lines = [
        r"\begin{center}",
        r"{\LARGE\bfseries Parallax}\\[3pt]",
        r"{\large Cross-lingual pre-training: published and reproduced numbers}",
        r"\end{center}",
        r"\medskip",
        r"\begin{tabular}{@{}l>{\raggedright\arraybackslash}p{0.8\linewidth}@{}}",
        r"\toprule",
        *(rf"{name} & {text} \\" for name, text in facts),
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\medskip",
        rf"\textbf{{How to read it.}} {latex.escape(scale_words(context))}",
        r"Every table keeps the rows and columns of the "
        r"paper's. \emph{Published} numbers are copied as printed; errors of the papers are marked, not mended. "
        r"\emph{Reproduced} numbers are means over seeds with the sample standard deviation; the number of seeds, n, "
        r"stands in the line's name or in brackets. Averages over languages are unweighted means of unrounded values. "
        r"A cell without a number prints --; the appendix says why. It is never a zero and never a guess.",
        "",
        *([rf"\textbf{{Languages.}} {language_legend(context, tables)}."] if tables else []),
        "",
        r"\medskip",
        r"\begin{longtable}{@{}l>{\raggedright\arraybackslash}p{0.62\linewidth}r@{}}",
        r"\toprule",
        r"Item & Shows & Page \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
        *(
            rf"{latex.escape(item_name(spec, context))} & {latex.escape(spec['title'])} & \pageref{{{label(spec)}}} \\"
            for spec in specs
        ),
        *(rf"{title} & {about} & \pageref{{section:{title}}} \\" for title, about, _ in sections),
        r"\end{longtable}",
        "",
        r"\medskip",
    ]
    return "\n".join(lines)


def render_document(
    context: Context,
    description: str,
    items: Items,
    sections: Sections,
    out: Path,
    tables_root: Path,
    figures_root: Path,
    missing: Path,
) -> str:
    """The whole document. Items of one paper stand together; the summary opens it."""
    names = paper_names(context.root)
    lines = ["% written by make_document.py; compile with pdflatex in this folder", PREAMBLE, r"\begin{document}"]
    lines.append(render_front(context, description, items, sections))
    summary = [spec for spec, _ in items.tables if item_key(spec) == SUMMARY]
    for spec in summary:
        lines += ["", r"\clearpage", rf"\input{{{relative(tables_root / item_key(spec), out)}}}"]
    papers: dict[str, list[tuple[str, dict]]] = {}
    for spec, _ in items.tables:
        if item_key(spec) != SUMMARY:
            papers.setdefault(spec["paper"], []).append(("table", spec))
    for spec in items.figures:
        papers.setdefault(spec["paper"], []).append(("figure", spec))
    for paper, of_paper in papers.items():
        heading = rf"{{\Large\bfseries {latex.escape(names[paper])}\par}}"
        if citation := citations(context).get(paper):
            heading += rf"{{\small {latex.escape(citation)}.\par}}"
        heading += r"\vspace{4pt}"
        lines += ["", r"\clearpage", rf"\def\itemheading{{{heading}}}"]
        for kind, spec in of_paper:
            if kind == "table":
                # a table's caption would stand right below the notes of the one before
                lines += [r"\bigskip", rf"\input{{{relative(tables_root / item_key(spec), out)}}}"]
            else:
                lines.append(r"\ifdefined\itemheading\itemheading\global\let\itemheading\undefined\fi")
                lines += figure_lines(spec, context, relative(figures_root / f"{item_key(spec)}.pdf", out))
    for title, _, path in sections:
        lines += ["", r"\clearpage", rf"\phantomsection\label{{section:{title}}}"]
        lines.append(rf"\input{{{relative(path.with_suffix(''), out)}}}")
    lines += [
        "",
        r"\clearpage",
        r"\section*{Appendix: cells without a reproduced number}",
        rf"\input{{{relative(missing.with_suffix(''), out)}}}",
        r"\end{document}",
        "",
    ]
    return "\n".join(lines)


# What a figure shows, by the key of its spec: of the engine, or of scores.
DRAWN = {
    "masks": "A row's token sees the columns that are filled. Drawn from the predicates that training uses.",
    "simulation": "Simulated, with no score of any model.",
    "effects": "From the table of claims.",
    "diagram": "Drawn from the engine: the rows that its data forms build, and what the objective does with them.",
}
PLOTTED = {
    "bars": "Filled bars: reproduced, with one standard deviation over seeds. Hollow: published.",
    "points": "Points: single pre-trainings; strokes: their mean.",
    "cost": "Filled markers: reproduced, with one standard deviation over seeds. Hollow markers: published.",
    "training": "Lines: mean over seeds; band: one standard deviation.",
}
CURVES = "Lines: reproduced; band: one standard deviation over seeds. Hollow markers: published."


def figure_lines(spec: dict, context: Context, path: str) -> list[str]:
    name = item_name(spec, context)
    drawn = next((words for kind, words in DRAWN.items() if kind in spec), None)
    words = drawn or f"{next((said for kind, said in PLOTTED.items() if kind in spec), CURVES)} {scale_words(context)}"
    return [
        r"\begin{figure}[!ht]\centering",
        rf"\includegraphics[width=0.92\linewidth]{{{path}}}",
        rf"\caption{{\textbf{{{latex.escape(name)}.}} {latex.escape(spec['title'])}. {latex.escape(words)}}}",
        rf"\label{{{label(spec)}}}",
        # within the figure, which may float away from here
        *(rf"\par\raggedright\footnotesize {latex.escape(text)}\par" for text in spec.get("notes", [])),
        r"\end{figure}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_context_arguments(parser)
    parser.add_argument(
        "--specs", nargs="+", type=Path, help="the items to show; default: those that the configuration selects"
    )
    parser.add_argument("--tables", default=Path("results/tables"), type=Path, help="default: %(default)s")
    parser.add_argument("--figures", default=Path("results/figures"), type=Path, help="default: %(default)s")
    parser.add_argument("--out", required=True, type=Path, help="the document: results/tables/all.tex")
    parser.add_argument("--missing", required=True, type=Path, help="its appendix: results/tables/missing.tex")
    parser.add_argument("--claims", type=Path, help="results/tables/claims.tex, as a section of its own")
    parser.add_argument("--audit", type=Path, help="results/tables/audit.tex, as a section of its own")
    args = parser.parse_args()
    context, table_specs, figure_specs = load_context(args.config, args.scale, args.scores_root, args.override)
    if args.specs:
        wanted = {f"{path.parent.name}/{path.stem}" for path in args.specs}
        for name in sorted(wanted - {*table_specs, *figure_specs}):
            raise UserError(
                f"--specs: {name} is no table or figure that {args.config} selects; mend 'papers' or 'items'"
            )
        table_specs = {name: spec for name, spec in table_specs.items() if name in wanted}
        figure_specs = {name: spec for name, spec in figure_specs.items() if name in wanted}
    ordered = sorted(table_specs.values(), key=lambda spec: (item_key(spec) != SUMMARY, item_key(spec)))
    items = Items(
        [(spec, None if "compare" in spec else build(spec, context)) for spec in ordered],
        [spec for _, spec in sorted(figure_specs.items())],
    )
    sections = [(*about, path) for about, path in zip(SECTIONS, (args.claims, args.audit), strict=True) if path]
    write_text(args.missing, render_missing(list_missing(items, context)))
    document = render_document(
        context, context.description, items, sections, args.out, args.tables, args.figures, args.missing
    )
    write_text(args.out, document)


if __name__ == "__main__":
    run_main(main)
