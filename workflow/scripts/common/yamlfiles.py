"""Read YAML files strictly, and runs and scales with what they extend.

Apart from plan/, so that a script which only reads its settings does not depend on everything that the plan does.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import yaml

from common.atomic import check_sum
from common.errors import UserError, reason

_BaseLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


MOST_VALUES = 200_000  # of one file, with what its aliases stand for; the largest of config/ has some thousands
DEEPEST = 100


class _Loader(_BaseLoader):
    """Safe YAML where a key is a word and cannot stand twice (the second would silently win), and every number is one
    that a computer can hold."""

    def wrong(self, node: yaml.Node, what: str) -> UserError:
        return UserError(f"{self.file}:{node.start_mark.line + 1}: {what}")


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    loader.flatten_mapping(node)
    mapping = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise loader.wrong(key_node, f"{key!r} cannot be a key; write a word, in quotes if need be")
        if key in mapping:
            raise loader.wrong(key_node, f"key '{key}' stands twice in one place; remove one")
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


# What YAML 1.1 reads as another number than people do: 010 as 8, 1:30 as 90.
_OTHER_BASE = re.compile(r"[-+]?0[0-9_]+|.*:.*")


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = loader.construct_yaml_float(node)
    _check_base(loader, node, value)
    if not math.isfinite(value):
        raise loader.wrong(node, f"{node.value} is no finite number")
    return value


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > 64 or abs(value := loader.construct_yaml_int(node)) >= 1 << 63:
        raise loader.wrong(node, f"{node.value} is more than 64 bits hold")
    _check_base(loader, node, value)
    return value


def _check_base(loader: _Loader, node: yaml.ScalarNode, value: float) -> None:
    if _OTHER_BASE.fullmatch(node.value):
        raise loader.wrong(
            node, f"{node.value} is {value} in YAML; write it in plain digits, or in quotes if it is a text"
        )


def _construct_str(loader: _Loader, node: yaml.ScalarNode) -> str:
    if "\0" in node.value:
        raise loader.wrong(node, f"{node.value!r} holds a null byte; remove it")
    return node.value


for _kind, _construct in (
    ("map", _construct_mapping),
    ("float", _construct_float),
    ("int", _construct_int),
    ("str", _construct_str),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _construct)


def read_yaml(path: str | Path, shown: str | None = None) -> Any:
    """The content of a YAML file; `shown` is the name that error messages give it."""
    shown = shown or str(path)
    try:
        return parse_yaml(Path(path).read_text(encoding="utf-8"), shown)
    except OSError as error:
        raise UserError(f"{shown}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: byte {error.start} is not UTF-8; save the file as UTF-8") from None


def read_resolved(path: str | Path) -> Any:
    """What a resolve_*.py wrote, as it was written: a digit that a disk or an editor changed is another model."""
    check_sum(path, "delete it, and run again; what was computed from it since is to be deleted too")
    return read_yaml(path)


def parse_yaml(text: str, shown: str) -> Any:
    """The value of a YAML text, which comes from `shown`."""
    loader = None
    try:
        if "*" in text or len(text) > 100 * DEEPEST:  # no aliases, and too short to be deep
            _check_size(text, shown)
        loader = _Loader(text)
        loader.file = shown
        value = loader.get_single_data()
        _check_depth(value, shown)
        return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        lines, problem = text.splitlines(), error.problem or error.context
        number = min(mark.line + 1, len(lines)) if mark else 0  # the end is on no line
        tab = "cannot start any token" in problem and "\t" in lines[number - 1]
        where, mend = f":{number}" if mark else "", "; indent with blanks, not with tabs" if tab else ""
        raise UserError(f"{shown}{where}: not YAML: {problem}{mend}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{shown}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UserError(f"{shown}: nested too deep; no file here needs more than {DEEPEST} levels") from None
    finally:
        if loader is not None:
            loader.dispose()


def _check_depth(value: Any, shown: str) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise UserError(f"{shown}: nested too deep; no file here needs more than {DEEPEST} levels")


def _check_size(text: str, shown: str) -> None:
    """Before any value is made: aliases of aliases stand for more values than a memory holds, and the library reads
    what is deep by calling itself, until the process is killed."""
    sizes: dict[str, int] = {}  # of what has an anchor, in values
    levels: dict[str, int] = {}
    outer: list[list] = [[None, 1, 1]]  # anchor, values, levels of everything that is open
    for event in yaml.parse(text, Loader=_BaseLoader):
        where = f"{shown}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.CollectionStartEvent):
            outer.append([event.anchor, 1, 1])
            if len(outer) > DEEPEST:
                raise UserError(f"{where}: nested too deep; no file here needs more than {DEEPEST} levels")
            continue
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in (anchor for anchor, *_ in outer):
                raise UserError(f"{where}: *{event.anchor} is within itself; write out what is meant")
            size, depth, anchor = sizes.get(event.anchor, 1), levels.get(event.anchor, 1), None
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size, depth = outer.pop()
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size, depth = event.anchor, 1, 1
        else:
            continue
        if anchor:
            sizes[anchor], levels[anchor] = size, depth
        outer[-1][1] += size
        outer[-1][2] = max(outer[-1][2], depth + 1)
        if outer[-1][1] > MOST_VALUES:
            raise UserError(f"{where}: over {MOST_VALUES:,} values, with what aliases (*) stand for; take some out")
        if len(outer) + depth > DEEPEST:
            raise UserError(f"{where}: nested too deep; no file here needs more than {DEEPEST} levels")


SHOWN = 60  # names in one message
FEW = 25  # so many are shown beside a guess too


def check_known(word: str, known: Iterable[str], where: str, what: str) -> None:
    if not isinstance(known, Collection):
        known = list(known)
    if word not in known:
        raise UserError(f"{where}: unknown {what} '{word}'; {did_you_mean(word, known)}")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    known = sorted(map(str, known))
    shown = ", ".join(known[:SHOWN]) + (f" and {len(known) - SHOWN} more" if len(known) > SHOWN else "")
    padded = re.sub(r"-(\d)\b", r"-0\1", str(word))  # table-1 is table-01, and neither table-11 nor table-16
    close = [padded] if padded in known else difflib.get_close_matches(str(word), known, n=1)
    if close:
        few = f" Allowed: {shown}" if len(known) <= FEW else ""
        return f"did you mean '{close[0]}'?{few}"
    return f"allowed: {shown or 'nothing (there are none yet)'}"


def deep_merge(base: dict, changes: dict) -> dict:
    """`base` with `changes`: mappings are merged key by key, everything else (lists too) is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else copy.deepcopy(value)
    return merged


def _without_vocabulary(base: dict, changes: dict) -> dict:
    """A parent, for a scale with another kind of vocabulary: keys of one that is trained say nothing of one that is
    taken from somewhere."""
    ours, theirs = (
        {*scale["vocabulary"]} & {"given", "of", "size"} if isinstance(scale.get("vocabulary"), dict) else set()
        for scale in (changes, base)
    )
    return base if ours <= theirs else {key: value for key, value in base.items() if key != "vocabulary"}


def read_scale(path: Path, shown: str | None = None) -> dict:
    """A scale. With `extends: mini` the file holds only what differs from config/scales/mini.yaml."""
    shown = shown or str(path)
    known = [other.stem for other in path.parent.glob("*.yaml")]

    def read(name: str) -> Any:
        return read_yaml(path.with_stem(name), str(Path(shown).with_stem(name)))

    scale = read_yaml(path, shown)
    for parent in line_of_parents(scale, shown, known, read):
        base = read(parent)
        if not isinstance(base, dict):
            raise UserError(f"{Path(shown).with_stem(parent)}: must be a mapping; write the scale, or take extends out")
        scale = deep_merge(_without_vocabulary(base, scale), {k: v for k, v in scale.items() if k != "extends"})
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
