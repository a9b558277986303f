"""Gold and predictions that are not what they are taken for: refused with one line, or scored as they should be.

Each group is tried with 200 seeded inputs more. A fault in the rows that this file names is in docs/faults.md.
"""

import bz2
import gzip
import json
import lzma
import random
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import index_eval_sets
import score
from archives import WHOLE, word, write_tar, xnli_row, xnli_zip
from common.atomic import keep_sum, sha256_of
from common.errors import UserError
from corpus import eval_index
from engine import bleu
from tasks import said, tatoeba, word_alignment, xquad
from tasks.conllu import parse_conllu
from tasks.files import read_zip_bytes, tar_members
from tasks.known import TASKS
from world.formats import tar

SEEDS = range(200)


def by_hand(task: str, language: str, gold: Path, predictions: Path) -> dict:
    return score.score_file(SimpleNamespace(task=task, language=language, gold=gold, predictions=predictions))


def question(name: str) -> dict:
    answer = {"text": "a", "answer_start": 0}
    return {"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": name, "question": "q", "answers": [answer]}]}]}]}


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    """A whole file of each task whose file says its language, by its upstream name."""
    found = {
        "xquad": tmp_path / "xquad.el.json",
        "mlqa": tmp_path / "test-context-de-question-en.json",
        "ud-pos": tmp_path / "he_htb-ud-test.conllu",
        "wikiann-ner": tmp_path / "rows",
        "bucc": tmp_path / "pairs",
        "xnli": tmp_path / "XNLI-1.0.zip",
        "tydiqa-goldp": tmp_path / "tydiqa.json",
        "tatoeba": tmp_path / "tatoeba.deu-eng.deu",
        "conll-ner": tmp_path / "esp.testb",
        "paws-x": tmp_path / "x-final/de/test_2k.tsv",
        "wmt14-en-de": tmp_path / "newstest2014.eng-deu.deu",
        "wmt14-en-fr": tmp_path / "newstest2014.eng-fra.fra",
    }
    found["paws-x"].parent.mkdir(parents=True)
    for task in ("xquad", "mlqa"):
        found[task].write_text(json.dumps(question("1")))
    found["tydiqa-goldp"].write_text(json.dumps(question("finnish-1")))
    found["ud-pos"].write_text("\n".join([word(1, "a", "NOUN"), word(2, "b", "VERB", 1), "", ""]))
    found["wikiann-ner"].write_text("de:a\tB-LOC\nde::\tO\n\n")
    found["bucc"].write_text("ru-000000001\ten-000000007\n")
    xnli_zip(found["xnli"], [xnli_row("de", label, pair=label) for label in ("neutral", "entailment")])
    found["tatoeba"].write_text("eins\nzwei\n")
    found["conll-ner"].write_text("a B-LOC\nb O\n\n")
    found["paws-x"].write_text("id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n2\ta\tb\t1\n")
    for task in ("wmt14-en-de", "wmt14-en-fr"):
        found[task].write_text("eins zwei drei vier.\n")
    return found


RIGHT = {"xquad": "el", "mlqa": "de-en", "ud-pos": "he", "bucc": "ru", "tydiqa-goldp": "fi", "conll-ner": "es"}
RIGHT |= {"wmt14-en-fr": "fr"}


def prediction_for(task: str, gold: Path, language: str, path: Path) -> Path:
    module = TASKS[task]
    read = module.read_gold(gold, language)
    if task in ("xquad", "mlqa", "tydiqa-goldp"):
        read = {one.id: one.answers[0] for one in read}
    module.write_predictions(path, read)
    return path


# --- a language that the files are not of ----------------------------------------------------------------------------


def test_files_of_a_language_are_scored_as_no_other(files, tmp_path):
    """Every language of every task but the right one, and some that no task has."""
    refused = 0
    for task, gold in files.items():
        right = RIGHT.get(task, "de")
        predictions = prediction_for(task, gold, right, tmp_path / "predictions")
        assert by_hand(task, right, gold, predictions)["scores"][0]["language"] == right, task
        codes = {code for module in TASKS for code in languages_of(module)} | {"qq", "xx", "", "de-de-de", "-", "DE"}
        for wrong in sorted(codes - {right}):
            with pytest.raises(UserError):
                by_hand(task, wrong, gold, predictions)
            refused += 1
    assert refused > 500


def languages_of(task: str) -> list[str]:
    return said.read_yaml(said.CONFIG / f"tasks/{task}.yaml")["languages"]


@pytest.mark.parametrize(
    ("task", "language", "message"),
    [
        ("xquad", "qq", "--language qq: xquad has no such language; write one of en, es, de, el"),
        ("xquad", "de", r"xquad\.el\.json: a file of el by its name, not of --language de"),
        ("ud-pos", "it", r"he_htb-ud-test\.conllu: a file of he by its name, not of --language it"),
        ("mlqa", "en-de", "a file of de-en by its name, not of --language en-de"),
        ("wikiann-ner", "fr", "rows, token 1: 'de:a' is not of language fr"),
        ("bucc", "de", "pairs, pair 1: id ru-000000001 is of language ru, not of de"),
        ("bucc", "xx", "--language xx: bucc has no such language; write one of de, fr, ru, zh"),
        ("wmt14-en-de", "fr", "--language fr: wmt14-en-de has no such language; write one of de"),
        ("conll-ner", "nl", r"esp\.testb: a file of es by its name, not of --language nl"),
        ("paws-x", "fr", r"de/test_2k\.tsv: a file of de by its name, not of --language fr"),
        ("tatoeba", "fr", r"tatoeba\.deu-eng\.deu: a file of de by its name, not of --language fr"),
        ("tydiqa-goldp", "ar", "no question whose id begins with arabic-"),
    ],
)
def test_what_a_file_says_of_its_language_is_compared(files, tmp_path, task, language, message):
    predictions = prediction_for(task, files[task], RIGHT.get(task, "de"), tmp_path / "predictions")
    with pytest.raises(UserError, match=message):
        by_hand(task, language, files[task], predictions)


def test_predictions_of_another_language_and_the_source_as_reference_are_refused(files, tmp_path):
    own = prediction_for("xnli", files["xnli"], "de", tmp_path / "test-fr.tsv")
    with pytest.raises(UserError, match=r"test-fr\.tsv: a file of fr by its name, not of --language de"):
        by_hand("xnli", "de", files["xnli"], own)
    source = tmp_path / "newstest2014.eng-deu.eng"
    source.write_text("one two three four.\n")
    with pytest.raises(UserError, match="a file of eng by its name, not of --language de"):
        by_hand("wmt14-en-de", "de", source, source)
    with zipfile.ZipFile(tmp_path / "conll2003.zip", "w") as archive:
        archive.writestr("test.txt", "a X Y B-LOC\n\n")
    with pytest.raises(UserError, match="a zip is the English part, not of --language de"):
        by_hand("conll-ner", "de", tmp_path / "conll2003.zip", files["bucc"])


# --- archives --------------------------------------------------------------------------------------------------------

PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "": bytes}


def test_one_flipped_bit_of_an_archive_changes_nothing_in_silence(tmp_path):
    """What lies in a plain tar has no sum of its own: there only headers and end are checked."""
    noise = random.Random(1)
    members = {f"folder/{i}": "".join(noise.choices("abcdefgh \n", k=700)) for i in range(4)}
    told = 0
    for packing, pack in PACKED.items():
        data = pack(tar(members))
        path = tmp_path / f"archive.tar.{packing}"
        path.write_bytes(data)
        assert dict(tar_members(path, lambda _: True)) == {name: text.encode() for name, text in members.items()}
        for _ in SEEDS:
            place = noise.randrange(len(data)) if packing else 512 * 3 * noise.randrange(4) + noise.randrange(156)
            bad = bytearray(data)
            bad[place] ^= 1 << noise.randrange(8)
            path.write_bytes(bad)
            try:
                found = dict(tar_members(path, lambda _: True))
            except UserError as error:
                assert str(path) in str(error)
                told += 1
            else:  # in a byte that says nothing: a time, a name of the packer, padding
                assert found == {name: text.encode() for name, text in members.items()}, (packing, place)
    assert told > 600


def test_the_sum_of_a_treebank_archive_is_looked_at_by_the_index_too(tmp_path):
    """The last bytes of a gzip: its sum and length, which tarfile never reads."""
    path = tmp_path / "ud.tgz"
    whole = PACKED["gz"](tar({"de-ud-test.conllu": "# text = Ein Satz .\n" * 50}))
    path.write_bytes(whole)
    assert len(list(eval_index.read_ud(path))) == 50
    for place in range(-8, 0):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[len(whole) + place + 1 :])
        with pytest.raises(UserError, match="not a whole tar archive"):
            list(eval_index.read_ud(path))


def test_a_test_file_that_was_changed_since_its_download_is_not_indexed(tmp_path, monkeypatch):
    """Its sentences would stay in the corpus, and only the scores say so, after the training."""
    path, out = tmp_path / "test.txt", tmp_path / "out.npy"
    path.write_text("Ein Satz .\n" * 3)
    keep_sum(path, sha256_of(path))
    path.write_text("Ein Satz .\n")
    monkeypatch.setattr("sys.argv", ["index_eval_sets.py", "--task", f"text={path}", "--out", str(out)])
    with pytest.raises(UserError, match=r"test\.txt: not as it was written .*; delete it, and run again"):
        index_eval_sets.main()
    assert not out.exists()


def test_gold_that_unpacks_to_more_than_any_memory_is_refused(tmp_path, monkeypatch):
    """A few kilobytes that say so of themselves; the limit is lowered here, the archives are small."""
    monkeypatch.setattr("common.archives.MOST_UNPACKED", 10_000)
    bomb = "0" * 10_001
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("test.tsv", bomb)
    (tmp_path / "a.tgz").write_bytes(PACKED["gz"](tar({"test.tsv": bomb})))
    words = "test.tsv: unpacks to 10,001 bytes, and no evaluation file has more than 10,000"
    with pytest.raises(UserError, match=f"a.zip, {words}"):
        read_zip_bytes(tmp_path / "a.zip", "test.tsv")
    with pytest.raises(UserError, match=f"a.tgz, {words}"):
        list(tar_members(tmp_path / "a.tgz", lambda _: True))


@pytest.mark.parametrize("empty", ["gold", "predictions", "out"])
def test_an_empty_name_is_said_by_its_option(capsys, monkeypatch, empty):
    given = {"task": "xnli", "language": "de", "gold": "g.tsv", "predictions": "p.tsv", "out": "o.json", empty: ""}
    monkeypatch.setattr("sys.argv", ["score.py", *(f"--{name}={value}" for name, value in given.items())])
    with pytest.raises(SystemExit):
        score.main()
    assert f"--{empty}: an empty name; give the name of a file" in capsys.readouterr().err


def test_an_archive_that_is_cut_anywhere_is_refused(tmp_path):
    members = {"a": "x" * 600, "b": "y" * 600}
    for packing, pack in PACKED.items():
        data = pack(tar(members))
        path = tmp_path / f"cut.{packing}"
        for kept in {*range(0, min(len(data), 3000), max(1, len(data) // 50)), len(data) - 1 if packing else 3072}:
            path.write_bytes(data[:kept])
            with pytest.raises(UserError):
                dict(tar_members(path, lambda _: True))


def test_a_flipped_bit_inside_a_tar_gz_is_no_other_error_rate(tmp_path):
    text = {f"alignment-test-sets/de-en/{name}": own for name, own in WHOLE.items()}
    data = bytearray(gzip.compress(tar(text), 0, mtime=0))  # stored: no code of the packer notices a flip
    data[data.index(b"7 2 1 P") + 2] ^= 3  # word 2 becomes word 1
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.tar\.gz: .*CRC"):
        word_alignment.read_gold(path, "de")


# --- alignments ------------------------------------------------------------------------------------------------------


def links(tmp_path: Path, **changes: str) -> Path:
    return write_tar(tmp_path / "links.tar.gz", WHOLE | changes, "alignment-test-sets/de-en/")


def test_links_are_written_in_ascii_and_within_their_sentences(tmp_path):
    gold = word_alignment.read_gold(links(tmp_path), "de")
    for text in ("٠-٠", "0-²", "1_0-0", "0-99999", "0--1", "00000000000-0", "0-0-0", "+0-0", "0–0", f"0-{'9' * 5000}"):
        (tmp_path / "found").write_text(f"0-0\n{text}\n")
        with pytest.raises(UserError, match="line 2: "):
            word_alignment.read_predictions(tmp_path / "found", gold)


def test_a_predicted_line_beyond_the_other_side_is_refused(tmp_path):
    (tmp_path / "found").write_text("0\n99999\n")  # wrong, and no more: XTREME's own mock predictions have such lines
    assert tatoeba.read_predictions(tmp_path / "found", [0, 1]) == [0, 99999]
    (tmp_path / "layers").write_text("en-xx.0\txx-en.0\n0\t1\n1\t2\n")
    with pytest.raises(UserError, match="line 3: 2 is beyond the other side's 2 lines"):
        tatoeba.read_layer_predictions(tmp_path / "layers", [0, 1])
    (tmp_path / "layers").write_text("en-xx.²\n0\n1\n")
    with pytest.raises(UserError, match=r"column 'en-xx\.²' is not"):
        tatoeba.read_layer_predictions(tmp_path / "layers", [0, 1])
    (tmp_path / "found").write_text(f"0\n{'1' * 5000}\n")
    with pytest.raises(UserError, match="line 2"):
        tatoeba.read_predictions(tmp_path / "found", [0, 1])


def test_gold_links_beyond_their_sentence_are_those_of_the_published_file(tmp_path):
    one = "7 1 1 S\n7 -99 1 S\n3 1 2\n"
    assert [len(own.sure) for own in word_alignment.read_gold(links(tmp_path, **{"alignv2.txt": one}), "de")] == [2, 1]
    two = one + "3 99999 1 P\n"
    with pytest.raises(UserError, match=r"line 2: words -99 and 1 of sentences of 2 and 1; 2 such links"):
        word_alignment.read_gold(links(tmp_path, **{"alignv2.txt": two}), "de")


def test_gold_without_a_sure_link_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"alignv2\.txt: no sure link; the error rate rests on them"):
        word_alignment.read_gold(links(tmp_path, **{"alignv2.txt": "7 1 1 P\n3 1 2 P\n"}), "de")


@pytest.mark.parametrize("text", ["\n\n", "\n \n", "\r\n\r\n"])
def test_no_link_at_all_is_an_error_rate_of_100(tmp_path, text):
    archive = links(tmp_path)
    (tmp_path / "found").write_bytes(text.encode())
    values = {
        one["metric"]: one["value"] for one in by_hand("word-alignment", "de", archive, tmp_path / "found")["scores"]
    }
    assert values == {"error-rate": 100.0, "precision": 0.0, "recall": 0.0}
    (tmp_path / "found").write_bytes(b"")
    with pytest.raises(UserError, match="the file is empty"):
        by_hand("word-alignment", "de", archive, tmp_path / "found")


# --- files that are broken or mean harm ------------------------------------------------------------------------------


def test_a_head_of_other_digits_is_no_traceback():
    for head in ("²", "٣", "1_0", "9" * 5000, "", "_", "-1", "1.0"):
        both = "\t".join(["1-2", "ab", *["_"] * 8])
        rows = [both, word(1, "a", "NOUN", head), word(2, "b", "VERB", 1)]
        with pytest.raises(UserError, match="HEAD -1 is not a word"):
            parse_conllu(rows, "x", "de")
        for bad in (f"{head}x", f"1-{head}x", f"²{head}"):
            with pytest.raises(UserError):
                parse_conllu([word(bad, "a", "NOUN")], "x", "de")


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"data":' * 200_000, f'{{"a": {"9" * 5000}}}', '{"\\ud800": "a"}', "nul", '{"a": NaN}', '"a"'],
)
def test_deep_and_strange_json_is_one_line(tmp_path, text):
    (tmp_path / "file.json").write_text(text)
    for read in (lambda path: xquad.read_gold(path, "de"), lambda path: xquad.read_predictions(path, [])):
        with pytest.raises(UserError, match=r"file\.json") as told:
            read(tmp_path / "file.json")
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("task", ["xnli", "paws-x", "ud-pos", "bucc", "tatoeba", "word-alignment"])
def test_an_endless_line_and_a_name_with_a_line_break_are_one_short_line(tmp_path, task):
    gold = word_alignment.read_gold(links(tmp_path), "de") if task == "word-alignment" else ["neutral"]
    (tmp_path / "long").write_text("x" * 5_000_000)
    with pytest.raises(UserError) as told:
        TASKS[task].read_predictions(tmp_path / "long", gold)
    assert len(str(told.value)) < 3000
    (tmp_path / "break.json").write_text(json.dumps({"a\nerror: all is well\x1b[2J": "b"}))
    with pytest.raises(UserError) as told:
        xquad.read_predictions(tmp_path / "break.json", [])
    assert "\n" not in str(told.value) and "\x1b" not in str(told.value)


STRANGE = ("\n", "\t", "\0", "²", "٣", "\u2028", "9" * 5000, "[" * 3000, "\\ud800", "NaN", "-1", "1e999", "\x85")


def damaged(data: bytes, noise: random.Random) -> bytes:
    """One to three changes: a byte, a piece that is cut, doubled or replaced by something that readers stumble over."""
    for _ in range(noise.randint(1, 3)):
        start = noise.randrange(len(data) + 1)
        end = min(len(data), start + noise.choice((0, 1, 3, 40)))
        strange = (
            "\n",
            "\t",
            "\0",
            "²",
            "٣",
            "\u2028",
            "9" * 5000,
            "[" * 3000,
            "\\ud800",
            "NaN",
            "-1",
            "1e999",
            "\x85",
        )
        piece = noise.choice((b"", data[start:end] * 2, bytes([noise.randrange(256)]), noise.choice(strange).encode()))
        data = data[:start] + piece + data[end:]
    return data


@pytest.mark.parametrize(
    "task", sorted({"ud-pos", "xquad", "wikiann-ner", "bucc", "xnli", "conll-ner", "paws-x", "tatoeba"})
)
def test_200_damaged_files_end_in_a_line_or_a_number(files, tmp_path, task):
    """Gold and predictions: nothing but a UserError comes out, or a score that a table would take."""
    right, noise = RIGHT.get(task, "de"), random.Random(task)
    gold = files[task]
    if task == "xnli":
        gold = tmp_path / "labels"
        gold.write_text("neutral\nentailment\n")
    predictions = prediction_for(task, gold, right, tmp_path / "found")
    whole = {path: path.read_bytes() for path in (gold, predictions)}
    scored = 0
    for seed in SEEDS:
        path = (gold, predictions)[seed % 2]
        path.write_bytes(damaged(whole[path], noise))
        try:
            found = by_hand(task, right, gold, predictions)
        except UserError as error:
            assert str(error)
        else:
            scored += 1
            assert all(0 <= one["value"] <= 100 for one in found["scores"])
        path.write_bytes(whole[path])
    assert scored < len(SEEDS)


# --- tokenised BLEU --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["de", "fr"])
def test_chinese_and_other_letters_stay_whole(language):
    """As Perl prints them: a letter is one in any script."""
    tokenise = bleu.moses(language)
    for text in ("北京", "서울", "ひらがな", "カタカナ", "ⴀⴁ", "𠀀𠀁", "ᲐᲑ", "١٢"):
        assert tokenise(f"Die Stadt {text} ist.") == f"Die Stadt {text} ist ."
    assert tokenise("北京-上海") == "北京 @-@ 上海"
    assert tokenise("北京，x² ½") == "北京 ， x ² ½"


def test_the_signature_names_the_version_of_the_tokenizer(files, tmp_path):
    predictions = prediction_for("wmt14-en-de", files["wmt14-en-de"], "de", tmp_path / "found")
    signature = by_hand("wmt14-en-de", "de", files["wmt14-en-de"], predictions)["signature"]
    assert signature == f"{bleu.signature()}|bleu=multi-bleu.perl/lc/tokenizer.perl.before.2018-11"
    # Since November 2018 Perl cuts the full stop from every last word; this is how the version before leaves it.
    assert bleu.moses("de")("Er wohnt in der Bahnhofstr. z.B.") == "Er wohnt in der Bahnhofstr. z.B."
