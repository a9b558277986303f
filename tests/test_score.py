import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import score
from common.errors import UserError
from engine import bleu
from engine.alignments import Alignment, error_rate, precision, recall
from engine.answers import Question
from plan.load import load_config
from plan.recipes import resolve_recipe
from report.scores import items_of, load_results, packed_items
from small_results import LASER, make_world
from tasks import tatoeba, ud_pos, wmt14_en_de, xnli
from tasks.known import TASKS, task_module
from tasks.recipe import load_recipe, raw_paths

MOCK = "raw.githubusercontent.com/google-research/xtreme/master/mock_test_data"


@pytest.fixture
def world(tmp_path, repository):
    return make_world(tmp_path, repository)


@pytest.mark.parametrize(
    ("task", "setting"), [("xnli", "cross-lingual-transfer"), ("ud-pos", "cross-lingual-transfer")]
)
def test_gold_as_prediction_scores_100(world, task, setting):
    result = score.score_folder(world(task, setting))
    assert {entry["value"] for entry in result["scores"]} == {100.0}
    metrics = ["accuracy"] if task == "xnli" else ["f1", "accuracy"]
    order = [(language, metric) for language in ("de", "fr") for metric in metrics]
    assert [(entry["language"], entry["metric"]) for entry in result["scores"]] == order
    assert {key: result[key] for key in ("run", "seed", "pretrain_seed", "scale", "task_version", "run_hash")} == {
        "run": "r",
        "seed": 4,
        "pretrain_seed": 1,
        "scale": "mini",
        "task_version": 1,
        "run_hash": "h",
    }


def test_entries_by_hand(world):
    args = world("xnli", "cross-lingual-transfer")
    xnli.write_predictions(args.predictions / "test-fr.tsv", ["neutral", "neutral", "contradiction", "entailment"])
    result = score.score_folder(args)
    assert result["scores"][1] == {
        "language": "fr",
        "metric": "accuracy",
        "value": 75.0,
        "n": 4,
        "chance": 50.0,
        "layer": None,
        "direction": None,
    }
    assert result["signature"] == "accuracy|dev=en|train=en|max=128|recipe=default|version=1"
    args = world("ud-pos", "cross-lingual-transfer")
    ud_pos.write_predictions(args.predictions / "test-de.tsv", [("NOUN", "NOUN"), ("NOUN",)])
    found = {(e["language"], e["metric"]): e for e in score.score_folder(args)["scores"]}
    # Gold runs: NOUN, VERB, NOUN; predicted: NOUN over both words, NOUN. One of 3 and of 2 is right.
    assert found["de", "f1"]["value"] == pytest.approx(100 * 2 * 1 / 5)
    assert found["de", "accuracy"]["value"] == pytest.approx(200 / 3)
    assert found["de", "accuracy"]["n"] == 3


def test_retrieval_entries(world):
    result = score.score_folder(world("tatoeba", "zero-shot-retrieval"))
    german = [entry for entry in result["scores"] if entry["language"] == "de"]
    headline = german[0]
    assert (headline["metric"], headline["layer"], headline["direction"]) == ("accuracy", 2, "both")
    assert headline["value"] == pytest.approx((100 + 200 / 3) / 2)
    assert headline["chance"] == pytest.approx(100 / 3)
    by_layer = {(e["direction"], e["layer"]): e["value"] for e in german[1:]}
    assert len(by_layer) == 8
    assert {e["metric"] for e in german[1:]} == {"accuracy-by-layer"}
    assert by_layer["en-xx", 0] == pytest.approx(100 / 3)
    assert by_layer["xx-en", 2] == pytest.approx(200 / 3)
    assert by_layer["en-xx", 3] == 100
    assert result["signature"].startswith("accuracy|layer=2/3|pooling=mean|similarity=cosine")


def change_description(folder: Path, change) -> None:
    described = json.loads((folder / "predictions.json").read_text())
    change(described)
    (folder / "predictions.json").write_text(json.dumps(described))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(split="dev"), "split: 'dev', but the recipe asks for 'test'"),
        (lambda d: d.update(task_version=0), "task_version: 0, but the recipe asks for 1"),
        (lambda d: d["languages"].pop("fr"), r"languages\.fr: missing"),
        (lambda d: d["languages"]["fr"].update(inputs_sha256="0"), r"languages\.fr: made for other sentences"),
    ],
)
def test_predictions_of_something_else_are_refused(world, change, message):
    args = world("xnli", "cross-lingual-transfer")
    change_description(args.predictions, change)
    with pytest.raises(UserError, match=message):
        score.score_folder(args)


def test_row_counts_are_asserted_on_upstream_files(world):
    args = world("xnli", "cross-lingual-transfer")
    args.counts = "upstream"
    with pytest.raises(UserError, match="4 rows where the upstream file has 5010"):
        score.score_folder(args)


def test_a_test_set_with_one_tag_has_an_f1(tmp_path):
    """XTREME's mock data has two nouns for Estonian: accuracy says little there, the headline F1 counts."""
    (tmp_path / "gold").write_text("NOUN\nNOUN\n\n")
    (tmp_path / "found").write_text("NOUN\nVERB\n\n")
    arguments = [
        "--task",
        "ud-pos",
        "--language",
        "et",
        "--gold",
        tmp_path / "gold",
        "--predictions",
        tmp_path / "found",
    ]
    arguments += ["--out", tmp_path / "score.json"]
    subprocess.run([sys.executable, score.__file__, *map(str, arguments)], check=True)
    scored = json.loads((tmp_path / "score.json").read_text())["scores"]
    assert {one["metric"]: (one["value"], one["chance"]) for one in scored} == {"f1": (0, 100), "accuracy": (50, 100)}


def test_gold_of_one_class_is_refused(tmp_path):
    xnli.write_predictions(tmp_path / "g", ["neutral"] * 5)
    args = SimpleNamespace(task="xnli", language="de", gold=tmp_path / "g", predictions=tmp_path / "g")
    with pytest.raises(UserError, match="5 gold labels, all 'neutral'"):
        score.score_file(args)


@pytest.mark.parametrize(
    ("task", "folder", "expected"),
    [
        ("xnli", "xnli", {"accuracy": 20}),  # 2 of 10 lines are equal
        ("ud-pos", "udpos", {"accuracy": 82.5, "f1": 82.05128}),  # 33 of 40
        ("tatoeba", "tatoeba", {"accuracy": 70}),
    ],
)
def test_by_hand_on_xtreme_files(mirror, repository, tmp_path, task, folder, expected):
    script = repository / "workflow/scripts/score.py"
    gold, predictions = (mirror / MOCK / kind / folder / "test-de.tsv" for kind in ("labels", "predictions"))
    out = tmp_path / "score.json"
    command = [sys.executable, script, "--task", task, "--language", "de", "--gold", gold]
    said = subprocess.run(
        [*command, "--predictions", predictions, "--out", out], check=True, capture_output=True, text=True
    )
    for one in json.loads(out.read_text())["scores"]:
        assert f"de {one['metric']} {one['value']:.2f} of {one['n']} items" in said.stdout
    values = {entry["metric"]: entry["value"] for entry in json.loads(out.read_text())["scores"]}
    assert values == pytest.approx(expected, abs=1e-3)
    subprocess.run([*command, "--predictions", gold, "--out", out], check=True)
    assert {entry["value"] for entry in json.loads(out.read_text())["scores"]} == {100.0}
    wrong = subprocess.run([*command, "--predictions", tmp_path / "none", "--out", out], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr == f"error: {tmp_path / 'none'}: no such file\n"


def test_by_hand_on_upstream_files(mirror, tmp_path):
    (treebank,) = mirror.glob("raw.githubusercontent.com/UniversalDependencies/*/r2.5/mr_ufal-ud-test.conllu")
    gold = ud_pos.read_gold(treebank, "mr")
    ud_pos.write_predictions(tmp_path / "p", gold)
    args = SimpleNamespace(task="ud-pos", language="mr", gold=treebank, predictions=tmp_path / "p")
    result = {entry["metric"]: entry for entry in score.score_file(args)["scores"]}
    assert (result["f1"]["value"], result["f1"]["n"]) == (100, 376)
    laser = mirror / LASER / "tatoeba.jav-eng.jav"
    tatoeba.write_predictions(tmp_path / "t", range(205))
    args = SimpleNamespace(task="tatoeba", language="jv", gold=laser, predictions=tmp_path / "t")
    (entry,) = score.score_file(args)["scores"]
    assert (entry["value"], entry["chance"]) == (100, 100 / 205)
    archive = mirror / "excerpts/dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip"
    with zipfile.ZipFile(archive) as file:
        (tmp_path / "xnli.test.tsv").write_bytes(file.read("XNLI-1.0/xnli.test.tsv"))
    assert xnli.read_gold(archive, "en") == xnli.read_gold(tmp_path / "xnli.test.tsv", "en") == ["contradiction"]


def test_scoring_loads_no_torch_and_no_numpy(repository):
    code = "import sys, score, tasks.recipe; print(sorted({'torch', 'numpy', 'sentencepiece'} & set(sys.modules)))"
    scripts = repository / "workflow/scripts"
    found = subprocess.run([sys.executable, "-c", code], cwd=scripts, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_chance_levels_come_from_the_recipe(world):
    args = world("xnli", "cross-lingual-transfer")
    content = yaml.safe_load(args.recipe.read_text())
    args.recipe.write_text(yaml.safe_dump({**content, "chance": {"accuracy": "one-of-n"}}))
    assert score.score_folder(args)["scores"][0]["chance"] == 25
    args.recipe.write_text(yaml.safe_dump({**content, "chance": {"accuracy": "dice"}}))
    with pytest.raises(UserError, match="'dice' is unknown; use majority, shuffled-tags, one-of-n"):
        score.score_folder(args)
    args.recipe.write_text(yaml.safe_dump({**content, "metrics": ["f2"], "chance": {"f2": "majority"}}))
    with pytest.raises(UserError, match="xnli has no 'f2'; it has accuracy"):
        score.score_folder(args)
    args.recipe.write_text(yaml.safe_dump({**content, "chance": {}}))
    with pytest.raises(UserError, match=r"chance\.accuracy: missing"):
        score.score_folder(args)


@pytest.mark.parametrize(
    ("task", "folder", "metrics"),
    [
        ("bucc", "bucc2018", ["f1"]),
        ("mlqa", "mlqa", ["f1", "exact-match"]),
        ("paws-x", "pawsx", ["accuracy"]),
        ("tydiqa-goldp", "tydiqa", ["f1", "exact-match"]),
        ("wikiann-ner", "panx", ["f1", "accuracy"]),
        ("xquad", "xquad", ["f1", "exact-match"]),
    ],
)
def test_anyone_s_file_of_any_task_is_scored_by_hand(mirror, task, folder, metrics):
    gold = next((mirror / MOCK / "labels" / folder).glob("test-de.*"), None)
    gold = gold or min((mirror / MOCK / "labels" / folder).glob("test-*"))
    language = gold.stem.removeprefix("test-")
    found = score.score_file(
        SimpleNamespace(
            task=task,
            language=language,
            gold=str(gold),
            predictions=str(mirror / MOCK / "predictions" / folder / gold.name),
        )
    )
    assert found["task"] == task and [entry["metric"] for entry in found["scores"]] == metrics
    for entry in found["scores"]:
        assert 0 <= entry["chance"] <= 100 and 0 <= entry["value"] <= 100 and entry["n"] > 0


# --- translation ----------------------------------------------------------------------------------------------------

ENGLISH = ["The small cat sleeps on the roof today.", "Nobody knows why that is so.", "It rained all day long."]
GERMAN = [
    "Die kleine Katze schläft heute auf dem Dach.",
    "Niemand weiß,\u2028warum das so ist.",
    "Es regnete den ganzen Tag.",
]
ON_THE_WAY = [
    {"update": 500, "epoch": 1.25, "loss": 4.5, "sacrebleu": 3.5},
    {"update": 1000, "epoch": 2.5, "loss": 3.25, "sacrebleu": 7.75},
]


@pytest.fixture
def translated(tmp_path, repository) -> SimpleNamespace:
    """Three German references, and a folder of translate.py with a slip in the second translation."""
    config = load_config(repository, {"scale": "mini"})
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(resolve_recipe(config, "wmt14-en-de", "pretrained-init", "default")))
    datasets = repository / "config/datasets.tsv"
    paths = raw_paths(load_recipe(recipe), tmp_path / "raw", datasets)
    for name, lines in (("english-de", ENGLISH), ("foreign-de", GERMAN)):
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes("".join(line + "\n" for line in lines).encode())
    folder = tmp_path / "predictions"
    folder.mkdir()
    found = [GERMAN[0], "niemand weiß, warum es so ist.", GERMAN[2]]
    wmt14_en_de.write_predictions(folder / "test-de.txt", found)
    [test] = wmt14_en_de.read_test(paths, ["de"], {}).values()
    described = {"n": 3, "inputs_sha256": wmt14_en_de.inputs_of(test), "validation": ON_THE_WAY, "validation_n": 200}
    facts = {"run": "veco-large", "task": "wmt14-en-de", "setting": "pretrained-init", "seed": 2, "scale": "mini"}
    facts |= {"task_version": load_recipe(recipe).version, "split": "test", "recipe": "default", "max_length": 252}
    facts |= {"run_hash": "h", "beam": 5, "penalty": 1.0, "averaged": 10, "languages": {"de": described}}
    (folder / "predictions.json").write_text(json.dumps(facts))
    return SimpleNamespace(
        recipe=recipe,
        predictions=folder,
        raw=tmp_path / "raw",
        counts="any",
        datasets=datasets,
        found=found,
        reference=paths["foreign-de"],
    )


def test_translations_are_scored_and_how_they_came_about_is_kept(translated, tmp_path):
    result = score.score_folder(translated)
    test, validation = result["scores"][:3], result["scores"][3:]
    gold, found = GERMAN, translated.found
    expected = {
        "sacrebleu": bleu.sacrebleu(gold, found),
        "bleu": bleu.tokenised_bleu(gold, found, "de"),
        "chrf": bleu.chrf(gold, found),
    }
    assert {one["metric"]: one["value"] for one in test} == expected
    assert all(0 < value < 100 for value in expected.values()) and len(set(expected.values())) == 3
    assert {(one["language"], one["n"], one["chance"]) for one in test} == {("de", 3, 0.0)}
    assert [(one["update"], one["epoch"], one["value"]) for one in validation] == [(500, 1.25, 3.5), (1000, 2.5, 7.75)]
    assert {(one["metric"], one["n"], one["chance"]) for one in validation} == {("sacrebleu-by-update", 200, None)}
    parts = result["signature"].split("|")
    assert parts[0] == "sacrebleu" and set(bleu.signature().split("|")) < set(parts)
    assert {bleu.TOKENISED, "beam=5", "penalty=1.0", "averaged=10", "version=1"} < set(parts)
    path = tmp_path / "veco-large/wmt14-en-de/pretrained-init/seed-2.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(result))
    curve = load_results({2: path}, "mini").by_update("sacrebleu-by-update", ["de"])
    assert {update: (one.epoch, one.summary.mean) for update, one in curve.items()} == {
        500: (1.25, 3.5),
        1000: (2.5, 7.75),
    }


def test_the_reference_as_translation_scores_100(translated):
    wmt14_en_de.write_predictions(translated.predictions / "test-de.txt", GERMAN)
    assert [one["value"] for one in score.score_folder(translated)["scores"][:3]] == [100, 100, 100]


@pytest.mark.parametrize("key", ["validation", "validation_n"])
def test_translations_without_the_way_to_them_are_refused(translated, key):
    change_description(translated.predictions, lambda described: described["languages"]["de"].pop(key))
    with pytest.raises(UserError, match=rf"predictions\.json, languages\.de\.{key}: missing; translate again"):
        score.score_folder(translated)


def test_translations_cut_short_are_refused(translated):
    wmt14_en_de.write_predictions(translated.predictions / "test-de.txt", GERMAN[:2])
    with pytest.raises(UserError, match=r"test-de\.txt: 2 translations for 3 reference lines"):
        score.score_folder(translated)


def test_translations_are_scored_by_hand(translated, tmp_path):
    files = ["--gold", translated.reference, "--predictions", translated.predictions / "test-de.txt"]
    command = [sys.executable, score.__file__, "--task", "wmt14-en-de", "--language", "de", *files]
    subprocess.run([*map(str, command), "--out", str(tmp_path / "score.json")], check=True)
    result = json.loads((tmp_path / "score.json").read_text())
    assert result["signature"] == f"{bleu.signature()}|{bleu.TOKENISED}"
    assert result["scores"] == score.score_folder(translated)["scores"][:3]


# --- test items ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "right", "wrong"), [("xnli", "neutral", "entailment"), ("ud-pos", "NOUN", "VERB")])
def test_the_items_of_a_score_add_up_to_it(world, task, right, wrong):
    job = world(task, "cross-lingual-transfer")
    path = job.predictions / "test-de.tsv"
    path.write_text(path.read_text().replace(right, wrong, 1))
    content = score.score_folder(job)
    for language in ("de", "fr"):
        (headline,) = {entry["metric"] for entry in content["scores"]} & set(content["items"][language])
        above, below = items_of(content, language, headline)
        (value,) = (e["value"] for e in content["scores"] if (e["language"], e["metric"]) == (language, headline))
        assert 100 * sum(above) / sum(below) == pytest.approx(value, abs=1e-9)
    assert content["scores"][0]["value"] < 100


TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "S-ORG")


def made_up_answers(task: str, draw: random.Random) -> tuple[list, list | dict]:
    """Gold and predictions of a test set of a dozen items, of which some are right and some in part."""
    if task == "word-alignment":
        links = [(i, j) for i in range(4) for j in range(4)]
        drawn = [[frozenset(draw.sample(links, size)) for size in (3, 2, 5)] for _ in range(12)]
        return [Alignment(sure, sure | more, (4, 4)) for sure, more, _ in drawn], [found for *_, found in drawn]
    if task == "bucc":
        return [[(i, draw.randrange(3)) for i in draw.sample(range(12), 8)] for _ in range(2)]
    if task in ("mlqa", "tydiqa-goldp", "xquad"):
        words = ["the", "red", "house", "near", "an", "old", "river"]
        spans = [[" ".join(draw.sample(words, draw.randint(1, 4))) for _ in range(3)] for _ in range(12)]
        gold = [Question(str(i), "?", " ".join(words), "en", tuple(own[:2]), (0, 0)) for i, own in enumerate(spans)]
        return gold, {str(i): own[2] for i, own in enumerate(spans)}
    if measured_in_tags(task):
        sizes = [draw.randint(1, 7) for _ in range(12)]
        return [[draw.choices(TAGS, k=size) for size in sizes] for _ in range(2)]
    return [[draw.randrange(3) for _ in range(12)] for _ in range(2)]


def measured_in_tags(task: str) -> bool:
    return "accuracy" in list(task_module(task).METRICS)[1:]


WITH_ITEMS = sorted(task for task in TASKS if next(iter(task_module(task).METRICS.values())).shares)


@pytest.mark.parametrize("task", WITH_ITEMS)
def test_the_items_of_every_task_add_up_to_its_score(task):
    """Whatever is resampled to tell how certain a difference is: the very number, from as many items as there are."""
    headline, metric = next(iter(task_module(task).METRICS.items()))
    values = set()
    for seed in range(5):
        gold, predictions = made_up_answers(task, random.Random(seed))
        above, below = items_of({"items": score.items_of_task(task, "de", gold, predictions)}, "de", headline)
        value = metric.measure(gold, predictions)
        value = 100 - value if task == "word-alignment" else value  # an error rate; its items are of what is right
        assert 100 * sum(above) / sum(below) == pytest.approx(value, abs=5e-3)
        assert len(above) == len(below) == (12 if task != "bucc" else len({one for one, _ in [*gold, *predictions]}))
        values.add(value)
    assert len(values) > 1 and not values & {0.0, 100.0}


def test_links_are_scored_at_the_layer_of_the_task_and_at_every_other():
    gold, first = made_up_answers("word-alignment", random.Random(1))
    by_layer = [first, *(made_up_answers("word-alignment", random.Random(seed))[1] for seed in (2, 3))]
    metrics = {metric: "nothing" for metric in ("error-rate", "precision", "recall")}
    entries = score.alignment_entries(metrics, "de", gold, by_layer, 1)
    assert [(one["metric"], one["layer"]) for one in entries] == [
        *((metric, 1) for metric in metrics), *(("error-rate-by-layer", layer) for layer in range(3)),
    ]  # fmt: skip
    rates = [error_rate(gold, found) for found in by_layer]
    assert [one["value"] for one in entries] == [
        rates[1], precision(gold, by_layer[1]), recall(gold, by_layer[1]), *rates,
    ]  # fmt: skip
    assert len({one["value"] for one in entries}) == 5  # the rate of the task's layer twice


def test_a_retrieved_pair_counts_in_both_directions(world):
    content = score.score_folder(world("tatoeba", "zero-shot-retrieval"))
    above, below = items_of(content, "de", "accuracy")
    assert (above, below) == ([2.0, 2.0, 1.0], [2.0, 2.0, 2.0])  # at layer 2 the third English one finds the second
    (value,) = (e["value"] for e in content["scores"] if (e["language"], e["metric"]) == ("de", "accuracy"))
    assert 100 * sum(above) / sum(below) == pytest.approx(value)


def test_items_are_kept_to_four_digits_and_damage_is_told():
    shares = [(1 / 3, 1), (1.0, 1), (0.0, 1)]
    content = {"run": "r", "task": "xquad", "items": {"de": {"f1": packed_items(shares)}}}
    above, below = items_of(content, "de", "f1")
    assert above == pytest.approx([1 / 3, 1, 0], abs=5e-5) and below == [1, 1, 1]
    assert items_of(content, "fr", "f1") is None and items_of({}, "de", "f1") is None
    assert items_of({"items": {"de": {"f1": packed_items([(4, 70), (0, 3)])}}}, "de", "f1") == ([4, 0], [70, 3])
    for damage in ({"num": "b64:AAAA"}, {"n": 2}, {"num": "x"}):
        broken = {**content, "items": {"de": {"f1": content["items"]["de"]["f1"] | damage}}}
        with pytest.raises(UserError, match=r"xquad.* items of de f1: damaged"):
            items_of(broken, "de", "f1")
