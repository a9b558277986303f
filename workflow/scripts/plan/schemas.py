"""The JSON schemas of config/schemas: what they find wrong in a file, as one line with file and key."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.yamlfiles import did_you_mean


def _key(path: Iterable[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _explain(error: Any, shown: str) -> str:
    """One jsonschema error as one line: file, key, what is wrong, what is allowed."""
    key = _key(error.absolute_path)
    where = f"{shown}, {key}" if key else shown
    schema, value = error.schema, error.instance
    if error.validator == "additionalProperties":
        allowed = sorted(schema.get("properties", {}))
        unknown = sorted(str(name) for name in value if name not in schema.get("properties", {}))[0]
        return f"{shown}, {key + '.' if key else ''}{unknown}: unknown key; {did_you_mean(unknown, allowed)}"
    if error.validator == "required":
        missing = sorted(name for name in error.validator_value if name not in value)[0]
        about = schema.get("properties", {}).get(missing, {}).get("description", "")
        return f"{where}: key '{missing}' is missing{f' ({about})' if about else ''}"
    if error.validator == "type":
        kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        hint = ""
        if isinstance(value, bool) and "string" in kinds:
            hint = '; YAML reads a bare no, yes, on or off as true or false: write it in quotes, "no"'
        elif isinstance(value, str) and {"number", "integer"} & set(kinds):
            point = ", and write exponents with a point, as 6.0e-4" if "e" in value.lower() else ""
            hint = f"; remove the quotes{point}" if says_a_number(value) else ""
        elif value is None:
            hint = "; give it a value or remove the key"
        kind = " or ".join(_TYPES[kind] for kind in kinds)
        return f"{where}: must be {kind}, is {json.dumps(value, ensure_ascii=False, default=str)}{hint}"
    if error.validator in ("enum", "const"):
        allowed = error.validator_value if error.validator == "enum" else [error.validator_value]
        allowed = ["null" if item is None else str(item) for item in allowed]
        return f"{where}: {value!r} is unknown; {did_you_mean(value, allowed)}"
    if error.validator == "propertyNames":
        return f"{where}: {error.instance!r} cannot be a key here; it must match {schema.get('pattern', schema)}"
    if error.validator == "pattern":
        about = schema.get("description", f"it must match {error.validator_value}")
        return f"{where}: {value!r} is not right here: {about}"
    bounds = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
    }
    if error.validator in bounds:
        return f"{where}: must be {bounds[error.validator]} {error.validator_value}, is {value}"
    if error.validator in ("minItems", "minLength", "minProperties"):
        return f"{where}: is empty; give at least {error.validator_value}"
    if error.validator == "uniqueItems":
        twice = sorted(str(item) for item in value if value.count(item) > 1)[0]
        return f"{where}: '{twice}' is named twice; remove one"
    if error.validator in ("anyOf", "oneOf"):
        about = schema.get("description")
        if twice := next((inner for inner in error.context if inner.validator == "uniqueItems"), None):
            return _explain(twice, shown)
        if about:
            return f"{where}: {json.dumps(value, ensure_ascii=False, default=str)} is not right here: {about}"
        return _explain(max(error.context, key=lambda inner: len(inner.absolute_path)), shown)
    return f"{where}: {error.message}"


def says_a_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@cache
def _validator() -> type:
    """jsonschema's, but 1.0 is no whole number (as a seed it would name other files than 1), and NaN, which is neither
    above nor below any bound, no number."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    def whole(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def finite(_: Any, value: Any) -> bool:
        return whole(_, value) or (isinstance(value, float) and math.isfinite(value))

    kinds = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": whole, "number": finite})
    return extend(Draft202012Validator, type_checker=kinds)


class Schemas:
    """The JSON schemas of config/schemas, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.validators: dict[tuple[str, bool], Any] = {}

    def check(self, value: Any, kind: str, shown: str, partial: bool = False) -> None:
        key = (kind, partial)
        if key not in self.validators:
            validator = _validator()
            path = self.folder / f"{kind}.schema.json"
            try:
                schema = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise UserError(f"config/schemas/{path.name}: no such file; restore it from the repository") from None
            except json.JSONDecodeError as error:
                raise UserError(f"config/schemas/{path.name}:{error.lineno}: not JSON: {error.msg}") from None
            self.validators[key] = validator(_partial(schema) if partial else schema)
        if value is None:
            raise UserError(f"{shown}: the file is empty")
        # The unknown key first: a misspelt key is also a missing one, and the misspelling is what helps.
        rank = {"additionalProperties": 0, "type": 1}
        errors = sorted(
            self.validators[key].iter_errors(value),
            key=lambda error: (rank.get(error.validator, 2), [str(part) for part in error.absolute_path]),
        )
        if errors:
            raise UserError(_explain(errors[0], shown))


def check_schema(root: Path, value: Any, kind: str, shown: str) -> None:
    """Check the content of one file, which `shown` names, against config/schemas/<kind>.schema.json."""
    Schemas(root / "config/schemas").check(value, kind, shown)


def _partial(schema: dict) -> dict:
    """A schema of the same shape where nothing is required: overrides name a few keys."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("required", "minProperties")}
    if "properties" in kept:
        kept["properties"] = {key: _partial(value) for key, value in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _partial(kept["items"])
    return kept
