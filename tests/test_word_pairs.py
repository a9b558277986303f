"""Links between words out of a model's states, and pairs mined out of two piles with it."""

import random

import numpy as np
import pytest
import sentencepiece
import torch

from engine.heads import align_words, encode, mean_states
from engine.mining import best_threshold
from engine.model import Encoder
from engine.retrieval import mined
from engine.rows import word_pairs
from engine.shape import ModelConfig
from engine.tokenizer import BOS, EOS, UNK, Tokenizer
from engine.transport import transport, transport_links, word_links
from predict import mine
from tasks import word_alignment
from tasks.bucc import Piles
from tasks.recipe import Hyperparameters, Recipe

WORDS = [first + second for first in ("ka", "lo", "mi", "nu", "pe") for second in ("ra", "so", "ti", "vu")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("spm")
    rng = random.Random(0)
    (folder / "text").write_text("\n".join(" ".join(rng.choices(WORDS, k=9)) for _ in range(500)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "spm"), vocab_size=30, num_threads=1, minloglevel=2
    )
    return Tokenizer(folder / "spm.model")


@pytest.fixture(scope="module")
def encoder(tokenizer) -> Encoder:
    torch.manual_seed(0)
    return Encoder(ModelConfig(2, 32, 2, 64, 66, tokenizer.vocabulary_size, dropout=0.1, init_std=0.2))


def sentences(rng: random.Random, count: int) -> list[list[str]]:
    return [rng.choices(WORDS, k=rng.randint(1, 8)) for _ in range(count)]


def test_each_word_is_encoded_alone_and_knows_its_number(tokenizer):
    [pair] = word_pairs(tokenizer, [["kara", "lo", "\u200b"]], [["miti"]], 64)
    pieces = {word: tokenizer.encode([word])[0] or [UNK] for word in ("kara", "lo", "\u200b", "miti")}
    first = [piece for word in ("kara", "lo", "\u200b") for piece in pieces[word]]
    assert pair.row == [BOS, *first, EOS, *pieces["miti"], EOS]
    assert pair.words_X == [i for i, word in enumerate(("kara", "lo", "\u200b")) for _ in pieces[word]]
    assert pair.words_Y == [0] * len(pieces["miti"])
    long = word_pairs(tokenizer, [["kara"] * 50], [["miti"] * 50], 30)[0]
    assert len(long.row) == 30 and abs(len(long.words_X) - len(long.words_Y)) <= 1


@pytest.mark.parametrize("iterations", [0, 1, 2])
def test_links_are_those_of_the_pair_alone_at_every_layer_whatever_the_batch(tokenizer, encoder, iterations):
    rng = random.Random(1)
    pairs = word_pairs(tokenizer, sentences(rng, 40), sentences(rng, 40), 64)
    by_layer = align_words(encoder, pairs, "de", iterations, 7)
    assert len(by_layer) == 3
    assert by_layer == align_words(encoder, pairs, "de", iterations, 1)
    for number, pair in enumerate(pairs):
        states, _ = encode(encoder.eval(), [pair.row], ["de"], all_layers=True)
        for layer, links in enumerate(by_layer):
            own = states[layer][0].detach().numpy()
            x = len(pair.words_X)
            similarity = own[1 : 1 + x] @ own[2 + x : 2 + x + len(pair.words_Y)].T
            expected = word_links(transport_links(np.array(similarity), iterations), pair.words_X, pair.words_Y)
            assert links[number] == expected


def test_a_clamp_leaves_nothing_negative_to_the_transport():
    rng = np.random.default_rng(5)
    for _ in range(50):
        similarity = rng.normal(size=(4, 6))
        positive = np.where(similarity > 0, similarity, 1e-6)
        assert transport_links(similarity, 2, clamp=True) == transport_links(positive, 2)
        pi, xi = transport(similarity, 2, clamp=True)
        assert (pi > 0).all() and (xi > 0).all() and np.allclose(pi.sum(1), 1)
    assert any(transport_links(one, 2, clamp=True) != transport_links(one, 2) for one in rng.normal(size=(9, 4, 6)))


def test_an_empty_sentence_has_no_links(tokenizer, encoder):
    pairs = word_pairs(tokenizer, [[], ["kara"], ["loso"]], [["miti"], [], ["nuvu"]], 64)
    for links in align_words(encoder, pairs, "de", 2, 3):
        assert links[:2] == [frozenset()] * 2 and links[2] == {(0, 0)}


def test_layers_are_written_and_read(tmp_path):
    gold = [word_alignment.Alignment(frozenset({(0, 0)}), frozenset({(0, 0)}), (2, 3)) for _ in range(2)]
    by_layer = [[frozenset({(0, 1), (1, 2)}), frozenset()], [frozenset({(1, 0)}), frozenset({(0, 0)})]]
    word_alignment.write_layer_predictions(tmp_path / "layers", by_layer)
    assert word_alignment.read_layer_predictions(tmp_path / "layers", gold) == by_layer
    (tmp_path / "layers").write_text("0-1\t0-0\n0-0\n")
    with pytest.raises(word_alignment.UserError, match="different numbers of layers"):
        word_alignment.read_layer_predictions(tmp_path / "layers", gold)


def piles(rng: random.Random, prefix: str) -> Piles:
    said: dict[str, None] = {}
    while len(said) < 40:
        said[" ".join(rng.choices(WORDS, k=6))] = None
    texts = list(said)
    foreign = {f"{prefix}-{i}": text for i, text in enumerate(texts[:30])}
    english = {
        f"en-{i}": text for i, text in enumerate(texts[10:])
    }  # the last twenty of the one, the first of the other
    return Piles(foreign, english, [(f"{prefix}-{i + 10}", f"en-{i}") for i in range(20)])


def mining(tokenizer, encoder, of: Piles, batch: int = 8) -> list[tuple[float, tuple[str, str]]]:
    recipe = Recipe("bucc", 1, "mining", "f1", ["f1"], {}, {}, ["de"], {}, "x", Hyperparameters("r", 64, layer=1, of=2))
    return mine(of, "de", recipe, 64, encoder, tokenizer, batch, "cpu")


def test_equal_sentences_are_found_above_all_others_and_doubles_are_left_out(tokenizer, encoder):
    dev, test = piles(random.Random(2), "de"), piles(random.Random(3), "de")
    threshold, f1 = best_threshold(mining(tokenizer, encoder, dev), dev.gold)
    assert f1 > 90
    found = [pair for score, pair in mining(tokenizer, encoder, test) if score >= threshold]
    assert 2 * len(set(found) & set(test.gold)) / (len(found) + len(test.gold)) > 0.85
    alone, together = (mining(tokenizer, encoder, test, batch) for batch in (1, 32))
    assert [pair for _, pair in alone] == [pair for _, pair in together]
    doubled = Piles({**test.foreign, "de-99": test.foreign["de-10"]}, test.english, test.gold)
    ids = {pair[0] for _, pair in mining(tokenizer, encoder, doubled)}
    assert "de-99" not in ids and "de-10" not in ids and "de-11" in ids


def test_vectors_without_a_margin_are_no_candidates():
    apart = torch.eye(4)
    assert mined(apart[:2], apart[2:]) == mined(torch.zeros(3, 4), apart) == mined(apart[:0], apart) == []
    with_zero = torch.cat([apart, torch.zeros(1, 4)])
    assert [(x, y) for _, x, y in mined(with_zero, apart, 1)] == [(i, i) for i in range(4)]


def test_some_layers_are_those_of_all(tokenizer, encoder):
    rows = tokenizer.encode([" ".join(one) for one in sentences(random.Random(4), 20)])
    every = mean_states(encoder, rows, "de", 4)
    assert torch.equal(mean_states(encoder, rows, "de", 4, layers=[2, 0]), every[[2, 0]])
