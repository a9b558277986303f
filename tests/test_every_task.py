"""Every task in every setting: fine-tuned, predicted and scored by the scripts themselves on a tiny mini-world."""

import dataclasses
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
import yaml

import finetune
import finetune_retrieval
import predict
import score
from build_world import build_world
from called import call
from common.errors import UserError
from corpus.corpusio import zst_writer
from engine.checkpoint import describe_model, save_weights
from engine.model import Encoder
from engine.shape import ModelConfig
from engine.tokenizer import Tokenizer
from plan.load import load_config
from plan.recipes import bitext_settings, resolve_recipe, setting_jobs, task_languages, trained_as
from report.scores import selection_of
from small_world import SETTINGS
from tasks.known import task_module

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = load_config(REPOSITORY, {"scale": "smoke"})
# Written down, so that a task or a setting that goes missing is missed.
SETTINGS_OF = {
    "bucc": ["best-xnli-model", "zero-shot-retrieval"],
    "conll-ner": ["cross-lingual-transfer", "train-all"],
    "mlqa": ["cross-lingual-transfer", "g-xlt", "translate-train", "translate-train-all"],
    "paws-x": ["cross-lingual-transfer", "translate-train-all"],
    "tatoeba": ["best-xnli-model", "retrieval-fine-tuned", "zero-shot-retrieval", "zero-shot-retrieval-centred"],
    "tydiqa-goldp": ["cross-lingual-transfer", "translate-train-all"],
    "ud-pos": ["cross-lingual-transfer"],
    "wikiann-ner": ["cross-lingual-transfer"],
    "word-alignment": ["zero-shot-retrieval"],
    "xnli": ["cross-lingual-transfer", "translate-train", "translate-train-all", "translate-train-code-switch"],
    "xquad": ["cross-lingual-transfer", "translate-train-all"],
}
# One language of a setting with a model for each; the others differ in nothing.
JOBS = sorted(
    (task, setting_jobs(CONFIG, task, setting)[0]) for task, settings in SETTINGS_OF.items() for setting in settings
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> SimpleNamespace:
    """A world, a vocabulary of its words, an untrained encoder, and what has been fine-tuned so far."""
    folder = tmp_path_factory.mktemp("every-task")
    translation = {"corpora": ["wmt14-nc-v9"], "train": 20, "dev": 15, "test": 5}  # its dev pairs choose a layer
    build_world(SETTINGS | {"translation": translation}, REPOSITORY / "config/datasets.tsv", folder / "raw")
    with open(folder / "text", "w", encoding="utf-8") as text:
        for path in sorted((folder / "raw").rglob("tatoeba.*")):
            text.write(path.read_text(encoding="utf-8"))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "spm"),
        vocab_size=700,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    tokenizer = Tokenizer(folder / "spm.model")
    torch.manual_seed(0)
    encoder = Encoder(ModelConfig(2, 32, 4, 64, 66, tokenizer.vocabulary_size, init_std=0.1))
    metadata = {"model": describe_model(encoder.config), "seed": "1", "run_hash": "r", "commit": "c"}
    metadata["vocabulary_sha256"] = hashlib.sha256((folder / "spm.model").read_bytes()).hexdigest()
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    save_weights(folder / "encoder.safetensors", weights, metadata)
    return SimpleNamespace(folder=folder, raw=folder / "raw", spm=folder / "spm.model", done={})


def recipe_file(tiny, task: str, job: str, name: str = "xlm-r") -> Path:
    path = tiny.folder / f"{task}.{job}.{name}.yaml"
    path.write_text(yaml.safe_dump(resolve_recipe(CONFIG, task, job, name)))
    return path


def weights_of(tiny, task: str, job: str, name: str = "xlm-r") -> Path:
    """The weights that predict, fine-tuned here if they are not yet."""
    trained = trained_as(CONFIG, task, job)
    if trained is None:
        return tiny.folder / "encoder.safetensors"
    if (*trained, name) not in tiny.done:
        out = tiny.folder / f"{trained[0]}.{trained[1]}.{name}.safetensors"
        files = {"recipe": recipe_file(tiny, *trained, name), "encoder": tiny.folder / "encoder.safetensors"}
        files |= {"spm": tiny.spm, "out": out, "dev_json": out.with_suffix(".json")}
        if trained[1] in bitext_settings(CONFIG, trained[0]):
            call(finetune_retrieval, **files, bitext=clean_bitext(tiny, *trained, "bitext"), seed=1)
        else:
            call(finetune, **files, raw=tiny.raw, seed=1)
        tiny.done[(*trained, name)] = out
    return tiny.done[(*trained, name)]


def clean_bitext(tiny, task: str, job: str, use: str) -> list[Path]:
    """Sentence pairs as they lie in the corpus, made of the lines of retrieval, read backwards."""
    paths = []
    for pair, corpora in resolve_recipe(CONFIG, task, job, "xlm-r")[use]["corpora"].items():
        (code,) = set(pair.split("-")) - {"en"}
        l3 = CONFIG.languages[code].tatoeba
        sides = {
            own: next(tiny.raw.rglob(f"tatoeba.{l3}-eng.{end}")).read_text(encoding="utf-8").splitlines()
            for own, end in ((code, l3), ("en", "eng"))
        }
        pairs = list(zip(*(sides[own] for own in pair.split("-")), strict=True))
        for corpus in corpora:
            path = tiny.folder / "bitext" / corpus / pair / "0.clean.tsv.zst"
            path.parent.mkdir(parents=True, exist_ok=True)
            with zst_writer(path) as out:
                out.writelines(f"{backwards(a)}\t{backwards(b)}\n" for a, b in pairs)
            path.with_name("0.clean.json").write_text(json.dumps({"out": {"documents": len(pairs)}}))
            paths.append(path)
    return paths


def backwards(line: str) -> str:
    return " ".join(reversed(line.split())) + " ."


def predicted(tiny, task: str, job: str, batch: int, name: str = "xlm-r", **options) -> Path:
    out = tiny.folder / f"{task}.{job}.{name}.{batch}"
    files = {"recipe": recipe_file(tiny, task, job, name), "model": weights_of(tiny, task, job, name)}
    about = {"run": "tiny", "scale": "smoke", "seed": 1}
    if "centre" in resolve_recipe(CONFIG, task, job, name):
        options["bitext"] = clean_bitext(tiny, task, job, "centre")
    call(predict, **files, spm=tiny.spm, raw=tiny.raw, **about, batch=batch, out=out, **options)
    return out


@pytest.mark.parametrize(("task", "job"), JOBS)
def test_a_task_is_predicted_alike_at_every_batch_size_and_scored(tiny, task, job, tmp_path):
    alone, together = (predicted(tiny, task, job, batch) for batch in (1, 32))
    files = sorted(path.name for path in together.iterdir() if path.name not in ("predictions.json", "SHA256SUMS"))
    assert files == sorted(path.name for path in alone.iterdir() if path.name not in ("predictions.json", "SHA256SUMS"))
    for name in files:
        assert (alone / name).read_bytes() == (together / name).read_bytes(), name
    out = tmp_path / "score.json"
    call(score, recipe=recipe_file(tiny, task, job), predictions=together, raw=tiny.raw, out=out)
    scored = json.loads(out.read_text())
    resolved = resolve_recipe(CONFIG, task, job, "xlm-r")
    found = {(one["language"], one["metric"]) for one in scored["scores"]}
    assert found >= {(language, metric) for language in resolved["languages"] for metric in resolved["metrics"]}
    assert scored["setting"] == job and all(0 <= one["value"] <= 100 for one in scored["scores"])
    assert all(one["chance"] is not None and one["n"] > 0 for one in scored["scores"])
    if "centre" in resolved:
        centre = scored["centred"]
        assert "|layer=chosen/2|pooling=mean|centred=ernie-m-base/1000/de|" in scored["signature"]
        assert centre["layer"] == centre["accuracy"].index(max(centre["accuracy"]))
        assert {one["layer"] for one in scored["scores"] if one["direction"] == "both"} == {centre["layer"]}
        assert sorted(centre["pairs"]) == sorted(resolved["languages"]) and min(centre["pairs"].values()) > 10
    if "bitext" in resolved:
        assert "|train=de+hi+zh|" in scored["signature"]
    trained = trained_as(CONFIG, task, job)
    recipe = resolve_recipe(CONFIG, *trained, "xlm-r")["recipe"] if trained else {"selection": None}
    assert selection_of(scored, out) == recipe["selection"]


def test_every_task_and_setting_stands_above():
    left_out = CONFIG.scale["left_out"]  # flores: read as tatoeba is, of real files alone
    settings = {task: sorted(one["settings"]) for task, one in CONFIG.tasks.items() if task not in left_out}
    for task in ("wmt14-en-de", "wmt14-en-fr"):  # test_translate.py runs these
        assert settings.pop(task) == ["pretrained-init", "random-init"]
    assert settings == SETTINGS_OF
    assert len(SETTINGS_OF) == 11 and len(JOBS) == 25


@pytest.mark.parametrize(
    ("task", "job", "recipe"),
    [("xnli", "translate-train-code-switch-de", "xlm-r"), ("mlqa", "translate-train-de", "ppa")],
)
def test_codes_are_switched_in_fine_tuning_as_ppa_does(tiny, task, job, recipe):
    switched = json.loads(weights_of(tiny, task, job, recipe).with_suffix(".json").read_text())
    plain = json.loads(weights_of(tiny, task, "translate-train-de", "xlm-r").with_suffix(".json").read_text())
    assert switched["recipe"]["code_switch"] and not plain["recipe"]["code_switch"]
    if task == "xnli":
        assert switched["train_rows"] == 2 * plain["train_rows"]
    else:  # rows are windows: a context may need more of them in one language than in the other
        assert 1.5 * plain["train_rows"] < switched["train_rows"] < 2.5 * plain["train_rows"]


def test_the_model_of_another_setting_is_refused(tiny):
    weights = weights_of(tiny, "mlqa", "cross-lingual-transfer")
    files = {"recipe": recipe_file(tiny, "xquad", "cross-lingual-transfer"), "model": weights}
    about = {"run": "tiny", "scale": "smoke", "seed": 1, "out": tiny.folder / "refused"}
    with pytest.raises(UserError, match="fine-tuned on mlqa cross-lingual-transfer, but the recipe is for xquad"):
        call(predict, **files, spm=tiny.spm, raw=tiny.raw, **about)
    files["recipe"] = recipe_file(tiny, "tatoeba", "best-xnli-model")
    with pytest.raises(UserError, match="but the recipe is for xnli translate-train-all"):
        call(predict, **files, spm=tiny.spm, raw=tiny.raw, **about)
    files |= {
        "recipe": recipe_file(tiny, "tatoeba", "retrieval-fine-tuned"),
        "model": weights_of(tiny, "tatoeba", "zero-shot-retrieval"),
    }
    with pytest.raises(UserError, match=r"fine-tuned on nothing .*but the recipe is for tatoeba retrieval-f"):
        call(predict, **files, spm=tiny.spm, raw=tiny.raw, **about)
    assert not (tiny.folder / "refused").exists()
    with pytest.raises(UserError, match="g-xlt has nothing to fine-tune"):
        call(
            finetune,
            recipe=recipe_file(tiny, "mlqa", "g-xlt"),
            encoder=tiny.folder / "encoder.safetensors",
            spm=tiny.spm,
            raw=tiny.raw,
            seed=1,
            out=tiny.folder / "no.safetensors",
            dev_json=tiny.folder / "no.json",
        )


COUNTED = sorted(
    task
    for task, one in CONFIG.tasks.items()
    if task in SETTINGS_OF and {"*", *task_languages(CONFIG, task)} & set(one.get("counts", {}).get("test", {}))
)


@pytest.mark.parametrize("task", COUNTED)
def test_line_counts_of_the_upstream_files_are_asserted(tiny, task):
    job = next(job for name, job in JOBS if name == task and not job.startswith("g-xlt"))
    with pytest.raises(UserError, match=r"rows where the upstream file has \d+"):
        predicted(tiny, task, job, 8, counts="upstream")


def without_answers(kind: str, examples):
    """Examples whose gold nobody can look at; there is as much of it."""
    if kind == "classification":
        return [pair._replace(label=None) for pair in examples]
    if kind == "tagging":
        return [sentence._replace(tags=None) for sentence in examples]
    if kind == "question-answering":
        return [dataclasses.replace(question, answers=None, starts=None) for question in examples]
    return examples._replace(gold=[None] * len(examples.gold))


@pytest.mark.parametrize("task", ["bucc", "tydiqa-goldp", "ud-pos", "word-alignment", "xnli"])
def test_predicting_looks_at_no_answer(tiny, task, monkeypatch):
    job = "zero-shot-retrieval" if task in ("bucc", "word-alignment") else "cross-lingual-transfer"
    module, kind = task_module(task), CONFIG.tasks[task]["kind"]
    seeing = predicted(tiny, task, job, 32)
    expected = {path.name: path.read_bytes() for path in seeing.iterdir()}
    read = module.read_test
    monkeypatch.setattr(
        module, "read_test", lambda *given: {code: without_answers(kind, own) for code, own in read(*given).items()}
    )
    blind = predicted(tiny, task, job, 32)
    assert {path.name: path.read_bytes() for path in blind.iterdir()} == expected
    assert len(expected) > 1


def perfect(kind: str, gold: list) -> list | dict:
    if kind == "question-answering":
        return {one.id: one.answers[0] for one in gold}
    return [one.sure for one in gold] if kind == "alignment" else gold


def with_one_error(kind: str, right: list | dict, labels: list[str]) -> tuple[list | dict, float | None]:
    """Predictions with one error, and the score that they have by the definition of the metric (None: below 100)."""
    n = len(right)
    if kind == "question-answering":
        return right | {next(iter(right)): "no such words"}, 100 * (n - 1) / n
    first, *others = right
    if kind == "classification":
        return [next(label for label in labels if label != first), *others], 100 * (n - 1) / n
    if kind == "tagging":  # another tag begins or ends a span or run, or gives it another type
        return [(next(label for label in labels if label != first[0]), *first[1:]), *others], None
    if kind == "retrieval":
        return [first + 1, *others], 100 * (n - 1) / n
    if kind == "mining":  # precision 1, recall (n - 1) / n
        return others, 100 * 2 * (n - 1) / (2 * n - 1)
    sure = sum(len(links) for links in right)  # alignment: one of them lacks, of twice as many less one
    return [first - {min(first)}, *others], 100 / (2 * sure - 1)


@pytest.mark.parametrize(("task", "job"), JOBS)
def test_gold_as_prediction_is_perfect_and_one_error_is_not(tiny, task, job, tmp_path):
    resolved = resolve_recipe(CONFIG, task, job, "xlm-r")
    module = task_module(task)
    recipe = predict.load_recipe(recipe_file(tiny, task, job))
    measure = module.METRICS[recipe.metric].measure

    def scored(predictions: list | dict, gold: list) -> float:
        module.write_predictions(tmp_path / "predictions", predictions)
        return measure(gold, module.read_predictions(tmp_path / "predictions", gold))

    tests = module.read_test(predict.raw_paths(recipe, tiny.raw), resolved["languages"], {})
    assert sorted(tests) == sorted(resolved["languages"]) != []
    for language, examples in tests.items():
        gold = module.gold_of(examples)
        right = perfect(recipe.kind, gold)
        assert scored(right, gold) == pytest.approx(0 if recipe.kind == "alignment" else 100), language
        wrong, expected = with_one_error(recipe.kind, right, recipe.labels)
        found = scored(wrong, gold)
        assert found < 100 - 1e-6 if expected is None else found == pytest.approx(expected), language
