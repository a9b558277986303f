"""Read YAML files strictly, and scales with what they extend.

Apart from plan.py, so that a script which only reads its settings does not depend on everything that the plan does.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from errors import UserError

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


def did_you_mean(word: object, known: Iterable[str]) -> str:
    known = sorted(map(str, known))
    close = difflib.get_close_matches(str(word), known, n=1)
    if close:
        return f"did you mean '{close[0]}'? Allowed: {', '.join(known)}"
    return f"allowed: {', '.join(known) or 'nothing (there are none yet)'}"


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
    scale = read_yaml(path, shown)
    if not isinstance(scale, dict) or "extends" not in scale:
        return scale
    parent = scale.pop("extends")
    if not (path.parent / f"{parent}.yaml").is_file():
        known = [other.stem for other in path.parent.glob("*.yaml") if other.stem != path.stem]
        raise UserError(f"{shown}, extends: no scale '{parent}'; {did_you_mean(parent, known)}")
    base = read_yaml(path.parent / f"{parent}.yaml", shown)
    if "extends" in base:
        raise UserError(f"{shown}, extends: '{parent}' itself extends '{base['extends']}'; extend that one")
    return deep_merge(base, scale)
