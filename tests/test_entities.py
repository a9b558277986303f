import random
import zipfile
from collections import Counter, defaultdict

import pytest

from archives import write_tar
from common.errors import UserError
from engine.metrics import flatten, shuffled_tags, span_f1, spans
from tasks import conll, panx
from tasks.entities import decode_latin, to_iob2
from tasks.files import read_lines

GITHUB = "raw.githubusercontent.com"
MOCK = f"{GITHUB}/google-research/xtreme/master/mock_test_data"
WIKIANN = f"{GITHUB}/davidsbatista/NER-datasets/master"
CONLL = f"{GITHUB}/teropa/nlp/master/resources/corpora/conll2002"


def unigram_tags(train, test):
    """Most frequent tag of each form; of equals the first in the alphabet; O for what was not seen."""
    counts = defaultdict(Counter)
    for tokens, tags in train:
        for token, tag in zip(tokens, tags, strict=True):
            counts[token][tag] += 1
    best = {token: min(of, key=lambda tag: (-of[tag], tag)) for token, of in counts.items()}
    return [tuple(best.get(token, "O") for token in tokens) for tokens, _ in test]


def facts(sentences):
    found = Counter(kind for _, tags in sentences for kind, _, _ in spans(tags))
    return len(sentences), sum(len(tokens) for tokens, _ in sentences), found


def test_xtreme_mock_data_score_what_xtreme_asserts(mirror):
    scores = []
    for gold_path in sorted((mirror / MOCK / "labels/panx").glob("test-*.tsv")):
        gold = panx.read_gold(gold_path, "any")
        scores.append(span_f1(gold, panx.read_predictions(mirror / MOCK / "predictions/panx" / gold_path.name, gold)))
        assert span_f1(gold, gold) == 100
    assert len(scores) == 40 and sum(scores) / len(scores) == pytest.approx(57.50793650793652, abs=1e-12)


@pytest.fixture(scope="module")
def english_wikiann(mirror):
    path = mirror / WIKIANN / "WikiANN/en/train"
    return panx.parse_panx(read_lines(path), str(path), "en")


@pytest.mark.parametrize(
    ("folder", "tokens", "loc", "org", "per", "f1"),
    [
        ("WikiANN/en", 80326, 4657, 4745, 4556, 15.9314),
        ("WikiANN/de", 97646, 4961, 4157, 4750, 9.8753),
        ("WikiANN/fr", 68754, 4985, 3885, 4499, 9.7893),
        ("WikiANN/nl", 85122, 5133, 3908, 4684, 13.4142),
        ("Portuguese/WikiANN", 63647, 4779, 3753, 4291, 10.8823),
    ],
)
def test_wikiann_is_read_and_scored_as_the_reference(mirror, english_wikiann, folder, tokens, loc, org, per, f1):
    path = mirror / WIKIANN / folder / "test"
    language = {"Portuguese/WikiANN": "pt"}.get(folder, folder[-2:])
    test = panx.parse_panx(read_lines(path), str(path), language)
    assert facts(test) == (10000, tokens, Counter(LOC=loc, ORG=org, PER=per))
    gold = panx.read_gold(path, language)
    assert round(span_f1(gold, unigram_tags(english_wikiann, test)), 4) == f1


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "loc", "misc", "org", "per", "f1"),
    [
        ("esp.train", 8323, 264715, 4914, 2173, 7390, 4321, 64.5111),
        ("esp.testa", 1915, 52923, 985, 445, 1700, 1222, 43.4480),
        ("esp.testb", 1517, 51533, 1084, 340, 1400, 735, 51.4168),
        ("ned.train", 15806, 202644, 3208, 3338, 2082, 4716, 77.5028),
        ("ned.testa", 2895, 37687, 479, 748, 686, 703, 42.8064),
        ("ned.testb", 5195, 68875, 774, 1187, 882, 1098, 46.8130),
    ],
)
def test_conll_2002_is_read_and_scored_as_the_reference(mirror, name, sentences, tokens, loc, misc, org, per, f1):
    language = name.partition(".")[0]
    paths = {f"{split}-{language}": mirror / CONLL / f"{language}.{part}" for split, part in
             (("train", "train"), ("dev", "testa"), ("test", "testb"))}  # fmt: skip
    train = conll.read_train(paths, [language], {})[language]
    split = {"train": conll.read_train, "testa": conll.read_dev, "testb": conll.read_test}[name.partition(".")[2]]
    test = split(paths, [language], {language: sentences})[language]
    assert facts(test) == (sentences, tokens, Counter(LOC=loc, MISC=misc, ORG=org, PER=per))
    assert round(span_f1(conll.gold_of(test), unigram_tags(train, test)), 4) == f1


def test_excerpts_of_the_archives_are_read(mirror):
    path = mirror / "excerpts/s3.amazonaws.com/datasets.huggingface.co/wikiann/1.1.0/panx_dataset.zip"
    for read in (panx.read_train, panx.read_dev, panx.read_test):
        found = read({"gold": path}, ["af", "zh", "en"], {})
        assert list(found) == ["af", "zh", "en"] and all(found.values())
    english = conll.read_test({"test-en": mirror / "excerpts/data.deepai.org/conll2003.zip"}, ["en"], {})["en"]
    assert english and any(tag.startswith("B-") for tag in flatten(conll.gold_of(english)))


def test_spans_are_those_of_seqeval_on_thousands_of_corruptions():
    from seqeval.metrics import f1_score
    from seqeval.metrics.sequence_labeling import get_entities

    rng = random.Random(7)
    for _ in range(300):
        gold = [[rng.choice(conll.LABELS) for _ in range(rng.randint(1, 9))] for _ in range(10)]
        tags = [[tag if rng.random() < 0.7 else rng.choice(conll.LABELS) for tag in own] for own in gold]
        for own in (*gold, *tags):
            assert spans(own) == {tuple(entity) for entity in get_entities(own)}, own
        assert span_f1(gold, tags) == pytest.approx(100 * f1_score(gold, tags), abs=1e-9)


def test_iob1_becomes_iob2():
    assert to_iob2(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"]) == (
        "B-PER", "I-PER", "B-PER", "O", "B-LOC", "B-ORG"
    )  # fmt: skip
    already = ("B-PER", "I-PER", "B-PER", "O", "B-LOC")
    assert to_iob2(already) == already


def test_chance_of_entities_is_low():
    gold = [("B-PER", "I-PER", "O", "O")] * 400
    assert 0 < shuffled_tags(span_f1, gold) < 40


def panx_zip(path, files: dict[str, str]):
    with zipfile.ZipFile(path, "w") as archive:
        inner = write_tar(path.with_name("inner.tar.gz"), files)
        archive.writestr("de.tar.gz", inner.read_bytes())
    return path


def test_only_the_first_colon_ends_the_language(tmp_path):
    path = panx_zip(tmp_path / "panx_dataset.zip", {"test": "de::\tO\nde:a:b\tB-LOC\n\nde:c\tO\n"})
    [first, second] = panx.read_test({"gold": path}, ["de"], {"de": 2})["de"]
    assert first.tokens == (":", "a:b") and second.tokens == ("c",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("de:a\tB-DOG\n", r"de\.tar\.gz, test, line 1: unknown label 'B-DOG'; use B-LOC"),
        ("de:a\tO\nde:b\n", r"test, line 2: 1 columns instead of 2"),
        ("de:a\tB-LOC\nb\tO\n", r"test, token 2: 'b' has no language before a colon"),
        ("de:a\tO\n", r"test: 1 sentences without an entity"),
        ("  \n", r"test: the file is empty"),
    ],
)
def test_bad_panx_is_named(tmp_path, text, message):
    path = panx_zip(tmp_path / "panx_dataset.zip", {"test": text})
    with pytest.raises(UserError, match=message):
        panx.read_test({"gold": path}, ["de"], {})


def test_a_missing_language_split_and_row_are_named(tmp_path):
    path = panx_zip(tmp_path / "panx_dataset.zip", {"test": "de:a\tB-LOC\n"})
    with pytest.raises(UserError, match=r"fr\.tar\.gz"):
        panx.read_test({"gold": path}, ["fr"], {})
    with pytest.raises(UserError, match=r"de\.tar\.gz, dev: no such member"):
        panx.read_dev({"gold": path}, ["de"], {})
    with pytest.raises(UserError, match="1 rows where the upstream file has 3"):
        panx.read_test({"gold": path}, ["de"], {"de": 3})
    with pytest.raises(UserError, match="no test-de"):
        conll.read_test({"test-en": path}, ["de"], {})


def test_latin_1_is_read_and_a_mixture_refused():
    assert decode_latin("Köln I-LOC\n".encode("latin-1"), "f") == ["Köln I-LOC"]
    assert decode_latin("Köln I-LOC\n".encode(), "f") == ["Köln I-LOC"]
    mixed = "Köln I-LOC\n".encode() + "Köln I-LOC\n".encode("latin-1")
    with pytest.raises(UserError, match="line 2 is not UTF-8, but line 1 is"):
        decode_latin(mixed, "f")


def test_predictions_of_another_split_are_refused(tmp_path):
    gold = [("B-LOC", "O"), ("O",)]
    path = tmp_path / "test-de.tsv"
    panx.write_predictions(path, gold)
    assert panx.read_predictions(path, gold) == gold
    with pytest.raises(UserError, match="line 1, sentence 1: 2 tags for 3 gold tokens"):
        panx.read_predictions(path, [("O", "O", "O"), ("O",)])
    with pytest.raises(UserError, match="2 tagged sentences for 3 gold sentences"):
        panx.read_predictions(path, [*gold, ("O",)])
