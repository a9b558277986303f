"""Fine-tuning for retrieval: the loss against its definition, what is drawn of the pairs, and a language learned."""

import copy
import hashlib
import json
import math
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
import yaml
from torch import nn

import finetune_retrieval as retrieval
from common.errors import UserError
from corpus.corpusio import zst_writer
from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.model import Encoder
from engine.shape import ModelConfig
from engine.tokenizer import Tokenizer
from killed import Killed, killed_after
from tasks.recipe import load_recipe
from training.finetuning import make_optimizer
from training.pairs import PairRows, Sentences, find_sources, held_out_rows, read_pairs, read_sources

# Two ciphers of English: de shifts each vowel, hi each consonant.
SHIFTS = {"de": str.maketrans("aeiou", "eioua"), "hi": str.maketrans("klmnrst", "lmnrstk")}
CORPORA = {"de-en": {"Europarl": 260, "WikiMatrix": 140}, "en-hi": {"IITB": 300}}
HYPER = {"name": "tiny", "layer": 1, "of": 2, "max_length": 16, "steps": 300, "batch": 16, "peak_lr": 6e-3}
HYPER |= {"warmup_fraction": 0.1, "similarity_scale": 10.0, "evaluations": 3, "selection": "mean_dev", "dev_limit": 12}
RECIPE = {
    "task": "tatoeba",
    "version": 1,
    "kind": "retrieval",
    "metric": "accuracy",
    "metrics": ["accuracy"],
    "chance": {"accuracy": "one-of-n"},
    "datasets": {},
    "languages": ["de", "hi"],
    "counts": {},
    "setting": "retrieval-fine-tuned",
    "train_languages": ["de", "hi"],
    "train_limit": None,
    "bitext": {"run": "x", "alpha": 0.7, "corpora": {pair: list(corpora) for pair, corpora in CORPORA.items()}},
    "recipe": HYPER,
}


def write_shard(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zst_writer(path) as out:
        out.writelines(f"{a}\t{b}\n" for a, b in pairs)
    counts = path.with_name(path.name.replace(".clean.tsv.zst", ".clean.json"))
    counts.write_text(json.dumps({"out": {"documents": len(pairs)}}))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("retrieval")
    rng = random.Random(3)
    words = ["".join(rng.choice("klmnrst") + rng.choice("aeiou") for _ in range(2)) for _ in range(30)]
    bitext, pairs = [], {}
    for pair, corpora in CORPORA.items():
        language = pair.replace("en", "").strip("-")
        for corpus, count in corpora.items():
            english = [" ".join(rng.choices(words, k=rng.randint(3, 6))) for _ in range(count)]
            foreign = [sentence.translate(SHIFTS[language]) for sentence in english]
            sides = (english, foreign) if pair.startswith("en-") else (foreign, english)
            pairs[pair, corpus] = list(zip(*sides, strict=True))
            for shard in (0, 1):
                path = folder / corpus / pair / f"{shard}.clean.tsv.zst"
                write_shard(path, pairs[pair, corpus][shard * count // 3 : count // 3 if shard == 0 else None])
                bitext.append(path)
    (folder / "text").write_text("\n".join(side for own in pairs.values() for pair in own for side in pair))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "spm"), vocab_size=90, num_threads=1, minloglevel=2
    )
    spm = folder / "spm.model"
    torch.manual_seed(0)
    encoder = Encoder(ModelConfig(2, 32, 2, 64, 66, Tokenizer(spm).vocabulary_size, init_std=0.1))
    metadata = {"model": describe_model(encoder.config), "seed": "2"}
    metadata["vocabulary_sha256"] = hashlib.sha256(spm.read_bytes()).hexdigest()
    save_weights(folder / "e", {f"encoder.{name}": value for name, value in encoder.state_dict().items()}, metadata)
    return SimpleNamespace(folder=folder, bitext=bitext, pairs=pairs, spm=spm, encoder=folder / "e")


def write_recipe(path: Path, change: dict | None = None, **hyper: object) -> Path:
    path.write_text(yaml.safe_dump({**RECIPE, **(change or {}), "recipe": {**HYPER, **hyper}}))
    return path


def run(tiny, out: Path, seed: int = 1, bitext: list[Path] | None = None, recipe: Path | None = None) -> Path:
    recipe = recipe or write_recipe(tiny.folder / "recipe.yaml")
    files = ["--recipe", recipe, "--encoder", tiny.encoder, "--spm", tiny.spm, "--bitext", *(bitext or tiny.bitext)]
    rest = ["--seed", seed, "--out", out, "--dev-json", out.with_suffix(".json"), "--device", "cpu"]
    old, sys.argv = sys.argv, ["finetune_retrieval.py", *map(str, files + rest)]
    try:
        retrieval.main()
    finally:
        sys.argv = old
    return out


@pytest.fixture(scope="module")
def tuned(tiny) -> Path:
    return run(tiny, tiny.folder / "tuned.safetensors")


def the_recipe(tiny, **hyper: object):
    return load_recipe(write_recipe(tiny.folder / "some.yaml", **hyper))


# ---------------------------------------------------------------------------------------------------------------------
# The loss


def by_definition(
    foreign: torch.Tensor, english: torch.Tensor, equal: list[list[bool]], scale: float, offset: float
) -> float:
    def s(x: torch.Tensor, y: torch.Tensor) -> float:
        dot, a, b = (sum(p * q for p, q in zip(*two, strict=True)) for two in ((x, y), (x, x), (y, y)))
        return scale * dot / math.sqrt(a) / math.sqrt(b) + offset

    def cost(logit: float) -> float:  # - log sigma(logit)
        return math.log(1 + math.exp(-logit))

    xs, ys = foreign.tolist(), english.tolist()
    total = 0.0
    for i in range(len(xs)):
        total += cost(s(xs[i], ys[i]))
        others = [j for j in range(len(xs)) if not equal[i][j]]
        if others:
            total += cost(-max(s(xs[i], ys[j]) for j in others)) + cost(-max(s(xs[j], ys[i]) for j in others))
    return total / len(xs)


@pytest.mark.parametrize("offset", [0.0, -2.5])
@pytest.mark.parametrize(
    ("foreign", "english"),
    [
        ("ab", "AB"),  # a batch of two
        ("abcdefg", "ABCDEFG"),
        ("abcad", "ABCDE"),  # one foreign sentence in two translations: neither is wrong
        ("abcde", "ABABE"),
        ("aab", "AAB"),  # a whole pair twice
        ("abc", "AAA"),  # nothing to tell apart
    ],
)
def test_the_loss_is_its_definition_and_equal_sentences_are_no_negatives_of_each_other(foreign, english, offset):
    torch.manual_seed(len(foreign))
    vectors = {letter: torch.randn(5, dtype=torch.float64) for letter in sorted({*foreign, *english})}
    x, y = (torch.stack([vectors[letter] for letter in side]).requires_grad_() for side in (foreign, english))
    rows = [[[0, ord(letter), 2] for letter in side] for side in (foreign, english)]
    equal = retrieval.equals(rows[0]) | retrieval.equals(rows[1])
    expected = [
        [foreign[i] == foreign[j] or english[i] == english[j] for j in range(len(english))] for i in range(len(english))
    ]
    assert equal.tolist() == expected
    loss = retrieval.hardest_negative_loss(x, y, equal, 3.0, offset)
    assert loss.item() == pytest.approx(by_definition(x, y, expected, 3.0, offset), rel=1e-12)
    loss.backward()
    assert torch.isfinite(x.grad).all() and torch.isfinite(y.grad).all() and x.grad.abs().sum() > 0
    if len(set(foreign)) == len(foreign) == len(set(english)):  # where no two negatives are equally hard
        assert torch.autograd.gradcheck(lambda a, b: retrieval.hardest_negative_loss(a, b, equal, 3.0, offset), (x, y))


def test_an_update_changes_the_encoder_up_to_the_layer_and_nothing_above(tiny):
    encoder, _ = load_encoder(tiny.encoder)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    model = nn.ModuleDict({"encoder": encoder})
    hyper = the_recipe(tiny).recipe
    pairs = PairRows([[0, 5, 6, 2], [0, 7, 2]], [[0, 8, 2], [0, 9, 10, 2]])
    loss = retrieval.train_step(model, make_optimizer(model, hyper), pairs, "de", 1, hyper, "cpu")
    assert math.isfinite(loss)
    changed = {name for name, value in encoder.state_dict().items() if not torch.equal(value, before[name])}
    assert {"tokens.weight", "positions.weight", "blocks.0.up.weight"} <= changed
    assert not any(name.startswith("blocks.1.") for name in changed)


def test_the_offset_of_the_recipe_reaches_the_loss(tiny):
    encoder, _ = load_encoder(tiny.encoder)
    pairs = PairRows([[0, 5, 6, 2], [0, 7, 2]], [[0, 8, 2], [0, 9, 10, 2]])
    losses = {}
    for offset in (0.0, -1000.0):
        hyper = the_recipe(tiny, similarity_offset=offset).recipe
        model = nn.ModuleDict({"encoder": copy.deepcopy(encoder)})
        losses[offset] = retrieval.train_step(model, make_optimizer(model, hyper), pairs, "de", 1, hyper, "cpu")
    # no negative counts any more, and a pair costs what its cosine lacks of the offset
    assert losses[-1000.0] == pytest.approx(1000, abs=hyper.similarity_scale)
    assert losses[0.0] < 3 * hyper.similarity_scale


# ---------------------------------------------------------------------------------------------------------------------
# What is learned


def test_a_language_is_learned_and_the_best_weights_are_kept(tiny, tuned):
    report = json.loads(tuned.with_suffix(".json").read_text())
    encoder, metadata = load_encoder(tuned)
    recipe, tokenizer = the_recipe(tiny), Tokenizer(tiny.spm)
    sources = find_sources(tiny.bitext, recipe)
    _, dev = read_sources(sources, ["de", "hi"], recipe, 99)  # another seed holds out the same pairs
    rows = {language: held_out_rows(one, tokenizer, 16) for language, one in dev.items()}
    assert {language: len(one.english) for language, one in rows.items()} == {"de": 12, "hi": 12} == report["dev_rows"]
    start, _ = load_encoder(tiny.encoder)
    before = retrieval.dev_scores(start, rows, 1, "cpu")
    after = retrieval.dev_scores(encoder, rows, 1, "cpu")
    assert after == report["selection"]["dev"] and json.loads(metadata["selection"]) == report["selection"]
    assert report["selection"]["score"] == max(point["mean"] for point in report["history"])
    for language in ("de", "hi"):
        assert before[language] < 40 and after[language] > 80, language
    assert (metadata["task"], metadata["setting"]) == ("tatoeba", "retrieval-fine-tuned")
    assert (metadata["seed"], metadata["pretrain_seed"]) == ("1", "2")
    assert set(load_weights(tuned)[0]) == {f"encoder.{name}" for name in start.state_dict()}


def test_equal_seeds_give_equal_bytes_whatever_the_order_of_the_files_is(tiny, tuned, tmp_path):
    torch.manual_seed(5)
    again = run(tiny, tmp_path / "again.safetensors", bitext=tiny.bitext[::-1])
    assert again.read_bytes() == tuned.read_bytes()
    assert again.with_suffix(".json").read_bytes() == tuned.with_suffix(".json").read_bytes()
    assert run(tiny, tmp_path / "other.safetensors", seed=2).read_bytes() != tuned.read_bytes()


def test_a_killed_one_goes_on_to_the_same_weights(tiny, tuned, tmp_path, monkeypatch):
    out = tmp_path / "killed/tuned.safetensors"
    for states in (1, 2):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_after(states, patch)
            run(tiny, out)
    run(tiny, out)
    assert out.read_bytes() == tuned.read_bytes()
    assert out.with_suffix(".json").read_bytes() == tuned.with_suffix(".json").read_bytes()
    assert not (out.parent / "state").exists()


# ---------------------------------------------------------------------------------------------------------------------
# What is drawn


@pytest.mark.parametrize("steps", [3, 40, 400])
def test_pairs_are_drawn_evenly_and_the_held_out_ones_never(tiny, steps):
    recipe = the_recipe(tiny, steps=steps)
    sources = find_sources(tiny.bitext, recipe)
    languages = retrieval.languages_of_batches(sources, recipe, 7)
    train, dev = read_sources(sources, languages, recipe, 7)
    seen = {"de": Counter(), "hi": Counter()}
    drawn = list(retrieval.batches_of(train, languages, 16))
    assert [language for language, _ in drawn] == languages and len(drawn) == steps
    for language, (foreign, english) in drawn:
        assert len(foreign) == len(english) == 16
        assert [a.decode() for a in foreign] == [b.decode().translate(SHIFTS[language]) for b in english]
    for pair, language in (("de-en", "de"), ("en-hi", "hi")):
        for number in train[language].order.tolist():
            seen[language][number] += 1
        size = sum(CORPORA[pair].values())
        draws = languages.count(language) * 16
        assert len(train[language].lines) == min(draws, size - 12), "only what is drawn is held"
        if draws:
            assert set(seen[language].values()) <= {draws // (size - 12), -(-draws // (size - 12))}
        everything = [line for own, lines in tiny.pairs.items() if own[0] == pair for line in lines]
        held = [tuple(line.decode().split("\t")) for line in dev[language].lines]
        assert held == [everything[(i + 1) * size // 12 - 1] for i in range(12)]


def test_languages_have_their_share_of_the_batches(tiny):
    recipe = the_recipe(tiny, steps=20000)
    sources = find_sources(tiny.bitext, recipe)
    share = retrieval.languages_of_batches(sources, recipe, 1).count("de") / 20000
    assert share == pytest.approx(400**0.7 / (400**0.7 + 300**0.7), abs=0.02)  # 5 standard deviations


def test_any_lines_are_read_across_shards(tiny):
    (source, _) = find_sources(tiny.bitext, the_recipe(tiny))
    lines = [f"{a}\t{b}".encode() for (pair, _), own in tiny.pairs.items() if pair == "de-en" for a, b in own]
    assert (source.pair, source.language, source.size) == ("de-en", "de", 400)
    for numbers in ([], [0], [399], list(range(400)), sorted(random.Random(1).sample(range(400), 50))):
        assert read_pairs(source, numbers) == {i: lines[i] for i in numbers}


def test_of_held_out_pairs_with_an_equal_side_the_first_stays(tiny):
    lines = [b"ka lo\tka", b"mi\tlo", b"ka lo\tmi", b"ru\tlo", b"ru\tru"]
    rows = held_out_rows(Sentences(lines, torch.arange(5), False), Tokenizer(tiny.spm), 16)
    kept = (["ka lo", "mi", "ru"], ["ka", "lo", "ru"])
    sides = [retrieval.sentence_rows(Tokenizer(tiny.spm), texts, 16) for texts in kept]
    assert [rows.foreign, rows.english] == sides


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def test_wrong_files_are_refused(tiny, tmp_path):
    recipe = the_recipe(tiny)
    with pytest.raises(UserError, match=r"--bitext: no shard of IITB en-hi"):
        find_sources(tiny.bitext[:4], recipe)
    with pytest.raises(UserError, match=r"0\.clean\.json: not a shard <corpus>/<pair>/<shard>\.clean\.tsv\.zst"):
        find_sources([tiny.folder / "IITB/en-hi/0.clean.json"], recipe)
    path = tmp_path / "IITB/en-hi/0.clean.tsv.zst"
    other = replace(recipe, bitext={"run": "x", "alpha": 1, "corpora": {"en-hi": ["IITB"]}})
    write_shard(path, [("a", "b")] * 19)
    with pytest.raises(UserError, match="19 clean pairs, of which none can be held out; at least 20"):
        find_sources([path], other)
    write_shard(path, [("a", "b")] * 29 + [("c", "d\te")])
    (source,) = find_sources([path], other)
    assert len(read_pairs(source, [0, 28])) == 2
    with pytest.raises(UserError, match=r"0\.clean\.tsv\.zst, line 30: not two sentences with a tab"):
        read_pairs(source, [29])
    with pytest.raises(UserError, match="30 pairs, but its counts say 31"):
        read_pairs(replace(source, sizes=[31]), [0])
    counts = path.with_name("0.clean.json")
    counts.write_text("{}")
    with pytest.raises(UserError, match=r"0\.clean\.json: not the counts of clean_bitext\.py"):
        find_sources([path], other)
    counts.unlink()
    with pytest.raises(UserError, match=r"0\.clean\.json: no such file"):
        find_sources([path], other)


@pytest.mark.parametrize(
    ("change", "hyper", "message"),
    [
        ({}, {"batch": 1}, r"recipe\.batch: at least 2"),
        ({}, {"steps": None}, r"recipe\.steps: a positive number"),
        ({}, {"similarity_scale": None}, r"recipe\.similarity_scale: a positive number"),
        ({}, {"device_rows": 4}, r"recipe\.device_rows: is not for retrieval"),
        ({}, {"grid": {"peak_lr": [1e-3]}}, r"recipe\.grid: is not for retrieval"),
        ({}, {"selection": "en_dev"}, r"recipe\.selection: use mean_dev"),
        ({"kind": "mining"}, {}, "bitext: nothing fine-tunes kind mining on pairs"),
        ({"train_languages": []}, {}, "train_languages: none"),
        ({"bitext": None}, {}, "has no bitext to fine-tune on"),
    ],
)
def test_wrong_recipes_are_refused(tiny, tmp_path, change, hyper, message):
    with pytest.raises(UserError, match=message):
        run(tiny, tmp_path / "m", recipe=write_recipe(tmp_path / "r.yaml", change, **hyper))
    assert not (tmp_path / "m").exists()
