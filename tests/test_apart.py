"""Training text and test sets apart: near duplicates, the command that says what was removed, and the check that shares
no code with the cleaning (tests/apart.py)."""

import json
import sys

import numpy as np
import pytest

import apart
import report_test_sentences
from corpus.characters import normalise_lines
from corpus.corpusio import header_line, load_thresholds, zst_writer
from corpus.eval_index import build_index, read_units
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles, signatures_of
from corpus.words import words_of

NEAR = json.dumps({"decontamination": {"similarity": 0.5}})
TEST = "The harbour master counted seven grey boats before the storm reached the village."
NEARLY = "The harbour master counted eight grey boats before the storm reached the village."
OTHER = "The harbour is closed and nobody counted the boats this morning."


@pytest.fixture(scope="module")
def thresholds(repository):
    path = repository / "config/cleaning.yaml"
    return [load_thresholds(path, section, NEAR) for section in ("decontamination", "duplicates")]


def near_index(tests: list[str], thresholds) -> NearIndex:
    own, shingles = thresholds
    return NearIndex(signatures_of(words_of(tests), shingles)[0], shingles, own.similarity)


def test_a_line_that_nearly_is_a_test_sentence_is_found(thresholds):
    index = near_index([TEST, "Short one."], thresholds)
    lines = [NEARLY, OTHER, TEST, "", "Short one."]
    assert resembles(words_of(lines), index).tolist() == [True, False, True, False, False]
    assert not resembles(words_of(lines), None).any()
    assert not resembles(words_of([]), index).any()


def test_near_duplicates_are_those_of_the_exact_share(thresholds):
    """MinHash against the share of equal runs of two words that it estimates, counted in full."""
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{i}" for i in range(400)])
    tests = [" ".join(rng.choice(vocabulary, 14)) for _ in range(60)]
    lines = []
    for test in tests:
        words = test.split()
        for _ in range(rng.integers(0, 8)):
            words[rng.integers(14)] = str(rng.choice(vocabulary))
        lines.append(" ".join(words))
    found = resembles(words_of(lines), near_index(tests, thresholds))
    for test, line, near in zip(tests, lines, found.tolist(), strict=True):
        one, other = apart.runs(test.split()), apart.runs(line.split())
        share = len(one & other) / len(one | other)
        if abs(share - 0.5) > 0.2:  # four deviations of an estimate from 96 values
            assert near == (share > 0.5), share


def test_the_independent_check_finds_what_is_planted():
    tests = apart.Tests([TEST, "I know.", "她昨天在图书馆看了三本关于海洋的书。", "東京"])
    assert tests.verdict(f"He wrote: {TEST.upper()} Then he left.") == "whole"
    assert (
        tests.verdict("the hárbour  master, counted seven grey boats before the storm reached the village") == "whole"
    )
    assert tests.verdict(NEARLY) == "near"
    assert tests.verdict(OTHER) is None
    assert tests.verdict("I know!") == "whole" and tests.verdict("I know you.") is None
    dates = apart.Tests(["11 September 2001", "the 11 September 2001 report"])
    assert dates.verdict("It was 11 September 2001 when") is None and dates.verdict("11 September 2001.") == "whole"
    assert dates.verdict("He read the 11 September 2001 report.") == "whole"
    assert tests.verdict("他说她昨天在图书馆看了三本关于海洋的书") == "whole"


FILES = {
    "a/panx/dev-de.tsv": ("Bonn\tB-LOC\nliegt\tO\n\nKöln\tB-LOC\n", ["Bonn liegt", "Köln"]),
    "a/wikiann/es/test.conllu": ("0\tLa\tO\n1\tPaz\tB-LOC\n\n", ["La Paz"]),
    "a/WikiANN/de/test": ("de:Bonn\tB-LOC\nde::\tO\n\n", ["Bonn :"]),
    "x-ud-test.conllu": ("# text = One two .\n1\tOne\t_\n", ["One two ."]),
    "zh-en.dev.zh": ("zh-1\t海\nzh-2\t山\n", ["海", "山"]),
    "q.json": (
        json.dumps({"data": [{"paragraphs": [{"context": "A b.", "qas": [{"question": "What?"}]}]}]}),
        ["A b.", "What?"],
    ),
    "plain": ("one\ntwo\n", ["one", "two"]),
}
TASKS = ("wikiann-ner", "wikiann-ner", "wikiann-ner", "ud-pos", "bucc", "tydiqa-goldp", "flores")


@pytest.mark.parametrize(("name", "task"), list(zip(FILES, TASKS, strict=True)))
def test_both_readers_know_every_form_of_a_test_set(tmp_path, name, task):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text, expected = FILES[name]
    path.write_text(text, encoding="utf-8")
    assert [unit for unit in apart.units(path) if unit.strip()] == expected
    assert list(read_units(task, path)) == expected


def test_the_report_counts_what_was_there_and_what_is_left(tmp_path, repository, monkeypatch, capsys):
    (tmp_path / "tests.txt").write_text(f"{TEST}\n", encoding="utf-8")
    folder = tmp_path / "corpus/mono/c/en"
    pairs = tmp_path / "corpus/bitext/c/de-en"
    for path in (folder, pairs):
        path.mkdir(parents=True)
    with zst_writer(folder / "0.raw.zst") as stream:
        stream.write(header_line(["f"], "mono") + f"0\t1\tSo: {TEST}\n\n0\t2\t{NEARLY}\n\n0\t3\t{OTHER}\n\n")
    with zst_writer(folder / "0.clean.txt.zst") as stream:
        stream.write(f"{OTHER}\n\n")
    with zst_writer(pairs / "0.raw.zst") as stream:
        stream.write(header_line(["f"], "bitext") + f"0\t1\tSieben Boote.\t{TEST}\n")
    with zst_writer(pairs / "0.clean.tsv.zst") as stream:
        stream.write(f"Sieben Boote.\t{TEST}\n")
    arguments = [
        "--corpus",
        tmp_path / "corpus",
        "--task",
        f"text={tmp_path / 'tests.txt'}",
        "--out",
        tmp_path / "r.tsv",
    ]
    arguments += ["--config", repository / "config/cleaning.yaml", "--overrides", NEAR]
    monkeypatch.setattr(sys, "argv", ["report", *map(str, arguments)])
    report_test_sentences.main()
    _, row = (tmp_path / "r.tsv").read_text(encoding="utf-8").splitlines()
    assert row.split("\t") == ["text", "1", "1", "1", "1", "0", "1"]
    monkeypatch.setattr(
        sys, "argv", ["apart", "--clean", str(tmp_path / "corpus"), "--tests", str(tmp_path / "tests.txt")]
    )
    assert apart.main() == 1
    assert "1 test sentences and 0 near ones in 3 lines of 2 files" in capsys.readouterr().out


def test_what_is_left_of_real_pairs_holds_no_test_sentence(mirror, thresholds):
    """Of Tatoeba's v1 much is among the pairs that Tatoeba gives out today: the cleaning's look, then the other one."""
    github = mirror / "raw.githubusercontent.com"
    opus = github / "Helsinki-NLP/OPUS-MT-testsets/ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180/testsets"
    for code, pair, own in (("tha", "eng-tha", "tha"), ("hin", "eng-hin", "hin")):
        test_file = github / f"facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.{code}-eng.{code}"
        text = (opus / pair / f"tatoeba-test-v2021-08-07.{own}").read_text(encoding="utf-8").splitlines()
        texts, codes = normalise_lines(text)
        words = words_of(texts, codes)
        index = EvalIndex(build_index([("tatoeba", test_file)], thresholds[0]))
        units = list(read_units("tatoeba", test_file))
        gone = leaked(words, index) | resembles(words, near_index(units, thresholds))
        tests = apart.Tests(apart.units(test_file))
        before = [line for line in texts if tests.verdict(line)]
        kept = [line for line, out in zip(texts, gone.tolist(), strict=True) if not out]
        assert len(before) > 400 and len(kept) > len(text) / 3
        assert [line for line in kept if tests.verdict(line)] == []
