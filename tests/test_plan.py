"""The plan: what a run becomes at a scale, which runs are one run, and what a table asks for."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from common.errors import UserError
from common.identity import run_hash
from common.yamlfiles import deep_merge
from plan import exports
from plan.check_tasks import check_task
from plan.claimed import (
    all_needs,
    all_score_paths,
    claim_needs,
    compared_digest,
    shown_counts,
    shown_trainings,
    untestable,
)
from plan.code import local_imports
from plan.config import Config
from plan.data import corpus_languages
from plan.evidence import training_paths
from plan.load import changed_settings, load_config
from plan.needs import canonical_run, compared_trainings, figure_trainings, needs, score_paths
from plan.recipes import (
    TEST_PARTS,
    TRAIN_PARTS,
    bitext_settings,
    expand_datasets,
    gold_datasets,
    recipe_datasets,
    resolve_recipe,
    setting_jobs,
    setting_of_job,
    task_languages,
    trained_as,
)
from plan.runs import lineage, resolve_run, trained_run, with_ancestors
from plan.seeds import first_seed, pretrain_seed, second_fine_tunings
from report.context import load_context, own_alone
from report.tables import why_missing


@pytest.fixture(scope="module")
def mini(repository):
    return load_config(repository, {"scale": "mini"})


def test_deep_merge_replaces_lists_and_leaves_its_inputs_alone():
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    merged = deep_merge(base, {"a": {"y": [3]}, "c": {"z": 1}})
    assert merged == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 1}}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}


def test_a_scale_that_extends_another_differs_where_it_says(repository, mini):
    other = load_config(repository, {"scale": "mini-2"})
    assert other.scale["world"] == {**mini.scale["world"], "seed": 2}
    assert other.scale_name == "mini-2" and "extends" not in other.scale
    assert resolve_run(other, "xlm") == resolve_run(mini, "xlm")


def test_paper_scale_keeps_the_published_numbers(paper):
    run = resolve_run(paper, "xlm-r")
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
    run = resolve_run(paper, "xlm-small")
    assert (run["model"]["layers"], run["batch"]["rows"], run["schedule"]["steps"]) == (6, 1024, 240000)
    assert run["optimizer"]["peak_lr"] == 3.0e-4 and run["schedule"]["warmup_steps"] == 10000
    pairs = run["data"]["bitext"]["corpora"]
    assert {code for pair in pairs for code in pair.split("-")} - {"en"} == set(
        ["ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]  # ERNIE-M table 10
    )


def test_a_scale_keeps_only_the_data_that_it_has(mini):
    data = resolve_run(mini, "xlm")["data"]
    assert data["mono"]["languages"] == sorted(mini.scale["languages"])
    world = mini.scale["world"]["bitext"]
    assert set(data["bitext"]["corpora"]) == {"-".join(sorted(("en", code))) for code in world}
    for pair, corpora in data["bitext"]["corpora"].items():
        (code,) = set(pair.split("-")) - {"en"}
        assert corpora == sorted(set(world[code]) & set(mini.runs["xlm"]["data"]["bitext"]["corpora"][pair]))


def test_a_run_without_objectives_gets_no_steps_from_a_scale(mini):
    run = resolve_run(mini, "random-init")
    assert run["schedule"]["steps"] == 0 and run["objectives"] == []
    assert run["model"] == resolve_run(mini, "xlm-r")["model"]


@pytest.mark.parametrize("scale", ["smoke", "mini", "small"])
def test_equal_runs_are_one_run(repository, scale):
    config = load_config(repository, {"scale": scale})
    assert trained_run(config, "xlm-r-small") == "xlm-r"
    assert trained_run(config, "xlm-small") == "xlm"
    assert canonical_run(config, "random-init") == "random-init"
    # mini and smoke fine-tune all methods alike; at small each by its paper's recipe
    assert canonical_run(config, "xlm-r-small") == ("xlm-r-small" if scale == "small" else "xlm-r")


def test_runs_that_differ_in_fine_tuning_alone_share_their_weights_and_not_their_scores(repository):
    config = fresh(repository, "small")
    large, base = (resolve_run(config, name) for name in ("ernie-m-large", "ernie-m-base"))
    assert run_hash(large) == run_hash(base) and large["finetune_recipe"] != base["finetune_recipe"]
    assert trained_run(config, "ernie-m-large") == "ernie-m-base"
    assert canonical_run(config, "ernie-m-large") == "ernie-m-large"
    assert canonical_run(config, "ernie-m-large-as-printed") == "ernie-m-large-as-printed"
    assert "ernie-m-large" not in with_ancestors(config, ["ernie-m-large"])


DECODERS = {"veco-large-first-3", "veco-large-last-3", "veco-large-first-6", "transformer-24-3"}


def test_different_runs_stay_apart(paper):
    assert canonical_run(paper, "xlm-r-small") == "xlm-r-small"
    same = {name for name in paper.runs if canonical_run(paper, name) != name}
    assert same - DECODERS == {"ernie-m-base-rho-20"}, (
        "its share of pseudo tokens is the default: the run of experiment 5"
    )
    for name in DECODERS:  # one run for every task but translation
        assert canonical_run(paper, name, "xnli") != name == canonical_run(paper, name, "wmt14-en-de")


# --- runs that extend others -----------------------------------------------------------------------------------------


def fresh(repository, scale: str) -> Config:
    """A configuration to change: nothing of it is resolved yet."""
    config = load_config(repository, {"scale": scale})
    config._resolved.clear()
    config._hashes.clear()
    return config


def write_runs(tree, **runs: dict) -> None:
    for name, run in runs.items():
        run = {"name": name, "paper": {"id": "ours", "table": "none", "reaches": "nothing"}, **run}
        (tree / f"config/runs/{name}.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")


def test_a_run_holds_what_differs_from_the_run_that_it_extends(tree):
    write_runs(
        tree,
        child={"extends": "xlm", "model": {"layers": 5}, "objective_overrides": {"tlm": {"weight": 2.0}}},
        grandchild={"extends": "child", "data": {"bitext": {"corpora": {"en-th": None}}}},
        orphan={"extends": "child", "data": {"bitext": None}, "objectives": [{"name": "mmlm", "weight": 3.0}]},
    )
    with pytest.raises(UserError, match=r"config/runs/orphan.yaml, objectives\[0\]: key 'mask' is missing"):
        load_config(tree, {"scale": "paper"})
    mask = {"rate": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1}
    only = [{"name": "mmlm", "weight": 3.0, "mask": mask}]
    write_runs(tree, orphan={"extends": "child", "data": {"bitext": None}, "objectives": only})
    runs = load_config(tree, {"scale": "paper"}).runs
    base = runs["xlm"]
    own = {"name": "child", "paper": runs["child"]["paper"]}
    objectives = [base["objectives"][0], {**base["objectives"][1], "weight": 2.0}]
    assert runs["child"] == {**base, **own, "model": {**base["model"], "layers": 5}, "objectives": objectives}
    assert set(base["data"]["bitext"]["corpora"]) - set(runs["grandchild"]["data"]["bitext"]["corpora"]) == {"en-th"}
    assert runs["grandchild"]["objectives"] == objectives
    assert runs["orphan"]["data"] == {"mono": base["data"]["mono"]} and runs["orphan"]["objectives"] == only


def test_a_mistake_is_named_in_the_file_that_holds_it(tree):
    """ernie-m-base extends xlm-small, and comes first by name."""
    path = tree / "config/runs/xlm-small.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("[af, am,", "[amh,").replace("af, am,", "amh,"))
    with pytest.raises(
        UserError, match=r"^config/runs/xlm-small.yaml, data.mono.languages\[0\]: unknown language 'amh'"
    ):
        load_config(tree, {"scale": "paper"})


# --- scales shrink what is there -------------------------------------------------------------------------------------


def test_a_schedule_shrinks_as_a_whole(repository, mini):
    run, small = mini.runs["veco-large"], resolve_run(mini, "veco-large")
    assert run["schedule"]["first"] == {"steps": 12000, "train": ["cross_attention"], "warmup_steps": 1000}
    steps = mini.scale["run_overrides"]["schedule"]["steps"]
    first = {"steps": steps // 20, "train": ["cross_attention"], "warmup_steps": round(steps / 240)}
    assert small["schedule"] == {**run["schedule"], **mini.scale["run_overrides"]["schedule"], "first": first}
    config = fresh(repository, "mini")
    del config.scale["run_overrides"]["schedule"]["warmup_steps"]
    schedule = resolve_run(config, "xlm-r")["schedule"]
    assert schedule["warmup_steps"] == round(10000 / 1500000 * steps)


def test_equal_cost_is_a_share_of_the_steps_at_every_scale(repository):
    for scale in ("smoke", "mini", "small", "paper"):
        config = load_config(repository, {"scale": scale})
        whole, less = (resolve_run(config, f"ernie-m-small{suffix}")["schedule"] for suffix in ("", "-same-compute"))
        assert less["steps"] == round(0.93 * whole["steps"]) < whole["steps"]
        assert {**less, "steps": 0} == {**whole, "steps": 0}


def test_an_objective_keeps_its_share_of_the_tokens(mini, paper):
    batch = mini.scale["run_overrides"]["batch"]
    for name, rows in (("ernie-m-base", batch["rows"] // 2), ("veco-large", None), ("infoxlm-base", None)):
        for own in resolve_run(mini, name)["objectives"]:
            assert own.get("rows") == rows and "row_length" not in own and "packing" not in own
    written = resolve_run(paper, "veco-large")["objectives"][1]
    assert (written["rows"], written["row_length"]) == (4096, 128)
    assert resolve_run(paper, "ppa-250k")["objectives"][0]["packing"] is False


@pytest.mark.parametrize(("scale", "layers", "xlco", "dwa", "generator"), [("mini", 3, 2, 2, 1), ("small", 6, 4, 5, 2)])
def test_a_layer_keeps_its_relative_depth(repository, scale, layers, xlco, dwa, generator):
    config = load_config(repository, {"scale": scale})
    options = {
        own["name"]: own["options"]
        for run in ("infoxlm-base", "xlm-align-base", "xlm-e-base", "mbart")
        for own in resolve_run(config, run)["objectives"]
        if "options" in own
    }
    assert resolve_run(config, "xlm-align-base")["model"]["layers"] == layers
    found = (options["xlco"]["layer"], options["dwa"]["layer"], options["mrtd"]["generator_layers"])
    assert found == (xlco, dwa, generator)
    assert options["denoising"]["decoder_layers"] == layers  # of 12


def test_a_scale_has_the_last_word_on_options(repository):
    config = fresh(repository, "mini")
    config.scale["objective_overrides"]["xlco"] = {"options": {"layer": 3}, "rows": 7}
    own = resolve_run(config, "infoxlm-base")["objectives"][2]
    assert own["options"]["layer"] == 3 and own["rows"] == 7


def test_languages_of_a_model_are_those_of_its_data(mini, paper):
    assert resolve_run(paper, "xlm-15")["model"]["languages"] == 15
    assert resolve_run(mini, "xlm-15")["model"]["languages"] == len(mini.scale["languages"])
    assert "languages" not in resolve_run(mini, "xlm")["model"]


# --- runs that start from others -------------------------------------------------------------------------------------


def test_a_parent_s_content_is_part_of_its_children(repository):
    def hashes(**changes: float) -> dict[str, str]:
        config = fresh(repository, "mini")
        config.runs["xlm-r"]["optimizer"] |= changes
        config.runs["xlm-r-small"]["optimizer"] |= changes  # the same run at this scale
        config.runs["xlm-r-large"]["optimizer"] |= changes
        return {name: run_hash(resolve_run(config, name)) for name in ("xlm", "xlm-r", "ernie-m-base", "mbert")}

    before, after = hashes(), hashes(clip=2.0)
    assert {name for name in before if before[name] != after[name]} == {"xlm-r", "ernie-m-base"}


def test_a_parent_is_the_run_that_stands_for_it(mini, paper):
    init = resolve_run(mini, "ernie-m-large")["init"]
    parent = resolve_run(mini, "xlm-r")
    assert init == {"run": "xlm-r", "fresh": ["mask_languages"], "run_hash": run_hash(parent)[:16]}
    assert resolve_run(paper, "ernie-m-large")["init"]["run"] == "xlm-r-large"
    assert lineage(paper, "unicoder") == ["unicoder", "xlm-15"]
    assert with_ancestors(mini, ["ppa-250k", "xlm"]) == ["mbert", "ppa-250k", "xlm"]


def test_a_parent_of_another_shape_is_refused_before_any_job(repository):
    config = fresh(repository, "paper")
    config.runs["ernie-m-base"]["init"]["run"] = "xlm-r-large"
    with pytest.raises(UserError, match=r"init.run: 'xlm-r-large' has model.layers 24 and this run 12 at scale paper"):
        resolve_run(config, "ernie-m-base")
    config.runs["ppa-250k"]["init"]["run"] = "xlm-r"
    config._resolved.clear()
    with pytest.raises(UserError, match=r"model.token_types 0 and this run 2.*put encoder.token_types into init.fresh"):
        resolve_run(config, "ppa-250k")
    config.runs["ppa-250k"]["init"]["fresh"].append("encoder.token_types")
    assert resolve_run(config, "ppa-250k")["init"]["run"] == "xlm-r"


# --- which runs are trained ------------------------------------------------------------------------------------------


def test_a_plain_make_trains_what_the_scale_lists(repository):
    for scale in ("smoke", "mini", "mini-2"):
        config = load_config(repository, {"scale": scale})
        untrained = {"random-init"} if scale == "smoke" else set()
        assert {run for run, _, _ in all_needs(config)} == {"fast-align", "xlm", "xlm-r"} | untrained
        everything = load_config(repository, {"scale": scale, "runs": "all"})
        found = {run for run, _, _ in all_needs(everything)}
        assert found > {
            "fast-align",
            "random-init",
            "xlm",
            "xlm-r",
            "ernie-m-base",
            "veco-large",
            "ppa-250k",
            "xlm-e-base",
        }
        chosen = load_config(repository, {"scale": scale, "runs": ["xlm", "veco-large"]})
        assert {run for run, _, _ in all_needs(chosen)} == {"xlm", "veco-large"}
    assert load_config(repository, {"scale": "paper"}).selected > {"mbart", "xlm-r"}


def test_what_is_computed_on_request_alone(repository, tmp_path):
    """A task, a setting, and what rests on its model: planned where runs are named, and else a reason."""
    asked = {
        ("xlm-r", "paws-x", "cross-lingual-transfer"),
        ("xlm-r", "xnli", "translate-train-all"),
        ("xlm-r", "tatoeba", "best-xnli-model"),
    }
    plain = load_config(repository, {"scale": "mini"})
    assert set(plain.on_request) == {"paws-x", "xnli/translate-train-all"}
    assert not asked & {*all_needs(plain)} and ("xlm-r", "xnli", "cross-lingual-transfer") in all_needs(plain)
    for settings in ({"runs": "all"}, {"runs": ["xlm-r"]}, {"scores_from": "reference"}):
        assert asked <= {*all_needs(load_config(repository, {"scale": "mini", **settings}))}
    context, tables, _ = load_context(repository / "config/config.yaml", "mini", tmp_path)
    [row] = [row for group in tables["veco/table-01"]["groups"] for row in group["rows"] if row.get("run") == "xlm-r"][
        :1
    ]
    for _, task, setting in asked:
        said = why_missing(row, task, setting, context)
        assert (
            said.startswith(("paws-x is", "xnli/translate-train-all is")) and "computed with --config runs=all" in said
        )
    assert why_missing(row, "xnli", "cross-lingual-transfer", context) is None
    # A claim on it can be tested: it has no scores yet.
    (claim,) = [claim for claim in plain.claims if claim["id"] == "xlm-e-gap-paws-x"]
    assert untestable(plain, claim) is None and not [need for need in claim_needs(plain) if need[1] == "paws-x"]


def test_a_run_that_is_not_trained_says_why(repository, tmp_path):
    context, tables, _ = load_context(repository / "config/config.yaml", "mini", tmp_path)
    rows = {row["run"]: row for group in tables["ernie-m/table-01"]["groups"] for row in group["rows"] if "run" in row}
    said = why_missing(rows["ernie-m-base"], "xnli", "cross-lingual-transfer", own_alone(context))
    assert said == "run ernie-m-base is not trained here; add it to `runs`, or say --config runs=all"
    assert why_missing(rows["xlm-r"], "xnli", "cross-lingual-transfer", context) is None


def test_a_scale_that_cannot_train_a_run_still_trains_the_others(repository):
    config = fresh(repository, "mini")
    config.scale["languages"] = ["de"]
    assert canonical_run(config, "xlm-r") == "xlm-r"


def test_run_hash_sees_content_and_neither_name_nor_order(mini):
    run = resolve_run(mini, "xlm")
    reordered = json.loads(json.dumps({key: run[key] for key in reversed(list(run))}))
    assert run_hash({**reordered, "name": "other", "paper": {"id": "x"}}) == run_hash(run)
    assert run_hash({**run, "finetune_recipe": "other"}) == run_hash(run)
    assert run_hash({**run, "numerics": 2}) != run_hash(run)


def test_the_written_run_loads_to_the_same_hash(mini, repository, tmp_path):
    out = tmp_path / "run.yaml"
    command = [sys.executable, "workflow/scripts/resolve_run.py", "--run", "config/runs/xlm.yaml"]
    command += ["--scale", "config/scales/mini.yaml", "--out", str(out)]
    subprocess.run(command, cwd=repository, check=True)
    written = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert run_hash(written) == run_hash(resolve_run(mini, "xlm"))
    assert "paper" not in written


def test_norwegian_survives_yaml(repository, tmp_path):
    out = tmp_path / "run.yaml"
    command = [sys.executable, "workflow/scripts/resolve_run.py", "--run", "config/runs/xlm-r.yaml"]
    subprocess.run([*command, "--scale", "config/scales/paper.yaml", "--out", str(out)], cwd=repository, check=True)
    assert "no" in yaml.safe_load(out.read_text(encoding="utf-8"))["data"]["mono"]["languages"]


def test_a_recipe_takes_its_setting_and_then_the_scale(paper, mini):
    ernie = resolve_recipe(paper, "xnli", "translate-train-all", "ernie-m")
    assert (ernie["recipe"]["batch"], ernie["recipe"]["epochs"]) == (128, 2)
    assert resolve_recipe(paper, "xnli", "cross-lingual-transfer", "ernie-m")["recipe"]["batch"] == 32
    assert "settings" not in ernie["recipe"] and ernie["recipe"]["name"] == "ernie-m"
    assert ernie["train_languages"] == paper.tasks["xnli"]["languages"] and ernie["train_limit"] is None
    small = resolve_recipe(mini, "xnli", "translate-train-all", "ernie-m")
    assert small["train_languages"] == [c for c in mini.tasks["xnli"]["languages"] if c in mini.scale["languages"]]
    overrides = mini.scale["task_overrides"]["xnli"]
    assert small["recipe"]["peak_lr"] == overrides["recipe"]["peak_lr"]
    assert resolve_recipe(mini, "tatoeba", "zero-shot-retrieval", "nobody")["recipe"]["name"] == "default"
    settings = ("cross-lingual-transfer", "translate-train-de", "translate-train-all")
    assert [resolve_recipe(mini, "mlqa", one, "xlm-r")["train_limit"] for one in settings] == [4000, 4000, 12000]


def test_seeds_share_pretrainings(repository):
    config = load_config(repository, {"scale": "paper"})
    assert [pretrain_seed(config, seed) for seed in (1, 2, 5)] == [1, 1, 1]
    config.scale["pretrain_seeds"] = 3
    assert [pretrain_seed(config, seed) for seed in (1, 2, 3, 4, 5)] == [1, 2, 3, 1, 2]
    assert [first_seed(config, seed) for seed in (1, 2, 3, 4, 5)] == [1, 2, 3, 1, 2]
    config.scale["fine_tunings"] = 2
    assert [pretrain_seed(config, seed) for seed in range(1, 15)] == [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8]
    assert [first_seed(config, seed) for seed in range(1, 15)] == [1, 2, 3, 1, 2, 3, 7, 8, 9, 7, 8, 9, 13, 14]
    assert second_fine_tunings(config, range(1, 15)) == {4, 5, 6, 10, 11, 12}


def spec(*rows, columns=({"task": "xnli"},), setting="cross-lingual-transfer"):
    return {"columns": list(columns), "groups": [{"setting": setting, "rows": list(rows)}]}


def test_needs_are_canonical_unique_and_only_what_exists(mini):
    rows = [{"run": "xlm-r-small"}, {"run": "xlm-r"}, {"run": "veco-large"}, {"label": "published only"}]
    assert needs(mini, spec(*rows)) == [("xlm-r", "xnli", "cross-lingual-transfer")]
    assert needs(mini, spec({"run": "xlm"}, setting="no-such-setting")) == []
    assert needs(mini, spec({"run": "xlm"}, columns=[{"task": "wmt14-en-de"}])) == []
    columns = [{"task": "tatoeba", "setting": "zero-shot-retrieval"}, {"task": "ud-pos"}]
    assert needs(mini, spec({"run": "xlm"}, columns=columns)) == [
        ("xlm", "tatoeba", "zero-shot-retrieval"),
        ("xlm", "ud-pos", "cross-lingual-transfer"),
    ]


def test_filters_choose_runs_papers_items_and_seeds(repository):
    overrides = {"scale": "mini", "runs": ["xlm-r"], "papers": ["ernie-m"], "seeds": ["2"]}  # as Snakemake hands them
    config = load_config(repository, overrides)
    assert {paper for paper, _ in (item.split("/") for item in config.specs)} == {"ernie-m"}
    assert {run for run, _, _ in all_needs(config)} == {"xlm-r"}
    assert config.seeds == [2]
    assert all(path.endswith("seed-2.json") for path in all_score_paths(config))
    one = load_config(repository, {"scale": "mini", "items": ["xlm-e/figure-03"]})
    assert list(one.specs) == ["xlm-e/figure-03"] and {task for _, task, _ in all_needs(one)} == {"tatoeba"}
    assert changed_settings(one) == {"items": ["xlm-e/figure-03"]}


def test_score_paths_are_those_of_the_contract(mini):
    paths = score_paths(mini, spec({"run": "xlm-small"}))
    assert paths == [f"results/mini/scores/xlm/xnli/cross-lingual-transfer/seed-{seed}.json" for seed in mini.seeds]


def test_decontamination_covers_corpus_languages_and_not_evaluation_languages(repository):
    config = load_config(repository, {"scale": "smoke"})
    before = corpus_languages(config)
    config.scale["evaluation_languages"] = [*config.scale["languages"], "fr"]
    assert corpus_languages(config) == before
    assert "fr" in task_languages(config, "tatoeba")
    assert "fr" not in task_languages(config, "tatoeba", before)


def test_an_evaluation_set_is_named_by_language_where_upstream_does(mini):
    ids = gold_datasets(mini, "tatoeba", ["de", "zh"])
    assert ids == ["tatoeba/cmn-eng.cmn", "tatoeba/cmn-eng.eng", "tatoeba/deu-eng.deu", "tatoeba/deu-eng.eng"]
    assert gold_datasets(mini, "xnli", ["de"]) == ["xnli/1.0"]
    resolved = resolve_recipe(mini, "xnli", "cross-lingual-transfer", "xlm-r")
    assert recipe_datasets(resolved, TEST_PARTS) == ["xnli/1.0"]
    assert recipe_datasets(resolved, TRAIN_PARTS) == ["xnli/1.0", "xnli/mt-1.0"]


QUESTIONS = {
    "test-{language}": "xquad/{language}",
    "train-{language}": "xtreme/squad.translate-train.en-{language}",
    "train-en": "squad/1.1-train",
    "dev-en": "squad/1.1-dev",
}


def test_files_are_those_of_the_languages_of_their_part(mini):
    of_parts = {"test": ["de", "en"], "train": ["en", "de"], "dev": ["en"]}
    assert expand_datasets(mini, QUESTIONS, of_parts, "f") == {
        "dev-en": "squad/1.1-dev",
        "test-de": "xquad/de",
        "test-en": "xquad/en",
        "train-de": "xtreme/squad.translate-train.en-de",
        "train-en": "squad/1.1-train",
    }
    assert expand_datasets(mini, QUESTIONS, {"train": ["de"]}, "f") == {
        "train-de": "xtreme/squad.translate-train.en-de"
    }
    with pytest.raises(UserError, match=r"f, datasets\.foreign-.*: am has no code in column tatoeba"):
        languages = {**mini.languages, "am": replace(mini.languages["am"], tatoeba="")}
        changed = replace(mini, languages=languages)
        expand_datasets(changed, {"foreign-{language}": "tatoeba/{l3}-eng.{l3}"}, {"foreign": ["am"]}, "f")


@pytest.fixture
def own_models(repository):
    """mini with a setting of a model for each language, and one that predicts with another task's model."""
    config = load_config(repository, {"scale": "mini"})
    config.tasks["xnli"]["settings"]["translate-train"] = {"train": "each"}
    config.tasks["xnli"]["recipes"]["ppa"]["settings"] = {"translate-train": {"code_switch": True}}
    model = {"task": "xnli", "setting": "translate-train-all"}
    config.tasks["tatoeba"]["settings"]["best-xnli-model"] = {"train": [], "model": model}
    config._recipes.clear()
    return config


def test_a_setting_with_a_model_for_each_language_is_as_many_jobs(own_models):
    jobs = setting_jobs(own_models, "xnli", "translate-train")
    assert jobs == [f"translate-train-{code}" for code in ("ar", "de", "en", "es", "fr", "hi", "ru", "zh")]
    assert setting_of_job(own_models, "xnli", "translate-train-de") == ("translate-train", "de")
    assert setting_of_job(own_models, "xnli", "translate-train-all") == ("translate-train-all", None)
    german = resolve_recipe(own_models, "xnli", "translate-train-de", "ppa")
    assert german["languages"] == german["train_languages"] == ["de"] and german["setting"] == "translate-train-de"
    assert german["recipe"]["code_switch"] is True
    assert "code_switch" not in resolve_recipe(own_models, "xnli", "translate-train-en", "ppa")["recipe"]
    assert trained_as(own_models, "xnli", "translate-train-de") == ("xnli", "translate-train-de")
    with pytest.raises(UserError, match="unknown setting 'translate-train-ja'"):
        setting_of_job(own_models, "xnli", "translate-train-ja")
    row = spec({"run": "xlm-r"})
    row["groups"][0]["setting"] = "translate-train"
    assert {job for _, _, job in needs(own_models, row)} == set(jobs)


def test_only_the_languages_that_are_shown_have_a_model_of_their_own(own_models):
    row = spec({"run": "xlm-r"}, columns=[{"task": "xnli", "languages": ["de", "fr"]}])
    row["groups"][0]["setting"] = "translate-train"
    assert {job for _, _, job in needs(own_models, row)} == {"translate-train-de", "translate-train-fr"}


def test_a_scale_may_leave_out_languages_of_a_task(own_models):
    own_models.scale["task_overrides"]["xnli"]["languages"] = ["de", "en"]
    own_models._recipes.clear()
    jobs = setting_jobs(own_models, "xnli", "translate-train")
    assert jobs == ["translate-train-de", "translate-train-en"]
    assert resolve_recipe(own_models, "xnli", jobs[0], "xlm-r")["languages"] == ["de"]
    assert resolve_recipe(own_models, "xnli", "translate-train-all", "xlm-r")["languages"] == ["de", "en"]
    own_models.scale["task_overrides"]["xnli"]["languages"] = ["ja"]
    with pytest.raises(UserError, match=r"task_overrides.xnli.languages: unknown language of xnli 'ja'"):
        check_task(own_models, "xnli")


def test_all_translations_are_trained_on_with_english_even_where_that_is_not_evaluated(own_models):
    own_models.scale["evaluation_languages"] = ["de", "zh"]
    own_models._recipes.clear()
    resolved = resolve_recipe(own_models, "xquad", "translate-train-all", "xlm-r")
    assert resolved["languages"] == ["de", "zh"] and resolved["train_languages"] == ["en", "de", "zh"]
    assert {"train-en", "train-de", "train-zh", "dev-en"} <= resolved["datasets"].keys()


def test_a_setting_may_predict_with_the_model_of_another_task(own_models):
    assert trained_as(own_models, "tatoeba", "best-xnli-model") == ("xnli", "translate-train-all")
    assert trained_as(own_models, "tatoeba", "zero-shot-retrieval") is None
    resolved = resolve_recipe(own_models, "tatoeba", "best-xnli-model", "xlm-r")
    assert resolved["model"] == {"task": "xnli", "setting": "translate-train-all"}
    assert resolved["train_languages"] == []


def test_retrieval_is_fine_tuned_on_the_pairs_of_a_run_at_the_scale(mini, paper):
    setting = "retrieval-fine-tuned"
    assert bitext_settings(mini, "tatoeba") == [setting] and not bitext_settings(mini, "xnli")
    assert trained_as(mini, "tatoeba", setting) == ("tatoeba", setting)
    for config, languages in (
        (mini, "ar de es fr hi ru zh"),
        (paper, "ar bg de el es fr hi ru sw th tr ur vi zh"),  # of 36: those that ERNIE-M has pairs of
    ):
        resolved = resolve_recipe(config, "tatoeba", setting, "ernie-m")
        assert " ".join(resolved["train_languages"]) == languages
        pairs = resolve_run(config, "ernie-m-base")["data"]["bitext"]
        assert resolved["bitext"] == {"run": "ernie-m-base", "alpha": 0.7, "corpora": pairs["corpora"]}
        assert resolved["recipe"]["steps"] == (300 if config is mini else 200000)
    assert "steps" not in resolve_recipe(mini, "tatoeba", "zero-shot-retrieval", "ernie-m")["recipe"]


def test_what_has_no_pairs_at_a_scale_is_not_asked_for(repository):
    config = load_config(repository, {"scale": "mini", "runs": ["xlm-r"]})
    row = spec({"run": "xlm-r"}, columns=[{"task": "tatoeba"}], setting="retrieval-fine-tuned")
    assert needs(config, row) == [("xlm-r", "tatoeba", "retrieval-fine-tuned")]
    config.scale["evaluation_languages"] = ["en", "ja"]
    config._recipes.clear()
    assert needs(config, row) == []


def test_a_scale_names_settings_that_a_task_has(repository):
    config = load_config(repository, {"scale": "mini"})
    config.scale["task_overrides"]["tatoeba"]["recipe"]["settings"] = {"retrieval-finetuned": {"steps": 3}}
    with pytest.raises(UserError, match=r"task_overrides\.tatoeba\.recipe\.settings: unknown setting 'retrieval-fine"):
        check_task(config, "tatoeba")


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        ("tatoeba", {"train": ["de"]}, "settings.x.train: kind retrieval trains nothing"),
        ("tatoeba", {"train": ["de"], "bitext": "xlm"}, r"settings.x.bitext: is for one model \(train: all\)"),
        ("bucc", {"train": "all", "bitext": "xlm"}, "settings.x.bitext: .* of a task of kind retrieval"),
        ("tatoeba", {"train": "all", "bitext": "xlmm"}, "settings.x.bitext: unknown run 'xlmm'"),
        ("tatoeba", {"train": "all", "bitext": "xlm-r"}, "settings.x.bitext: run 'xlm-r' has no sentence pairs"),
        ("tatoeba", {"train": "all", "bitext": "ppa-250k"}, "'ppa-250k' has no sentence pairs or limits them"),
        ("tatoeba", {"train": [], "model": {"task": "xnly", "setting": "x"}}, "model.task: unknown task 'xnly'"),
        ("tatoeba", {"train": [], "model": {"task": "xnli", "setting": "x"}}, "model.setting: unknown setting 'x'"),
        (
            "ud-pos",
            {"train": ["en"], "model": {"task": "xnli", "setting": "translate-train-all"}},
            "model.task: xnli has another kind of answer",
        ),
        (
            "ud-pos",
            {"train": ["en"], "model": {"task": "wikiann-ner", "setting": "cross-lingual-transfer"}},
            "model.task: wikiann-ner has another kind of answer .* or other labels",
        ),
        (
            "tatoeba",
            {"train": [], "model": {"task": "xnli", "setting": "translate-train"}},
            "model.setting: translate-train trains no one model itself",
        ),
        (
            "mlqa",
            {"train": [], "model": {"task": "mlqa", "setting": "g-xlt"}},
            "model.setting: g-xlt trains no one model itself",
        ),
        (
            "bucc",
            {"train": [], "model": {"task": "tatoeba", "setting": "zero-shot-retrieval"}},
            "model.setting: zero-shot-retrieval trains no one model itself",
        ),
        ("xnli", {"train": ["en"], "pairs": True}, "pairs: is for a question and a context"),
        ("xnli", {"train": []}, "settings.x.train: is empty, and kind classification is fine-tuned"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(own_models, task, setting, message):
    own_models.tasks[task]["settings"]["x"] = setting
    with pytest.raises(UserError, match=message):
        check_task(own_models, task)


def test_a_scale_that_leaves_an_objective_without_data_says_so(mini):
    config = load_config(mini.root, {"scale": "mini"})
    config._resolved.clear()
    config.scale["languages"] = ["de"]
    with pytest.raises(UserError, match=r"config/scales/mini.yaml, languages: leaves objective 'tlm' of run 'xlm'"):
        resolve_run(config, "xlm")


def test_local_imports_follow_every_way_of_importing(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "room").mkdir()
    for name, text in {
        "script.py": "import os, first\nfrom package import (\n    second,\n    third as other,\n)\n",
        "first.py": "def late():\n    from fourth import x\n",
        "fourth.py": "import script\nfrom room import sixth\n",
        "package/__init__.py": "NAME = 1\n",
        "room/__init__.py": '"""What lies here."""\n',
        "room/sixth.py": "",
        "package/second.py": "from package.third import y\n",
        "package/third.py": "import json\n",
        "package/unused.py": "",
        "json_like.py": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = local_imports(tmp_path / "script.py")
    expected = ["first.py", "fourth.py", "package/__init__.py", "package/second.py", "package/third.py"]
    expected.append("room/sixth.py")  # and not the words over its room
    assert found == [str(tmp_path / name) for name in expected]


def test_plan_imports_nothing_heavy(repository):
    code = (
        "import sys; sys.path.insert(0, 'workflow/scripts'); from plan.load import load_config; "
        "load_config('.', {'scale': 'paper'}); "
        "print([m for m in ('torch', 'numpy', 'pandas', 'matplotlib', 'sentencepiece', 'fasttext', 'snakemake') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# --- exported models ------------------------------------------------------------------------------------------------

XNLI, TRANSLATED = ("xnli", "cross-lingual-transfer"), ("wmt14-en-de", "pretrained-init")


@pytest.fixture
def scored(mini, tmp_path):
    """mini in a folder of its own, where ernie-m-base and xlm have scores of two seeds."""
    for run in ("ernie-m-base", "xlm"):
        for job in ("/".join(XNLI), "ud-pos/cross-lingual-transfer", "/".join(TRANSLATED), "gone/setting", "xnli/gone"):
            for seed in (1, 2):
                path = tmp_path / f"results/mini/scores/{run}/{job}/seed-{seed}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("{}")
    return replace(mini, root=tmp_path)


def test_an_encoder_has_the_scores_of_its_seed_and_a_model_of_a_task_its_own(scored):
    """A translation model is another model; what is no task or setting any more is nobody's."""

    def jobs(made, seed: int) -> list[str]:
        found = map(Path, exports.scores_there(scored, "ernie-m-base", made, seed))
        return ["/".join((*path.parts[-3:-1], path.stem)) for path in found]

    seed = pretrain_seed(scored, 2, "ernie-m-base")
    same = [own for own in (1, 2) if pretrain_seed(scored, own, "ernie-m-base") == seed]
    of_tasks = ["ud-pos/cross-lingual-transfer", "/".join(XNLI)]
    assert jobs(None, seed) == [f"{job}/seed-{own}" for job in of_tasks for own in same]
    assert jobs(XNLI, 2) == [f"{'/'.join(XNLI)}/seed-2"]
    assert jobs(TRANSLATED, 1) == [f"{'/'.join(TRANSLATED)}/seed-1"]


def test_a_card_names_the_runs_that_the_model_came_from(mini):
    assert exports.sources_of(mini, "xlm", None) == []
    line = [trained_run(mini, run) for run in lineage(mini, "ernie-m-base")]
    assert exports.sources_of(mini, "ernie-m-base", XNLI) == line[1:] != []
    assert exports.sources_of(mini, "ernie-m-base", TRANSLATED) == line


def test_a_card_rests_on_its_scores_and_on_the_licences_of_its_data(scored):
    files = exports.scores_there(scored, "xlm", None, 1)
    digest = exports.card_digest(scored, "xlm", None, files)
    assert files and exports.card_digest(scored, "xlm", None, files) == digest
    of_task = {*exports.data_behind(scored, "xlm", XNLI)} - {*exports.data_behind(scored, "xlm", None)}
    assert of_task and all("xnli" in id_ for id_ in of_task)
    used, other = exports.data_behind(scored, "xlm", None)[0], next(iter(of_task))
    for id_, is_its in ((used, True), (other, False)):
        dataset = replace(scored.datasets[id_], licence="another")
        changed = replace(scored, datasets={**scored.datasets, id_: dataset})
        assert (exports.card_digest(changed, "xlm", None, files) != digest) == is_its
    Path(files[0]).write_text("{ }")
    assert exports.card_digest(scored, "xlm", None, files) != digest


# --- what the page shows --------------------------------------------------------------------------------------------


def test_the_page_rests_on_the_trainings_behind_scores_figures_and_comparisons(repository):
    whole, alone = (load_config(repository, {"scale": "mini", **own}) for own in ({}, {"items": ["veco/table-10"]}))
    behind_scores = {*training_paths(alone, {run for run, _, _ in all_needs(alone)})}
    assert behind_scores and {*shown_trainings(alone)} == behind_scores
    assert shown_counts(alone) == [] and shown_counts(whole) == ["results/mini/corpus/counts.json"]
    of_costs = {path for spec in whole.figures.values() for path in figure_trainings(whole, spec)}
    compared = {path for spec in whole.tables.values() if "compare" in spec for path in compared_trainings(whole, spec)}
    assert of_costs and compared and of_costs | compared <= {*shown_trainings(whole)}
    assert compared_digest(whole) != compared_digest(alone)
