"""A configuration that was read before is taken as it was, and never once a byte has changed that it follows from."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import plan.kept
from common.errors import UserError
from plan.kept import FOLDER, MOST, digest_of_all, kept_config
from plan.load import load_config
from plan.runs import resolve_run

SETTINGS = "config/config.yaml"


@pytest.fixture
def tree(tree) -> Path:
    (tree / ".snakemake").mkdir()
    return tree


def never(*_: object) -> None:
    raise AssertionError("read again")


def whole(config: object) -> dict:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


@pytest.mark.parametrize("scale", ("smoke", "mini", "real", "paper"))
def test_a_kept_configuration_is_the_one_that_was_read(tree, monkeypatch, scale):
    asked = {"scale": scale, "seeds": [2, 1]}
    read = load_config(tree, asked)
    first = kept_config(tree, asked)
    monkeypatch.setattr(plan.kept, "load_config", never)
    kept = kept_config(tree, asked)
    assert whole(kept) == whole(first) == whole(read)
    assert kept.selected == read.selected
    for run in sorted(read.selected & {*read.pretrained}):
        assert resolve_run(kept, run) == resolve_run(read, run)
    with pytest.raises(AssertionError, match="read again"):
        kept_config(tree, {**asked, "seeds": [1, 2]})


def test_no_byte_that_it_follows_from_can_change_unseen(tree, monkeypatch, repository):
    shutil.copytree(repository / "workflow", tree / "workflow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(plan.kept, "CODE", tree / "workflow")
    files = [*(tree / "config").rglob("*"), *(tree / "workflow").rglob("*.py"), *(tree / "workflow").rglob("*.smk")]
    files = [file for file in files if file.is_file()]
    assert len(files) > 400
    before = digest_of_all(tree, {}, tree / SETTINGS)
    for file in files[:: len(files) // 40]:
        content = file.read_bytes()
        another = content[:-1] + (b" " if content.endswith(b"\n") else b"\n")  # as long, or of an empty file longer
        for changed in {content + b"\n", content[:-1], another} - {content}:
            file.write_bytes(changed)
            assert digest_of_all(tree, {}, tree / SETTINGS) != before, file
        file.unlink()
        assert digest_of_all(tree, {}, tree / SETTINGS) != before, file
        file.write_bytes(content)
        assert digest_of_all(tree, {}, tree / SETTINGS) == before, file
    (tree / "config/runs/another.yaml").write_text("")
    assert digest_of_all(tree, {}, tree / SETTINGS) != before


# What lies elsewhere would have to be a part of the digest.
WATCHED = """
import sys
sys.path.insert(0, "workflow/scripts")
from pathlib import Path
import jsonschema
import plan.kept
from plan.load import load_config
load_config(".", {"scale": "smoke"})  # now all that it imports has been
read = set()
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | Path):
        read.add(str(Path(arguments[0]).absolute()))
sys.addaudithook(watch)
stat = Path.stat
def watched(path, **how):  # is_file, is_dir and exists ask it
    read.add(str(path.absolute()))
    return stat(path, **how)
Path.stat = watched
for scale in sys.argv[1:]:
    load_config(".", {"scale": scale})
print(*sorted(read), sep="\\n")
"""


def test_a_configuration_follows_from_the_files_of_config_and_workflow_alone(repository):
    command = [sys.executable, "-c", WATCHED, "mini", "real", "paper"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    read = [Path(line) for line in done.stdout.split("\n") if line]
    assert len(read) > 250
    known = (repository.absolute() / "config", repository.absolute() / "workflow/rules")
    assert not [path for path in read if not path.is_relative_to(known[0]) and not path.is_relative_to(known[1])]


def test_a_mistake_is_told_at_each_call(tree):
    kept_config(tree)
    path = tree / "config/scales/mini.yaml"
    right = path.read_text(encoding="utf-8")
    path.write_text(right + "unheard_of: 1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(UserError, match="unheard_of: unknown key"):
            kept_config(tree)
    path.write_text(right, encoding="utf-8")
    assert kept_config(tree).scale_name == "mini"


@pytest.mark.parametrize("spoil", (lambda content: content[:-1], lambda content: content[:-9] + b"x" + content[-8:]))
def test_a_spoilt_one_is_read_again(tree, spoil):
    read = kept_config(tree)
    (file,) = (tree / FOLDER).iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    assert whole(kept_config(tree)) == whole(read)
    assert plan.kept._read(file) is not None  # and written again


def test_few_are_kept_and_none_where_snakemake_was_not_called(tree):
    for seed in range(MOST + 3):
        kept_config(tree, {"seeds": [seed + 1]})
    assert len(list((tree / FOLDER).iterdir())) == MOST
    shutil.rmtree(tree / ".snakemake")
    assert kept_config(tree).scale_name == "mini"
    assert not (tree / ".snakemake").exists()
