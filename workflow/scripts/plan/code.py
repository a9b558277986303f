"""Code as part of what a cheap job depends on."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from common.identity import digest


def local_imports(script: str | Path) -> list[str]:
    """The modules beside a script that it imports, directly or through each other, as paths in the script's spelling.

    Snakemake sees an edit of a job's script, which is an input, but not of what the script imports. The words
    over a room are left out: nothing in them runs.
    """
    found: set[Path] = set()
    todo = [Path(script)]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += _imported_files(path, Path(script).parent)
    return sorted(str(path) for path in found if path != Path(script) and not _says_nothing(path))


def code_digest(script: str | Path) -> str:
    """A digest of the content of everything that a script imports from beside it."""
    return digest([[Path(path).name, _sha256(Path(path))] for path in local_imports(script)])


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# A regular expression and not `ast`: a tenth of the time, at every parse. Finding too much does no harm.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)

_DOCSTRING = re.compile(r'\s*(?:"""[^"]*"""\s*)?')
_NAME = re.compile(r"[A-Za-z_][\w.]*")


# Each file is looked at once, and not for each of the forty scripts that import it.
@cache
def _imported_files(path: Path, folder: Path) -> list[Path]:
    """The files below a folder that a file may import."""
    names: set[str] = set()
    for package, members, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        if package:
            names.add(package)
            names |= {f"{package}.{member}" for member in _NAME.findall(members)}
        names |= set(_NAME.findall(plain))
    parts = [name.split(".") for name in names]
    bases = {"/".join(own[:depth]) for own in parts for depth in range(1, len(own) + 1)}
    candidates = {candidate for base in bases for candidate in (f"{base}.py", f"{base}/__init__.py")}
    return [folder / candidate for candidate in sorted(candidates & _modules(folder))]


@cache
def _modules(folder: Path) -> frozenset[str]:
    return frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))


@cache
def _says_nothing(path: Path) -> bool:
    return path.name == "__init__.py" and bool(_DOCSTRING.fullmatch(path.read_text(encoding="utf-8")))
