"""Fine-tuning and prediction on a tiny world of made-up words, in files of the upstream formats."""

import hashlib
import io
import json
import random
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
import yaml
from torch import nn

import finetune
import predict
from common.errors import UserError
from engine.answers import Question
from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.heads import ClassificationHead, TaggingHead, classify, encode, mean_states, tag
from engine.model import Encoder
from engine.optim import AdamW
from engine.rows import cut_pair, pad, pair_rows, shuffled_batches, tag_windows
from engine.shape import ModelConfig
from engine.tokenizer import UNK, Tokenizer
from killed import Killed, killed_after
from resolved import files_of
from tasks import ud_pos, xnli
from tasks.recipe import Hyperparameters, load_recipe
from training import finetuning
from training.finetuning import (
    DevSet,
    TrainingRows,
    check_vocabulary,
    endless_batches,
    layer_factor,
    linear,
    make_optimizer,
    question_windows,
)

SYLLABLES = ["ka", "lo", "mi", "ru", "te", "sa", "no", "vi"]
XNLI_10 = "dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip"
XNLI_MT = "dl.fbaipublicfiles.com/XNLI/XNLI-MT-1.0.zip"
UD = "lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-3105/ud-treebanks-v2.5.tgz"
LASER = "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1"


def made_up_word(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 4)))


def made_up_sentence(rng: random.Random, longest: int = 6) -> str:
    return " ".join(made_up_word(rng) for _ in range(rng.randint(2, longest)))


def made_up_pairs(rng: random.Random, count: int) -> list[tuple[str, str, str]]:
    """A learnable rule: the word that the second sentence repeats gives the label."""
    cues = dict(zip(("ka", "lo", "mi"), xnli.LABELS, strict=True))
    pairs = []
    for _ in range(count):
        cue = rng.choice(sorted(cues))
        pairs.append((made_up_sentence(rng, 3), " ".join([cue] * 4), cues[cue]))
    return pairs


def xnli_table(rng: random.Random, count: int) -> str:
    lines = ["\t".join(xnli.XNLI_COLUMNS)]
    for language in ("de", "en"):
        for i, (premise, hypothesis, label) in enumerate(made_up_pairs(rng, count)):
            cells = [
                language,
                label,
                "",
                "",
                "",
                "",
                premise,
                hypothesis,
                "1",
                str(i),
                "g",
                *[label] * 5,
                "",
                "",
                "True",
            ]
            lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def conllu(rng: random.Random, count: int) -> str:
    """The first syllable of a word gives its tag."""
    tag_of = dict(zip(SYLLABLES, ud_pos.LABELS, strict=False))
    lines = []
    for _ in range(count):
        for i, word in enumerate(made_up_sentence(rng).split(), start=1):
            lines.append(f"{i}\t{word}\t_\t{tag_of[word[:2]]}\t_\t_\t0\troot\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> dict:
    """raw/ in the upstream formats, spm.model, model.safetensors and resolved recipes."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = random.Random(5)
    raw = folder / "raw"
    for path in (XNLI_10, UD, f"{LASER}/x"):
        (raw / path).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(raw / XNLI_10, "w") as archive:
        archive.writestr("XNLI-1.0/xnli.dev.tsv", xnli_table(rng, 40))
        archive.writestr("XNLI-1.0/xnli.test.tsv", xnli_table(rng, 60))
    with zipfile.ZipFile(raw / XNLI_MT, "w") as archive:
        for language in ("de", "en"):
            rows = [
                f"{p}\t{h}\t{label}".replace("contradiction", "contradictory")
                for p, h, label in made_up_pairs(rng, 300)
            ]
            text = "\n".join(["premise\thypo\tlabel", *rows]) + "\n"
            archive.writestr(f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv", text)
    with tarfile.open(raw / UD, "w:gz") as archive:
        for language, split, count in [("en", "train", 200), ("en", "dev", 40), ("en", "test", 50), ("de", "test", 50)]:
            data = conllu(rng, count).encode()
            info = tarfile.TarInfo(f"ud-treebanks-v2.5/UD_X-Mini/{language}_mini-ud-{split}.conllu")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    english = [made_up_sentence(rng) for _ in range(50)]
    (raw / LASER / "tatoeba.deu-eng.eng").write_text("\n".join(english) + "\n")
    (raw / LASER / "tatoeba.deu-eng.deu").write_text("\n".join([*english[:49], english[3]]) + "\n")

    text = folder / "text"
    text.write_text("\n".join(made_up_sentence(rng) for _ in range(2000)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "spm"), vocab_size=60, num_threads=1, minloglevel=2
    )
    spm = folder / "spm.model"
    config = ModelConfig(
        layers=2, width=32, heads=2, ffn=64, positions=66, vocabulary=Tokenizer(spm).vocabulary_size, dropout=0.1
    )
    torch.manual_seed(0)
    encoder = Encoder(config)
    metadata = {
        "model": describe_model(config),
        "seed": "2",
        "run_hash": "r" * 8,
        "commit": "c" * 8,
        "vocabulary_sha256": hashlib.sha256(spm.read_bytes()).hexdigest(),
    }
    model = folder / "model.safetensors"
    save_weights(model, {f"encoder.{name}": value for name, value in encoder.state_dict().items()}, metadata)
    recipes = {}
    hyper = {"peak_lr": 3e-3, "batch": 16, "epochs": 3, "evaluations": 3, "warmup_steps": None, "warmup_fraction": 0.1}
    for task, setting in [
        ("xnli", "cross-lingual-transfer"),
        ("xnli", "translate-train-all"),
        ("ud-pos", "cross-lingual-transfer"),
        ("tatoeba", "zero-shot-retrieval"),
    ]:
        recipe = write_recipe(folder / f"{task}-{setting}.yaml", task, setting, hyper if task != "tatoeba" else {})
        recipes[task, setting] = recipe
    return {"raw": raw, "spm": spm, "model": model, "folder": folder, "recipes": recipes}


def write_recipe(path: Path, task: str, setting: str, hyper: dict, recipe: str = "default", **extra) -> Path:
    """The documented merge: task file without settings and recipes, languages of this scale, one recipe, overrides."""
    repository = Path(__file__).resolve().parent.parent
    content = yaml.safe_load((repository / "config/tasks" / f"{task}.yaml").read_text())
    settings, recipes = content.pop("settings"), content.pop("recipes")
    chosen = dict(recipes[recipe])
    chosen |= chosen.pop("settings", {}).get(setting, {})
    content["languages"] = [language for language in content["languages"] if language in ("de", "en")]
    train = settings[setting]["train"]
    train = content["languages"] if train == "all" else train
    content["datasets"] = files_of(repository, content["datasets"], content["languages"], train)
    content |= {"setting": setting, "train_languages": train}
    content |= {"train_limit": None, "recipe": {**chosen, **hyper, "name": recipe}, **extra}
    path.write_text(yaml.safe_dump(content))
    return path


def run(module, *arguments) -> None:
    old, sys.argv = sys.argv, ["script", *map(str, arguments)]
    try:
        module.main()
    finally:
        sys.argv = old


def run_finetune(tiny, out: Path, key=("xnli", "cross-lingual-transfer"), seed=1, **replaced) -> Path:
    files = {"recipe": tiny["recipes"][key], "encoder": tiny["model"], "raw": tiny["raw"]} | replaced
    arguments = [part for name, value in files.items() for part in (f"--{name}", value)]
    run(
        finetune, *arguments, "--spm", tiny["spm"], "--seed", seed, "--out", out, "--dev-json", out.with_suffix(".json")
    )
    return out


def run_predict(tiny, out: Path, model: Path, key=("xnli", "cross-lingual-transfer"), batch=32) -> Path:
    files = ["--recipe", tiny["recipes"][key], "--model", model, "--spm", tiny["spm"], "--raw", tiny["raw"]]
    run(predict, *files, "--run", "tiny", "--scale", "test", "--seed", 1, "--batch", batch, "--out", out)
    return out


def contents(path: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Tensors to the bit, and what the file says of itself."""
    weights, metadata = load_weights(path)
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}, metadata


@pytest.fixture(scope="session")
def tuned(tiny) -> Path:
    return run_finetune(tiny, tiny["folder"] / "xnli.safetensors")


@pytest.fixture(scope="session")
def tagger(tiny) -> Path:
    return run_finetune(tiny, tiny["folder"] / "pos.safetensors", ("ud-pos", "cross-lingual-transfer"))


# ---------------------------------------------------------------------------------------------------------------------
# Fine-tuning


def test_equal_seeds_give_equal_bytes_whatever_the_global_generator_does(tiny, tuned, tmp_path):
    torch.manual_seed(99)
    torch.rand(7)
    again = run_finetune(tiny, tmp_path / "again.safetensors")
    assert contents(again) == contents(tuned)
    assert again.with_suffix(".json").read_bytes() == tuned.with_suffix(".json").read_bytes()
    other = run_finetune(tiny, tmp_path / "other.safetensors", seed=2)
    assert contents(other)[0] != contents(tuned)[0]


def test_a_classifier_starts_from_the_pooler_where_its_authors_have_it_so(tiny, tmp_path):
    weights, metadata = load_weights(tiny["model"])
    pooler = torch.nn.Linear(32, 32)
    weights |= {f"pooler.dense.{name}": value.detach() for name, value in pooler.named_parameters()}
    still = {"peak_lr": 1e-30, "epochs": 1, "batch": 16, "evaluations": 1, "warmup_steps": None, "warmup_fraction": 0.1}
    recipe = write_recipe(tmp_path / "still.yaml", "xnli", "cross-lingual-transfer", still)
    dense = {}
    for kind in ("bert", "ernie_m", "xlm-roberta"):
        path = tmp_path / f"{kind}.safetensors"
        save_weights(path, weights, metadata | {"checkpoint": json.dumps({"format": kind})})
        tuned_ = run_finetune(tiny, tmp_path / f"{kind}-tuned.safetensors", recipe=recipe, encoder=path)
        dense[kind] = load_weights(tuned_)[0]["head.dense.weight"]
    assert torch.equal(dense["bert"], pooler.weight) and torch.equal(dense["ernie_m"], pooler.weight)
    own = run_finetune(tiny, tmp_path / "own.safetensors", recipe=recipe)
    assert torch.equal(dense["xlm-roberta"], load_weights(own)[0]["head.dense.weight"])
    assert not torch.allclose(dense["xlm-roberta"], pooler.weight)


def test_an_encoder_that_was_pretrained_without_dropout_is_fine_tuned_with_that_of_the_recipe(tiny, tuned, tmp_path):
    """The weights of `tiny` say 0.1; said to have none, they end elsewhere, but for a recipe that gives it back."""
    weights, metadata = load_weights(tiny["model"])
    without = json.loads(metadata["model"]) | {"dropout": 0.0, "attention_dropout": 0.0}
    encoder = tmp_path / "encoder.safetensors"
    save_weights(
        encoder,
        weights,
        {key: metadata[key] for key in ("seed", "run_hash", "commit", "vocabulary_sha256")}
        | {"model": json.dumps(without)},
    )
    ends = {}
    for dropout in (0.1, None):
        recipe = yaml.safe_load(tiny["recipes"]["xnli", "cross-lingual-transfer"].read_text())
        recipe["recipe"]["encoder_dropout"] = dropout
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe))
        ends[dropout] = contents(run_finetune(tiny, tmp_path / f"{dropout}.safetensors", recipe=path, encoder=encoder))[
            0
        ]
    assert ends[0.1] == contents(tuned)[0] != ends[None]


def test_training_leaves_the_global_generator_as_it_was(tiny):
    recipe = load_recipe(tiny["recipes"]["xnli", "cross-lingual-transfer"])
    encoder, _ = load_encoder(tiny["model"])
    train = TrainingRows([[0, 5, 2], [0, 6, 2]] * 20, [[0], [1]] * 20, ["en"] * 40)
    dev = {"en": DevSet([[0, 5, 2], [0, 6, 2]], [0, 1])}
    before = torch.get_rng_state()
    finetune.search(encoder, train, dev, recipe, 1, "cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_it_learns_and_keeps_the_best_on_dev(tuned, tagger):
    for path, above in ((tuned, 80), (tagger, 80)):
        report = json.loads(path.with_suffix(".json").read_text())
        (trial,) = report["trials"]
        history = trial["history"]
        assert [point["step"] for point in history] == sorted({point["step"] for point in history})
        assert history[-1]["step"] == report["selection"]["of"] or history[-1]["mean"] == 100
        assert report["selection"]["score"] == max(point["mean"] for point in history) > above
        first_best = next(point for point in history if point["mean"] == report["selection"]["score"])
        assert report["selection"]["step"] == first_best["step"]
        assert history[0]["train_loss"] > history[-1]["train_loss"]


def test_the_saved_weights_score_on_dev_what_was_recorded(tiny, tuned):
    recipe = load_recipe(tiny["recipes"]["xnli", "cross-lingual-transfer"])
    tokenizer = Tokenizer(tiny["spm"])
    encoder, metadata = load_encoder(tuned)
    head = predict.load_head(str(tuned), encoder, metadata, recipe)
    paths = {"gold": tiny["raw"] / XNLI_10}
    dev = finetune.read_dev_sets(recipe, paths, tokenizer, 64, False)
    scores = finetune.dev_scores(nn.ModuleDict({"encoder": encoder, "head": head}), dev, recipe, "cpu")
    report = json.loads(tuned.with_suffix(".json").read_text())
    assert scores == report["selection"]["dev"]
    assert json.loads(metadata["selection"]) == report["selection"]
    assert (metadata["seed"], metadata["pretrain_seed"]) == ("1", "2")


def test_selection_never_reads_test(tiny, tuned, tmp_path):
    """The same weights come out where no test part exists at all."""
    raw = tmp_path / "raw"
    (raw / XNLI_10).parent.mkdir(parents=True)
    (raw / XNLI_MT).write_bytes((tiny["raw"] / XNLI_MT).read_bytes())
    with zipfile.ZipFile(tiny["raw"] / XNLI_10) as full, zipfile.ZipFile(raw / XNLI_10, "w") as devonly:
        devonly.writestr("XNLI-1.0/xnli.dev.tsv", full.read("XNLI-1.0/xnli.dev.tsv"))
    assert contents(run_finetune(tiny, tmp_path / "m.safetensors", raw=raw)) == contents(tuned)


def test_translate_train_all_selects_on_all_dev_sets(tiny, tmp_path):
    key = ("xnli", "translate-train-all")
    recipe = write_recipe(tmp_path / "r.yaml", *key, {"peak_lr": 1e-3, "epochs": 1, "evaluations": 1}, train_limit=100)
    out = run_finetune(tiny, tmp_path / "m.safetensors", key, recipe=recipe)
    report = json.loads(out.with_suffix(".json").read_text())
    assert report["dev_rows"] == {"de": 40, "en": 40}
    assert report["train_languages"] == ["de", "en"]
    assert report["train_rows"] == 100


def aligned_training_tables(path: Path, labels: dict[str, list[str]]) -> dict[str, Path]:
    with zipfile.ZipFile(path, "w") as archive:
        for language, own in labels.items():
            rows = [f"premise {language} {i}\thypothesis {language} {i}\t{label}" for i, label in enumerate(own)]
            table = "\n".join(["premise\thypo\tlabel", *rows]) + "\n"
            archive.writestr(f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv", table)
    return {"train": path}


def test_code_switching_never_gives_two_english_sides_and_parts_no_two_pairs(tiny, tmp_path, monkeypatch):
    labels = ["neutral", "entailment", "contradictory", "neutral", "entailment"] * 3
    paths = aligned_training_tables(tmp_path / "mt.zip", {"de": labels, "en": labels})
    hyper = {"code_switch": True, "batch": 4}
    path = write_recipe(
        tmp_path / "r.yaml", "xnli", "translate-train-all", hyper, train_languages=["de"], train_limit=11
    )
    seen = []
    monkeypatch.setattr(
        finetune, "pair_rows", lambda tokenizer, a, b, _: seen.extend(zip(a, b, strict=True)) or [[1]] * len(a)
    )
    train = finetune.read_training_rows(load_recipe(path), paths, Tokenizer(tiny["spm"]), 64, False)
    assert len(seen) == len(train.rows) == len(train.labels) == len(train.languages) == 22
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        i = first[0].split()[-1]
        assert first == (f"premise de {i}", f"hypothesis en {i}") and second == (
            f"premise en {i}",
            f"hypothesis de {i}",
        )
    assert train.labels[::2] == train.labels[1::2]
    batches = endless_batches(train, 4, torch.Generator().manual_seed(1))
    epoch = [next(batches) for _ in range(6)]
    assert sorted(row for batch in epoch for row in batch) == list(range(22))
    for batch in epoch:
        assert {row ^ 1 for row in batch} == set(batch)  # whoever is there, its partner is


def test_no_batch_parts_the_windows_of_two_code_switched_questions(tiny, tmp_path, monkeypatch):
    def questions(language, word, context):
        return [Question(str(i), f"{word} no", context, language, ("ka",), (0,)) for i in range(7)]

    # the German contexts take more windows than the English ones
    read = {"de": questions("de", "ru", "ka lo mi " * 40), "en": questions("en", "te", "ka lo mi " * 20)}
    module = SimpleNamespace(read_train=lambda paths, languages, expected: {key: read[key] for key in languages})
    monkeypatch.setattr(finetune, "task_module", lambda task: module)
    hyper = {"code_switch": True, "batch": 4, "max_query": 16, "stride": 10}
    path = write_recipe(tmp_path / "r.yaml", "mlqa", "translate-train-all", hyper, train_languages=["de"])
    recipe, tokenizer = load_recipe(path), Tokenizer(tiny["spm"])
    train = finetune.read_training_rows(recipe, {}, tokenizer, 48, False)
    both = [group for group in train.groups if len(group) == 2]
    alone = [group for group in train.groups if len(group) == 1]
    assert len(both) == len(question_windows(tokenizer, read["en"], recipe.recipe, 48)) > 7
    assert alone and len(train.rows) == 2 * len(both) + len(alone)
    for first, second in both:  # the same question in German and in English
        assert [train.rows[row][1:2] for row in (first, second)] == [row[:1] for row in tokenizer.encode(["ru", "te"])]

    batches = endless_batches(train, 4, torch.Generator().manual_seed(1))
    epoch = [next(batches) for _ in range(finetune.batches_of_epoch(train, 4))]
    assert sorted(row for batch in epoch for row in batch) == list(range(len(train.rows)))
    assert max(map(len, epoch)) == 4
    assert all(sum(not set(group).isdisjoint(batch) for batch in epoch) == 1 for group in train.groups)


def test_twins_are_the_first_rows_of_both_then_the_second_ones():
    assert finetune.twins([0, 1, 2, 2, 3, 3, 3]) == [[0, 1], [2, 4], [3, 5], [6]]


def test_code_switching_refuses_what_is_no_translation(tiny, tmp_path):
    hyper = {"code_switch": True}
    path = write_recipe(tmp_path / "r.yaml", "xnli", "translate-train-all", hyper, train_languages=["de"])
    other = {"de": ["neutral", "entailment"], "en": ["neutral", "neutral", "entailment"]}
    for labels, message in (
        (other, "2 training pairs in de and 3 in English"),
        (
            {"de": ["neutral", "entailment"], "en": ["entailment", "neutral"]},
            "training pair 1 is 'neutral', its English",
        ),
    ):
        paths = aligned_training_tables(tmp_path / "mt.zip", labels)
        with pytest.raises(UserError, match=message):
            finetune.read_training_rows(load_recipe(path), paths, Tokenizer(tiny["spm"]), 64, False)
    for change, own, message in (
        ({}, {"train_languages": ["de", "en"]}, "code_switch mixes translations with English"),
        ({"batch": 3}, {"train_languages": ["de"]}, "an even number with code_switch"),
    ):
        path = write_recipe(tmp_path / "r.yaml", "xnli", "translate-train-all", hyper | change, **own)
        with pytest.raises(UserError, match=message):
            load_recipe(path)


def test_grid_keeps_the_best_point(tiny, tmp_path):
    hyper = {"epochs": 3, "evaluations": 1, "warmup_fraction": 0.1, "grid": {"peak_lr": [1e-9, 3e-3], "batch": [16]}}
    recipe = write_recipe(tmp_path / "r.yaml", "xnli", "cross-lingual-transfer", hyper)
    out = run_finetune(tiny, tmp_path / "m.safetensors", recipe=recipe)
    report = json.loads(out.with_suffix(".json").read_text())
    scores = [trial["selection"]["score"] for trial in report["trials"]]
    assert [trial["point"]["peak_lr"] for trial in report["trials"]] == [1e-9, 3e-3]
    assert report["selection"]["score"] == max(scores) > min(scores)


def test_a_fine_tuning_whose_dev_cannot_be_better_ends_with_the_weights_of_the_whole():
    """As no later weights take the place of the first of equals."""

    def learnt(dev: list[float]) -> tuple[dict, dict, list[int]]:
        torch.manual_seed(0)
        encoder, scores, steps, kept = nn.Linear(2, 1), iter(dev), [], []
        encoder.config = SimpleNamespace(layers=1)

        def step_of(batch: int, optimizer: AdamW) -> float:
            loss = encoder(torch.tensor([1.0, batch])).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(batch)
            return loss.item()

        hyper = Hyperparameters("r", peak_lr=0.1, batch=1, epochs=1, evaluations=3, max_length=8, warmup_fraction=0.0)
        model = nn.ModuleDict({"encoder": encoder, "head": nn.Linear(1, 1)})
        weights, report = finetuning.learn(
            model, hyper, 6, "accuracy", iter(range(6)), step_of, lambda: {"en": next(scores)}, keep=kept.append
        )
        return weights, report, [*steps, len(kept)]

    ended, short, (*steps, kept) = learnt([66.0, 100.0])
    whole, long, (*all_steps, _) = learnt([66.0, 99.9, 50.0])
    assert (steps, all_steps, kept) == ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5], 1)
    assert all(torch.equal(ended[name], whole[name]) for name in whole)
    assert short["selection"]["step"] == long["selection"]["step"] == 4 and short["selection"]["of"] == 6
    assert learnt([66.0, 80.0, 80.0])[1]["selection"]["step"] == 4


@pytest.mark.parametrize(
    ("warmup", "factors"),
    [
        ({"warmup_fraction": 0.25}, [1 / 3, 2 / 3, 1, 1, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]),
        ({"warmup_steps": 2}, [1 / 2, 1, 1, 9 / 10, 8 / 10, 7 / 10, 6 / 10, 5 / 10, 4 / 10, 3 / 10, 2 / 10, 1 / 10]),
        ({}, [one / 12 for one in range(12, 0, -1)]),
    ],
)
def test_a_fine_tuning_warms_up_over_its_share_of_all_updates(warmup, factors):
    encoder, rates = nn.Linear(2, 1), []
    encoder.config = SimpleNamespace(layers=1)

    def step_of(_: int, optimizer: AdamW) -> float:
        rates.append([group["lr"] for group in optimizer.groups if group["params"]])
        return 0.0

    hyper = Hyperparameters("r", peak_lr=0.1, batch=1, epochs=1, evaluations=1, max_length=8, **warmup)
    finetuning.learn(
        nn.ModuleDict({"encoder": encoder}), hyper, 12, "accuracy", iter(range(12)), step_of, lambda: {"en": 50.0}
    )
    for of_groups in zip(*rates, strict=True):  # of tables and of vectors
        assert of_groups == pytest.approx([0.1 * factor for factor in factors])


def test_a_head_of_other_labels_is_refused():
    """Were they in another order, each answer would be another."""
    recipe = SimpleNamespace(labels=["contradiction", "entailment", "neutral"])
    written = json.dumps(recipe.labels[::-1])
    with pytest.raises(UserError, match=r"^w\.safetensors: its labels are .*; fine-tune again"):
        predict.load_head("w.safetensors", SimpleNamespace(), {"labels": written}, recipe)


def test_an_update_clips_the_joint_norm_of_all_gradients():
    model = nn.ModuleDict({"encoder": nn.Linear(3, 1), "head": nn.Linear(2, 1)})
    for limit, norm in ((0.5, 0.5), (100.0, 6.0), (None, 6.0)):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 6 / 7**0.5)
        hyper = Hyperparameters("r", max_length=8, clip=limit)
        finetuning.update(model, SimpleNamespace(step=int), hyper)
        gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        assert gradients.norm().item() == pytest.approx(norm, rel=1e-4)


RESTARTED = {"peak_lr": 3e-3, "epochs": 2, "evaluations": 2, "dropout": 0.1, "warmup_fraction": 0.1}


def test_a_fine_tuning_that_fails_on_english_dev_starts_again(tiny, tmp_path):
    """With a bar that no try reaches all are made, each with other draws, and the best is kept, whole; with one that
    the second try reaches, that is the last and its weights count. Without the rule nothing says `tries`."""

    def tuned_with(name: str, **more) -> tuple[dict, dict]:
        recipe = write_recipe(tmp_path / f"{name}.yaml", "xnli", "cross-lingual-transfer", RESTARTED | more)
        out = run_finetune(tiny, tmp_path / f"{name}/m.safetensors", recipe=recipe)
        return contents(out)[0], json.loads(out.with_suffix(".json").read_text())["selection"]

    weights, plain = tuned_with("plain")
    assert not {"tries", "restarts", "below"} & set(plain)
    same, easy = tuned_with("easy", restart={"below": 1.0, "most": 2})
    assert same == weights and (easy["tries"], easy["restarts"]) == ([plain["dev"]["en"]], 0)
    _, hard = tuned_with("hard", restart={"below": 99.9, "most": 3})
    assert len(hard["tries"]) == 4 and hard["restarts"] == 3 and len(set(hard["tries"])) > 1
    assert hard["tries"][0] == plain["dev"]["en"] and hard["dev"]["en"] == max(hard["tries"])
    reached = next(i for i, score in enumerate(hard["tries"]) if score > hard["tries"][0])
    _, second = tuned_with("second", restart={"below": hard["tries"][reached], "most": 3})
    assert second["tries"] == hard["tries"][: reached + 1] and second["dev"]["en"] == second["tries"][-1]


@pytest.mark.parametrize(
    ("dev", "tries", "kept"),
    [
        ([70.0, 60.0, 50.0], [70.0, 60.0, 50.0], 0),
        ([60.0, 70.0, 65.0], [60.0, 70.0, 65.0], 1),
        ([60.0, 50.0, 70.0], [60.0, 50.0, 70.0], 2),
        ([60.0, 60.0, 60.0], [60.0, 60.0, 60.0], 0),
        ([60.0, 80.0, 99.0], [60.0, 80.0], 1),
    ],
)
def test_a_failure_that_stays_one_is_the_best_of_its_tries(monkeypatch, dev, tries, kept):
    def made(*_: object) -> tuple[dict, dict]:
        number = len(asked)
        asked.append(number)
        return {"weights": number}, {"selection": {"score": dev[number], "dev": {"en": dev[number]}}}

    asked: list[int] = []
    monkeypatch.setattr(finetune, "finetune", made)
    hyper = Hyperparameters("r", max_length=8, restart={"below": 80, "most": 2})
    weights, report = finetune.search(nn.Linear(1, 1), None, {}, SimpleNamespace(recipe=hyper), 1, "cpu")
    assert weights == {"weights": kept} and len(asked) == len(tries)
    assert report["selection"]["score"] == dev[kept] and report["selection"]["tries"] == tries


def test_a_restarted_fine_tuning_goes_on_to_the_same_weights(tiny, tmp_path, monkeypatch):
    hyper = RESTARTED | {"restart": {"below": 99.9, "most": 2}, "grid": {"peak_lr": [3e-3, 1e-9]}}
    recipe = write_recipe(tmp_path / "r.yaml", "xnli", "cross-lingual-transfer", hyper)
    whole = run_finetune(tiny, tmp_path / "whole/m.safetensors", recipe=recipe)
    out = tmp_path / "killed/m.safetensors"
    for states in range(1, 7):  # one of each trial, two trials of each try
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_after(states, patch)
            run_finetune(tiny, out, recipe=recipe)
    run_finetune(tiny, out, recipe=recipe)
    assert out.read_bytes() == whole.read_bytes()
    assert out.with_suffix(".json").read_bytes() == whole.with_suffix(".json").read_bytes()


def test_a_killed_search_goes_on_to_the_same_weights(tiny, tmp_path, monkeypatch):
    hyper = {"epochs": 3, "evaluations": 3, "dropout": 0.1, "grid": {"peak_lr": [2e-3, 1e-9], "batch": [16]}}
    recipe = write_recipe(tmp_path / "r.yaml", "xnli", "cross-lingual-transfer", hyper)
    whole = run_finetune(tiny, tmp_path / "whole/m.safetensors", recipe=recipe)
    assert not (whole.parent / "state").exists()
    out = tmp_path / "killed/m.safetensors"
    for states in range(1, 5):  # two of the first trial, two of the second
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_after(states, patch)
            run_finetune(tiny, out, recipe=recipe)
        assert not out.exists() and len(list((out.parent / "state").glob("*/step-*.pt"))) == 1
    run_finetune(tiny, out, recipe=recipe)
    assert out.read_bytes() == whole.read_bytes()
    assert out.with_suffix(".json").read_bytes() == whole.with_suffix(".json").read_bytes()
    assert not (out.parent / "state").exists()


def test_other_inputs_do_not_go_on_from_an_old_state(tiny, tmp_path, monkeypatch):
    hyper = {"epochs": 2, "evaluations": 2}
    recipe = write_recipe(tmp_path / "r.yaml", "xnli", "cross-lingual-transfer", hyper)
    out = tmp_path / "m.safetensors"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_after(1, patch)
        run_finetune(tiny, out, recipe=recipe)
    changed = write_recipe(tmp_path / "c.yaml", "xnli", "cross-lingual-transfer", hyper | {"peak_lr": 1e-9})
    run_finetune(tiny, out, recipe=changed)
    assert out.read_bytes() == run_finetune(tiny, tmp_path / "new/m.safetensors", recipe=changed).read_bytes()


def test_a_short_fine_tuning_keeps_no_state(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(finetuning, "save_state", None)
    run_finetune(tiny, tmp_path / "m.safetensors")


def test_a_loss_that_is_not_finite_stops_with_its_step(tiny, tmp_path):
    weights, metadata = load_weights(tiny["model"])
    weights["encoder.blocks.1.up.weight"][0, 0] = float("nan")
    save_weights(tmp_path / "broken.safetensors", weights, metadata)
    with pytest.raises(
        UserError, match=r"step 1: the loss is nan; lower recipe.peak_lr, .*its run's optimizer.peak_lr"
    ):
        run_finetune(tiny, tmp_path / "m.safetensors", encoder=tmp_path / "broken.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


def test_wrong_inputs_are_refused(tiny, tuned, tmp_path):
    other = tmp_path / "other.model"
    other.write_bytes(tiny["spm"].read_bytes() + b"\n")
    with pytest.raises(UserError, match=r"not the vocabulary that .* was trained with"):
        check_vocabulary(load_weights(tiny["model"])[1], str(tiny["model"]), str(other))
    with pytest.raises(UserError, match="retrieval has nothing to fine-tune"):
        run_finetune(tiny, tmp_path / "m", ("tatoeba", "zero-shot-retrieval"))
    with pytest.raises(UserError, match="fine-tuned on xnli"):
        run_predict(tiny, tmp_path / "p", tuned, ("ud-pos", "cross-lingual-transfer"))
    with pytest.raises(UserError, match="fine-tuned on nothing"):
        run_predict(tiny, tmp_path / "p", tiny["model"])
    recipe = write_recipe(
        tmp_path / "w.yaml", "xnli", "cross-lingual-transfer", {"warmup_fraction": None, "warmup_steps": 999}
    )
    with pytest.raises(UserError, match=r"recipe\.warmup_steps: 999 of 50 updates"):
        run_finetune(tiny, tmp_path / "m", recipe=recipe)
    files = [
        "--recipe",
        tiny["recipes"]["xnli", "cross-lingual-transfer"],
        "--encoder",
        tiny["model"],
        "--raw",
        tiny["raw"],
    ]
    rest = ["--spm", tiny["spm"], "--seed", 1, "--out", tmp_path / "m", "--dev-json", tmp_path / "d"]
    with pytest.raises(UserError, match=r"multinli\.train\.en\.tsv: 300 rows where the upstream file has 392702"):
        run(finetune, *files, *rest, "--counts", "upstream")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"momentum": 1}, r"recipe\.momentum: unknown key"),
        ({"selection": "test"}, r"recipe\.selection: use one of en_dev, mean_dev"),
        ({"batch": 0}, r"recipe\.batch: a positive number"),
        ({"warmup_steps": 3}, r"recipe\.warmup_steps: and warmup_fraction are both set"),
        ({"grid": {"seed": [1]}}, r"recipe\.grid\.seed: a non-empty list"),
        ({"evaluations": 0}, r"recipe\.evaluations: at least 1"),
        ({"restart": {"below": 60}}, r"recipe\.restart: say \{below: a score of dev"),
        ({"restart": {"below": 0, "most": 2}}, r"recipe\.restart: say \{below: a score of dev"),
    ],
)
def test_wrong_recipes_are_refused(tmp_path, change, message):
    path = write_recipe(tmp_path / "r.yaml", "xnli", "cross-lingual-transfer", change)
    with pytest.raises(UserError, match=message):
        load_recipe(path)


@pytest.mark.parametrize("task", ["xnli", "ud-pos", "tatoeba"])
def test_every_recipe_of_every_task_resolves(tmp_path, repository, task):
    content = yaml.safe_load((repository / "config/tasks" / f"{task}.yaml").read_text())
    for name in content["recipes"]:
        for setting in content["settings"]:
            recipe = load_recipe(write_recipe(tmp_path / "r.yaml", task, setting, {}, recipe=name))
            assert recipe.recipe.name == name
            if task == "tatoeba":
                continue
            for point in recipe.recipe.points():
                assert replace(recipe.recipe, **point).peak_lr < 1e-4
            for key, values in (recipe.recipe.grid or {}).items():
                assert getattr(recipe.recipe, key) == values[0]


def test_layer_of_takes_the_nearest_relative_depth():
    seven = Hyperparameters(name="x", max_length=512, layer=7, of=12)
    assert [seven.layer_of(layers) for layers in (12, 24, 6, 3, 1)] == [7, 14, 4, 2, 1]


def test_layer_factors_of_ernie_m():
    factors = {
        "encoder.blocks.11.up.weight": 0.8,
        "encoder.blocks.0.attention.output.bias": 0.8**12,
        "encoder.tokens.weight": 0.8**13,
        "encoder.positions.weight": 0.8**13,
        "encoder.embedding_norm.weight": 1,
        "head.dense.weight": 1,
        "head.output.bias": 1,
    }
    assert {name: layer_factor(name, 12, 0.8) for name in factors} == pytest.approx(factors)
    assert {layer_factor(name, 12, None) for name in factors} == {1.0}


def test_weight_decay_is_neither_on_norms_nor_scaled_by_the_layer():
    config = ModelConfig(layers=2, width=8, heads=2, ffn=16, positions=10, vocabulary=12)
    model = nn.ModuleDict({"encoder": Encoder(config), "head": ClassificationHead(8, 3, 0.0)})
    hyper = Hyperparameters(name="x", max_length=8, peak_lr=1e-2, weight_decay=0.1, layer_decay=0.5, batch=1, epochs=1)
    optimizer = make_optimizer(model, hyper)
    before = {name: value.clone() for name, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # no Adam update: what is left is decay
    optimizer.step()
    for name, value in model.named_parameters():
        factor = 1 - 1e-2 * 0.1 if value.dim() > 1 else 1
        torch.testing.assert_close(value, before[name] * factor)
    assert sum(len(group["params"]) for group in optimizer.groups) == len(before)


def test_learning_rate_rises_to_the_peak_and_falls_to_nothing():
    factors = [linear(step, 4, 20) for step in range(21)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[20] == 0
    assert factors[12] == 0.5
    assert factors == sorted(factors[:4]) + sorted(factors[4:], reverse=True)


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_a_batch_in_pieces_is_one_batch(kind):
    config = ModelConfig(
        layers=1, width=8, heads=2, ffn=16, positions=20, vocabulary=30, dropout=0, attention_dropout=0
    )
    rng = random.Random(1)
    rows = [[0, *(rng.randint(4, 28) for _ in range(rng.randint(1, 9))), 2] for _ in range(7)]
    if kind == "classification":
        labels = [[rng.randint(0, 2)] for _ in rows]
    else:
        labels = [[-100, *(rng.choice([-100, 0, 1, 2]) for _ in row[2:]), -100] for row in rows]
    train = TrainingRows(rows, labels, ["en"] * len(rows))
    results = []
    for pieces in (None, 3):
        torch.manual_seed(0)
        head = (ClassificationHead if kind == "classification" else TaggingHead)(8, 3, 0.0)
        model = nn.ModuleDict({"encoder": Encoder(config), "head": head})
        hyper = Hyperparameters(name="x", max_length=20, peak_lr=1e-2, batch=7, epochs=1, device_rows=pieces)
        loss = finetune.train_step(model, make_optimizer(model, hyper), train, list(range(7)), hyper, "cpu")
        results.append((loss, {name: value.clone() for name, value in model.named_parameters()}))
    assert results[0][0] == pytest.approx(results[1][0])
    # Adam turns a gradient that is noise around zero into a whole step, so compare where the gradient is not.
    for name in ("head.output.weight", "head.output.bias"):
        torch.testing.assert_close(results[0][1][name], results[1][1][name], atol=1e-5, rtol=1e-4)


def test_one_epoch_shows_every_row_once_and_like_lengths_together():
    lengths = [random.Random(i).randint(3, 60) for i in range(1003)]
    batches = shuffled_batches(lengths, 8, torch.Generator().manual_seed(1))
    assert sorted(i for batch in batches for i in batch) == list(range(1003))
    assert batches != shuffled_batches(lengths, 8, torch.Generator().manual_seed(2))
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    assert padded < 1.1 * sum(lengths)


# ---------------------------------------------------------------------------------------------------------------------
# Rows and windows


def test_every_word_is_tagged_once_at_any_length(tiny):
    tokenizer = Tokenizer(tiny["spm"])
    rng = random.Random(2)
    sentences = [[made_up_word(rng) for _ in range(rng.randint(1, 30))] for _ in range(60)]
    sentences[3][0] = "karu" * 60  # longer than any window
    sentences[4] = ["", "ka", "\u200b"]  # words without pieces, maybe
    unknown = 0
    for max_length in (3, 4, 5, 8, 17, 64, 512):
        windows = tag_windows(tokenizer, sentences, max_length)
        places = [0] * len(sentences)
        for window in windows:
            places[window.sentence] += len(window.first)
            assert len(window.row) <= max_length
            assert (window.row[0], window.row[-1]) == (0, 2)
            assert len(set(window.first)) == len(window.first)
            assert all(0 < place < len(window.row) - 1 for place in window.first)
            unknown += sum(window.row[place] == UNK for place in window.first)
        assert places == [len(sentence) for sentence in sentences]
        assert [window.sentence for window in windows] == sorted(window.sentence for window in windows)
    assert unknown > 0
    # With room enough, a sentence is one window, and its row is the pieces of its words.
    window = tag_windows(tokenizer, [["ka", "lomi"]], 512)[0]
    assert window.row[1:-1] == [piece for pieces in tokenizer.encode(["ka", "lomi"]) for piece in pieces]


def test_a_window_ends_before_the_word_that_does_not_fit(tiny):
    tokenizer = Tokenizer(tiny["spm"])
    words = ["karulo", "teminovi", "sa", "noka"]
    sizes = [len(pieces) for pieces in tokenizer.encode(words)]
    max_length = 2 + sizes[0] + sizes[1]
    windows = tag_windows(tokenizer, [words], max_length)
    assert len(windows[0].first) == 2
    assert len(tag_windows(tokenizer, [words], max_length - 1)[0].first) == 1


def test_pairs_are_cut_from_the_longer_side(tiny):
    for a, b, room in [(9, 3, 8), (3, 9, 8), (9, 9, 8), (9, 9, 7), (2, 2, 8), (5, 4, 8), (1, 30, 6)]:
        left, right = list(range(a)), list(range(b))
        while len(left) + len(right) > room:  # one token at a time, the second of two equals
            (left if len(left) > len(right) else right).pop()
        assert cut_pair(list(range(a)), list(range(b)), room) == (left, right)
    (row,) = pair_rows(Tokenizer(tiny["spm"]), ["ka"], ["lo"], 64)
    assert (row[0], row[-1], row.count(2)) == (0, 2, 3)
    assert row[row.index(2) + 1] == 2  # <s> a </s></s> b </s>


# ---------------------------------------------------------------------------------------------------------------------
# Prediction


@pytest.mark.parametrize("kind", ["xnli", "ud-pos", "tatoeba"])
def test_batch_size_changes_no_prediction(tiny, tuned, tagger, tmp_path, kind):
    key = {"tatoeba": ("tatoeba", "zero-shot-retrieval")}.get(kind, (kind, "cross-lingual-transfer"))
    model = {"xnli": tuned, "ud-pos": tagger, "tatoeba": tiny["model"]}[kind]
    folders = [run_predict(tiny, tmp_path / f"b{batch}", model, key, batch) for batch in (1, 32)]
    names = sorted(path.name for path in folders[0].iterdir())
    assert "predictions.json" in names and "test-de.tsv" in names
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_predicted_tags_are_the_gold_tokens_at_any_max_length(tiny, tagger):
    encoder, metadata = load_encoder(tagger)
    recipe = load_recipe(tiny["recipes"]["ud-pos", "cross-lingual-transfer"])
    head = predict.load_head(str(tagger), encoder, metadata, recipe)
    sentences = ud_pos.read_ud(tiny["raw"] / UD, "test", ["de"])["de"]
    for max_length in (3, 5, 9, 64):
        windows = tag_windows(Tokenizer(tiny["spm"]), [s.tokens for s in sentences], max_length)
        tags = tag(encoder, head, windows, len(sentences), "en", 8)
        assert [len(t) for t in tags] == [len(s.tokens) for s in sentences]


def test_padding_changes_no_class(tiny, tuned):
    encoder, metadata = load_encoder(tuned)
    recipe = load_recipe(tiny["recipes"]["xnli", "cross-lingual-transfer"])
    head = predict.load_head(str(tuned), encoder, metadata, recipe)
    rows = [[0, 5, 2], [0, *range(4, 30), 2], [0, 7, 9, 2]]
    assert classify(encoder, head, rows, "en", 3) == [classify(encoder, head, [row], "en", 1)[0] for row in rows]


def test_mean_states_count_specials_and_no_padding(tiny):
    encoder, _ = load_encoder(tiny["model"])
    encoder.eval()
    rows = [[0, 5, 6, 7, 8, 2], [0, 9, 2], [0, 5, 6, 7, 8, 2]]
    means = mean_states(encoder, rows, "en", 2)
    assert means.shape == (3, 3, 32)
    with torch.no_grad():
        for i, row in enumerate(rows):
            tokens, _ = pad([row])
            for layer, states in enumerate(encoder(tokens, all_layers=True)):
                torch.testing.assert_close(means[layer, i], states[0].mean(0), atol=1e-5, rtol=1e-4)
    assert torch.equal(means[:, 0], means[:, 2])


def test_retrieval_finds_equal_sentences_and_breaks_ties_downwards(tiny, tmp_path):
    """The tiny German side is the English one, but for its last line, which repeats line 3."""
    folder = run_predict(tiny, tmp_path / "t", tiny["model"], ("tatoeba", "zero-shot-retrieval"))
    lines = (folder / "layers-de.tsv").read_text().splitlines()
    assert lines[0].split("\t") == [f"{direction}.{layer}" for direction in ("en-xx", "xx-en") for layer in (0, 1, 2)]
    table = [list(map(int, line.split("\t"))) for line in lines[1:]]
    assert [row[:3] for row in table[:49]] == [[i] * 3 for i in range(49)]
    assert table[49][3:] == [3, 3, 3]
    assert json.loads((folder / "predictions.json").read_text())["layer"] == 1
    assert (folder / "test-de.tsv").read_text().splitlines()[:49] == [str(i) for i in range(49)]


def test_sides_and_languages_reach_models_that_embed_them():
    torch.manual_seed(0)
    config = ModelConfig(1, 8, 2, 16, 20, 30, dropout=0.0, attention_dropout=0.0, token_types=2, languages=2)
    encoder = Encoder(config).eval()
    encoder.language_codes = ["de", "en"]
    rows = [[0, 5, 6, 2, 2, 7, 2], [0, 5, 2]]
    states, real = encode(encoder, rows, ["de", "sw"])
    first = torch.tensor([rows[0]])
    sides, german = torch.tensor([[0, 0, 0, 0, 1, 1, 1]]), torch.zeros(1, 7, dtype=torch.long)
    assert torch.allclose(states[0], encoder(first, sides_BT=sides, languages_BT=german)[0], atol=1e-6)
    assert not torch.allclose(states[0], encoder(first, sides_BT=sides, languages_BT=german + 1)[0], atol=1e-3)
    assert not torch.allclose(states[0], encoder(first, sides_BT=german, languages_BT=german)[0], atol=1e-3)
    second = encoder(torch.tensor([rows[1]]), sides_BT=german[:, :3], languages_BT=german[:, :3] + 1)
    assert torch.allclose(states[1, :3], second[0], atol=1e-6)  # an unknown language passes for English
    assert real.tolist() == [[True] * 7, [True] * 3 + [False] * 4]
