"""Recompute every derived number of the papers from the numbers that they print, and tell what does not come out.

Reads config/published/*/*.csv, config/audit.yaml (what the texts state) and config/published/errata.csv, which explains
what is known. A difference counts only beyond what the rounding of the printed number and of its terms allows. The same
findings as LaTeX, CSV (in the form of errata.csv) and Markdown: the suffix of --out says which.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from common.atomic import write_text
from common.csvfiles import read_rows
from common.errors import UserError, run_main
from report import audit_pages
from report.audit import COLUMNS, DATA, ERRATA, KINDS, Audit, Finding, load
from report.audit_checks import (
    check_averages,
    check_gaps,
    check_means_over_tasks,
    check_reruns,
    check_sizes,
    check_summaries,
    check_systems,
    check_totals,
    find_misplaced,
)
from report.audit_numbers import shown
from report.audit_statements import Statement, check_statements, lines_of


def examine(audit: Audit) -> Audit:
    """All checks, in an order in which what is found early is not told again."""
    check_averages(audit)
    check_means_over_tasks(audit)
    check_summaries(audit)
    find_misplaced(audit)
    check_gaps(audit)
    check_systems(audit)
    check_reruns(audit)
    check_totals(audit)
    check_sizes(audit)
    check_statements(audit)
    note_open(audit)
    return audit


def note_open(audit: Audit) -> None:
    """What cannot be recomputed, beside what comes nearest."""
    for one in audit.data["open"]:
        nearest = ""
        if one.get("form") == "lines":
            nearest = str(len(lines_of(audit, one["item"], f"{DATA}, open")))
        elif "form" in one:
            words = []
            for pair in one["of"]:
                statement = Statement(one["item"], one["cells"], {"of": pair}, f"{DATA}, open, {one['item']}")
                a, b = statement.numbers(audit)
                words.append(shown(a / b, 0) if one["form"] == "times" else shown(a - b, 1))
            nearest = " and ".join(words)
        audit.open.append((one["item"], one["printed"], nearest, one["why"]))
    audit.open.sort(key=lambda row: audit.order(row[0]))


# --- explanations -----------------------------------------------------------------------------------------------------


def explain(findings: list[Finding], errata: list[dict[str, str]], order: Callable[[str], tuple]) -> list[Finding]:
    """The findings with kind and explanation of errata.csv. An erratum that nothing finds is an error."""
    listed = {}
    for line, row in enumerate(errata, start=2):
        if row["kind"] not in KINDS:
            raise UserError(f"{ERRATA}, line {line}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
        key = (f"{row['paper']}/{row['item']}", row["row"], row["column"])
        if key in listed:
            raise UserError(f"{ERRATA}, line {line}: {', '.join(key)} stands twice; remove one")
        listed[key] = (line, row)
    explained, used = [], set()
    for finding in findings:
        told = next((one for one in finding.retold() if one.key in listed), None)
        if told is None:
            explained.append(finding)
            continue
        line, row = listed[told.key]
        if (row["printed"], row["recomputed"]) != (told.printed, told.recomputed):
            raise UserError(
                f"{ERRATA}, line {line} ({', '.join(told.key)}): says {row['printed']!r} and {row['recomputed']!r}, "
                f"the audit finds {told.printed!r} and {told.recomputed!r}; mend the line, or the number"
            )
        used.add(told.key)
        explained.append(replace(told, kind=row["kind"], explanation=row["explanation"], instead=()))
    for key, (line, _) in listed.items():
        if key not in used:
            raise UserError(
                f"{ERRATA}, line {line} ({', '.join(key)}): the audit no longer finds it; take the line out, or mend "
                "the published number"
            )
    return sorted(explained, key=lambda one: (*order(one.item), KINDS.index(one.kind), one.row, one.column))


def run(root: Path) -> tuple[Audit, list[Finding]]:
    audit = examine(load(root))
    return audit, explain(audit.findings, read_rows(root / ERRATA, COLUMNS, ERRATA), audit.order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=Path(), type=Path, help="the repository; default: the current folder")
    parser.add_argument(
        "--out", required=True, nargs="+", type=Path, help=f"files to write: {', '.join(sorted(audit_pages.RENDER))}"
    )
    args = parser.parse_args()
    for path in args.out:
        if path.suffix not in audit_pages.RENDER:
            raise UserError(f"--out {path}: suffix {path.suffix!r} is none of {', '.join(sorted(audit_pages.RENDER))}")
    audit, findings = run(args.root)
    names = {row["key"]: row["name"] for row in read_rows(args.root / "config/published/papers.tsv")}
    for path in args.out:
        write_text(path, audit_pages.RENDER[path.suffix](audit, findings, names))


if __name__ == "__main__":
    run_main(main)
