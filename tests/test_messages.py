"""One line instead of a traceback: paths, archives and YAML that nobody can read, and what is our fault says so."""

import bz2
import io
import itertools
import os
import random
import re
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import index_eval_sets
import score
import split_corpus
from common import atomic
from common.errors import LONGEST, UserError, plain, run_main
from common.yamlfiles import parse_yaml, read_yaml
from plan.load import load_config

XNLI = "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1\tsentence2\tpairID\n"


def message(capsys, monkeypatch, main: Callable, *arguments: object, status: int = 2) -> str:
    """What a script says, in this process: one line, and no traceback."""
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        run_main(main)
    said = capsys.readouterr().err
    assert ended.value.code == status, said
    assert "Traceback" not in said and said.startswith("error: ") and said.count("\n") == 1, said
    assert len(said) < LONGEST + 1000
    return said


def raising(error: BaseException) -> Callable:
    def main() -> None:
        raise error

    return main


# --- the entry point --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UserError("a.tsv:3: wrong; mend it"), 2, "error: a.tsv:3: wrong; mend it"),
        (UserError("id 'a\nb\x1b[2J\u2028' stands twice"), 2, r"id 'a\nb\x1b[2J\u2028' stands twice"),
        (UserError("x" * 50_000_000), 2, "50,000,000 characters"),
        (FileNotFoundError(2, "No such file or directory", "a.tsv"), 2, "error: a.tsv: no such file"),
        (IsADirectoryError(21, "Is a directory", "a"), 2, "error: a: is a folder, and a file is needed"),
        (PermissionError(13, "Permission denied", b"a\xff\n"), 2, r"error: a\udcff\n: no permission"),
        (OSError(40, "Too many levels", "a"), 2, "error: a: is a symbolic link that goes round"),
        (OSError(5, "Input/output error"), 2, "error: the disk cannot read or write it"),
        (MemoryError(), 2, "error: out of memory; give the job more"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
    ],
)
def test_what_an_input_or_the_machine_does_is_one_line(capsys, monkeypatch, error, status, words):
    assert words in message(capsys, monkeypatch, raising(error), status=status)


@pytest.mark.parametrize(
    "error", [KeyError("x"), ZeroDivisionError(), RecursionError(), OSError("no number"), EOFError()]
)
def test_a_fault_of_ours_is_a_traceback_that_says_so(capsys, error):
    with pytest.raises(SystemExit) as ended:
        run_main(raising(error))
    said = capsys.readouterr().err
    assert ended.value.code == 1 and said.startswith("Traceback") and type(error).__name__ in said
    assert said.splitlines()[-1].startswith("error: this is a fault of Parallax")


def test_a_message_is_one_plain_line_whatever_is_in_it():
    chance = random.Random(22)
    for _ in range(200):
        text = "".join(chr(chance.choice((chance.randrange(32), chance.randrange(0x110000)))) for _ in range(40))
        said = plain(text * chance.choice((1, 1000)))
        assert len(said.splitlines()) == 1 and "\x1b" not in said and said.encode("utf-8") and len(said) < 12 * LONGEST
    assert plain("Grüße, 中文 हिन्दी\u3000…") == "Grüße, 中文 हिन्दी\u3000…"


def test_every_script_ends_by_the_one_entry_point(repository):
    for path in (repository / "workflow/scripts").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "__main__" not in text or text.endswith('if __name__ == "__main__":\n    run_main(main)\n'), path
        assert "traceback" not in text, path


def test_docs_name_tests_that_exist_and_messages_that_are_printed(repository):
    """docs/faults.md: a row's tests are there, and some words of each of its messages stand in our code."""
    scripts = sorted((repository / "workflow").rglob("*.py"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # a message of several lines
    tests = {path.name: path.read_text(encoding="utf-8") for path in (repository / "tests").rglob("*.py")}
    rows = [line.strip("| ").split(" | ") for line in (repository / "docs/faults.md").read_text("utf-8").splitlines()]
    named = 0
    for row in rows:
        for name in re.findall(r"((?:test_\w+|kill)\.py)\b", " ".join(row)):
            assert name in tests, f"docs/faults.md names {name}"
        for name in re.findall(r"`(test_\w+)`", " ".join(row)):
            assert any(f"def {name}(" in text for text in tests.values()), f"docs/faults.md names {name}"
            named += 1
        for message in re.findall("`([^`]+)`", row[2]) if len(row) == 3 and "test_" in row[1] else ():
            pieces = [message[start : start + 10] for start in range(len(message) - 9)]
            pieces = [piece for piece in pieces if re.fullmatch("[A-Za-z ,;:()]+", piece)]
            assert not pieces or any(piece in code for piece in pieces), f"docs/faults.md: nobody says {message!r}"
    assert named > 50


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bad_paths() -> Iterator[dict[str, Path]]:
    """What is no file that can be read, by what is said of it; as a user without rights where the tests have them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_text("entailment\n")
    (folder / "unreadable").write_text("entailment\n")
    (folder / "unreadable").chmod(0)
    (folder / "closed").mkdir(mode=0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield {
        "no such file": folder / "missing",
        "is a folder": folder,
        "goes round in a circle": folder / "loop",
        "the name is too long": folder / ("x" * 300),
        "goes through a file": folder / "file" / "x",
        "no permission": folder / "unreadable",
        "no permission; change": folder / "closed" / "x",
    }
    if root:
        os.seteuid(0)
    (folder / "closed").chmod(0o755)
    shutil.rmtree(folder)


def test_paths_of_gold_predictions_and_archives_that_nobody_can_read(capsys, monkeypatch, bad_paths):
    good = bad_paths["is a folder"] / "file"
    for words, path in bad_paths.items():
        hand = ("--task", "xnli", "--language", "de", "--out", good.parent / "out.json")
        for gold, predictions in ((path, good), (good, path)):
            said = message(capsys, monkeypatch, score.main, *hand, "--gold", gold, "--predictions", predictions)
            assert words in said and plain(str(path))[:1000] in said
        said = message(capsys, monkeypatch, score.main, *hand, "--gold", f"{path}.zip", "--predictions", good)
        assert str(path)[:200] in said
        out = ("--out", good.parent / "out.zst")
        for kind, suffix in ((("mono", "--text"), ""), (("bitext", "--pair", "de-en", "--archive"), ".zip")):
            said = message(capsys, monkeypatch, split_corpus.main, *kind, f"{path}{suffix}", *out)
            assert suffix or words in said
        tasks = ("--task", f"text={path}", "--config", "config/cleaning.yaml", "--out", good.parent / "out.npy")
        assert words in message(capsys, monkeypatch, index_eval_sets.main, *tasks)


def test_paths_that_nobody_can_write(bad_paths):
    os.seteuid(os.getuid())  # the rights are tried in tests/test_faults.py
    folder = bad_paths["is a folder"]
    for words, out in (
        ("is a folder, and a file is to be written", folder),
        ("another kind of thing", folder / "file" / "x"),
        ("the name is too long", folder / ("x" * 300)),
        ("the name is too long", folder / ("x" * 300) / "x"),
        ("another kind of thing", folder / "loop" / "x"),
        ("is no regular file", Path("/dev/null")),
    ):
        for write in (lambda path: atomic.write_text(path, "new"), lambda path: atomic.write_json(path, {})):
            with pytest.raises(UserError, match=words) as error:
                write(out)
            assert str(out)[:1000] in str(error.value)
    with (
        pytest.raises(UserError, match="is a file, and a folder is to be written"),
        atomic.atomic_folder(folder / "file"),
    ):
        pass
    atomic.write_text(folder / "loop", "new")  # the link is replaced, as any file is
    assert (folder / "loop").read_text() == "new" and Path("/dev/null").is_char_device()


# --- archives ---------------------------------------------------------------------------------------------------------


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return file.getvalue()


def tar_of(members: dict[str, bytes], mode: str) -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode=f"w:{mode}") as archive:
            for name, data in members.items():
                about = tarfile.TarInfo(name)
                about.size = len(data)
                archive.addfile(about, io.BytesIO(data))
        return file.getvalue()


def with_field(data: bytes, local: int, central: int, value: int) -> bytes:
    """A zip with another 16-bit number in its headers."""
    changed = bytearray(data)
    for signature, place in ((b"PK\3\4", local), (b"PK\1\2", central)):
        for found in re.finditer(re.escape(signature), data):
            changed[found.start() + place : found.start() + place + 2] = value.to_bytes(2, "little")
    return bytes(changed)


def cut_open(data: bytes) -> bytes:
    """Random bytes where the text was, and whole headers."""
    place = len(data) // 4
    return data[: place - 20] + bytes(range(200, 240)) + data[place + 20 :]


TEXT = random.Random(3).randbytes(3000).hex().encode() + b"\n"
PAIR = {"a.de-en.de": TEXT, "a.de-en.en": TEXT}
ROWS = XNLI.encode() + b"\t".join((b"de", b"neutral", *[TEXT.strip()] * 4, b"1")) + b"\n"
GOLD = {"XNLI-1.0/xnli.test.tsv": ROWS, "XNLI-1.0/xnli.dev.tsv": ROWS}


def archives(members: dict[str, bytes]) -> Iterator[tuple[str, bytes, str]]:
    """(file name, bytes, what is said of it)"""
    whole = zip_of(members)
    yield "encrypted.zip", with_field(whole, 6, 8, 1), "is encrypted"
    yield "strange.zip", with_field(whole, 8, 10, 97), "is packed in a way that is not read here"
    yield "cut.zip", whole[: len(whole) // 2], "not a whole archive"
    yield "text.zip", b"no archive", "not a whole archive"
    yield "empty.zip", b"", "not a whole archive"
    for name, method in (("deflate", zipfile.ZIP_DEFLATED), ("bz2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
        yield f"{name}.zip", cut_open(zip_of(members, method)), "not a whole archive"


@pytest.mark.parametrize("name", [name for name, _, _ in archives(PAIR)])
def test_archives_that_cannot_be_read(capsys, monkeypatch, tmp_path, name):
    for reader, members in (("split", PAIR), ("index", GOLD), ("score", GOLD)):
        [(data, words)] = [(data, words) for known, data, words in archives(members) if known == name]
        path = tmp_path / name
        path.write_bytes(data)
        said = read_by(reader, path, tmp_path, capsys, monkeypatch)
        assert words in said and str(path) in said, said


def read_by(reader: str, path: Path, tmp_path: Path, capsys, monkeypatch) -> str:
    out = ("--out", tmp_path / "out.zst")
    if reader == "split":
        return message(capsys, monkeypatch, split_corpus.main, "bitext", "--archive", path, "--pair", "de-en", *out)
    if reader == "index":
        asked = ("--task", f"xnli={path}", "--config", "config/cleaning.yaml", *out)
        return message(capsys, monkeypatch, index_eval_sets.main, *asked)
    asked = ("--task", "xnli", "--language", "de", "--gold", path, "--predictions", path, *out)
    return message(capsys, monkeypatch, score.main, *asked)


@pytest.mark.parametrize("mode", ["bz2", "gz", "xz"])
def test_damaged_tars_of_pairs(capsys, monkeypatch, tmp_path, mode):
    path = tmp_path / f"pairs.tar.{mode}"
    whole = tar_of(PAIR, mode)
    for data in (cut_open(whole), whole[: len(whole) // 2], whole[:20], b"", bz2.compress(b"no tar")):
        path.write_bytes(data)
        assert str(path) in read_by("split", path, tmp_path, capsys, monkeypatch)


def test_archives_with_random_damage(tmp_path):
    """200 seeded inputs: bits flipped, bytes cut out, put in or repeated. A text that is read all the same is whole."""
    chance, until = random.Random(22), time.monotonic() + 6
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    refused = 0
    for number, method in zip(range(200), itertools.cycle((*methods, "gz", "bz2", "xz")), strict=False):
        tar = isinstance(method, str)
        whole = tar_of(PAIR, method) if tar else zip_of(PAIR, method)
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 3, 50))):
            place = chance.choice((chance.randrange(len(data)), -chance.randrange(1, 200), chance.randrange(60)))
            match chance.randrange(3):
                case 0:
                    data[place] ^= 1 << chance.randrange(8)
                case 1:
                    del data[place : place + chance.randrange(1, 9)]
                case 2:
                    data[place:place] = data[place - 9 : place] or b"\0"
        path = tmp_path / f"{number}.{'tar' if tar else 'zip'}"
        path.write_bytes(data)
        out = tmp_path / "out.zst"
        try:
            split_corpus.split_bitext([path], [("de",), ("en",)], None, [out])
        except UserError:
            refused += 1
        else:
            [row] = [line for line in split_corpus.read_lines(out) if line.startswith("0\t1\t")]
            assert row.split("\t")[2:] == [TEXT.decode().rstrip()] * 2, f"{number}: another text, and no error"
        if time.monotonic() > until:
            break
    assert refused > number / 3


# --- YAML -------------------------------------------------------------------------------------------------------------

BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12)
)
MERGES = "a0: &a0 {b: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(12))
DEEP_ALIASES = "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(3000))
WRONG_YAML = [
    ("? [a, b]\n: 1", ":1: ['a', 'b'] cannot be a key"),
    ("a: 1\n? {b: 1}\n: 1", ":2: {'b': 1} cannot be a key"),
    ("[1, 2]: 3", ":1: [1, 2] cannot be a key"),
    ("2024-01-01: 3", "cannot be a key"),
    ("5: 3", ":1: 5 cannot be a key"),
    ("no: 3", ":1: False cannot be a key; write a word, in quotes if need be"),
    ("null: 3", "cannot be a key"),
    (".nan: 3", ":1: .nan is no finite number"),
    ("[" * 20_000, "nested too deep"),
    ("[" * 20_000 + "]" * 20_000, "nested too deep"),
    ("{a: " * 200_000, "nested too deep"),
    ("- " * 20_000 + "a", "nested too deep"),
    ("? " * 20_000 + "a", "nested too deep"),
    ("[" * 101 + "]" * 101, "nested too deep"),
    (BOMB, "over 200,000 values"),
    (MERGES, "over 200,000 values"),
    (DEEP_ALIASES, "nested too deep"),
    ("a: &a [*a]", ":1: *a is within itself"),
    ("a: &a {b: {c: *a}}", ":1: *a is within itself"),
    ("a: *b", ":1: not YAML"),
    ("a: .nan", ":1: .nan is no finite number"),
    ("a: [1, -.inf]", "-.inf is no finite number"),
    ("a: 1.0e+999", "is no finite number"),
    (f"a: {'9' * 5000}", "is more than 64 bits hold"),
    ("a: 9223372036854775808", "is more than 64 bits hold"),
    ('a: "b\\0c"', "holds a null byte"),
    ("a: 2024-13-45", "not YAML: month must be in 1..12"),
    ("a: !!python/object/apply:os.system [id]", ":1: not YAML"),
    ("a: !!binary x", "not YAML"),
    ("a: b: c", ":1: not YAML"),
    ("a: '", "not YAML"),
    ("a:\n\tb: 1", ":2: not YAML: found character that cannot start any token; indent with blanks"),
    ("a: [1,\n", ":1: not YAML"),
    ("a: \x07", "not YAML"),
    ("a: 1\n---\nb: 2", ":2: not YAML"),
    ("a: 1\na: 2", ":2: key 'a' stands twice"),
]


@pytest.mark.parametrize(
    ("text", "words"), WRONG_YAML, ids=[f"{n}-{text[:12]!r}" for n, (text, _) in enumerate(WRONG_YAML)]
)
def test_yaml_that_is_wrong_is_one_line(tmp_path, text, words):
    path, start = tmp_path / "x.yaml", time.monotonic()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert words in str(error.value) and str(error.value).startswith(f"{path}:") and "\n" not in str(error.value)
    assert time.monotonic() - start < 3


def test_yaml_that_is_right_is_read(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: &a {b: [1, 2.5, yes]}\nc: {<<: *a, d: *a}\nno stars: 'a * b'\n" + "#" * 20_000)
    value = {"b": [1, 2.5, True]}
    assert read_yaml(path) == {"a": value, "c": value | {"d": value}, "no stars": "a * b"}
    path.write_text("".join(f"k{n}: [{', '.join(map(str, range(100)))}]\n" for n in range(200)))
    assert len(read_yaml(path)) == 200


def test_every_yaml_is_read_by_the_one_reader(repository):
    for path in (repository / "workflow/scripts").rglob("*.py"):
        assert path.name == "yamlfiles.py" or not re.search(r"yaml\.(safe_)?load", path.read_text("utf-8")), path


def test_random_yaml_is_read_or_refused_in_one_line(repository):
    """200 seeded inputs: files of config/ with lines and letters changed, and pieces of wrong ones put in."""
    chance, until = random.Random(22), time.monotonic() + 5
    files = [path.read_text(encoding="utf-8")[:3000] for path in sorted((repository / "config").rglob("*.yaml"))]
    for _ in range(200):
        text = chance.choice(files)
        for _ in range(chance.choice((1, 3, 10))):
            place = chance.randrange(len(text) or 1)
            bit = chance.choice(
                ("[", "{", "- ", ": ", "? ", "&a ", "*a ", "<<: ", "'", '"', "\t", "\n", "!!set ", "|\n", "%")
            )
            bit = chance.choice((bit, chr(chance.randrange(0xD800)), chance.choice(WRONG_YAML)[0][:50]))
            text = text[:place] + bit + text[place + chance.choice((0, 1, 30)) :]
        try:
            parse_yaml(text, "x.yaml")
        except UserError as error:
            assert str(error).startswith("x.yaml") and "\n" not in str(error)
        if time.monotonic() > until:
            break


@pytest.mark.parametrize(
    "seeds", ["[1.0]", "[1, 2.0]", "[1e0]", "[true]", "['1']", "[.inf]", "[0]", "[-1]", "[99999999999999999999]"]
)
def test_seeds_are_whole_numbers(repository, tmp_path, seeds):
    shutil.copytree(repository / "config", tmp_path / "config")
    path = tmp_path / "config/config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("seeds: null", f"seeds: {seeds}"), encoding="utf-8")
    with pytest.raises(UserError, match=r"config/config\.yaml(, seeds\[[01]\]|:\d+): "):
        load_config(tmp_path)
