"""Processes of ready.py remember what of a configuration is right: never of a tree that reads or checks otherwise."""

import importlib.machinery
import importlib.util
import marshal
import shutil
import subprocess
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

import read_before
import ready
from trees import edit


@pytest.fixture
def tree(repository, tmp_path) -> Path:
    for folder in ("config", "workflow/scripts"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def load(tree: Path) -> str:
    """What is said where the configuration is wrong, and else how often a file was read and checked."""
    code = (
        "import sys; sys.path[0] = 'workflow/scripts'\n"
        "import yaml, jsonschema, common.yamlfiles\n"
        "read = []\n"
        "dispose = common.yamlfiles._Loader.dispose\n"
        "common.yamlfiles._Loader.dispose = lambda loader: (read.append(loader.file), dispose(loader))\n"
        "from plan.load import load_config\n"
        "load_config('.', {'scale': 'smoke'})\n"
        "print(sorted({*read}))"
    )
    done = subprocess.run([ready.python(), "-c", code], cwd=tree, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_what_the_repository_holds_is_not_read_again_and_what_was_changed_is(tree):
    assert load(tree) == "[]"
    edit(tree, "config/runs/xlm.yaml", "weight_decay: 0.01", "weight_decay: 0.02")
    assert load(tree) == "['config/runs/xlm.yaml']"


def test_what_is_wrong_is_said_each_time(tree):
    edit(tree, "config/runs/xlm.yaml", "  width: 768", "  widht: 768")
    assert [load(tree), load(tree)] == [load(tree)] * 2 and "model.widht: unknown key" in load(tree)


def test_another_schema_counts(tree):
    edit(tree, "config/schemas/run.schema.json", '"weight_decay"', '"decay_of_weights"')
    assert "optimizer: key 'decay_of_weights' is missing" in load(tree)


def test_another_way_to_check_counts(tree):
    edit(tree, "workflow/scripts/plan/schemas.py", "        if value is None:", "        if kind == 'scale':")
    assert load(tree).endswith("config/scales/smoke.yaml: the file is empty")


def test_another_way_to_read_counts(tree):
    edit(tree, "workflow/scripts/common/yamlfiles.py", "if key in mapping:", "if key == 'weight_decay':")
    assert "key 'weight_decay' stands twice in one place" in load(tree)


def test_a_file_of_tests_is_written_out_again_where_it_is_another(tmp_path, monkeypatch, request):
    path, code = tmp_path / "test_one.py", compile("found = 'before'", "test_one.py", "exec")
    path.write_text("found = 'now'")
    tests = {str(path): (importlib.util.source_hash(path.read_bytes()), code)}
    (tmp_path / "code").write_bytes(marshal.dumps(({}, tests)))
    monkeypatch.setenv(read_before.READ_BEFORE, str(tmp_path / "code"))
    loader = importlib.machinery.SourceFileLoader
    monkeypatch.setattr(loader, "source_to_code", loader.source_to_code)
    monkeypatch.setattr(rewrite, "_rewrite_test", rewrite._rewrite_test)
    read_before.take_the_code()

    def found() -> str:
        values = {}
        exec(rewrite._rewrite_test(path, request.config)[1], values)
        return values["found"]

    assert found() == "before"  # the code that was handed over
    path.write_text("found = 'later'")
    assert found() == "later"
