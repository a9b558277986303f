"""What the workflow plans: everything from nothing, nothing twice, and after an edit exactly what rests on it.

The rules, their commands and the whole configuration are the real ones, run for real once. Only the scripts that
compute are replaced by stand-ins that write their declared outputs, so that a complete run takes seconds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import ready
from plan.claimed import all_needs
from plan.load import load_config
from trees import copy_tree, edit, planned, rule_blocks, snakemake

pytestmark = pytest.mark.dag

# the rules themselves use these
REAL = {"resolve_run", "resolve_recipe", "resolve_translator"}

STAND_IN = """
import hashlib, os, sys
from pathlib import Path

OUTPUTS = {{"--out", "--out-pdf", "--out-png", "--out-tsv", "--missing", "--log-json", "--cost", "--dev-json"}}
OUTPUTS |= {{"--out-tex", "--out-md", "--out-json", "--rejects", "--json", "--signatures"}}
if "{name}".startswith("clean_"):
    OUTPUTS.add("--counts")
if "{name}" == "train_translator":
    OUTPUTS.add("--snapshots")
values, flag = {{}}, None
for word in sys.argv[1:]:
    if word.startswith("--"):
        flag = word
    elif flag in OUTPUTS:
        values.setdefault(flag, []).append(Path(word))
assert {{"--out", "--out-pdf", "--out-tex"}} & set(values), sys.argv
for path in [path for paths in values.values() for path in paths]:
    if "{name}" == "build_world":
        (path / "gold").mkdir(parents=True, exist_ok=True)
        (path / "MANIFEST.tsv").write_text("path\\tbytes\\tsha256\\n")
        (path / "gold/dirt.tsv").write_text("")
    elif "{name}" in ("predict", "fast_align", "translate") or path.name == "snapshots":
        path.mkdir(parents=True)
        (path / "predictions.json").write_text("{{}}")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{name} " + str(path))
"""

IMPORT = re.compile(r"^(?:import|from) (?:[^(\n]*\([^)]*\)|.*)$", re.MULTILINE)


def specs(tree: Path, kind: str) -> dict[str, int]:
    """Rule -> how many tables or figures it makes: comparisons, diagrams and the claims have rules of their own."""
    apart, rest = {
        "tables": ({"make_comparison": "compare:"}, "make_table"),
        "figures": ({"draw_diagram": "diagram:", "draw_effects": "effects:"}, "plot_figure"),
    }[kind]
    found = [path.read_text(encoding="utf-8") for path in (tree / "config" / kind).glob("*/*.yaml")]
    own = {rule: sum(f"\n{key}" in text for text in found) for rule, key in apart.items()}
    return own | {rest: len(found) - sum(own.values())}


def jobs(tree: Path, scale: str = "smoke") -> str:
    return snakemake(tree, "--dry-run", "--config", f"scale={scale}").stdout


def set_threshold(tree: Path, section: str) -> None:
    """Change the first number of a section of the cleaning thresholds, whatever it is."""
    path = tree / "config/cleaning.yaml"
    text, count = re.subn(
        rf"^({section}:.*\n(?: *#.*\n)*  \w+: )([0-9.]+)",
        lambda found: f"{found.group(1)}{float(found.group(2)) + 1}",
        path.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert count == 1, f"config/cleaning.yaml has no section {section}: mend this test"
    path.write_text(text, encoding="utf-8")


PLAIN_RUNS = "runs: [random-init, xlm-r, xlm, xlm-r-small, xlm-small, fast-align]"


@pytest.fixture(scope="module")
def built(repository, tmp_path_factory) -> Path:
    """A tree after complete runs of smoke, with stand-ins for the scripts that compute."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("dag"), own_reference=False)
    rules = "".join(path.read_text(encoding="utf-8") for path in sorted((tree / "workflow/rules").glob("*.smk")))
    for name in sorted(set(re.findall(r"workflow/scripts/(\w+)\.py", rules)) - REAL):
        path = tree / f"workflow/scripts/{name}.py"
        # The imports stay as text: what a script imports is part of what its jobs depend on.
        imports = "\n".join(IMPORT.findall(path.read_text(encoding="utf-8")))
        path.write_text(f'{ready.ALONE}"""\n{imports}\n"""\n{STAND_IN.format(name=name)}', encoding="utf-8")
    assert planned(tree)["pretrain"] == 3
    snakemake(tree, "--cores", "2", "--config", "scale=smoke")
    snakemake(tree, "--cores", "1", "--config", "scale=smoke", "--", "cleaning", "results/index.html")
    return tree


def whole_copy(tree: Path, copy: Path) -> Path:
    """To edit, times kept."""
    return Path(shutil.copytree(tree, copy, symlinks=True))


@pytest.fixture
def tree(built, tmp_path) -> Path:
    return whole_copy(built, tmp_path / "tree")


# --- a complete run --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def as_good_as_unchanged(built, tmp_path_factory) -> Path:
    """Comments, mirrors and resources, and a touch of every source: each of them plans nothing, so all do together."""
    tree = whole_copy(built, tmp_path_factory.mktemp("unchanged") / "tree")
    edit(tree, "config/cleaning.yaml", "mono:\n", "mono:  # one side\n")
    path = tree / "config/runs/xlm.yaml"
    path.write_text("# a thought\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    edit(tree, "config/config.yaml", "mirrors: []", "mirrors: [/data/mirror]")
    resources = "resources: {pretrain: {gpu: 8, nodes: 2}}"
    edit(tree, "config/scales/smoke.yaml", "pretrain_seeds: 1", f"pretrain_seeds: 1\n{resources}")
    for name in tracked_files(tree):
        os.utime(tree / name)
    return tree


@pytest.mark.parametrize("hash_seed", ["0", "1", "31337"])
def test_nothing_is_done_twice_whatever_the_hash_seed(as_good_as_unchanged, hash_seed):
    assert planned(as_good_as_unchanged, PYTHONHASHSEED=hash_seed) == {}


def tracked_files(tree: Path) -> list[str]:
    return [
        str(path.relative_to(tree))
        for path in sorted(tree.rglob("*"))
        if path.is_file() and path.relative_to(tree).parts[0] not in ("results", ".snakemake")
    ]


def test_summary_dag_and_rulegraph(built):
    summary = snakemake(built, "--summary", "--config", "scale=smoke").stdout
    assert "results/tables/all.tex" in summary and "update pending" not in summary
    for option in ("--dag", "--rulegraph"):
        assert snakemake(built, option, "--config", "scale=smoke").stdout.lstrip().startswith("digraph")


def test_report(built, tmp_path):
    tree = whole_copy(built, tmp_path / "tree")
    snakemake(tree, "--report", "results/report.html", "--config", "scale=smoke")
    text = (tree / "results/report.html").read_text(encoding="utf-8")
    specs = sorted(tree.glob("config/figures/*/*.yaml"))
    assert specs
    for spec in specs:
        assert json.dumps(yaml.safe_load(spec.read_text(encoding="utf-8"))["title"]) in text, spec


# --- edits -----------------------------------------------------------------------------------------------------------

EVALUATION = {
    "finetune",
    "finetune_retrieval",
    "predict",
    "score",
    "collect_scores",
    "make_table",
    "plot_figure",
    "make_comparison",  # one shows an average of scores
    "evaluate_claims",
    "make_ledger",
    "draw_effects",
    "make_document",
}
AFTER_TRAINING = EVALUATION | {"summarise_training"}
AFTER_CLEANING = AFTER_TRAINING | {
    "count_corpus",
    "plan_sampling_vocabulary",
    "train_vocabulary",
    "encode_corpus",
    "plan_sampling_run",
    "pretrain",
}


def test_a_plot_script_plans_its_figures_and_the_document(tree):
    edit(tree, "workflow/scripts/plot_figure.py", "import argparse", "# red\nimport argparse")
    assert planned(tree) == {"plot_figure": specs(tree, "figures")["plot_figure"], "make_document": 1}


def test_a_figure_spec_plans_that_figure(tree):
    edit(tree, "config/figures/xlm-e/figure-03.yaml", "title: Tatoeba", "title: On Tatoeba")
    assert planned(tree) == {"plot_figure": 1, "make_document": 1}


def test_a_colour_plans_one_figure(tree):
    edit(tree, "config/figures/xlm-e/figure-03.yaml", "columns:", 'colours: {XLM-E base: "#AA3377"}\ncolumns:')
    assert planned(tree) == {"plot_figure": 1, "make_document": 1}


def test_a_published_number_plans_what_shows_it_and_the_audit(tree):
    edit(tree, "config/published/ernie-m-blog/table-01.csv", ",xnli,ar,accuracy,0.7764,", ",xnli,ar,accuracy,0.7763,")
    assert planned(tree) == {"make_table": 1, "audit": 1, "make_document": 1}
    # Table 16 by language is also what figure 5 draws; it and table 1 are what claims are set beside.
    edit(tree, "config/published/ernie-m/table-16.csv", "af,accuracy,80.9", "af,accuracy,80.8")
    claims = {"evaluate_claims": 1, "make_ledger": 1, "draw_effects": 1}
    assert planned(tree) == {"make_table": 2, "plot_figure": 1, "audit": 1, "make_document": 1} | claims
    edit(tree, "config/published/xlm-e/table-01.csv", "mbert,ud-pos,avg,f1,70.3,", "mbert,ud-pos,avg,f1,70.4,")
    assert (
        planned(tree) == {"make_table": 3, "plot_figure": 2, "audit": 1, "make_document": 1} | claims
    )  # figure 1: XNLI


def test_a_claim_plans_the_claims(tree):
    edit(tree, "config/claims.yaml", "says: ERNIE-M is ahead", "says: ERNIE-M is far ahead")
    assert planned(tree) == {"evaluate_claims": 1, "make_ledger": 1, "draw_effects": 1, "make_document": 1}
    # the page shows them too, and nothing of the document
    assert planned(tree, "results/index.html").keys() == {
        *("evaluate_claims", "make_ledger", "draw_effects", "make_site"),
    }


def test_a_table_spec_plans_that_table(tree):
    edit(tree, "config/tables/ppa/table-02.yaml", "title: XNLI", "title: On XNLI")
    assert planned(tree) == {"make_table": 1, "make_document": 1}


def test_a_cleaning_threshold_plans_cleaning_and_what_follows(tree):
    set_threshold(tree, "mono")
    found = planned(tree)
    assert found.keys() == {"clean_mono"} | AFTER_CLEANING
    assert found["clean_mono"] == 8 and found["pretrain"] == 3


def test_a_threshold_of_the_bitext_leaves_monolingual_text_alone(tree):
    set_threshold(tree, "bitext")
    found = planned(tree)
    assert "clean_mono" not in found and "train_vocabulary" not in found
    assert found["clean_bitext"] == 3
    assert found["pretrain"] == 1, "xlm reads bitext, xlm-r does not"


def test_a_scale_s_own_threshold_counts_too(tree):
    edit(
        tree,
        "config/scales/smoke.yaml",
        "language_id: trained",
        "language_id: trained\ncleaning: {mono: {own_language: 0.6}}",
    )
    assert planned(tree).keys() == {"clean_mono"} | AFTER_CLEANING


def test_an_edited_module_of_the_cleaner_plans_cleaning(tree):
    path = tree / "workflow/scripts/corpus/textfilters.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert {"clean_mono", "clean_bitext"} <= planned(tree).keys()


def test_an_edited_module_of_the_scorer_plans_scores(tree):
    path = tree / "workflow/scripts/engine/metrics.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert "score" in planned(tree)


def test_code_of_the_expensive_jobs_plans_none_of_them(tree):
    expensive = ("download", "resolve_run", "pretrain", "finetune", "finetune_retrieval", "predict")
    for script in (*expensive, "plan/runs"):
        path = tree / f"workflow/scripts/{script}.py"
        path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert not planned(tree).keys() & {*expensive}


def test_a_scale_may_fine_tune_all_methods_alike(tree):
    """XLM-E's own recipe warms up for more steps than a small scale has."""
    score = "results/smoke/scores/xlm-e-base/xnli/cross-lingual-transfer/seed-1.json"
    commands = snakemake(tree, "-n", "-p", "--config", "scale=smoke", "runs=[xlm-e-base]", "--", score).stdout
    assert "recipes/xnli/cross-lingual-transfer/xlm-r.yaml" in commands
    assert "recipes/xnli/cross-lingual-transfer/xlm-e.yaml" not in commands


def test_numerics_trains_again(tree):
    edit(tree, "config/runs/xlm.yaml", "numerics: 1", "numerics: 2")
    found = planned(tree)
    # xlm-small is no longer xlm: its row of ERNIE-M's table 8 becomes a run of its own.
    assert found["pretrain"] == 2 and "encode_corpus" not in found


def test_an_evaluation_language_plans_no_cleaning_and_no_training(tree):
    edit(tree, "config/scales/smoke.yaml", "languages: [de, en, hi, zh]", "languages: [de, en, hi]")
    # With three languages of pre-training everything is new; the fourth is then only evaluated.
    edit(tree, "config/scales/smoke.yaml", "evaluation_languages: null", "evaluation_languages: [de, en, hi]")
    edit(tree, "config/scales/smoke.yaml", PLAIN_RUNS, "runs: [random-init, xlm-r]")
    snakemake(tree, "--cores", "2", "--config", "scale=smoke")
    edit(
        tree, "config/scales/smoke.yaml", "evaluation_languages: [de, en, hi]", "evaluation_languages: [de, en, hi, zh]"
    )
    found = planned(tree)
    assert found.keys() <= {"download", "resolve_recipe"} | EVALUATION, found
    config = load_config(tree, {"scale": "smoke"})
    needs = [need for need in all_needs(config) if "zh" in config.tasks[need[1]]["languages"]]
    chinese = [need for need in needs if "centred" not in need[2]]  # Chinese has no pairs here to be centred on
    assert found["predict"] == found["score"] == len(chinese) >= 20


def test_one_run_file_plans_that_run_and_its_descendants(tree):
    for file in ("xlm", "xlm-small"):
        edit(tree, f"config/runs/{file}.yaml", "weight_decay: 0.01", "weight_decay: 0.02")
    text = jobs(tree)
    assert {match for match in re.findall(r"results/smoke/(?:runs|finetuned|scores|predictions)/([\w-]+)/", text)} >= {
        "xlm"
    }
    written = re.findall(r"^    output: (.*)$", text, re.MULTILINE)
    touched = {
        match for line in written for match in re.findall(r"results/smoke/(?:runs|finetuned|scores)/([\w-]+)/", line)
    }
    assert touched == {"xlm"}
    assert "encode_corpus" not in planned(tree)


METHODS = ("runs=[xlm,ernie-m-base,veco-large,ppa-250k]",)


@pytest.fixture(scope="module")
def built_with_methods(built, tmp_path_factory) -> Path:
    """The same tree after training runs that start from others: two from xlm-r, one from mbert."""
    tree = whole_copy(built, tmp_path_factory.mktemp("methods") / "tree")
    assert planned(tree, "models", settings=METHODS)["pretrain"] == 4
    snakemake(tree, "--cores", "2", "--config", "scale=smoke", *METHODS, "--", "models")
    return tree


@pytest.fixture
def methods(built_with_methods, tmp_path) -> Path:
    return whole_copy(built_with_methods, tmp_path / "tree")


def test_a_run_gets_the_weights_that_it_starts_from_with_its_own_seed(methods):
    assert planned(methods, "models", settings=METHODS) == {}
    told = ("--config", "scale=smoke", "seeds=[1,2]", *METHODS, "--", "models")
    (methods / "config/scales/smoke.yaml").write_text(
        (methods / "config/scales/smoke.yaml").read_text().replace("pretrain_seeds: 1", "pretrain_seeds: 2")
    )
    text = snakemake(methods, "--dry-run", "--printshellcmds", "--forceall", *told).stdout
    commands = [line for line in text.splitlines() if "pretrain.py --run-file" in line]
    starts = {
        (run, seed): re.search(r"--init (\S+)", line).group(1) if "--init" in line else None
        for line in commands
        for run, seed in re.findall(r"--out results/smoke/runs/([\w-]+)/seed-(\d)/", line)
    }
    parents = {"ernie-m-base": "xlm-r", "veco-large": "xlm-r", "ppa-250k": "mbert"}
    assert len(starts) == 2 * 6, "four runs and the two that they start from, two seeds"
    for (run, seed), start in starts.items():
        parent = parents.get(run)
        assert start == (f"results/smoke/runs/{parent}/seed-{seed}/model.safetensors" if parent else None)


def test_a_changed_run_trains_what_starts_from_it_again(methods):
    edit(methods, "config/runs/xlm-r.yaml", "weight_decay: 0.01", "weight_decay: 0.02")
    # xlm-r itself and the two that start from it, veco-large from xlm-r-large, which is xlm-r here. mbert extends it,
    # but has a weight decay of its own.
    found = planned(methods, "models", settings=METHODS)
    assert (found["pretrain"], found["resolve_run"]) == (3, 3) and "encode_corpus" not in found


def test_a_changed_child_leaves_what_it_starts_from_alone(methods):
    edit(methods, "config/runs/ernie-m-base.yaml", "ratio_share: 0.2", "ratio_share: 0.1")
    found = planned(methods, "models", settings=METHODS)
    assert (found["pretrain"], found["resolve_run"]) == (1, 1)


def test_numerics_of_a_run_reaches_what_starts_from_it(methods):
    edit(methods, "config/runs/mbert.yaml", "name: mbert", "name: mbert\nnumerics: 2")
    # ppa-250k extends mbert as well
    found = planned(methods, "models", settings=METHODS)
    assert (found["pretrain"], found["resolve_run"]) == (2, 2)


TRANSLATION = ("runs=[veco-large,veco-large-first-3,transformer-xbig]", "items=[veco/table-04]")
TABLE = "results/tables/veco/table-04.tex"


@pytest.fixture(scope="module")
def built_with_translation(built, tmp_path_factory) -> Path:
    """The same tree after the table with three translation models, two of them of one run."""
    tree = whole_copy(built, tmp_path_factory.mktemp("translation") / "tree")
    found = planned(tree, TABLE, settings=TRANSLATION)
    assert found["pretrain"] == 1
    assert [found[rule] for rule in ("train_translator", "validate_translator", "translate")] == [3, 3, 3]
    assert "finetune" not in found and "predict" not in found
    snakemake(tree, "--cores", "2", "--config", "scale=smoke", *TRANSLATION, "--", TABLE)
    assert not list(tree.glob("results/smoke/translators/*/*/*/*/snapshots")), "they go when they have been validated"
    assert planned(tree, TABLE, settings=TRANSLATION) == {}
    return tree


@pytest.fixture
def translation(built_with_translation, tmp_path) -> Path:
    return whole_copy(built_with_translation, tmp_path / "tree")


def test_another_beam_translates_again_and_trains_nothing(translation):
    edit(translation, "config/tasks/wmt14-en-de.yaml", "beam: 5", "beam: 4")
    found = planned(translation, TABLE, settings=TRANSLATION)
    assert (found["translate"], found["score"]) == (3, 3)
    assert not {"train_translator", "validate_translator", "resolve_translator", "pretrain"} & found.keys()


def test_another_smoothing_trains_the_translation_models_alone(translation):
    edit(translation, "config/tasks/wmt14-en-de.yaml", "label_smoothing: 0.2", "label_smoothing: 0.1")
    found = planned(translation, TABLE, settings=TRANSLATION)
    assert (found["train_translator"], found["validate_translator"], found["translate"]) == (3, 3, 3)
    assert "pretrain" not in found and "encode_corpus" not in found


def test_another_decoder_trains_one_translation_model(translation):
    edit(translation, "config/runs/transformer-xbig.yaml", "layers: 6", "layers: 24")
    found = planned(translation, TABLE, settings=TRANSLATION)
    assert (found["train_translator"], found["translate"]) == (1, 1) and "pretrain" not in found


def test_a_task_s_recipe_plans_that_task(tree):
    edit(tree, "config/tasks/ud-pos.yaml", "clip: 1.0", "clip: 2.0")
    found = planned(tree)
    assert (found["resolve_recipe"], found["finetune"], found["score"]) == (1, 3, 3) and "pretrain" not in found


def test_a_changed_world_is_a_new_world(tree):
    edit(tree, "config/scales/smoke.yaml", "seed: 1", "seed: 2")
    assert {"build_world", "download", "clean_mono"} <= planned(tree).keys()


# --- scales ----------------------------------------------------------------------------------------------------------


def test_switching_the_scale_back_and_forth_only_assembles_again(built, tmp_path):
    tree = whole_copy(built, tmp_path / "tree")
    edit(tree, "config/scales/mini.yaml", "seeds: [1, 2, 3]", "seeds: [1]")
    edit(
        tree, "config/scales/mini.yaml", PLAIN_RUNS.replace("random-init, ", ""), "runs: [xlm-r]"
    )  # one is enough to be left alone
    items = ("items=[parallax/summary,xlm-e/figure-03]",)  # and so are a table and a figure
    for scale in ("smoke", "mini"):
        snakemake(tree, "--cores", "2", "--config", f"scale={scale}", *items)
    assembled = {"make_table": 1, "plot_figure": 1, "make_ledger": 1, "make_document": 1}
    assert planned(tree, scale="mini", settings=items) == {}
    assert planned(tree, scale="smoke", settings=items) == assembled
    snakemake(tree, "--cores", "2", "--config", "scale=smoke", *items)
    assert planned(tree, scale="smoke", settings=items) == {}
    assert planned(tree, scale="mini", settings=items) == assembled


def test_filters_choose_what_is_planned(built):
    def count(*settings: str) -> dict[str, int]:
        done = snakemake(built, "--dry-run", "--forceall", "--config", "scale=smoke", *settings, "--", "scores")
        return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", done.stdout, re.MULTILINE)}

    assert count("runs=[xlm-r]")["pretrain"] == 1
    assert count("runs=all")["pretrain"] > 15
    assert "finetune" not in count("items=[xlm-e/figure-03]")
    assert count("seeds=[1,2]")["finetune"] == 2 * count()["finetune"]


# --- the paper scale, and parsing ------------------------------------------------------------------------------------


COMMANDS = """
import gc, sys
sys.path.insert(0, "workflow/scripts")
from pathlib import Path
from billing.jobs import planned_graph
gc.disable()
jobs = list(planned_graph(["scale=paper"], ["tables"], Path("Snakefile")).jobs)
assert all(job.dag.needrun(job) for job in jobs)
print(len(jobs), *sorted(len(job.shellcmd.encode()) for job in jobs if job.shellcmd))
"""


def test_the_paper_scale_plans_within_its_bounds(repository, tmp_path):
    """By Snakemake's graph, as the bill asks for it: a dry-run would print 30 MB too."""
    tree = copy_tree(repository, tmp_path / "clone", own_reference=False)
    done = subprocess.run([ready.python(), "-c", COMMANDS], cwd=tree, capture_output=True, text=True, check=True)
    jobs, *lengths = map(int, done.stdout.split())
    assert 1000 < len(lengths) < jobs < 12_000
    # bash takes its command as one argument, which may have 128 kB.
    assert 1000 < lengths[-1] < 100_000


def test_parsing_imports_nothing_heavy(repository):
    # pandas is not in the list: Snakemake loads the Slurm plugin, which loads it. test_plan.py looks for ours.
    code = (
        "import sys\nfrom snakemake.cli import main\n"
        "try:\n    main(['--list'])\nexcept SystemExit:\n    pass\n"
        "print('LOADED', sorted({'torch', 'matplotlib', 'sentencepiece', 'fasttext', 'tables'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


@pytest.mark.sampled(1)  # what paper plans has all that small has
@pytest.mark.parametrize(
    ("scale", "targets"),
    [
        ("mini", ("data", "models", "scores", "cleaning", "tables")),
        ("small", ("results/tables/all.pdf",)),
    ],
)
def test_every_target_plans(repository, tmp_path, scale, targets):
    # In a clean copy: what this repository has already built does not matter.
    done = snakemake(
        copy_tree(repository, tmp_path / "clone", own_reference=False),
        "-n",
        "--config",
        f"scale={scale}",
        "--",
        *targets,
    )
    # A rule that only names files is a job of its own where something of them is to be made.
    assert {target for target in targets if "/" not in target} <= {
        *re.findall(r"^(\w+) +1$", done.stdout, re.MULTILINE)
    }
    assert int(re.search(r"^total +(\d+)$", done.stdout, re.MULTILINE).group(1)) > 100


def test_the_slurm_profile_plans_literally(repository, tmp_path):
    tree = copy_tree(repository, tmp_path / "clone", own_reference=False)
    done = snakemake(tree, "--profile", "slurm", "-n", "results/tables/all.tex")
    assert "pretrain" in done.stdout
    assert sorted(path.name for path in (tree / "slurm").iterdir()) == ["config.v8+.yaml"]


def test_a_wrong_key_stops_everything_with_one_line(tree):
    edit(tree, "config/runs/xlm.yaml", "  width: 768", "  widht: 768")
    done = snakemake(tree, "--cores", "1", check=False)
    assert done.returncode != 0
    said = [line for line in (done.stdout + done.stderr).splitlines() if "widht" in line]
    assert len(said) == 1 and "config/runs/xlm.yaml, model.widht: unknown key; did you mean 'width'?" in said[0]
    assert "Traceback" not in done.stdout + done.stderr


# --- every rule ------------------------------------------------------------------------------------------------------


def test_no_rule_file_has_a_lambda(repository):
    files = [repository / "Snakefile", *(repository / "workflow/rules").rglob("*.smk")]
    assert len(files) > 10 and [path.name for path in files if "lambda" in path.read_text(encoding="utf-8")] == []


def test_every_rule_says_what_it_needs(repository):
    blocks = rule_blocks(repository)
    assert len(blocks) > 20
    for name, block in blocks.items():
        for directive in ("input", "output", "log", "benchmark", "threads", "resources", "conda", "shell"):
            assert re.search(rf"^    {directive}:", block, re.MULTILINE), f"{name} has no {directive}"
        for wanted in ("mem_mb=", "runtime=", "> {log:q} 2>&1", "script="):
            assert wanted in block, f"{name} lacks {wanted}"
        for unwanted in ("    run:", "    script:", "\ncheckpoint ", "retries:"):
            assert unwanted not in block, f"{name} has {unwanted}"
        inputs = re.search(r"^    input:\n(.*?)^    \w+:", block, re.MULTILINE | re.DOTALL).group(1)
        for line in re.findall(r"^        (\S.*)$", inputs, re.MULTILINE):
            assert re.match(r"\w+=|unpack\(|\)", line), f"{name}: unnamed input {line}"


# An edit of their code plans nothing: `numerics` of a run or `version` of a task says when results should change.
CODE_IS_NO_INPUT = {"download", "resolve_run", "resolve_recipe", "resolve_translator", "plan_sampling_run"}
CODE_IS_NO_INPUT |= {"plan_sampling_translator", "pretrain", "train_translator", "finetune", "finetune_retrieval"}
CODE_IS_NO_INPUT |= {"predict", "fast_align", "translate", "validate_translator", "import_checkpoint"}


def test_a_rule_depends_on_the_code_of_its_script(repository):
    for name, block in rule_blocks(repository).items():
        script = re.search(r"workflow/scripts/(\w+)\.py", block)
        if script and name not in CODE_IS_NO_INPUT:
            assert f'code=code("{script.group(1)}")' in block, f"{name} does not depend on what its script imports"


def test_the_script_of_a_rule_has_its_name(repository):
    for name, block in rule_blocks(repository).items():
        script = re.search(r"workflow/scripts/(\w+)\.py", block).group(1)
        assert name == script or name.startswith(f"{script}_"), f"{name} runs {script}.py"


def test_every_script_answers_help_and_knows_no_snakemake(repository):
    scripts = sorted((repository / "workflow/scripts").glob("*.py"))
    assert len(scripts) > 40
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(?:import|from) snakemake", text, re.MULTILINE), path
        done = subprocess.run([ready.python(), str(path), "--help"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "usage:" in done.stdout, f"{path.name}: {done.stderr[-500:]}"


def test_several_nodes_are_one_srun_of_torchruns(tree):
    edit(
        tree,
        "config/scales/mini.yaml",
        "pretrain_seeds: 6",
        "pretrain_seeds: 6\nresources: {pretrain: {gpu: 8, nodes: 2, threads: 4}}",
    )
    text = snakemake(tree, "--dry-run", "--printshellcmds", "--config", "scale=mini").stdout
    command = next(line for line in text.splitlines() if "pretrain.py --run" in line)
    assert (
        "srun --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=4 "
        "bash workflow/scripts/launch_node.sh 8" in command
    )
    assert "--world-size 16" in command
    wanted = next(line for line in text.splitlines() if "mpi=srun" in line)
    assert "nodes=2" in wanted and "tasks=2" in wanted and "slurm_extra=--gpus-per-node=8 --ntasks-per-node=1" in wanted
