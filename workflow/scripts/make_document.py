"""Write results/tables/all.tex: every table and figure in one document, and an appendix of what has no number and why.

The document reads the tables and figures by relative path, so it compiles where it lies:
cd results/tables && pdflatex all.tex && pdflatex all.tex
"""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

import latex
from atomic import write_text
from errors import UserError, run_main
from scores import group_paths
from tables import (
    AVERAGE,
    GAP,
    Context,
    Table,
    add_context_arguments,
    build,
    citations,
    column_setting,
    item_name,
    label,
    load_context,
    no_file,
    paper_names,
    read_rows,
    scale_words,
    why_missing,
)

SUMMARY = "parallax/summary"  # opens the document

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


def missing_curves(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """The same for a figure: rows without a curve."""
    rows = []
    for group in spec.get("groups", []):
        for row in group["rows"]:
            for column in spec["columns"]:
                reason = why_missing(row, column["task"], column_setting(column, group), context)
                if reason is None and not any(path.exists() for path in expected_of(spec, context, row["run"])):
                    reason = no_file(context)
                if reason:
                    name = f"{row['label']} ({row['run']})" if row.get("run") else row["label"]
                    rows.append((group["title"], name, "curve", reason))
    return rows


def expected_of(spec: dict, context: Context, run: str) -> list[Path]:
    """The score files of one run of a spec: <run>/<task>/<setting>/seed-<seed>.json."""
    return [path for path in context.expected(spec) if path.parts[-4] == context.canonical(run, path.parts[-3])]


def fold(rows: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """Rows of a block that lack the same cells for the same reason as one line, where the first of them stands."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for block, row, cells, reason in rows:
        names.setdefault((block, cells, reason), []).append(row)
    blocks = list(dict.fromkeys(block for block, *_ in rows))
    folded = [(block, "; ".join(of), cells, reason) for (block, cells, reason), of in names.items()]
    return sorted(folded, key=lambda line: blocks.index(line[0]))


def render_missing(listed: list[tuple[str, list[tuple[str, str, str, str]]]]) -> str:
    """The appendix page: a long table of item, row, cells and reason."""
    lines = ["% written by make_document.py"]
    if not any(rows for _, rows in listed):
        return "\n".join([*lines, "Every cell of every item has a number.", ""])
    lines += [
        r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}",
        r"\begin{longtable}{@{}>{\raggedright\arraybackslash}p{0.34\linewidth}"
        r">{\raggedright\arraybackslash}p{0.24\linewidth}>{\raggedright\arraybackslash}p{0.36\linewidth}@{}}",
        r"\toprule",
        r"Row (run) & Cells & Why there is no number \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
    ]
    first = True
    for name, rows in listed:
        if not rows:
            continue
        block = None
        for title, row, cells, reason in fold(rows):
            if title != block:
                lines.append("" if first else r"\addlinespace[3pt]")
                words = rf"\textbf{{{latex.escape(name)}.}} {latex.escape(title)}"
                lines.append(rf"\multicolumn{{3}}{{@{{}}p{{\linewidth}}@{{}}}}{{\raggedright {words}}} \\*")
                block, first = title, False
            lines.append(" & ".join(latex.escape(text) for text in (row, cells, reason)) + r" \\")
    lines += [r"\end{longtable}", r"\endgroup", ""]
    return "\n".join(lines)


# --- the front page -------------------------------------------------------------------------------------------------


def describe_runs(tables: Iterable[tuple[dict, Table]]) -> list[tuple[str, str]]:
    """Run -> its other names at this scale, for all runs with scores."""
    others: dict[str, set[str]] = {}
    for _, table in tables:
        for row in table.rows:
            if row.seeds:
                others.setdefault(row.canonical, set()).add(row.run)
    return [(run, ", ".join(sorted(names - {run}))) for run, names in sorted(others.items())]


def seeds_found(context: Context, specs: Iterable[dict]) -> tuple[list[int], int]:
    """Seeds that have a score file, and how many score files there are."""
    files = sorted({path for spec in specs for path in context.expected(spec) if path.exists()})
    seeds = {seed for by_seed in group_paths(files).values() for seed in by_seed}
    return sorted(seeds), len(files)


def language_legend(context: Context, tables: Iterable[tuple[dict, Table]]) -> str:
    """`ar Arabic, bg Bulgarian, ...` of every code that a table shows."""
    names = {row["code"]: row["name"] for row in read_rows(context.root / "config/languages.tsv", "\t")}
    used = {code for _, table in tables for column in table.columns for code in (*column.languages, column.language)}
    used -= {AVERAGE, GAP}
    for code in sorted(used - set(names)):
        raise UserError(f"config/languages.tsv: no line for language {code!r}, which a table shows; add one")
    return ", ".join(rf"\texttt{{{code}}}~{latex.escape(names[code])}" for code in sorted(used))


def render_front(context: Context, description: str, tables: list[tuple[dict, Table]], figures: list[dict]) -> str:
    seeds, files = seeds_found(context, [spec for spec, _ in tables] + figures)
    runs = describe_runs(tables)
    run_words = ", ".join(
        latex.code(run) + (f" (also as {latex.escape(names)})" if names else "") for run, names in runs
    )
    facts = [
        ("Scale", rf"\texttt{{{latex.escape(context.scale)}}}: {latex.escape(description)}"),
        ("Data", "the generated mini-world" if context.world else "real corpora and evaluation sets"),
        ("Seeds", ", ".join(map(str, seeds)) or "none yet"),
        ("Runs", run_words or "none yet"),
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
        rf"\textbf{{Languages.}} {language_legend(context, tables)}.",
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
            for spec in [spec for spec, _ in tables] + figures
        ),
        r"\end{longtable}",
        "",
        r"\medskip",
    ]
    return "\n".join(lines)


def render_document(
    context: Context,
    description: str,
    tables: list[tuple[dict, Table]],
    figures: list[dict],
    out: Path,
    tables_root: Path,
    figures_root: Path,
    missing: Path,
) -> str:
    """The whole document. Items of one paper stand together; the summary opens it."""
    names = paper_names(context.root)
    lines = ["% written by make_document.py; compile with pdflatex in this folder", PREAMBLE, r"\begin{document}"]
    lines.append(render_front(context, description, tables, figures))
    summary = [spec for spec, _ in tables if key(spec) == SUMMARY]
    for spec in summary:
        lines += ["", rf"\input{{{relative(tables_root / key(spec), out)}}}"]
    papers: dict[str, list[tuple[str, dict]]] = {}
    for spec, _ in tables:
        if key(spec) != SUMMARY:
            papers.setdefault(spec["paper"], []).append(("table", spec))
    for spec in figures:
        papers.setdefault(spec["paper"], []).append(("figure", spec))
    for paper, items in papers.items():
        heading = rf"{{\Large\bfseries {latex.escape(names[paper])}\par}}"
        if citation := citations(context).get(paper):
            heading += rf"{{\small {latex.escape(citation)}.\par}}"
        heading += r"\vspace{4pt}"
        lines += ["", r"\clearpage", rf"\def\itemheading{{{heading}}}"]
        for kind, spec in items:
            if kind == "table":
                lines.append(rf"\input{{{relative(tables_root / key(spec), out)}}}")
            else:
                lines.append(r"\ifdefined\itemheading\itemheading\global\let\itemheading\undefined\fi")
                lines += figure_lines(spec, context, relative(figures_root / f"{key(spec)}.pdf", out))
    lines += [
        "",
        r"\clearpage",
        r"\section*{Appendix: cells without a reproduced number}",
        rf"\input{{{relative(missing.with_suffix(''), out)}}}",
        r"\end{document}",
        "",
    ]
    return "\n".join(lines)


def figure_lines(spec: dict, context: Context, path: str) -> list[str]:
    name = item_name(spec, context)
    if "masks" in spec:
        words = "A row's token sees the columns that are filled. Drawn from the predicates that training uses."
    else:
        words = (
            "Lines: reproduced; band: one standard deviation over seeds. Hollow markers: published. "
            f"{scale_words(context)}"
        )
    return [
        r"\begin{figure}[!ht]\centering",
        rf"\includegraphics[width=0.92\linewidth]{{{path}}}",
        rf"\caption{{\textbf{{{latex.escape(name)}.}} {latex.escape(spec['title'])}. {latex.escape(words)}}}",
        rf"\label{{{label(spec)}}}",
        r"\end{figure}",
        *(latex.escape(text) + r"\par" for text in spec.get("notes", [])),
    ]


def key(spec: dict) -> str:
    return f"{spec['paper']}/{spec['item']}"


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
    ordered = sorted(table_specs.values(), key=lambda spec: (key(spec) != SUMMARY, key(spec)))
    tables = [(spec, build(spec, context)) for spec in ordered]
    figures = [spec for _, spec in sorted(figure_specs.items())]
    listed = [(item_name(spec, context), missing_cells(table)) for spec, table in tables]
    listed += [(item_name(spec, context), missing_curves(spec, context)) for spec in figures]
    write_text(args.missing, render_missing(listed))
    document = render_document(
        context, context.description, tables, figures, args.out, args.tables, args.figures, args.missing
    )
    write_text(args.out, document)


if __name__ == "__main__":
    run_main(main)
