"""A file of config/ that was read and found right is not read and checked again while its text and its schema are the
same: of some 270 files a test changes one. What is wrong is looked at, and said, each time."""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow/scripts"

parsed: dict[tuple[str, str], bytes] = {}
right: set[tuple] = set()


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


REMEMBERING: dict[str, Callable[[ModuleType], None]] = {
    "common.yamlfiles": remember_what_is_read,
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
