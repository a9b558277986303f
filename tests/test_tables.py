"""Tables: the published numbers, the cells, the rules for bold, averages and footnotes, and the bytes."""

import csv
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import yaml

import made_up
import make_table
from common.errors import UserError
from plan.claimed import all_needs
from plan.load import load_config
from plan.needs import canonical_run, needs
from report.context import Context, load_context
from report.latex import escape
from report.scores import Summary
from report.table_latex import OURS_ONLY, panels_of, render_latex
from report.table_spec import AVERAGE, GAP, XTREME, load_spec, paper_names, split_setting
from report.table_text import render_csv, render_markdown, tidy_rows
from report.table_words import (
    DIRECTION_WORDS,
    Notes,
    language_notes,
    published_cell,
    reproduced_cell,
    row_notes,
    spans_of,
    summary_words,
)
from report.tables import Cell, Group, Row, Table, build, make_column, mark_best
from trees import read_csv

REPOSITORY = Path(__file__).resolve().parent.parent
PUBLISHED = sorted(f"{path.parent.name}/{path.stem}" for path in (REPOSITORY / "config/published").glob("*/*.csv"))
# Those whose numbers are scores: their specs have rows of runs. Some figures draw the numbers of a table.
ITEMS = [
    item
    for item in PUBLISHED
    if (path := REPOSITORY / "config" / ("figures" if "figure" in item else "tables") / f"{item}.yaml").exists()
    and "groups" in (spec := yaml.safe_load(path.read_text(encoding="utf-8")))
    and ("table" in item or spec.get("published") == f"config/published/{item}.csv")
]
TABLES = [item for item in ITEMS if "table" in item]
OURS_ALONE = {"layer", "epoch"}  # columns of ours that say in a number what the transcription says in words


BEST = "best-xnli-model"
XNLI = {"task": "xnli", "metric": "accuracy", "languages": ["en", "de"]}


def spec_of(repository: Path, item: str) -> dict:
    kind = "figures" if "figure" in item else "tables"
    return load_spec(repository / "config" / kind / f"{item}.yaml")


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return tmp_path / "scores"


def small_spec(**changes: object) -> dict:
    spec = {
        "paper": "ernie-m",
        "item": "table-01",
        "title": "A title",
        "published": "config/published/ernie-m/table-01.csv",
        "columns": [{"task": "xnli", "metric": "accuracy", "languages": ["en", "de"], "average": True}],
        "groups": [
            {
                "title": "Transfer",
                "setting": "cross-lingual-transfer",
                "rows": [
                    {"label": "XLM-R", "published": "xlm-r-base", "run": "xlm-r"},
                    {"label": "Unicoder", "published": "unicoder"},
                    {"label": "ERNIE-M", "published": "ernie-m-base", "run": "ernie-m-base"},
                    {"label": "ours", "run": "xlm"},
                ],
            }
        ],
    }
    return {**spec, **changes}


def write_pair(
    root: Path, run: str, values: dict[int, tuple[float, ...]], languages=("en", "de"), rule: str | None = None
) -> None:
    for seed, of_seed in values.items():
        entries = [made_up.entry(code, value) for code, value in zip(languages, of_seed, strict=True)]
        made_up.write_score(root, run, "xnli", "cross-lingual-transfer", seed, entries, rule=rule)


# --- the published numbers and the specs ----------------------------------------------------------------------------


@pytest.mark.parametrize("item", PUBLISHED)
def test_published_numbers_are_those_of_the_papers(repository, papers, item):
    ours, theirs = read_csv(repository / f"config/published/{item}.csv"), read_csv(papers / f"{item}.csv")
    keys = list(theirs[0])
    assert [key for key in ours[0] if key in keys] == keys and set(ours[0]) - set(keys) <= OURS_ALONE
    assert [[row[key] for key in keys] for row in ours] == [list(row.values()) for row in theirs]


def test_every_transcribed_item_is_here(papers):
    assert sorted(f"{path.parent.name}/{path.stem}" for path in papers.glob("*/*.csv")) == PUBLISHED


def test_every_item_of_the_papers_has_a_spec(repository, papers):
    for row in read_csv(papers / "index.csv"):
        kind = "figures" if "figure" in row["item"] else "tables"
        assert (repository / "config" / kind / row["paper"] / f"{row['item']}.yaml").is_file(), row


def test_errata_are_those_of_the_papers(repository, papers):
    """But not the kind `ocr`: damage of the text that was transcribed says nothing of the papers."""
    theirs = [row for row in read_csv(papers / "errata.csv") if row["kind"] != "ocr"]
    assert read_csv(repository / "config/published/errata.csv") == theirs


def test_models_are_named_as_in_the_transcription(repository, papers):
    with open(repository / "config/published/models.tsv", encoding="utf-8", newline="") as file:
        ours = [row["key"] for row in csv.DictReader(file, delimiter="\t")]
    assert ours == sorted(row["key"] for row in read_csv(papers / "models.csv"))


@pytest.mark.parametrize("item", [item for item in ITEMS if "table" in item])
def test_the_item_s_spec_is_the_one_of_its_numbers(repository, item):
    spec = spec_of(repository, item)
    assert (f"{spec['paper']}/{spec['item']}", spec["published"]) == (item, f"config/published/{item}.csv")


def test_the_missing_results_are_among_the_tables():
    assert {"ernie-m/table-06", "ernie-m-blog/table-01", "ppa/table-05", "veco/table-02"} <= set(TABLES)
    assert len(TABLES) >= 28


@pytest.mark.parametrize("item", ITEMS)
def test_every_published_row_stands_in_the_spec_once(repository, item):
    spec = spec_of(repository, item)
    shown = [
        (group.get("published_setting", group["setting"]), row["published"], row.get("published_note", ""))
        for group in spec["groups"]
        for row in group["rows"]
        if "published" in row
    ]
    rows = read_csv(repository / spec["published"])
    noted = {(setting, model) for setting, model, note in shown if note}
    printed = {
        (row["setting"], row["model"], row["note"] if (row["setting"], row["model"]) in noted else "") for row in rows
    }
    assert sorted(shown) == sorted(printed)


def test_every_published_number_reaches_a_cell(repository, scores):
    for item in TABLES:
        spec = spec_of(repository, item)
        table = build(spec, made_up.make_context(repository, scores))
        cells = [cell.published for row in table.rows for cell in row.cells if cell.published is not None]
        values = [row["value"] for row in read_csv(repository / spec["published"])]
        if spec.get("published_scale") == 100:
            values = [value.replace("0.", "", 1)[:2] + "." + value[4:] for value in values]
        assert sorted(cells) == sorted(values), item


def printed_wrong(repository: Path, item: str) -> set[str]:
    """`setting / model` of the rows of which the errata say that a cell or the average is wrong."""
    rows = read_csv(repository / "config/published/errata.csv")
    return {row["row"] for row in rows if f"{row['paper']}/{row['item']}" == item and row["kind"] == "average"}


def test_published_averages_recompute_except_for_the_rows_with_an_erratum(repository, scores):
    checked = 0
    for item in TABLES:
        spec = spec_of(repository, item)
        table = build(spec, made_up.make_context(repository, scores))
        for group, of_spec in zip(table.groups, spec["groups"], strict=True):
            setting = of_spec.get("published_setting", of_spec["setting"])
            for row in group.rows:
                if row.model is None or f"{setting} / {row.model}" in printed_wrong(repository, item):
                    continue
                by_column = {}
                for column, cell in zip(table.columns, row.cells, strict=True):
                    if cell.published is not None:
                        by_column.setdefault((column.task, column.metric), {})[column.language] = float(cell.published)
                for values in by_column.values():
                    average = values.pop(AVERAGE, None)
                    if average is not None and values:
                        assert abs(sum(values.values()) / len(values) - average) < 0.1, (item, row.label)
                        checked += 1
    assert checked > 100


def as_scored(repository: Path, scores: Path, item: str, items: Iterable[str], setting: str) -> list[Row]:
    """The rows of an item, with the numbers that `items` print as our scores, of one seed: where only an average is
    printed, one language stands for it. Tatoeba's number is taken as that of the direction en-xx."""
    by_run: dict[tuple[str, str], dict] = {}
    names = {"em": "exact-match"}
    for other in items:
        for row in read_csv(repository / f"config/published/{other}.csv"):
            if row["setting"] == setting and row["metric"] not in (GAP, "average") and "‡" not in row["note"]:
                task, metric = row["task"].removesuffix("-36"), names.get(row["metric"], row["metric"])
                by_run.setdefault((row["model"], task), {})[row["language"], metric] = float(row["value"])
    for (run, task), values in by_run.items():
        entries = []
        if len({language for language, _ in values}) > 1:
            values = {key: value for key, value in values.items() if key[0] != AVERAGE}
        for (language, metric), value in values.items():
            both = {"layer": 7, "direction": "both"} if task == "tatoeba" else {}
            entries.append(made_up.entry(language, value, metric, **both))
            if both:
                entries.append(made_up.entry(language, value, f"{metric}-by-layer", layer=7, direction="en-xx"))
        made_up.write_score(scores, run, task, "cross-lingual-transfer", 1, entries)
    spec = spec_of(repository, item)
    spec["groups"] = [
        {
            "title": group["title"],
            "setting": "cross-lingual-transfer",
            "published_setting": setting,
            "rows": [
                row | {"run": row["published"]}
                for row in group["rows"]
                if "published" in row and "‡" not in row.get("published_note", "")
            ],
        }
        for group in spec["groups"]
        if group["setting"] == setting
    ]
    for column in spec["columns"]:
        column.pop("setting", None)
        if len(next(values for (_, task), values in by_run.items() if task == column["task"])) < 3:
            column["languages"] = [AVERAGE]
    context = every_task(repository, scores, runs=[run for run, _ in by_run])
    return build(spec, context).rows


@pytest.mark.parametrize(
    ("item", "setting", "rows"),
    [
        ("xlm-e/table-01", "cross-lingual-transfer", 6),
        ("veco/table-01", "cross-lingual-transfer", 5),
        ("veco/table-01", "translate-train-all", 2),
    ],
)
def test_the_averages_of_xtreme_that_the_papers_print_follow_from_their_tasks(repository, scores, item, setting, rows):
    printed = 0
    for row in as_scored(repository, scores, item, [item], setting):
        cell = row.cells[-1]
        if cell.published is None:
            # mT5 and InfoXLM: not every task is printed
            assert cell.summary is None and cell.reason.startswith("not every task of the average has a score: ")
        elif f"{setting} / {row.model}" in printed_wrong(repository, item):
            assert (row.model, cell.published, round(cell.summary.mean, 2)) == ("veco-large", "73.1", 73.32)
        else:
            assert cell.summary.mean == pytest.approx(float(cell.published), abs=0.0501), row.model
        printed += cell.published is not None
    assert printed == rows


@pytest.mark.parametrize(
    ("item", "sources", "wrong"),
    [
        # XLM-R's gap on MLQA, which the average carries on, belongs to other numbers than those of table 3
        (
            "ernie-m/table-07",
            ["ernie-m/table-01", "ernie-m/table-03"],
            {("xlm-r-base", "mlqa"), ("xlm-r-base", "average")},
        ),
        # mBERT's rows are those that VECO copies from the same source; its gap on MLQA does not follow from them
        ("xlm-e/table-05", [f"veco/table-{n}" for n in (10, 11, 13, 14, 15)], {("mbert", "mlqa")}),
    ],
)
def test_the_gaps_that_the_papers_print_follow_from_their_tables(repository, scores, item, sources, wrong):
    rows = as_scored(repository, scores, item, sources, "cross-lingual-transfer")
    columns = [column["task"] for column in spec_of(repository, item)["columns"]] + ["average"]
    checked = 0
    for row in rows:
        if item == "ernie-m/table-07" and row.model == "mbert":
            continue  # ERNIE-M has no row of mBERT for XNLI
        for task, cell in zip(columns, row.cells, strict=False):
            if cell.summary is None or cell.published is None:
                continue
            close = abs(cell.summary.mean - float(cell.published)) < 0.15  # from rounded numbers
            assert close != ((row.model, task) in wrong), (row.model, task, cell.summary.mean, cell.published)
            checked += 1
    assert checked >= 5


def test_models_and_papers_of_the_specs_are_described(repository):
    with open(repository / "config/published/models.tsv", encoding="utf-8") as file:
        known = {row["key"] for row in csv.DictReader(file, delimiter="\t")}
    for item in PUBLISHED:
        assert {
            row["model"] for row in read_csv(repository / f"config/published/{item}.csv") if "model" in row
        } <= known
    assert {item.split("/")[0] for item in PUBLISHED} <= set(paper_names(repository))


def test_fractions_are_shown_in_per_cent(repository, scores):
    table = build(spec_of(repository, "ernie-m-blog/table-01"), made_up.make_context(repository, scores))
    assert [cell.published for cell in table.rows[0].cells][-2:] == ["74.87", "77.98"]
    assert [cell.published for cell in table.rows[1].cells][4:6] == ["88.18", "85.47"]
    assert "ERNIE-M base & 77.64 & 81.22 &" in render_latex(table)


# --- cells ----------------------------------------------------------------------------------------------------------


def test_the_exact_cells(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 50.0), 2: (62.0, 52.0), 3: (64.0, 54.0)})
    table = build(small_spec(), made_up.make_context(repository, scores))
    row = table.rows[0]
    assert reproduced_cell(row.cells[0], with_n=True) == r"$62.0 \pm 2.0$ (3)"
    assert reproduced_cell(row.cells[0], with_n=False) == r"$62.0_{\pm2.0}$"
    assert published_cell(row.cells[0]) == "85.8"
    assert [cell.published for cell in row.cells] == ["85.8", "78.7", "76.2"]
    assert (row.cells[2].summary.mean, row.cells[2].summary.n) == (57.0, 3)
    pairs = [r"85.8 & $62.0 \pm 2.0$ (3)", r"78.7 & $52.0 \pm 2.0$ (3)", r"76.2 & $57.0 \pm 2.0$ (3)"]
    line = " & ".join(["XLM-R", r"\texttt{xlm-r}", *pairs]) + r" \\"
    assert line in render_latex(table).splitlines()


def test_a_single_seed_has_no_deviation_and_a_small_value_is_padded():
    assert reproduced_cell(Cell(summary=Summary(61.26, None, 1)), with_n=True) == "$61.3$ (1)"
    assert reproduced_cell(Cell(summary=Summary(61.26, None, 1)), with_n=False) == "$61.3$"
    assert reproduced_cell(Cell(summary=Summary(9.94, 0.06, 3)), with_n=False) == (r"$\phantom{0}9.9_{\pm0.1}$")
    assert reproduced_cell(Cell(summary=Summary(9.96, 0.0, 3)), with_n=False) == r"$10.0_{\pm0.0}$"


def test_a_gap_may_be_negative_and_a_zero_has_no_sign():
    shown = [reproduced_cell(Cell(summary=Summary(value, None, 1)), with_n=False) for value in (-3.04, -0.04)]
    assert shown == ["${-}3.0$", r"$\phantom{0}0.0$"]
    assert summary_words(Summary(-0.04, None, 1)) == "0.0 (1)"


def test_missing_cells_are_dashes_with_a_reason_and_never_zero(repository, scores):
    table = build(small_spec(), made_up.make_context(repository, scores))
    reasons = [row.cells[0].reason for row in table.rows]
    assert reasons == [
        "no score file found; its jobs have not run",
        "published only: this row names no run",
        "run ernie-m-base has no file in config/runs yet",
        "no score file found; its jobs have not run",
    ]
    assert {reproduced_cell(cell, with_n=True) for row in table.rows for cell in row.cells} == {"--"}
    for form in make_table.RENDER.values():
        assert not re.search(r"(?<![\d.])0\.0(?!\d)", form(table))
    assert "No run of this item has scores" in render_latex(table)


def test_tasks_settings_and_languages_that_are_not_evaluated_say_so(repository, scores):
    made_up.write_all(scores)
    context = made_up.make_context(repository, scores)
    small = build(spec_of(repository, "ernie-m/table-08"), context)
    assert small.rows[0].cells[1].reason == "task conll-ner is not evaluated yet (no file in config/tasks)"
    ppa = build(spec_of(repository, "ppa/table-02"), context)
    mbert = ppa.groups[1].rows[0]
    assert mbert.cells[0].reason.startswith("published only: ")
    spec = spec_of(repository, "ppa/table-02")
    spec["groups"][1]["rows"][1]["run"] = "xlm"
    assert build(spec, context).groups[1].rows[1].cells[0].reason == "task xnli has no setting translate-train"
    wide = build(spec_of(repository, "ernie-m/table-01"), context)
    greek = [column.language for column in wide.columns].index("el")
    assert wide.rows[2].cells[greek].reason == "language not evaluated at scale mini"


# --- averages, bold, footnotes --------------------------------------------------------------------------------------


def test_average_over_all_languages_is_plain_and_over_fewer_is_starred(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 50.0), 2: (62.0, 52.0)})
    spec = small_spec()
    text = render_latex(build(spec, made_up.make_context(repository, scores)))
    assert "57" not in text and r"$56.0 \pm 1.4$ (2)" in text and r"\ast" not in text
    spec["columns"][0]["languages"] = ["en", "de", "sw"]
    table = build(spec, made_up.make_context(repository, scores))
    cell = table.rows[0].cells[-1]
    assert cell.partial == ("en", "de") and cell.summary.mean == 56.0
    text = render_latex(table)
    assert r"$56.0^{\ast}_{\pm1.4}$" in text
    assert "Mean over the 2 languages of this scale (en, de), not over those of the published average." in text


def best_of(
    *summaries: tuple[str, Summary], partial: tuple[tuple[str, ...], ...] = (), metric: str = "accuracy"
) -> list[bool]:
    rows = [
        Row(run, None, run, run, [Cell(summary=summary, partial=partial[i] if partial else ())])
        for i, (run, summary) in enumerate(summaries)
    ]
    name = GAP if metric == GAP else AVERAGE
    column = make_column({"task": "xnli", "metric": metric, "languages": ["en"]}, name, ["en"])
    mark_best(Group("", [""], rows, ""), [column])
    return [row.cells[0].best for row in rows]


@pytest.mark.parametrize("metric", ["error-rate", "error-rate-by-layer", GAP])
def test_where_less_is_better_the_lowest_is_bold(metric):
    lead = [("a", Summary(60.0, 1.0, 3)), ("b", Summary(58.9, 1.0, 3))]
    assert best_of(*lead, metric=metric) == [False, True]
    assert best_of(*lead, ("c", Summary(57.95, 1.0, 3)), metric=metric) == [False, False, False]
    assert best_of(("a", Summary(-3.0, 1.0, 3)), ("b", Summary(2.0, 1.0, 3)), metric=metric) == [True, False]


def test_bold_only_when_the_lead_exceeds_the_noise():
    lead = [("a", Summary(60.0, 1.0, 3)), ("b", Summary(58.9, 1.0, 3))]
    assert best_of(*lead) == [True, False]
    assert best_of(("a", Summary(59.9, 1.0, 3)), ("b", Summary(58.9, 1.0, 3))) == [False, False]
    assert best_of(("b", Summary(10.0, 1.0, 3)), *lead) == [False, True, False]
    assert best_of(("a", Summary(60.0, None, 1)), ("b", Summary(10.0, None, 1))) == [False, False]
    assert best_of(("a", Summary(60.0, 1.0, 3))) == [False]
    assert best_of(*lead, partial=(("en",), ("en", "de"))) == [False, False]


def test_a_row_that_learnt_nothing_is_never_the_best(repository, scores):
    """Untrained weights, fine-tuning that stays at chance, and a gap to an English that was not learnt."""

    def best(values: dict[str, float], english: float = 90.0, untrained: frozenset[str] = frozenset()) -> list[bool]:
        for run, value in values.items():
            noisy = {seed: (english if run != "xlm" else 90.0, value + seed / 10) for seed in (1, 2, 3)}
            write_pair(scores, run, noisy, rule="en_dev")
        context = dataclasses.replace(made_up.make_context(repository, scores), untrained=untrained)
        columns = [{**XNLI, "show": ["de", GAP]}]
        rows = build(small_spec(columns=columns), context).rows
        return [cell.best for row in rows if row.run in values for cell in row.cells]

    assert best({"xlm-r": 80.0, "xlm": 60.0}) == [True, True, False, False]
    assert best({"xlm-r": 80.0, "xlm": 60.0}, untrained=frozenset({"xlm-r"})) == [False] * 4
    # a third is chance: English at 34 has no gap, whatever the others are
    assert best({"xlm-r": 80.0, "xlm": 60.0}, english=34.0) == [False] * 4
    # well learnt for a score, not for a gap
    assert best({"xlm-r": 80.0, "xlm": 60.0}, english=42.0) == [True, False, False, False]
    # at chance in German, by a row that knows English: its gap counts
    assert best({"xlm-r": 33.4, "xlm": 20.0}) == [False, True, False, False]


def test_two_rows_of_one_run_do_not_compete():
    same = Summary(60.0, 1.0, 3)
    assert best_of(("a", same), ("a", same), ("b", Summary(50.0, 1.0, 3))) == [True, True, False]
    assert best_of(("a", same), ("a", same)) == [False, False]


def test_a_row_that_shares_another_runs_scores_has_a_footnote(repository, scores):
    made_up.write_all(scores)
    table = build(spec_of(repository, "ernie-m/table-08"), made_up.make_context(repository, scores))
    text = render_latex(table)
    assert r"\texttt{xlm-r-small}\textsuperscript{a}" in text
    assert r"\textsuperscript{a} At this scale xlm-r-small is xlm-r:" in text
    assert r"\texttt{xlm-small}\textsuperscript{b}" in text


def test_fewer_seeds_than_expected_are_told(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 50.0), 3: (62.0, 52.0)})
    text = render_latex(build(small_spec(), made_up.make_context(repository, scores)))
    words = "2 of 3 seeds have a score; seed 2: not run, or training diverged."
    assert r"\texttt{xlm-r}\textsuperscript{a}" in text and rf"\textsuperscript{{a}} {words}" in text
    assert "over 2 seeds" in text


def test_seeds_without_a_score_are_told_by_task_in_every_format(repository, scores):
    for seed in (1, 2, 3):
        write_tasks(scores, "xlm-r", {"xnli": {"accuracy": [60.0]}}, seed)
    write_tasks(scores, "xlm-r", {"mlqa": {"f1": [50.0]}}, 2)
    columns = [XNLI | {"languages": ["l0"]}, {"task": "mlqa", "metric": "f1", "languages": ["l0"]}]
    context = every_task(repository, scores, seeds=(1, 2, 3))
    table = build(small_spec(columns=columns), context)
    [row] = [row for row in table.rows if row.run == "xlm-r"]
    assert row.lacking == {("mlqa", "cross-lingual-transfer"): (1, 3)} and row.expected_seeds == (1, 2, 3)
    words = "mlqa: 1 of 3 seeds have a score; seeds 1, 3: not run, or training diverged."
    assert row_notes(row, table) == [words]
    for form in ("latex", "markdown", "html"):
        assert words in make_table.RENDER[form](table)
    complete = build(small_spec(columns=columns[:1]), context)
    assert all(not row.lacking for row in complete.rows)


def test_a_seed_that_an_average_over_tasks_lacks_is_told(repository, scores):
    for seed in (1, 2):
        write_tasks(scores, "xlm-r", {"xnli": {"accuracy": [60.0]}}, seed)
    languages = write_tasks(scores, "xlm-r", {"mlqa": {"f1": [50.0], "exact-match": [30.0]}}, 1)
    paths = [scores / f"xlm-r/{task}/cross-lingual-transfer/seed-{n}.json" for task in ("xnli", "mlqa") for n in (1, 2)]
    table = build(xtreme_spec(("xnli", "mlqa"), languages[:1]), every_task(repository, scores, seeds=(1, 2)))
    assert row_notes(table.rows[0], table) == [
        "mlqa: 1 of 2 seeds have a score; seed 2: not run, or training diverged."
    ]
    assert table.rows[0].cells[0].files == (paths[0], paths[2])


def test_a_seed_that_learnt_nothing_is_told_and_counted(repository, scores):
    def row_of(values: dict[int, tuple[float, ...]], rule: str | None) -> tuple[Table, Row]:
        write_pair(scores, "xlm-r", values, rule=rule)
        table = build(small_spec(), made_up.make_context(repository, scores))
        return table, next(row for row in table.rows if row.run == "xlm-r")

    at_chance = {1: (90.0, 40.0), 2: (34.0, 33.0), 3: (33.4, 60.0)}  # chance is a third
    table, row = row_of(at_chance, "en_dev")
    words = (
        "xnli cross-lingual-transfer: seeds 2, 3 no better than chance after fine-tuning (diverged, or nothing "
        "learnt), and counted."
    )
    assert row_notes(row, table) == [words] and row.cells[0].summary.n == 3
    for form in ("latex", "markdown", "html"):
        assert words in make_table.RENDER[form](table)
    # a gap is small where nothing was learnt, and there it must be told too
    spec = small_spec()
    spec["columns"] = [spec["columns"][0] | {"show": [GAP]}]
    gaps = build(spec, made_up.make_context(repository, scores))
    assert row_notes(next(row for row in gaps.rows if row.run == "xlm-r"), gaps) == [words]
    # at chance in German alone: a result, not a divergence
    table, row = row_of({1: (90.0, 20.0), 2: (34.5, 33.0), 3: (80.0, 60.0)}, "en_dev")
    assert not row_notes(row, table)
    table, row = row_of(at_chance, None)  # nothing was fine-tuned, so nothing diverged
    assert not row_notes(row, table)


def test_a_pretraining_that_was_fine_tuned_once_lacks_nothing(repository, scores):
    """Fine-tunings 7, 8 and 9 stand on pre-trainings 1, 2 and 3 at mini. What is not fine-tuned has no second time."""
    setting, english = "cross-lingual-transfer", [made_up.entry("l0", 60.0)]

    def notes(columns: list[dict]) -> list[str]:
        table = build(small_spec(columns=columns), every_task(repository, scores, seeds=(1, 2, 3, 7, 8, 9)))
        return row_notes(next(row for row in table.rows if row.run == "xlm-r"), table)

    for seed in (1, 2, 3):
        made_up.write_score(scores, "xlm-r", "xnli", setting, seed, english, rule="en_dev")
        made_up.write_score(scores, "xlm-r", "bucc", setting, seed, english)
    xnli = XNLI | {"languages": ["l0"]}
    assert notes([xnli, xnli | {"task": "bucc"}]) == ["xnli: each pre-training was fine-tuned once, not twice."]
    assert notes([xnli]) == ["Each pre-training was fine-tuned once, not twice."]
    made_up.write_score(scores, "xlm-r", "xnli", setting, 7, english, rule="en_dev")  # one of them came, two are lost
    assert notes([xnli]) == ["4 of 6 seeds have a score; seeds 8, 9: not run, or training diverged."]


def test_one_pretraining_that_is_evaluated_five_times_is_told(repository, scores):
    """At scale small and paper: nothing is fine-tuned for retrieval, so its five scores are one."""
    english = [made_up.entry("de", 60.0)]
    for seed in (1, 2, 3):
        made_up.write_score(scores, "xlm-r", "xnli", "cross-lingual-transfer", seed, english, rule="en_dev")
        made_up.write_score(scores, "xlm-r", "bucc", "zero-shot-retrieval", seed, english)
    bucc = {"task": "bucc", "metric": "accuracy", "languages": ["de"], "setting": "zero-shot-retrieval"}
    settings = {"xnli": ("cross-lingual-transfer",), "bucc": ("zero-shot-retrieval",)}
    context = made_up.make_context(repository, scores, tasks=settings, seeds=(1, 2, 3))
    scale = {key: value for key, value in context.config.scale.items() if key != "fine_tunings"} | {"pretrain_seeds": 1}
    tasks = {**context.config.tasks}
    tasks |= {"bucc": {**tasks["bucc"], "kind": "mining", "settings": {"zero-shot-retrieval": {"train": []}}}}
    context = dataclasses.replace(context, config=dataclasses.replace(context.config, scale=scale, tasks=tasks))
    table = build(small_spec(columns=[XNLI | {"languages": ["de"]}, bucc]), context)
    words = (
        "bucc zero-shot-retrieval: 3 seeds are 1 pre-training evaluated again, for nothing is fine-tuned: the "
        "deviation says nothing."
    )
    [row] = [row for row in table.rows if row.run == "xlm-r"]
    assert row_notes(row, table) == [words]


def test_with_reference_scores_too_a_lost_seed_is_told(repository, tmp_path):
    """The plan leaves out files that the repository does not have; a row still knows how many seeds there should be."""
    settings = ["scores_from=reference", "seeds=[1,2,3]", "items=[ernie-m/table-01]"]
    context, specs, _ = load_context(repository / "config/config.yaml", "mini", tmp_path, settings)
    for seed in (1, 3):
        need, english = ("xlm-r", "xnli", "cross-lingual-transfer"), [made_up.entry("en", 60.0)]
        made_up.write_score(tmp_path, *need, seed, english, config=context.config)
    rows = build(specs["ernie-m/table-01"], context).groups[0].rows
    [row] = [row for row in rows if row.run == "xlm-r"]
    assert row.lacking == {("xnli", "cross-lingual-transfer"): (2,)} and row.expected_seeds == (1, 2, 3)
    assert {cell.reason for cell in rows[0].cells} == {"not among the reference scores"}


def test_a_row_copied_in_the_wrong_order_is_shown_as_printed_and_marked(repository, scores):
    for item, model in (("ernie-m/table-01", "veco-large"), ("veco/table-10", "xlm-15")):
        table = build(spec_of(repository, item), made_up.make_context(repository, scores))
        marked = [row for row in table.rows if row.errata]
        assert {row.model for row in marked} == {model}
        text = render_latex(table)
        assert "Shown as printed; error of the publication: the row" in text
    # as printed, in VECO's column order, under ERNIE-M's heads
    table = build(spec_of(repository, "ernie-m/table-01"), made_up.make_context(repository, scores))
    row = next(row for row in table.rows if row.model == "veco-large")
    assert [cell.published for cell in row.cells[:4]] == ["88.2", "79.2", "83.1", "82.9"]


def test_rows_that_only_we_have_stand_apart(repository, scores):
    made_up.write_all(scores)
    text = render_latex(build(spec_of(repository, "veco/table-10"), made_up.make_context(repository, scores)))
    head, tail = text.split(OURS_ONLY)[:2]
    assert "VECO large & 88.2" in head and r"(\texttt{random-init}, $n=3$)" in tail


@pytest.mark.parametrize(
    ("scale", "world", "words"),
    [
        ("smoke", True, "its numbers mean nothing"),
        ("mini", True, "come from the generated mini-world and are not comparable in absolute value"),
        ("paper", False, "Scale paper."),
    ],
)
def test_the_caption_names_scale_and_world(repository, scores, scale, world, words):
    made_up.write_all(scores, scale)
    text = render_latex(
        build(spec_of(repository, "ernie-m/table-01"), made_up.make_context(repository, scores, scale, world))
    )
    caption = next(line for line in text.splitlines() if line.startswith(r"\caption"))
    assert words in caption and "ERNIE-M, table 1." in caption and "over 3 seeds" in caption
    assert ("mini-world" in caption) == world
    assert "Chance, at this scale & 33.3" in text


def test_failures_of_fine_tuning_are_shown_by_method(repository, scores):
    """Mean and deviation over seeds of the share of tries that failed; a method without a rule says so."""
    made_up.write_all(scores)
    for seed, tries in {1: [33.3, 97.0], 2: [98.0], 3: [98.0]}.items():
        path = scores / f"xlm-r/xnli/cross-lingual-transfer/seed-{seed}.json"
        selection = {"rule": "en_dev", "tries": tries, "below": 60.0, "restarts": len(tries) - 1}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"selection": selection}))
    table = build(spec_of(repository, "parallax/failures"), made_up.make_context(repository, scores))
    rows = {row.run: row for group in table.groups for row in group.rows}
    assert rows["xlm-r"].cells[0].values == {1: 50.0, 2: 0.0, 3: 0.0}
    assert rows["xlm"].cells[0].reason == "its recipe has no rule of restarts" and not rows["xlm"].cells[0].values
    assert "16.7" in render_latex(table) and table.columns[0].less_is_better


def test_summary_takes_its_languages_from_the_scores(repository, scores):
    made_up.write_all(scores)
    table = build(spec_of(repository, "parallax/summary"), made_up.make_context(repository, scores))
    assert [(c.task, c.language) for c in table.columns] == [
        ("xnli", "en"),
        ("xnli", AVERAGE),
        ("ud-pos", "en"),
        ("ud-pos", AVERAGE),
        ("tatoeba", AVERAGE),
    ]
    assert table.columns[1].languages == made_up.LANGUAGES
    assert table.columns[4].languages == tuple(code for code in made_up.LANGUAGES if code != "en")
    assert all(cell.summary and not cell.partial for row in table.rows for cell in row.cells)
    text = render_latex(table)
    assert "published" not in text.split(r"\midrule")[0].split(r"\toprule")[1]
    assert "Avg of XNLI, UD-POS: over ar, de, en, es, fr, hi, ru, zh." in text
    tagging = build(spec_of(repository, "parallax/tasks-tagging"), made_up.make_context(repository, scores))
    averages = [line for line in render_latex(tagging).splitlines() if line.startswith("Avg of ")]
    assert averages == [r"Avg of UD-POS, UD-POS accuracy: over ar, de, en, es, fr, hi, ru, zh.\par"]  # no score of NER


# --- gaps, averages over tasks, directions, one model for each language -----------------------------------------------


def gap_spec(languages: list[str] | str = ("en", "de", "fr")) -> dict:
    column = {"task": "xnli", "metric": "accuracy", "languages": list(languages), "show": ["en", AVERAGE, GAP]}
    return small_spec(columns=[column | ({"languages": "scale"} if languages == "scale" else {})])


def test_a_gap_is_taken_of_each_seed_and_then_over_seeds(repository, scores):
    seeds = {1: (60.0, 40.0, 30.0), 2: (64.0, 48.0, 50.0), 3: (62.0, 36.0, 38.0)}  # gaps 25, 15, 25
    write_pair(scores, "xlm-r", seeds, ("en", "de", "fr"))
    for languages in (["en", "de", "fr"], "scale"):
        table = build(gap_spec(languages), made_up.make_context(repository, scores))
        cell = table.rows[0].cells[2]
        assert cell.summary.mean == pytest.approx(65 / 3) and cell.summary.std == pytest.approx((100 / 3) ** 0.5)
        assert cell.summary.n == 3 and not cell.partial
        text = render_latex(table)
        assert r"Gap $\downarrow$" in text and r"$\downarrow$: less is better." in text
        assert "Gap: English minus the mean of the other languages." in text
    assert table.chance[2] is None and table.chance[1] == pytest.approx(100 / 3)
    assert "gap ↓" in render_markdown(table)


def test_others_are_the_languages_that_are_not_english(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 40.0, 30.0), 2: (64.0, 48.0, 50.0)}, ("en", "de", "fr"))
    spec = gap_spec("scale")
    spec["columns"][0] |= {"show": ["en", "others"], "average": True}
    table = build(spec, made_up.make_context(repository, scores))
    assert table.rows[0].cells[1].summary.mean == pytest.approx((35 + 49) / 2)
    assert table.chance[1] == pytest.approx(100 / 3)
    assert "others" in render_markdown(table)
    notes = [words for _, words in language_notes(table)]
    assert len(notes) == 1 and notes[0].startswith("Others of ") and notes[0].endswith(": over de, fr.")


def test_averages_that_are_the_same_at_this_scale_are_said_to_be(repository, scores):
    """As of XLM-E's 14 and 36 pairs where the scale has some of the 14. Not of numbers that happen to be equal."""
    column = {"task": "xnli", "metric": "accuracy", "average": True, "show": [AVERAGE]}
    codes = {"two": ["de", "fr"], "three": ["de", "fr", "es"], "one": ["de"]}
    columns = [column | {"languages": languages, "heading": name} for name, languages in codes.items()]
    write_pair(scores, "xlm-r", {1: (60.0, 50.0), 2: (61.0, 53.0)}, ("de", "fr"))
    table = build(small_spec(columns=columns), made_up.make_context(repository, scores))
    said = [words for _, words in language_notes(table) if "same languages" in words]
    assert said == ["two and three: the same languages at this scale, and so the same reproduced numbers."]
    assert said[0] in render_latex(table)


def test_a_gap_over_fewer_languages_is_starred(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 50.0)})
    table = build(gap_spec(), made_up.make_context(repository, scores))
    assert table.rows[0].cells[2].summary.mean == 10.0 and table.rows[0].cells[2].partial == ("en", "de")
    assert "Gap over the 2 languages of this scale (en, de), not over those of the published gap." in (
        render_latex(table)
    )


@pytest.mark.parametrize("languages", [("en",), ("de", "fr")])
def test_a_gap_needs_english_and_another_language(repository, scores, languages):
    write_pair(scores, "xlm-r", {1: (60.0,) * len(languages)}, languages)
    cell = build(gap_spec(), made_up.make_context(repository, scores)).rows[0].cells[2]
    assert cell.summary is None
    assert cell.reason == "the gap needs English and another language; scale mini lacks them"


def test_seeds_that_share_no_language_have_no_average(repository, scores):
    for seed, code in enumerate(("en", "de"), start=1):
        write_pair(scores, "xlm-r", {seed: (60.0,)}, (code,))
    cells = build(small_spec(), made_up.make_context(repository, scores)).rows[0].cells
    assert [cell.summary and cell.summary.n for cell in cells] == [1, 1, None]
    assert cells[2].reason == "no seed has a score of every language"


# XTREME's scorer on its mock data: task -> metric -> values by language (evaluation protocol, expected numbers)
MOCK = {
    "paws-x": {"accuracy": [50, 40, 50, 60, 60, 60, 40]},
    "xnli": {"accuracy": [30.666666666666668]},
    "wikiann-ner": {"f1": [57.50793650793652]},
    "ud-pos": {"f1": [70.21746048354693]},
    "bucc": {"f1": [50, 50, 50, 70]},
    "tatoeba": {"accuracy": [53.611111111111114]},
    "xquad": {"f1": [79.9586776859504], "exact-match": [77.27272727272727]},
    "mlqa": {"f1": [81.76870748299321], "exact-match": [57.142857142857146]},
    "tydiqa-goldp": {"f1": [97.22222222222223], "exact-match": [88.88888888888889]},
}
MOCK_GROUPS = {
    ("xnli", "paws-x"): 41.04761904761905,
    ("ud-pos", "wikiann-ner"): 63.862698495741725,
    ("xquad", "mlqa", "tydiqa-goldp"): 80.37568011593986,
    ("bucc", "tatoeba"): 54.30555555555556,
    tuple(MOCK): 62.17319850507246,
}


def xtreme_spec(tasks: Iterable[str], languages: Sequence[str] = ("en",)) -> dict:
    columns = []
    for task in tasks:
        for metric in XTREME[task]:
            column = {"task": task, "metric": metric, "languages": list(languages), "show": []}
            columns.append(column | ({"direction": "en-xx"} if task == "tatoeba" else {}))
    rows = [{"label": "ours", "run": "xlm-r"}, {"label": "other", "run": "xlm"}]
    groups = [{"title": "Transfer", "setting": "cross-lingual-transfer", "rows": rows}]
    averages = [{"xtreme": list(tasks), "heading": "XTREME"}]
    spec = small_spec(columns=columns, averages=averages, groups=groups)
    del spec["published"]
    return spec


def write_tasks(root: Path, run: str, values: dict[str, dict[str, list[float]]], seed: int = 1) -> list[str]:
    """Score files of tasks; Tatoeba's number is its direction en-xx, the other direction is 40 points below."""
    codes = [f"l{i}" for i in range(7)]
    for task, by_metric in values.items():
        entries = []
        for metric, of_language in by_metric.items():
            for code, value in zip(codes, of_language, strict=False):
                if task == "tatoeba":
                    entries.append(made_up.entry(code, value - 20, metric, 1.0, 7, "both"))
                    for direction, one in (("en-xx", value), ("xx-en", value - 40)):
                        entries.append(made_up.entry(code, one, f"{metric}-by-layer", 1.0, 7, direction))
                else:
                    entries.append(made_up.entry(code, value, metric))
        made_up.write_score(root, run, task, "cross-lingual-transfer", seed, entries)
    return codes


def every_task(repository: Path, scores: Path, seeds: Iterable[int] = (1,), **more: object) -> Context:
    """A context in which each task of XTREME has the setting cross-lingual-transfer, with one seed."""
    tasks = dict.fromkeys(XTREME, ("cross-lingual-transfer", "translate-train"))
    return made_up.make_context(repository, scores, tasks=tasks, seeds=seeds, **more)


@pytest.mark.parametrize("tasks", MOCK_GROUPS, ids=len)
def test_averages_over_tasks_are_those_of_xtremes_scorer(repository, scores, tasks):
    languages = write_tasks(scores, "xlm-r", MOCK)
    table = build(xtreme_spec(tasks, languages), every_task(repository, scores))
    (cell,) = table.rows[0].cells
    assert cell.summary.mean == pytest.approx(MOCK_GROUPS[tasks], abs=1e-12)
    assert [column.heading for column in table.columns] == ["XTREME"]


def test_an_average_over_tasks_is_taken_of_each_seed_and_only_from_all_tasks(repository, scores):
    tasks = ("xnli", "mlqa")
    for seed, (accuracy, f1, em) in {1: (60.0, 50.0, 30.0), 2: (62.0, 60.0, 40.0)}.items():
        values = {"xnli": {"accuracy": [accuracy]}, "mlqa": {"f1": [f1], "exact-match": [em]}}
        languages = write_tasks(scores, "xlm-r", values, seed)[:1]
    write_tasks(scores, "xlm", {"xnli": {"accuracy": [60.0]}})
    table = build(xtreme_spec(tasks, languages), every_task(repository, scores, seeds=(1, 2)))
    cell, other = (row.cells[0] for row in table.rows)
    assert (cell.summary.mean, cell.summary.n) == (53.0, 2)  # 50 and 56
    assert cell.summary.std == pytest.approx(18**0.5)
    assert table.chance == [pytest.approx(100 / 3)]
    assert other.summary is None
    assert other.reason == (
        "not every task of the average has a score: mlqa (no score file found; its jobs have not run)"
    )
    text = render_latex(table)
    assert "XTREME: unweighted mean over 2 tasks of their averages over languages, of mlqa the mean of F1 and" in text
    rows = list(csv.DictReader(render_csv(table).splitlines()))
    assert [(row["task"], row["metric"], row["mean"]) for row in rows] == [
        ("xtreme-2", "average", "53.0000"),
        ("xtreme-2", "average", ""),
    ]


def test_tasks_that_nothing_evaluates_are_named_once(repository, scores):
    write_tasks(scores, "xlm-r", {"xnli": {"accuracy": [60.0]}})
    spec = xtreme_spec(("xnli", "mlqa"))
    context = dataclasses.replace(every_task(repository, scores), tasks={"xnli": frozenset({"cross-lingual-transfer"})})
    assert build(spec, context).rows[0].cells[0].reason.count("task mlqa is not evaluated yet") == 1
    spec["groups"][0]["rows"] = [{"label": "theirs", "published": "unicoder"}]
    spec["published"] = "config/published/ernie-m/table-01.csv"
    assert build(spec, context).rows[0].cells[0].reason == "published only: this row names no run"


def test_the_tables_of_every_task_ask_for_the_same_runs_and_settings(repository):
    """Beside the scores of one job stand those of all: no table of this project's own trains a run for itself alone.
    An aligner is not trained, and has one task. Translation has models of its own."""
    beside = ("translation", "xlm-e-study", "real", "real-more")
    items = [path.stem for path in (repository / "config/tables/parallax").glob("*.yaml") if path.stem not in beside]
    assert {"tasks-understanding", "tasks-tagging", "tasks-answering", "tasks-retrieval", "gaps", "xtreme"} <= set(
        items
    )
    named = {item: [g["rows"] for g in spec_of(repository, f"parallax/{item}")["groups"]] for item in items}
    runs = {item: {row["run"] for rows in groups for row in rows} for item, groups in named.items()}
    of_real, of_more = (
        {row["run"] for group in spec_of(repository, f"parallax/{item}")["groups"] for row in group["rows"]}
        for item in ("real", "real-more")
    )
    assert of_more == of_real - {"fast-align"}
    scale = yaml.safe_load((repository / "config/scales/real.yaml").read_text(encoding="utf-8"))
    assert of_real == set(scale["runs"]) and of_more < runs["methods"] | runs["summary"] | {"random-init"}
    assert runs["tasks-retrieval"] >= {"fast-align"}
    runs["tasks-retrieval"] -= {"fast-align"}
    assert all(runs[item] == runs["summary"] | runs["methods"] for item in set(items) - {"summary", "methods"})
    columns = {
        item: {(c["task"], c["metric"]) for c in spec_of(repository, f"parallax/{item}")["columns"]} for item in items
    }
    tasks = set.union(*(columns[item] for item in items if item.startswith("tasks-")))
    assert {task for task, _ in tasks} == {*XTREME, "conll-ner", "flores", "word-alignment"}
    assert {pair for pair in columns["xtreme"] if pair[1] != "exact-match"} <= tasks >= columns["gaps"]


def test_every_table_of_mining_says_of_which_parts_its_numbers_are(repository):
    """The dev and test parts of XTREME's BUCC are the sample and training parts of the shared task."""
    specs = [spec_of(repository, f"{f.parent.name}/{f.stem}") for f in (repository / "config/tables").glob("*/*.yaml")]
    mining = [spec for spec in specs if "bucc" in {column["task"] for column in spec.get("columns", [])}]
    assert {spec["paper"] for spec in mining} == {"veco", "parallax"}
    for spec in mining:
        (note,) = (text for text in spec.get("notes", []) if "BUCC" in text)
        assert "training part of the shared task" in note and "sample part" in note


def test_the_direction_of_tatoeba_is_the_columns(repository, scores):
    languages = write_tasks(scores, "xlm-r", {"tatoeba": {"accuracy": [70.0, 80.0]}})[:2]
    spec = xtreme_spec(("tatoeba",), languages)
    for direction, mean in (("en-xx", 75.0), ("xx-en", 35.0), ("both", 55.0)):
        spec["columns"][0] |= {"direction": direction, "show": [AVERAGE]}
        table = build(spec, every_task(repository, scores))
        assert [cell.summary.mean for cell in table.rows[0].cells] == [mean, mean]
        assert f"tatoeba: {DIRECTION_WORDS[direction]}." in render_latex(table)
        direction_of = {row["task"]: row["direction"] for row in tidy_rows(table)}
        assert direction_of == {"tatoeba": direction, "xtreme-1": ""}


def test_a_mean_of_gaps_is_a_mean_of_columns(repository, scores):
    for task, gap in (("xnli", 10.0), ("mlqa", 20.0)):
        entries = [made_up.entry("en", 60.0, "f1"), made_up.entry("de", 60.0 - gap, "f1")]
        made_up.write_score(scores, "xlm-r", task, "cross-lingual-transfer", 1, entries)
    columns = [{"task": task, "metric": "f1", "languages": ["en", "de"], "show": [GAP]} for task in ("xnli", "mlqa")]
    averages = [{"tasks": ["xnli", "mlqa"], "of": GAP, "heading": "Average"}]
    table = build(small_spec(columns=columns, averages=averages), every_task(repository, scores))
    assert [cell.summary.mean for cell in table.rows[0].cells] == [10.0, 20.0, 15.0]
    assert all(column.less_is_better for column in table.columns)


def test_a_group_may_have_a_setting_of_its_own_for_a_task(repository, scores):
    write_tasks(scores, "xlm-r", {"xnli": {"accuracy": [60.0]}, "mlqa": {"f1": [50.0]}})
    made_up.write_score(scores, "xlm-r", "mlqa", "translate-train", 1, [made_up.entry("l0", 70.0, "f1")])
    columns = [XNLI | {"languages": ["l0"]}, {"task": "mlqa", "metric": "f1", "languages": ["l0"]}]
    spec = small_spec(columns=columns)
    spec["groups"][0]["settings"] = {"mlqa": "translate-train"}
    table = build(spec, every_task(repository, scores))
    assert [cell.summary.mean for cell in table.rows[0].cells] == [60.0, 70.0]
    assert table.groups[0].settings == ["cross-lingual-transfer", "translate-train"]
    columns[1]["setting"] = "cross-lingual-transfer"
    assert build(spec, every_task(repository, scores)).rows[0].cells[1].summary.mean == 70.0


def test_what_is_computed_is_what_a_group_says_for_its_tasks(repository):
    """VECO's second block: tags of the transfer models, retrieval of the best XNLI model."""
    config = load_config(repository, {"scale": "paper"})
    of_veco = {
        (task, setting)
        for run, task, setting in needs(config, config.tables["veco/table-01"])
        if run == canonical_run(config, "veco-large")
    }
    transfer = {(task, "cross-lingual-transfer") for task in XTREME if task not in ("bucc", "tatoeba")}
    pairs = {(task, "translate-train-all") for task in XTREME if task in ("xnli", "paws-x", "xquad", "mlqa")}
    retrieval = {(task, setting) for task in ("bucc", "tatoeba") for setting in ("zero-shot-retrieval", BEST)}
    assert of_veco == transfer | pairs | {("tydiqa-goldp", "translate-train-all")} | retrieval


def test_a_plain_make_trains_little_for_the_new_tables(repository):
    """What has no score at mini prints `--`; of the translations and human sets only what the papers' own rows name,
    and of retrieval what costs seconds."""
    config = load_config(repository, {"scale": "mini"})
    beyond = {need for need in all_needs(config) if need[2] not in ("cross-lingual-transfer", "zero-shot-retrieval")}
    assert beyond == {
        ("xlm-r", "conll-ner", "train-all"),
        *((run, "tatoeba", "retrieval-fine-tuned") for run in ("xlm", "xlm-r")),
        *((run, "tatoeba", "zero-shot-retrieval-centred") for run in ("xlm", "xlm-r")),
    }


def test_names_of_settings_with_a_model_for_each_language():
    known = {"translate-train", "translate-train-all"}
    assert split_setting("translate-train-de", known) == ("translate-train", "de")
    assert split_setting("translate-train-all", known) == ("translate-train-all", None)
    assert split_setting("translate-train", known) == ("translate-train", None)
    assert split_setting("cross-lingual-transfer", known) == ("cross-lingual-transfer", None)


def test_a_row_shows_the_model_of_each_language(repository, scores):
    for code, values in {"en": (60.0, 64.0), "de": (50.0, 52.0)}.items():
        for seed, value in enumerate(values, start=1):
            entries = [made_up.entry(code, value)]
            made_up.write_score(scores, "xlm-r", "xnli", f"translate-train-{code}", seed, entries)
    context = every_task(repository, scores, seeds=(1, 2), each=("translate-train",))
    spec = small_spec()
    spec["groups"][0] |= {"setting": "translate-train", "published_setting": "cross-lingual-transfer"}
    spec["columns"][0]["languages"] = ["en", "de", "fr"]
    table = build(spec, context)
    english, german, french, average = table.rows[0].cells
    assert (english.summary.mean, german.summary.mean) == (62.0, 51.0)
    assert french.reason == "language not evaluated at scale mini"
    assert average.summary.mean == 56.5 and average.partial == ("en", "de")
    assert average.summary.std == pytest.approx(4.5**0.5)  # of 55 and 58
    spec["columns"][0]["languages"] = "scale"
    assert [column.language for column in build(spec, context).columns] == ["de", "en", AVERAGE]


def test_a_table_wider_than_a_page_stands_in_panels_cut_between_tasks(repository, scores):
    def titles(widths: Sequence[int]) -> list[list[str]]:
        codes = [f"l{i}" for i in range(max(widths))]
        columns = [
            {"task": "xnli", "metric": "accuracy", "languages": codes[:width], "heading": f"T{i}"}
            for i, width in enumerate(widths)
        ]
        table = build(small_spec(columns=columns), made_up.make_context(repository, scores))
        panels = panels_of(table)
        assert [column for panel in panels for column in panel.columns] == table.columns
        for panel in panels:
            assert all(len(row.cells) == len(panel.columns) == len(panel.chance) for row in panel.rows)
        return [[f"{span[0].heading}x{len(span)}" for span in spans_of(panel.columns)] for panel in panels]

    assert titles([16]) == [["T0x16"]]
    assert titles([12, 12]) == [["T0x12"], ["T1x12"]]
    assert titles([40]) == [["T0x13"], ["T0x13"], ["T0x14"]]
    assert titles([6, 6, 6, 6]) == [["T0x6", "T1x6"], ["T2x6", "T3x6"]]
    spec = small_spec(columns=[{"task": "xnli", "metric": "accuracy", "languages": [f"l{i}" for i in range(20)]}])
    assert "{xnli}" not in render_latex(build(spec, made_up.make_context(repository, scores)))
    text = render_latex(build(spec, made_up.make_context(repository, scores)))
    assert text.count(r"\begin{longtable}") == 2 and text.count(r"\caption") == 1 and text.count(r"\label") == 1
    both = [column | {"heading": name} for name in ("F1", "EM") for column in spec["columns"]]
    text = render_latex(build(spec | {"columns": both}, made_up.make_context(repository, scores)))
    assert text.count(r"\multicolumn{10}{c}{F1}") == text.count(r"\multicolumn{10}{c}{EM}") == 4  # and when continued


# --- translation: the updates until a row is where another ends ------------------------------------------------------

BASE = "transformer-xbig"
GROUPS = {"random-init": (BASE,), "pretrained-init": ("xlm-r-large", "mbart", "veco-large", "veco-large-first-6")}
Curve = Sequence[float]


def write_curves(root: Path, run: str, curves: dict[int, Curve], language: str = "de") -> None:
    """Validation at every 100 updates, and as many points on the test part at the end, for each seed."""
    setting = next(name for name, runs in GROUPS.items() if run in runs)
    for seed, curve in curves.items():
        entries = [made_up.entry(language, curve[-1] + 1, metric, 0.0) for metric in ("sacrebleu", "bleu", "chrf")]
        entries += [
            made_up.entry(language, value, "sacrebleu-by-update", None) | {"update": 100 * i, "epoch": i / 4}
            for i, value in enumerate(curve, start=1)
        ]
        made_up.write_score(root, run, f"wmt14-en-{language}", setting, seed, entries)


def translation(repository: Path, scores: Path, **changes: object) -> Context:
    runs = [run for runs in GROUPS.values() for run in runs]
    tasks = dict.fromkeys(("wmt14-en-de", "wmt14-en-fr"), GROUPS)
    return dataclasses.replace(made_up.make_context(repository, scores, runs=runs, tasks=tasks), **changes)


def updates(repository: Path, scores: Path, language: str = "de") -> dict[str, Cell]:
    """Run -> its cell of the column that counts updates."""
    table = build(spec_of(repository, "parallax/translation"), translation(repository, scores))
    at = next(i for i, c in enumerate(table.columns) if c.reaches and c.language == language)
    return {row.run: row.cells[at] for row in table.rows}


def test_updates_are_counted_to_where_the_other_run_ends_on_average(repository, scores):
    write_curves(scores, BASE, {1: (5.0, 12.0, 10.0), 2: (4.0, 8.0, 12.0)})  # 11 on average; 12 was not the end
    write_curves(scores, "veco-large", {1: (6.0, 11.0, 13.0), 2: (11.5, 9.0, 14.0)})
    write_curves(scores, "mbart", {1: (3.0, 10.99, 11.0), 2: (1.0, 2.0, 30.0)})
    cells = updates(repository, scores)
    assert cells["veco-large"].values == {1: 200.0, 2: 100.0}
    assert cells["veco-large"].summary == Summary(150.0, pytest.approx(5000**0.5), 2)
    assert cells["mbart"].values == {1: 300.0, 2: 300.0}
    assert cells[BASE].values == {1: 200.0, 2: 300.0}  # itself: the mean of its ends may come earlier or never
    assert cells["veco-large"].best and not cells["mbart"].best
    assert cells["xlm-r-large"].reason == "no score file found; its jobs have not run"
    table = build(spec_of(repository, "parallax/translation"), translation(repository, scores))
    text = render_latex(table)
    assert r"$\mathbf{150}_{\pm71}$" in text and r"$300_{\pm0}$" in text
    assert (
        "En-De updates: the first snapshot that scores at least 11.0 on validation data, greedily, where transf" in text
    )
    assert r"ends on average over seeds; \textgreater{}N: no seed gets there in N updates." in text
    assert "| 150 ± 71 (2) |" in render_markdown(table)
    rows = [row for row in csv.DictReader(render_csv(table).splitlines()) if row["reaches"]]
    assert {row["run"]: row["mean"] for row in rows if row["language"] == "de"}["veco-large"] == "150.0000"
    assert {row["reaches"] for row in rows} == {BASE} and {row["chance"] for row in rows} == {""}


def test_pre_training_may_come_to_nothing(repository, scores):
    """The column can say that the pre-trained model is later, or never there, and then it is not bold."""
    write_curves(scores, BASE, {1: (5.0, 11.0, 11.0), 2: (4.0, 11.0, 11.0)})
    write_curves(scores, "veco-large", {1: (6.0, 7.0, 11.0), 2: (6.0, 8.0, 12.0)})
    write_curves(scores, "mbart", {1: (6.0, 7.0, 10.9), 2: (6.0, 8.0, 9.0)})
    cells = updates(repository, scores)
    assert cells[BASE].summary.mean == 200.0 < cells["veco-large"].summary.mean == 300.0
    assert (cells["mbart"].summary, cells["mbart"].beyond) == (None, 300)
    assert cells["mbart"].reason == "no seed reaches 11.0 in 300 updates"
    assert not any(cell.best for cell in cells.values())
    table = build(spec_of(repository, "parallax/translation"), translation(repository, scores))
    assert "$>300$" in render_latex(table)
    assert "| >300 |" in render_markdown(table)
    [row] = [
        row
        for row in csv.DictReader(render_csv(table).splitlines())
        if (row["run"], row["reaches"], row["language"]) == ("mbart", BASE, "de")
    ]
    assert (row["mean"], row["n"], row["reason"]) == ("", "", cells["mbart"].reason)


def test_where_some_seeds_never_get_there_a_mean_would_flatter(repository, scores):
    write_curves(scores, BASE, {seed: (5.0, 11.0) for seed in (1, 2, 3)})
    write_curves(scores, "veco-large", {1: (12.0, 10.0), 2: (6.0, 10.0), 3: (6.0, 11.0)})
    cell = updates(repository, scores)["veco-large"]
    assert (cell.summary, cell.beyond) == (None, None)
    words = "11.0 is reached by 2 of 3 seeds, after 100, 200 updates; by the others not in 200"
    assert cell.reason == words
    table = build(spec_of(repository, "parallax/translation"), translation(repository, scores))
    text, markdown = render_latex(table), render_markdown(table)
    [letter] = re.findall(rf"\\textsuperscript\{{(\w)\}} {words}\.", text)
    assert rf"--\textsuperscript{{{letter}}}" in text
    assert re.search(rf"\| --<sup>(\w)</sup> \|(.|\n)*<sup>\1</sup> {words}\.", markdown)


def test_without_the_other_run_nothing_can_be_reached(repository, scores):
    write_curves(scores, "veco-large", {1: (6.0, 11.0)})
    cells = updates(repository, scores)
    assert cells["veco-large"].reason == f"{BASE} has no score that could be reached"
    assert cells[BASE].reason == "no score file found; its jobs have not run"
    text = render_latex(build(spec_of(repository, "parallax/translation"), translation(repository, scores)))
    assert (
        "En-De updates: the first snapshot that scores at least as much on validation data, greedily, where trans"
        in text
    )


def test_each_language_has_an_end_of_its_own(repository, scores):
    for language, gain in (("de", 0.0), ("fr", 10.0)):
        write_curves(scores, BASE, {1: (5.0 + gain, 11.0 + gain)}, language)
        write_curves(scores, "veco-large", {1: (12.0, 15.0)}, language)
    assert updates(repository, scores)["veco-large"].values == {1: 100.0}
    assert updates(repository, scores, "fr")["veco-large"].beyond == 200


def test_the_curves_ask_for_no_model_that_the_tables_do_not_have(repository):
    config = load_config(repository, {"scale": "mini", "runs": "all"})
    specs = {item: spec for item, spec in config.specs.items() if "wmt14-en-de" in str(spec.get("columns"))}
    of = {item: set(needs(config, spec)) for item, spec in specs.items()}
    assert set(of) == {"parallax/translation", "veco/table-03", "veco/table-04", "veco/figure-04"}
    assert of["veco/figure-04"] <= of["parallax/translation"] & of["veco/table-03"] & of["veco/table-04"]
    base = canonical_run(config, BASE, "wmt14-en-fr")
    assert (base, "wmt14-en-fr", "random-init") in of["parallax/translation"]


def test_columns_of_one_language_are_named_by_their_titles_alone(repository, scores):
    write_curves(scores, BASE, {1: (5.0, 11.0)})
    context = translation(repository, scores)
    for item, lines in (
        (
            "veco/table-03",
            [r"Model & \multicolumn{1}{l}{En-Fr BLEU} & \multicolumn{1}{l}{En-Fr sacreBLEU} & \multicolumn{1}{l}{En-"],
        ),
        ("veco/table-04", ["Model & Run & published & Parallax & published & Parallax"]),
        (
            "parallax/translation",
            [r"\multicolumn{1}{l}{En-De updates $\downarrow$} &", r"Model & Run & \multicolumn{1}{l}{En-De sacreBLEU}"],
        ),
    ):
        text = render_latex(build(spec_of(repository, item), context))
        assert all(line in text for line in lines), item
    assert r"Transformer xBig (24 + 6) & 42.8 & 40.3 & 28.6 & 27.7 \\" in render_latex(
        build(spec_of(repository, "veco/table-03"), context)
    )


# --- formats, bytes, errors -----------------------------------------------------------------------------------------


MEAN = "the mean over the dev sets of all languages"


def selected_notes(table) -> tuple[list[str], dict[str, str]]:
    """The line on selection, and run -> what its marks say, in LaTeX; Markdown says the same."""
    text = render_latex(table)
    lettered = dict(re.findall(r"^\\textsuperscript\{(\w)\} (.*selected on .*)\\par$", text, re.M | re.I))
    marked = {}
    for run, marks in re.findall(r"\\texttt\{([^}]*)\}((?:\\textsuperscript\{\w\})*)", text):
        marked[run] = " ".join(lettered[m] for m in re.findall(r"\{(\w)\}", marks) if m in lettered)
    usual = re.findall(r"^Fine-tuned models: (.*)\\par$", text, re.M)
    markdown = render_markdown(table)
    assert re.findall(r"^Fine-tuned models: (.*)$", markdown, re.M) == usual
    assert re.findall(r"^<sup>\w</sup> (.*)$", markdown, re.M) == list(lettered.values())
    return usual, {run: words for run, words in marked.items() if words}


def test_what_chose_the_weights_is_said_of_what_was_fine_tuned(repository, scores):
    made_up.write_all(scores)
    table = build(spec_of(repository, "veco/table-10"), made_up.make_context(repository, scores))
    usual, marked = selected_notes(table)
    assert usual == ["selected on English dev data, unless marked."]
    assert marked == {row.run: f"Selected on {MEAN}." for row in table.groups[1].rows if row.seeds} != {}
    retrieval = build(spec_of(repository, "xlm-e/table-03"), made_up.make_context(repository, scores))
    assert any(row.seeds for row in retrieval.rows) and selected_notes(retrieval) == ([], {})
    rows = list(csv.DictReader(render_csv(table).splitlines()))
    assert {(row["setting"], row["selection"]) for row in rows if row["mean"]} == set(made_up.SELECTION.items())
    assert {row["selection"] for row in rows if not row["mean"]} == {""}


def test_rows_that_another_rule_chose_are_marked(repository, scores):
    def write(run: str, rules: dict[str, str | None]) -> None:
        for task, rule in rules.items():
            entries = [made_up.entry(code, 60.0, metric) for code in ("en", "de") for metric in XTREME[task]]
            made_up.write_score(scores, run, task, "cross-lingual-transfer", 1, entries, rule=rule)

    columns = [{"task": task, "metric": XTREME[task][0], "languages": ["en", "de"]} for task in ("xnli", "paws-x")]
    spec = small_spec(columns=columns, groups=[{"title": "Transfer", "setting": "cross-lingual-transfer", "rows": []}])
    spec["groups"][0]["rows"] = [{"label": run, "run": run} for run in ("xlm-r", "xlm", "random-init")]
    del spec["published"]

    def notes(**rules: dict[str, str | None]) -> tuple[list[str], dict[str, str]]:
        for run, of_run in rules.items():
            write(run.replace("_", "-"), of_run)
        return selected_notes(build(spec, every_task(repository, scores)))

    english, mean = {"xnli": "en_dev", "paws-x": "en_dev"}, {"xnli": "mean_dev", "paws-x": "mean_dev"}
    assert notes(xlm_r=english, xlm=english) == (["selected on English dev data."], {})
    assert notes(random_init=mean) == (
        ["selected on English dev data, unless marked."],
        {"random-init": f"Selected on {MEAN}."},
    )
    assert notes(xlm={"xnli": "en_dev", "paws-x": "mean_dev"}, random_init=english) == (
        ["selected on English dev data, unless marked."],
        {"xlm": f"paws-x: selected on {MEAN}."},
    )
    assert notes(xlm=mean, random_init=mean) == (
        [f"selected on {MEAN}, unless marked."],
        {"xlm-r": "Selected on English dev data."},
    )
    assert notes(xlm_r={"xnli": None, "paws-x": "mean_dev"}) == ([f"selected on {MEAN}."], {})


@pytest.mark.parametrize("form", sorted(make_table.RENDER))
def test_the_same_scores_are_the_same_bytes(repository, scores, form):
    made_up.write_all(scores)
    render = make_table.RENDER[form]
    once, twice = (
        render(build(spec_of(repository, "ernie-m/table-01"), made_up.make_context(repository, scores)))
        for _ in range(2)
    )
    assert once == twice and once.isascii() == (form not in ("markdown", "html"))


def test_csv_has_every_cell_and_no_difference_between_worlds(repository, scores):
    made_up.write_all(scores, "paper")
    for world, has_difference in ((True, False), (False, True)):
        context = made_up.make_context(repository, scores, "paper", world)
        table = build(spec_of(repository, "ernie-m/table-01"), context)
        rows = list(csv.DictReader(render_csv(table).splitlines()))
        assert len(rows) == len(table.rows) * 16
        assert any(row["difference"] for row in rows) == has_difference
        assert all(bool(row["mean"]) != bool(row["reason"]) for row in rows)
    english = next(row for row in rows if row["run"] == "xlm-r" and row["language"] == "en")
    assert float(english["difference"]) == pytest.approx(float(english["mean"]) - 85.8, abs=1e-3)


def test_markdown_shows_both_lines(repository, scores):
    write_pair(scores, "xlm-r", {1: (60.0, 50.0), 2: (62.0, 52.0), 3: (64.0, 54.0)})
    text = render_markdown(build(small_spec(), made_up.make_context(repository, scores)))
    assert "| XLM-R | published | 85.8 | 78.7 | 76.2 |" in text
    assert "| XLM-R | `xlm-r` | 62.0 ± 2.0 (3) | 52.0 ± 2.0 (3) | 57.0 ± 2.0 (3) |" in text
    assert "| ERNIE-M | `ernie-m-base` | -- | -- | -- |" in text


def test_latex_specials_are_escaped_and_other_scripts_refused():
    assert escape(r"a_b & 100 % of #1 {x} ~ ^ \ $") == (
        r"a\_b \& 100 \% of \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$"
    )
    assert escape("x -- y --- z – é") == "x -{}- y -{}-{}- z -- é"
    with pytest.raises(UserError, match="U\\+0420"):
        escape("Русский")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "unknown key 'colour'"),
        ({"columns": []}, "at least one entry"),
        ({"published_scale": 10}, "key 'published_scale': 10 is not 100"),
        ({"columns": [{"task": "xnli", "metric": "accuracy", "languages": ["en", False]}]}, "YAML reads it as false"),
        ({"columns": [{"task": "xnli", "metric": "accuracy", "languages": ["en", "en"]}]}, "stands twice"),
        ({"columns": [{"task": "xnli", "languages": ["en"]}]}, "columns entry 1: key 'metric' is missing"),
        ({"groups": [{"title": "t", "setting": "s", "rows": [{"label": "x"}]}]}, "rows entry 1 .* needs 'published'"),
        ({"columns": [XNLI | {"direction": "de-en"}]}, "columns entry 1, key 'direction': 'de-en' is none of"),
        ({"columns": [XNLI | {"languages": ["de", "fr"], "show": [GAP]}]}, "'gap' needs 'en' among the languages"),
        ({"columns": [XNLI | {"metric": "error-rate", "show": [GAP]}]}, "of metrics where more is better"),
        ({"columns": [XNLI | {"reaches": "xlm-r"}]}, "'reaches': is for one language and a metric by update"),
        (
            {"columns": [XNLI | {"metric": "sacrebleu-by-update", "reaches": "xlm-r"}]},
            "'reaches': is for one language and a metric by update",
        ),
        (
            {"columns": [XNLI | {"metric": "sacrebleu-by-update", "languages": ["de"], "reaches": "xlm-e-base"}]},
            "columns entry 1, key 'reaches': no row has run xlm-e-base; add one",
        ),
        ({"averages": [{"heading": "A"}]}, "averages entry 1: needs one of 'xtreme'"),
        ({"averages": [{"heading": "A", "tasks": ["xnli"], "of": "en"}]}, "key 'of': 'en' is neither"),
        ({"averages": [{"heading": "A", "tasks": ["mlqa"]}]}, "key 'tasks': no column of mlqa"),
        ({"averages": [{"heading": "A", "xtreme": ["conll-ner"]}]}, "'conll-ner' is no task of it"),
        (
            {"averages": [{"heading": "A", "xtreme": ["mlqa"]}]},
            "mlqa counts with one column of each of f1, exa",
        ),
        ({"columns": [XNLI, XNLI], "averages": [{"heading": "A", "xtreme": ["xnli"]}]}, "has accuracy, accuracy"),
        (
            {"columns": [XNLI | {"task": "tatoeba"}], "averages": [{"heading": "A", "xtreme": ["tatoeba"]}]},
            "column of tatoeba needs a 'direction'",
        ),
    ],
)
def test_a_wrong_spec_is_refused_with_file_and_key(tmp_path, change, message):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(small_spec(**change)))
    with pytest.raises(UserError, match=message) as error:
        load_spec(path)
    assert str(path) in str(error.value)


def test_a_published_model_that_is_not_printed_or_printed_twice_is_an_error(repository, scores):
    context = made_up.make_context(repository, scores)
    spec = small_spec()
    spec["groups"][0]["rows"][0]["published"] = "xlm-q"
    with pytest.raises(UserError, match="no row of model 'xlm-q'"):
        build(spec, context)
    spec = spec_of(repository, "ppa/table-02")
    del spec["groups"][0]["rows"][0]["published_note"]
    with pytest.raises(UserError, match="stands 2 times; tell the rows apart by 'published_note'"):
        build(spec, context)


def test_a_diverged_score_stops_the_table_with_the_file_named(repository, scores):
    write_pair(scores, "xlm-r", {1: (float("nan"), 50.0)})
    with pytest.raises(UserError, match=r"xlm-r/xnli/cross-lingual-transfer/seed-1\.json.*NaN"):
        build(small_spec(), made_up.make_context(repository, scores))


def test_the_command_as_the_workflow_runs_it(repository, tmp_path):
    """With the real configuration and no score at all: everything prints, nothing is zero."""
    out = tmp_path / "t.tex"
    command = [sys.executable, "workflow/scripts/make_table.py", "--spec", "config/tables/veco/table-10.yaml"]
    command += ["--scale", "mini", "--scores-root", str(tmp_path / "none"), "--out", str(out)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "VECO large & 88.2" in out.read_text()
    done = subprocess.run([*command, "--override", "runs"], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--override runs: write key=value" in done.stderr


def test_making_a_table_loads_no_heavy_package(repository):
    code = "import sys; sys.path.insert(0, 'workflow/scripts'); import make_table; " + (
        "print([m for m in ('pandas', 'numpy', 'torch', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_table_of_many_notes_goes_on_after_z():
    notes = Notes()
    letters = [notes.letter(str(number)) for number in range(28)]
    assert letters[0] == "a" and letters[25:] == ["z", "aa", "ab"] and notes.letter("3") == "d"
