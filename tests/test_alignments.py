import numpy as np
import pytest

from archives import WHOLE, write_tar
from common.errors import UserError
from engine.alignments import (
    Alignment,
    counts,
    diagonal,
    diagonal_chance,
    error_rate,
    precision,
    recall,
)
from engine.transport import transport, transport_links, word_links
from tasks import word_alignment

ARCHIVE = "raw.githubusercontent.com/CZWin32768/XLM-Align/main/word_aligner/alignment-test-sets.tar.gz"


@pytest.mark.parametrize(
    ("language", "expected", "rates"),
    [
        ("de", (9419, 9613, 1683, 1811), (19.2271, 17.5075, 81.6414)),
        ("fr", (6756, 4038, 912, 2472), (36.5897, 22.5854, 68.6492)),
    ],
)
def test_the_diagonal_scores_what_the_reference_gives(mirror, tmp_path, language, expected, rates):
    gold = word_alignment.read_gold(mirror / ARCHIVE, language)
    found = diagonal(gold)
    assert counts(gold, found) == expected
    assert tuple(round(rate(gold, found), 4) for rate in (precision, recall, error_rate)) == rates
    assert diagonal_chance(error_rate, gold) == error_rate(gold, found)
    assert error_rate(gold, [own.sure for own in gold]) == 0
    assert {"de": 508, "fr": 447}[language] == len(gold)
    sure, possible = (sum(len(getattr(own, kind)) for own in gold) for kind in ("sure", "possible"))
    assert (sure, possible) == {"de": (9613, 10534), "fr": (4038, 17438)}[language]
    word_alignment.write_predictions(tmp_path / "found", found)
    assert word_alignment.read_predictions(tmp_path / "found", gold) == found


def test_by_hand():
    gold = [Alignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}), (2, 3))]
    found = [frozenset({(0, 0), (1, 1), (1, 2)})]
    assert error_rate(gold, found) == pytest.approx(100 * (1 - (1 + 2) / (3 + 1)))
    assert precision(gold, found) == pytest.approx(200 / 3) and recall(gold, found) == 100


def archive(path, files: dict[str, str]):
    return {"gold": write_tar(path, files, "alignment-test-sets/de-en/")}


def test_links_go_by_the_first_appearance_of_their_sentence(tmp_path):
    found = word_alignment.read_test(archive(tmp_path / "a.tar.gz", WHOLE), ["de"], {"de": 2})["de"]
    assert found.gold[0] == Alignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}), (2, 1))
    assert found.gold[1] == Alignment(frozenset({(0, 1)}), frozenset({(0, 1)}), (1, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alignv2.txt": "1 1 x S\n"}, r"alignv2\.txt, line 1: not `id source target"),
        ({"alignv2.txt": "1 1 1 Q\n"}, r"alignv2\.txt, line 1: not `id source target"),
        ({"alignv2.txt": "1 1 1\n"}, r"links of 1 sentence pairs, but there are 2"),
        ({"test.en": "x\n"}, r"2 sentences in test\.de, 1 in test\.en"),
        ({"test.de": ""}, r"test\.de: the file is empty"),
    ],
)
def test_bad_gold_is_named(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        word_alignment.read_test(archive(tmp_path / "a.tar.gz", WHOLE | changes), ["de"], {})


def test_bad_predictions_are_named(tmp_path):
    gold = word_alignment.read_gold(archive(tmp_path / "a.tar.gz", WHOLE)["gold"], "de")
    for text, message in (
        ("0-0\n", "1 lines for 2 sentence pairs"),
        ("0-0\n0:1\n", "line 2: '0:1' is not a link"),
        ("0-1\n0-1\n", "line 1: 0-1 is beyond the sentences, of 2 and 1 words"),
    ):
        (tmp_path / "found").write_text(text)
        with pytest.raises(UserError, match=message):
            word_alignment.read_predictions(tmp_path / "found", gold)
    with pytest.raises(UserError, match="'el' has no gold alignment; use de, fr, hi, ro"):
        word_alignment.read_gold(tmp_path / "a.tar.gz", "el")


def test_transport_of_the_worked_example():
    similarity = np.array([[5, 4, 1], [6, 5.5, 1], [1, 2, 0.5]])
    assert transport_links(similarity, 0) == transport_links(similarity, 1) == {(1, 0)}
    assert transport_links(similarity) == {(1, 0), (2, 2)}
    pi, xi = transport(similarity)
    expected = [[0.393126, 0.288767, 0.318107], [0.397460, 0.334527, 0.268012], [0.205791, 0.377905, 0.416303]]
    assert np.allclose(pi, expected, atol=5e-7)
    expected = [[0.396317, 0.291111, 0.320690], [0.401818, 0.338195, 0.270951], [0.201864, 0.370694, 0.408359]]
    assert np.allclose(xi, expected, atol=5e-7)
    assert transport_links(np.array([[0.9, -0.5], [-0.2, 0.8]])) == {(0, 0)}


def test_two_words_are_linked_if_any_of_their_pieces_are():
    assert word_links(frozenset({(0, 1), (1, 1), (2, 0)}), [0, 0, 1], [0, 1]) == {(0, 1), (1, 0)}
