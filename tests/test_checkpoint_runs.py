"""From a folder in Hugging Face's layout to a row of the papers' tables, at the smoke scale, for real."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import zstandard

from engine.checkpoint import load_weights
from trees import edit, planned, snakemake

pytestmark = pytest.mark.e2e

RUN = """name: {name}
kind: checkpoint
numerics: 1
source: {{folder: checkpoints/{name}}}
model: {{layers: 2, width: 32, heads: 4, ffn: 64, positions: 66, vocabulary: {vocabulary}{token_types}}}
finetune_recipe: xlm-r
"""
TABLES = ("ernie-m/table-01", "ppa/table-02")
ASKED = [f"results/tables/{item}.tex" for item in TABLES]
FORMATTED = [f"results/tables/{item}.csv" for item in TABLES]
CHOSEN = "runs=[xlm-r,mine,bert]"


def add_run(tree: Path, name: str, vocabulary: int, token_types: str = "") -> None:
    """The run's file, and a row in both tables below that of the untrained encoder."""
    content = RUN.format(name=name, vocabulary=vocabulary, token_types=token_types)
    (tree / f"config/runs/{name}.yaml").write_text(content, encoding="utf-8")
    row = "      - {label: Random initialisation, run: random-init}\n"
    for item in TABLES:
        edit(tree, f"config/tables/{item}.yaml", row, f"{row}      - {{label: Row of {name}, run: {name}}}\n")


def text_of(tree: Path) -> list[str]:
    found = []
    for path in sorted(tree.glob("results/smoke/corpus/mono/cc-100/*/0.clean.txt.zst")):
        with zstandard.open(path, "rt", encoding="utf-8") as file:
            found += file.read().splitlines()
    return found


def bert(folder: Path, lines: list[str]) -> int:
    """A random BERT with a WordPiece vocabulary of this text, as transformers saves it; ids of its vocabulary."""
    import transformers
    from tokenizers import BertWordPieceTokenizer

    pieces = BertWordPieceTokenizer(lowercase=False)
    pieces.train_from_iterator(lines, vocab_size=900, show_progress=False)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=pieces.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertForPreTraining(config).save_pretrained(folder)
    pieces.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    return config.vocab_size


@pytest.fixture(scope="module")
def built(smoke, tmp_path_factory) -> Path:
    """XLM-R trained and exported, its folder and a BERT as somebody's checkpoints, and the tables that show them."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    tree = Path(shutil.copytree(smoke, tmp_path_factory.mktemp("checkpoints") / "tree", symlinks=True))
    exported = "results/smoke/exported/xlm-r/seed-1"
    snakemake(tree, "--cores", "2", "--config", "scale=smoke", "runs=[xlm-r]", "--", exported, *ASKED)
    shutil.copytree(tree / exported, tree / "checkpoints/mine")
    (tree / "checkpoints/bert").mkdir()
    add_run(tree, "mine", json.loads((tree / "checkpoints/mine/config.json").read_text())["vocab_size"])
    add_run(tree, "bert", bert(tree / "checkpoints/bert", text_of(tree)), ", token_types: 2")
    return tree


def test_nothing_but_the_checkpoints_is_computed_for_their_rows(built):
    jobs = planned(built, *ASKED, settings=(CHOSEN,))
    assert jobs["import_checkpoint"] == 2 and jobs["finetune"] == jobs["predict"] == jobs["score"] == 2
    assert not {"pretrain", "encode_corpus", "clean_mono", "train_vocabulary"} & set(jobs)


def means(tree: Path, item: str, label: str) -> dict[str, float]:
    """What a row of a table shows of each language."""
    with open(tree / f"results/tables/{item}.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == label and row["mean"]]
    return {row["language"]: float(row["mean"]) for row in rows}


def test_their_scores_stand_in_the_papers_tables(built):
    retrieved = [f"results/smoke/scores/{run}/tatoeba/zero-shot-retrieval/seed-1.json" for run in ("mine", "xlm-r")]
    snakemake(built, "--cores", "2", "--config", "scale=smoke", CHOSEN, "--", *ASKED, *FORMATTED, *retrieved)
    for run in ("mine", "bert"):
        path = built / f"results/smoke/scores/{run}/xnli/cross-lingual-transfer/seed-1.json"
        scores = {one["language"]: one["value"] for one in json.loads(path.read_text())["scores"]}
        for item in TABLES:
            shown = means(built, item, f"Row of {run}")
            average = shown.pop("avg")
            assert shown == pytest.approx(scores, abs=1e-3) and set(shown) == {"de", "en", "hi", "zh"}
            assert average == pytest.approx(sum(scores.values()) / 4, abs=1e-3)
            assert f"Row of {run}" in (built / f"results/tables/{item}.tex").read_text(encoding="utf-8")
    mine, own = (json.loads((built / path).read_text()) for path in retrieved)
    assert mine["items"] == own["items"] and mine["scores"] == own["scores"]  # the very model, out and in again
    assert mine["run"] == "mine" and mine["pretrain_seed"] is None and mine["run_hash"] != own["run_hash"]
    assert "Nothing to be done" in snakemake(built, "--dry-run", "--config", "scale=smoke", CHOSEN, "--", *ASKED).stdout


def test_a_wordpiece_model_tags_answers_and_retrieves(built):
    wanted = [
        f"results/smoke/scores/bert/{task}/seed-1.json"
        for task in ("ud-pos/cross-lingual-transfer", "xquad/cross-lingual-transfer", "tatoeba/zero-shot-retrieval")
    ]
    snakemake(built, "--cores", "2", "--config", "scale=smoke", CHOSEN, "--", *wanted)
    for path in wanted:
        content = json.loads((built / path).read_text())
        assert content["run"] == "bert" and all(0 <= one["value"] <= 100 for one in content["scores"])


STARTED = """extends: {extends}
name: {name}
paper: {{id: ours, table: none, reaches: nothing}}
init: {{run: {start}, fresh: [{fresh}]}}
"""


@pytest.mark.parametrize(
    ("extends", "start", "fresh", "vocabulary"),
    [("ernie-m-base", "mine", "mask_languages", None), ("ppa-250k", "bert", "ppa_contrast", "bert")],
    ids=["ERNIE-M from XLM-R", "PPA from mBERT"],
)
def test_a_training_starts_from_a_checkpoint(built, tmp_path, extends, start, fresh, vocabulary):
    """With the vocabulary of the scale where it is the checkpoint's, else with the checkpoint's own."""
    tree = Path(shutil.copytree(built, tmp_path / "tree", symlinks=True))
    content = STARTED.format(extends=extends, name="started", start=start, fresh=fresh)
    (tree / "config/runs/started.yaml").write_text(content, encoding="utf-8")
    if vocabulary:
        own = "{size: 1200, sentences: 20000, character_coverage: 1.0, alpha: 0.3}"
        edit(tree, "config/scales/smoke.yaml", f"vocabulary: {own}", f"vocabulary: {{of: {vocabulary}}}")
    chosen = ("--config", "scale=smoke", "runs=[started]")
    score = "results/smoke/scores/started/tatoeba/zero-shot-retrieval/seed-1.json"
    snakemake(tree, "--cores", "2", *chosen, "--", score)
    place = tree / "results/smoke/runs"
    first, *_ = (json.loads(line) for line in (place / "started/seed-1/train.jsonl").read_text().splitlines())
    assert first["step"] and "pretrain" not in planned(tree, score, settings=("runs=[started]",))
    weights = [load_weights(place / run / "seed-1/model.safetensors") for run in (start, "started")]
    assert len({metadata["vocabulary_sha256"] for _, metadata in weights}) == 1
    before, after = (own["encoder.tokens.weight"] for own, _ in weights)
    assert before.shape == after.shape and not before.equal(after)
    alike = torch.nn.functional.cosine_similarity(before.flatten(), after.flatten(), dim=0)
    assert alike > 0.5  # thirty steps from it; from elsewhere it would be about zero


def test_what_was_fine_tuned_from_a_checkpoint_is_exported_in_its_layout(built):
    exported = "results/smoke/exported/bert/xnli/cross-lingual-transfer/seed-1"
    snakemake(built, "--cores", "2", "--config", "scale=smoke", CHOSEN, "--", exported)
    config = json.loads((built / exported / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"] and len(config["id2label"]) == 3
    card = (built / exported / "README.md").read_text(encoding="utf-8")
    assert "the data of the task are generated" in card and "It knows no real language" not in card
    assert "| xnli | cross-lingual-transfer | accuracy |" in card


def test_another_folder_is_imported_also_where_its_files_are_older(built):
    """In the call that follows the edit, not in the one after it."""
    old = shutil.copytree(built / "checkpoints/mine", built / "checkpoints/older")
    for path in old.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    own = built / "config/runs/mine.yaml"
    text = own.read_text(encoding="utf-8")
    edit(built, "config/runs/mine.yaml", "checkpoints/mine", "checkpoints/older")
    jobs = planned(built, *ASKED, settings=(CHOSEN,))
    own.write_text(text, encoding="utf-8")
    assert jobs["import_checkpoint"] == jobs["finetune"] == jobs["score"] == 1 and "pretrain" not in jobs


def test_another_checkpoint_in_the_folder_is_imported_again(built):
    weights = built / "checkpoints/mine/model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")  # a new time alone would not do: Snakemake compares small files
    jobs = planned(built, *ASKED, settings=(CHOSEN,))
    assert jobs["import_checkpoint"] == 1 and "pretrain" not in jobs
