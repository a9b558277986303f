"""Reading score files, summaries over seeds, averages over languages, scores.tsv: all with made-up scores."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import collect_scores
import made_up
from common.errors import UserError
from report.scores import (
    EN_DEV,
    FAILURES,
    MEAN_DEV,
    Summary,
    group_paths,
    load_parts,
    load_results,
    pooled_std,
    read_score_file,
    summarise,
)
from small_results import entry, write
from tasks.recipe import SELECTIONS


def test_summary_is_mean_and_sample_deviation():
    summary = summarise([60.0, 62.0, 64.0])
    assert (summary.mean, summary.std, summary.n) == (62.0, 2.0, 3)
    assert summarise([60.0]) == Summary(60.0, None, 1)


def test_pooled_deviation_weighs_by_degrees_of_freedom():
    assert pooled_std(Summary(0, 3.0, 3), Summary(0, 1.0, 5)) == pytest.approx(math.sqrt((2 * 9 + 4 * 1) / 6))
    assert pooled_std(Summary(0, None, 1), Summary(0, 2.0, 3)) == 2.0
    assert pooled_std(Summary(0, None, 1), Summary(0, None, 1)) is None


def test_average_is_over_languages_of_each_seed_first(tmp_path):
    for seed, values in {1: (60, 40), 2: (64, 48), 3: (62, 38)}.items():
        write(tmp_path, [entry("en", values[0]), entry("de", values[1])], seed=seed)
    results = load_results(group_paths(tmp_path.rglob("*.json"))["xlm-r", "xnli", "transfer"], "mini")
    average = summarise(results.average_values(["en", "de"], "accuracy").values())
    assert (average.mean, average.n) == (52.0, 3)
    assert average.std == pytest.approx(math.sqrt((4 + 16 + 4) / 2))  # of 50, 56, 50
    assert results.average_values(["en", "sw"], "accuracy") == {}
    assert results.average_values([], "accuracy") == {}


TRIED = {"rule": EN_DEV, "tries": [33.3, 41.0, 97.0], "below": 60.0, "restarts": 2}


def test_failures_of_fine_tuning_are_a_number_of_their_scores(tmp_path):
    """Two of three tries ended below the bar: of English, or of the one language that a model is for; not where the
    weights are another task's, and not without a rule."""
    for seed, tries in {1: [33.3, 41.0, 97.0], 2: [98.0], 3: [50.0, 60.0]}.items():
        write(tmp_path, [entry("en", 90.0), entry("de", 60.0)], seed=seed, selection=TRIED | {"tries": tries})
    results = load_results(group_paths(tmp_path.rglob("*.json"))["xlm-r", "xnli", "transfer"], "mini")
    assert results.values("en", FAILURES) == pytest.approx({1: 200 / 3, 2: 0.0, 3: 50.0})
    assert results.languages("accuracy") == ["de", "en"] and results.values("de", FAILURES) == {}
    own = write(tmp_path, [entry("de", 60.0)], setting="each-de", selection=TRIED | {"rule": MEAN_DEV})
    assert load_parts({"de": {1: own}}, "mini").values("de", FAILURES) == pytest.approx({1: 200 / 3})
    borrowed = write(tmp_path, [entry("en", 1.0)], setting="best", selection=TRIED, signature="a|model=xnli/transfer")
    unruled = write(tmp_path, [entry("en", 1.0)], setting="plain", selection={"rule": EN_DEV})
    assert [score.metric for path in (borrowed, unruled) for score in read_score_file(path)] == ["accuracy"] * 2


def test_gap_is_english_minus_the_mean_of_the_others_of_each_seed(tmp_path):
    for seed, values in {1: (60.0, 40.0, 30.0), 2: (64.04, 48.0, 50.0), 3: (62.0, 70.0, 66.0)}.items():
        write(tmp_path, [entry(*pair) for pair in zip(("en", "de", "fr"), values, strict=True)], seed=seed)
    write(tmp_path, [entry("de", 40.0), entry("fr", 40.0)], seed=4)  # no English: no gap of this seed
    results = load_results(group_paths(tmp_path.rglob("*.json"))["xlm-r", "xnli", "transfer"], "mini")
    gaps = results.gap_values(["en", "de", "fr"], "accuracy")
    assert gaps == {1: 25.0, 2: pytest.approx(15.04), 3: -6.0}
    assert results.gap_values(["en"], "accuracy") == {}


def test_gap_of_the_papers_rows(tmp_path):
    """mBERT on PAWS-X: 94.0 against 85.7 87.4 87.0 73.0 69.6 77.0 is printed as 14.1."""
    codes, values = ("en", "de", "es", "fr", "ja", "ko", "zh"), (94.0, 85.7, 87.4, 87.0, 73.0, 69.6, 77.0)
    path = write(tmp_path, [entry(*pair) for pair in zip(codes, values, strict=True)])
    assert load_results({1: path}, "mini").gap_values(codes, "accuracy") == {1: pytest.approx(14.05)}


def test_absent_seed_is_absent_not_zero(tmp_path):
    first = write(tmp_path, [entry("en", 60.0)], seed=1)
    results = load_results({1: first, 2: first.with_name("seed-2.json")}, "mini")
    assert results.summary("en", "accuracy") == Summary(60.0, None, 1)
    assert results.expected_seeds == (1, 2)
    assert results.summary("fr", "accuracy") is None


def test_retrieval_headline_is_the_mean_of_both_directions(tmp_path):
    scores = [entry("de", 30.0, layer=7, direction=d) for d in ("en-xx", "xx-en")]
    path = write(tmp_path, [*scores, entry("de", 31.0, layer=7, direction="both")])
    assert load_results({1: path}, "mini").values("de", "accuracy") == {1: 31.0}
    path = write(tmp_path, scores)
    with pytest.raises(UserError, match="2 values of accuracy for de"):
        load_results({1: path}, "mini").values("de", "accuracy")


def test_one_direction_is_that_of_the_headlines_layer(tmp_path):
    by_layer = [
        entry("de", 10.0 * layer + (direction == "xx-en"), "accuracy-by-layer", layer=layer, direction=direction)
        for layer in (6, 7)
        for direction in ("en-xx", "xx-en")
    ]
    path = write(tmp_path, [entry("de", 70.5, layer=7, direction="both"), *by_layer], task="tatoeba")
    results = load_results({1: path}, "mini")
    assert results.values("de", "accuracy", "en-xx") == {1: 70.0}
    assert results.values("de", "accuracy", "xx-en") == {1: 71.0}
    assert results.values("de", "accuracy", "both") == results.values("de", "accuracy") == {1: 70.5}
    assert results.average_values(["de"], "accuracy", "xx-en") == {1: 71.0}
    path = write(tmp_path, [entry("de", 70.5, layer=7, direction="both"), *by_layer[:2]], task="tatoeba")
    with pytest.raises(UserError, match="no accuracy of direction en-xx for de at layer 7"):
        load_results({1: path}, "mini").values("de", "accuracy", "en-xx")


def write_parts(root: Path, values: dict[str, dict[int, float]], **more: object) -> dict[str, dict[int, Path]]:
    """Score files of one model for each language: language -> seed -> value."""
    return {
        code: {
            seed: write(root, [entry(code, value)], setting=f"translate-train-{code}", seed=seed, **more)
            for seed, value in of_seed.items()
        }
        for code, of_seed in values.items()
    }


def test_models_of_each_language_are_one_result(tmp_path):
    parts = write_parts(tmp_path, {"de": {1: 60.0, 2: 62.0}, "fr": {1: 50.0, 2: 58.0}})
    parts["fr"][3] = parts["fr"][2].with_name("seed-3.json")  # expected and not there
    results = load_parts(parts, "mini")
    assert results.expected_seeds == (1, 2, 3)
    assert results.values("de", "accuracy") == {1: 60.0, 2: 62.0}
    assert results.average_values(["de", "fr"], "accuracy") == {1: 55.0, 2: 60.0}
    assert results.languages("accuracy") == ["de", "fr"]


@pytest.mark.parametrize("key", ["run_hash", "task_version"])
def test_models_of_each_language_are_of_one_run_and_one_version(tmp_path, key):
    parts = write_parts(tmp_path, {"de": {1: 60.0}}) | write_parts(tmp_path, {"fr": {1: 50.0}}, **{key: "other"})
    with pytest.raises(UserError, match=f"languages with different {key} cannot be averaged"):
        load_parts(parts, "mini")


def test_the_model_of_a_language_scores_that_language_alone(tmp_path):
    parts = write_parts(tmp_path, {"de": {1: 60.0}, "fr": {1: 50.0}})
    write(tmp_path, [entry("fr", 50.0), entry("de", 70.0)], setting="translate-train-fr")
    with pytest.raises(UserError, match=r"translate-train-fr/seed-1\.json: the model of fr has scores of de"):
        load_parts(parts, "mini")


def test_by_layer_takes_directions_then_languages_then_seeds(tmp_path):
    for seed in (1, 2):
        scores = [
            entry(code, value + seed, "accuracy-by-layer", layer=layer, direction=direction)
            for layer in (0, 1)
            for code, value in (("de", 10.0), ("fr", 30.0))
            for direction in ("en-xx", "xx-en")
        ]
        write(tmp_path, scores, seed=seed)
    results = load_results(next(iter(group_paths(tmp_path.rglob("*.json")).values())), "mini")
    curve = results.by_layer("accuracy-by-layer", ["de", "fr"])
    assert sorted(curve) == [0, 1]
    assert curve[1].mean == 21.5 and curve[1].n == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (None, "not a finite number"),
        (101.0, "0 to 100"),
        (-1, "0 to 100"),
    ],
)
def test_a_diverged_score_is_refused_with_its_file(tmp_path, value, message):
    path = write(tmp_path, [entry("en", value)])
    with pytest.raises(UserError, match=message) as error:
        read_score_file(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": "xlm"}, "key 'run': the file says 'xlm' and its path says 'xlm-r'"),
        ({"seed": 2}, "key 'seed'"),
        ({"scale": "smoke"}, "key 'scale': 'smoke' where 'mini' is expected"),
        ({"scores": []}, "at least one score"),
        ({"scores": [entry("en", 1.0), entry("en", 1.0)]}, "entry 2: en accuracy stands twice"),
        ({"scores": [{"language": "en", "metric": "accuracy", "n": 3}]}, "entry 1: key 'value' is missing"),
        ({"scores": [entry("en", 1.0, n=0)]}, "nothing was scored"),
        (
            {"scores": [entry("de", 1.0, "sacrebleu-by-update", update=5)]},
            r"entry 1 \(de sacrebleu-by-update\): needs 'update' and 'epoch'",
        ),
        (
            {"scores": 2 * [entry("de", 1.0, "sacrebleu-by-update", update=5, epoch=0.5)]},
            "entry 2: de sacrebleu-by-update 5 stands twice",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(tmp_path, change, message):
    path = write(tmp_path, [entry("en", 60.0)])
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=message) as error:
        read_score_file(path, "mini")
    assert str(path) in str(error.value)


def test_a_missing_key_and_a_torn_file_are_named(tmp_path):
    path = write(tmp_path, [entry("en", 60.0)])
    content = json.loads(path.read_text())
    del content["run_hash"]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="key 'run_hash' is missing"):
        read_score_file(path)
    path.write_text('{"run": "xlm-r", ')
    with pytest.raises(UserError, match="not a usable score file"):
        read_score_file(path)


def test_seeds_of_different_runs_are_not_averaged(tmp_path):
    paths = {seed: write(tmp_path, [entry("en", 60.0)], seed=seed, run_hash=f"hash-{seed}") for seed in (1, 2)}
    with pytest.raises(UserError, match="different run_hash"):
        load_results(paths, "mini")


def selected(rule: str) -> dict:
    """As finetune.py says it."""
    return {"rule": rule, "metric": "accuracy", "step": 20, "of": 40, "score": 61.0, "dev": {"en": 61.0}}


@pytest.mark.parametrize("rule", SELECTIONS)
def test_what_chose_the_weights_is_known_of_all_seeds(tmp_path, rule):
    paths = {seed: write(tmp_path, [entry("en", 60.0)], seed=seed, selection=selected(rule)) for seed in (1, 2)}
    absent = {3: tmp_path / "xlm-r/xnli/transfer/seed-3.json"}
    assert load_results(paths | absent, "mini").selection == rule
    assert load_results(absent, "mini").selection is None
    other = {EN_DEV: MEAN_DEV, MEAN_DEV: EN_DEV}[rule]
    for change in ({"selection": selected(other)}, {"selection": None}, {}):
        write(tmp_path, [entry("en", 60.0)], seed=2, **change)
        with pytest.raises(UserError, match=rf"seeds with different selection .*seed-1\.json: {rule}, .*seed-2"):
            load_results(paths, "mini")


def test_where_nothing_was_fine_tuned_nothing_was_selected(tmp_path):
    paths = {1: write(tmp_path, [entry("en", 60.0)], selection=None), 2: write(tmp_path, [entry("en", 60.0)], seed=2)}
    assert load_results(paths, "mini").selection is None


@pytest.mark.parametrize("selection", [selected("test"), {}, "en", ["en_dev"]])
def test_an_unknown_rule_of_selection_is_refused(tmp_path, selection):
    path = write(tmp_path, [entry("en", 60.0)], selection=selection)
    with pytest.raises(UserError, match=r"key 'selection': the rule .* is neither en_dev nor mean_dev") as error:
        load_results({1: path}, "mini")
    assert str(path) in str(error.value)


def test_a_model_of_one_language_is_selected_on_english_or_on_its_own(tmp_path):
    values = {"de": {1: 60.0}, "fr": {1: 50.0}}
    assert load_parts(write_parts(tmp_path, values, selection=selected("mean_dev")), "mini").selection == "own_dev"
    parts = write_parts(tmp_path, values, selection=selected("en_dev"))
    assert load_parts(parts, "mini").selection == "en_dev"
    write_parts(tmp_path, {"fr": {1: 50.0}}, selection=selected("mean_dev"))
    with pytest.raises(UserError, match="languages with different selection cannot be averaged"):
        load_parts(parts, "mini")


def test_scores_tsv_is_sorted_and_the_same_for_any_order_of_reading(tmp_path):
    paths = [
        write(tmp_path, [entry("fr", 100 / 3), entry("en", 60.0)], seed=seed, run=run)
        for run in ("xlm-r", "xlm")
        for seed in (2, 1)
    ]
    outs = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    for out, order in zip(outs, (paths, paths[::-1]), strict=True):
        collect_scores.write_scores(collect_scores.collect(order, "mini"), out)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    lines = outs[0].read_text().splitlines()
    assert lines[0].split("\t") == collect_scores.COLUMNS
    first = "mini xlm xnli transfer en accuracy - - - - 60 1 300 33 1 abc"
    assert lines[1].split("\t") == ["" if word == "-" else word for word in first.split()]
    assert [line.split("\t")[10] for line in lines[1:5]] == ["60", "60", "33.33333333", "33.33333333"]
    assert [line.split("\t")[1] for line in lines[1:]] == ["xlm"] * 4 + ["xlm-r"] * 4


def test_layers_and_directions_sort_in_scores_tsv(tmp_path):
    scores = [entry("de", 1.0, "accuracy-by-layer", layer=n, direction=d) for n in (10, 2) for d in ("xx-en", "en-xx")]
    path = write(tmp_path, [*scores, entry("de", 5.0, layer=2, direction="both")], task="tatoeba")
    collect_scores.write_scores(collect_scores.collect([path], "mini"), tmp_path / "out.tsv")
    rows = [line.split("\t")[5:8] for line in (tmp_path / "out.tsv").read_text().splitlines()[1:]]
    assert rows[0] == ["accuracy", "2", "both"]
    assert rows[1:] == [["accuracy-by-layer", str(n), d] for n in (2, 10) for d in ("en-xx", "xx-en")]


def snapshots(*values: float, every: int = 100, language: str = "de", seed: int = 0) -> list[dict]:
    """A curve: an update, its epoch and its value."""
    return [
        entry(language, value, "sacrebleu-by-update", update=every * i, epoch=(i + seed / 100) / 4, chance=None)
        for i, value in enumerate(values, start=1)
    ]


def test_snapshots_sort_in_scores_tsv(tmp_path):
    path = write(tmp_path, [*snapshots(*range(1, 12)), entry("de", 5.0, "sacrebleu")], task="wmt14-en-de")
    collect_scores.write_scores(collect_scores.collect([path], "mini"), tmp_path / "out.tsv")
    rows = [line.split("\t")[5:11] for line in (tmp_path / "out.tsv").read_text().splitlines()[1:]]
    assert rows[0] == ["sacrebleu", "", "", "", "", "5"]
    assert rows[1:] == [["sacrebleu-by-update", "", "", str(100 * i), f"{i / 4:g}", str(i)] for i in range(1, 12)]


def test_by_update_takes_languages_then_seeds(tmp_path):
    for seed, more in ((1, 0.0), (2, 2.0)):
        own = snapshots(4 + more, 8 + more, seed=seed) + snapshots(6 + more, 20 + more, language="fr", seed=seed)
        write(tmp_path, own, seed=seed)
    write(tmp_path, snapshots(1.0, seed=3) + snapshots(3.0, language="fr", seed=3), seed=3)  # no second snapshot
    results = load_results(next(iter(group_paths(tmp_path.rglob("*.json")).values())), "mini")
    curve = results.by_update("sacrebleu-by-update", ["de", "fr"])
    assert list(curve) == [100, 200]
    assert (curve[100].epoch, curve[100].summary) == (pytest.approx(0.255), summarise([5.0, 7.0, 2.0]))
    assert (curve[200].epoch, curve[200].summary) == (pytest.approx(0.50375), summarise([14.0, 16.0]))
    assert [one.summary.mean for one in results.by_update("sacrebleu-by-update", ["de"]).values()] == [11 / 3, 9.0]
    assert results.by_update("sacrebleu", ["de"]) == {} == results.by_layer("sacrebleu-by-update", ["de"])
    write(tmp_path, snapshots(1.0), seed=3)
    results = load_results(next(iter(group_paths(tmp_path.rglob("*.json")).values())), "mini")
    with pytest.raises(UserError, match="seed 3, update 100: languages fr are missing; score again"):
        results.by_update("sacrebleu-by-update", ["de", "fr"])


def test_collecting_names_an_expected_file_that_is_not_there(tmp_path):
    path = write(tmp_path, [entry("en", 60.0)])
    with pytest.raises(UserError, match=r"seed-9\.json: expected by the configured tables"):
        collect_scores.collect([path, path.with_name("seed-9.json")], "mini")


def test_the_notebook_draws_three_figures_from_the_collected_scores(repository, tmp_path):
    made_up.write_all(tmp_path / "scores")
    paths = sorted((tmp_path / "scores").rglob("seed-*.json"))
    collect_scores.write_scores(collect_scores.collect(paths, "mini"), tmp_path / "scores.tsv")
    command = [sys.executable, "docs/scores.py", str(tmp_path / "scores.tsv"), str(tmp_path / "drawn")]
    subprocess.run(command, cwd=repository, check=True, timeout=120)
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "drawn").iterdir()}
    assert drawn.keys() == {"runs.png", "languages.png", "layers.png"}
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5000 for picture in drawn.values())
