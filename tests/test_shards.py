import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corpus.lines
from common.errors import UserError
from corpus.characters import normalise
from corpus.corpusio import read_lines, zst_writer
from corpus.lines import read_utf8_lines
from encode_corpus import encode, encoded_batches, read_mono
from engine.shards import ARRAYS, array_path, open_shard, open_shards, sha256_of, token_dtype, write_shard
from engine.tokenizer import PAD, UNK, Tokenizer
from train_vocabulary import train

LETTERS = [
    "abcdefghij",
    "äöüßéñ",
    "абвгдежз",
    "ابتثجح",
    "कखगघािी",
    "的一是不了人我在",
    "กขคงจฉ",
    "0123456789",
    ".,!?-–“”",
    "😀🙂",
]


def random_line(rng: random.Random) -> str:
    words = []
    for _ in range(rng.randint(1, 12)):
        alphabet = rng.choice(LETTERS)
        words.append("".join(rng.choices(alphabet, k=rng.randint(1, 8))))
    return normalise((" " if rng.random() < 0.7 else "").join(words))


def random_documents(seed: int, count: int) -> list[list[str]]:
    rng = random.Random(seed)
    documents = [[line for _ in range(rng.randint(1, 6)) if (line := random_line(rng))] for _ in range(count)]
    return [document for document in documents if document]


def write_documents(path: Path, documents: list[list[str]]) -> None:
    with zst_writer(path) as out:
        for document in documents:
            out.write("\n".join(document) + "\n\n")


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "spm.model"
    train((line for document in random_documents(0, 400) for line in document), path, 700)
    return path


def encode_file(text: Path, vocabulary: Path, out: Path, kind: str = "mono") -> dict:
    tokenizer = Tokenizer(vocabulary)
    return write_shard(
        out,
        encoded_batches(tokenizer, text, kind, 1),
        kind,
        tokenizer.vocabulary_size,
        sha256_of(vocabulary),
        sha256_of(text),
    )


@pytest.mark.parametrize("seed", range(5))
def test_text_comes_back_from_shards_with_its_documents(tmp_path: Path, vocabulary: Path, seed: int) -> None:
    # unseen characters too: another seed than the vocabulary, and two lines with letters of no alphabet above
    documents = [*random_documents(100 + seed, 60), ["Ԙ ꙮ 𝔘𝔫", "<s> </s> <mask> <unk> <0x41>"]]
    write_documents(tmp_path / "0.clean.txt.zst", documents[:40])
    write_documents(tmp_path / "1.clean.txt.zst", documents[40:])
    for shard in "01":
        encode_file(tmp_path / f"{shard}.clean.txt.zst", vocabulary, tmp_path / f"{shard}.json")
    tokenizer = Tokenizer(vocabulary)
    shards = open_shards([tmp_path / "0.json", tmp_path / "1.json"], sha256_of(vocabulary))
    lines = [tokenizer.decode(shards.sentence(i)) for i in range(shards.num_sentences)]
    bounds = shards.document_offsets().tolist()
    assert [lines[a:b] for a, b in itertools.pairwise(bounds)] == documents
    assert all(tokenizer.encode([line])[0] == shards.sentence(i).tolist() for i, line in enumerate(lines))


def test_pairs_come_back_from_shards(tmp_path: Path, vocabulary: Path) -> None:
    sides = [line for document in random_documents(7, 60) for line in document]
    pairs = list(zip(sides[::2], sides[1::2], strict=False))
    with zst_writer(tmp_path / "0.clean.tsv.zst") as out:
        out.writelines(f"{a}\t{b}\n" for a, b in pairs)
    manifest = encode_file(tmp_path / "0.clean.tsv.zst", vocabulary, tmp_path / "0.json", "bitext")
    assert (manifest["documents"], manifest["sentences"]) == (len(pairs), 2 * len(pairs))
    tokenizer = Tokenizer(vocabulary)
    shards = open_shards([tmp_path / "0.json"])
    text = [tokenizer.decode(shards.sentence(i)) for i in range(shards.num_sentences)]
    assert list(zip(text[::2], text[1::2], strict=True)) == pairs
    assert shards.document_lengths().tolist() == [2] * len(pairs)


def test_model_ids_are_those_of_the_tokenizer_and_never_special(vocabulary: Path) -> None:
    tokenizer = Tokenizer(vocabulary)
    lines = [line for document in random_documents(3, 50) for line in document]
    ids, lengths = encode(tokenizer, lines)
    assert ids.tolist() == [i for line in tokenizer.encode(lines) for i in line]
    assert lengths.sum() == len(ids)
    assert ids.min() > PAD and UNK not in ids and ids.max() < tokenizer.mask


def test_both_forms_of_sentencepieces_result_give_the_same_ids(vocabulary: Path) -> None:
    tokenizer = Tokenizer(vocabulary)
    lines = [line for document in random_documents(4, 50) for line in document]
    for sentences in (lines, [line.encode() for line in lines], [" "]):  # the last has no token
        lists, arrays = (encode(tokenizer, sentences, long=long) for long in (False, True))
        for a, b in zip(lists, arrays, strict=True):
            assert a.dtype == b.dtype and a.tolist() == b.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_lines_in_utf8_are_those_of_read_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # whole and cut characters, all kinds of line ends, and blocks that end anywhere
    rng = random.Random(seed)
    parts = [
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\xe4\xb8",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        "äж的😀".encode(),
        b"ab",
    ]
    path = tmp_path / "0.txt"
    path.write_bytes(b"".join(rng.choices(parts, k=rng.randint(0, 300))))
    monkeypatch.setattr(corpus.lines, "_BLOCK", rng.randint(1, 40))
    assert [line.decode() for line in read_utf8_lines(path)] == list(read_lines(path))


def test_text_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"0\.txt\.zst: no such file"):
        list(read_utf8_lines(tmp_path / "0.txt.zst"))
    (tmp_path / "0.txt.zst").write_bytes(b"not compressed")
    with pytest.raises(UserError, match=r"0\.txt\.zst: broken after line 0"):
        list(read_utf8_lines(tmp_path / "0.txt.zst"))


def test_token_type_follows_the_vocabulary() -> None:
    assert token_dtype(65_535) == np.uint16
    assert token_dtype(65_536) == np.uint32


@pytest.fixture
def shard_set(tmp_path: Path, vocabulary: Path) -> list[Path]:
    paths = []
    for number, (seed, count) in enumerate([(1, 30), (2, 1), (3, 50)]):
        write_documents(tmp_path / f"{number}.clean.txt.zst", random_documents(seed, count))
        encode_file(tmp_path / f"{number}.clean.txt.zst", vocabulary, tmp_path / f"{number}.json")
        paths.append(tmp_path / f"{number}.json")
    return paths


def test_gather_equals_sentences_one_by_one(shard_set: list[Path]) -> None:
    shards = open_shards(shard_set)
    order = np.random.default_rng(0).integers(0, shards.num_sentences, 500)
    for sentences in (order, np.arange(3), np.zeros(0, np.int64)):
        tokens, offsets = shards.gather(sentences)
        assert tokens.dtype == np.int32 and len(offsets) == len(sentences) + 1
        for i, sentence in enumerate(sentences):
            assert tokens[offsets[i] : offsets[i + 1]].tolist() == shards.sentence(int(sentence)).tolist()
    assert shards.sentence_lengths().tolist() == [len(shards.sentence(i)) for i in range(shards.num_sentences)]
    assert shards.token_offsets()[-1] == shards.num_tokens == shards.sentence_lengths().sum()
    with pytest.raises(IndexError):
        shards.sentence(shards.num_sentences)


def test_an_empty_shard_opens(tmp_path: Path, vocabulary: Path, shard_set: list[Path]) -> None:
    write_documents(tmp_path / "9.clean.txt.zst", [])
    encode_file(tmp_path / "9.clean.txt.zst", vocabulary, tmp_path / "9.json")
    empty = open_shards([tmp_path / "9.json"])
    assert (empty.num_documents, empty.num_sentences, len(empty.sentence_lengths())) == (0, 0, 0)
    assert open_shards([tmp_path / "9.json", *shard_set]).num_tokens == open_shards(shard_set).num_tokens


def test_encoding_twice_gives_the_same_bytes(tmp_path: Path, vocabulary: Path, shard_set: list[Path]) -> None:
    again = tmp_path / "again" / "0.json"
    encode_file(tmp_path / "0.clean.txt.zst", vocabulary, again)
    for array in ARRAYS:
        assert array_path(again, array).read_bytes() == array_path(shard_set[0], array).read_bytes()
    assert again.read_bytes() == shard_set[0].read_bytes()


@pytest.mark.parametrize("array", ARRAYS)
def test_a_truncated_array_is_named(shard_set: list[Path], array: str) -> None:
    path = array_path(shard_set[0], array)
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match=rf"{path.name}: \d+ bytes, but the manifest says \d+ .*encode the shard again"):
        open_shards(shard_set)


@pytest.mark.parametrize("array", ARRAYS)
def test_a_flipped_byte_is_found_on_request(shard_set: list[Path], array: str) -> None:
    path = array_path(shard_set[0], array)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    open_shards(shard_set)
    with pytest.raises(UserError, match=f"{path.name}: sha256 is"):
        open_shard(shard_set[0], verify=True)


def test_a_missing_array_a_broken_manifest_and_another_version_are_named(shard_set: list[Path]) -> None:
    array_path(shard_set[0], "tokens").unlink()
    with pytest.raises(UserError, match=r"0\.tokens\.bin: missing"):
        open_shard(shard_set[0])
    shard_set[1].write_text("{")
    with pytest.raises(UserError, match=r"1\.json: not a shard manifest"):
        open_shard(shard_set[1])
    manifest = json.loads(shard_set[2].read_text()) | {"version": 99}
    shard_set[2].write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="key version: expected 1"):
        open_shard(shard_set[2])
    with pytest.raises(UserError, match="no such shard"):
        open_shard(shard_set[2].with_name("8.json"))


def test_another_vocabulary_is_refused(tmp_path: Path, shard_set: list[Path]) -> None:
    with pytest.raises(UserError, match="key vocabulary_sha256: encoded with vocabulary"):
        open_shards(shard_set, vocabulary_sha256="0" * 64)
    other = tmp_path / "other.model"
    train((line for document in random_documents(5, 300) for line in document), other, 650)
    encode_file(tmp_path / "0.clean.txt.zst", other, tmp_path / "5.json")
    with pytest.raises(UserError, match="encode both with the same vocabulary"):
        open_shards([shard_set[0], tmp_path / "5.json"])


def test_a_failed_encoding_leaves_no_shard(tmp_path: Path, vocabulary: Path, repository: Path) -> None:
    with zst_writer(tmp_path / "0.clean.tsv.zst") as out:
        out.write("a\tb\nonly one side\n")
    text, out = tmp_path / "0.clean.tsv.zst", tmp_path / "out" / "0.json"
    script = repository / "workflow/scripts/encode_corpus.py"
    result = subprocess.run(
        [sys.executable, script, "--text", text, "--vocabulary", vocabulary, "--out", out],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "0.clean.tsv.zst:2: expected two sides separated by a tab" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_documents_are_never_cut_between_batches(tmp_path: Path) -> None:
    documents = [[f"line {i}"] * 3000 for i in range(9)]
    write_documents(tmp_path / "0.clean.txt.zst", documents)
    batches = list(read_mono(tmp_path / "0.clean.txt.zst"))
    assert len(batches) > 1
    assert [length for _, lengths in batches for length in lengths] == [3000] * 9


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent\.txt\.zst: no such file"):
        sha256_of(tmp_path / "absent.txt.zst")
