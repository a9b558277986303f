"""Numbers of config/ that no computation can mean: every key that holds one has bounds, and says so in one line."""

import copy
import dataclasses
import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from common.errors import UserError
from common.thresholds import BOUNDS, LARGEST
from common.typed import build
from common.yamlfiles import parse_yaml, read_yaml
from corpus.corpusio import SECTIONS, load_thresholds
from engine.config import RunConfig
from engine.options import DESCRIPTIONS
from plan.check import check_run, check_scale
from plan.check_tasks import check_task
from plan.load import SCHEMAS_OF_RUNS, load_cleaning, load_config
from plan.objectives import options_of
from plan.recipes import resolve_recipe, setting_jobs
from plan.runs import resolve_run
from plan.schemas import Schemas, _validator

STRANGE = [
    *(0, -1, math.nan, math.inf, -math.inf, 1e308, -1e308, 10**4000, -(10**4000), 2**63, True, False, 1.5),
    *("1", "1e3", "٣", "²", [], {}, None, [[1]]),
]
TYPES = {"integer", "number"}


def numbers(schema: object, path: str = "") -> Iterator[tuple[str, dict]]:
    """(path, schema) of everything that may be a number."""
    inner = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, value in inner:
        yield from numbers(value, f"{path}/{key}")
    if isinstance(schema, dict) and TYPES & {*_list(schema.get("type"))}:
        yield path, schema


def _list(value: object) -> list:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def all_numbers(repository) -> Iterator[tuple[str, dict]]:
    for path in sorted((repository / "config/schemas").glob("*.schema.json")):
        for place, schema in numbers(json.loads(path.read_text(encoding="utf-8"))):
            yield f"{path.name}{place}", schema


def test_every_number_of_a_schema_has_bounds(repository):
    found = dict(all_numbers(repository))
    assert len(found) > 150
    without = [
        place
        for place, schema in found.items()
        if not ({"minimum", "exclusiveMinimum"} & {*schema} and {"maximum", "exclusiveMaximum"} & {*schema})
    ]
    assert not without, "give them a minimum and a maximum"


def test_a_strange_number_in_any_key_is_refused_in_one_line_or_is_within_its_bounds(repository):
    accepted = refused = 0
    for place, schema in all_numbers(repository):
        schemas = Schemas(repository / "config/schemas")
        schemas.validators["one", False] = _validator()({"properties": {"key": schema}})
        for value in STRANGE:
            try:
                schemas.check({"key": value}, "one", "x.yaml")
            except UserError as error:
                refused += 1
                assert re.match(r"x\.yaml, key(\[0\])?: ", str(error)) and "\n" not in str(error), f"{place}: {error}"
            else:
                accepted += 1
                assert not isinstance(value, bool), place
                assert not isinstance(value, int | float) or abs(value) <= 1e18, f"{place}: {value}"
                assert not isinstance(value, float) or "number" in _list(schema["type"]), f"{place}: {value}"
    assert refused > 10 * accepted > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("010", "010 is 8 in YAML"),
        ("-07", "-07 is -7 in YAML"),
        ("0_7", "0_7 is 7 in YAML"),
        ("1:30", "1:30 is 90 in YAML"),
        ("1:30.5", "1:30.5 is 90.5 in YAML"),
        ("9" * 5000, "is more than 64 bits hold"),
        ("1" + ":0" * 40, "is more than 64 bits hold"),
    ],
)
def test_a_number_that_yaml_reads_as_another_is_refused(text, words):
    with pytest.raises(UserError, match=words):
        parse_yaml(f"a: 1\nb: {text}", "x.yaml")


def test_a_number_that_yaml_reads_as_people_do_is_read():
    text = "a: [0, -1, 1_000, 0.5, 1.0e+3, .5, 0x10, '010', '1:30', 1e3, 08]"
    assert parse_yaml(text, "x.yaml") == {"a": [0, -1, 1000, 0.5, 1000.0, 0.5, 16, "010", "1:30", "1e3", "08"]}


@pytest.mark.parametrize("seeds", [["٣"], ["9" * 5000], ["0"], ["-1"], ["1e3"], [str(2**31)], [math.nan], [2**64]])
def test_a_seed_of_the_command_line_is_one(repository, seeds):
    with pytest.raises(UserError, match=r"--config \(or --configfile\), seeds\[0\]: must be "):
        load_config(repository, {"scale": "smoke", "seeds": seeds})


def test_every_threshold_of_cleaning_has_bounds(repository):
    """By --overrides, as the rules give them, and in the file: a job and the plan say the same."""
    path = repository / "config/cleaning.yaml"
    shipped, refused = read_yaml(path), 0
    assert set(BOUNDS) < {one.name for kind in SECTIONS.values() for one in fields(kind)}
    for section, kind in SECTIONS.items():
        for one in fields(kind):
            low, high = BOUNDS.get(one.name, (0, LARGEST))
            assert low <= shipped[section][one.name] <= high
            for value in (low - 1, low - 1e-12, high + 1, -1, math.nan, math.inf, 1e308, True, "1", [1], None):
                with pytest.raises(UserError, match=rf"--overrides, key {section}\.{one.name}: .*; correct it"):
                    load_thresholds(path, section, json.dumps({section: {one.name: value}}))
                refused += 1
            for value in (low, high):
                own = json.dumps({section: {one.name: value if one.type is float else int(value)}})
                assert getattr(load_thresholds(path, section, own), one.name) == value
    assert refused > 200


@pytest.mark.parametrize("key", ["bands", "rows", "shingle_words", "shingle_characters"])
def test_no_band_row_or_word_of_minhash_is_refused_before_any_job(repository, key):
    config = load_config(repository, {"scale": "smoke"})
    config.scale["cleaning"] = {"duplicates": {key: 0}}
    words = rf"config/scales/smoke\.yaml, cleaning\.duplicates\.{key}: 0 is not between 1 and [0-9,]+; correct it"
    with pytest.raises(UserError, match=words):
        load_cleaning(config)


def test_every_number_of_an_objective_has_bounds():
    refused = 0
    for name, about in DESCRIPTIONS.items():
        for own in fields(about.options):
            if isinstance(own.default, bool | str):
                continue
            for value in STRANGE:
                objective = {"name": name, "options": {own.name: value}}
                try:
                    found = getattr(options_of(objective, "x.yaml"), own.name)
                except UserError as error:
                    refused += 1
                    assert str(error).startswith("x.yaml: ") and f"options.{own.name}" in str(error)
                else:
                    assert found is None or (not isinstance(value, bool) and 0 <= found <= 1e9), f"{name}, {own.name}"
    assert refused > 300


def places_of(value: object, path: tuple = ()) -> Iterator[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places_of(item, (*path, key))
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def test_200_strange_numbers_in_the_configuration_are_refused_or_planned(repository):
    """Across files too: 0 layers, steps or rows are no division by zero. One number of a run, a task or the scale each
    time, such as its schema lets through or not."""
    chance, schemas = random.Random(22), Schemas(repository / "config/schemas")
    whole = load_config(repository, {"scale": "smoke"})
    places = [
        (kind, name, place)
        for kind in ("runs", "tasks")
        for name, own in getattr(whole, kind).items()
        for place in places_of(own)
    ]
    places += [("scale", "smoke", place) for place in places_of(whole.scale)] * 3
    refused = planned = 0
    for _ in range(200):
        kind, name, place = chance.choice(places)
        every = copy.deepcopy(getattr(whole, kind))
        own = inner = every if kind == "scale" else every[name]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = chance.choice((0, 1, 2, 3, 7, 1000, -1, 0.5, 10**9, 1e-300))
        config = dataclasses.replace(whole, **{kind: every}, _resolved={}, _hashes={}, _recipes={}, derived={})
        schema = {"runs": SCHEMAS_OF_RUNS.get(own.get("kind"), ""), "tasks": "task", "scale": "scale"}[kind]
        try:
            schemas.check(own, schema, f"config/{kind}/{name}.yaml")
            if kind == "scale":
                check_scale(config, schemas, "config/scales/smoke.yaml")
                load_cleaning(config)
            elif kind == "runs":
                check_run(config, name)
            else:
                check_task(config, name)
            for run in [name] if kind == "runs" else ["xlm-r", "ernie-m-base"]:
                resolved = resolve_run(config, run)
                if resolved["kind"] == "pretrain":
                    build(RunConfig, resolved, "")
            for task in [name] if kind == "tasks" else ["xnli"]:
                for setting in config.tasks[task]["settings"]:
                    resolve_recipe(config, task, setting_jobs(config, task, setting)[0], "default")
        except UserError as error:
            assert "\n" not in str(error), error
            refused += 1
        else:
            planned += 1
    assert refused > 20 and planned > 20
