import itertools
import random

import pytest

from archives import write_tar
from common.errors import UserError
from engine.mining import best_threshold, greedy, pair_f1
from tasks import bucc

MOCK = "raw.githubusercontent.com/google-research/xtreme/master/mock_test_data"


def test_xtreme_mock_data_score_what_xtreme_asserts(mirror):
    scores = {}
    for path in sorted((mirror / MOCK / "labels/bucc2018").glob("test-*.tsv")):
        gold = bucc.read_gold(path, path.stem.removeprefix("test-"))
        predictions = bucc.read_predictions(mirror / MOCK / "predictions/bucc2018" / path.name, gold)
        scores[path.stem.removeprefix("test-")] = pair_f1(gold, predictions)
        assert pair_f1(gold, gold) == 100 and pair_f1(gold, []) == 0
    assert scores == {"de": 50, "fr": 50, "ru": 50, "zh": 70}


def test_the_threshold_of_the_worked_example():
    found = [("a1", "b1"), ("a2", "b2"), ("a3", "b9"), ("a4", "b4"), ("a5", "b7")]
    scored = list(zip((1.30, 1.20, 1.10, 1.05, 1.01), found, strict=True))
    gold = [("a1", "b1"), ("a2", "b2"), ("a4", "b4"), ("a6", "b6")]
    threshold, f1 = best_threshold(scored, gold)
    assert threshold == pytest.approx(1.03) and f1 == pytest.approx(75)
    assert best_threshold(scored[:2], gold) == (
        pytest.approx(1.20),
        pytest.approx(200 / 3),
    )  # after the last: its score
    assert best_threshold([], gold) == (float("inf"), 0)


def test_the_threshold_is_the_best_of_all_cuts():
    rng = random.Random(3)
    for _ in range(500):
        pairs = [(f"a{i}", f"b{i}") for i in range(rng.randint(1, 12))]
        scored = [(rng.choice((0.9, 1.0, 1.1, 1.2, rng.random())), pair) for pair in pairs]
        gold = [pair for pair in pairs if rng.random() < 0.5] + [("x", "y")]
        threshold, f1 = best_threshold(scored, gold)
        kept = [pair for score, pair in scored if score >= threshold]
        assert pair_f1(gold, kept) == pytest.approx(f1)
        cuts = [pair_f1(gold, [pair for score, pair in scored if score >= cut]) for cut, _ in scored]
        assert f1 == pytest.approx(max(cuts))


def test_greedy_takes_each_sentence_once_from_the_best_down():
    rng = random.Random(4)
    for _ in range(200):
        places = rng.sample(list(itertools.product(range(5), range(5))), 12)
        candidates = [(round(rng.random(), 1), i, j) for i, j in places]
        kept = greedy(candidates)
        assert kept == sorted(kept, key=lambda one: (-one[0], one[1], one[2]))
        assert len({i for _, i, _ in kept}) == len(kept) == len({j for _, _, j in kept})
        for score, i, j in set(candidates) - set(kept):  # what was left out stood behind one that took its sentence
            assert any((-s, a, b) < (-score, i, j) and (a == i or b == j) for s, a, b in kept)


def archive(path, files: dict[str, str]):
    return {"test-de": write_tar(path, files, "bucc2018/de-en/de-en.training.")}


WHOLE = {"de": "de-1\teins\nde-2\tzwei\n", "en": "en-1\tone\nen-2\ttwo\n", "gold": "de-1\ten-2\n"}


def test_the_archive_is_read(tmp_path):
    paths = archive(tmp_path / "bucc2018-de-en.training-gold.tar.bz2", WHOLE)
    piles = bucc.read_test(paths, ["de"], {"de": 1})["de"]
    assert piles == ({"de-1": "eins", "de-2": "zwei"}, {"en-1": "one", "en-2": "two"}, [("de-1", "en-2")])
    assert bucc.read_gold(paths["test-de"], "de") == piles.gold
    bucc.write_predictions(tmp_path / "found", piles.gold)
    assert bucc.read_predictions(tmp_path / "found", piles.gold) == piles.gold
    bucc.write_predictions(tmp_path / "none", [])
    assert bucc.read_predictions(tmp_path / "none", piles.gold) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"gold": "de-1\ten-3\n"},
            r"de-en\.training\.gold, line 1: id en-3 is not in bucc2018/de-en/de-en\.training\.en",
        ),
        ({"gold": "de-1 en-2\n"}, "gold, line 1: not `foreign id<TAB>English id`"),
        ({"gold": "de-1\ten-2\nde-1\ten-2\n"}, "gold, line 2: the pair is already on line 1"),
        ({"de": "de-1\teins\nde-1\tzwei\n"}, r"training\.de, line 2: id de-1 stands twice"),
        ({"de": "de-1 eins\n"}, r"training\.de, line 1: not `id<TAB>sentence`"),
        ({"en": ""}, r"training\.en: the file is empty"),
    ],
)
def test_bad_piles_are_named(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        bucc.read_test(archive(tmp_path / "a.tar.bz2", WHOLE | changes), ["de"], {})


def test_missing_members_and_rows_are_named(tmp_path):
    paths = archive(tmp_path / "a.tar.bz2", {"de": WHOLE["de"]})
    with pytest.raises(UserError, match=r"no member bucc2018/de-en/de-en\.training\.en"):
        bucc.read_test(paths, ["de"], {})
    paths = archive(tmp_path / "b.tar.bz2", WHOLE)
    with pytest.raises(UserError, match="1 rows where the upstream file has 9580"):
        bucc.read_test(paths, ["de"], {"de": 9580})
