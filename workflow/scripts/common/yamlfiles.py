"""Read YAML files strictly, and runs and scales with what they extend.

Apart from plan/, so that a script which only reads its settings does not depend on everything that the plan does.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from common.errors import UserError

_BaseLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):
    """Safe YAML where a key cannot stand twice: the second would silently win."""


def _construct_mapping(loader: yaml.Loader, node: yaml.MappingNode) -> dict:
    loader.flatten_mapping(node)
    mapping = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in mapping:
            line = key_node.start_mark.line + 1
            raise UserError(f"{loader.file}:{line}: key '{key}' stands twice in one place; remove one")
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_yaml(path: str | Path, shown: str | None = None) -> Any:
    """The content of a YAML file; `shown` is the name that error messages give it."""
    shown = shown or str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{shown}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    loader = _Loader(text)
    loader.file = shown
    try:
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{shown}{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{shown}: not YAML: {error}") from None
    finally:
        loader.dispose()


SHOWN = 60  # names in one message


def check_known(word: str, known: Iterable[str], where: str, what: str) -> None:
    known = list(known)
    if word not in known:
        raise UserError(f"{where}: unknown {what} '{word}'; {did_you_mean(word, known)}")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    known = sorted(map(str, known))
    shown = ", ".join(known[:SHOWN]) + (f" and {len(known) - SHOWN} more" if len(known) > SHOWN else "")
    padded = re.sub(r"-(\d)\b", r"-0\1", str(word))  # table-1 is table-01, and neither table-11 nor table-16
    close = [padded] if padded in known else difflib.get_close_matches(str(word), known, n=1)
    if close:
        return f"did you mean '{close[0]}'? Allowed: {shown}"
    return f"allowed: {shown or 'nothing (there are none yet)'}"


def deep_merge(base: dict, changes: dict) -> dict:
    """`base` with `changes`: mappings are merged key by key, everything else (lists too) is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else copy.deepcopy(value)
    return merged


def read_scale(path: Path, shown: str | None = None) -> dict:
    """A scale. With `extends: mini` the file holds only what differs from config/scales/mini.yaml."""
    shown = shown or str(path)
    known = [other.stem for other in path.parent.glob("*.yaml")]

    def read(name: str) -> Any:
        return read_yaml(path.with_stem(name), str(Path(shown).with_stem(name)))

    scale = read_yaml(path, shown)
    for parent in line_of_parents(scale, shown, known, read):
        scale = deep_merge(read(parent), {key: value for key, value in scale.items() if key != "extends"})
    return {key: value for key, value in scale.items() if key != "extends"} if isinstance(scale, dict) else scale


def line_of_parents(value: Any, shown: str, known: Iterable[str], read: Callable[[str], Any]) -> list[str]:
    """The neighbours that a file extends, from the nearest on; an error where one does not exist or they go round."""
    kind, line = Path(shown).parent.name.removesuffix("s"), [Path(shown).stem]  # config/scales/... -> scale
    while isinstance(value, dict) and "extends" in value:
        parent = value["extends"]
        where = f"{Path(shown).with_stem(line[-1])}, extends"
        if not isinstance(parent, str):
            raise UserError(f"{where}: must be the name of one {kind}, is {parent!r}")
        if parent in line:
            circle = [*line[line.index(parent) :], parent]
            raise UserError(f"{where}: goes round, {' -> '.join(circle)}; take one `extends` out")
        if parent not in known:
            others = [name for name in known if name not in line]
            raise UserError(f"{where}: no {kind} '{parent}'; {did_you_mean(parent, others)}")
        line.append(parent)
        value = read(parent)
    return line[1:]
