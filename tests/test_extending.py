"""docs/extending.md, followed: a language, a task, and a checkpoint; tests/test_new_objective.py has the objective."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import plan.claims
from common.errors import UserError
from plan.claimed import cost_unknown, untestable
from plan.code import code_digest
from plan.load import load_config
from plan.needs import unfit
from plan.runs import not_here, resolve_run, vocabulary_path, weights_path
from report import comparisons
from report.comparison_cells import OURS, SCALE
from trees import copy_tree, edit, snakemake

pytestmark = pytest.mark.dag
SMOKE = ("--dry-run", "--config", "scale=smoke")


@pytest.fixture
def tree(repository, tmp_path) -> Path:
    return copy_tree(repository, tmp_path / "tree", own_reference=False)


def planned(tree: Path, *wanted: str) -> str:
    return snakemake(tree, *SMOKE, "--", *wanted).stdout


def test_a_language_joins_the_world(tree):
    edit(tree, "config/scales/smoke.yaml", "zh: 0.8}\n  documents", "zh: 0.8, sw: 0.5}\n  documents")
    edit(tree, "config/scales/smoke.yaml", "    zh: [MultiUN]\n", "    zh: [MultiUN]\n    sw: [GlobalVoices]\n")
    edit(tree, "config/scales/smoke.yaml", "languages: [de, en, hi, zh]", "languages: [de, en, hi, sw, zh]")
    text = planned(tree, "results/smoke/runs/xlm/seed-1/model.safetensors")
    for wanted in (
        "shards/mono/cc-100/sw/0.json",
        "shards/bitext/GlobalVoices/en-sw/0.json",
        "raw/data.statmt.org/cc-100/sw",
    ):
        assert wanted in text


def rests_on_other_code(script: Path, tree: Path) -> bool:
    return code_digest(script) != code_digest(tree / "workflow/scripts" / script.name)


def test_a_task_is_a_file_and_a_module(tree, repository):
    scripts = tree / "workflow/scripts/tasks"
    shutil.copy(scripts / "pawsx.py", scripts / "again.py")
    edit(tree, "workflow/scripts/tasks/known.py", "from tasks import (\n", "from tasks import (\n    again,\n")
    edit(tree, "workflow/scripts/tasks/known.py", "TASKS = {\n", 'TASKS = {\n    "paws-again": again,\n')
    own = (tree / "config/tasks/paws-x.yaml").read_text(encoding="utf-8").replace("task: paws-x", "task: paws-again")
    (tree / "config/tasks/paws-again.yaml").write_text(own, encoding="utf-8")
    text = planned(tree, "results/smoke/scores/xlm-r/paws-again/cross-lingual-transfer/seed-1.json")
    assert "results/smoke/finetuned/xlm-r/paws-again/cross-lingual-transfer/seed-1/model.safetensors" in text
    # No text is cleaned again for it, and so nothing pre-trained: only the readers that cleaning asks are of its code.
    edit(tree, "workflow/scripts/tasks/xnli.py", '"""', '"""Another. ')
    changed = {path.stem for path in repository.glob("workflow/scripts/*.py") if rests_on_other_code(path, tree)}
    assert changed == {"finetune", "predict", "score", "translate", "validate_translator"}


MINE = """name: mine
kind: checkpoint
numerics: 1
source: {{folder: {folder}}}
model: {{layers: 2, width: 32, heads: 4, ffn: 64, positions: 66, vocabulary: 1202}}
finetune_recipe: xlm-r
"""


def add_checkpoint(tree: Path, folder: str) -> None:
    (tree / "config/runs/mine.yaml").write_text(MINE.format(folder=folder), encoding="utf-8")


def test_a_checkpoint_in_a_folder_is_imported_and_nothing_trained_for_it(tree):
    add_checkpoint(tree, "somewhere/mine")
    folder = tree / "somewhere/mine"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "sentencepiece.bpe.model"):
        (folder / name).touch()
    text = planned(tree, "results/smoke/scores/mine/xnli/cross-lingual-transfer/seed-1.json")
    jobs = dict(re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE))
    assert jobs["import_checkpoint"] == jobs["finetune"] == jobs["predict"] == jobs["score"] == "1"
    assert not {"pretrain", "clean_mono", "train_vocabulary"} & set(jobs)
    assert "results/smoke/runs/mine/tokenizer" in text


def test_a_checkpoint_of_the_hub_is_downloaded(tree):
    wanted = "results/paper/scores/hub-mbert/xnli/cross-lingual-transfer/seed-1.json"
    text = snakemake(tree, "--dry-run", "--config", "scale=paper", "--", wanted).stdout
    raw = "results/paper/raw/huggingface.co/google-bert/bert-base-multilingual-cased/resolve/main"
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"):
        assert f"output: {raw}/{name}" in text
    assert "rule pretrain" not in text


def test_a_run_starts_from_a_published_checkpoint(tree):
    """Where the vocabulary of the scale is the checkpoint's, or is made it."""
    text = (tree / "config/runs/ernie-m-base.yaml").read_text(encoding="utf-8")
    text = text.replace("name: ernie-m-base", "name: mine").replace("init: {run: xlm-r,", "init: {run: hub-xlm-r,")
    (tree / "config/runs/mine.yaml").write_text(text, encoding="utf-8")
    config = load_config(tree, {"scale": "paper", "runs": ["mine"]})
    assert resolve_run(config, "mine")["init"]["run"] == "hub-xlm-r"
    for seed in (1, 2):
        assert weights_path(config, "hub-xlm-r", seed).endswith("/hub-xlm-r/seed-1/model.safetensors")
    assert "mine" in load_config(tree, {"scale": "mini", "runs": "all"}).not_here
    with pytest.raises(UserError, match="'hub-xlm-r' is a published checkpoint, and scale mini has made-up"):
        load_config(tree, {"scale": "mini", "runs": ["mine"]})
    edit(
        tree,
        "config/scales/paper.yaml",
        "vocabulary: {given: xlm-r/sentencepiece}",
        "vocabulary: {of: hub-mbert}",
    )
    config = load_config(tree, {"scale": "paper"})
    assert vocabulary_path(config) == "results/paper/runs/hub-mbert/tokenizer"
    assert vocabulary_path(config, "xlm-r") == vocabulary_path(config)
    assert vocabulary_path(config, "hub-xlm-r") == "results/paper/runs/hub-xlm-r/tokenizer"


def start_from(tree: Path, name: str, start: str, extends: str = "ernie-m-base", fresh: str = "mask_languages") -> None:
    text = f"extends: {extends}\nname: {name}\npaper: {{id: ours, table: none, reaches: nothing}}\n"
    (tree / f"config/runs/{name}.yaml").write_text(
        f"{text}init: {{run: {start}, fresh: [{fresh}]}}\n", encoding="utf-8"
    )


@pytest.fixture
def shown(tree) -> Path:
    """Runs that start from a checkpoint in a folder and from a published one, in a table, in a figure of costs and in a
    comparison of models; the first has a score on disk."""
    add_checkpoint(tree, "mine")
    edit(tree, "config/runs/mine.yaml", "1202", "1200")
    (tree / "mine").mkdir()
    for name in ("config.json", "model.safetensors", "README.md"):
        (tree / "mine" / name).touch()
    for name, start in (("from-mine", "mine"), ("from-hub", "hub-xlm-r")):
        start_from(tree, name, start)
        row = "      - {label: XLM-R base + TLM, run: xlm}\n"
        edit(tree, "config/tables/ernie-m/table-01.yaml", row, f"{row}      - {{label: {name}, run: {name}}}\n")
        row = "      - {label: all steps, published: xlm-e-base, run: xlm-e-base}\n"
        edit(tree, "config/figures/xlm-e/figure-01.yaml", row, f"{row}      - {{label: {name}, run: {name}}}\n")
    return tree


def test_what_starts_from_a_checkpoint_can_be_shown_everywhere(shown):
    """And where a scale cannot have it, it says so and leaves the rest alone."""
    for settings in (("scale=smoke", "runs=all"), ("scale=mini", "scores_from=reference")):
        text = snakemake(shown, "--dry-run", "--config", *settings, "--", "results/tables/all.tex").stdout
        assert "hub-" not in text and "from-hub" not in text
    asked = snakemake(shown, *SMOKE, "runs=[from-mine]", "--", "tables", "exports", "models").stdout
    assert "results/smoke/runs/from-mine/seed-1/model.safetensors" in asked
    assert "results/smoke/exported/mine/seed-1" in asked and "trainings/mine" not in asked
    config = load_config(shown, {"scale": "smoke", "runs": "all"})
    assert unfit(config, "from-mine", "xnli", "cross-lingual-transfer") is None
    assert not_here(config, "from-hub") == (
        "run from-hub starts from a published checkpoint, hub-xlm-r, and scale smoke has made-up languages"
    )
    mini = load_config(shown, {"scale": "mini", "runs": "all"})
    assert "another shape than scale mini" in unfit(mini, "from-mine", "xnli", "cross-lingual-transfer")
    with pytest.raises(UserError, match="is a published checkpoint, and scale smoke has made-up languages"):
        load_config(shown, {"scale": "smoke", "runs": ["from-hub"]})


def test_what_a_checkpoint_cost_nobody_knows(shown):
    config = load_config(shown, {"scale": "smoke", "runs": "all"})
    reason = "mine is a checkpoint: what it cost is not known"
    assert cost_unknown(config, "from-mine") == reason and cost_unknown(config, "ernie-m-base") is None
    cells = comparisons._flops("flops.ours", {}, "from-mine", "1.0", "", SimpleNamespace(config=config), True)
    assert [cells[name].reason for name in (OURS, SCALE)] == [reason, reason]
    claim = next(claim for claim in config.claims if "cost" in claim and "by_construction" not in claim)
    assert untestable(config, claim) is None
    text = json.dumps(claim).replace(next(iter(plan.claims.runs_of(claim))), "from-mine")
    assert untestable(config, json.loads(text)) == reason


def test_a_card_has_the_scores_on_disk_whatever_is_asked_for(shown):
    kept = "results/smoke/scores/mine/{}/seed-{}.json"
    for job, seed in (
        ("tatoeba/zero-shot-retrieval", 1),
        ("tatoeba/zero-shot-retrieval", 2),
        ("xnli/translate-test", 1),
    ):
        path = shown / kept.format(job, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    for runs in ("runs=[xlm-r]", "runs=all"):
        asked = (*SMOKE, runs, "--printshellcmds", "--", "results/smoke/exported/mine/seed-1")
        text = snakemake(shown, *asked).stdout
        assert all(kept.format("tatoeba/zero-shot-retrieval", seed) in text for seed in (1, 2))
        assert "import_checkpoint" in text and "rule finetune" not in text


def test_another_vocabulary_than_the_checkpoint_s_is_told_before_any_job(tree):
    start_from(tree, "mine", "hub-mbert", "ppa-250k", "ppa_contrast")
    with pytest.raises(UserError, match=r"119,547 ids, and that of scale paper has 250,002; .*\{of: hub-mbert\}"):
        load_config(tree, {"scale": "paper", "runs": ["mine"]})
    edit(tree, "config/scales/smoke.yaml", "vocabulary: {size: 1200,", "vocabulary: {of: hub-mbert} #")
    with pytest.raises(UserError, match=r"vocabulary\.of: run hub-mbert is a published checkpoint"):
        load_config(tree, {"scale": "smoke"})


WRONG = [
    ("source: {folder: x}", "source: {hub: nobody/nothing}", "config/datasets.tsv lacks files of nobody/nothing"),
    ("source: {folder: x}", "source: {folder: x, hub: FacebookAI/xlm-roberta-base}", "either 'hub'"),
    ("finetune_recipe: xlm-r", "finetune_recipe: xlmr", "did you mean 'xlm-r'"),
    ("positions: 66, ", "", "positions"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_wrong_checkpoint_is_told(tree, old, new, message):
    (tree / "config/runs/mine.yaml").write_text(MINE.format(folder="x").replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)) as error:
        load_config(tree, {"scale": "smoke"})
    assert "config/runs/mine.yaml" in str(error.value)


def test_a_folder_without_a_checkpoint_is_told(tree):
    add_checkpoint(tree, "nowhere")
    wanted = "results/smoke/scores/mine/xnli/cross-lingual-transfer/seed-1.json"
    done = snakemake(tree, *SMOKE, "--", wanted, check=False)
    said = [line for line in done.stdout.splitlines() if "nowhere holds no config.json" in line]
    assert done.returncode and len(said) == 1 and "config/runs/mine.yaml, source.folder" in said[0]
    made = tree / wanted  # what is there may be of another folder, and is not taken for finished
    made.parent.mkdir(parents=True)
    made.write_text("{}", encoding="utf-8")
    for target in (wanted, "results/smoke/runs/mine/seed-1/model.safetensors", "audit"):
        done = snakemake(tree, *SMOKE, "-n", "--", target, check=False)
        assert done.returncode and "nowhere holds no config.json" in done.stdout
        assert "Traceback" not in done.stdout
    assert snakemake(tree, *SMOKE, "runs=[xlm]", "-n", "--", "audit").returncode == 0
