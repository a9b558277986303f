"""Retrieval after subtracting each language's mean: by hand in numpy, on text that is no test, layer and all."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import torch
import yaml

import made_up
import make_table
import predict
from common.errors import UserError
from corpus.corpusio import zst_writer
from engine.heads import mean_states
from engine.model import Encoder
from engine.rows import sentence_rows
from engine.shape import ModelConfig
from engine.tokenizer import Tokenizer
from plan.check_tasks import check_task
from plan.load import load_config
from plan.recipes import resolve_recipe, trained_as
from plan.runs import resolve_run
from report.table_words import row_notes
from report.tables import build
from tasks.recipe import load_recipe
from training.pairs import Source
from trees import copy_tree, snakemake

SETTING = "zero-shot-retrieval-centred"
WORDS = [a + b for a in ("ka", "lo", "mi", "ru", "se", "to") for b in ("na", "pe", "vi", "zu")]


def sentences(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return list(dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(2 * count)))[:count]


def foreign(sentence: str) -> str:
    """Of each English word another, which stands for it."""
    return " ".join(f"x{word[::-1]}" for word in sentence.split())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("centred")
    text = folder / "text"
    english = sentences(1, 300)
    text.write_text("\n".join([*english, *map(foreign, english)]))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "spm"), vocab_size=60, num_threads=1, minloglevel=2
    )
    tokenizer = Tokenizer(folder / "spm.model")
    torch.manual_seed(0)
    encoder = Encoder(ModelConfig(2, 32, 4, 64, 66, tokenizer.vocabulary_size, init_std=0.3, dropout=0.0)).eval()
    return SimpleNamespace(folder=folder, tokenizer=tokenizer, encoder=encoder)


def the_recipe(folder, pairs: int, codes=("de",)):
    config = load_config(".", {"scale": "smoke"})
    content = resolve_recipe(config, "tatoeba", SETTING, "xlm-r")
    corpora = {pair: own for pair, own in content["centre"]["corpora"].items() if set(pair.split("-")) & set(codes)}
    centre = content["centre"] | {"pairs": pairs, "corpora": corpora}
    content = content | {"centre": centre, "languages": list(codes)}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_recipe(path)


def source_of(folder, lines: list[tuple[str, str]], name: str = "Europarl/de-en") -> Source:
    path = folder / name / "0.clean.tsv.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zst_writer(path) as out:
        out.writelines(f"{a}\t{b}\n" for a, b in lines)
    path.with_name("0.clean.json").write_text(json.dumps({"out": {"documents": len(lines)}}))
    return Source(path.parent.name, [path], [len(lines)])


def states_of(tiny, texts: list[str], code: str) -> np.ndarray:
    """(layers, N, D), one sentence at a time."""
    rows = sentence_rows(tiny.tokenizer, texts, 64)
    one = [mean_states(tiny.encoder, [row], code, 1).numpy().astype(np.float64) for row in rows]
    return np.concatenate(one, 1)


def found_by_hand(foreign_ND: np.ndarray, english_ND: np.ndarray) -> tuple[list[int], list[int]]:
    """Of each English sentence the nearest foreign one, and the other way round."""
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (foreign_ND, english_ND)]
    cosine = units[1] @ units[0].T  # (English, foreign)
    return cosine.argmax(1).tolist(), cosine.argmax(0).tolist()


def test_means_layer_and_neighbours_are_those_of_numpy(tiny):
    train, test = sentences(2, 120), sentences(3, 60)
    recipe = the_recipe(tiny.folder, pairs=40)
    pair = ([foreign(one) for one in test], test)
    source = source_of(tiny.folder, [(foreign(one), one) for one in train])
    about = (recipe, tiny.encoder, tiny.tokenizer, 8, "cpu")
    centre = predict.find_centre([source], {}, {"de": pair}, *about)

    taken = [train[3 * i + 2] for i in range(40)]  # spread evenly over the 120
    states = [states_of(tiny, texts, code) for texts, code in (([*map(foreign, taken)], "de"), (taken, "en"))]
    means = [side.mean(1) for side in states]
    for mine, theirs in zip(means, centre.means["de"], strict=True):
        assert np.allclose(mine, theirs.numpy(), atol=1e-6)
    accuracy = []
    for layer in range(3):
        ways = found_by_hand(*(side[layer] - mean[layer] for side, mean in zip(states, means, strict=True)))
        accuracy.append(50 * sum(np.mean([i == j for i, j in enumerate(way)]) for way in ways))
    assert centre.described["accuracy"] == pytest.approx(accuracy) and len(set(accuracy)) > 1
    assert centre.layer == int(np.argmax(accuracy))
    assert centre.described["pairs"] == {"de": 40} and centre.described["left_out"] == {"de": 0}

    by_layer = predict.retrieve(pair, "de", 64, tiny.encoder, tiny.tokenizer, 8, "cpu", centre.means["de"])
    plain = predict.retrieve(pair, "de", 64, tiny.encoder, tiny.tokenizer, 8, "cpu")
    of_test = [states_of(tiny, texts, code) for texts, code in zip(pair, ("de", "en"), strict=True)]
    for layer in range(3):
        ways = found_by_hand(*(side[layer] - mean[layer] for side, mean in zip(of_test, means, strict=True)))
        assert (by_layer["en-xx", layer], by_layer["xx-en", layer]) == ways
    assert by_layer != plain

    # The English side before is kept, and only while it is the same.
    shorter = (pair[0][:30], pair[1][:30])
    alone = predict.retrieve(shorter, "de", 64, tiny.encoder, tiny.tokenizer, 8, "cpu")
    assert {len(numbers) for numbers in alone.values()} == {30}
    assert predict.retrieve(pair, "de", 64, tiny.encoder, tiny.tokenizer, 8, "cpu") == plain


def test_held_out_pairs_choose_the_layer_and_training_pairs_the_means(tiny):
    train, test, held = sentences(2, 120), sentences(3, 60), sentences(4, 50)
    recipe = the_recipe(tiny.folder, pairs=40)
    pair, unseen = (([*map(foreign, side)], side) for side in (test, held))
    source = source_of(tiny.folder, [(foreign(one), one) for one in train])
    about = ({"de": pair}, recipe, tiny.encoder, tiny.tokenizer, 8, "cpu")
    own, centre = (predict.find_centre([source], given, *about) for given in ({}, {"de": unseen}))
    for one, other in zip(own.means["de"], centre.means["de"], strict=True):
        assert torch.equal(one, other)
    states = [states_of(tiny, texts, code) for texts, code in zip(unseen, ("de", "en"), strict=True)]
    accuracy = []
    for layer in range(3):
        means = (side[layer].numpy() for side in own.means["de"])
        ways = found_by_hand(*(side[layer] - mean for side, mean in zip(states, means, strict=True)))
        accuracy.append(50 * sum(np.mean([i == j for i, j in enumerate(way)]) for way in ways))
    assert centre.described["accuracy"] == pytest.approx(accuracy) != own.described["accuracy"]
    assert centre.layer == int(np.argmax(accuracy))
    assert (own.described["held_out"], centre.described["held_out"]) == ({}, {"de": 50})


def test_no_sentence_of_the_test_is_in_a_mean(tiny):
    train, test = sentences(2, 40), sentences(3, 60)
    recipe = the_recipe(tiny.folder, pairs=1000)
    pair = ([foreign(one) for one in test], test)
    clean = [(foreign(one), one) for one in train]
    leaked = [*clean[:20], (foreign(test[5]), train[20] + " ka"), *clean[20:], (foreign("lona lona"), test[9])]
    about = (recipe, tiny.encoder, tiny.tokenizer, 8, "cpu")
    alone = predict.find_centre([source_of(tiny.folder, clean)], {}, {"de": pair}, *about)
    beside = predict.find_centre([source_of(tiny.folder, leaked)], {}, {"de": pair}, *about)
    assert (alone.described["left_out"], beside.described["left_out"]) == ({"de": 0}, {"de": 2})
    assert alone.described["pairs"] == beside.described["pairs"] == {"de": 40}
    for one, other in zip(alone.means["de"], beside.means["de"], strict=True):
        assert torch.equal(one, other)
    with pytest.raises(UserError, match="0 pairs that are no test"):
        predict.find_centre([source_of(tiny.folder, clean)], {}, {"de": ([], train)}, *about)


def test_the_setting_is_planned_on_the_pairs_of_a_run_and_trains_nothing(repository):
    # of 36 languages those that ERNIE-M has pairs of
    for scale, count, held_out in (("smoke", 3, ["de"]), ("mini", 7, ["de", "fr"]), ("paper", 14, ["de", "fr"])):
        config = load_config(repository, {"scale": scale})
        resolved = resolve_recipe(config, "tatoeba", SETTING, "ernie-m")
        pairs = resolve_run(config, "ernie-m-base")["data"]["bitext"]["corpora"]
        assert resolved["centre"] == {"run": "ernie-m-base", "pairs": 1000, "corpora": pairs, "held_out": held_out}
        for code in held_out:
            assert resolved["datasets"][f"held_foreign-{code}"].startswith("newstest/2013.eng-")
        assert len(resolved["languages"]) == count == len(pairs) and "layer" not in resolved["recipe"]
        assert trained_as(config, "tatoeba", SETTING) is None
        assert resolve_recipe(config, "tatoeba", "zero-shot-retrieval", "ernie-m")["recipe"]["layer"] is not None


@pytest.mark.parametrize(
    ("task", "how", "message"),
    [
        ("tatoeba", {"train": [], "centre": {"run": "xlmm", "pairs": 9}}, r"x\.centre\.run: unknown run 'xlmm'"),
        ("tatoeba", {"train": [], "centre": {"run": "xlm-r", "pairs": 9}}, r"centre\.run: run 'xlm-r' has no sentence"),
        (
            "tatoeba",
            {"train": [], "centre": {"run": "xlm", "pairs": 9, "held_out": {"de": ["newstest/2031.eng-deu.deu", "x"]}}},
            r"x\.centre\.held_out\.de: unknown dataset 'newstest/2031.eng-deu.deu'; did you mean",
        ),
        ("bucc", {"train": [], "centre": {"run": "xlm", "pairs": 9}}, r"x\.centre: is for kind retrieval"),
        ("tatoeba", {"train": "all", "centre": {"run": "xlm", "pairs": 9}}, r"x\.centre: is for kind retrieval"),
    ],
)
def test_a_centre_that_cannot_be_is_one_line(repository, task, how, message):
    config = load_config(repository, {"scale": "mini"})
    config.tasks[task]["settings"]["x"] = how
    with pytest.raises(UserError, match=message):
        check_task(config, task)


@pytest.mark.parametrize(
    ("layers", "words"), [((2, 3, 2), "layer 2 of seeds 1, 3; layer 3 of seed 2"), ((1, 1, 1), "layer 1")]
)
def test_a_table_says_which_layer_the_pairs_chose(repository, tmp_path, layers, words):
    for seed, layer in zip(made_up.SEEDS, layers, strict=True):
        entries = [made_up.entry("de", 10.0 + seed, "accuracy", 0.25, layer, "both")]
        path = made_up.write_score(tmp_path, "xlm", "tatoeba", SETTING, seed, entries)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"centred": {"layer": layer}}))
    context = made_up.make_context(repository, tmp_path, tasks={"tatoeba": {SETTING}})
    column = {"task": "tatoeba", "metric": "accuracy", "languages": ["de"]}
    group = {"title": "", "setting": SETTING, "rows": [{"label": "XLM", "run": "xlm"}]}
    table = build({"paper": "parallax", "item": "x", "title": "T", "columns": [column], "groups": [group]}, context)
    told = f"tatoeba {SETTING}: {words}, chosen on sentence pairs that are no test."
    assert row_notes(table.rows[0], table) == [told]
    for form in ("latex", "markdown", "html"):
        assert told in make_table.RENDER[form](table)


@pytest.mark.dag
def test_the_job_reads_the_clean_pairs_and_nothing_is_fine_tuned(repository, tmp_path):
    tree = copy_tree(repository, tmp_path, own_reference=False)
    score = f"results/smoke/scores/xlm-r/tatoeba/{SETTING}/seed-1.json"
    text = snakemake(tree, "--dry-run", "--printshellcmds", "--config", "scale=smoke", "--", score).stdout
    command = next(line for line in text.splitlines() if "predict.py --recipe" in line)
    pairs = ("Europarl/de-en", "IITB/en-hi", "MultiUN/en-zh")
    assert "--bitext " + " ".join(f"results/smoke/corpus/bitext/{pair}/0.clean.tsv.zst" for pair in pairs) in command
    assert "finetune" not in text and text.count("pretrain.py --run") == 1
    raw = score.replace(f"/{SETTING}/", "/zero-shot-retrieval/")
    text = snakemake(tree, "--dry-run", "--printshellcmds", "--config", "scale=smoke", "--", raw).stdout
    assert "clean_bitext" not in text and "--bitext  --out" in text
