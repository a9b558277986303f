import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from engine.metrics import accuracy, flatten, majority, run_f1, runs, shuffled_tags
from engine.retrieval import nearest
from tasks import tatoeba, ud_pos, xnli
from tasks.conllu import TAGS, parse_conllu
from tasks.files import read_lines

GITHUB = "raw.githubusercontent.com"
MOCK = f"{GITHUB}/google-research/xtreme/master/mock_test_data"


def mock_files(mirror: Path, task: str):
    for gold in sorted((mirror / MOCK / "labels" / task).glob("test-*.tsv")):
        yield gold, mirror / MOCK / "predictions" / task / gold.name


@pytest.mark.parametrize(
    ("module", "folder", "metric", "expected"),
    [
        (xnli, "xnli", accuracy, 30.666666666666668),
        (tatoeba, "tatoeba", accuracy, 53.611111111111114),
        (ud_pos, "udpos", run_f1, 70.21746048354693),
    ],
)
def test_xtreme_mock_data_score_what_xtreme_asserts(mirror, module, folder, metric, expected):
    scores = []
    for gold_path, predictions_path in mock_files(mirror, folder):
        gold = module.read_gold(gold_path, "any")
        scores.append(metric(gold, module.read_predictions(predictions_path, gold)))
        assert metric(gold, gold) == 100
    assert sum(scores) / len(scores) == pytest.approx(expected, abs=1e-12)


def test_pos_accuracy_on_the_mock_data(mirror):
    scores = []
    for gold_path, predictions_path in mock_files(mirror, "udpos"):
        gold = ud_pos.read_gold(gold_path, "any")
        scores.append(accuracy(flatten(gold), flatten(ud_pos.read_predictions(predictions_path, gold))))
    assert sum(scores) / len(scores) == pytest.approx(74.194, abs=5e-4)


def treebank(mirror: Path, name: str):
    (path,) = (mirror / GITHUB / "UniversalDependencies").glob(f"*/r2.5/{name}.conllu")
    return parse_conllu(read_lines(path), path.name, name.split("_")[0])


@pytest.fixture(scope="module")
def unigram(mirror):
    """Most frequent tag of each form in the training part of en_partut; of equals the first in the alphabet."""
    counts = defaultdict(Counter)
    for tokens, tags in treebank(mirror, "en_partut-ud-train"):
        for token, tag in zip(tokens, tags, strict=True):
            counts[token][tag] += 1
    return {token: min(of, key=lambda tag: (-of[tag], tag)) for token, of in counts.items()}


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "f1", "token_accuracy"),
    [
        ("ar_pud-ud-test", 1000, 20751, 19.4793, 38.2536),
        ("de_gsd-ud-test", 977, 16224, 23.1346, 34.6339),
        ("en_ewt-ud-test", 2077, 25096, 72.2791, 74.0596),
        ("en_partut-ud-test", 153, 3404, 87.2113, 88.8073),
        ("fr_sequoia-ud-test", 456, 9738, 38.4965, 45.7692),
        ("mr_ufal-ud-test", 47, 376, 30.2277, 44.6809),
        ("ru_gsd-ud-test", 601, 11385, 24.2066, 42.7404),
        ("ta_ttb-ud-test", 120, 1772, 20.9611, 41.0271),
        ("tr_imst-ud-test", 983, 9797, 31.0851, 46.4428),
        ("vi_vtb-ud-test", 800, 11955, 26.8966, 47.0765),
        ("zh_gsd-ud-test", 500, 12012, 5.6139, 29.8035),
    ],
)
def test_unigram_tagger_scores_what_the_reference_scorer_gives(
    mirror, unigram, name, sentences, tokens, f1, token_accuracy
):
    test = treebank(mirror, name)
    gold = [sentence.tags for sentence in test]
    tagged = [[unigram.get(token, "NOUN") for token in sentence.tokens] for sentence in test]
    assert (len(test), len(flatten(gold))) == (sentences, tokens)
    assert round(run_f1(gold, tagged), 4) == f1
    assert round(accuracy(flatten(gold), flatten(tagged)), 4) == token_accuracy


def test_runs_by_hand():
    tags = ["DET", "NOUN", "NOUN", "SYM", "SYM", "SCONJ", "CCONJ", "CCONJ"]
    assert runs(tags) == {
        ("DET", 0, 0),
        ("NOUN", 1, 2),
        ("SYM", 3, 3),
        ("SYM", 4, 4),
        ("SCONJ", 5, 5),
        ("CCONJ", 6, 7),
    }
    # 6 gold runs; the prediction breaks NOUN NOUN and mistakes SCONJ: runs DET PROPN NOUN SYM SYM CCONJ(5-7); 3 right.
    predicted = ["DET", "PROPN", "NOUN", "SYM", "SYM", "CCONJ", "CCONJ", "CCONJ"]
    assert run_f1([tags], [predicted]) == pytest.approx(100 * 2 * 3 / (6 + 6))


def old_seqeval_chunks(tags):
    """seqeval 0.0.12's get_entities, restated: state machine over (prefix letter, type) with a sentinel O."""

    def end_of(previous, tag, previous_type, type_):
        if previous in "ES":
            return True
        if previous in "BI" and tag in "BSO":
            return True
        return previous not in "O." and previous_type != type_

    def start_of(previous, tag, previous_type, type_):
        if tag in "BS":
            return True
        if previous in "ESO" and tag in "EI":
            return True
        return tag not in "O." and previous_type != type_

    chunks, previous, previous_type, begin = set(), "O", "", 0
    for i, chunk in enumerate([*tags, "O"]):
        tag, type_ = chunk[0], chunk.split("-")[-1]
        if end_of(previous, tag, previous_type, type_):
            chunks.add((previous_type, begin, i - 1))
        if start_of(previous, tag, previous_type, type_):
            begin = i
        previous, previous_type = tag, type_
    return chunks


def test_runs_equal_the_state_machine_of_seqeval_on_random_tags():
    rng = random.Random(0)
    for _ in range(3000):
        tags = [rng.choice(TAGS[: rng.randint(2, len(TAGS))]) for _ in range(rng.randint(1, 12))]
        rng.shuffle(tags)
        assert runs(tags) == {chunk for chunk in old_seqeval_chunks(tags) if chunk[0]}, tags


def test_chance_levels():
    assert majority(accuracy, ["a", "a", "b", "c"]) == 50
    gold = [["NOUN", "VERB"]] * 500
    chance = shuffled_tags(run_f1, gold)
    assert chance == shuffled_tags(run_f1, gold)  # drawn from a fixed seed
    assert 20 < chance < 70
    assert run_f1(gold, gold) == 100


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError):
        accuracy(["a"], [])
    with pytest.raises(ValueError):
        run_f1([["NOUN"]], [["NOUN", "VERB"]])


def brute_nearest(queries, keys):
    cosine = torch.nn.functional.cosine_similarity(queries.double()[:, None], keys.double()[None], dim=2)
    return [min(range(len(keys)), key=lambda j: (-round(cosine[i, j].item(), 9), j)) for i in range(len(queries))]


@pytest.mark.parametrize("block", [1, 7, 16, 1024])
def test_nearest_equals_brute_force_with_ties(block):
    generator = torch.Generator().manual_seed(3)
    queries, keys = torch.randn(40, 8, generator=generator), torch.randn(33, 8, generator=generator)
    keys[20] = keys[4] * 3  # same direction: a tie that line 4 wins
    queries[11] = keys[4]
    forward, backward = nearest(queries, keys, block)
    assert forward == brute_nearest(queries, keys)
    assert backward == brute_nearest(keys, queries)
    assert forward[11] == 4


def bigrams_of(sentence: str) -> list[str]:
    return list(map("".join, pairwise(f" {sentence.strip().lower()} ")))


def bigram_vectors(sentences: list[str], vocabulary: dict[str, int]) -> torch.Tensor:
    vectors = torch.zeros(len(sentences), len(vocabulary), dtype=torch.float64)
    for row, sentence in enumerate(sentences):
        for bigram, count in Counter(bigrams_of(sentence)).items():
            vectors[row, vocabulary[bigram]] = count
    return vectors


@pytest.mark.parametrize(
    ("code", "pairs", "to_english", "from_english"),
    [
        ("cmn", 1000, 1.80, 1.80),
        ("deu", 1000, 8.90, 13.30),
        ("jav", 205, 5.85, 4.88),
        ("kaz", 575, 1.74, 1.39),
        ("mal", 687, 0.87, 1.16),
        ("spa", 1000, 11.60, 10.80),
        ("tam", 307, 1.95, 2.28),
    ],
)
def test_tatoeba_character_bigram_baseline(mirror, code, pairs, to_english, from_english):
    stem = mirror / GITHUB / f"facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.{code}-eng"
    foreign, english = tatoeba.read_pair(f"{stem}.{code}", f"{stem}.eng")
    assert len(foreign) == pairs
    bigrams = {bigram for sentence in foreign + english for bigram in bigrams_of(sentence)}
    vocabulary = {bigram: i for i, bigram in enumerate(sorted(bigrams))}
    forward, backward = nearest(bigram_vectors(foreign, vocabulary), bigram_vectors(english, vocabulary))
    gold = tatoeba.gold_of((foreign, english))
    assert round(accuracy(gold, forward), 2) == to_english
    assert round(accuracy(gold, backward), 2) == from_english
