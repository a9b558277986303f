"""The audit: the same findings as an independent program's, and a finding for every number that is made wrong."""

import csv
import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import yaml

import audit
from common.errors import UserError
from make_document import PREAMBLE
from report import audit_pages
from report.audit import KINDS, UNEXPLAINED, Audit, load
from report.audit_checks import find_misplaced
from report.audit_numbers import (
    Line,
    Number,
    Row,
    exactly,
    keep_dropped_zeros,
    mean,
    parse,
    read_lines,
    rows_of,
    shown,
    total,
)
from report.audit_statements import FORMS, statements_of
from report.table_spec import paper_names
from trees import read_csv

KEYS = ("paper", "item", "row", "column", "printed", "recomputed", "kind", "explanation")


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="session")
def found(repository):
    return audit.examine(load(repository))


@pytest.fixture
def root(repository, tmp_path: Path) -> Path:
    """A copy of what the audit reads, to be changed."""
    shutil.copytree(repository / "config/published", tmp_path / "config/published")
    shutil.copytree(repository / "config/schemas", tmp_path / "config/schemas")
    shutil.copy(repository / "config/audit.yaml", tmp_path / "config/audit.yaml")
    return tmp_path


def edit(root: Path, item: str, where: dict[str, str], new: str, column: str = "value") -> str:
    """Replace one number; returns the old one."""
    path = root / f"config/published/{item}.csv"
    rows = read_csv(path)
    [row] = [row for row in rows if all(row[key] == value for key, value in where.items())]
    old, row[column] = row[column], new
    write_csv(path, rows)
    return old


def keys_of(findings) -> set[tuple[str, str, str, str, str]]:
    return {(one.item, one.row, one.column, one.printed, one.recomputed) for one in findings}


# --- the same as an independent program -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examined(repository):
    """What the audit of this repository counts, and finds."""
    return audit.run(repository)


def test_the_findings_are_those_of_the_transcription(examined, papers):
    """An audit by other hands lists them; `ocr` tells of damage in its text copy, which is no finding of ours."""
    expected = [row for row in read_csv(papers / "errata.csv") if row["kind"] != "ocr"]
    _, findings = examined
    ours = [
        dict(
            zip(
                KEYS,
                (*one.item.split("/"), one.row, one.column, one.printed, one.recomputed, one.kind, one.explanation),
                strict=True,
            )
        )
        for one in findings
    ]
    assert ours == expected and len(ours) > 40


def test_every_finding_of_the_repository_is_explained(examined):
    _, findings = examined
    assert not [one for one in findings if one.explanation == UNEXPLAINED]
    assert {one.kind for one in findings} == set(KINDS)


def test_a_wrong_cell_is_found_by_both_programs(repository, papers, root, tmp_path):
    """Cells that are made wrong at random: both audits find the row's average wrong, or neither does."""
    theirs = tmp_path / "papers"
    shutil.copytree(papers, theirs)
    draw = random.Random(3)
    plain = load(repository)
    rows = [row for row in plain.rows if "avg" in row.texts and len(row.languages) > 2 and "table" in row.item]
    for row in draw.sample(rows, 8):
        code = draw.choice(row.languages)
        where = {"setting": row.setting, "model": row.model, "task": row.task, "metric": row.metric, "note": row.note}
        step = draw.choice([Fraction(1, 10), Fraction(5)])
        new = shown(row.numbers[code].value + step * len(row.languages) / 5, len(row.texts[code].partition(".")[2]))
        old = edit(root, row.item, {**where, "language": code}, new)
        shutil.copy(root / f"config/published/{row.item}.csv", theirs / f"{row.item}.csv")
        ours = {one for one in keys_of(audit.examine(load(root)).findings) if one[2] == f"avg ({row.metric})"}
        done = subprocess.run([sys.executable, theirs / "audit.py"], capture_output=True, text=True, check=False)
        printed = {tuple(line.split(" | ")[1:7]) for line in done.stdout.splitlines() if " | " in line}
        lines = {(f"{paper}/{item}", *rest) for paper, item, *rest in printed if rest[1] == f"avg ({row.metric})"}
        assert {one for one in ours if one[0] == row.item and one[1] == row.label} == {
            one for one in lines if one[0] == row.item and one[1] == row.label
        }, (row.item, row.label, code, old, new)
        edit(root, row.item, {**where, "language": code}, old)
        shutil.copy(papers / f"{row.item}.csv", theirs / f"{row.item}.csv")


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("82.4", "82.4", "0.05"),
        ("0.70", "0.7", "0.005"),
        ("63", "63", "0.5"),
        ("-1.5", "-1.5", "0.05"),
        ("58.9M", "58900000", "50000"),
        ("467k", "467000", "500"),
        ("9.6e21", "9600000000000000000000", "50000000000000000000"),
        ("6.5G", "6500000000", "50000000"),
    ],
)
def test_a_printed_number_stands_for_what_rounds_to_it(text, value, half):
    number = parse(text, "x")
    assert (number.value, number.high - number.value, number.value - number.low) == (
        Fraction(value),
        Fraction(half),
        Fraction(half),
    )


@pytest.mark.parametrize("text", ["8x.2", "", "82,4", "1.", ".5", "1e", "12 M", "--"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(UserError, match=r"here: .* is not a number"):
        parse(text, "here")


def corners(compute, numbers: list[Number]) -> list[Fraction]:
    return [compute(*values) for values in product(*((one.low, one.high) for one in numbers))]


@pytest.mark.parametrize("seed", range(20))
def test_a_range_is_what_its_terms_can_reach(seed):
    """Against the smallest and the largest of all corners, which these operations reach their extremes in."""
    draw = random.Random(seed)
    numbers = [parse(f"{draw.uniform(5, 99):.{draw.choice([0, 1, 2])}f}", "x") for _ in range(3)]
    for ours, compute in (
        (total(numbers), lambda a, b, c: a + b + c),
        (mean(numbers), lambda a, b, c: (a + b + c) / 3),
        (numbers[0] - numbers[1], lambda a, b, c: a - b),
        (numbers[0] / numbers[1], lambda a, b, c: a / b),
        (numbers[0] * numbers[1], lambda a, b, c: a * b),
        (exactly(100) - (numbers[0] / numbers[2]).times(100), lambda a, b, c: 100 - 100 * a / c),
    ):
        values = corners(compute, numbers)
        assert (ours.low, ours.high) == (min(values), max(values))
        assert ours.value == compute(*(one.value for one in numbers))


@pytest.mark.parametrize(
    ("value", "decimals", "strip", "text"),
    [
        ("0.125", 2, False, "0.13"),
        ("-0.125", 2, False, "-0.13"),
        ("16.5", 2, False, "16.50"),
        ("16.5", 2, True, "16.5"),
        ("467", 2, True, "467"),
        ("100", 0, True, "100"),
        ("-0.04", 1, False, "0.0"),
    ],
)
def test_numbers_are_shown_rounded(value, decimals, strip, text):
    assert shown(Fraction(value), decimals, strip) == text


def test_an_integer_among_decimals_is_as_precise_as_they():
    row = Row("x/y", "s", "m", "t", "f1", "", ("", ""))
    row.texts = {"en": "82", "de": "70.1", "avg": "76.1"}
    row.numbers = {code: parse(text, "x") for code, text in row.texts.items()}
    keep_dropped_zeros(row)
    assert row.numbers["en"].high - row.numbers["en"].low == Fraction(1, 10)
    fields = {"setting": "s", "model": "m", "task": "t", "metric": "f1", "note": ""}
    lines = [
        Line("x/y", {**fields, "language": code, "value": text}, "here")
        for code, text in {"en": "82", "de": "70.1", "avg": "76.1"}.items()
    ]
    [read] = rows_of(lines)
    assert read.numbers == row.numbers
    whole = replace(row, texts={"en": "82", "de": "70"}, numbers={code: parse("82", "x") for code in ("en", "de")})
    keep_dropped_zeros(whole)
    assert whole.numbers["en"].high - whole.numbers["en"].low == 1


# --- a number made wrong ----------------------------------------------------------------------------------------------

CLT = {"setting": "cross-lingual-transfer"}


@pytest.mark.parametrize(
    ("item", "where", "column", "new", "expected"),
    [
        (  # a cell, and the average of its row
            "ernie-m/table-04",
            {**CLT, "model": "ernie-m-large", "language": "en"},
            "value",
            "97.9",
            [("cross-lingual-transfer / ernie-m-large", "avg (accuracy)", "89.5", "89.81")],
        ),
        (  # a cell that another paper prints too
            "ernie-m/table-04",
            {**CLT, "model": "veco-large", "language": "zh"},
            "value",
            "85.2",
            [("cross-lingual-transfer / veco-large", "zh", "85.2", "85.1")],
        ),
        (
            "ernie-m/table-07",
            {"model": "ernie-m-base", "task": "average"},
            "value",
            "12.2",
            [("cross-lingual-transfer / ernie-m-base", "Avg.", "12.2", "11.90")],
        ),
        (
            "ernie-m/table-07",
            {"model": "infoxlm-base", "task": "mlqa"},
            "value",
            "15.9",
            [("infoxlm-base", "mlqa", "15.9", "15.65")],
        ),
        ("veco/table-05", {"language": "ar"}, "size_gb", "12.786", [("total", "size_gb", "1360.526", "1361.53")]),
        ("ppa/table-01", {"resource": "PPA (600k)"}, "total", "4.3M", [("PPA (600k)", "total", "4.3M", "4.07M")]),
        ("ppa/table-01", {"resource": "Total"}, "bg", "0.8M", [("Total", "bg", "0.8M", "0.6M")]),
        ("veco/table-08", {"model": "xlm-r-large"}, "params", "600M", [("xlm-r-large", "params", "600M", "558M")]),
        (
            "veco/table-06",
            {"pair": "af-ar"},
            "pair",
            "af-qq",
            [("languages of the parallel data", "count", "50", "48")],
        ),
        (  # a number that the text repeats, and the mark beside it
            "xlm-e/table-04",
            {"model": "xlm-align-base", "language": "en-fr"},
            "value",
            "6.11",
            [
                ("xlm-align-base", "avg (aer)", "21.05", "20.92"),
                ("all", "en-fr", "bold: 6.19 (xlm-e-base)", "best: 6.11 (xlm-align-base)"),
            ],
        ),
        (
            "ernie-m/table-06",
            {"model": "ernie-m-base-exp3", "task": "xnli"},
            "value",
            "76.4",
            [("exp4 over exp3", "xnli", "0.5", "0.2")],
        ),
        (
            "xlm-e/table-02",
            {"model": "xlm-e-base", "metric": "flops"},
            "value",
            "2.5e20",
            [("xlm-e-base as a share of xlm-r-base", "flops, per cent", "1", "2.6")],
        ),
        (
            "ppa/table-05",
            {"setting": "translate-train", "model": "ppa-2m-no-cs", "language": "avg"},
            "value",
            "78.0",
            [
                ("translate-train / ppa-2m-no-cs", "avg (accuracy)", "78.0", "77.08"),
                ("with code-switching over without", "avg", "1", "0.2 to 1.1"),
            ],
        ),
    ],
)
def test_a_number_made_wrong_is_a_new_finding(root, found, item, where, column, new, expected):
    edit(root, item, where, new, column)
    now = keys_of(audit.examine(load(root)).findings)
    before = keys_of(found.findings)
    if item == "veco/table-06":  # the same contradiction with another number in it
        before = {one for one in before if one[:2] != ("veco/table-06", "languages of the parallel data")}
        now = {one for one in now if one[1] != "total"}
    assert now - before == {(item, *one) for one in expected}
    assert before <= now


@pytest.mark.parametrize(
    ("item", "where", "column", "new"),
    [
        ("ernie-m/table-04", {**CLT, "model": "ernie-m-large", "language": "en"}, "value", "96.1"),
        ("ernie-m/table-07", {"model": "infoxlm-base", "task": "mlqa"}, "value", "15.6"),
        ("veco/table-05", {"language": "ar"}, "size_gb", "11.790"),
        ("veco/table-08", {"model": "xlm-r-large"}, "params", "551M"),
        ("ppa/table-01", {"resource": "PPA (2M)"}, "hi", "0.9M"),
    ],
)
def test_a_number_within_rounding_is_none(root, found, item, where, column, new):
    edit(root, item, where, new, column)
    assert keys_of(audit.examine(load(root)).findings) == keys_of(found.findings)


def test_the_page_shows_an_unexplained_finding(root):
    edit(root, "ernie-m/table-04", {**CLT, "model": "ernie-m-large", "language": "en"}, "97.9")
    done, findings = audit.run(root)
    [new] = [one for one in findings if one.explanation == UNEXPLAINED]
    assert (new.item, new.kind, new.recomputed) == ("ernie-m/table-04", "average", "89.81")
    text = audit_pages.render_latex(done, findings, {"ernie-m": "ERNIE-M"})
    assert "avg (accuracy) & 89.5 & 89.81 & average & unexplained" in text
    assert f"{len(findings)} do not come out" in text and "1 have no explanation" in text


def test_no_statement_holds_of_any_number(found):
    """Each number of the texts that is compared would be a finding, were it another one."""
    tried = 0
    for statement in statements_of(found):
        form = statement.says["form"]
        if form in ("best", "words", "every", "most", "above", "below", "order", "columns", "against"):
            continue
        other = " to ".join(
            re.sub(r"^[\d.]+", lambda match: shown(Fraction(match[0]) * 3 + 7, 2), text)
            for text in statement.printed.split(" to ")
        )
        changed = replace(statement, says={**statement.says, "printed": other})
        printed, recomputed = FORMS[form](found, changed)
        assert printed != recomputed, statement.where
        tried += 1
    assert tried > 90


def test_a_repetition_is_exact_to_the_last_digit(found):
    """Two numbers of one decimal that differ by 0.1 touch as ranges, but who repeats one copies its digits."""
    tried = 0
    for statement in statements_of(found):
        [text] = [statement.text(found, statement.says["of"][0])] if statement.says["form"] == "same" else [""]
        if text != statement.printed:
            continue
        digit = str((int(text[-1]) + 1) % 10) if text[-1].isdigit() else None
        if digit:
            changed = replace(statement, says={**statement.says, "printed": text[:-1] + digit})
            printed, recomputed = FORMS["same"](found, changed)
            assert printed != recomputed, statement.where
            tried += 1
    assert tried > 30


def test_no_order_or_mark_holds_of_any_system(found):
    tried = 0
    for statement in statements_of(found):
        says = statement.says
        if says["form"] in ("above", "below") and not says.get("leads"):
            changed = {**says, "of": list(reversed(says["of"]))}
        elif says["form"] in ("above", "below"):
            changed = {**says, "pairs": list(reversed(says["pairs"]))}
        elif says["form"] in ("every", "most") and not says.get("equal"):
            changed = {**says, "of": list(reversed(says["of"]))}
        elif says["form"] == "best":
            changed = {**says, "lowest": not says.get("lowest", False)}
        else:
            continue
        printed, recomputed = FORMS[says["form"]](found, replace(statement, says=changed))
        assert printed != recomputed, statement.where
        tried += 1
    assert tried > 35


# --- rows under the wrong columns -------------------------------------------------------------------------------------


def test_the_three_rows_are_found_and_nothing_else(found):
    assert [(one.row.item, one.row.setting, one.row.model, one.item, one.source) for one in found.misplaced] == [
        ("ernie-m/table-01", "cross-lingual-transfer", "veco-large", "veco/table-10", True),
        ("ernie-m/table-01", "translate-train-all", "veco-large", "veco/table-10", True),
        ("veco/table-10", "translate-train-all", "xlm-15", "ernie-m/table-01", True),
    ]
    for one in found.misplaced:
        [right] = [
            row
            for row in found.rows
            if (row.item, row.setting, row.model) == (one.item, one.row.setting, one.row.model)
        ]
        assert one.corrected.texts == {code: right.texts[code] for code in one.row.texts}
        assert set(one.changed) == {code for code in right.texts if right.texts[code] != one.row.texts[code]}


def misprinted(row: Row, order: list[str]) -> Row:
    """The row as one prints it who copies it in that order, under the columns that it has."""
    place = dict(zip(row.languages, order, strict=True))
    texts = {code: row.texts[place.get(code, code)] for code in row.texts}
    return replace(row, texts=texts, numbers={code: row.numbers[place.get(code, code)] for code in row.texts})


def test_any_row_that_is_copied_in_another_order_is_found(found):
    known = {id(one.row) for one in found.misplaced}
    tried = 0
    for index, row in enumerate(found.rows):
        orders = {
            tuple(other.languages)
            for other in found.rows
            if other.task == row.task and set(other.languages) == set(row.languages) and len(row.languages) > 6
        } - {tuple(row.languages)}
        if not orders or id(row) in known or row.item == "ernie-m-blog/table-01":
            continue
        # the blog has an order of its own, in which nobody can have copied
        order = next(one for one in sorted(orders) if one != tuple(sorted(one)))
        rows = [*found.rows]
        rows[index] = misprinted(row, list(order))
        again = Audit(found.data, found.lines, rows)
        find_misplaced(again)
        caught = [one for one in again.misplaced if one.row is rows[index]]
        assert [one.corrected.texts for one in caught] == [row.texts], (row.item, row.label)
        assert len(again.misplaced) == len(found.misplaced) + 1
        tried += 1
    assert tried > 40


def test_a_row_copied_in_another_order_is_told_with_its_source(root, found):
    """In the files: VECO's row of XLM-R large is one that ERNIE-M's table could have copied from."""
    [row] = [
        one
        for one in found.rows
        if (one.item, one.setting, one.model) == ("ernie-m/table-01", "cross-lingual-transfer", "ernie-m-base")
    ]
    [veco] = [
        one
        for one in found.rows
        if (one.item, one.setting, one.model) == ("veco/table-10", "cross-lingual-transfer", "mbert")
    ]
    wrong = misprinted(row, veco.languages)
    for code in row.languages:
        where = {**CLT, "model": "ernie-m-base", "language": code}
        edit(root, "ernie-m/table-01", where, wrong.texts[code])
    again = audit.examine(load(root))
    [new] = keys_of(one for one in again.findings if " " in one.column and "(" not in one.column) - keys_of(
        found.findings
    )
    assert new[:2] == ("ernie-m/table-01", "cross-lingual-transfer / ernie-m-base")
    assert new[4].split() == [row.texts[code] for code in new[2].split()]


# --- errata that are not found any more, and files that are wrong -----------------------------------------------------


def test_an_erratum_that_is_not_found_is_an_error_that_names_it(root):
    edit(root, "ernie-m/table-03", {"model": "xlm-r-large", "language": "hi", "metric": "f1"}, "69.2")
    with pytest.raises(
        UserError, match=r"errata\.csv, line \d+ \(ernie-m/table-03, .*xlm-r-large, hi \(f1\)\): the audit no longer"
    ):
        audit.run(root)


def test_an_erratum_of_another_number_is_an_error(root):
    edit(root, "ernie-m/table-08", {"model": "xlm-r-small", "task": "xnli"}, "54.7")
    with pytest.raises(
        UserError, match=r"line \d+ .*says '4\.4' and '14\.4', the audit finds '4\.4' and '15\.4'; mend the line"
    ):
        audit.run(root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.append(rows[0]), "line 46: .*stands twice; remove one"),
        (lambda rows: rows[3].update(kind="ocr"), "line 5: kind 'ocr' is none of average, derived, cross-paper, text"),
        (
            lambda rows: rows[0].update(row="nobody"),
            r"line 2 \(ernie-m/table-01, nobody, .*the audit no longer finds it",
        ),
        (
            lambda rows: [row.pop("explanation") for row in rows],
            "config/published/errata.csv, line 1: no column explanation; restore the file from the repository",
        ),
    ],
)
def test_wrong_errata_are_refused(root, change, message):
    path = root / "config/published/errata.csv"
    rows = read_csv(path)
    change(rows)
    write_csv(path, rows)
    with pytest.raises(UserError, match=message):
        audit.run(root)


@pytest.mark.parametrize(
    ("item", "old", "new", "message"),
    [
        (
            "ernie-m/table-01",
            "en,accuracy,85.0",
            "en,accuracy,8x.0",
            r"table-01\.csv, line 2, column 'value': '8x\.0' is not a n",
        ),
        (
            "ernie-m/table-01",
            "en,accuracy,85.0,",
            "en,accuracy,85,0,",
            r"line 2: 8 fields, the header has 7; quote what",
        ),
        (
            "ernie-m/table-01",
            "setting,model",
            "setting,modle",
            r"table-01\.csv, line 1: unknown column 'modle'; known: setting",
        ),
        ("ernie-m/table-01", ",value,note", ",value", r"line 1: column 'note' is missing"),
        ("ernie-m/table-01", "xnli,fr,", "xnli,en,", r"line 3: .*xlm-15, xnli accuracy 'en' stands twice"),
        (
            "veco/table-05",
            "ar,2.823",
            "ar,2.8.23",
            r"table-05\.csv, line 3, column 'documents_m': '2\.8\.23' is not a number",
        ),
        ("ppa/table-03", "vocab,params", "vocab,size", r"table-03\.csv, line 1: unknown column 'size'"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(root, item, old, new, message):
    path = root / f"config/published/{item}.csv"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        audit.run(root)


def test_a_paper_that_is_not_in_the_order_is_an_error(root):
    (root / "config/published/ppb").mkdir()
    shutil.copy(root / "config/published/ppa/table-02.csv", root / "config/published/ppb/table-02.csv")
    with pytest.raises(UserError, match=r"audit\.yaml, papers: ppb is missing"):
        audit.run(root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"printed": 1.1}, r"audit\.yaml, statements\[0\]\.says\[0\]\.printed: must be text, is 1\.1"),
        ({"colour": "red"}, r"statements\[0\]\.says\[0\]\.colour: unknown key"),
        ({"of": None}, r"statements\[0\]\.says\[0\]\.of: must be"),
        ({"form": "led"}, r"form: 'led' is unknown; did you mean 'lead'"),
        ({"of": [{"setting": "x", "model": "y"}] * 2}, "no line has .*model 'y', setting 'x'; mend it"),
        ({"of": [{"setting": "cross-lingual-transfer"}] * 2}, r"\d+ lines fit .*; say more"),
        ({"of": [{"item": "ernie-m/table-77"}] * 2}, r"config/published/ernie-m/table-77\.csv: no such file"),
        (
            {"of": [{"column": "score", "setting": "cross-lingual-transfer", "model": "xlm-15"}] * 2},
            "no column 'score'",
        ),
    ],
)
def test_a_wrong_statement_is_refused(root, change, message):
    path = root / "config/audit.yaml"
    data = yaml.safe_load(path.read_text())
    data["statements"][0]["says"][0].update(change)
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=message):
        audit.run(root)


def test_every_form_of_the_schema_is_known(repository):
    schema = json.loads((repository / "config/schemas/audit.schema.json").read_text(encoding="utf-8"))
    assert sorted(FORMS) == schema["$defs"]["says"]["properties"]["form"]["enum"]


def test_a_gap_that_nothing_is_said_of_is_an_error(root):
    path = root / "config/audit.yaml"
    data = yaml.safe_load(path.read_text())
    del data["gaps"]["ernie-m/table-07"]["metrics"]["xnli"]
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=r"gaps\.ernie-m/table-07: says nothing of xnli"):
        audit.run(root)


# --- the pages --------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_same_bytes_twice(repository, tmp_path):
    command = [sys.executable, "workflow/scripts/audit.py", "--out"]
    for folder in ("a", "b"):
        names = [str(tmp_path / folder / f"audit{suffix}") for suffix in sorted(audit_pages.RENDER)]
        done = subprocess.run([*command, *names], cwd=repository, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for suffix in audit_pages.RENDER:
        texts = [(tmp_path / folder / f"audit{suffix}").read_bytes() for folder in ("a", "b")]
        assert texts[0] == texts[1] and len(texts[0]) > 5000
    refused = subprocess.run([*command, "x.pdf"], cwd=repository, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "--out x.pdf: suffix '.pdf' is none of .csv, .md, .tex" in refused.stderr


def test_the_csv_has_the_form_of_the_errata(repository, examined):
    done, findings = examined
    text = audit_pages.render_csv(done, findings, {})
    assert text == (repository / "config/published/errata.csv").read_text(encoding="utf-8")


def test_the_page_names_counts_rows_and_corrections(repository, examined, found):
    names = paper_names(repository)
    _, findings = examined
    text = audit_pages.render_latex(found, findings, names)
    assert f"{found.checked['averages over languages']} averages over languages" in text
    assert text.count(r"\begin{longtable}") == 4
    for words in ("ERNIE-M, table 1: rows under the wrong columns.", "VECO, table 10: rows under the wrong columns."):
        assert text.count(words) == 1
    assert r"& corrected & 85.0 & \textbf{77.6} & \textbf{80.9} & 80.3 & 79.1 &" in text
    assert "130 times faster" in text and "101 and 152" in text
    markdown = audit_pages.render_markdown(found, findings, names)
    assert "| ERNIE-M, table 8 | ernie-m-small over xlm-r-small | xnli | 4.4 | 14.4 | text |" in markdown
    assert "|  | corrected | 85.0 | 77.6 | 80.9 |" in markdown


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex")
def test_the_page_compiles_without_an_overfull_box(examined, found, tmp_path):
    _, findings = examined
    (tmp_path / "audit.tex").write_text(audit_pages.render_latex(found, findings, {}))
    (tmp_path / "all.tex").write_text(PREAMBLE + r"\begin{document}\input{audit.tex}\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_every_file_of_the_papers_is_read(repository, found):
    files = {f"{path.parent.name}/{path.stem}" for path in (repository / "config/published").glob("*/*.csv")}
    assert set(found.lines) == files
    lines = read_lines(repository / "config/published/veco/table-03.csv", {})
    assert len(lines) == 23 and {row.model for row in rows_of(lines)} == {line.fields["model"] for line in lines}
