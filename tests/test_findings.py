"""What the page says of methods: derived from scores alone, corrected, and silent where there is too little."""

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import made_up
from plan.evidence import score_hash
from plan.load import load_config
from report import findings, findings_html
from report.findings import Task

XNLI = Task("xnli", "cross-lingual-transfer", "accuracy", "XNLI")


@pytest.fixture(scope="module")
def config(repository):
    return load_config(repository, {"scale": "mini", "runs": "all"})


@pytest.fixture
def scores(config, tmp_path) -> Path:
    made_up.write_all(tmp_path / "scores", config=config)
    return tmp_path / "scores"


def found(config, scores: Path) -> findings.Findings:
    return findings.find(config.tables, config, scores, scores.parent / "trainings")


def by_heading(one: findings.Findings) -> dict[str, Task]:
    return {task.heading: task for task in one.tasks}


def test_the_best_is_the_one_with_the_best_scores(config, scores):
    one = found(config, scores)
    task = by_heading(one)["XNLI"]
    assert list(one.scores[task]) == ["xlm", "xlm-r"]
    assert (one.best(task), one.best(task, parallel=False)) == ("xlm", "xlm-r")
    assert one.beaten(task, "xlm") == ["xlm-r"] and one.beaten(task, "xlm-r") == []
    difference, interval, pair = one.ahead(task, "xlm", "xlm-r")
    turned, other, _ = one.ahead(task, "xlm-r", "xlm")
    assert difference == pytest.approx(12, abs=1) and turned == -difference
    assert other == (-interval[1], -interval[0]) and pair.decided


def test_a_task_of_which_a_scale_evaluates_english_alone_is_read_in_english(repository):
    smoke = load_config(repository, {"scale": "smoke"})
    tydiqa = Task("tydiqa-goldp", "cross-lingual-transfer", "f1", "TyDiQA")
    assert findings.measure_of(smoke, "xlm", tydiqa).languages == ("en",)
    assert findings.measure_of(smoke, "xlm", XNLI).languages == ("de", "hi", "zh")
    others = dataclasses.replace(findings.measure_of(smoke, "xlm", tydiqa), languages=("sw", "ru"))
    for unknown in (others, dataclasses.replace(others, languages=("en", "ru"), gap=True)):
        with pytest.raises(findings.Missing, match="none of its languages"):
            findings.values_of(findings.Evidence(smoke, Path("scores"), Path("trainings")), unknown)


def test_beside_the_best_stands_an_encoder_that_was_never_trained(config, scores):
    one = found(config, scores)
    task = by_heading(one)["XNLI"]
    assert "random-init" not in one.scores[task]
    floor = findings.reached(findings.Evidence(config, scores, scores.parent), "random-init", task)
    assert one.untrained[task] == floor and floor.mean < one.scores[task]["xlm-r"].mean
    assert not any(kept.of_reference for kept in one.untrained.values())
    shutil.rmtree(scores / "random-init")
    page = findings_html.findings_html(found(config, scores), None, config.tie, [])
    assert f">{floor.mean:.1f} (3)<" not in page
    assert f">{floor.mean:.1f} (3)<" in findings_html.findings_html(one, None, config.tie, [])


def test_where_no_untrained_encoder_was_tried_the_reference_s_stands_there_and_says_so(repository, tmp_path):
    plain = load_config(repository, {"scale": "mini"})
    assert "random-init" not in plain.selected
    made_up.write_all(tmp_path / "scores", config=plain)
    one = found(plain, tmp_path / "scores")
    task = by_heading(one)["XNLI"]
    of_reference = load_config(repository, {"scale": "mini", "scores_from": "reference"})
    folder = repository / "reference/scores/mini"
    kept = findings.reached(findings.Evidence(of_reference, folder, folder), "random-init", task)
    assert kept.trainings == 3 and one.untrained[task] == dataclasses.replace(kept, of_reference=True)
    page = findings_html.findings_html(one, None, plain.tie, [])
    assert f'{kept.mean:.1f} (3) <span class="quiet">of the reference</span>' in page


def test_other_scores_say_otherwise(config, scores):
    """Nothing is written by hand: with the scores of the two exchanged, so is what is found."""
    hashes = {run: score_hash(config, run, "xnli", "cross-lingual-transfer") for run in ("xlm", "xlm-r")}
    for one, other in (("xlm", "xlm-r"), ("xlm-r", "xlm")):
        made_up_of = scores.parent / "exchanged" / other
        shutil.copytree(scores / one, made_up_of)
        for path in made_up_of.rglob("*.json"):
            text = path.read_text().replace(f'"run": "{one}"', f'"run": "{other}"')
            path.write_text(text.replace(hashes[one], hashes[other]))
    again = found(config, scores.parent / "exchanged")
    task = by_heading(again)["XNLI"]
    assert (again.best(task), again.beaten(task, "xlm-r")) == ("xlm-r", ["xlm"])
    assert "XLM-R base (MMLM)" in findings_html.method_leads(again)[1]


def test_two_pre_trainings_decide_nothing(config, scores):
    for path in scores.rglob("seed-3.json"):
        path.unlink()
    one = found(config, scores)
    assert one.pairs and all(pair.p is None and not pair.decided for pair in one.pairs.values())
    page = findings_html.findings_html(one, None, config.tie, [])
    assert "decide nothing yet" in page and "n = " not in page and "*</abbr>" not in page


def test_each_p_is_corrected_for_all_comparisons(config, scores):
    pairs = list(found(config, scores).pairs.values())
    assert len(pairs) > 2 and all(pair.adjusted >= pair.p for pair in pairs)
    assert max(pair.adjusted for pair in pairs) == pytest.approx(max(pair.p for pair in pairs))


def write_tatoeba(scores: Path, config, of_runs: dict[str, float]) -> None:
    for run, value in of_runs.items():
        for seed in made_up.SEEDS:
            entries = [made_up.entry(code, value, chance=1.0) for code in made_up.LANGUAGES if code != "en"]
            made_up.write_score(scores, run, "tatoeba", "zero-shot-retrieval", seed, entries, config=config)


def test_where_two_have_the_same_or_none_is_above_chance_there_is_no_best(config, tmp_path):
    write_tatoeba(tmp_path, config, {"xlm": 2.0, "infoxlm-base": 2.5, "xlm-r": 9.0, "mbert": 9.0, "veco-large": 1.0})
    one = found(config, tmp_path)
    [task] = one.tasks
    assert one.chance[task] == 1.0
    assert one.best(task, parallel=False) is None, "two have it"
    assert one.best(task, parallel=True) == "infoxlm-base", "more than a point above chance"
    write_tatoeba(tmp_path, config, {"infoxlm-base": 2.0, "xlm": 1.9, "xlm-r": 1.4, "mbert": 1.3})
    one = found(config, tmp_path)
    assert one.best(task, parallel=True) is None and one.best(task) is None and one.cheapest(task, 5.0) is None
    page = findings_html.findings_html(one, None, config.tie, [])
    assert "none of 3" in page and "none of 2" in page and ">1.0</td>" in page


def test_wins_are_counted_where_all_methods_have_a_score(config, scores):
    """InfoXLM has one score, of Tatoeba: XLM's best elsewhere is the best of one of two, and no win."""
    write_tatoeba(scores, config, {"infoxlm-base": 99.0})
    one = found(config, scores)
    tasks = by_heading(one)
    assert one.of_all(True) == [tasks["Tatoeba"]] and one.best(tasks["XNLI"], True) == "xlm"
    words = findings_html.method_leads(one)[0]
    assert words.startswith("With sentence pairs, the best on average, of the 1 tasks that all 2 methods have: ")
    assert "InfoXLM (with XLCO)</strong> in 1." in words and "TLM" not in words
    assert "of 1 of 2 methods; " in findings_html.findings_html(one, None, config.tie, [])


def test_the_only_method_of_its_kind_is_not_called_the_best(config, scores):
    """As in what a plain `make` trains: of XLM with its pairs and XLM-R without, neither is the best of anything."""
    pairs, alone = findings_html.method_leads(found(config, scores))[:2]
    assert (
        pairs.startswith("With sentence pairs one method is here, <strong>")
        and "TLM</strong>, above chance in" in pairs
    )
    assert "the best" not in pairs and alone.startswith("With text alone")


def test_costs_are_those_that_trainings_counted(repository):
    """Where the records are there, and with all that a run starts from; the configuration's are of full rows."""
    kept = load_config(repository, {"scale": "real", "scores_from": "reference"})
    folder = repository / "reference/trainings/real"
    evidence = findings.Evidence(kept, repository / "reference/scores/real", folder)
    for run, lineage in (("xlm", ["xlm"]), ("ppa-250k", ["mbert", "ppa-250k"])):
        counted = findings.describe(evidence, run, run)
        own = [json.loads((folder / name / "seed-1.json").read_text())["cost"]["flops"] for name in lineage]
        estimate = findings.flops_with_start(kept, run)
        assert counted.counted and counted.flops == pytest.approx(sum(own), rel=0.02) and counted.flops < estimate
    nowhere = findings.Evidence(kept, folder, folder / "none")
    guessed = findings.describe(nowhere, "xlm", "xlm")
    assert not guessed.counted and guessed.flops == findings.flops_with_start(kept, "xlm")


def test_the_lead_says_for_how_many_claims_it_corrects_and_how_narrowly_they_stand():
    p_values = {"a": 0.0495, "b": 0.01, "c": 0.2, "d": None}
    claims = [{"by_scale": {"mini": {"p_adjusted": p}}} for p in p_values.values()] + [{"by_scale": {}}]
    words = findings_html.corrected_words({"claims": claims}, "mini")
    assert words == " Corrected for the 3 that have a test, 2 still stand, the weakest with a corrected p of 0.0495."
    assert findings_html.corrected_words({"claims": claims}, "real") == ""
    counts = {"direction only": 1, "not reproduced": 3, "reproduced": 2, "scales differ": 0, "undecided": 4}
    told = {"claims": claims, "agree": ["mini", "mini-2"], "summary": [{"name": "mini", "counts": Counter(counts)}]}
    in_order = "at scale mini: 2 reproduced, 1 direction only, 3 not reproduced, 4 undecided."
    assert in_order in findings_html.claims_lead(told), "as the table below it"


def test_what_reads_sentence_pairs_and_what_it_costs(config, tmp_path):
    evidence = findings.Evidence(config, tmp_path, tmp_path)
    plain, pairs, goes_on = (findings.describe(evidence, run, run) for run in ("xlm-r", "xlm", "xlm-r-continued"))
    assert (plain.parallel, pairs.parallel, goes_on.parallel) == (False, True, False)
    assert findings.describe(evidence, "random-init", "").flops == 0
    assert goes_on.flops > plain.flops > 0, "a run costs what it starts from, too"


def test_the_cheapest_of_those_that_are_close(config, scores):
    one = found(config, scores)
    task = by_heading(one)["XNLI"]
    assert one.cheapest(task, 0.65) == "xlm" and one.cheapest(task, 50) == "xlm-r"


def test_an_error_rate_is_better_when_it_is_lower(config, tmp_path):
    for run, rate in (("xlm", 20.0), ("xlm-r", 30.0)):
        for seed in made_up.SEEDS:
            entries = [made_up.entry(code, rate + seed / 10, "error-rate") for code in ("de", "fr", "hi", "ru", "es")]
            made_up.write_score(tmp_path, run, "word-alignment", "zero-shot-retrieval", seed, entries, config=config)
    one = found(config, tmp_path)
    [task] = one.tasks
    assert task.less_is_better and one.best(task) == "xlm"
    assert "20.2 (3)" in findings_html.findings_html(one, None, config.tie, [])


def test_without_scores_or_without_the_table_it_says_so(config, tmp_path):
    empty = found(config, tmp_path)
    assert "nothing can be said" in findings_html.findings_html(empty, None, 0.65, [])
    assert findings.find({}, config, tmp_path, tmp_path) is None
    assert "parallax/methods" in findings_html.findings_html(None, None, 0.65, [])
