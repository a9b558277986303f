"""benchmarks/near_duplicates.py and filters.py: ours beside datatrove, which is not installed; a stand-in answers."""

import json
import sys

import pytest

from beside import module_at
from common.errors import UserError


@pytest.fixture(scope="module")
def tool(repository):
    return module_at(repository / "benchmarks/near_duplicates.py")


@pytest.fixture(scope="module")
def filters(repository):
    return module_at(repository / "benchmarks/filters.py")


def run(tool, monkeypatch, *given: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tool.py", "--megabytes", "0.2", "--turns", "1", *map(str, given)])
    return tool.main()


def peer(folder, body: str):
    """A Python that is called as the other's is: -c CODE {what is asked}."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport json, sys\ngiven = json.loads(sys.argv[3])\n{body}\n")
    path.chmod(0o755)
    return path


def test_every_changed_copy_is_found_and_nothing_else(tool, monkeypatch, tmp_path, capsys):
    assert run(tool, monkeypatch, "--out", tmp_path / "out.json") == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["found"] == {"ours": {"planted": 1.0, "others": 0}} and found["documents"] > 100
    assert json.loads(capsys.readouterr().out) == found


def test_the_peer_is_asked_for_our_bands_and_for_its_own(tool, monkeypatch, tmp_path):
    """The stand-in removes the first copy and a document that is none, and says what it was asked for."""
    asked = tmp_path / "asked"
    body = f"""
text = open(given["folder"] + "/text/0.jsonl").readlines()
open({str(asked)!r}, "a").write(json.dumps([given[key] for key in ("shingle_words", "bands", "rows")]) + "\\n")
print(json.dumps({{"seconds": 1e-9 if given["bands"] == 14 else 1e9, "removed": [0, 19, len(text) - 1][:2]}}))"""
    assert run(tool, monkeypatch, "--peer", peer(tmp_path, body), "--out", tmp_path / "out.json") == 1  # one is faster
    found = json.loads((tmp_path / "out.json").read_text())
    assert [json.loads(line) for line in asked.read_text().splitlines()] == [[2, 32, 3], [5, 14, 8]]
    copies = found["documents"] // 20
    expected = {"planted": round(1 / copies, 4), "others": 1}
    assert found["found"]["datatrove"] == found["found"]["datatrove, its defaults"] == expected
    assert found["times_as_fast_as"]["datatrove"] > 1 > found["times_as_fast_as"]["datatrove, its defaults"]


def test_a_peer_that_fails_is_said_with_its_last_words(tool, monkeypatch, tmp_path):
    with pytest.raises(UserError, match=r"datatrove ended with 1: .*no spacy"):
        run(tool, monkeypatch, "--peer", peer(tmp_path, 'sys.exit("no spacy")'))


def test_the_filters_are_asked_for_the_same_documents_and_the_same_languages(filters, monkeypatch, tmp_path):
    """The stand-in knows the language of every document by our model, and keeps the first half of each."""
    body = """
import fasttext
model = fasttext.load_model(given["model"])
texts = [json.loads(line)["text"] for line in open(given["folder"] + "/text/0.jsonl")]
labels = [label for text in texts for label in model.predict(text.replace(chr(10), " "))[0]]
assert labels.count("__label__" + given["language"]) > 0.9 * len(texts), labels
seconds = 1e9 if given["filters"] > 1 else 1e-9
print(json.dumps({"seconds": seconds, "characters": sum(len(text) // 2 for text in texts)}))"""
    assert run(filters, monkeypatch, "--peer", peer(tmp_path, body), "--out", tmp_path / "out.json") == 1
    found = json.loads((tmp_path / "out.json").read_text())
    kept, ratios = found["share_of_characters_kept"], found["times_as_fast_as"]
    assert 0.9 < kept.pop("ours") < 1, "the dirt is out"
    assert all(share == pytest.approx(0.5, abs=0.01) for share in kept.values()) and len(kept) == 3
    assert ratios.pop("datatrove, lines and language") < 1 < min(ratios.values())
