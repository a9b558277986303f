"""XTREME's layout: made-up predictions, gathered, and read back by our score.py from that folder."""

import json
import sys
from pathlib import Path

import pytest

import gather_submission
import score
from common.errors import UserError
from tasks import mlqa, tatoeba, xnli


def folder_of(root: Path, task: str, setting: str) -> Path:
    folder = root / "predictions/xlm-r" / task / setting / "seed-1"
    folder.mkdir(parents=True)
    said = {"setting": setting, "scale": "mini", "run_hash": "0123456789abcdef"}
    (folder / "predictions.json").write_text(json.dumps(said))
    return folder


@pytest.fixture()
def predictions(tmp_path) -> Path:
    own = folder_of(tmp_path, "xnli", "cross-lingual-transfer")
    for language in gather_submission.NAMES["xnli"][1].split():
        xnli.write_predictions(own / f"test-{language}.tsv", ["neutral", "entailment", "neutral", "neutral"])
    own = folder_of(tmp_path, "mlqa", "cross-lingual-transfer")
    mlqa.write_predictions(own / "test-de.tsv", {"1": "same"})
    mlqa.write_predictions(own / "test-de-en.tsv", {"1": "other"})
    own = folder_of(tmp_path, "tatoeba", "zero-shot-retrieval")
    tatoeba.write_predictions(own / "test-de.tsv", [0, 1, 0, 3])
    (own / "layers-de.tsv").write_text("not XTREME's\n")
    return tmp_path / "predictions/xlm-r"


def gather(monkeypatch, predictions: Path, out: Path, *settings: str) -> Path:
    words = ["--predictions", predictions, "--settings", *settings, "--out", out]
    monkeypatch.setattr(sys, "argv", ["gather_submission.py", *map(str, words)])
    gather_submission.main()
    return out


def scored(monkeypatch, tmp_path: Path, task: str, gold: str, file: Path) -> float:
    (tmp_path / "gold").mkdir(exist_ok=True)
    (labels := tmp_path / "gold/test-de.tsv").write_text(gold)
    out = tmp_path / f"{task}.json"
    words = ["--task", task, "--language", "de", "--gold", labels, "--predictions", file, "--out", out]
    monkeypatch.setattr(sys, "argv", ["score.py", *map(str, words)])
    score.main()
    return json.loads(out.read_text())["scores"][0]["value"]


def test_the_layout_is_xtremes_and_is_read_back(predictions, tmp_path, monkeypatch):
    out = gather(monkeypatch, predictions, tmp_path / "out", "cross-lingual-transfer", "zero-shot-retrieval")
    there = {path.relative_to(out / "predictions").as_posix() for path in (out / "predictions").rglob("test-*")}
    codes = gather_submission.NAMES["xnli"][1].split()
    assert there == {"mlqa/test-de.json", "tatoeba/test-de.tsv", *(f"xnli/test-{code}.tsv" for code in codes)}
    assert json.loads((out / "predictions/mlqa/test-de.json").read_text()) == {"1": "same"}
    gold = "neutral\nentailment\ncontradiction\nneutral\n"
    assert scored(monkeypatch, tmp_path, "xnli", gold, out / "predictions/xnli/test-de.tsv") == 75.0
    assert scored(monkeypatch, tmp_path, "tatoeba", "0\n1\n2\n3\n", out / "predictions/tatoeba/test-de.tsv") == 75.0


def test_the_readme_says_what_is_missing(predictions, tmp_path, monkeypatch):
    said = (gather(monkeypatch, predictions, tmp_path / "out", "cross-lingual-transfer") / "README.md").read_text()
    assert "- xnli: cross-lingual-transfer, scale mini, run hash 0123456789abcdef; complete" in said
    assert "; lacks ar, en, es, hi, vi, zh, so XTREME's evaluator stops at it" in said
    assert "- tatoeba: missing" in said and "- panx: missing" in said


def test_nothing_to_gather_and_a_folder_in_the_way_are_one_line(predictions, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="no predictions of unheard-of, seed 1; predict first"):
        gather(monkeypatch, predictions, tmp_path / "out", "unheard-of")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="is there already"):
        gather(monkeypatch, predictions, tmp_path, "cross-lingual-transfer")


@pytest.mark.parametrize("text", [None, "", "[]", '{"setting": "x"}', "[" * 200_000])
def test_predictions_that_do_not_say_what_they_are_of_are_one_line(predictions, tmp_path, monkeypatch, text):
    path = predictions / "xnli/cross-lingual-transfer/seed-1/predictions.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(UserError, match=r"seed-1/predictions\.json: does not say what it is of .*; delete the folder"):
        gather(monkeypatch, predictions, tmp_path / "out", "cross-lingual-transfer")
