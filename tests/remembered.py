"""What is read once: of the configuration, and of the code where Python may not keep it in files.

A file of config/ that was read and found right is not read and checked again while its text and its schema are the
same: of some 270 files a test changes one. What is wrong is looked at, and said, each time. A module that was compiled
is not compiled again for another tree that has the same text.
"""

import _imp
import contextlib
import importlib.abc
import importlib.machinery
import marshal
import pickle
import sys
from collections.abc import Callable, Collection
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from pathlib import Path
from types import CodeType, ModuleType

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow/scripts"

parsed: dict[tuple[str, str], bytes] = {}
right: set[tuple] = set()
rows: dict[tuple, list[tuple]] = {}  # of datasets.tsv
compiled: dict[bytes, bytes] = {}


def remember_what_is_read(yamlfiles: ModuleType) -> None:
    parse = yamlfiles.parse_yaml

    def parse_yaml(text: str, shown: str) -> object:
        if (text, shown) not in parsed:
            parsed[text, shown] = pickle.dumps(parse(text, shown))
        return pickle.loads(parsed[text, shown])

    yamlfiles.parse_yaml = parse_yaml


def remember_what_is_right(schemas: ModuleType) -> None:
    check = schemas.Schemas.check

    def check_once(self: object, value: object, kind: str, shown: str, partial: bool = False) -> None:
        path = self.folder / f"{kind}.schema.json"
        known = (path.read_bytes(), kind, partial, pickle.dumps(value)) if path.is_file() else None
        if known not in right:
            check(self, value, kind, shown, partial)
            right.update([known] if known else [])

    schemas.Schemas.check = check_once


def remember_the_rows(datasets: ModuleType) -> None:
    load = datasets.load_datasets
    cells = attrgetter(*datasets.Dataset.__slots__)
    made: dict[tuple, dict[str, object]] = {}

    def load_datasets(
        path: str | Path = datasets.DATASETS_TSV, known: Collection[str] | None = None
    ) -> dict[str, object]:
        """A row names no file and is never changed, so those of another tree's are the same."""
        content = Path(path).read_bytes() if Path(path).is_file() else None
        key = content, known if known is None else tuple(sorted(known))
        if key not in rows:
            made[key] = load(path, known)
            rows[key] = [cells(row) for row in made[key].values()]
        if key not in made:
            made[key] = {row[0]: datasets.Dataset(*row) for row in rows[key]}
        return {**made[key]}

    datasets.load_datasets = load_datasets


REMEMBERING: dict[str, Callable[[ModuleType], None]] = {
    "common.yamlfiles": remember_what_is_read,
    "plan.datasets": remember_the_rows,
    "plan.schemas": remember_what_is_right,
}


class Remembering(importlib.abc.MetaPathFinder):
    """Where a tree's own modules that read and check are those of the repository, byte for byte."""

    def __init__(self) -> None:
        self.sources = {name: source_of(name) for name in REMEMBERING}

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name not in REMEMBERING:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and spec.loader and Path(spec.origin).read_bytes() == self.sources[name]:
            run = spec.loader.exec_module

            def run_and_remember(module: ModuleType) -> None:
                run(module)
                REMEMBERING[name](module)

            spec.loader.exec_module = run_and_remember
        return spec


def source_of(name: str) -> bytes:
    return SCRIPTS.joinpath(*name.split(".")).with_suffix(".py").read_bytes()


def remember_the_configuration() -> None:
    sys.meta_path.insert(0, Remembering())


def code_of(source: bytes, path: str) -> CodeType:
    if source not in compiled:
        return compile(source, path, "exec", dont_inherit=True)
    code = marshal.loads(compiled[source])
    _imp._fix_co_filename(code, path)  # as Python does with a .pyc of another place
    return code


def compile_the_scripts() -> None:
    """All of workflow/scripts, so that a fork of this process has their code."""
    for path in sorted(SCRIPTS.rglob("*.py")):
        with contextlib.suppress(SyntaxError):  # which who imports it will be told
            code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            compiled[path.read_bytes()] = marshal.dumps(code)
    take_the_scripts()


def take_the_scripts() -> None:
    SourceFileLoader.source_to_code = lambda loader, source, path: code_of(bytes(source), path)


def read_the_configuration() -> None:
    """All of it once, so that a fork of this process knows it; of the modules that did it nothing stays."""
    sys.path.insert(0, str(SCRIPTS))
    before = {*sys.modules}
    load_config = importlib.import_module("plan.load").load_config
    wrong = importlib.import_module("common.errors").UserError
    for path in sorted((SCRIPTS.parent.parent / "config/scales").glob("*.yaml")):
        with contextlib.suppress(wrong):  # which who asks will be told
            load_config(SCRIPTS.parent.parent, {"scale": path.stem})
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ("common", "plan"):
            del sys.modules[name]
    sys.path.remove(str(SCRIPTS))
