"""The audit as LaTeX, CSV and Markdown. Nothing is computed here; audit.py has found everything."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from report import latex

if TYPE_CHECKING:
    from report.audit import Audit, Finding, Misplaced
from report.table_text import markdown_line

NO_ERROR = ("not an error", "not necessarily an error")
KINDS = {  # what each kind of errata.csv says of a finding
    "average": "an average and its cells",
    "derived": "numbers of one paper, or of one source",
    "cross-paper": "numbers of two papers",
    "text": "the text and a table",
}
TEXT_WIDTH_MM = 263  # of a turned page
FINDING_WIDTHS = (22, 37, 24, 28, 28, 15)  # mm; the explanation has the rest
OPEN_WIDTHS = (26, 78, 62)
GAP_MM = 3  # between columns


def item_words(item: str, names: Mapping[str, str]) -> str:
    """`ernie-m/table-01` -> ERNIE-M, table 1."""
    paper, _, rest = item.partition("/")
    kind, _, number = rest.partition("-")
    return (
        f"{names.get(paper, paper)}, {kind} {int(number)}" if number.isdigit() else f"{names.get(paper, paper)}, {rest}"
    )


def summary(audit: Audit, findings: list[Finding]) -> list[str]:
    """How much was checked, and what came of it."""
    checked = ", ".join(f"{number} {check}" for check, number in audit.checked.items())
    kinds = Counter(finding.kind for finding in findings)
    by_kind = ", ".join(f"{kinds[kind]} {kind} ({words})" for kind, words in KINDS.items() if kinds[kind])
    harmless = sum(finding.explanation.startswith(NO_ERROR) for finding in findings)
    unexplained = sum(finding.explanation == "unexplained" for finding in findings)
    return [
        f"Every number of the papers that follows from others was computed again from the numbers that they print. "
        f"Checked: {checked}. {sum(audit.rounded.values())} of them agree only because printed numbers are rounded.",
        f"{len(findings)} do not come out, beyond what rounding of the printed number and of its terms allows: "
        f"{by_kind}. {harmless} of these are differences of source or of run, and no errors; {unexplained} have no "
        "explanation.",
    ]


def render_csv(audit: Audit, findings: list[Finding], names: Mapping[str, str]) -> str:
    """In the form of config/published/errata.csv, so that a new finding needs only its explanation to go there."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["paper", "item", "row", "column", "printed", "recomputed", "kind", "explanation"])
    for one in findings:
        paper, _, item = one.item.partition("/")
        writer.writerow([paper, item, one.row, one.column, one.printed, one.recomputed, one.kind, one.explanation])
    return buffer.getvalue()


# --- LaTeX ------------------------------------------------------------------------------------------------------------


def long_table(name: str, header: list[str], widths: tuple[int, ...], rows: list[list[str]]) -> list[str]:
    """Cells are plain text; the last column has what the others leave of the page."""
    rest = TEXT_WIDTH_MM - sum(widths) - GAP_MM * len(header)
    layout = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}mm}}" for width in (*widths, rest))
    head = " & ".join(rf"\bfseries {latex.escape(text)}" for text in header) + r" \\"
    again = rf"\multicolumn{{{len(header)}}}{{l}}{{\itshape {latex.escape(name)}, continued}} \\"
    body = [" & ".join(latex.escape(text) for text in row) + r" \\" for row in rows]
    return [
        rf"\begin{{longtable}}{{{layout}}}",
        rf"\caption{{\textbf{{{latex.escape(name)}.}}}}\\",
        r"\toprule",
        head,
        r"\midrule",
        r"\endfirsthead",
        again,
        r"\toprule",
        head,
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
        *body,
        r"\end{longtable}",
    ]


def misplaced_table(item: str, found: list[Misplaced], names: Mapping[str, str]) -> list[str]:
    """The rows of one table as printed and as corrected; what moved is bold."""
    columns = list(found[0].row.texts)
    lines = []
    for one in found:
        printed, corrected = one.row.texts, one.corrected.texts
        moved = [rf"\textbf{{{corrected[code]}}}" if code in one.changed else corrected[code] for code in columns]
        lines += [
            " & ".join([latex.escape(one.row.label), "as printed", *(printed[code] for code in columns)]),
            " & ".join(["", "corrected", *moved]),
        ]
    caption = rf"\textbf{{{latex.escape(item_words(item, names))}: rows under the wrong columns.}}"
    return [
        rf"\begin{{longtable}}{{ll*{{{len(columns)}}}{{l}}}}",
        rf"\caption{{{caption} {misplaced_words(found, names)}}}\\",
        r"\toprule",
        " & ".join(["Row", "", *map(latex.escape, columns)]) + r" \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
        *(line + r" \\*" for line in lines[:-1]),  # a table so small stays on one page
        lines[-1] + r" \\",
        r"\end{longtable}",
    ]


def misplaced_words(found: list[Misplaced], names: Mapping[str, str]) -> str:
    words = []
    for one in found:
        how = "has other columns, and these numbers under them" if one.source else "has the columns in this order"
        words.append(
            f"{one.row.label}: {item_words(one.item, names)}, {how}. Read so, the row's correlation with the median "
            f"of the other systems rises from {one.before:.2f} to {one.after:.2f}."
        )
    return latex.escape(" ".join(words))


def by_item(audit: Audit) -> dict[str, list[Misplaced]]:
    items: dict[str, list[Misplaced]] = {}
    for one in audit.misplaced:
        items.setdefault(one.row.item, []).append(one)
    return items


def render_latex(audit: Audit, findings: list[Finding], names: Mapping[str, str]) -> str:
    rows = [
        [item_words(one.item, names), one.row, one.column, one.printed, one.recomputed, one.kind, one.explanation]
        for one in findings
    ]
    header = ["Item", "Row", "Column", "Printed", "Recomputed", "Kind", "Explanation"]
    lines = [
        "% audit of the published numbers: written by audit.py",
        r"\begin{landscape}",
        r"\section*{Audit of the published numbers}",
        *(latex.escape(words) + r"\par" for words in summary(audit, findings)),
        r"\begingroup\scriptsize\setlength{\LTcapwidth}{\linewidth}\renewcommand{\arraystretch}{1.1}",
        rf"\setlength{{\tabcolsep}}{{{GAP_MM / 2}mm}}",
        *long_table("What does not come out", header, FINDING_WIDTHS, rows),
    ]
    for item, found in by_item(audit).items():
        lines += misplaced_table(item, found, names)
    if audit.open:
        opened = [[item_words(item, names), *rest] for item, *rest in audit.open]
        header = ["Item", "Stated", "Nearest that can be computed", "Why"]
        lines += long_table("What cannot be recomputed", header, OPEN_WIDTHS, opened)
    lines += [r"\endgroup", r"\end{landscape}"]
    return "\n".join(lines) + "\n"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def render_markdown(audit: Audit, findings: list[Finding], names: Mapping[str, str]) -> str:
    def table(header: list[str], rows: list[list[str]]) -> list[str]:
        return [markdown_line(header), markdown_line(["---"] * len(header)), *map(markdown_line, rows), ""]

    rows = [
        [item_words(one.item, names), one.row, one.column, one.printed, one.recomputed, one.kind, one.explanation]
        for one in findings
    ]
    lines = ["# Audit of the published numbers", ""]
    for words in summary(audit, findings):
        lines += [words, ""]
    lines += table(["item", "row", "column", "printed", "recomputed", "kind", "explanation"], rows)
    for item, found in by_item(audit).items():
        columns = list(found[0].row.texts)
        cells = []
        for one in found:
            cells.append([one.row.label, "as printed", *(one.row.texts[code] for code in columns)])
            cells.append(["", "corrected", *(one.corrected.texts[code] for code in columns)])
        lines += [f"## {item_words(item, names)}: rows under the wrong columns", ""]
        lines += table(["row", "", *columns], cells)
    opened = [[item_words(item, names), *rest] for item, *rest in audit.open]
    lines += ["## What cannot be recomputed", "", *table(["item", "stated", "nearest", "why"], opened)]
    return "\n".join(lines).rstrip("\n") + "\n"


RENDER = {".tex": render_latex, ".csv": render_csv, ".md": render_markdown}
