"""Pushing to the hub: what is printed, and what a stand-in for huggingface_hub is given. Nothing is sent anywhere."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import push
from common.errors import UserError

REPOSITORY = Path(push.__file__).parents[2]


@pytest.fixture()
def folder(tmp_path) -> Path:
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported/README.md").write_text("---\nlicense: other\n---\n# xlm-r\n\n---\nmore\n")
    (tmp_path / "exported/config.json").write_text("{}")
    (tmp_path / "exported/model.safetensors").write_bytes(bytes(12345))
    (tmp_path / "exported/.snakemake_timestamp").write_text("")
    return tmp_path / "exported"


@pytest.fixture()
def hub(monkeypatch) -> SimpleNamespace:
    """A stand-in that keeps what it is told."""
    found = SimpleNamespace(calls=[], token="a token", refuses=None)

    class HfApi:
        def create_repo(self, repo_id, **how):
            found.calls.append(("create", repo_id, how))

        def upload_folder(self, **how):
            if found.refuses:
                raise found.refuses
            found.calls.append(("upload", how["repo_id"], how))
            return "https://huggingface.co/me/xlm-r/commit/1"

    module = SimpleNamespace(HfApi=HfApi, get_token=lambda: found.token)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return found


def call(monkeypatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["push.py", *map(str, words)])
    push.main()


def test_without_a_yes_it_only_says_what_it_would_send(folder, hub, monkeypatch, capsys):
    call(monkeypatch, folder, "--to", "me/xlm-r")
    said = capsys.readouterr().out
    assert "https://huggingface.co/me/xlm-r" in said and "12,345 bytes  model.safetensors" in said
    assert "license: other" in said and "# xlm-r" not in said and "snakemake" not in said
    assert "Nothing was sent" in said and not hub.calls


def test_with_a_yes_the_listed_files_go_to_a_private_repository(folder, hub, monkeypatch, capsys):
    call(monkeypatch, folder, "--to", "me/xlm-r", "--yes")
    (_, made, how), (_, to, sent) = hub.calls
    assert made == to == "me/xlm-r" and how == {"private": True, "exist_ok": True}
    assert sent["folder_path"] == folder
    assert sent["allow_patterns"] == ["README.md", "config.json", "model.safetensors"]
    assert "sent: https://huggingface.co/me/xlm-r/commit/1" in capsys.readouterr().out


def test_the_calls_are_those_of_the_real_library(folder):
    """What the stand-in is given fits the signatures of the library that it stands for."""
    import inspect

    real = pytest.importorskip("huggingface_hub").HfApi
    inspect.signature(real.create_repo).bind(None, "me/xlm-r", private=True, exist_ok=True)
    words = {"repo_id": "me/x", "folder_path": folder, "allow_patterns": ["README.md"], "commit_message": "one"}
    inspect.signature(real.upload_folder).bind(None, **words)


def test_what_is_missing_is_one_line(folder, hub, monkeypatch):
    with pytest.raises(UserError, match="nobody: is no name of the hub; give user/name"):
        call(monkeypatch, folder, "--to", "nobody")
    hub.refuses = OSError("403\n  Forbidden")
    with pytest.raises(UserError, match="me/xlm-r: the hub did not take it: 403 Forbidden"):
        call(monkeypatch, folder, "--to", "me/xlm-r", "--yes")
    hub.token = None
    with pytest.raises(UserError, match="no token of the hub: hf auth login"):
        call(monkeypatch, folder, "--to", "me/xlm-r", "--yes")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="pip install huggingface_hub"):
        call(monkeypatch, folder, "--to", "me/xlm-r", "--yes")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"has no config\.json, so it is no exported model"):
        call(monkeypatch, folder, "--to", "me/xlm-r")


def test_the_hub_s_errors_are_of_the_kinds_that_are_caught():
    errors = pytest.importorskip("huggingface_hub.errors")
    assert issubclass(errors.HfHubHTTPError, OSError) and issubclass(errors.HFValidationError, ValueError)


def make(*words: str) -> subprocess.CompletedProcess:
    line = ["make", "--dry-run", "--no-print-directory", "push", *words]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_make_exports_and_sends_only_with_yes():
    shown = make("RUN=xlm-r", "TO=me/xlm-r", "SEED=2", "SCALE=smoke", "CORES=2").stdout
    folder = "results/smoke/exported/xlm-r/seed-2"
    assert f"snakemake --cores 2 --config scale=smoke -- {folder}" in shown
    assert f'push.py "{folder}" --to "me/xlm-r"' in shown and "--yes" not in shown
    assert "--yes" in make("RUN=xlm-r", "TO=me/xlm-r", "YES=1").stdout
