import itertools
import math
import random

import numpy as np
import pytest

from engine import ibm2
from engine.alignments import diagonal, error_rate
from tasks import word_alignment

ARCHIVE = "raw.githubusercontent.com/CZWin32768/XLM-Align/main/word_aligner/alignment-test-sets.tar.gz"


def test_the_prior_is_the_paper_s():
    corpus = ibm2.read_corpus([(["a", "b", "c"], ["x", "y"])])
    links = ibm2.links_of(corpus, range(1))
    found = ibm2.prior(links, 3.0).reshape(2, 4)
    for j, row in enumerate(found, start=1):
        weights = [math.exp(-3.0 * abs(i / 3 - j / 2)) for i in (1, 2, 3)]
        assert row[0] == 0.08 and row[1:] == pytest.approx([0.92 * w / sum(weights) for w in weights])
    assert found.sum(1) == pytest.approx(1)


def test_a_round_counts_as_enumerating_every_alignment_does():
    """p(a | e, f) is a product over target words, so expected counts are sums over single links."""
    pairs = [(["a", "b"], ["x", "y"]), (["a"], ["x"])]
    corpus = ibm2.read_corpus(pairs)
    rng = np.random.default_rng(1)
    translation = rng.random(len(corpus.kind_source))
    counts = np.zeros(len(translation))
    for links in ibm2.chunks(corpus):
        np.add.at(counts, links.kind, ibm2.posterior(links, translation, 2.0))
    kind = {divmod(int(number), corpus.target_words): k for k, number in enumerate(corpus.kinds)}
    by_hand = np.zeros(len(translation))
    for source, target in zip(corpus.sources, corpus.targets, strict=True):
        n, m = len(source) - 1, len(target)
        weighed = []
        for alignment in itertools.product(range(n + 1), repeat=m):
            p = 1.0
            for j, i in enumerate(alignment, start=1):
                z = sum(math.exp(-2.0 * abs(k / n - j / m)) for k in range(1, n + 1))
                p *= 0.08 if i == 0 else 0.92 * math.exp(-2.0 * abs(i / n - j / m)) / z
                p *= translation[kind[int(source[i]), int(target[j - 1])]]
            weighed.append((p, alignment))
        total = sum(p for p, _ in weighed)
        for p, alignment in weighed:
            for j, i in enumerate(alignment):
                by_hand[kind[int(source[i]), int(target[j])]] += p / total
    assert counts == pytest.approx(by_hand)


def test_the_first_round_leaves_the_tension_and_the_last_learns_nothing(monkeypatch):
    """As in the released program, whose fifth of five rounds prints links: four learn, three of them the tension."""
    pairs, _ = made_up_pairs(60)
    corpus, learnt = ibm2.read_corpus(pairs), []
    monkeypatch.setattr(ibm2, "follow", lambda corpus, tension, *_: learnt.append(tension) or tension + 1)
    uniform = np.full(len(corpus.kinds), 1 / corpus.target_words)
    assert np.array_equal(ibm2.train(corpus, rounds=1)[0], uniform) and learnt == []
    once, tension = ibm2.train(corpus, rounds=2)
    assert not np.array_equal(once, uniform) and (tension, learnt) == (ibm2.TENSION, [])
    assert ibm2.train(corpus)[1] == ibm2.TENSION + 3 and len(learnt) == 3


def made_up_pairs(count: int) -> tuple[list, list]:
    """A word for a word, neighbours swapped now and then: what the gold links are is known."""
    rng = random.Random(2)
    pairs, gold = [], []
    for _ in range(count):
        words = rng.sample(range(40), rng.randint(3, 8))
        order = list(range(len(words)))
        for i in range(0, len(order) - 1, 2):
            if rng.random() < 0.3:
                order[i], order[i + 1] = order[i + 1], order[i]
        pairs.append(([f"s{w}" for w in words], [f"t{words[i]}" for i in order]))
        gold.append(frozenset((i, j) for j, i in enumerate(order)))
    return pairs, gold


def test_it_learns_a_dictionary_and_the_chunks_do_not_matter(monkeypatch):
    pairs, gold = made_up_pairs(400)
    found = ibm2.align(pairs)
    assert sum(one == other for one, other in zip(found, gold, strict=True)) > 390
    monkeypatch.setattr(ibm2, "CHUNK", 7)
    monkeypatch.setattr(ibm2, "UNSORTED", 30)
    assert ibm2.align(pairs) == found


def test_pairs_beside_are_learnt_from_and_not_linked():
    pairs, gold = made_up_pairs(400)
    every = ibm2.align(pairs)
    assert ibm2.align(pairs[:20], pairs[20:]) == every[:20]
    alone, beside = (error_count(found, gold[:20]) for found in (ibm2.align(pairs[:20]), every[:20]))
    assert alone > 3 * beside


def error_count(found: list, gold: list) -> int:
    return sum(len(one ^ other) for one, other in zip(found, gold, strict=True))


def test_the_tension_stiffens_where_words_stand_in_order():
    straight = [([f"s{i}" for i in range(6)], [f"t{i}" for i in range(6)])] * 20
    rng = random.Random(1)
    shuffled = [(source, rng.sample(target, 6)) for source, target in straight]
    tensions = [ibm2.train(ibm2.read_corpus(pairs))[1] for pairs in (straight, shuffled)]
    assert tensions[0] > tensions[1] + 1


def test_an_empty_side_aligns_to_nothing():
    assert ibm2.align([(["a"], []), (["a"], ["x"]), ([], ["x"])])[0] == frozenset()


def test_grow_diag_final_and_by_hand():
    one, other = frozenset({(0, 0), (1, 1), (3, 3)}), frozenset({(0, 0), (1, 0), (4, 5)})
    # (1, 0) and (1, 1) are neighbours of (0, 0); (3, 3) and (4, 5) join words that are free
    assert ibm2.grow_diag_final_and(one, other) == {(0, 0), (1, 0), (1, 1), (3, 3), (4, 5)}
    assert ibm2.grow_diag_final_and(frozenset({(0, 0)}), frozenset({(5, 0)})) == {(0, 0)}
    both = {(0, 0), (1, 3)}  # (1, 1) touches (0, 0) at a corner alone, and its first word is linked already
    assert ibm2.grow_diag_final_and(frozenset(both | {(1, 1)}), frozenset(both)) == both | {(1, 1)}


@pytest.mark.parametrize("language", ["de", "fr"])
def test_it_beats_the_diagonal_on_five_hundred_real_pairs(mirror, language):
    pairs = word_alignment.read_folder(mirror / ARCHIVE, language)
    text = [(one.split(), other.split()) for one, other in zip(pairs.first, pairs.second, strict=True)]
    found = error_rate(pairs.gold, ibm2.align(text))
    assert found < error_rate(pairs.gold, diagonal(pairs.gold)) - 25
