"""The smoke scale for real, twice from nothing: it ends with a document, and repeats byte for byte."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plan.load import load_config
from report.scores import items_of
from tasks.known import TASKS
from trees import copy_tree, edit, planned, snakemake

pytestmark = pytest.mark.e2e

MADE = ("results/smoke/runs/*/*/model.safetensors", "results/smoke/scores/**/seed-*.json")
COMPARED = ("results/smoke/scores.tsv", "results/tables/**/*.tex", "results/figures/**/*.p*")


def products(tree: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(tree)): path.read_bytes() for glob in COMPARED for path in sorted(tree.glob(glob))}
    assert {"results/smoke/scores.tsv", "results/tables/all.tex"} <= found.keys()
    return found


@pytest.fixture(scope="module")
def built(smoke, tmp_path_factory) -> Path:
    return Path(shutil.copytree(smoke, tmp_path_factory.mktemp("e2e") / "tree", symlinks=True))


def test_nothing_is_left_to_do(built):
    done = snakemake(built, "--dry-run", "--config", "scale=smoke", "--", "tables", "results/index.html")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_a_lost_table_or_figure_is_made_again(built):
    """Though its inputs are as they were, and the document that includes it is there."""
    lost = [built / "results/tables/ernie-m/table-16.tex", built / "results/figures/ernie-m/figure-05.pdf"]
    kept = [path.rename(path.with_suffix(".kept")) for path in lost]
    try:
        assert planned(built, "tables") == {"make_table": 1, "plot_figure": 1, "make_document": 1}
    finally:
        for path, name in zip(kept, lost, strict=True):
            path.rename(name)


def test_scores_hold_every_run_task_and_language(built):
    header, *rows = [line.split("\t") for line in (built / "results/smoke/scores.tsv").read_text().splitlines()]
    rows = [dict(zip(header, row, strict=True)) for row in rows]
    assert {"run", "task", "setting", "language", "metric", "value", "seed", "n", "task_version", "run_hash"} <= set(
        header
    )
    for run in ("random-init", "xlm-r", "xlm"):
        for task, languages in (("xnli", 4), ("ud-pos", 4), ("tatoeba", 3)):
            assert len({row["language"] for row in rows if (row["run"], row["task"]) == (run, task)}) == languages
    assert all(0 <= float(row["value"]) <= 100 for row in rows)
    assert {row["run"] for row in rows} == {"fast-align", "random-init", "xlm", "xlm-r"}
    assert len({row["run_hash"] for row in rows}) == 4
    assert {row["task"] for row in rows if row["run"] == "fast-align"} == {"word-alignment"}


def test_the_test_items_of_every_score_add_up_to_it(built):
    """The headline score of each task again from its items; BLEU alone is no ratio of sums."""
    counted = set()
    for path in sorted((built / "results/smoke/scores").rglob("seed-*.json")):
        content = json.loads(path.read_text())
        for language, of_metric in content.get("items", {}).items():
            for metric in of_metric:
                above, below = items_of(content, language, metric)
                ratio = 100 * sum(above) / sum(below)
                entries = [e for e in content["scores"] if (e["language"], e["metric"]) == (language, metric)]
                value = next(e["value"] for e in entries if e.get("direction") in (None, "both"))
                # answers to questions are kept to four digits
                assert (100 - ratio if metric == "error-rate" else ratio) == pytest.approx(value, abs=0.005), path
                counted.add(content["task"])
    left_out = load_config(built, {"scale": "smoke"}).scale["left_out"]
    assert counted == {task for task in TASKS if not task.startswith("wmt14")} - left_out.keys()


def test_the_document_says_which_scale_it_shows(built):
    tables = "".join(path.read_text(encoding="utf-8") for path in sorted((built / "results/tables").rglob("*.tex")))
    assert "smoke" in tables and "mini-world" in tables
    assert (built / "results/tables/ernie-m/table-01.tex").read_text(encoding="utf-8").count("--") > 0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH")
def test_the_document_compiles(built):
    snakemake(built, "--cores", "1", "--config", "scale=smoke", "--", "results/tables/all.pdf")
    pdf = (built / "results/tables/all.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    if shutil.which("pdfinfo"):
        done = subprocess.run(
            ["pdfinfo", "results/tables/all.pdf"], cwd=built, capture_output=True, text=True, check=True
        )
        assert int(re.search(r"^Pages: +(\d+)", done.stdout, re.MULTILINE).group(1)) >= 3


def test_a_second_run_from_nothing_gives_the_same_bytes(built, repository, tmp_path, request):
    """With another hash seed. Of the scores those of a few runs, and all with --whole; that tables and figures are the
    same bytes again is tried in test_reference.py too."""
    again = copy_tree(repository, tmp_path / "again", own_reference=False)
    whole = request.config.getoption("--whole")
    wanted = () if whole else ("runs=[xlm,fast-align]", "--", "scores")
    snakemake(again, "--cores", "2", "--config", "scale=smoke", *wanted, PYTHONHASHSEED="77")
    if whole:
        first, second = products(built), products(again)
        assert first.keys() == second.keys()
        assert [name for name in first if first[name] != second[name]] == []
    made = [path.relative_to(again) for glob in MADE for path in sorted(again.glob(glob))]
    assert {path.parts[3] for path in made} == {"xlm", "fast-align"} | ({"xlm-r", "random-init"} if whole else set())
    assert len(made) > 15 and not [path for path in made if (again / path).read_bytes() != (built / path).read_bytes()]


def test_a_killed_workflow_continues_its_training(built, tmp_path):
    """kill -9 of Snakemake and all that it started: the next call goes on from the checkpoint, to the same weights."""
    target = "results/smoke/runs/xlm/seed-1/model.safetensors"
    weights = {}
    for name in ("whole", "killed"):
        tree = Path(shutil.copytree(built, tmp_path / name, symlinks=True))
        edit(tree, "config/scales/smoke.yaml", "schedule: {steps: 30", "schedule: {steps: 300")
        if name == "killed":
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", "scale=smoke", "--", target]
            environment = os.environ | {"PATH": path}
            process = subprocess.Popen(
                command, cwd=tree, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
            )
            deadline = time.monotonic() + 120
            while not list(tree.glob("results/smoke/runs/xlm/seed-1/state/*/step-*.pt")):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert not (tree / target).exists()
            snakemake(tree, "--unlock", "--config", "scale=smoke")
        snakemake(tree, "--cores", "1", "--rerun-incomplete", "--config", "scale=smoke", "--", target)
        log = (tree / "results/smoke/logs/pretrain/xlm/seed-1.log").read_text()
        assert ("continuing after step" in log) == (name == "killed")
        weights[name] = (tree / target).read_bytes()
    assert weights["killed"] == weights["whole"]


def test_two_translation_models_for_real(built, tmp_path):
    """From the built tree to a table: two models, one from VECO. BLEU is that of the command of sacreBLEU."""
    tree = Path(shutil.copytree(built, tmp_path / "tree", symlinks=True))
    table = "results/tables/veco/table-03.tex"
    chosen = ("scale=smoke", "runs=[veco-large,transformer-xbig]", "items=[veco/table-03]")
    snakemake(tree, "--cores", "2", "--config", *chosen, "--", table)
    assert (tree / table).exists() and not list(tree.glob("results/smoke/translators/**/snapshots"))
    [gold] = (tree / "results/smoke/raw").rglob("eng-deu/newstest2014.deu")
    translated = sorted((tree / "results/smoke/predictions").glob("*/wmt14-en-de/*/seed-1/test-de.txt"))
    assert len(translated) == 2
    for said in translated:
        where = said.parent.relative_to(tree / "results/smoke/predictions")
        command = [sys.executable, "-m", "sacrebleu", str(gold), "-i", str(said), "-b", "-w", "10"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        content = json.loads((tree / f"results/smoke/scores/{where}.json").read_text())
        [found] = [one for one in content["scores"] if one["metric"] == "sacrebleu"]
        assert f"{found['value']:.10f}" == done.stdout.strip()
        assert [one["update"] for one in content["scores"] if one["metric"] == "sacrebleu-by-update"] == [10, 20]
