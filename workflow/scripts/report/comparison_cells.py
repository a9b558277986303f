"""The cells of a comparison: values that papers print, and those of our runs as written and at a scale."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from common.errors import UserError
from common.yamlfiles import deep_merge
from plan import compare_specs
from plan.config import Config
from plan.objectives import WITH_CROSS_ATTENTION
from plan.recipes import recipe_of, resolve_recipe, setting_jobs
from plan.runs import data_languages, resolve_run
from plan.vocabulary import GIVEN_VOCABULARIES, vocabulary_size
from report.context import Context
from report.run_flops import as_engine_reads, flops_by_both, run_key

NONE = "none"
PRINTED, OURS, SCALE = "published", "Parallax", "scale"
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
MANY = 8  # rows that the list of missing cells names


@dataclass(frozen=True)
class Value:
    """One cell. Without a text it is empty, or, with a reason, missing."""

    text: str = ""
    reason: str = ""
    differs: bool = False  # ours is not what is printed
    note: str = ""  # told below the table


@dataclass
class Line:
    source: str  # PRINTED, OURS or SCALE
    cells: list[Value]


@dataclass
class Row:
    label: str
    lines: list[Line]
    run: str = ""


@dataclass
class Block:
    title: str
    rows: list[Row]


@dataclass
class Comparison:
    spec: dict
    context: Context
    columns: list[str]
    blocks: list[Block]
    units: dict[str, list[str]] = field(default_factory=dict)  # of a source's columns, where they are not the same
    across: int = 1  # so many rows in one line
    side: bool = True  # a row is one line, what is printed beside ours
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for block in self.blocks for row in block.rows]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(line.source for row in self.rows for line in row.lines))


SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}


@dataclass(frozen=True)
class Printed:
    """A number as it is printed, and half a unit of its last digit where it is rounded."""

    value: float
    slack: float = 0.0


def printed_numbers(text: str) -> list[Printed] | None:
    """`5e-5`, `200K`, `10%`, `15%/25%`, `(0.9, 0.98)`, `[3,5,10]`, `{5,...,9}e-6`, `12500 steps`; None for a word."""
    match = re.fullmatch(r"[\[{(]?([^\]})]*)[\]})]?((?:e-?\d+)?)", text.strip().removesuffix(" steps"))
    if match is None:
        return None
    cells = [cell.strip() for cell in re.split(r"[,/]", match[1])]
    if "..." in cells:
        cells = [str(number) for number in range(int(cells[0]), int(cells[-1]) + 1)]
    numbers = [_printed_number(cell + match[2]) for cell in cells]
    return None if None in numbers else numbers


def _printed_number(text: str) -> Printed | None:
    suffix = text[-1:] if text[-1:] in SUFFIXES else ""
    try:
        value = float(text.rstrip("%").removesuffix(suffix))
    except ValueError:
        return None
    if not suffix:
        return Printed(value / 100 if text.endswith("%") else value)
    decimals = len(text.removesuffix(suffix).partition(".")[2])
    return Printed(value * SUFFIXES[suffix], 0.5 * SUFFIXES[suffix] / 10**decimals)


def is_printed(text: str, value: Any) -> bool:
    """Is this value what the text says, to its last digit?"""
    numbers, own = printed_numbers(text), value if isinstance(value, list | tuple) else [value]
    if numbers is None or any(isinstance(one, str) for one in own):
        return len(own) == 1 and str(own[0]).casefold() == text.casefold()
    return len(numbers) == len(own) and all(
        abs(number.value - one) <= max(number.slack, 1e-9 * abs(number.value))
        for number, one in zip(numbers, own, strict=True)
    )


def written(value: Any, like: str = "") -> str:
    """A value in the notation of what is printed beside it: per cent, thousands and powers where that one has them."""
    if isinstance(value, list | tuple):
        if "/" in like:
            parts = like.split("/")
            return "/".join(written(one, part) for one, part in zip(value, parts, strict=False))
        if like.startswith("("):
            return f"({', '.join(map(written, value))})"
        return tried(value)
    if isinstance(value, bool | str):
        return str(value)[:1].upper() + str(value)[1:]
    if like.endswith(("%", " steps")) and 0 < value <= 1:
        return f"{round(100 * value, 6):g}%"
    if like.endswith(" steps"):
        return f"{value} steps"
    suffix = like[-1:] if like[-1:] in SUFFIXES else ""
    if suffix:
        decimals = len(like[:-1].partition(".")[2])
        thousands = value / SUFFIXES[suffix]
        if thousands >= 100 or round(thousands, decimals) == thousands:  # else a digit that counts would be lost
            return f"{thousands:.{decimals}f}{suffix}"
    if isinstance(value, float) and 0 < abs(value) < 1e-2:
        mantissa, _, exponent = f"{value:.6e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def tried(values: Iterable[float]) -> str:
    """Several values as the papers write them: {8,16,32}, {8,9,10,20}e-6."""
    exponents = [int(f"{value:.6e}".partition("e")[2]) for value in values]
    if max(exponents) >= -2:
        return f"{{{','.join(map(written, values))}}}"
    return f"{{{','.join(f'{value / 10 ** min(exponents):g}' for value in values)}}}e{min(exponents)}"


def power(value: float) -> str:
    """Floating-point operations: 9.6e21."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


@dataclass(frozen=True)
class Subject:
    """What keys are looked up in: a run and, where a task is named, the recipe that its model is fine-tuned with."""

    name: str
    run: dict
    vocabulary: int
    recipe: dict | None
    decoder_layers: int | None
    languages: int

    def look_up(self, key: str) -> Any:
        if key in COUNTED:
            return COUNTED[key](self)
        if key == "vocabulary":
            return self.vocabulary
        if key == "decoder_layers":
            return self.decoder_layers
        if key == "languages":
            return self.languages
        if key.startswith(compare_specs.RECIPE):
            return compare_specs.of_recipe(self.recipe or {}, key.removeprefix(compare_specs.RECIPE))
        return compare_specs.of_run(self.run, key)


def as_written(config: Config, run: str, task: str | None = None, setting: str | None = None) -> Subject:
    """At the paper's own size: the file of the run with what it extends, the recipe of the task's file."""
    own = config.runs[run]
    recipe = None
    if task is not None:
        recipes = config.tasks[task]["recipes"]
        chosen = recipes[own["finetune_recipe"] if own["finetune_recipe"] in recipes else "default"] or {}
        by_setting = (chosen.get("settings") or {}).get(setting) or {}
        recipe = deep_merge({key: value for key, value in chosen.items() if key != "settings"}, by_setting)
    return Subject(run, own, GIVEN_VOCABULARIES["xlm-r/sentencepiece"], recipe, _decoder(own), languages_read(own))


def at_scale(config: Config, run: str, task: str | None = None, setting: str | None = None) -> Subject:
    resolved = resolve_run(config, run)
    recipe = None
    if task is not None:
        job = setting_jobs(config, task, setting)[0]
        recipe = resolve_recipe(config, task, job, recipe_of(config, run))["recipe"]
    return Subject(run, resolved, vocabulary_size(config), recipe, _decoder(resolved), languages_read(resolved))


def _decoder(run: dict) -> int | None:
    """The layers that an objective decodes with: its own decoder's, or, with cross-attention, those of the encoder."""
    for objective in run["objectives"]:
        if objective["name"] in WITH_CROSS_ATTENTION:
            return run["model"]["layers"]
        if layers := compare_specs.of_run(run, f"objectives.{objective['name']}.options.decoder_layers"):
            return layers
    return None


def languages_read(run: dict) -> int:
    return len(data_languages(run.get("data", {})))


def parameters(subject: Subject) -> int:
    """Those that the final weights of a run have: neither momentum copies nor a generator."""
    return _parameters(run_key(subject.run, subject.vocabulary))


def flops_by_papers(subject: Subject) -> float:
    return flops_by_both(run_key(subject.run, subject.vocabulary))[0]


def flops_of_ours(subject: Subject) -> float:
    return flops_by_both(run_key(subject.run, subject.vocabulary))[1]


COUNTED: dict[str, Callable[[Subject], Any]] = {
    "parameters": parameters,
    "flops.papers": flops_by_papers,
    "flops.ours": flops_of_ours,
}


@cache
def _parameters(key: str) -> int:
    """From the shapes of the model."""
    from engine.model import shapes_alone
    from engine.objectives import OBJECTIVES
    from training.assembly import PretrainingModel, parameters_of

    run = as_engine_reads(key)
    with shapes_alone():
        model = PretrainingModel(run)
    left_out = {name for objective in run.objectives for name in OBJECTIVES[objective.name].training_only}
    size = parameters_of(model, left_out)
    return size["all"] - size["training_only"]


def subjects(config: Config, run: str, task: str | None = None, setting: str | None = None) -> dict[str, Subject | str]:
    """As written and at the scale, or the reason why the scale has none."""
    found: dict[str, Subject | str] = {OURS: as_written(config, run, task, setting)}
    try:
        found[SCALE] = at_scale(config, run, task, setting)
    except UserError as error:
        found[SCALE] = str(error)
    return found


def cell_of(subject: Subject | str, keys: list[str], like: str, count: bool) -> tuple[Value, Any]:
    """A value as it is shown, and as it is."""
    if isinstance(subject, str):
        return Value(reason=subject), None
    if not count and any(name in COUNTED for key in keys for name in compare_specs.names_in(key)):
        return Value(), None
    values = [compare_specs.value_of(key, subject.look_up) for key in keys]
    if None in values:  # there is no such thing, which is a value too
        return Value(NONE if like else ""), NONE
    value = values[0] if len(values) == 1 else values
    return Value(written(value, like)), value
