import json
import random
import re
import string

import pytest

from common.errors import UserError
from engine import answers
from engine.answers import Question, mlqa_tokens, squad_tokens, token_f1
from tasks import mlqa, squad, tydiqa, xquad
from tasks.said import check_language

GITHUB = "raw.githubusercontent.com"
MOCK = f"{GITHUB}/google-research/xtreme/master/mock_test_data"


@pytest.mark.parametrize(
    ("module", "exact", "f1"),
    [
        (xquad, 77.27272727272727, 79.9586776859504),
        (mlqa, 57.142857142857146, 81.76870748299321),
        (tydiqa, 88.88888888888889, 97.22222222222223),
    ],
)
def test_xtreme_mock_data_score_what_xtreme_asserts(mirror, module, exact, f1):
    name = module.__name__.rpartition(".")[2]
    found = {"f1": [], "exact-match": []}
    for path in sorted((mirror / MOCK / "labels" / name).glob("test-*.json")):
        gold = module.read_gold(path, path.stem.removeprefix("test-"))
        predictions = module.read_predictions(mirror / MOCK / "predictions" / name / path.name, gold)
        right = {question.id: question.answers[-1] for question in gold}
        for metric, values in found.items():
            values.append(module.METRICS[metric].measure(gold, predictions))
            assert module.METRICS[metric].measure(gold, right) == 100
    means = {metric: sum(values) / len(values) for metric, values in found.items()}
    assert means == {"f1": pytest.approx(f1, abs=1e-9), "exact-match": pytest.approx(exact, abs=1e-9)}


@pytest.mark.parametrize(
    ("language", "exact", "first5", "first5_mlqa", "noisy", "noisy_mlqa"),
    [
        ("ar", 0.0840, 5.1650, 5.9161, 79.9110, 68.1882),
        ("de", 0.0840, 4.6967, 4.3096, 78.1630, 64.2977),
        ("en", 0.0840, 5.4413, 5.4450, 78.4761, 78.4744),
        ("es", 0.3361, 7.3071, 6.7908, 80.5661, 67.8028),
        ("ru", 0.0000, 5.1646, None, 79.3865, None),
        ("tr", 0.1681, 6.7034, None, 78.6361, None),
        ("vi", 0.0840, 6.2412, 6.3047, 83.4416, 72.6229),
        ("zh", 0.0000, 12.0814, 8.3351, 67.9633, 77.5778),
    ],
)
def test_xquad_scores_what_the_official_scripts_give(mirror, language, exact, first5, first5_mlqa, noisy, noisy_mlqa):
    gold = xquad.read_gold(mirror / GITHUB / f"google-deepmind/xquad/master/xquad.{language}.json", language)
    assert len(gold) == 1190
    words = answers.first_words(gold)
    wrapped = {question.id: f"the {question.answers[0]} x" for question in gold}
    assert round(answers.squad_exact_match(gold, words), 4) == exact
    assert round(answers.squad_f1(gold, words), 4) == first5
    assert round(answers.squad_f1(gold, wrapped), 4) == noisy and answers.squad_exact_match(gold, wrapped) == 0
    assert answers.first_words_chance(answers.squad_f1, gold) == answers.squad_f1(gold, words)
    if first5_mlqa is not None:
        assert round(answers.mlqa_f1(gold, words), 4) == first5_mlqa
        assert round(answers.mlqa_f1(gold, wrapped), 4) == noisy_mlqa


@pytest.mark.parametrize(
    ("language", "text", "by_mlqa", "by_squad"),
    [
        ("en", "The Eiffel-Tower, a tower!", "eiffeltower tower", "eiffeltower tower"),
        ("es", "La casa de los niños.", "casa de niños", "la casa de los niños"),
        ("de", "Der Hund des Königs", "hund königs", "der hund des königs"),
        ("vi", "của những người", "người", "của những người"),
        ("hi", "राम का घर।", "राम का घर", "राम का घर।"),
        ("ar", "الكتاب والقلم", "كتاب و قلم", "الكتاب والقلم"),
        ("zh", "北京2008年奥运会（夏季）", "北 京 2008 年 奥 运 会 夏 季", "北京2008年奥运会（夏季）"),
    ],
)
def test_what_is_punctuation_an_article_and_a_token(language, text, by_mlqa, by_squad):
    assert " ".join(mlqa_tokens(language)(text)) == by_mlqa
    assert " ".join(squad_tokens(text)) == by_squad


def official_squad_f1(prediction: str, gold: str) -> float:
    """By the words of the published definition, written apart from ours."""

    def normalise(text: str) -> list[str]:
        text = text.lower().translate({ord(mark): None for mark in string.punctuation})
        return re.sub(r"\b(?:a|an|the)\b", " ", text).split()

    one, other = normalise(prediction), normalise(gold)
    left, common = list(other), 0
    for token in one:
        if token in left:
            left.remove(token)
            common += 1
    if common == 0:
        return 0.0
    return 2 * (common / len(one)) * (common / len(other)) / (common / len(one) + common / len(other))


def test_f1_is_the_published_one_on_thousands_of_corruptions():
    rng = random.Random(5)
    words = ["the", "a", "An", "cat", "cat,", "dog", "dog-house", "2,001", "(x)", "thé", "über", "."]
    for _ in range(3000):
        gold, found = (" ".join(rng.choices(words, k=rng.randint(0, 6))) for _ in range(2))
        question = Question("1", "?", gold, "en", (gold,), (0,))
        ours = answers.squad_f1([question], {"1": found})
        assert ours == pytest.approx(100 * official_squad_f1(found, gold), abs=1e-9), (gold, found)


def test_the_best_of_several_answers_counts_and_a_missing_one_is_wrong():
    questions = [
        Question("1", "?", "red car. blue car", "en", ("red car", "blue car"), (0, 9)),
        Question("2", "?", "tree", "en", ("tree",), (0,)),
    ]
    assert answers.squad_f1(questions, {"1": "blue car", "2": "tree"}) == 100
    assert answers.squad_exact_match(questions, {"1": "Blue car!"}) == 50
    assert token_f1([], []) == 0


def test_excerpts_are_read_in_their_upstream_layout(mirror):
    gold = {"gold": mirror / "excerpts/dl.fbaipublicfiles.com/MLQA/MLQA_V1.zip"}
    for read in (mlqa.read_dev, mlqa.read_test):
        assert read(gold, ["en"], {})["en"][0].language == "en"
    with pytest.raises(UserError, match=r"no member MLQA_V1/test/test-context-de-question-de\.json"):
        mlqa.read_test(gold, ["de"], {})
    goldp = mirror / "excerpts/storage.googleapis.com/tydiqa/v1.1/tydiqa-goldp-v1.1-dev.json"
    assert tydiqa.read_test({"test": goldp}, ["ar"], {})["ar"][0].id.startswith("arabic-")
    with pytest.raises(UserError, match="no question whose id begins with korean-"):
        tydiqa.read_test({"test": goldp}, ["ko"], {})
    train = mirror / f"excerpts/{GITHUB}/rajpurkar/SQuAD-explorer/master/dataset/train-v1.1.json"
    with pytest.raises(UserError, match="the answer 'This is a test text' is not at character 1"):
        xquad.read_train({"train-en": train}, ["en"], {})  # the excerpt's made-up row is wrong


def test_english_of_tydiqa_is_cut_into_training_and_dev(tmp_path):
    qas = [{"id": f"{name}-{i}", "question": "?", "answers": [{"text": "a", "answer_start": 0}]}
           for i in range(20) for name in ("english", "finnish")]  # fmt: skip
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "a", "qas": qas}]}]}))
    train = tydiqa.read_train({"train-en": path}, ["en"], {"en": 20})["en"]
    dev = tydiqa.read_dev({"dev-en": path}, ["en"], {})["en"]
    assert [question.id for question in train + dev] == [f"english-{i}" for i in range(20)] and len(dev) == 2
    with pytest.raises(UserError, match="20 rows where the upstream file has 3696"):
        tydiqa.read_train({"train-en": path}, ["en"], {"en": 3696})
    with pytest.raises(UserError, match="a dev part is there for English alone, not for fi"):
        tydiqa.read_dev({"dev-en": path}, ["fi"], {})
    finnish = tydiqa.read_train({"dev-en": path, "train-fi": path}, ["fi"], {})["fi"]
    assert not {one.id for one in finnish} & {one.id for one in dev}  # nor is what is dev in English learnt in Finnish
    assert {one.id for one in finnish} > {one.id for one in train}


def squad_json(**changes: object) -> dict:
    item = {"id": "q1", "question": "?", "answers": [{"text": "cat", "answer_start": 4}]} | changes
    return {"data": [{"paragraphs": [{"context": "the cat", "qas": [item]}]}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(squad_json(answers=[{"text": "dog", "answer_start": 4}])), "id q1: the answer 'dog' is not at"),
        (json.dumps(squad_json(answers=[{"text": "cat", "answer_start": 3}])), "'cat' is not at character 3"),
        (json.dumps(squad_json(answers=[])), "id q1: no answer"),
        (json.dumps({"data": squad_json()["data"] * 2}), "id q1: stands twice"),
        ('{"data": []}', "no question"),
        ("[1]", "no 'data'; this is not in SQuAD's format"),
        ('{"data": ["a"]}', "article 1: no 'paragraphs'"),
        ('{"data": [{"paragraphs": null}]}', "article 1, 'paragraphs': None is not of the right type"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "article 1, paragraph 1: no 'context'"),
        ('{"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}', "paragraph 1, 'context': 3 is not of the right"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "paragraph 1: no 'qas'"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": ["b"]}]}]}', "paragraph 1: no 'id'"),
        (json.dumps(squad_json(question=None)), "id q1, 'question': None is not"),
        (json.dumps(squad_json(answers=None)), "id q1, 'answers': None is not"),
        (json.dumps(squad_json(answers=[{"text": "cat", "answer_start": "4"}])), "'answer_start': '4' is not"),
        (json.dumps(squad_json(answers=[{"text": "cat", "answer_start": 4.0}])), "'answer_start': 4.0 is not"),
        (json.dumps(squad_json(answers=[{"text": None, "answer_start": 4}])), "'text': None is not"),
        (json.dumps(squad_json(answers=[{"text": "cat", "answer_start": -3}])), "'cat' is not at character -3"),
        (json.dumps(squad_json(answers=[{"text": " ", "answer_start": 3}])), "' ' is not at character 3"),
        ('{"data": [', "line 1: not JSON"),
        (" ", "the file is empty"),
        ('{"data": [], "data": []}', "key 'data' stands twice"),
        (json.dumps(squad_json(answers=[{"text": "cat"}])), "id q1: no 'answer_start'"),
    ],
)
def test_bad_gold_is_named(tmp_path, content, message):
    path = tmp_path / "gold.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        xquad.read_gold(path, "en")


def test_misplaced_answers_of_a_machine_translation_are_left_out_unless_they_are_many(tmp_path):
    item = {"question": "?", "answers": [{"text": "cat", "answer_start": 4}]}
    qas = [{"id": str(i), **item} for i in range(39)]
    qas.append({"id": "39", "question": "?", "answers": [{"text": "cat", "answer_start": 0}]})
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "the cat", "qas": qas}]}]}))
    assert len(xquad.read_train({"train-de": path}, ["de"], {})["de"]) == 39
    with pytest.raises(UserError, match="id 39: the answer 'cat' is not at character 0"):
        xquad.read_train({"train-en": path}, ["en"], {})
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "the cat", "qas": qas[-10:]}]}]}))
    with pytest.raises(UserError, match="1 of 10 answers are not in their contexts"):
        xquad.read_train({"train-de": path}, ["de"], {})


def test_the_language_of_a_file_by_hand_is_that_of_its_context(tmp_path):
    item = {"id": "1", "question": "?", "answers": [{"text": "Hund", "answer_start": 4}]}
    for name in ("gold.json", "test-context-de-question-en.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "Der Hund", "qas": [item]}]}]}))
        [question] = mlqa.read_gold(path, "de-en")
        assert question.language == "de" and answers.mlqa_f1([question], {"1": "Der Hund"}) == 100
    for language, message in (("en-de", "a file of de-en by its name"), ("German", "write one of en, es, de")):
        with pytest.raises(UserError, match=message):
            check_language("mlqa", language, path, "predictions")


def test_bad_predictions_are_named(tmp_path, capsys):
    gold = squad.parse_squad(json.dumps(squad_json()).encode(), "gold", "en")
    path = tmp_path / "test-en.json"
    for text, message in (
        ('{"q2": "cat"}', "id q2: no question of the gold file"),
        ('{"q1": 3}', "must be one JSON object"),
        ('{"q1": "a", "q1": "b"}', "key 'q1' stands twice"),
        ('{"q1": "ä"'.encode("latin-1"), "not UTF-8"),
    ):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(UserError, match=message):
            squad.read_predictions(path, gold)
    squad.write_predictions(path, {"q1": "cat"})
    assert squad.read_predictions(path, gold) == {"q1": "cat"} and not capsys.readouterr().err
    squad.write_predictions(path, {})
    assert squad.read_predictions(path, gold) == {}
    assert capsys.readouterr().err == f"{path}: no answer to 1 of 1 questions: each counts as wrong\n"
