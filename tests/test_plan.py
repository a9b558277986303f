"""The plan: what a run becomes at a scale, which runs are one run, and what a table asks for."""

import json
import subprocess
import sys

import pytest
import yaml

import plan
from errors import UserError


@pytest.fixture(scope="module")
def mini(repository):
    return plan.load_config(repository, {"scale": "mini"})


@pytest.fixture(scope="module")
def paper(repository):
    return plan.load_config(repository, {"scale": "paper"})


def test_deep_merge_replaces_lists_and_leaves_its_inputs_alone():
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    merged = plan.deep_merge(base, {"a": {"y": [3]}, "c": {"z": 1}})
    assert merged == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 1}}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}


def test_a_scale_that_extends_another_differs_where_it_says(repository, mini):
    other = plan.load_config(repository, {"scale": "mini-2"})
    assert other.scale["world"] == {**mini.scale["world"], "seed": 2}
    assert other.scale_name == "mini-2" and "extends" not in other.scale
    assert plan.resolve_run(other, "xlm") == plan.resolve_run(mini, "xlm")


def test_paper_scale_keeps_the_published_numbers(paper):
    run = plan.resolve_run(paper, "xlm-r")
    assert run["model"]["layers"] == 12 and run["model"]["width"] == 768
    assert run["batch"]["rows"] * run["batch"]["row_length"] == 8192 * 512
    assert run["schedule"] == {"steps": 1500000, "warmup_steps": 10000, "decay": "linear"}
    assert len(run["data"]["mono"]["languages"]) == 93
    # XLM-R counts 100: Chinese in two scripts, and six romanised or Zawgyi files.
    files = sum(
        len(language.cc100) + len(language.cc100_variants)
        for code, language in paper.languages.items()
        if code in run["data"]["mono"]["languages"]
    )
    assert files == 100


def test_small_runs_follow_table_11_of_ernie_m(paper):
    run = plan.resolve_run(paper, "xlm-small")
    assert (run["model"]["layers"], run["batch"]["rows"], run["schedule"]["steps"]) == (6, 1024, 240000)
    assert run["optimizer"]["peak_lr"] == 3.0e-4 and run["schedule"]["warmup_steps"] == 10000
    pairs = run["data"]["bitext"]["corpora"]
    assert {code for pair in pairs for code in pair.split("-")} - {"en"} == set(
        ["ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]  # ERNIE-M table 10
    )


def test_a_scale_keeps_only_the_data_that_it_has(mini):
    data = plan.resolve_run(mini, "xlm")["data"]
    assert data["mono"]["languages"] == sorted(mini.scale["languages"])
    world = mini.scale["world"]["bitext"]
    assert set(data["bitext"]["corpora"]) == {"-".join(sorted(("en", code))) for code in world}
    for pair, corpora in data["bitext"]["corpora"].items():
        (code,) = set(pair.split("-")) - {"en"}
        assert corpora == sorted(set(world[code]) & set(mini.runs["xlm"]["data"]["bitext"]["corpora"][pair]))


def test_a_run_without_objectives_gets_no_steps_from_a_scale(mini):
    run = plan.resolve_run(mini, "random-init")
    assert run["schedule"]["steps"] == 0 and run["objectives"] == []
    assert run["model"] == plan.resolve_run(mini, "xlm-r")["model"]


@pytest.mark.parametrize("scale", ["smoke", "mini", "small"])
def test_equal_runs_are_one_run(repository, scale):
    config = plan.load_config(repository, {"scale": scale})
    assert plan.canonical_run(config, "xlm-r-small") == "xlm-r"
    assert plan.canonical_run(config, "xlm-small") == "xlm"
    assert plan.canonical_run(config, "random-init") == "random-init"


def test_different_runs_stay_apart(paper):
    assert plan.canonical_run(paper, "xlm-r-small") == "xlm-r-small"
    same = {name for name in paper.runs if plan.canonical_run(paper, name) != name}
    assert same == {"ernie-m-base-rho-20"}, "its share of pseudo tokens is the default: the run of experiment 5"


def test_run_hash_sees_content_and_neither_name_nor_order(mini):
    run = plan.resolve_run(mini, "xlm")
    reordered = json.loads(json.dumps({key: run[key] for key in reversed(list(run))}))
    assert plan.run_hash({**reordered, "name": "other", "paper": {"id": "x"}}) == plan.run_hash(run)
    assert plan.run_hash({**run, "numerics": 2}) != plan.run_hash(run)


def test_the_written_run_loads_to_the_same_hash(mini, repository, tmp_path):
    out = tmp_path / "run.yaml"
    command = [sys.executable, "workflow/scripts/resolve_run.py", "--run", "config/runs/xlm.yaml"]
    command += ["--scale", "config/scales/mini.yaml", "--out", str(out)]
    subprocess.run(command, cwd=repository, check=True)
    written = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert plan.run_hash(written) == plan.run_hash(plan.resolve_run(mini, "xlm"))
    assert "paper" not in written


def test_norwegian_survives_yaml(paper, repository, tmp_path):
    out = tmp_path / "run.yaml"
    command = [sys.executable, "workflow/scripts/resolve_run.py", "--run", "config/runs/xlm-r.yaml"]
    subprocess.run([*command, "--scale", "config/scales/paper.yaml", "--out", str(out)], cwd=repository, check=True)
    assert "no" in yaml.safe_load(out.read_text(encoding="utf-8"))["data"]["mono"]["languages"]


def test_a_recipe_takes_its_setting_and_then_the_scale(paper, mini):
    ernie = plan.resolve_recipe(paper, "xnli", "translate-train-all", "ernie-m")
    assert (ernie["recipe"]["batch"], ernie["recipe"]["epochs"]) == (128, 2)
    assert plan.resolve_recipe(paper, "xnli", "cross-lingual-transfer", "ernie-m")["recipe"]["batch"] == 32
    assert "settings" not in ernie["recipe"] and ernie["recipe"]["name"] == "ernie-m"
    assert ernie["train_languages"] == paper.tasks["xnli"]["languages"] and ernie["train_limit"] is None
    small = plan.resolve_recipe(mini, "xnli", "translate-train-all", "ernie-m")
    assert small["train_languages"] == [c for c in mini.tasks["xnli"]["languages"] if c in mini.scale["languages"]]
    overrides = mini.scale["task_overrides"]["xnli"]
    assert small["recipe"]["peak_lr"] == overrides["recipe"]["peak_lr"]
    assert plan.resolve_recipe(mini, "tatoeba", "zero-shot-retrieval", "nobody")["recipe"]["name"] == "default"


def test_seeds_share_pretrainings(repository):
    config = plan.load_config(repository, {"scale": "paper"})
    assert [plan.pretrain_seed(config, seed) for seed in (1, 2, 5)] == [1, 1, 1]
    config.scale["pretrain_seeds"] = 3
    assert [plan.pretrain_seed(config, seed) for seed in (1, 2, 3, 4, 5)] == [1, 2, 3, 1, 2]


def spec(*rows, columns=({"task": "xnli"},), setting="cross-lingual-transfer"):
    return {"columns": list(columns), "groups": [{"setting": setting, "rows": list(rows)}]}


def test_needs_are_canonical_unique_and_only_what_exists(mini):
    rows = [{"run": "xlm-r-small"}, {"run": "xlm-r"}, {"run": "veco-large"}, {"label": "published only"}]
    assert plan.needs(mini, spec(*rows)) == [("xlm-r", "xnli", "cross-lingual-transfer")]
    assert plan.needs(mini, spec({"run": "xlm"}, setting="translate-train")) == []
    assert plan.needs(mini, spec({"run": "xlm"}, columns=[{"task": "conll-ner"}])) == []
    columns = [{"task": "tatoeba", "setting": "zero-shot-retrieval"}, {"task": "ud-pos"}]
    assert plan.needs(mini, spec({"run": "xlm"}, columns=columns)) == [
        ("xlm", "tatoeba", "zero-shot-retrieval"),
        ("xlm", "ud-pos", "cross-lingual-transfer"),
    ]


def test_filters_choose_runs_papers_items_and_seeds(repository):
    overrides = {"scale": "mini", "runs": ["xlm-r"], "papers": ["ernie-m"], "seeds": ["2"]}  # as Snakemake hands them
    config = plan.load_config(repository, overrides)
    assert {paper for paper, _ in (item.split("/") for item in config.specs)} == {"ernie-m"}
    assert {run for run, _, _ in plan.all_needs(config)} == {"xlm-r"}
    assert config.seeds == [2]
    assert all(path.endswith("seed-2.json") for path in plan.all_score_paths(config))
    one = plan.load_config(repository, {"scale": "mini", "items": ["xlm-e/figure-03"]})
    assert list(one.specs) == ["xlm-e/figure-03"] and {task for _, task, _ in plan.all_needs(one)} == {"tatoeba"}
    assert plan.changed_settings(one) == {"items": ["xlm-e/figure-03"]}


def test_score_paths_are_those_of_the_contract(mini):
    paths = plan.score_paths(mini, spec({"run": "xlm-small"}))
    assert paths == [f"results/mini/scores/xlm/xnli/cross-lingual-transfer/seed-{seed}.json" for seed in mini.seeds]


def test_decontamination_covers_corpus_languages_and_not_evaluation_languages(repository):
    config = plan.load_config(repository, {"scale": "smoke"})
    before = plan.corpus_languages(config)
    config.scale["evaluation_languages"] = [*config.scale["languages"], "fr"]
    assert plan.corpus_languages(config) == before
    assert "fr" in plan.task_languages(config, "tatoeba")
    assert "fr" not in plan.task_languages(config, "tatoeba", before)


def test_an_evaluation_set_is_named_by_language_where_upstream_does(mini):
    ids = plan.task_datasets(mini, "tatoeba", ["de", "zh"], train=False)
    assert ids == ["tatoeba/cmn-eng.cmn", "tatoeba/cmn-eng.eng", "tatoeba/deu-eng.deu", "tatoeba/deu-eng.eng"]
    assert plan.task_datasets(mini, "xnli", ["de"], train=False) == ["xnli/1.0"]
    assert plan.task_datasets(mini, "xnli", ["de"], train=True) == ["xnli/1.0", "xnli/mt-1.0"]


def test_a_scale_that_leaves_an_objective_without_data_says_so(mini):
    config = plan.load_config(mini.root, {"scale": "mini"})
    config._resolved.clear()
    config.scale["languages"] = ["de"]
    with pytest.raises(UserError, match=r"config/scales/mini.yaml, languages: leaves objective 'tlm' of run 'xlm'"):
        plan.resolve_run(config, "xlm")


def test_local_imports_follow_every_way_of_importing(tmp_path):
    (tmp_path / "package").mkdir()
    for name, text in {
        "script.py": "import os, first\nfrom package import (\n    second,\n    third as other,\n)\n",
        "first.py": "def late():\n    from fourth import x\n",
        "fourth.py": "import script\n",
        "package/__init__.py": "",
        "package/second.py": "from package.third import y\n",
        "package/third.py": "import json\n",
        "package/unused.py": "",
        "json_like.py": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = plan.local_imports(tmp_path / "script.py")
    expected = ["first.py", "fourth.py", "package/__init__.py", "package/second.py", "package/third.py"]
    assert found == [str(tmp_path / name) for name in expected]


def test_plan_imports_nothing_heavy(repository):
    code = (
        "import sys; sys.path.insert(0, 'workflow/scripts'); import plan; plan.load_config('.', {'scale': 'paper'}); "
        "print([m for m in ('torch', 'numpy', 'pandas', 'matplotlib', 'sentencepiece', 'fasttext', 'snakemake') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
