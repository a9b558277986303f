import gzip
import io
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import zstandard

from common.errors import UserError
from corpus import language_id as lid
from corpus.characters import (
    CharacterClasses,
    Characters,
    _joining_marks,
    characters_of,
    normalise,
    normalise_lines,
    script_names,
    spaced_words,
)
from corpus.cleaning import Duplicates
from corpus.corpusio import (
    DecontaminationThresholds,
    DuplicateThresholds,
    PairModelThresholds,
    file_and_line,
    header_line,
    load_thresholds,
    read_batches,
    read_lines,
    zst_writer,
)
from corpus.duplicates import (
    DUPLICATE,
    EXACT,
    NEAR,
    SCRATCH,
    SKELETON,
    find_duplicates,
    most_equal,
    scratch_folder,
    sketches,
)
from corpus.eval_index import READERS, build_index, parse_tasks, read_units
from corpus.likeness import EvalIndex, leaked, minhash
from corpus.pair_model import sample_pairs, train_pair_model
from corpus.sides import choose_members
from corpus.textfilters import (
    copied,
    is_broken,
    long_word,
    repetitive,
    too_long,
    too_many_numbers,
    too_many_symbols,
    too_short,
    unequal_lengths,
    wrong_script,
)
from corpus.words import Words, fold, words_of
from report_cleaning import find_leaks, plain, report
from split_corpus import pair_suffixes, split_bitext, split_mono

LATIN = CharacterClasses("Latn")

# Made-up languages: a lexicon of stems each, so that text is plentiful, differs and translates word by word.
WORDS = 400


def lexicon(seed: int, consonants: str, vowels: str) -> list[str]:
    rng = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(rng.choice(consonants) + rng.choice(vowels) for _ in range(rng.randint(2, 4)))] = None
    return list(words)


EN = lexicon(1, "bdklmnprst", "aeio")
DE = lexicon(2, "fghjvwzqcx", "äöüu")
ZH = lexicon(3, "的一是不了人我在有他这中大来上国", "个到说们为子和你地出道也时年得就")


def sentence(words: Sequence[str], ids: Sequence[int], glue: str = " ") -> str:
    return glue.join(words[i] for i in ids) + ("." if glue else "。")


def random_ids(rng: random.Random) -> list[int]:
    return [rng.randrange(WORDS) for _ in range(rng.randint(5, 12))]


def documents(words: Sequence[str], seed: int, count: int, glue: str = " ") -> list[list[str]]:
    rng = random.Random(seed)
    return [[sentence(words, random_ids(rng), glue) for _ in range(rng.randint(3, 6))] for _ in range(count)]


def write_raw(path: Path, texts: Sequence[Sequence[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8", newline="\n") as out:
        out.write("\n".join("\n".join(lines) + "\n" for lines in texts))
    return path


def write_moses(path: Path, pairs: Sequence[tuple[str, str]], codes: str = "de-en") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for side, code in enumerate(codes.split("-")):
            archive.writestr(f"Europarl.{codes}.{code}", "".join(pair[side] + "\n" for pair in pairs))
        archive.writestr(f"Europarl.{codes}.xml", "<x/>")
    return path


def run(repository: Path, script: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess:
    command = [sys.executable, f"workflow/scripts/{script}.py", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert not check or result.returncode == 0, result.stderr
    return result


# Normalisation and folding


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  a \t b\u00a0c  ", "a b c"),
        ("e\u0301te\u0301", "été"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen", "zerowidth softhyphen"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("line\u2028separator\x0bhere", "line separator here"),
        ("\u2581piece", "_piece"),
        ("a\x00b\x07", "ab"),
        ("\u200b \u00a0", ""),
    ],
)
def test_normalise(raw: str, clean: str) -> None:
    assert normalise(raw) == clean
    assert normalise(clean) == clean


def test_folding_joins_spellings_and_keeps_words_apart() -> None:
    assert fold("ÉTÉ, “Été”!").split() == ["ete", "ete"]
    assert fold("ｆｕｌｌ ﬁn").split() == ["full", "fin"]
    assert fold("猫看狗。").split() == ["猫", "看", "狗"]
    assert fold("कि की").split() == ["कि", "की"]  # vowel signs tell words apart
    assert fold("سَلَام").split() == fold("سلام").split()


def test_word_hashes_depend_on_the_word_alone() -> None:
    lines = ["one two three", "", "three, TWO one!", "猫 one"]
    words = words_of(lines)
    assert words.offsets.tolist() == [0, 3, 3, 6, 8]
    assert words.hashes[:3].tolist() == words.hashes[5:2:-1].tolist()
    assert words.hashes[7] == words.hashes[0]
    assert words.lengths.tolist() == [3, 3, 5, 5, 3, 3, 1, 3]
    assert len(set(words_of([f"w{i}" for i in range(20000)]).hashes.tolist())) == 20000
    alone = words_of(["猫 one"])
    assert alone.hashes.tolist() == words.hashes[6:].tolist()


@pytest.mark.parametrize("lines", [[], [""], ["", ""], ["...", "!"]])
def test_lines_without_words(lines: list[str]) -> None:
    words = words_of(lines)
    assert len(words.offsets) == len(lines) + 1 and len(words.hashes) == 0
    assert words.skeletons.tolist() == [0] * len(lines)
    assert not leaked(words, EvalIndex(np.array([[1, 3, 0]], np.uint64))).any()


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 18])
def test_only_a_line_feed_ends_a_line_wherever_blocks_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("corpus.corpusio._BLOCK", block)
    (tmp_path / "x.txt").write_bytes("a\r\n\nü\u2028b\r\n\x0cc\xff".encode("utf-8")[:-2] + b"\xff\n\nlast\r")
    assert list(read_lines(tmp_path / "x.txt")) == ["a", "", "ü\u2028b", "\x0cc\ufffd", "", "last"]


@pytest.mark.parametrize("block", [1, 3, 1 << 18])
def test_a_line_without_end_is_cut_and_the_next_one_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("split_corpus.LONGEST_LINE", 10)
    monkeypatch.setattr("corpus.corpusio._BLOCK", block)
    lines = ["short", "x" * 9, "x" * 10, "y" * 11, "", "z" * 50, "end", "w" * 25]
    (tmp_path / "x.txt").write_text("\n".join(lines))
    read = list(read_lines(tmp_path / "x.txt", 10))
    assert [line[:10] for line in read] == [line[:10] for line in lines]
    assert max(map(len, read)) < 10 + max(block, 26)
    split_bitext(
        [write_moses(tmp_path / "p.zip", [(a, "b") for a in lines])], [("de",), ("en",)], None, [tmp_path / "0.raw.zst"]
    )
    (batch,) = read_batches(tmp_path / "0.raw.zst", "bitext")
    assert batch.texts == [line[:10] for line in lines] and batch.others == ["b"] * len(lines)


def test_a_document_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("split_corpus.LONGEST_DOCUMENT", 4)
    monkeypatch.setattr("split_corpus.LONGEST_TEXT", 20)
    texts = [["a"] * 4, ["b"] * 9, ["cccccccccc"] * 5, ["d"]]
    split_mono([write_raw(tmp_path / "x.txt.xz", texts)], None, [tmp_path / "0.raw.zst"])
    (batch,) = read_batches(tmp_path / "0.raw.zst", "mono")
    assert np.diff([*batch.starts, len(batch)]).tolist() == [4, 4, 4, 1, 2, 2, 1, 1]
    assert batch.texts == [line for document in texts for line in document]
    assert [file_and_line(p)[1] for p in batch.places] == [1, 2, 3, 4, *range(6, 15), *range(16, 21), 22]


# What is done to many lines at once is what is done to one


def strange_lines(mirror: Path, seed: int, count: int) -> list[str]:
    """Lines of real text in many scripts, as they are, decomposed, and with characters of anywhere put in."""
    rng = random.Random(seed)
    files = sorted((mirror / "standins" / "data.statmt.org" / "cc-100").glob("*.txt.xz"))
    real = [line for path in rng.sample(files, 8) for line in list(read_lines(path))[:60] if line]
    blocks = [(0x20, 0x7E), (0, 0x2FF), (0x300, 0x36F), (0x590, 0x8FF), (0x900, 0xFFF), (0x1100, 0x11FF),
              (0x1E00, 0x24FF), (0x2E80, 0x33FF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x1D100, 0x2FA1D)]  # fmt: skip
    lines = []
    for _ in range(count):
        line = rng.choice(real)
        if rng.random() < 0.3:
            line = unicodedata.normalize("NFD", line)
        characters = list(line)
        for _ in range(rng.choice([0, 0, 1, 5])):
            first, last = rng.choice(blocks)
            characters.insert(rng.randrange(len(characters) + 1), chr(rng.randint(first, last)))
            characters.insert(rng.randrange(len(characters) + 1), rng.choice("  \t\u0323\u0307\u093c\u0e48\u0e38"))
        lines.append("".join(characters).replace("\n", ""))
    return [*lines, "", " ", "x ", " x", "a  b", "\u0301x", "(10) ⑽ ㏠ ½ ß İ ﬃ"]


@pytest.mark.parametrize("seed", range(3))
def test_many_lines_at_once(mirror: Path, seed: int) -> None:
    raw = strange_lines(mirror, seed, 400)
    lines, codes = normalise_lines(raw)
    assert lines == [normalise(line) for line in raw]
    assert codes.tolist() == [ord(c) for line in lines for c in line + "\n"]
    for given in (lines, raw):
        words = words_of(given)
        expected = [fold(line).split(" ") for line in given]
        expected = [[word for word in line if word] for line in expected]
        assert words.counts.tolist() == [len(line) for line in expected]
        flat = [word for line in expected for word in line]
        assert words.lengths.tolist() == [len(word) for word in flat]
        number = [all(unicodedata.category(c)[0] == "N" for c in word) for word in flat]
        assert words.numbers.tolist() == number
        hashes = dict(zip(flat, words.hashes.tolist(), strict=True))
        assert words.hashes.tolist() == [hashes[word] for word in flat] and len(set(hashes.values())) == len(hashes)
        letters = ["".join(c for w in line for c in w if unicodedata.category(c)[0] != "N") for line in expected]
        assert words.skeleton_lengths.tolist() == list(map(len, letters))
        skeletons = dict(zip(letters, words.skeletons.tolist(), strict=True))
        assert words.skeletons.tolist() == [skeletons[text] for text in letters] and skeletons.get("", 0) == 0
    assert spaced_words(characters_of(lines, LATIN)).tolist() == [len(line.split()) for line in lines]


def test_only_marks_join_the_character_before_them() -> None:
    """All others that do are Korean, which characters._plain knows."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0x110000))
    joining = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    assert joining == _joining_marks() and {unicodedata.category(c)[0] for c in joining} == {"M"}


# Filters: just inside and just outside of each threshold


def flags(lines: Sequence[str], classes: CharacterClasses = LATIN) -> tuple[Characters, Words]:
    return characters_of(lines, classes), words_of(lines)


def test_length_limits() -> None:
    characters, words = flags(["ab c", "abc d", "abcde", "a b c d e"])
    assert too_short(characters, words, 5, 2).tolist() == [True, False, True, False]
    assert too_long(characters, words, 5, 9).tolist() == [False, False, False, True]
    assert too_long(characters, words, 99, 4).tolist() == [False, False, False, True]


def test_symbols_and_numbers() -> None:
    characters, words = flags(["ab.", "a..", "ab 1 2", "a 1 2", "12 34", "", "噕勶咁嚛1962"])
    assert too_many_symbols(characters, 0.34).tolist() == [False, True, False, False, False, False, False]
    assert too_many_numbers(words, 0.67).tolist() == [False, False, False, False, True, False, False]
    assert too_many_numbers(words, 0.66).tolist() == [False, False, True, True, True, False, False]


def test_script_share() -> None:
    characters, _ = flags(["latin words", "кириллица", "half пол", "123", "été ñ"])
    assert wrong_script(characters, 0.5).tolist() == [False, True, False, True, False]
    assert wrong_script(characters, 0.6).tolist() == [False, True, True, True, False]
    chinese = CharacterClasses("Hans,Hant")
    assert wrong_script(characters_of(["猫看狗", "cat", "かな"], chinese), 0.5).tolist() == [False, True, True]
    assert not wrong_script(characters_of(["漢字とかな"], CharacterClasses("Jpan")), 0.9).any()
    with pytest.raises(UserError, match="unknown code 'Xxxx'"):
        CharacterClasses("Xxxx")


def test_every_script_of_the_language_table_is_known(repository: Path) -> None:
    from plan.datasets import load_languages

    for language in load_languages(repository / "config/languages.tsv").values():
        assert script_names(language.script), language


def test_broken_encoding_long_words_and_repetition() -> None:
    characters, _words = flags(["fine", "bro\ufffdken", "private \ue000"])
    assert is_broken(characters).tolist() == [False, True, True]
    assert long_word(words_of(["a" * 10, "a" * 11, "", "b"]), 10).tolist() == [False, True, False, False]
    lines = ["a b a b a b a b", "a b c d", "a a a a", "", "a"]  # 2 of 7 pairs
    assert repetitive(words_of(lines), 0.3, 8).tolist() == [True, False, False, False, False]
    assert repetitive(words_of(lines), 0.28, 8).tolist() == [False] * 5
    assert repetitive(words_of(lines), 0.34, 4).tolist() == [True, False, True, False, False]


def real_lines(mirror: Path, code: str) -> list[str]:
    """FLORES text: professional translations, where every rejected line is a mistake of ours."""
    path = mirror / "standins" / "data.statmt.org" / "cc-100" / f"{code}.txt.xz"
    return [line for raw in read_lines(path) if (line := normalise(raw))]


@pytest.mark.parametrize("code", ["en", "de", "fi", "ru", "hi", "ar", "th", "zh-Hans", "zh-Hant", "ja", "ko", "vi"])
def test_filters_leave_real_text_of_many_scripts_alone(mirror: Path, repository: Path, code: str) -> None:
    from plan.datasets import load_languages

    languages = load_languages(repository / "config/languages.tsv")
    limits = load_thresholds(repository / "config/cleaning.yaml", "mono")
    lines = real_lines(mirror, code)
    classes = CharacterClasses(languages[code.split("-")[0]].script)
    characters, words = flags(lines, classes)
    rejected = {
        "broken": is_broken(characters),
        "symbols": too_many_symbols(characters, limits.symbol_share),
        "numbers": too_many_numbers(words, limits.number_share),
        "short": too_short(characters, words, limits.shortest_characters, limits.shortest_words),
        "long": too_long(characters, words, limits.longest_characters, limits.longest_words),
        "long-word": long_word(words, limits.longest_word),
        "repetitive": repetitive(words, limits.distinct_share, limits.distinct_words),
        "script": wrong_script(characters, limits.script_share),
    }
    assert {name: int(lines.sum()) for name, lines in rejected.items() if lines.mean() > 0.01} == {}


@pytest.mark.parametrize("code", ["en", "th", "zh-Hans", "ja"])
def test_different_real_documents_are_no_near_duplicates(
    tmp_path: Path, mirror: Path, repository: Path, code: str
) -> None:
    thresholds = load_thresholds(repository / "config/cleaning.yaml", "duplicates")
    split_mono([mirror / f"standins/data.statmt.org/cc-100/{code}.txt.xz"], None, [tmp_path / "0.raw.zst"])
    totals = find_duplicates([tmp_path / "0.raw.zst"], [tmp_path / "0.duplicates.npy"], thresholds)
    assert totals == {"exact": 0, "skeleton": 0, "near": 0}


def test_length_ratio_is_relative_to_the_usual_one() -> None:
    a, b = np.array([10, 10, 10, 1]), np.array([10, 25, 30, 4])
    assert unequal_lengths(a, b, 0.0, 2.0, 3).tolist() == [False, True, True, False]
    assert unequal_lengths(b, a, 0.0, 2.0, 3).tolist() == [False, True, True, False]
    assert unequal_lengths(a, b, float(np.log(2.5)), 2.0, 3).tolist() == [True, False, False, False]


def test_copies() -> None:
    a, b = words_of(["Paris 7", "the same text", "one", ""]), words_of(["PARIS 8", "The same text!", "two", ""])
    assert copied(a, b, 1).tolist() == [True, True, False, False]
    assert copied(a, b, 3).tolist() == [False, True, False, False]


# Duplicates

THRESHOLDS = DuplicateThresholds(2, 3, 32, 3, 0.4, 4, 12)


def duplicates_by_line(folder: Path, texts: Sequence[Sequence[str]], shards: int, threads: int = 1) -> dict[int, int]:
    """Reasons by upstream line."""
    raw = write_raw(folder / "x.txt.xz", texts)
    paths = [folder / f"{i}.raw.zst" for i in range(shards)]
    out = [folder / f"{i}.duplicates.npy" for i in range(shards)]
    split_mono([raw], folder, paths)
    find_duplicates(paths, out, THRESHOLDS, threads)
    found = {}
    for path in out:
        found |= {file_and_line(int(place))[1]: int(reasons) for place, reasons in np.load(path)}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return found


def test_exact_skeleton_and_near_duplicates_are_told_apart(tmp_path: Path) -> None:
    first, second, third = documents(EN, 5, 3)
    first = [*first, "in the year 1990 many came here", "abc 1"]
    near = [line.replace(EN[0], EN[1]) for line in first]
    near[0] = " ".join(reversed(near[0].split(" ")[:2])) + " " + " ".join(near[0].split(" ")[2:])
    texts = [
        first,
        [*second, "In  the year 2001, many came here!", "abc 2"],
        [third[0], first[1], *third[1:]],
        near,
    ]
    found = duplicates_by_line(tmp_path, texts, 1)
    lines = [line for document in texts for line in (*document, "")]
    assert found[lines.index(texts[1][-2]) + 1] == SKELETON
    assert lines.index("abc 2") + 1 not in found  # too short to be compared without its number
    copy = len(first) + 1 + len(texts[1]) + 1 + 2
    assert found[copy] & EXACT and lines[copy - 1] == first[1]
    assert found[len(first) + len(texts[1]) + len(texts[2]) + 4] & NEAR
    assert sorted(found)[0] > len(first)  # the first of two stays


@pytest.mark.parametrize("shards", [2, 5])
def test_sharding_and_threads_do_not_change_what_is_a_duplicate(tmp_path: Path, shards: int) -> None:
    rng = random.Random(0)
    texts = documents(EN, 6, 150)
    texts += [list(rng.choice(texts)) for _ in range(30)]
    texts += [[*rng.choice(texts)[:2], sentence(EN, random_ids(rng))] for _ in range(30)]
    rng.shuffle(texts)
    one = duplicates_by_line(tmp_path / "one", texts, 1)
    assert Counter(one.values())[NEAR] + Counter(one.values())[NEAR | EXACT] > 10
    assert duplicates_by_line(tmp_path / "more", texts, shards) == one
    assert duplicates_by_line(tmp_path / "threads", texts, shards, threads=2) == one


def test_a_line_is_not_lost_to_a_document_that_goes_itself(tmp_path: Path) -> None:
    original = documents(EN, 8, 1)[0]
    changed = [*original[:-1], "a new line that only the copy and a later document have"]
    later = [*documents(EN, 9, 1)[0], changed[-1]]
    found = duplicates_by_line(tmp_path, [original, changed, later], 1)
    assert found[len(original) + 2] & NEAR
    assert len(original) + len(changed) + len(later) + 2 not in found


def test_minhash_estimates_the_jaccard_similarity() -> None:
    a = [f"w{i}" for i in range(300)]
    b = a[:200] + [f"v{i}" for i in range(100)]
    words = words_of([" ".join(a), " ".join(b)])
    signatures, shingles = minhash(words, np.array([0, 1]), 3, 4, 512)
    assert shingles.tolist() == [298, 298]
    assert (signatures[0] == signatures[1]).mean() == pytest.approx(198 / 398, abs=0.08)


def duplicates_by_hand(texts: Sequence[Sequence[str]], thresholds: DuplicateThresholds) -> dict[int, int]:
    """The definition, with everything in memory: reasons by upstream line."""
    numbers, number = [], 1
    for document in texts:
        numbers.append(list(range(number, number + len(document))))
        number += len(document) + 1
    values = thresholds.bands * thresholds.rows
    signatures, large = [], []
    for document in texts:
        signature, shingles = minhash(
            words_of([normalise(line) for line in document]),
            np.array([0]),
            thresholds.shingle_words,
            thresholds.shingle_characters,
            values,
        )
        signatures.append(signature[0].tolist())
        large.append(shingles[0] >= thresholds.smallest_document)
    found: dict[int, int] = {}
    near = set()
    for band in range(thresholds.bands):
        buckets: dict[tuple[int, ...], list[int]] = {}
        for d, signature in enumerate(signatures):
            if not large[d]:
                continue
            bucket = buckets.setdefault(tuple(signature[band * thresholds.rows : (band + 1) * thresholds.rows]), [])
            for other in {*bucket[:1], *bucket[-1:]}:
                equal = sum(a == b for a, b in zip(signature, signatures[other], strict=True))
                if equal / values >= thresholds.similarity:
                    near.add(d)
                    found[numbers[d][0]] = NEAR
            bucket.append(d)
    for reason in (EXACT, SKELETON):
        seen = set()
        for d, document in enumerate(texts):
            for number, line in zip(numbers[d], document, strict=True) if d not in near else ():
                key = normalise(line)
                if reason == SKELETON:
                    key = "".join(c for c in fold(key) if unicodedata.category(c)[0] not in "ZN")
                    if len(key) < thresholds.skeleton_characters:
                        continue
                if key in seen:
                    found[number] = found.get(number, 0) | reason
                seen.add(key)
    return found


def dirty_documents(seed: int) -> list[list[str]]:
    """Documents of few words, so that they meet: copies, changed copies, lines of others, other numbers."""
    rng = random.Random(seed)
    words = EN[: rng.choice([20, 200])] + DE[:10]
    texts: list[list[str]] = []
    for _ in range(rng.choice([2, 40, 120])):
        if texts and rng.random() < 0.4:
            document = list(rng.choice(texts))
            for _ in range(rng.randint(0, 3)):
                document[rng.randrange(len(document))] = " ".join(rng.choices(words, k=rng.randint(1, 9)))
        elif texts and rng.random() < 0.2:
            document = [rng.choice(rng.choice(texts)) for _ in range(4)]
        else:
            document = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(rng.randint(1, 7))]
        texts.append([f"{line} {rng.randint(0, 9)}" if rng.random() < 0.2 else line for line in document])
    return texts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_any_memory_and_any_shards_find_what_the_definition_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    texts = dirty_documents(seed)
    expected = duplicates_by_hand(texts, THRESHOLDS)
    monkeypatch.setattr("corpus.duplicates._PAIRS", 5)
    monkeypatch.setattr("corpus.duplicates._DOCUMENTS", 7)
    monkeypatch.setattr("corpus.duplicates._ROWS", 3)
    for shards, held, smallest_line in ((1, 1 << 27, 16), (3, 5000, 16), (4, 2000, 10**6), (2, 300, 10**6)):
        # few partitions and little memory: windows; many partitions: a bucket each
        monkeypatch.setattr("corpus.duplicates._SMALLEST_LINE", smallest_line)
        folder = tmp_path / f"{shards}-{held}"
        raw = write_raw(folder / "x.txt.xz", texts)
        paths = [folder / f"{i}.raw.zst" for i in range(shards)]
        out = [folder / f"{i}.duplicates.npy" for i in range(shards)]
        split_mono([raw], folder, paths)
        totals = find_duplicates(paths, out, THRESHOLDS, held=held)
        found = {file_and_line(int(p))[1]: int(r) for path in out for p, r in np.load(path)}
        assert found == expected
        assert totals["near"] == sum(bool(r & NEAR) for r in expected.values())
    assert seed or sum(bool(r & NEAR) for r in expected.values()) > 5


def test_sketches_never_hide_a_pair() -> None:
    rng = np.random.default_rng(0)
    for values in (31, 32, 96):
        a = rng.integers(0, 4, (500, values)).astype(np.uint32) * 5
        b = np.where(rng.random((500, values)) < 0.5, a, rng.integers(0, 2**32, (500, values))).astype(np.uint32)
        bound = most_equal(sketches(a), sketches(b), values)
        assert (bound >= (a == b).sum(axis=1)).all() and (bound == (a % 4 == b % 4).sum(axis=1)).all()


def test_a_search_that_was_killed_reads_finished_shards_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    raw = write_raw(tmp_path / "x.txt.xz", dirty_documents(2) + documents(EN, 3, 50))
    shards = [tmp_path / f"{i}.raw.zst" for i in range(3)]
    split_mono([raw], tmp_path, shards)
    whole = [tmp_path / f"{i}.whole.npy" for i in range(3)]
    find_duplicates(shards, whole, THRESHOLDS)
    killed = (
        "import os, sys; sys.path.insert(0, 'workflow/scripts'); import find_duplicates\n"
        "import corpus.duplicates as f\n"
        "f.Partitions.close_ = f.Partitions.close\n"
        "f.Partitions.close = lambda s: os.kill(os.getpid(), 9) if s.path.name == '2.exact' else s.close_()\n"
        "sys.argv[0] = 'find_duplicates.py'; find_duplicates.main()"
    )
    out = [tmp_path / f"{i}.npy" for i in range(3)]
    command = [sys.executable, "-c", killed, "--shards", *map(str, shards), "--out", *map(str, out)]
    assert subprocess.run(command, cwd=repository).returncode == -9
    assert not any(path.exists() for path in out)
    assert (tmp_path / SCRATCH / "1.done.json").exists() and not (tmp_path / SCRATCH / "2.done.json").exists()
    read = []
    monkeypatch.setattr(
        "corpus.duplicates.read_batches", lambda path, kind: read.append(path) or read_batches(path, kind)
    )
    thresholds = load_thresholds(repository / "config/cleaning.yaml", "duplicates")
    find_duplicates(shards, out, thresholds)
    assert read == shards[2:]
    assert [path.read_bytes() for path in out] == [path.read_bytes() for path in whole]
    assert not (tmp_path / SCRATCH).exists()
    # a shard that was made again is read again
    subprocess.run(command, cwd=repository)
    split_mono([write_raw(raw, dirty_documents(3))], tmp_path, shards)
    read.clear()
    find_duplicates(shards, out, thresholds)
    find_duplicates(shards, whole, thresholds)
    assert read[:3] == shards and [path.read_bytes() for path in out] == [path.read_bytes() for path in whole]


def test_two_searches_in_one_folder_and_a_failing_one(tmp_path: Path) -> None:
    shard, out = tmp_path / "0.raw.zst", tmp_path / "0.npy"
    split_mono([write_raw(tmp_path / "x.txt.xz", documents(EN, 3, 5))], tmp_path, [shard])
    with scratch_folder(tmp_path, {}), pytest.raises(UserError, match="another find_duplicates works there"):
        find_duplicates([shard], [out], THRESHOLDS)
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(UserError, match="broken after line"):
        find_duplicates([shard], [out], THRESHOLDS)
    assert not out.exists() and not (tmp_path / SCRATCH).exists()


def test_a_disk_that_takes_no_more_is_named_and_left_clean(tmp_path: Path, repository: Path) -> None:
    shard, out = tmp_path / "0.raw.zst", tmp_path / "0.npy"
    split_mono([write_raw(tmp_path / "x.txt.xz", documents(EN, 3, 300))], tmp_path, [shard])
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "sys.path.insert(0, 'workflow/scripts'); import find_duplicates as f; f.run_main(f.main)"
    )
    command = [sys.executable, "-c", limited, "--shards", str(shard), "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert result.returncode == 2 and "the file would be larger than is allowed here" in result.stderr, result.stderr
    assert not out.exists() and not (tmp_path / SCRATCH).exists()


def test_duplicates_are_read_along_with_their_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus.cleaning._DUPLICATES", 3)
    rng = random.Random(0)
    for length in (0, 1, 2, 50):
        listed = sorted(rng.sample(range(200), length))
        np.save(tmp_path / "x.npy", np.array([(p, 1 + p % 7) for p in listed], DUPLICATE))
        duplicates = Duplicates(tmp_path / "x.npy")
        places = sorted(rng.sample(range(200), 120))
        while places:
            batch, places = places[: (n := rng.randint(1, 30))], places[n:]
            expected = [1 + p % 7 if p in listed else 0 for p in batch]
            assert duplicates.reasons(np.array(batch, np.uint64)).tolist() == expected
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    with pytest.raises(UserError, match="not a list of duplicates"):
        Duplicates(tmp_path / "x.npy")


# Decontamination

INSIDE = DecontaminationThresholds(inside_words=3, inside_letters=14, window_words=40, similarity=0)


def index_of(tmp_path: Path, tests: Sequence[str], thresholds: DecontaminationThresholds = INSIDE) -> np.ndarray:
    path = tmp_path / "tests.txt"
    path.write_text("\n".join(tests) + "\n", encoding="utf-8")
    return build_index([("text", path)], thresholds)


def leaks(index: np.ndarray, lines: Sequence[str]) -> list[bool]:
    return leaked(words_of([normalise(line) for line in lines]), EvalIndex(index)).tolist()


def test_test_sentences_are_found_whole_embedded_and_disguised(tmp_path: Path) -> None:
    test = "Where have all the flowers gone?"
    index = index_of(tmp_path, [test, "Été à la plage avec Zoë.", "Yes.", "猫在老房子旁边看见狗。"])
    found = [
        test,
        f"She sang: “{test}” and left.",
        "WHERE  have all the\u00a0flowers gone",
        "Ｗｈｅｒｅ ｈａｖｅ ａｌｌ ｔｈｅ ｆｌｏｗｅｒｓ ｇｏｎｅ？",
        unicodedata.normalize("NFD", "x été à la plage avec Zoë x"),
        "yes",
        "今天猫在老房子旁边看见狗了",
    ]
    assert leaks(index, found) == [True] * len(found)
    clean = [
        "Where have all the flowers",
        "Somewhere have all the flowers gone",
        "yes indeed",
        "猫在老房子",
        "",
        "gone?",
    ]
    assert leaks(index, clean) == [False] * len(clean)


def test_a_short_test_sentence_only_matches_a_whole_line(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["I don't know."])  # four words, ten letters
    assert leaks(index, ["i don’t know!", "I don't know what to do"]) == [True, False]
    longer = index_of(tmp_path, ["I don't know."], DecontaminationThresholds(3, 5, 40, 0))
    assert leaks(longer, ["I don't know what to do"]) == [True]


def test_one_window_of_a_long_test_paragraph_is_enough(tmp_path: Path) -> None:
    paragraph = " ".join(f"word{i}" for i in range(100))
    index = index_of(tmp_path, [paragraph])
    inside = " ".join(f"word{i}" for i in range(35, 85))
    assert leaks(index, [f"so {inside} so", " ".join(f"word{i}" for i in range(45, 75))]) == [True, False]


def test_leaks_agree_with_a_search_for_substrings(tmp_path: Path) -> None:
    rng = random.Random(4)
    few = EN[:12]  # a small vocabulary, so that chance makes both hits and near misses
    tests = [" ".join(rng.choices(few, k=rng.randint(1, 5))) for _ in range(60)]
    lines = [" ".join(rng.choices(few, k=rng.randint(1, 14))) for _ in range(3000)]
    index = index_of(tmp_path, tests, DecontaminationThresholds(3, 1, 40, 0))
    expected = [
        any(f" {test} " in f" {line} " if test.count(" ") >= 2 else test == line for test in tests) for line in lines
    ]
    assert 100 < sum(expected) < 2900
    assert leaks(index, lines) == expected


def test_readers_of_evaluation_sets(tmp_path: Path) -> None:
    columns = ["language", "gold_label", *"abcd", "sentence1", "sentence2", "promptID"]
    with zipfile.ZipFile(tmp_path / "xnli.zip", "w") as archive:
        for split in ("dev", "test"):
            rows = [
                "\t".join(columns),
                "\t".join(["en", "neutral", *"0000", f'"Premise {split}', f"Hypo {split}", "1"]),
            ]
            archive.writestr(f"XNLI-1.0/xnli.{split}.tsv", "\n".join(rows) + "\n")
            archive.writestr(f"__MACOSX/XNLI-1.0/._xnli.{split}.tsv", "junk")
    with tarfile.open(tmp_path / "ud.tgz", "w:gz") as archive:
        for split in ("train", "dev", "test"):
            data = f"# sent_id = 1\n# text = The {split} text.\n1\tThe\n\n".encode()
            member = tarfile.TarInfo(f"ud-treebanks-v2.5/UD_English-EWT/en_ewt-ud-{split}.conllu")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (tmp_path / "t.deu").write_text("Ein Satz.\n\nZwei.\n")
    texts = {
        "xnli": ['"Premise dev', "Hypo dev", '"Premise test', "Hypo test"],
        "ud-pos": ["The dev text.", "The test text."],
        "tatoeba": ["Ein Satz.", "Zwei."],
        "wmt14-en-de": ["Ein Satz.", "Zwei."],
        "wmt14-en-fr": ["Ein Satz.", "Zwei."],
    }
    files = {"xnli": "xnli.zip", "ud-pos": "ud.tgz"}
    for task, expected in texts.items():
        name = files.get(task, "t.deu")
        assert list(read_units(task, tmp_path / name)) == expected


def test_broken_evaluation_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK no zip")
    with pytest.raises(UserError, match=r"x\.zip: broken after unit 0"):
        list(read_units("xnli", tmp_path / "x.zip"))
    with pytest.raises(UserError, match=r"write name=path with a name of .*xnli"):
        parse_tasks(["nonsense=file"])
    with pytest.raises(UserError, match="no such file"):
        list(read_units("text", tmp_path / "absent"))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UserError, match="no text in it"):
        build_index([("text", tmp_path / "empty")], INSIDE)


# Language identification


def language_texts(folder: Path) -> list[str]:
    made = {"en": (EN, " "), "de": (DE, " "), "zh": (ZH, "")}
    return [f"{k}={write_raw(folder / f'{k}.txt.xz', documents(w, 11, 150, glue))}" for k, (w, glue) in made.items()]


@pytest.fixture(scope="module")
def language_id(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    folder = tmp_path_factory.mktemp("language-id")
    run(repository, "train_language_id", "--text", *language_texts(folder), "--out", folder / "a.bin")
    return folder / "a.bin"


def test_training_a_language_identifier_twice_gives_the_same_bytes(
    tmp_path: Path, language_id: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no path is ASCII, and the locale knows nothing else."""
    folder = tmp_path / "é日"
    folder.mkdir()
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TMPDIR": str(folder)}
    for name, value in ascii_only.items():
        monkeypatch.setenv(name, value)
    run(repository, "train_language_id", "--text", *language_texts(folder), "--out", folder / "b.bin")
    assert (folder / "b.bin").read_bytes() == language_id.read_bytes()
    strange = os.fsencode(tmp_path) + b"/caf\xe9.bin"
    shutil.copy(language_id, strange)
    assert lid.LanguageId(os.fsdecode(strange), 3).has("zh")


def test_languages_are_told_apart(language_id: Path) -> None:
    model = lid.LanguageId(str(language_id), 3)
    assert model.has("zh") and not model.has("sw")
    for words, glue, label in ((EN, " ", "en"), (DE, " ", "de"), (ZH, "", "zh")):
        for (line,) in ([lines[0]] for lines in documents(words, 99, 20, glue)):
            [predictions] = model.predict([line + "\nmore"])  # a line end does not raise
            assert predictions[0][0] == label and len(predictions) == 3
            assert sum(p for _, p in predictions) == pytest.approx(1, abs=0.01)
    lines = [sentence(EN, range(5)), sentence(DE, range(5))]
    asked = np.array([True, True])
    assert lid.wrong_language(lines, asked, model, "en", 0.5).tolist() == [False, True]
    assert lid.wrong_language(lines, ~asked, model, "en", 0.5).tolist() == [False, False]


def test_a_broken_language_identifier_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"x\.bin: not a fastText model"):
        lid.LanguageId(str(tmp_path / "x.bin"), 3)


def test_a_damaged_language_identifier_is_one_line_or_works(
    language_id: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 seeded inputs: fastText asks nothing of what it reads; some of them kill it, some are read without end."""
    monkeypatch.setattr(lid, "SECONDS_TO_READ", 1)
    whole, chance, until = language_id.read_bytes(), random.Random(22), time.monotonic() + 8
    path, refused = tmp_path / "model.bin", 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            data[chance.choice((chance.randrange(len(data)), chance.randrange(120)))] ^= 1 << chance.randrange(8)
        path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
        try:
            lid.LanguageId(str(path), 3)
        except UserError as error:
            assert str(error).startswith(f"{path}: not a fastText model (") and "\n" not in str(error)
            refused += 1
        if time.monotonic() > until:
            break
    assert refused > 3
    path.write_bytes(whole)
    assert lid.LanguageId(str(path), 3).has("zh")


# Pair model

PAIR = PairModelThresholds(50000, 20_000_000, 50000, 2, 5, 0.1)


def parallel(seed: int, count: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        ids = random_ids(rng)
        pairs.append((sentence(DE, sorted(ids)), sentence(EN, ids)))
    return pairs


def test_misaligned_pairs_gain_little() -> None:
    good = parallel(1, 2000)
    bad = [(good[i][0], good[i + 7][1]) for i in range(100)]
    model = train_pair_model([a for a, _ in good + bad], [b for _, b in good + bad], PAIR)
    fresh = parallel(2, 300)
    wrong = [(fresh[i][0], fresh[(i + 1) % 300][1]) for i in range(300)]

    def gains(pairs: list[tuple[str, str]]) -> np.ndarray:
        return model.gain(words_of([a for a, _ in pairs]), words_of([b for _, b in pairs]))

    assert (gains(fresh) >= 0.5 * model.usual_gain).mean() > 0.99
    assert (gains(wrong) < 0.5 * model.usual_gain).mean() > 0.99
    assert abs(model.log_length_ratio) < 0.05
    assert model.gain(words_of(["", "qqq"]), words_of(["x", "zzz"])).tolist() == [0.0, 0.0]


def test_model_one_finds_the_dictionary() -> None:
    left, right = zip(*parallel(3, 1500), strict=True)
    model = train_pair_model(list(left), list(right), PAIR)
    known = model.vocabularies[1]
    found = 0
    for german, english in zip(DE, EN, strict=True):
        source = np.searchsorted(model.vocabularies[0], words_of([german]).hashes[0])
        cells = np.flatnonzero(model.forward.cells // np.uint64(len(known)) == source)
        best = model.forward.cells[cells[np.argmax(model.forward.ratios[cells])]] % np.uint64(len(known))
        found += known[int(best)] == words_of([english]).hashes[0]
    assert found > 0.95 * WORDS


def test_the_sample_is_the_same_for_any_number_of_shards(tmp_path: Path) -> None:
    archive = write_moses(tmp_path / "de-en.txt.zip", parallel(4, 500))
    samples = []
    for shards in (1, 3):
        paths = [tmp_path / str(shards) / f"{i}.raw.zst" for i in range(shards)]
        split_bitext([archive], [("de",), ("en",)], tmp_path, paths)
        samples.append(sample_pairs(paths, PairModelThresholds(100, 10**6, 100, 2, 1, 0.1)))
    assert samples[0] == samples[1] and len(samples[0][0]) == 100


# The chain


def clean_chain(
    repository: Path, folder: Path, raw: Path, language_id: Path, tests: Path, shards: int, *extra: str
) -> tuple[list[list[str]], list[tuple[int, str]], list[dict]]:
    """Kept documents in upstream order of their shards, rejects (line, reason) and counts."""
    names = range(shards)
    run(repository, "split_corpus", "mono", "--text", raw, "--root", raw.parent, "--out",
        *(folder / f"{i}.raw.zst" for i in names))  # fmt: skip
    run(repository, "find_duplicates", "--shards", *(folder / f"{i}.raw.zst" for i in names), "--out",
        *(folder / f"{i}.duplicates.npy" for i in names))  # fmt: skip
    run(repository, "index_eval_sets", "--task", f"text={tests}", "--out", folder / "index.npy")
    kept, rejects, counts = [], [], []
    for i in names:
        run(repository, "clean_mono", "--shard", folder / f"{i}.raw.zst",
            "--duplicates", folder / f"{i}.duplicates.npy", "--language-id", language_id,
            "--eval-index", folder / "index.npy", "--language", "en", "--out", folder / f"{i}.clean.txt.zst",
            "--counts", folder / f"{i}.clean.json",
            "--rejects", folder / f"{i}.rejects.tsv.zst", *extra)  # fmt: skip
        text = "\n".join(read_lines(folder / f"{i}.clean.txt.zst"))
        kept += [document.strip("\n").split("\n") for document in text.split("\n\n") if document.strip("\n")]
        for line in read_lines(folder / f"{i}.rejects.tsv.zst"):
            name, number, reason = line.split("\t")
            assert name == raw.name
            rejects.append((int(number), reason))
        counts.append(json.loads((folder / f"{i}.clean.json").read_text()))
    return kept, sorted(rejects), counts


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[int, str], list[list[str]]]:
    """A file with planted lines of each kind, its test sentences, the kinds by line, and the clean documents."""
    folder = tmp_path_factory.mktemp("dirty")
    clean = documents(EN, 20, 120)
    texts = [list(document) for document in clean]
    tests = [sentence(EN, ids) for ids in ([3, 1, 4, 1, 5], [9, 2, 6, 5, 3, 5])]
    planted = {
        "language": sentence(DE, range(6)),
        "script": sentence(ZH, range(6), ""),
        "symbols": "#@| <>{} []~^ *_=+ %$",
        "numbers": "12 7 1984 33 6 5 1",
        "too-short": "ab",
        "too-long": sentence(EN, [i % WORDS for i in range(600)]),
        "test-sentence": tests[0],
        "long-word": f"{'ab' * 40} {sentence(EN, range(3))}",
        "broken-encoding": f"{EN[0]}\ufffd {sentence(EN, range(9, 14))}",
        "repetitive": " ".join([EN[0], EN[1]] * 10),
        "empty": "\u200b",
    }
    kinds: dict[tuple[int, int], str] = {}
    for d, (kind, line) in enumerate(planted.items()):
        texts[3 * d].insert(1, line)
        kinds[3 * d, 1] = kind
    texts[60].append(f"{clean[60][0]} {tests[1]} {clean[61][0]}")
    kinds[60, len(texts[60]) - 1] = "test-sentence"
    texts[70].append(clean[1][0])
    kinds[70, len(texts[70]) - 1] = "duplicate"
    copy = [" ".join(reversed(clean[2][0].split(" ")[:2])) + " " + clean[2][0].split(" ", 2)[2], *clean[2][1:]]
    texts.append(copy)
    kinds |= {(len(texts) - 1, i): "near-duplicate" for i in range(len(copy))}
    by_line, number = {}, 0
    for d, document in enumerate(texts):
        for i in range(len(document)):
            number += 1
            if (d, i) in kinds:
                by_line[number] = kinds[d, i]
        number += 1
    (folder / "tests.txt").write_text("\n".join(tests) + "\n", encoding="utf-8")
    return write_raw(folder / "en.txt.xz", texts), folder / "tests.txt", by_line, clean


def test_every_planted_line_goes_for_its_reason_and_every_clean_one_stays(
    tmp_path: Path, dirty: tuple, language_id: Path, repository: Path
) -> None:
    raw, tests, kinds, clean = dirty
    kept, rejects, (counts,) = clean_chain(repository, tmp_path, raw, language_id, tests, 1)
    assert dict(rejects) == kinds
    assert kept == clean  # documents and their boundaries
    lines = sum(map(len, clean))
    assert counts["out"]["sentences"] == lines and counts["out"]["documents"] == len(clean)
    assert counts["in"]["sentences"] == lines + len(kinds)
    assert counts["rejected"] == dict(Counter(kinds.values()))


@pytest.mark.parametrize("shards", [2, 5])
def test_sharding_does_not_change_what_is_kept(
    tmp_path: Path, dirty: tuple, language_id: Path, repository: Path, shards: int
) -> None:
    raw, tests, kinds, clean = dirty
    kept, rejects, counts = clean_chain(repository, tmp_path, raw, language_id, tests, shards)
    assert dict(rejects) == kinds
    assert sorted(kept) == sorted(clean)
    assert sum(count["out"]["sentences"] for count in counts) == sum(map(len, clean))


def test_a_job_that_runs_again_gives_the_same_bytes_and_leaves_its_inputs(
    tmp_path: Path, dirty: tuple, language_id: Path, repository: Path
) -> None:
    raw, tests, _, _ = dirty
    clean_chain(repository, tmp_path, raw, language_id, tests, 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    raw_bytes = raw.read_bytes()
    (tmp_path / "0.clean.txt.zst").unlink()
    (tmp_path / ".0.clean.txt.zst.1.tmp").write_text("left by a killed job")
    clean_chain(repository, tmp_path, raw, language_id, tests, 1)
    (tmp_path / ".0.clean.txt.zst.1.tmp").unlink()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert raw.read_bytes() == raw_bytes


def test_a_threshold_of_the_scale_overrides_the_file(
    tmp_path: Path, dirty: tuple, language_id: Path, repository: Path
) -> None:
    raw, tests, _, _ = dirty
    overrides = json.dumps({"mono": {"longest_words": 7}})
    _, rejects, _ = clean_chain(repository, tmp_path, raw, language_id, tests, 1, "--overrides", overrides)
    assert Counter(reason for _, reason in rejects)["too-long"] > 100


def clean_pairs(
    repository: Path, folder: Path, pairs: Sequence[tuple[str, str]], language_id: Path, test: str
) -> dict[int, str]:
    """All jobs of a German and English corpus; of each line that goes the reason."""
    archive = write_moses(folder / "host" / "de-en.txt.zip", pairs)
    (folder / "tests.txt").write_text(test + "\n")
    shard = folder / "0.raw.zst"
    split = ("--archive", archive, "--pair", "de-en", "--root", folder, "--out", shard)
    run(repository, "split_corpus", "bitext", *split)
    run(repository, "find_duplicates", "--shards", shard, "--out", folder / "0.duplicates.npy")
    run(repository, "index_eval_sets", "--task", f"text={folder / 'tests.txt'}", "--out", folder / "index.npy")
    run(repository, "train_pair_model", "--shards", shard, "--out", folder / "pair.npz")
    run(repository, "clean_bitext", "--shard", shard, "--duplicates", folder / "0.duplicates.npy",
        "--language-id", language_id, "--eval-index", folder / "index.npy", "--pair-model", folder / "pair.npz",
        "--pair", "de-en", "--out", folder / "0.clean.tsv.zst", "--counts", folder / "0.clean.json",
        "--rejects", folder / "0.rejects.tsv.zst")  # fmt: skip
    return {int(c[1]): c[2] for c in (r.split("\t") for r in read_lines(folder / "0.rejects.tsv.zst"))}


def test_bitext_dirt_of_each_kind_goes_for_its_reason(tmp_path: Path, language_id: Path, repository: Path) -> None:
    pairs = parallel(30, 1500)
    test = sentence(EN, [7, 7, 8, 8, 9])
    planted = [
        ("empty", (pairs[0][0], "")),
        ("copied", (pairs[1][0], pairs[1][0])),
        ("length-ratio", (pairs[2][0], " ".join(b for _, b in pairs[2:8]))),
        ("script", (sentence(ZH, range(2), ""), pairs[3][1])),
        ("duplicate", pairs[4]),
        ("test-sentence", (sentence(DE, [7, 7, 8, 8, 9]), f"{test} {pairs[9][1]}")),
        ("misaligned", (pairs[5][0], next(b for a, b in pairs[6:] if len(a.split()) == len(pairs[5][0].split())))),
    ]
    rows = [*pairs, *(pair for _, pair in planted)]
    rejects = clean_pairs(repository, tmp_path, rows, language_id, test)
    first = (tmp_path / "pair.npz").read_bytes()
    run(repository, "train_pair_model", "--shards", tmp_path / "0.raw.zst", "--out", tmp_path / "pair.npz")
    assert (tmp_path / "pair.npz").read_bytes() == first
    assert rejects == {1501 + i: kind for i, (kind, _) in enumerate(planted)}
    assert list(read_lines(tmp_path / "0.clean.tsv.zst")) == ["\t".join(pair) for pair in pairs]
    name = next(read_lines(tmp_path / "0.rejects.tsv.zst")).split("\t")[0]
    assert name == "host/de-en.txt.zip#Europarl.de-en.de"
    counts = json.loads((tmp_path / "0.clean.json").read_text())
    assert counts["out"]["documents"] == 1500 and counts["out"]["sentences"] == 3000


def test_pairs_of_another_language_go_though_their_words_match(
    tmp_path: Path, language_id: Path, repository: Path
) -> None:
    """English on the German side whose every word has its partner: nothing but the identifier can tell."""
    generator = random.Random(32)
    pairs = parallel(31, 900)
    for _ in range(300):
        ids = random_ids(generator)
        pairs.append((sentence(EN, [(i + 1) % WORDS for i in ids]), sentence(EN, ids)))
    rejects = clean_pairs(repository, tmp_path, pairs, language_id, sentence(EN, [7, 7, 8, 8, 9]))
    assert sum(reason == "language" for reason in rejects.values()) > 270
    assert {*rejects} == {*range(901, 1201)}


# The report must be able to fail


def test_a_scale_can_keep_apart_what_can_be_read(repository: Path) -> None:
    """Another task would be refused by a job, after the downloads."""
    schema = json.loads((repository / "config/schemas/scale.schema.json").read_text(encoding="utf-8"))
    assert {*schema["properties"]["decontaminate"]["items"]["enum"]} == {*READERS} - {"text"}


def test_the_report_counts_what_was_missed_lost_and_left(tmp_path: Path) -> None:
    root, folder = tmp_path / "raw", tmp_path / "corpus" / "mono" / "cc-100" / "en"
    test = "this sentence is of the test set"
    lines = ["clean one here", "dirt found", "dirt missed", "clean but lost", "twice", "twice", f"so {test} so"]
    write_raw(root / "host" / "en.txt.xz", [lines])
    (tmp_path / "tests.txt").write_text(test + "\n")
    write_raw(root / "host" / "untouched.txt.xz", [["dirt of a file of which nothing was rejected"]])
    dirt = [("en", 2), ("en", 3), ("untouched", 1)]
    rows = [f"host/{name}.txt.xz\t{line}\tgarbage\n" for name, line in dirt]
    (tmp_path / "dirt.tsv").write_text("file\tline\tkind\n" + "".join(rows))
    with zst_writer(folder / "0.rejects.tsv.zst") as out:
        out.writelines(f"host/en.txt.xz\t{n}\t{r}\n" for n, r in ((2, "symbols"), (4, "language"), (6, "duplicate")))
    with zst_writer(folder / "0.clean.txt.zst") as out:
        out.write("\n".join(lines[i] for i in (0, 2, 4, 6)) + "\n\n")
    with zst_writer(folder / "0.raw.zst") as out:
        out.write(header_line(["host/en.txt.xz", "host/untouched.txt.xz"], "mono"))
    result = report(tmp_path / "dirt.tsv", root, tmp_path / "corpus", [("text", tmp_path / "tests.txt")])
    assert result["kinds"]["mono/garbage"] == {"planted": 3, "removed": 1, "recall": 1 / 3}
    assert result["clean_lines"]["in"] == 5 and result["clean_lines"]["lost"] == 1
    assert result["clean_lines"]["lost_by_reason"] == {"mono/language": 1}
    assert [leak["text"] for leak in result["test_sentences"]["lines"]] == [lines[6]]
    assert not result["passed"]


def test_the_independent_search_finds_whole_words_only() -> None:
    tests = [plain("Where have all the flowers gone?"), plain("Yes."), plain("猫在老房子旁边")]
    kept = [
        "yes",
        "yes sir",
        "x where HAVE all the flowers gone y\tz",
        "nowhere have all the flowers gone",
        "看猫在老房子旁边了",
    ]
    assert find_leaks(kept, sorted(tests)) == [
        "x where HAVE all the flowers gone y",
        "yes",
        "看猫在老房子旁边了",
    ]


# Constant memory


PEAK = """
import resource, sys
sys.path.insert(0, "workflow/scripts")
sys.argv = sys.argv[1:]
import runpy
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
try:  # Linux counts into ru_maxrss what the parent held when it started this process
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
except FileNotFoundError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak)
"""


def peak_kilobytes(repository: Path, script: str, *arguments: object) -> int:
    command = [sys.executable, "-c", PEAK, f"workflow/scripts/{script}.py", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert result.returncode == 0, result.stderr
    return int(result.stdout.split()[-1])


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, language_id: Path, repository: Path) -> None:
    """A file 20 times as long, in 20 times as many shards: buffers fill, but what is held does not grow on."""
    base = documents(EN, 40, 1000)
    peaks: dict[str, list[int]] = {"split_corpus": [], "find_duplicates": [], "clean_mono": []}
    (tmp_path / "tests.txt").write_text("no such sentence anywhere in here\n")
    run(repository, "index_eval_sets", "--task", f"text={tmp_path / 'tests.txt'}", "--out", tmp_path / "index.npy")
    for times in (1, 20):
        folder = tmp_path / str(times)
        folder.mkdir()
        raw = folder / "en.txt"
        with open(raw, "w", encoding="utf-8") as out:
            for i in range(times):
                out.writelines("\n".join(f"{line} v{i}" for line in document) + "\n\n" for document in base)
        shards = [folder / f"{i}.raw.zst" for i in range(times)]
        found = [folder / f"{i}.duplicates.npy" for i in range(times)]
        peaks["split_corpus"].append(
            peak_kilobytes(repository, "split_corpus", "mono", "--text", raw, "--out", *shards)
        )
        peaks["find_duplicates"].append(
            peak_kilobytes(repository, "find_duplicates", "--shards", *shards, "--out", *found, "--held-mb", 1)
        )
        run(repository, "split_corpus", "mono", "--text", raw, "--out", folder / "whole.raw.zst")
        np.save(folder / "none.npy", np.load(found[0])[:0])
        peaks["clean_mono"].append(
            peak_kilobytes(
                repository,
                "clean_mono",
                "--shard",
                folder / "whole.raw.zst",
                "--duplicates",
                folder / "none.npy",
                "--language-id",
                language_id,
                "--eval-index",
                tmp_path / "index.npy",
                "--language",
                "en",
                "--out",
                folder / "0.clean.txt.zst",
                "--counts",
                folder / "0.json",
                "--rejects",
                folder / "0.tsv.zst",
            )
        )
    growth = {script: (large - small) / 1024 for script, (small, large) in peaks.items()}
    # a writer per shard keeps a window; a batch of lines is the same, and so are the records that are held
    assert growth["find_duplicates"] < 20 and growth["clean_mono"] < 20 and growth["split_corpus"] < 60, growth


# Bad input


def test_bad_upstream_files_are_named(tmp_path: Path) -> None:
    whole = write_raw(tmp_path / "x.txt.xz", documents(EN, 1, 500)).read_bytes()
    (tmp_path / "cut.txt.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cut\.txt\.xz: broken after line \d+"):
        split_mono([tmp_path / "cut.txt.xz"], None, [tmp_path / "0.raw.zst"])
    (tmp_path / "no.txt.xz").write_bytes(b"not xz at all")
    with pytest.raises(UserError, match=r"no\.txt\.xz: broken after line 0"):
        split_mono([tmp_path / "no.txt.xz"], None, [tmp_path / "0.raw.zst"])
    with pytest.raises(UserError, match="no such file"):
        split_mono([tmp_path / "absent.txt.xz"], None, [tmp_path / "0.raw.zst"])
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UserError, match="no line of text"):
        split_mono([tmp_path / "empty.txt"], None, [tmp_path / "0.raw.zst"])
    assert not (tmp_path / "0.raw.zst").exists()


def test_bad_archives_are_named(tmp_path: Path) -> None:
    out, suffixes = [tmp_path / "0.raw.zst"], [("de",), ("en",)]
    with zipfile.ZipFile(tmp_path / "short.zip", "w") as archive:
        archive.writestr("X.de-en.de", "eins\nzwei\n")
        archive.writestr("X.de-en.en", "one\n")
    with pytest.raises(UserError, match=r"short\.zip, X\.de-en\.de, line 2: the second side ends here"):
        split_bitext([tmp_path / "short.zip"], suffixes, None, out)
    with pytest.raises(UserError, match=r"0 members end in \.fr, expected one \(it holds X\.de-en\.de, X\.de-en\.en\)"):
        split_bitext([tmp_path / "short.zip"], [("de",), ("fr",)], None, out)
    good = write_moses(tmp_path / "good.zip", parallel(1, 200)).read_bytes()
    whole = zstandard.compress("".join(f"line {i * i}\n" for i in range(100_000)).encode())
    (tmp_path / "whole.txt.zst").write_bytes(whole + zstandard.compress(b"the second frame\n"))
    lines = list(read_lines(tmp_path / "whole.txt.zst"))
    assert len(lines) == 100_001 and lines[-1] == "the second frame"
    for length in (0, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.txt.zst").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.txt\.zst: broken after line \d+ \(the file ends in the middle\)"):
            list(read_lines(tmp_path / "cut.txt.zst"))
    (tmp_path / "cut.zip").write_bytes(good[:-200])
    with pytest.raises(UserError, match=r"cut\.zip: not a whole archive"):
        split_bitext([tmp_path / "cut.zip"], suffixes, None, out)
    (tmp_path / "cut.tgz").write_bytes(b"\x1f\x8b" + b"x" * 50)
    with pytest.raises(UserError, match=r"cut\.tgz: not a whole archive"):
        split_bitext([tmp_path / "cut.tgz"], suffixes, None, out)
    assert not out[0].exists()


def test_tgz_archives_are_read_too(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "parallel.tgz", "w:gz") as archive:
        for code, text in (("en", "one\ntwo\n"), ("hi", "एक\nदो\n")):
            member = tarfile.TarInfo(f"parallel/IITB.en-hi.{code}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    split_bitext([tmp_path / "parallel.tgz"], [("en",), ("hi",)], None, [tmp_path / "0.raw.zst"])
    (batch,) = read_batches(tmp_path / "0.raw.zst", "bitext")
    assert list(zip(batch.texts, batch.others, strict=True)) == [("one", "एक"), ("two", "दो")]


# The archives of WMT: several pairs in one, named in one order or the other, with other files beside them

WMT_LAYOUTS = {  # how members begin, the pairs as upstream names them, what lies beside them
    "training-parallel-europarl-v7.tgz": (
        "training/europarl-v7.{pair}",
        ["cs-en", "de-en", "es-en", "fr-en"],
        [],
    ),
    "training-parallel-commoncrawl.tgz": (
        "commoncrawl.{pair}",
        ["cs-en", "de-en", "es-en", "fr-en", "ru-en"],
        ["commoncrawl.de-en.annotation", "commoncrawl.fr-en.annotation"],
    ),
    "training-parallel-un.tgz": ("un/undoc.2000.{pair}", ["es-en", "fr-en"], ["un/README"]),
    "training-parallel-nc-v9.tgz": (
        "training/news-commentary-v9.{pair}",
        ["cs-en", "de-en", "fr-en", "ru-en"],
        ["training/._news-commentary-v9.de-en.de", "training/._news-commentary-v9.de-en.en"],
    ),
    "training-parallel-nc-v12.tgz": (
        "training/news-commentary-v12.{pair}",
        ["cs-en", "de-en", "ru-en", "zh-en"],
        ["training/monolingual.en", "training/monolingual.de"],
    ),
    "training-giga-fren.tar": ("giga-fren.release2.fixed", ["fr-en"], []),
}


def write_members(path: Path, members: dict[str, bytes]) -> Path:
    """Folders have entries of their own, as upstream's tars have."""
    level = {"compresslevel": 1} if path.suffix == ".tgz" else {}
    with tarfile.open(path, "w:gz" if level else "w", **level) as archive:
        for folder in sorted({name.rpartition("/")[0] for name in members} - {""}):
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def wmt_lines(pair: str, side: str, count: int = 40) -> list[str]:
    """Says of which pair and side it is; the rest does not compress."""
    rng = random.Random(f"{pair} {side}")
    return [f"{pair} {side} {number} {rng.getrandbits(256):x}" for number in range(count)]


def wmt_members(name: str, count: int = 40) -> dict[str, bytes]:
    stem, pairs, others = WMT_LAYOUTS[name]
    members = {other: b"something else\n" for other in others}
    for pair in pairs:
        for side in pair.split("-"):
            text = "".join(line + "\n" for line in wmt_lines(pair, side, count)).encode()
            member = f"{stem.format(pair=pair)}.{side}"
            if "giga" in name:
                members[f"{member}.gz"] = gzip.compress(text, 1, mtime=0)
            else:
                members[member] = text
    return members


def wmt_cases() -> list[tuple[str, str]]:
    return [(name, pair) for name, (_, pairs, _) in WMT_LAYOUTS.items() for pair in pairs if pair in ("de-en", "fr-en")]


def sides_of(pair: str, repository: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """The codes in the order of the project, and what the members of a pair may end in."""
    codes = sorted(pair.split("-"))
    return codes, pair_suffixes("-".join(codes), None, str(repository / "config/languages.tsv"))


@pytest.mark.parametrize(("name", "pair"), wmt_cases())
def test_a_pair_is_found_in_an_archive_of_wmt(tmp_path: Path, repository: Path, name: str, pair: str) -> None:
    codes, suffixes = sides_of(pair, repository)
    archive = write_members(tmp_path / name, wmt_members(name))
    shards = [tmp_path / f"{i}.raw.zst" for i in range(3)]
    assert split_bitext([archive], suffixes, tmp_path, shards) == {"pairs": 40}
    found = []
    for shard in shards:
        header = json.loads(next(read_lines(shard)))
        stem = WMT_LAYOUTS[name][0].format(pair=pair)
        assert header["files"] == [f"{name}#{stem}.{codes[0]}" + (".gz" if "giga" in name else "")]
        for batch in read_batches(shard, "bitext"):
            places = [file_and_line(int(place)) for place in batch.places]
            found += zip(places, batch.texts, batch.others, strict=True)
    sides = [wmt_lines(pair, code) for code in codes]
    assert sorted(found) == [((0, i + 1), a, b) for i, (a, b) in enumerate(zip(*sides, strict=True))]


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.8])
@pytest.mark.parametrize(("name", "pair"), wmt_cases())
def test_an_archive_of_wmt_that_is_cut_short_is_broken(
    tmp_path: Path, repository: Path, name: str, pair: str, share: float
) -> None:
    _, suffixes = sides_of(pair, repository)
    whole = write_members(tmp_path / name, wmt_members(name, 400)).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match=rf"{name}: (not a whole archive|broken|\d members end in)"):
        split_bitext([tmp_path / name], suffixes, None, [tmp_path / "0.raw.zst"])
    assert not (tmp_path / "0.raw.zst").exists()


@pytest.mark.parametrize("side", ["en", "fr"])
def test_a_compressed_member_that_is_cut_short_is_broken(tmp_path: Path, side: str) -> None:
    members = wmt_members("training-giga-fren.tar", 4000)
    name = f"giga-fren.release2.fixed.{side}.gz"
    whole = members[name]
    for cut, where in ((whole[: len(whole) // 2], r"[1-9]\d*"), (whole[:-4], "4000"), (b"", "0"), (b"plain\n", "0")):
        archive = write_members(tmp_path / "giga.tar", {**members, name: cut})
        what = rf"broken after pair {where}" if cut else r"line 1: the \w+ side ends here"
        with pytest.raises(UserError, match=rf"giga\.tar.*{what}"):
            split_bitext([archive], [("en",), ("fr",)], None, [tmp_path / "0.raw.zst"])


@pytest.mark.parametrize(("name", "pair"), wmt_cases())
def test_sides_of_unequal_length_are_named(tmp_path: Path, repository: Path, name: str, pair: str) -> None:
    codes, suffixes = sides_of(pair, repository)
    members = wmt_members(name)
    [second] = {f"{WMT_LAYOUTS[name][0].format(pair=pair)}.{codes[1]}{end}" for end in ("", ".gz")} & set(members)
    shorter = wmt_members(name, 39)
    archive = write_members(tmp_path / name, {**members, second: shorter[second]})
    with pytest.raises(UserError, match=rf"{name}, .*\.{codes[0]}.*, line 40: the second side ends here"):
        split_bitext([archive], suffixes, None, [tmp_path / "0.raw.zst"])


@pytest.mark.parametrize(
    ("names", "codes", "chosen"),
    [
        (["a.de-en.de", "a.de-en.en", "a.de", "a.en"], "de-en", "a.de-en."),
        (["a.en-de.de", "a.en-de.en", "a.en-fr.en", "a.en-fr.fr"], "de-en", "a.en-de."),
        (["en-de.de", "en-de.en", "dev/x.de", "dev/x.en"], "de-en", "en-de."),
        (["a/de", "a/en", "b/en", "b/fr"], "de-en", "a/"),
        (["a.de", "a.en", "README.en"], "de-en", "a."),
        (["x.de-en.de", "x.de-en.en", "x.fr-en.fr", "x.fr-en.en"], "fr-en", "x.fr-en."),
    ],
)
def test_the_members_of_a_pair_have_one_name(names: list[str], codes: str, chosen: str) -> None:
    first, second = codes.split("-")
    for order in (names, names[::-1]):
        found = choose_members(Path("x.tar"), order, [(first,), (second,)])
        assert found == (chosen + first, chosen + second)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x.de-en.de", "x.de-en.en", "x.fr-en.fr", "x.fr-en.en"], r"no two members .* ends \.de and \.fr \(it holds"),
        (["x.de", "y.fr", "x.en"], r"no two members have one name"),
        (["1/x.de-fr.de", "1/x.de-fr.fr", "2/x.de-fr.de", "2/x.de-fr.fr"], r"2 members end in \.de, expected one"),
        (["x.de", "x.de.gz", "x.fr"], r"2 members end in \.de, expected one"),
        (
            ["x.de", "x.fr", "y.de", "y.fr"],
            r"2 members end in \.de, expected one \(it holds x\.de, x\.fr, y\.de, y\.fr\)",
        ),
        (["x.en"], r"0 members end in \.de, expected one \(it holds x\.en\)"),
        ([f"{i:02}.de" for i in range(30)], r"23\.de and 6 more\); pass the two suffixes with --members"),
    ],
)
def test_members_that_are_no_pair_are_listed(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_members(Path("x.tar"), names, [("de",), ("fr",)])


def test_members_can_be_named_by_their_ends(tmp_path: Path, repository: Path) -> None:
    archive = write_members(tmp_path / "x.tgz", wmt_members("training-parallel-europarl-v7.tgz"))
    shard = tmp_path / "0.raw.zst"
    run(repository, "split_corpus", "bitext", "--archive", archive, "--pair", "cs-es",
        "--members", "cs-en.cs", "es-en.es", "--out", shard)  # fmt: skip
    (batch,) = read_batches(shard, "bitext")
    assert batch.texts == wmt_lines("cs-en", "cs") and batch.others == wmt_lines("es-en", "es")


@pytest.mark.parametrize("name", ["training-parallel-nc-v9.tgz", "training-giga-fren.tar"])
def test_memory_does_not_grow_with_an_archive(tmp_path: Path, repository: Path, name: str) -> None:
    """20 MB of text more may not cost 20 MB."""
    peaks = []
    for count in (500, 100_000):
        archive = write_members(tmp_path / name, wmt_members(name, count))
        arguments = ["--archive", archive, "--pair", "en-fr", "--out", tmp_path / "0.raw.zst"]
        peaks.append(peak_kilobytes(repository, "split_corpus", "bitext", *arguments))
    assert (peaks[1] - peaks[0]) / 1024 < 10, peaks


def test_shards_of_the_wrong_kind_and_broken_ones_are_named(tmp_path: Path) -> None:
    split_mono([write_raw(tmp_path / "x.txt.xz", [["a b"]])], None, [tmp_path / "0.raw.zst"])
    with pytest.raises(UserError, match=r"0\.raw\.zst: holds mono text, expected bitext"):
        list(read_batches(tmp_path / "0.raw.zst", "bitext"))
    with zst_writer(tmp_path / "1.raw.zst") as out:
        out.write('{"files": ["x"], "kind": "mono"}\n0 1 no tabs\n')
    with pytest.raises(UserError, match=r"1\.raw\.zst:2: 1 columns instead of 3"):
        list(read_batches(tmp_path / "1.raw.zst", "mono"))
    with zst_writer(tmp_path / "2.raw.zst") as out:
        out.write("text\n")
    with pytest.raises(UserError, match="not a shard made by split_corpus"):
        list(read_batches(tmp_path / "2.raw.zst", "mono"))


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("mono: {nonsense: 1}", None, "key mono.nonsense: unknown threshold"),
        ("nonsense: {}", None, "key nonsense: unknown section"),
        ("mono: {symbol_share: high}", None, "key mono.symbol_share: 'high' is not a number of type float"),
        ("mono: {shortest_words: 1.5}", None, "key mono.shortest_words: 1.5 is not a number of type int"),
        ("mono: {shortest_words: -1}", None, "key mono.shortest_words: -1 is not between 0 and"),
        ("mono: {}", None, "key mono.shortest_characters: missing"),
        ("mono: [", None, "not YAML"),
        ("mono: {}", "{", "--overrides: not JSON"),
        ("mono: {}", '{"mono": {"nonsense": 1}}', "--overrides, key mono.nonsense: unknown threshold"),
    ],
)
def test_bad_thresholds_are_named(tmp_path: Path, text: str, overrides: str | None, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        load_thresholds(tmp_path / "c.yaml", "mono", overrides)
    assert message in str(error.value)


def test_importing_a_cleaning_script_is_cheap(repository: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'workflow/scripts'); import clean_mono, clean_bitext, plan_sampling; "
        "print(sorted({'torch', 'pandas', 'fasttext', 'sentencepiece'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=repository, check=True)
    assert result.stdout.strip() == "[]"
