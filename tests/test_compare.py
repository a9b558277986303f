"""Two runs side by side: what differs, scores paired by seed, and the interval against a textbook's."""

import contextlib
import json
import math
import shutil
import sys

import pytest
import yaml

import compare
import made_up
from common.errors import UserError
from plan.load import load_config
from plan.recipes import recipe_key, recipe_of, resolve_recipe
from plan.runs import resolve_run
from plan.seeds import pretrain_seed
from report.trainings import Training


def test_what_differs_is_said_by_key_and_objectives_by_name(repository):
    config = load_config(repository, {"scale": "mini"})
    found = {key: (a, b) for key, a, b in compare.differences(*(resolve_run(config, run) for run in ("xlm-r", "xlm")))}
    assert any(key.startswith("objectives.tlm.") for key in found)  # XLM adds TLM, and pairs
    assert all(a == "-" for key, (a, _) in found.items() if key.startswith(("objectives.tlm", "data.bitext")))
    assert not any(key.startswith("objectives.mmlm") for key in found)
    assert compare.differences(resolve_run(config, "xlm"), resolve_run(config, "xlm")) == []


def test_a_difference_is_paired_by_seed_with_students_interval():
    a, b = {1: 50.0, 2: 60.0, 3: 70.0, 4: 1.0}, {1: 52.0, 2: 63.0, 3: 74.0}
    mean, half, seeds = compare.difference(a, b)
    # differences 2, 3, 4: deviation 1, t of 2 degrees at 95 % is 4.302653 (any table)
    assert (mean, seeds) == (3.0, 3) and half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-4)
    assert compare.difference(a, {1: 51.0}) == (1.0, None, 1)
    assert compare.difference(a, {9: 51.0})[2] == 0


def test_scores_are_means_over_other_languages_without_curves_and_single_directions(tmp_path, repository):
    config = load_config(repository, {"scale": "mini"})
    entries = [
        made_up.entry("de", 40.0), made_up.entry("en", 90.0), made_up.entry("de", 1.0, "accuracy-by-layer", layer=2),
        made_up.entry("fr", 7.0, direction="en-xx"), made_up.entry("fr", 50.0, layer=3, direction="both"),
    ]  # fmt: skip
    made_up.write_score(tmp_path, "xlm", "xnli", "cross-lingual-transfer", 1, entries)
    found = compare.scores_of(config, tmp_path / "xlm", of_today=False)
    assert found == {("xnli", "cross-lingual-transfer", "accuracy"): {1: 45.0}}
    [row] = compare.score_rows(found, {})
    assert row == ["xnli cross-lingual-transfer accuracy", "45.0 (1)", "--", ""]
    [row] = compare.score_rows({("word-alignment", "zero-shot-retrieval", "error-rate"): {1: 30.0}}, {})
    assert row[0] == "word-alignment zero-shot-retrieval error-rate ↓"


def test_scores_of_some_languages_alone(tmp_path, repository):
    """English too, if it is named; a task with none of them is not there."""
    config = load_config(repository, {"scale": "mini"})
    for task, languages in (("xnli", {"en": 90.0, "de": 40.0, "fr": 50.0}), ("bucc", {"fr": 7.0})):
        entries = [made_up.entry(language, value) for language, value in languages.items()]
        made_up.write_score(tmp_path, "xlm", task, "zero-shot", 1, entries)

    def found(*only: str) -> dict[str, float]:
        scores = compare.scores_of(config, tmp_path / "xlm", of_today=False, only=only)
        return {task: of_seed[1] for (task, _, _), of_seed in scores.items()}

    assert found() == {"xnli": 45.0, "bucc": 7.0}
    assert found("de", "en") == {"xnli": 65.0}
    assert found("fr", "ru") == {"xnli": 50.0, "bucc": 7.0}
    assert found("ru") == {}


def test_a_second_fine_tuning_is_no_second_pre_training(tmp_path, repository):
    config = load_config(repository, {"scale": "mini"})
    again = 1 + config.scale["pretrain_seeds"]
    assert pretrain_seed(config, again, "xlm") == 1
    for seed, value in ((1, 40.0), (again, 50.0)):
        made_up.write_score(tmp_path, "xlm", "xnli", "zero-shot", seed, [made_up.entry("de", value)])
    assert compare.scores_of(config, tmp_path / "xlm", of_today=False) == {("xnli", "zero-shot", "accuracy"): {1: 45.0}}


def test_reference_seeds_that_no_table_reads_yet_are_not_compared(repository, tmp_path):
    config = load_config(repository, {"scale": "mini", "scores_from": "reference"})
    for seed in (1, 99):
        made_up.write_score(tmp_path, "xlm", "xnli", "zero-shot", seed, [made_up.entry("de", 40.0)])
    assert compare.scores_of(config, tmp_path / "xlm", of_today=False) == {("xnli", "zero-shot", "accuracy"): {1: 40.0}}


@pytest.mark.parametrize("run", ["xlm-r", "ppa-250k"])
def test_every_task_of_the_reference_is_compared(repository, run):
    """By another way through the same files: of every task the entries that are of no single layer and direction."""
    config = load_config(repository, {"scale": "real", "scores_from": "reference"})
    folder = repository / "reference/scores/real" / run
    found = compare.scores_of(config, folder)
    assert {task for task, _, _ in found} == {path.name for path in folder.iterdir()}
    for (task, setting, metric), own in found.items():
        for seed, value in own.items():
            entries = json.loads((folder / task / setting / f"seed-{seed}.json").read_text(encoding="utf-8"))["scores"]
            values = [one["value"] for one in entries if one["metric"] == metric and one["language"] != "en"]
            assert value == pytest.approx(sum(values) / len(values)), (task, setting, metric, seed)


def test_a_difference_says_where_it_rests_on_fewer_pre_trainings_than_the_means():
    key = ("xnli", "zero-shot", "accuracy")
    [row] = compare.score_rows({key: {1: 40.0, 2: 50.0}}, {key: {1: 41.0}})
    assert row[1:] == ["45.0 (2)", "41.0 (1)", "+1.0 (1)"]
    [row] = compare.score_rows({key: {1: 40.0}}, {key: {1: 41.0}})
    assert row[1:] == ["40.0 (1)", "41.0 (1)", "+1.0"]


@pytest.mark.parametrize("kept", [True, False])
def test_scores_and_costs_of_another_configuration_are_left_out(repository, tmp_path, capsys, kept):
    """Of the reference, and of results/ with the recipe beside them."""
    settings = {"scale": "real", **({"scores_from": "reference"} if kept else {})}
    shutil.copytree(repository / "config", tmp_path / "config")
    (tmp_path / "reference").symlink_to(repository / "reference")
    config = load_config(tmp_path, settings)
    folder = tmp_path / "reference/scores/real/ppa-250k"
    if not kept:
        folder = tmp_path / "results/real/scores/ppa-250k"
        shutil.copytree(repository / "reference/scores/real/ppa-250k", folder)
        shutil.copytree(repository / "reference/trainings/real", tmp_path / "results/real/trainings")
        for need in {(path.parent.parent.name, path.parent.name) for path in folder.glob("*/*/seed-*.json")}:
            recipe = tmp_path / f"results/real/recipes/{recipe_key(config, 'ppa-250k', *need)}.yaml"
            recipe.parent.mkdir(parents=True, exist_ok=True)
            resolved = resolve_recipe(config, *need, recipe_of(config, "ppa-250k"))
            recipe.write_text(yaml.safe_dump(resolved, sort_keys=False), encoding="utf-8")
    with contextlib.chdir(tmp_path):
        assert compare.scores_of(config, folder) and capsys.readouterr().out == ""
        assert len(compare.trained(config, "ppa-250k")) >= 1
        run = tmp_path / "config/runs/ppa-250k.yaml"
        run.write_text(run.read_text(encoding="utf-8").replace("temperature: 0.05", "temperature: 0.5"), "utf-8")
        other = load_config(tmp_path, settings)
        assert compare.scores_of(other, folder) == {}
        number = len(list(folder.glob("*/*/seed-*.json")))
        assert f"Left out: {number} scores of another configuration than today's" in capsys.readouterr().out
        assert compare.scores_of(other, folder, of_today=False)
        assert compare.trained(other, "ppa-250k") == []


def test_a_folder_of_scores_without_the_second_run_is_refused(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["compare", "xlm-r", "xlm", "--config", "scale=real", "--scores", str(tmp_path)])
    with pytest.raises(UserError, match="has no folder xlm"):
        compare.main()


@pytest.mark.parametrize(
    ("languages", "said"),
    [("de,dee", "--languages: unknown language 'dee'; did you mean"), ("sw,af", "no scores yet of sw,af; those of")],
)
def test_languages_that_cannot_be_compared_are_said(repository, monkeypatch, languages, said):
    monkeypatch.chdir(repository)
    arguments = ["xlm-r", "xlm", "--languages", languages, "--config", "scale=mini", "scores_from=reference"]
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(UserError, match=said):
        compare.main()


def test_cost_is_the_mean_over_seeds():
    cost = {"steps": 5, "tokens": 100, "flops": 2.0e9}
    two = [Training("xlm", seed, "", {**cost, "seconds": seconds}, {}) for seed, seconds in ((1, 10.0), (2, 30.0))]
    rows = {row[0]: row[1:] for row in compare.cost_rows([two, []])}
    assert rows == {"steps": ["5", "--"], "tokens": ["100", "--"], "FLOPs": ["2e+09", "--"], "seconds": ["20", "--"]}
