import pytest

from archives import write_tar
from common.errors import UserError
from engine.metrics import accuracy
from tasks import pawsx

MOCK = "raw.githubusercontent.com/google-research/xtreme/master/mock_test_data"
HEADER = "id\tsentence1\tsentence2\tlabel\n"


def archive(path, files: dict[str, str]):
    return {"gold": write_tar(path, files, "x-final/")}


def test_xtreme_mock_data_score_what_xtreme_asserts(mirror):
    scores = {}
    for gold_path in sorted((mirror / MOCK / "labels/pawsx").glob("test-*.tsv")):
        gold = pawsx.read_gold(gold_path, "any")
        predictions = pawsx.read_predictions(mirror / MOCK / "predictions/pawsx" / gold_path.name, gold)
        scores[gold_path.stem.removeprefix("test-")] = accuracy(gold, predictions)
        assert accuracy(gold, gold) == 100
    assert scores == {"de": 50, "en": 40, "es": 50, "fr": 60, "ja": 60, "ko": 60, "zh": 40}


def test_the_excerpt_of_the_archive_is_read(mirror):
    paths = {"gold": mirror / "excerpts/storage.googleapis.com/paws/pawsx/x-final.tar.gz"}
    languages = ["en", "de", "zh", "ko"]
    for read in (pawsx.read_dev, pawsx.read_test):
        found = read(paths, languages, {})
        assert list(found) == languages and all(found.values())
    gold = pawsx.read_gold(paths["gold"], "de")
    assert gold == pawsx.gold_of(pawsx.read_test(paths, ["de"], {})["de"])


def test_quotes_and_placeholders_stay_as_they_are(tmp_path):
    rows = '1\tsays "a\tb" too\t1\n2\tNS\tNS\t0\n'
    paths = archive(tmp_path / "x-final.tar.gz", {"de/test_2k.tsv": HEADER + rows})
    [first, second] = pawsx.read_test(paths, ["de"], {"de": 2})["de"]
    assert first == ('says "a', 'b" too', "1") and second == ("NS", "NS", "0")


def test_translations_may_be_empty_and_originals_may_not(tmp_path):
    rows = "1\ta\t\t1\n2\tc\td\t0\n"
    paths = archive(
        tmp_path / "x-final.tar.gz", {"de/translated_train.tsv": HEADER + rows, "en/train.tsv": HEADER + rows}
    )
    assert pawsx.read_train(paths, ["de"], {})["de"][0].hypothesis == ""
    with pytest.raises(UserError, match=r"en/train\.tsv, line 2, id 1: an empty sentence"):
        pawsx.read_train(paths, ["en"], {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\ta\tb\n", r"de/test_2k\.tsv, line 1: not the header"),
        (HEADER + "1\ta\tb\n", r"test_2k\.tsv, line 2: 3 columns instead of 4"),
        (HEADER + "1\ta\tb\t2\n", r"line 2, id 1: unknown label '2'; use 0, 1"),
        (HEADER + "1\ta\tb\t1\n1\tc\td\t0\n", r"line 3: id 1 is already on line 2"),
        ("", r"test_2k\.tsv: the file is empty"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        pawsx.read_test(archive(tmp_path / "x-final.tar.gz", {"de/test_2k.tsv": text}), ["de"], {})


def test_missing_members_rows_and_predictions_are_named(tmp_path):
    rows = HEADER + "1\ta\tb\t1\n2\tc\td\t0\n"
    paths = archive(tmp_path / "x-final.tar.gz", {"de/test_2k.tsv": rows})
    with pytest.raises(UserError, match=r"no member x-final/fr/test_2k\.tsv"):
        pawsx.read_test(paths, ["fr"], {})
    with pytest.raises(UserError, match="2 rows where the upstream file has 2000"):
        pawsx.read_test(paths, ["de"], {"de": 2000})
    one = archive(tmp_path / "one.tar.gz", {"en/train.tsv": HEADER + "1\ta\tb\t1\n2\tc\td\t1\n"})
    with pytest.raises(UserError, match=r"en/train\.tsv: 2 rows with fewer than two labels"):
        pawsx.read_train(one, ["en"], {})
    (tmp_path / "predictions").write_text("1\n")
    with pytest.raises(UserError, match="1 predictions for 2 gold rows"):
        pawsx.read_predictions(tmp_path / "predictions", ["1", "0"])


def test_a_header_alone_is_no_data():
    with pytest.raises(UserError, match="f: a header and no rows"):
        pawsx.parse_pawsx(["id\tsentence1\tsentence2\tlabel"], "f")
