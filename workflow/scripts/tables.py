"""From a table's spec, the published numbers and the score files to rows of cells. No formatting here.

A spec (config/tables/<paper>/<item>.yaml, config/figures/<paper>/<item>.yaml) states which runs, tasks, settings and
languages stand in an item. `build` gives every cell its numbers or the reason why it has none.
"""

import argparse
import csv
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from errors import UserError
from scores import Key, Results, Summary, group_paths, load_results, pooled_std

AVERAGE = "avg"
SCALE_LANGUAGES = "scale"
PUBLISHED_ERROR = "error of the publication"

SPEC_KEYS = {"paper", "item", "title", "published", "columns", "groups", "notes"}
COLUMN_KEYS = {
    "task",
    "published_task",
    "metric",
    "published_metric",
    "setting",
    "languages",
    "average",
    "show",
    "heading",
}
MASK_SPEC_KEYS = {"paper", "item", "title", "masks", "notes"}
GROUP_KEYS = {"title", "setting", "published_setting", "rows"}
ROW_KEYS = {"label", "published", "published_note", "run"}
REQUIRED = {
    "spec": {"paper", "item", "title", "columns", "groups"},
    "spec of masks": {"paper", "item", "title", "masks"},
    "panel": {"title", "rule", "documents"},
    "column": {"task", "metric", "languages"},
    "group": {"title", "rows"},
    "row": {"label"},
}


@dataclass(frozen=True)
class Context:
    """What the tables need to know of the configuration, the scale and the score files."""

    scale: str
    world: bool  # the scale's data is generated
    runs: frozenset[str]  # names of config/runs that are trained here
    tasks: Mapping[str, frozenset[str]]  # task -> its settings
    canonical: Callable[[str], str]  # run -> the run that stands for it at this scale (equal resolved content)
    expected: Callable[[dict], Iterable[Path]]  # spec -> the score files that it asks for
    description: str = ""  # of the scale
    root: Path = Path()  # of the repository: where config/ lies
    unselected: frozenset[str] = frozenset()  # names of config/runs that are not


@dataclass(frozen=True)
class Published:
    value: str  # as printed: the number of decimals is kept
    layer: int | None = None


@dataclass(frozen=True)
class Column:
    task: str
    metric: str
    setting: str | None
    language: str  # a code, or AVERAGE
    languages: tuple[str, ...]  # of the average
    heading: str
    published_task: str
    published_metric: str
    of_scale: bool


@dataclass
class Cell:
    published: str | None = None
    summary: Summary | None = None
    partial: tuple[str, ...] = ()  # an average over these languages only
    reason: str | None = None  # why there is no reproduced number
    best: bool = False


@dataclass
class Row:
    label: str
    model: str | None
    run: str | None
    canonical: str | None
    cells: list[Cell]
    expected_seeds: int = 0
    errata: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds that stand behind this row's cells, sorted."""
        return sorted({cell.summary.n for cell in self.cells if cell.summary})


@dataclass
class Group:
    title: str
    settings: list[str]  # of each column
    rows: list[Row]


@dataclass
class Table:
    spec: dict
    context: Context
    columns: list[Column]
    groups: list[Group]
    chance: list[float | None]
    errata: list[str]  # of the whole item

    @property
    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group.rows]

    @property
    def has_published(self) -> bool:
        return "published" in self.spec


# --- the files of config/ -------------------------------------------------------------------------------------------


def read_rows(path: Path, delimiter: str) -> list[dict[str, str]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
            return list(csv.DictReader(file, delimiter=delimiter, quoting=quoting))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; it belongs to the repository") from None


@cache
def paper_names(root: Path) -> dict[str, str]:
    return {row["key"]: row["name"] for row in read_rows(root / "config/published/papers.tsv", "\t")}


@cache
def models(root: Path) -> dict[str, dict[str, str]]:
    return {row["key"]: row for row in read_rows(root / "config/published/models.tsv", "\t")}


def check_keys(where: str, value: object, kind: str, allowed: set[str]) -> None:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected a mapping with the keys {', '.join(sorted(REQUIRED[kind]))}")
    for key in value:
        if key not in allowed:
            raise UserError(f"{where}: unknown key {key!r}; known: {', '.join(sorted(allowed))}")
    for key in sorted(REQUIRED[kind] - set(value)):
        raise UserError(f"{where}: key {key!r} is missing")


def load_spec(path: str | Path) -> dict:
    """Read and check one spec."""
    path = Path(path)
    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such spec; config/tables and config/figures hold them") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if isinstance(spec, dict) and "masks" in spec:
        check_keys(str(path), spec, "spec of masks", MASK_SPEC_KEYS)
        for i, panel in enumerate(spec["masks"], start=1):
            check_keys(f"{path}, masks entry {i}", panel, "panel", REQUIRED["panel"])
        return spec
    check_keys(str(path), spec, "spec", SPEC_KEYS)
    if not spec["columns"] or not spec["groups"]:
        raise UserError(f"{path}: 'columns' and 'groups' each need at least one entry")
    for i, column in enumerate(spec["columns"], start=1):
        where = f"{path}, columns entry {i}"
        check_keys(where, column, "column", COLUMN_KEYS)
        languages = column["languages"]
        if languages != SCALE_LANGUAGES and not (
            isinstance(languages, list) and languages and all(isinstance(code, str) for code in languages)
        ):
            raise UserError(
                f"{where}, key 'languages': expected a list of codes (quote 'no': YAML reads it as false) or "
                f"{SCALE_LANGUAGES!r}, not {languages!r}"
            )
        if languages != SCALE_LANGUAGES and len(set(languages)) != len(languages):
            raise UserError(f"{where}, key 'languages': a language stands twice")
    for i, group in enumerate(spec["groups"], start=1):
        check_keys(f"{path}, groups entry {i}", group, "group", GROUP_KEYS)
        for j, row in enumerate(group["rows"], start=1):
            where = f"{path}, groups entry {i}, rows entry {j}"
            check_keys(where, row, "row", ROW_KEYS)
            if "published" not in row and "run" not in row:
                raise UserError(f"{where} ({row['label']}): needs 'published', 'run' or both")
            if "published" in row and "published" not in spec:
                raise UserError(f"{where} ({row['label']}): the spec names no file of published numbers")
    return spec


class PublishedNumbers:
    """One CSV of config/published: setting,model,task,language,metric[,layer],value,note."""

    def __init__(self, path: Path | None):
        self.path = path
        self.rows = read_rows(path, ",") if path else []
        for line, row in enumerate(self.rows, start=2):
            try:
                float(row["value"])
            except (KeyError, TypeError, ValueError):
                raise UserError(f"{path}, line {line}: column 'value' is not a number") from None

    def of_model(self, setting: str, model: str, note: str | None = None) -> list[dict[str, str]]:
        rows = [row for row in self.rows if row["setting"] == setting and row["model"] == model]
        if note is not None:
            rows = [row for row in rows if row["note"] == note]
        if not rows:
            told = f" and note {note!r}" if note is not None else ""
            raise UserError(f"{self.path}: no row of model {model!r} in setting {setting!r}{told}; mend the spec")
        return rows

    def values(self, setting: str, model: str, note: str | None, columns: list[Column]) -> list[str | None]:
        rows = self.of_model(setting, model, note)
        values = []
        for column in columns:
            wanted = (column.published_task, column.published_metric, column.language)
            found = [row["value"] for row in rows if (row["task"], row["metric"], row["language"]) == wanted]
            if len(found) > 1:
                raise UserError(
                    f"{self.path}: {model} {setting} {' '.join(wanted)} stands {len(found)} times; "
                    "tell the rows apart by 'published_note' in the spec"
                )
            values.append(found[0] if found else None)
        return values


def errata_of(root: Path, paper: str, item: str) -> list[dict[str, str]]:
    """Errors that the papers themselves contain; differences between papers that are no errors stay in the file."""
    rows = read_rows(root / "config/published/errata.csv", ",")
    return [
        row
        for row in rows
        if (row["paper"], row["item"]) == (paper, item) and row["explanation"].startswith(PUBLISHED_ERROR)
    ]


def parse_overrides(pairs: Iterable[str]) -> dict:
    """`seeds=[1, 2]` -> {"seeds": [1, 2]}: the values are YAML, as in Snakemake's --config."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--override {pair}: write key=value, for example seeds=[1,2,3]")
        overrides[key] = yaml.safe_load(value)
    return overrides


def load_context(
    config_path: str | Path, scale: str, scores_root: str | Path, overrides: Iterable[str] = ()
) -> tuple[Context, dict[str, dict], dict[str, dict]]:
    """The context of the configuration, its tables and its figures. `plan` is imported late: tests do without it."""
    import plan

    config_path, scores_root = Path(config_path), Path(scores_root)
    root = config_path.resolve().parent.parent
    changes = {**parse_overrides(overrides), "scale": scale}
    config = plan.load_config(root, changes, config_path.resolve().relative_to(root))

    def expected(spec: dict) -> list[Path]:
        keys = {
            (plan.canonical_run(config, run), task, setting)
            for run, task, setting in plan.needs(config, spec, f"{spec['paper']}/{spec['item']}")
        }
        return [
            scores_root / run / task / setting / f"seed-{seed}.json"
            for run, task, setting in sorted(keys)
            for seed in config.seeds
        ]

    context = Context(
        scale=scale,
        world=config.has_world,
        runs=config.selected,
        tasks={name: frozenset(task["settings"]) for name, task in config.tasks.items()},
        canonical=lambda run: plan.canonical_run(config, run),
        expected=expected,
        description=config.scale.get("description", ""),
        root=root,
        unselected=frozenset(config.runs) - config.selected,
    )
    return context, config.tables, config.figures


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every script of tables, figures and the document takes."""
    parser.add_argument("--scale", required=True, help="name of config/scales, for example mini")
    parser.add_argument("--scores-root", required=True, type=Path, help="folder of score files: results/<scale>/scores")
    parser.add_argument("--config", default=Path("config/config.yaml"), type=Path, help="default: %(default)s")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of --config, as Snakemake's --config does; may be given several times",
    )


# --- the model of a table -------------------------------------------------------------------------------------------


def load_expected(spec: dict, context: Context) -> dict[Key, Results]:
    """Read every expected score file of a spec that exists."""
    return {key: load_results(paths, context.scale) for key, paths in group_paths(context.expected(spec)).items()}


def column_setting(column: dict, group: dict) -> str:
    """The column's own setting, or the group's."""
    setting = column.get("setting") or group.get("setting")
    if setting is None:
        raise UserError(
            f"group {group['title']!r}, column {column['task']!r}: neither names a 'setting'; mend the spec"
        )
    return setting


def expand_columns(spec: dict, languages_of: Callable[[dict], list[str]]) -> list[Column]:
    columns = []
    for entry in spec["columns"]:
        of_scale = entry["languages"] == SCALE_LANGUAGES
        languages = languages_of(entry) if of_scale else entry["languages"]
        shown = entry.get("show") or [*languages, *([AVERAGE] if entry.get("average") else [])]
        for language in shown:
            columns.append(
                Column(
                    task=entry["task"],
                    metric=entry["metric"],
                    setting=entry.get("setting"),
                    language=language,
                    languages=tuple(languages),
                    heading=entry.get("heading", ""),
                    published_task=entry.get("published_task", entry["task"]),
                    published_metric=entry.get("published_metric", entry["metric"]),
                    of_scale=of_scale,
                )
            )
    return columns


def why_missing(row: dict, task: str, setting: str, context: Context) -> str | None:
    """Why no score of this row, task and setting is expected; None where one is."""
    run = row.get("run")
    if run is None:
        return "published only: this row names no run"
    if run in context.unselected:
        return f"run {run} is not trained here; add it to `runs`, or say --config runs=all"
    if run not in context.runs:
        return f"run {run} has no file in config/runs yet"
    if task not in context.tasks:
        return f"task {task} is not evaluated yet (no file in config/tasks)"
    if setting not in context.tasks[task]:
        return f"task {task} has no setting {setting}"
    return None


def fill_cell(cell: Cell, column: Column, results: Results | None, context: Context) -> None:
    if results is None or not results.by_seed:
        cell.reason = "no score file found; its jobs have not run"
        return
    present = [code for code in column.languages if results.values(code, column.metric)]
    if column.language == AVERAGE:
        cell.summary = results.average(present, column.metric)
        if cell.summary and len(present) < len(column.languages):
            cell.partial = tuple(present)
    else:
        cell.summary = results.summary(column.language, column.metric)
    if cell.summary is None:
        what = "no language of the average" if column.language == AVERAGE else "language not"
        cell.reason = f"{what} evaluated at scale {context.scale}"


def mark_best(group: Group) -> None:
    """The best reproduced cell of each column, where it leads the second run by more than their pooled deviation."""
    for index in range(len(group.rows[0].cells) if group.rows else 0):
        by_run: dict[str, list[Cell]] = {}
        for row in group.rows:
            if row.cells[index].summary:
                by_run.setdefault(row.canonical, []).append(row.cells[index])
        cells = [cells[0] for cells in by_run.values()]
        if len(cells) < 2 or len({cell.partial for cell in cells}) > 1:
            continue
        ranked = sorted(by_run.values(), key=lambda same: -same[0].summary.mean)
        first, second = ranked[0][0].summary, ranked[1][0].summary
        noise = pooled_std(first, second)
        if noise is not None and first.mean - second.mean > noise:
            for cell in ranked[0]:
                cell.best = True


def build(spec: dict, context: Context) -> Table:
    """Every row of the spec with its published and reproduced cells."""
    results = load_expected(spec, context)

    def lookup(row: dict, task: str, setting: str) -> Results | None:
        run = row.get("run")
        return results.get((context.canonical(run), task, setting)) if run in context.runs else None

    def languages_of(entry: dict) -> list[str]:
        found: set[str] = set()
        for group in spec["groups"]:
            for row in group["rows"]:
                if one := lookup(row, entry["task"], column_setting(entry, group)):
                    found.update(one.languages(entry["metric"]))
        return sorted(found)

    columns = expand_columns(spec, languages_of)
    published = PublishedNumbers(context.root / spec["published"] if "published" in spec else None)
    errata = errata_of(context.root, spec["paper"], spec["item"])
    used_errata = set()
    chance: list[float | None] = [None] * len(columns)
    groups = []
    for entry in spec["groups"]:
        settings = [column.setting or column_setting({"task": column.task}, entry) for column in columns]
        group = Group(entry["title"], settings, [])
        published_setting = entry.get("published_setting") or entry.get("setting") or settings[0]
        for spec_row in entry["rows"]:
            run, model = spec_row.get("run"), spec_row.get("published")
            cells = [Cell() for _ in columns]
            if model is not None:
                note = spec_row.get("published_note")
                for cell, value in zip(cells, published.values(published_setting, model, note, columns), strict=True):
                    cell.published = value
            row = Row(
                label=spec_row["label"],
                model=model,
                run=run,
                canonical=context.canonical(run) if run in context.runs else run,
                cells=cells,
            )
            for erratum in errata:
                if erratum["row"] == f"{published_setting} / {model}":
                    row.errata.append(erratum["explanation"])
                    used_errata.add(id(erratum))
            for index, (cell, column, setting) in enumerate(zip(cells, columns, settings, strict=True)):
                cell.reason = why_missing(spec_row, column.task, setting, context)
                if cell.reason is None:
                    found = lookup(spec_row, column.task, setting)
                    fill_cell(cell, column, found, context)
                    if found:
                        row.expected_seeds = max(row.expected_seeds, len(found.expected_seeds))
                        if chance[index] is None:
                            chance[index] = chance_of(column, found)
            group.rows.append(row)
        mark_best(group)
        groups.append(group)
    of_item = [
        f"{e['row']}, {e['column']}: printed {e['printed']}, recomputed {e['recomputed']}; {e['explanation']}"
        for e in errata
        if id(e) not in used_errata
    ]
    return Table(spec, context, columns, groups, chance, of_item)


def chance_of(column: Column, results: Results) -> float | None:
    codes = [column.language] if column.language != AVERAGE else list(column.languages)
    values = [results.chance(code, column.metric) for code in codes if results.values(code, column.metric)]
    values = [value for value in values if value is not None]
    return statistics.fmean(values) if values else None


# --- words that all formats share -----------------------------------------------------------------------------------


def item_name(spec: dict, context: Context) -> str:
    """`ERNIE-M, table 1`."""
    names = paper_names(context.root)
    if spec["paper"] not in names:
        raise UserError(f"config/published/papers.tsv: no line with key {spec['paper']!r}; add one")
    kind, _, number = spec["item"].partition("-")
    item = f"{kind} {int(number)}" if number.isdigit() else spec["item"]
    return f"{names[spec['paper']]}, {item}"


def citations(context: Context) -> dict[str, str]:
    """By paper; empty for this project's own items, which no paper prints."""
    rows = read_rows(context.root / "config/published/papers.tsv", "\t")
    return {row["key"]: row["citation"] for row in rows}


def label(spec: dict) -> str:
    """The LaTeX label of an item."""
    return f"item:{spec['paper']}-{spec['item']}"


def scale_words(context: Context) -> str:
    """What a reader must know of the reproduced numbers before comparing them."""
    if context.scale == "smoke":
        return (
            "Scale smoke, generated mini-world: this scale tests the code, its numbers mean nothing "
            "and are not comparable with the published ones."
        )
    if context.world:
        return (
            f"Scale {context.scale}: reproduced numbers come from the generated mini-world and are not comparable "
            "in absolute value with the published ones."
        )
    return f"Scale {context.scale}."


def seed_words(seeds: Iterable[int]) -> str:
    seeds = sorted(set(seeds))
    if not seeds:
        return "No run of this item has scores at this scale."
    many = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}"
    if seeds == [1]:
        return "Reproduced: one seed, hence no deviation."
    return f"Reproduced: mean and standard deviation over {many}."
