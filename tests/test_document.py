"""The document: what it holds, what it says of missing cells, and that pdflatex sets it without a complaint."""

import re
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import compile_document
import made_up
import make_document
from common.errors import UserError
from report.context import Context, load_context
from report.figure_style import save
from report.figures import draw
from report.ledger import AGREED, summary_lines
from report.table_latex import render_latex
from report.table_spec import load_spec
from report.tables import build, column_setting

TABLES = ("parallax/summary", "ernie-m/table-01", "ernie-m/table-08", "ppa/table-02", "veco/table-10")
FIGURE = "xlm-e/figure-03"
NAMES = ["all.tex", "audit.tex", "claims.tex", "missing.tex"]


def make_all(repository: Path, root: Path, context) -> Path:
    """Every table, the figure and the document below `root`, laid out as in results/."""
    specs = {item: load_spec(repository / f"config/tables/{item}.yaml") for item in TABLES}
    figure_spec = load_spec(repository / f"config/figures/{FIGURE}.yaml")
    items = make_document.Items([(spec, build(spec, context)) for spec in specs.values()], [figure_spec])
    for item, (_, table) in zip(specs, items.tables, strict=True):
        path = root / "tables" / f"{item}.tex"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_latex(table), encoding="utf-8")
    figure = draw(figure_spec, context)
    save(figure, root / f"figures/{FIGURE}.pdf", "pdf")
    plt.close(figure)
    out, missing = root / "tables/all.tex", root / "tables/missing.tex"
    listed = make_document.list_missing(items, context)
    missing.write_text(make_document.render_missing(listed), encoding="utf-8")
    sections = [(title, about, root / f"tables/{title.lower()}.tex") for title, about in make_document.SECTIONS]
    for title, _, path in sections:
        path.write_text(f"\\section*{{{title}}}\nNothing here.\n")
    out.write_text(
        make_document.render_document(
            context,
            context.description,
            items,
            sections,
            out,
            root / "tables",
            root / "figures",
            missing,
        ),
        encoding="utf-8",
    )
    return out


@pytest.fixture(scope="module")
def document(repository, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("document")
    made_up.write_all(root / "scores")
    return make_all(repository, root, made_up.make_context(repository, root / "scores"))


def complaints(tex: Path, folder: Path) -> tuple[list[str], int]:
    """What the log of the last pass complains about, and the number of pages."""
    folder.mkdir()
    compile_document.compile_document(tex, folder)
    log = (folder / f"{tex.stem}.log").read_text(encoding="utf-8", errors="replace")
    found = [line for line in log.splitlines() if "Warning:" in line or "Missing character" in line]
    found += [match[0] for match in re.finditer(r"Overfull \\[hv]box \((\d+\.\d+)pt.*", log) if float(match[1]) > 10]
    return found, int(re.search(r"\((\d+) pages?", log)[1])


needs_pdflatex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")


@needs_pdflatex
def test_it_compiles_without_a_complaint(document, tmp_path):
    found, pages = complaints(document, tmp_path / "full")
    assert found == []
    assert 8 <= pages <= 12
    assert sorted(path.name for path in document.parent.iterdir() if path.is_file()) == NAMES


@needs_pdflatex
def test_it_compiles_without_any_score(repository, tmp_path):
    context = made_up.make_context(repository, tmp_path / "none", "paper", world=False)
    found, _ = complaints(make_all(repository, tmp_path, context), tmp_path / "empty")
    assert found == []


@needs_pdflatex
def test_the_pdf_is_the_same_bytes_twice(document, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        compile_document.compile_document(document, tmp_path / name)
    assert (tmp_path / "a/all.pdf").read_bytes() == (tmp_path / "b/all.pdf").read_bytes()


@needs_pdflatex
def test_it_compiles_in_its_own_folder_by_hand(document, tmp_path):
    """As the README says: cd results/tables && pdflatex all.tex."""
    copy = shutil.copytree(document.parent.parent, tmp_path / "results")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=copy / "tables", capture_output=True, check=False)
    assert done.returncode == 0 and (copy / "tables/all.pdf").exists()


@needs_pdflatex
def test_an_error_of_latex_is_told_with_its_line(tmp_path):
    tex = tmp_path / "bad.tex"
    tex.write_text("\\documentclass{article}\\begin{document}\n\\nosuchmacro\n\\end{document}\n")
    with pytest.raises(UserError, match=r"bad\.tex: pdflatex fails: ! Undefined control sequence. l\.2"):
        compile_document.compile_document(tex, tmp_path)


def write_wide(repository: Path, spec: dict, root: Path) -> Context:
    """Scores with a deviation of two figures for every run; every other language is missing, so that averages have
    a star."""
    tasks: dict[str, set[str]] = {}
    for group in spec["groups"]:
        runs = [row["run"] for row in group["rows"] if "run" in row]
        for column in spec["columns"]:
            task, setting, of_scale = column["task"], column_setting(column, group), column["languages"] == "scale"
            tasks.setdefault(task, set()).add(setting)
            entries = {}
            for metric in {c["metric"] for c in spec["columns"] if c["task"] == task}:
                for code in made_up.LANGUAGES if of_scale else column["languages"][::2]:
                    headline = made_up.entry(code, 77.7, metric, layer=7, direction="both")
                    entries[code, metric] = headline | {"update": 90000, "epoch": 9.5}
                    for way in ("en-xx", "xx-en"):
                        by_layer = made_up.entry(code, 77.7, f"{metric}-by-layer", layer=7, direction=way)
                        entries[code, metric, way] = by_layer
            for run in runs:
                for seed in (1, 2):
                    changed = [entry | {"value": 77.7 - 20 * seed} for entry in entries.values()]
                    made_up.write_score(root, run, task, setting, seed, changed)
    runs = frozenset(row["run"] for group in spec["groups"] for row in group["rows"] if "run" in row)
    return made_up.make_context(repository, root, runs=runs, tasks=tasks, seeds=(1, 2), same={})


@needs_pdflatex
def test_every_table_fits_its_page(repository, tmp_path):
    tables = []
    for path in sorted((repository / "config/tables").glob("*/*.yaml")):
        spec = load_spec(path)
        if "compare" in spec:  # test_comparisons.py
            continue
        scores = tmp_path / "scores" / spec["paper"] / spec["item"]
        tables.append(build(spec, write_wide(repository, spec, scores)))
    lines = [make_document.PREAMBLE, r"\begin{document}"]
    lines += [text for table in tables for text in (render_latex(table), r"\clearpage")]
    tex = tmp_path / "tables.tex"
    tex.write_text("\n".join([*lines, r"\end{document}", ""]), encoding="utf-8")
    (tmp_path / "out").mkdir()
    compile_document.compile_document(tex, tmp_path / "out")
    log = (tmp_path / "out/tables.log").read_text(encoding="utf-8", errors="replace")
    assert re.findall(r"Overfull \\[hv]box.*|Missing character.*", log) == []


def test_it_includes_every_item_by_relative_path_once(document):
    text = document.read_text()
    included = re.findall(r"\\(?:input|includegraphics\[[^]]*\])\{([^}]*)\}", text)
    assert included == [*TABLES, f"../figures/{FIGURE}.pdf", "claims", "audit", "missing"]
    assert str(document.parent) not in text


def test_the_front_page_says_what_it_is(document):
    text = document.read_text()
    assert r"Audit & what follows from the papers' own numbers, computed again & \pageref{section:Audit} \\" in text
    assert r"Scale & \texttt{mini}: made-up\_scores \& 100 \% noise \\" in text
    assert "Data & the generated mini-world" in text and r"Seeds & 1, 2, 3 \\" in text
    assert r"\texttt{xlm} (also as xlm-small)" in text and "not comparable in absolute value" in text
    assert r"\texttt{sw}~Swahili" in text and r"\texttt{nl}~Dutch" in text
    assert text.isascii()


def test_every_missing_cell_is_listed_with_its_reason(repository, document):
    context = made_up.make_context(repository, document.parent.parent / "scores")
    text = (document.parent / "missing.tex").read_text()
    for item in TABLES:
        table = build(load_spec(repository / f"config/tables/{item}.yaml"), context)
        listed = make_document.missing_cells(table)
        for group in table.groups:
            for row in group.rows:
                name = f"{row.label} ({row.run})" if row.run else row.label
                missing = [cell for cell in row.cells if cell.summary is None]
                told = [line for line in listed if line[:2] == (group.title, name)]
                assert {cell.reason for cell in missing} <= {line[3] for line in told}
                if missing and len(missing) < len(row.cells) and item != "ernie-m/table-08":
                    codes = {c.language for c, cell in zip(table.columns, row.cells, strict=True) if not cell.summary}
                    assert codes == {code for line in told for code in line[2].split(", ")}
    reasons = text.split(r"\addlinespace")
    [own] = [block for block in reasons if r"Run \texttt{ernie-m-base}" in block]
    assert "run ernie-m-base has no file in config/runs yet & ERNIE-M, table 1" in own
    [own] = [block for block in reasons if r"Run \texttt{xlm-r}" in block]
    assert "language not evaluated at scale mini & ERNIE-M, table 1: el, bg, tr, vi, th, sw, ur;" in own
    [own] = [block for block in reasons if r"Run \texttt{xlm-small}" in block]
    assert "mean without el, bg, tr, vi, th, sw, ur:" in own and "ERNIE-M, table 8: XNLI avg" in own
    [own] = [block for block in reasons if r"Run \texttt{xlm-e-base}" in block]
    assert "XLM-E, figure 3: curve" in own


def test_a_run_stands_in_the_appendix_once_with_its_reasons():
    first = [("A", "x (one)", "en", "why"), ("A", "y (two)", "all", "why"), ("B", "x, again (one)", "de", "why")]
    second = [("A", "z (one)", "all", "else"), ("A", "MMTE", "all", "not public")]
    assert make_document.by_run([("table 1", first), ("table 2", second)]) == {
        "one": {"why": ["table 1: en, de"], "else": ["table 2"]},
        "two": {"why": ["table 1"]},
        "": {"not public": ["table 2: MMTE"]},
    }


def test_a_document_without_gaps_says_so():
    assert "Every cell of every item has a number." in make_document.render_missing([("ERNIE-M, table 1", [])])


def test_the_same_scores_are_the_same_bytes(repository, document, tmp_path):
    made_up.write_all(tmp_path / "scores")
    again = make_all(repository, tmp_path, made_up.make_context(repository, tmp_path / "scores"))
    for name in ("all.tex", "missing.tex", *(f"{item}.tex" for item in TABLES)):
        assert (again.parent / name).read_bytes() == (document.parent / name).read_bytes()


def test_a_picture_of_masks_rests_on_no_run_and_says_so(repository, tmp_path):
    spec = load_spec(repository / "config/figures/ernie-m/figure-02.yaml")
    context = made_up.make_context(repository, tmp_path)
    assert make_document.list_missing(make_document.Items([], [spec]), context) == [("ERNIE-M, figure 2", [])]
    text = "\n".join(make_document.figure_lines(spec, context, "figure-02.pdf"))
    assert "Drawn from the predicates that training uses" in text and "standard deviation" not in text


def test_at_paper_every_cell_has_a_run_or_says_why_it_has_none(repository, tmp_path):
    context, tables, figures = load_context(repository / "config/config.yaml", "paper", tmp_path)
    items = make_document.Items(
        [(spec, None if "compare" in spec else build(spec, context)) for spec in tables.values()], [*figures.values()]
    )
    reasons = {reason for _, rows in make_document.list_missing(items, context) for *_, reason in rows}
    waits = (
        r"no score file found|no corpus/counts\.json|no summary of its training|the record of the training of .* is not"
    )
    waits += r"|not every task of the average has a score: .*no score file found"
    explained = {reason for reason in reasons if not re.match(waits, reason)}
    told = (
        r"published only: (?!this row)|this project does not train it|run fast-align aligns words|run [\w-]+ reads none"
    )
    told += r"|run [\w-]+ has (an embedding of each language|distances)|a run does not name its architecture"
    told += r"|(run|task) [\w-]+ is not for scale paper: "
    assert [reason for reason in explained if not re.match(told, reason)] == []
    assert 5 < len(explained) < 30


@needs_pdflatex
def test_the_counts_of_claims_fit_their_page(tmp_path):
    """With every verdict in use and the longest name of a row."""
    counts = dict.fromkeys(AGREED, 61)
    ledger = {"agree": ["mini", "mini-2"], "summary": [{"name": "mini and mini-2 agree, corrected", "counts": counts}]}
    lines = [make_document.PREAMBLE, r"\begin{document}", *summary_lines(ledger), r"\end{document}", ""]
    (tmp_path / "counts.tex").write_text("\n".join(lines), encoding="utf-8")
    assert complaints(tmp_path / "counts.tex", tmp_path / "out") == ([], 1)
