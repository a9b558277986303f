"""The configuration as the last parse read it: `load_config` without reading and checking 270 files again.

Snakemake parses the workflow at each call, and on a cluster in each job. What was read and found right is kept in
.snakemake/plans under a digest of everything that it follows from: the files of
config/, the code of workflow/ and the settings of the command line. A mistake is never kept: it is found, and told, at
each call.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from contextlib import suppress
from pathlib import Path

from common.atomic import atomic_path
from common.errors import UserError
from plan.config import Config
from plan.load import load_config

FOLDER = ".snakemake/plans"  # where Snakemake was called before; nothing is kept elsewhere
MOST = 8  # plans, of a megabyte each: one of each command line that is in use
CODE = Path(__file__).resolve().parents[2]  # workflow/


def kept_config(
    root: str | Path = ".", overrides: dict | None = None, path: str | Path = "config/config.yaml"
) -> Config:
    """What `load_config` returns for these arguments."""
    root = Path(root)
    file = root / FOLDER / digest_of_all(root, overrides, root / path)
    config = _read(file)
    if config is None:
        config = load_config(root, overrides, path)
        if file.parent.parent.is_dir():
            _keep(file, config)
    return config


def digest_of_all(root: Path, overrides: dict | None, settings: Path) -> str:
    """A digest of whatever `load_config` reads or runs."""
    asked = [sys.version, str(root), overrides, str(settings)]
    whole = hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass"))
    code = [*CODE.rglob("*.py"), *CODE.rglob("*.smk")]
    for path in (settings, *sorted((root / "config").rglob("*")), *sorted(code)):
        if path.is_file():
            content = path.read_bytes()
            whole.update(f"\n{path} {len(content)}\n".encode("utf-8", "surrogateescape"))
            whole.update(content)
    return whole.hexdigest()


def config_of(path: Path, scale: Path, folder: str, licences: str | None = None) -> Config:
    """The configuration that a file of config/<folder>/ belongs to, at the scale of config/scales/<scale>.yaml and with
    the licences of a command line that says some."""
    root = path.resolve().parent.parent.parent
    if path.resolve().parent != root / "config" / folder:
        raise UserError(f"{path}: must lie in config/{folder} of the repository, where its neighbours are")
    if scale.resolve().parent != root / "config/scales":
        raise UserError(f"{scale}: must lie in config/scales of the same repository")
    return kept_config(root, {"scale": scale.stem} | ({"licences": licences} if licences else {}))


def _read(file: Path) -> Config | None:
    """A kept configuration; nothing if there is none, or if a byte of it is not as it was written."""
    with suppress(OSError):
        content = file.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return pickle.loads(content[32:])
    return None


def _keep(file: Path, config: Config) -> None:
    content = pickle.dumps(config, pickle.HIGHEST_PROTOCOL)
    with suppress(OSError, UserError):  # a full disk or a folder of somebody else: the next call reads again
        with atomic_path(file) as temporary:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
        plans = sorted(file.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in plans[MOST:]:
            old.unlink(missing_ok=True)
