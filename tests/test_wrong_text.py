"""Text, archives, thresholds and lists of files that are wrong: one line, and no number of another kind of digit."""

import io
import tarfile

import pytest

import download
from common.errors import UserError
from corpus.corpusio import load_thresholds
from corpus.segments import read_aligned, read_segments
from fetching import folder
from fetching.lock import read_lock
from plan.datasets import load_datasets
from tasks.files import tar_members
from tasks.said import language_said

VERSE = '{{"1": [{{"chapter": {}, "verse": {}, "text": "{}"}}]}}'
HEADER = "### Gen\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[" * 200_000, "not chapters of verses in JSON"),
        ("a.json", VERSE.format("Infinity", 1, "a"), "inf is no number of a chapter or verse"),
        ("a.json", VERSE.format('"٣"', 1, "a"), "'٣' is no number"),
        ("a.json", VERSE.format(1, 1.9, "a"), "1.9 is no number"),
        ("a.json", VERSE.format(1, 1, r"\ud800 b"), "not chapters of verses in JSON"),
        ("a.xml", '<?xml version="1.0" encoding="foo"?><a/>', "not verses in OSIS"),
        ("a.xml", '<a><verse osisID="Gen.٣.1">a</verse></a>', "'٣' is no number"),
    ],
)
def test_text_that_is_no_text_of_verses_is_one_line(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        list(read_segments(path))


@pytest.mark.parametrize("number", ["٣:1", f"{'9' * 5000}:1"])
def test_a_verse_of_other_digits_or_too_many_is_text(tmp_path, number):
    path = tmp_path / "a.txt"
    path.write_text(f"{HEADER}[1:1] one\n[{number}] two\n", encoding="utf-8")
    [(name, text)] = read_segments(path)
    assert name == (0, 1, 1) and text.startswith("one [")


def test_a_verse_that_stands_twice_has_no_translation(tmp_path):
    once, twice = tmp_path / "once.txt", tmp_path / "twice.txt"
    once.write_text(f"{HEADER}[1:1] one\n")
    twice.write_text(f"{HEADER}[1:1] eins\n[1:1] zwei\n")
    for sides in ((once, twice), (twice, once)):
        with pytest.raises(UserError, match=r"twice\.txt, segment 2: a verse that stands there before"):
            list(read_aligned(*sides))


@pytest.mark.parametrize("headers", [{"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "x"}, {"size": "abc"}])
def test_a_tar_whose_headers_hold_no_numbers_is_one_line_or_read(tmp_path, headers):
    path = tmp_path / "a.tgz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT, pax_headers={}) as archive:
        member = tarfile.TarInfo("a/de_gsd-ud-test.conllu")
        member.pax_headers, member.size = headers, 3
        archive.addfile(member, io.BytesIO(b"abc"))
    try:
        found = dict(tar_members(path, lambda _: True))
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        assert set(found.values()) <= {b"abc", b""}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ('{"mono": 5}', "key mono: 5 is no mapping of thresholds"),
        ('{"mono": [1]}', r"key mono: \[1\] is no mapping"),
        ("[" * 100_000, "--overrides: not JSON"),
        ('{"decontamination": {"similarity": NaN}}', "similarity: nan is not between 0 and"),
        ('{"decontamination": {"similarity": 1e999}}', "similarity: inf is not between 0 and"),
        ('{"duplicates": {"bands": ' + "9" * 40 + "}}", "bands: 9+ is not between 1 and"),
    ],
)
def test_thresholds_that_are_none_are_one_line(repository, overrides, message):
    with pytest.raises(UserError, match=message):
        load_thresholds(repository / "config/cleaning.yaml", "decontamination", overrides)


@pytest.mark.parametrize("size", ["²", "٣", "9" * 5000])
def test_bytes_are_written_in_a_few_ascii_digits(tmp_path, size):
    lock, manifest, datasets = tmp_path / "lock.tsv", tmp_path / "MANIFEST.tsv", tmp_path / "datasets.tsv"
    lock.write_text(f"id\tbytes\tsha256\turl\na\t{size}\t{'0' * 64}\thttps://h/a\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"lock\.tsv:2: not a line of id, bytes"):
        read_lock(lock)
    manifest.write_text(f"path\tbytes\tsha256\na\t{size}\t{'0' * 64}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"MANIFEST\.tsv:2, column bytes: .* is no number"):
        folder._manifest(tmp_path)
    columns = ("id", "url", "fallback_urls", "bytes", "sha256", "licence", "languages", "kind", "note")
    row = dict.fromkeys(columns, "") | {
        "id": "a",
        "url": "https://h/a",
        "bytes": size,
        "licence": "CC0",
        "kind": "eval",
    }
    datasets.write_text("\t".join(columns) + "\n" + "\t".join(row.values()) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"datasets\.tsv:2, column bytes"):
        load_datasets(datasets)


@pytest.mark.parametrize("text", [b"path\tbytes\tsha256\n\xff\t1\t0\n", b"bytes\tsha256\tpath\n1\n"])
def test_a_list_of_files_that_is_no_table_is_one_line(tmp_path, text):
    (tmp_path / "MANIFEST.tsv").write_bytes(text)
    with pytest.raises(UserError, match=r"MANIFEST\.tsv"):
        folder._manifest(tmp_path)
    (tmp_path / "lock.tsv").write_bytes(text)
    with pytest.raises(UserError, match=r"lock\.tsv"):
        read_lock(tmp_path / "lock.tsv")


@pytest.mark.parametrize(
    ("task", "path", "language"),
    [
        ("flores", "deu.devtest", "de"),
        ("flores", "raw/deu_Latn.devtest", "de"),
        ("tydiqa-goldp", "tydiqa.goldp.fi.dev.json", "fi"),
        ("tydiqa-goldp", "raw/tydiqa.fi.dev.json", "fi"),
        ("paws-x", "de/test_2k.tsv", "de"),
        ("wmt14-en-de", "eng-fra/newstest2014.fra", "fr"),
        ("wmt14-en-de", "newstest2014.fr", "fr"),
        ("wikiann-ner", "de/test", "de"),
        ("wikiann-ner", "de/test.tsv", "de"),
        ("wikiann-ner", "es/test.conllu", "es"),
        ("wikiann-ner", "panx/test", None),
    ],
)
def test_a_name_as_upstream_writes_it_says_its_language(task, path, language):
    assert language_said(task, path) == language


def test_every_evaluation_file_of_one_language_says_it(repository):
    """Of the files that config/datasets.tsv names: what their names say, if they say anything, is their language."""
    said = {}
    tasks = {
        "flores101": "flores",
        "tydiqa-goldp": "tydiqa-goldp",
        "newstest": "wmt14-en-de",
        "panx-tsv": "wikiann-ner",
    }
    for id_, dataset in load_datasets(repository / "config/datasets.tsv").items():
        if (task := tasks.get(id_.partition("/")[0])) and len(dataset.languages) == 1:
            said[id_] = (language_said(task, dataset.path), dataset.languages[0])
    assert len(said) > 30
    english = {"eng": "en"}
    assert not {id_: pair for id_, pair in said.items() if english.get(pair[0], pair[0]) not in (pair[1], None)}
    assert not [id_ for id_, (code, _) in said.items() if code is None]


@pytest.mark.parametrize(
    "option", [["--stall-timeout", "nan"], ["--stall-timeout", "1e300"], ["--back-off", "inf"], ["--lock", ""]]
)
def test_an_option_of_a_download_that_cannot_be_is_said(tmp_path, monkeypatch, capsys, option):
    given = ["download.py", "--dataset", "x", "--out", str(tmp_path / "x"), *option]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit):
        download.main()
    assert option[0] in capsys.readouterr().err.splitlines()[-1]


def test_what_no_source_gave_is_told_in_lines(repository):
    dataset = next(iter(load_datasets(repository / "config/datasets.tsv").values()))
    lines = str(UserError(*download._story(dataset, [], "datasets.tsv", None, offline=True))).split("\n")
    assert lines[0] == f"datasets.tsv, id {dataset.id}: no source gave the file" and "\\n" not in "".join(lines)
    assert lines[1].startswith("  none to ask") and lines[2].startswith("to mend: place the file at <mirror>/")
