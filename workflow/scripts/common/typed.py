"""Dataclasses from nested mappings, as YAML gives them. No torch here: the plan checks options with it too."""

import dataclasses
import sys
import types
import typing
from functools import cache

from common.errors import UserError
from common.yamlfiles import did_you_mean

# Asked for at each of a thousand mappings of a plan, and a search through all classes above.
hints_of = cache(typing.get_type_hints)


def build(kind: type, values: object, where: str) -> typing.Any:
    """A dataclass from nested mappings. Numbers are converted, unknown and missing keys are errors."""
    if not isinstance(values, dict):
        raise UserError(f"key {where or 'the file'}: expected a mapping, found {values!r}")
    fields = {f.name: f for f in dataclasses.fields(kind)}
    hints = hints_of(kind)
    prefix = f"{where}." if where else ""
    for key in values:
        if key not in fields:
            raise UserError(f"unknown key {prefix}{key}; {did_you_mean(key, fields)}")
    for name, f in fields.items():
        no_default = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if no_default and name not in values:
            raise UserError(f"key {prefix}{name} is missing")
    return kind(**{key: convert(hints[key], value, f"{prefix}{key}") for key, value in values.items()})


def convert(hint: typing.Any, value: object, where: str) -> typing.Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else convert(inner[0], value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise UserError(f"key {where}: expected a list, found {value!r}")
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        if len(kinds) != len(value):
            raise UserError(f"key {where}: expected {len(kinds)} values, found {len(value)}")
        return tuple(convert(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= sys.float_info.max:
            raise UserError(f"key {where}: expected a finite number, found {value!r}")
        return float(value)
    if hint is int and isinstance(value, bool):
        raise UserError(f"key {where}: expected int, found {value!r}")
    if hint is typing.Any:
        return value
    if origin is typing.Literal:
        return value  # Options say what is known
    if hint in (int, str, bool, dict) and isinstance(value, hint):
        return value
    raise UserError(f"key {where}: expected {getattr(hint, '__name__', hint)}, found {value!r}")
