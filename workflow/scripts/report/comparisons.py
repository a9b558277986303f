"""What is compared without a score: sizes of corpora, hyper-parameters, sizes and costs of models. No formatting here.

`build` gives each row of a comparison (a table spec with `compare`) up to three lines: what is printed, what our files
say at the paper's own size, and what the configured scale makes of it. A value that there is not has a reason.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.yamlfiles import deep_merge
from plan import compare_specs
from plan.claimed import cost_unknown
from plan.config import Config
from plan.evidence import corpus_counts, is_current, training_path
from plan.objectives import WITH_CROSS_ATTENTION
from plan.recipes import recipe_of, resolve_recipe, setting_jobs
from plan.runs import GIVEN_VOCABULARIES, data_languages, lineage, pretrain_seed, resolve_run, vocabulary_size
from report.scores import Summary
from report.tables import Context, errata_of
from report.tables import build as build_table
from report.trainings import read_training

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

    def source_name(self, source: str) -> str:
        return f"at {self.context.scale}" if source == SCALE else source


def build(spec: dict, context: Context, count: bool = True) -> Comparison:
    """Without `count` nothing is counted that needs a model: such cells are empty, and torch is not imported."""
    kind, how = next(iter(spec["compare"].items()))
    published = compare_specs.published_rows(context.root, spec, f"config/tables/{spec['paper']}/{spec['item']}.yaml")
    comparison = BUILD[kind](spec, how, context, published, count)
    comparison.notes += [
        f"Erratum of the paper: {e['row']}, {e['column']}: printed {e['printed']}, recomputed {e['recomputed']}; "
        f"{e['explanation']}."
        for e in errata_of(context.root, spec["paper"], spec["item"])
    ]
    return comparison


# --- numbers as the papers write them -------------------------------------------------------------------------------

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


# --- a run or a recipe, as written and at the scale -----------------------------------------------------------------


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
    return _counted(_key(subject))[0]


def flops_by_papers(subject: Subject) -> float:
    return _counted(_key(subject))[1]


def flops_of_ours(subject: Subject) -> float:
    return _counted(_key(subject))[2]


COUNTED: dict[str, Callable[[Subject], Any]] = {
    "parameters": parameters,
    "flops.papers": flops_by_papers,
    "flops.ours": flops_of_ours,
}


def _key(subject: Subject) -> str:
    return json.dumps([subject.run, subject.vocabulary], sort_keys=True)


@cache
def _counted(key: str) -> tuple[int, float, float]:
    """Parameters from the shapes of the model, and FLOPs of its passes by both countings. Rows are taken as full, each
    one document: what real text leaves empty costs less."""
    import dataclasses

    import torch

    from common.typed import build as build_typed
    from engine import cost
    from engine.config import RunConfig
    from engine.objectives import OBJECTIVES
    from training.assembly import PretrainingModel, parameters_of

    values, vocabulary = json.loads(key)
    values = {name: value for name, value in values.items() if name not in ("paper", "decoder")}
    for section, share in (("schedule", "steps_share"), ("model", "layers_share")):
        values[section] = {name: value for name, value in values[section].items() if name != share}
    run = build_typed(RunConfig, values, "")
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, vocabulary=vocabulary))
    with torch.device("meta"):
        model = PretrainingModel(run)
    left_out = {name for objective in run.objectives for name in OBJECTIVES[objective.name].training_only}
    size = parameters_of(model, left_out)
    seen = {}
    in_turn = len(run.objectives) if run.schedule.alternate else 1
    for objective in run.objectives:
        length = objective.row_length or run.batch.row_length
        tokens = (objective.rows or run.batch.rows) * length * run.schedule.steps / in_turn
        seen[objective.name] = cost.Seen(tokens, objective.mask.rate * tokens, tokens / length, tokens * length)
    flops = cost.flops(run, seen).values()
    return size["all"] - size["training_only"], sum(f["papers"] for f in flops), sum(f["ours"] for f in flops)


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


def compared(
    subjects: dict[str, Subject | str], keys: list[str], printed: str, why: str, count: bool
) -> dict[str, Value]:
    """What is printed, ours and the scale's; ours is marked where it is not what is printed."""
    cells = {PRINTED: Value(printed)}
    for source, subject in subjects.items():
        cell, value = cell_of(subject, keys, printed, count)
        unlike = source == OURS and printed and (cell.reason or (cell.text and not is_printed(printed, value)))
        cells[source] = replace(cell, differs=True, note=why) if unlike else cell
    return cells


# --- hyper-parameters -----------------------------------------------------------------------------------------------


def build_hyperparameters(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    headings = [column["heading"] for column in how["columns"]]
    rows = []
    for name, row in compare_specs.rows_of(how).items():
        lines: dict[str, list[Value]] = {source: [] for source in (PRINTED, OURS, SCALE)}
        for column in how["columns"]:
            printed = _printed_of(published, row.get("published", name), row.get("setting"), column["published"])
            why = _difference(how, name, column["heading"])
            cells = _hyperparameter(row, column, printed, why, context, count)
            for source, value in cells.items():
                lines[source].append(value)
        rows.append(Row(name, [Line(source, cells) for source, cells in lines.items()]))
    return Comparison(spec, context, headings, [Block("", rows)], side=len(headings) <= SIDE_BY_SIDE)


def _hyperparameter(row: dict, column: dict, printed: str, why: str, context: Context, count: bool) -> dict[str, Value]:
    task, setting = column.get("task"), row.get("setting", column.get("setting"))
    if task and setting not in context.config.tasks[task]["settings"]:
        return dict.fromkeys((PRINTED, OURS, SCALE), Value())  # the row is not of this task
    if "none" in row:
        return {PRINTED: Value(printed)} | dict.fromkeys((OURS, SCALE), Value(reason=row["none"]))
    if "always" in row:
        value = Value(written(row["always"], printed))
        differs = bool(printed) and not is_printed(printed, row["always"])
        return {
            PRINTED: Value(printed),
            OURS: replace(value, differs=differs, note=why if differs else ""),
            SCALE: value,
        }
    return compared(
        subjects(context.config, column["run"], task, setting), compare_specs.keys_of(row), printed, why, count
    )


def _printed_of(published: list[dict], name: str, setting: str | None, column: str) -> str:
    """One printed value; a row of the CSV with a setting is for that one alone."""
    found = [row for row in published if row["hyperparameter"] == name and row.get("setting") in (None, "", setting)]
    return found[0][column] if found else ""


def _difference(how: dict, row: str, column: str) -> str:
    """Why a cell is not what is printed: the most exact of what the spec says."""
    told = how.get("differs", {})
    return next((told[name] for name in (f"{row}, {column}", row, column) if name in told), "")


# --- models ---------------------------------------------------------------------------------------------------------


def build_models(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    tables = [build_table(other, context) for other in compare_specs.score_specs(context.root, spec)]
    scores = dict(zip([column["heading"] for column in how["columns"] if "score" in column], tables, strict=True))
    rows = []
    for row in how["rows"]:
        lines: dict[str, list[Value]] = {source: [] for source in (PRINTED, OURS, SCALE)}
        own = subjects(context.config, row["run"]) if "run" in row else {}
        for column in how["columns"]:
            heading = column["heading"]
            printed = _printed_of_model(published, row["published"], column)
            why = _difference(how, row["label"], heading)
            cells = {PRINTED: Value(printed)}
            if "run" not in row:
                cells |= {OURS: Value(reason=row.get("why", "no run of ours")), SCALE: Value()} if printed else {}
            elif "none" in column:
                cells |= {OURS: Value(reason=column["none"]), SCALE: Value()}
            elif "score" in column:
                cells[SCALE] = _score(scores[heading], column["score"]["column"], row["run"], context)
            elif column["key"].startswith("flops."):
                cells |= _flops(column["key"], own, row["run"], printed, why, context, count)
            else:
                cells = compared(own, [column["key"]], printed, why, count)
            for source in lines:
                lines[source].append(cells.get(source, Value()))
        kept = lines if "run" in row else {source: lines[source] for source in (PRINTED, OURS)}
        rows.append(Row(row["label"], [Line(source, cells) for source, cells in kept.items()], row.get("run", "")))
    headings = [column["heading"] for column in how["columns"]]
    return Comparison(spec, context, headings, [Block("", rows)], side=False)


def _printed_of_model(published: list[dict], model: str, column: dict) -> str:
    """As printed: of the columns of the CSV, or of its metrics; several are the terms of a sum."""
    terms = []
    for name in compare_specs.listed(column.get("published")):
        if "metric" in published[0]:
            found = [row["value"] for row in published if (row["model"], row["metric"]) == (model, name)]
        else:
            found = [row[name] for row in published if row["model"] == model]
        terms += [text for text in found if text]
    if column.get("unit"):
        terms = [f"{float(term) / SUFFIXES[column['unit']]:g}{column['unit']}" for term in terms]
    return " + ".join(terms)


def _score(table: Any, heading: str, run: str, context: Context) -> Value:
    """The number that a table of scores has in a column for a run."""
    if run in context.unselected:
        return Value(reason=not_trained(run))
    index = next(i for i, column in enumerate(table.columns) if column.heading == heading)
    for row in table.rows:
        if row.run == run:
            cell = row.cells[index]
            return Value(score_words(cell.summary)) if cell.summary else Value(reason=cell.reason)
    return Value(reason=f"{table.spec['paper']}/{table.spec['item']} has no row of run {run}")


def not_trained(run: str) -> str:
    return f"run {run} is not trained here; add it to `runs`, or say --config runs=all"


def score_words(summary: Summary) -> str:
    deviation = "" if summary.std is None else f" ± {summary.std:.1f}"
    return f"{summary.mean:.1f}{deviation} ({summary.n})"


def _flops(
    key: str, own: dict[str, Subject | str], run: str, printed: str, why: str, context: Context, count: bool
) -> dict[str, Value]:
    """Of a run and, before it, of those that it starts from: ours from its size, the scale's from its training."""
    config = context.config
    line = lineage(config, run)[::-1]
    if reason := cost_unknown(config, run):
        return {PRINTED: Value(printed), SCALE: Value(reason=reason)} | ({OURS: Value(reason=reason)} if count else {})
    cells = {PRINTED: Value(printed), SCALE: _measured(key, line, context)}
    if count:
        terms = [COUNTED[key](as_written(config, name)) for name in line]
        numbers = [float(term) for term in printed.split(" + ")] if printed else []
        same = len(terms) == len(numbers) and all(power(a) == power(b) for a, b in zip(terms, numbers, strict=True))
        differs = bool(printed) and not same
        cells[OURS] = Value(" + ".join(map(power, terms)), differs=differs, note=why if differs else "")
    return cells


def _measured(key: str, line: list[str], context: Context) -> Value:
    config = context.config
    name = {"flops.ours": "flops", "flops.papers": "flops_by_the_papers_counting"}[key]
    if line[-1] not in config.selected:
        return Value(reason=not_trained(line[-1]))
    terms = []
    for run in line:
        seeds = sorted({pretrain_seed(config, seed) for seed in config.seeds})
        paths = [context.root / training_path(config, run, seed) for seed in seeds]
        found = [read_training(path, context.scale).cost[name] for path in paths if _there(path, context)]
        if not found:
            why = "is not among the reference" if context.reference else "is not there; its job has not run"
            return Value(reason=f"the record of the training of {run} {why}")
        terms.append(statistics.fmean(found))
    return Value(" + ".join(map(power, terms)))


# --- corpora --------------------------------------------------------------------------------------------------------


def _there(path: Path, context: Context) -> bool:
    return is_current(context.config, path) if context.reference else path.exists()


def load_counts(context: Context) -> dict | None:
    """kind -> corpus -> language or pair -> raw or kept -> quantity, from counts.json."""
    for path in (context.root / name for name in corpus_counts(context.config)):
        if path.exists():
            try:
                counts = json.loads(path.read_text(encoding="utf-8"))
                return {kind: counts[kind] for kind in ("mono", "bitext")}
            except (ValueError, TypeError, KeyError) as error:
                raise UserError(f"{path}: not the sizes of corpora ({error}); delete it and count again") from None
    return None


def no_counts(context: Context) -> str:
    return "no counts among the reference" if context.reference else "no corpus/counts.json; its job has not run"


@dataclass
class Counts:
    """The sizes of the corpora, and why one of them has none."""

    context: Context
    content: dict | None

    def of(self, sources: Iterable[tuple[str, str, str]], state: str, quantity: str) -> int | str:
        """The sum over sources, or why there is none."""
        if self.content is None:
            return no_counts(self.context)
        total = 0
        for kind, corpus, name in sources:
            found = self.content[kind].get(corpus, {}).get(name)
            if found is None:
                return f"{corpus} {name} is of no run that is trained here; say --config runs=all"
            total += found[state][quantity]
        return total

    def sources(self, run: str, kind: str) -> list[tuple[str, str, str]] | str:
        """What a run reads at this scale."""
        try:
            resolved = resolve_run(self.context.config, run)
        except UserError as error:
            return str(error)
        return compare_specs.text_read(resolved) if kind == "mono" else compare_specs.pairs_read(resolved)


def build_corpora(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    counts, run, kind = Counts(context, load_counts(context)), how["run"], how["kind"]
    config = context.config
    written_run = config.runs[run]
    named = compare_specs.text_read(written_run) if kind == "mono" else compare_specs.pairs_read(written_run)
    sources = counts.sources(run, kind)
    values: dict[tuple[str, int], int | str] = {}
    names = [row[how["by"]] for row in published]
    for name in names:
        for index, column in enumerate(how["columns"]):
            values[name, index] = _size(name, column, counts, run, named, sources, context)
    units = [_unit([values[name, i] for name in names], column["unit"]) for i, column in enumerate(how["columns"])]
    rows = []
    for row in published:
        name, printed, ours = row[how["by"]], [], []
        for index, column in enumerate(how["columns"]):
            value = values[name, index]
            printed.append(Value(row[column["published"]]))
            ours.append(
                Value(reason=value) if isinstance(value, str) else Value(_in_unit(value, units[index], column, row))
            )
        rows.append(Row(name, [Line(PRINTED, printed), Line(SCALE, ours)]))
    headings = [column["heading"] for column in how["columns"]]
    comparison = Comparison(spec, context, headings, [Block("", rows)], across=how.get("across", 1))
    comparison.units = {PRINTED: [column["unit"] for column in how["columns"]], SCALE: units}
    return comparison


def _size(
    name: str, column: dict, counts: Counts, run: str, named: list, sources: list | str, context: Context
) -> int | str:
    if isinstance(sources, str):
        return sources
    own = sources if name == TOTAL else [source for source in sources if _is_of(name, source)]
    if not own:
        if any(_is_of(name, source) for source in named):
            return f"not at scale {context.scale}"
        return f"run {run} reads none"
    return counts.of(own, "kept", column["ours"])


TOTAL = "total"


def _is_of(name: str, source: tuple[str, str, str]) -> bool:
    """A language is that of a text, or of its pair with English."""
    return source[2] in (name, "-".join(sorted((name, "en"))))


def _unit(values: Iterable[int | str], printed: str) -> str:
    """The unit of the paper, or the largest smaller one in which the largest of our numbers is at least 1."""
    largest = max((value for value in values if not isinstance(value, str)), default=UNITS[printed])
    family = ("GB", "MB", "kB", "B") if printed.endswith("B") else ("M", "k", "")
    smaller = family[family.index(printed) :]
    return next((unit for unit in smaller if largest >= UNITS[unit]), smaller[-1])


def _in_unit(value: float, unit: str, column: dict, row: dict) -> str:
    decimals = len(row[column["published"]].partition(".")[2]) if unit == column["unit"] else 1
    return f"{value / UNITS[unit]:.{decimals if UNITS[unit] > 1 else 0}f}"


def build_resources(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    counts, languages = Counts(context, load_counts(context)), how["languages"]
    with_total = "total" in published[0]
    blocks = []
    for group in how["groups"]:
        rows = []
        for row in group["rows"]:
            [printed] = [
                own for own in published if (own["section"], own["resource"]) == (group["section"], row["published"])
            ]
            shown = [printed[code] for code in languages] + ([printed["total"]] if with_total else [])
            ours = [_pairs(row, code, printed[code], counts, context) for code in languages]
            cells = [_pair_cell(value) for value in ours]
            if with_total:
                cells.append(_total(ours, printed["total"], row))
            lines = [Line(PRINTED, [Value(text) for text in shown])]
            if "why" not in row:
                lines.append(Line(SCALE, cells))
            else:
                lines.append(Line(SCALE, [Value(reason=row["why"]) if text else Value() for text in shown]))
            rows.append(Row(row["published"], lines, row.get("run", "")))
        blocks.append(Block(group["title"], rows))
    headings = [*languages, *(["Total"] if with_total else [])]
    return Comparison(spec, context, headings, blocks, side=False)


def _pairs(row: dict, code: str, printed: str, counts: Counts, context: Context) -> int | str | None:
    """Pairs of a language with English; None where neither the paper nor the run has any."""
    if "why" in row:
        return None
    pair, state = "-".join(sorted((code, "en"))), row.get("state", "kept")
    if "run" not in row:
        return counts.of([("bitext", row["corpus"], pair)], state, "pairs") if printed else None
    sources = counts.sources(row["run"], "bitext")
    named = [own for own in compare_specs.pairs_read(context.config.runs[row["run"]]) if own[2] == pair]
    if isinstance(sources, str):
        return sources
    if "corpus" in row:
        named, sources = ([own for own in some if own[1] == row["corpus"]] for some in (named, sources))
    own = [source for source in sources if source[2] == pair]
    if not own:
        if not named:
            return f"run {row['run']} reads none" if printed else None
        return f"not at scale {context.scale}"
    found = counts.of(own, "kept" if state == "taken" else state, "pairs")
    limit = resolve_run(context.config, row["run"])["data"]["bitext"].get("limit")
    return min(found, limit) if state == "taken" and limit and isinstance(found, int) else found


def _pair_cell(value: int | str | None) -> Value:
    if value is None:
        return Value()
    return Value(reason=value) if isinstance(value, str) else Value(pair_words(value))


def _total(values: list[int | str | None], printed: str, row: dict) -> Value:
    numbers = [value for value in values if isinstance(value, int)]
    if not printed and "run" not in row:
        return Value()
    if not numbers:
        return Value(reason=next((value for value in values if isinstance(value, str)), "")) if printed else Value()
    return Value(pair_words(sum(numbers)))


def pair_words(value: int) -> str:
    """2.1M, 250k, 15000."""
    if value >= 1e6:
        return f"{value / 1e6:.1f}M"
    return f"{value / 1e3:.0f}k" if value >= 1e5 else str(value)


SIDE_BY_SIDE = 3  # so many columns of hyper-parameters stand with what is printed beside ours

BUILD = {
    "hyperparameters": build_hyperparameters,
    "models": build_models,
    "corpora": build_corpora,
    "resources": build_resources,
}


# --- what is missing ------------------------------------------------------------------------------------------------


def missing_cells(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Every cell without a value of ours: (block, row, cells, reason), rows and cells of one reason together."""
    comparison = build(spec, context, count=False)
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for block in comparison.blocks:
        for row in block.rows:
            by_reason: dict[str, list[str]] = {}
            for line in row.lines:
                for heading, cell in zip(comparison.columns, line.cells, strict=True):
                    if cell.reason:
                        by_reason.setdefault(cell.reason, []).append(heading)
            for reason, cells in by_reason.items():
                name = f"{row.label} ({row.run})" if row.run else row.label
                found.setdefault((block.title, reason, tuple(dict.fromkeys(cells))), []).append(name)
    listed = []
    for (block, reason, cells), names in found.items():
        whole = len(cells) == len(comparison.columns) and len(cells) > 1
        shown = ", ".join(names) if len(names) <= MANY else f"{len(names)} rows: {names[0]} to {names[-1]}"
        listed.append((block or spec["title"], shown, "all" if whole else ", ".join(cells), reason))
    return listed
