"""From a table's spec, the published numbers and the score files to rows of cells. No formatting here.

A spec (config/tables/<paper>/<item>.yaml, config/figures/<paper>/<item>.yaml) states which runs, tasks, settings and
languages stand in an item. `build` gives every cell its numbers or the reason why it has none.
"""

import argparse
import csv
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import parse_yaml, read_yaml
from report.scores import (
    BOTH,
    BY_UPDATE,
    ENGLISH,
    FAILURES,
    Key,
    Results,
    Summary,
    group_paths,
    load_parts,
    load_results,
    pooled_std,
    summarise,
)

AVERAGE = "avg"
OTHERS = "others"  # the mean of the languages that are not English
GAP = "gap"  # English minus the mean of the other languages
SCALE_LANGUAGES = "scale"
PUBLISHED_ERROR = "error of the publication"

DIRECTIONS = ("en-xx", "xx-en", BOTH)
LESS_IS_BETTER = {"error-rate", FAILURES}
# What each task counts with in the average of XTREME: one number, or the mean of two.
XTREME = {
    "xnli": ["accuracy"],
    "paws-x": ["accuracy"],
    "ud-pos": ["f1"],
    "wikiann-ner": ["f1"],
    "xquad": ["f1", "exact-match"],
    "mlqa": ["f1", "exact-match"],
    "tydiqa-goldp": ["f1", "exact-match"],
    "bucc": ["f1"],
    "tatoeba": ["accuracy"],  # of the direction en-xx
}

SPEC_KEYS = {"paper", "item", "title", "published", "published_scale", "columns", "averages", "groups", "notes"}
PUBLISHED_SCALES = (1, 100)  # of the printed numbers: as they are, or fractions that are shown in per cent
COLUMN_KEYS = {
    "task",
    "published_task",
    "metric",
    "published_metric",
    "setting",
    "languages",
    "published_languages",
    "direction",
    "reaches",
    "average",
    "show",
    "heading",
}
AVERAGE_KEYS = {"xtreme", "tasks", "of", "heading", "published_task", "published_metric"}
MASK_SPEC_KEYS = {"paper", "item", "title", "masks", "notes"}
FIGURE_KEYS = {"bars", "cost", "colours"}  # of specs of figures; plan and schema look into them
GROUP_KEYS = {"title", "setting", "settings", "published_setting", "rows"}
ROW_KEYS = {"label", "published", "published_note", "run", "without_run"}
REQUIRED = {
    "spec": {"paper", "item", "title", "columns", "groups"},
    "spec of masks": {"paper", "item", "title", "masks"},
    "panel": {"title", "rule", "documents"},
    "column": {"task", "metric", "languages"},
    "average": {"heading"},
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
    canonical: Callable[[str, str], str]  # run, task -> the run that stands for it at this scale (equal content)
    expected: Callable[[dict], Iterable[Path]]  # spec -> the score files that it asks for
    description: str = ""  # of the scale
    warning: str | None = None  # of a scale whose numbers mean nothing
    untrained: frozenset[str] = frozenset()  # runs whose pre-training has no step
    root: Path = Path()  # of the repository: where config/ lies
    unselected: frozenset[str] = frozenset()  # names of config/runs that are not
    absent: frozenset[str] = (
        frozenset()
    )  # published checkpoints that this scale has no use for: rows that show nothing else are left out
    reference: bool = False  # the scores are those of the repository
    unfit: Callable[[str, str, str], str | None] = lambda run, task, setting: None  # why a run can have no such score
    seeds: Callable[[str], Iterable[int]] = lambda run: ()  # of a run's scores, also where `expected` leaves files out
    trainings: Callable[[str], Mapping[int, Path]] = lambda run: {}  # run -> seed -> the summary of its training
    lineage: Callable[[str], list[str]] = lambda run: [run]  # the run and those that it starts from
    cost_unknown: Callable[[str], str | None] = lambda run: None  # why nobody can say what a run cost
    config: object = None  # the plan's configuration, for what is compared without a score


@dataclass(frozen=True)
class Published:
    value: str  # as printed: the number of decimals is kept
    layer: int | None = None


@dataclass(frozen=True)
class Column:
    task: str
    metric: str
    setting: str | None
    language: str  # a code, AVERAGE, OTHERS or GAP
    languages: tuple[str, ...]  # of the average or the gap
    heading: str
    published_task: str
    published_metric: str
    published_language: str
    of_scale: bool = False
    direction: str | None = None  # of retrieval; None: the task's headline
    reaches: str | None = None  # a run: the column counts the updates until a seed is where that run ends
    target: float | None = None  # where it ends
    parts: tuple[tuple["Column", ...], ...] = ()  # of an average over tasks: for each task the columns that count

    @property
    def is_derived(self) -> bool:
        """Does it stand for several languages?"""
        return self.language in (AVERAGE, OTHERS, GAP)

    @property
    def less_is_better(self) -> bool:
        return (
            self.language == GAP or self.reaches is not None or self.metric.removesuffix("-by-layer") in LESS_IS_BETTER
        )

    @property
    def decimals(self) -> int:
        return 1 if self.reaches is None else 0


@dataclass
class Cell:
    published: str | None = None
    values: dict[int, float] = field(default_factory=dict)  # seed -> reproduced number
    summary: Summary | None = None  # of them
    partial: tuple[str, ...] = ()  # an average or a gap over these languages only
    beyond: int | None = None  # no number, but a bound: no seed got there in so many updates
    reason: str | None = None  # why there is no reproduced number
    told: bool = False  # the reason is a result, which stands below the table
    best: bool = False
    no_best: bool = False  # the weights learnt nothing, or were never trained: it is the best of nothing
    files: tuple[Path, ...] = ()  # the score files behind it


@dataclass
class Row:
    label: str
    model: str | None
    run: str | None
    canonical: str | None
    cells: list[Cell]
    expected_seeds: int = 0
    lacking: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # (task, setting) -> seeds
    selection: dict[tuple[str, str], str] = field(default_factory=dict)  # (task, setting) -> what chose the weights
    layers: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)  # seed -> the layer chosen
    at_chance: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # (task, setting) -> seeds
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
    spec = read_yaml(path)
    if isinstance(spec, dict) and "masks" in spec:
        check_keys(str(path), spec, "spec of masks", MASK_SPEC_KEYS)
        for i, panel in enumerate(spec["masks"], start=1):
            check_keys(f"{path}, masks entry {i}", panel, "panel", REQUIRED["panel"])
        return spec
    if isinstance(spec, dict) and "compare" in spec:  # the plan checks what it names
        return spec
    if isinstance(spec, dict) and {"diagram", "training", "simulation", "effects"} & set(
        spec
    ):  # no columns: plan and schema check them
        return spec
    check_keys(str(path), spec, "spec", SPEC_KEYS | FIGURE_KEYS)
    if not spec["columns"] or not spec["groups"]:
        raise UserError(f"{path}: 'columns' and 'groups' each need at least one entry")
    if spec.get("published_scale", 1) not in PUBLISHED_SCALES:
        raise UserError(f"{path}, key 'published_scale': {spec['published_scale']!r} is not 100")
    for i, column in enumerate(spec["columns"], start=1):
        check_column(f"{path}, columns entry {i}", column)
    for i, average in enumerate(spec.get("averages", []), start=1):
        check_average(f"{path}, averages entry {i}", average, spec["columns"])
    for i, group in enumerate(spec["groups"], start=1):
        check_keys(f"{path}, groups entry {i}", group, "group", GROUP_KEYS)
        for j, row in enumerate(group["rows"], start=1):
            where = f"{path}, groups entry {i}, rows entry {j}"
            check_keys(where, row, "row", ROW_KEYS)
            if "published" not in row and "run" not in row:
                raise UserError(f"{where} ({row['label']}): needs 'published', 'run' or both")
            if "published" in row and "published" not in spec:
                raise UserError(f"{where} ({row['label']}): the spec names no file of published numbers")
    for i, column in enumerate(spec["columns"], start=1):
        if column.get("reaches") is not None and row_of(spec, column["reaches"]) is None:
            raise UserError(f"{path}, columns entry {i}, key 'reaches': no row has run {column['reaches']}; add one")
    return spec


def row_of(spec: dict, run: str) -> tuple[dict, dict] | None:
    """The first group and row that a run has in a spec."""
    found = ((group, row) for group in spec["groups"] for row in group["rows"] if row.get("run") == run)
    return next(found, None)


def check_column(where: str, column: dict) -> None:
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
    if column.get("direction", BOTH) not in DIRECTIONS:
        raise UserError(f"{where}, key 'direction': {column['direction']!r} is none of {', '.join(DIRECTIONS)}")
    if "reaches" in column and not (column["metric"].endswith(BY_UPDATE) and len(languages) == 1):
        raise UserError(f"{where}, key 'reaches': is for one language and a metric by update (sacrebleu{BY_UPDATE})")
    if GAP in column.get("show", []):
        if languages != SCALE_LANGUAGES and ENGLISH not in languages:
            raise UserError(f"{where}, key 'show': {GAP!r} needs {ENGLISH!r} among the languages")
        if column["metric"] in LESS_IS_BETTER:
            raise UserError(f"{where}, key 'show': {GAP!r} is of metrics where more is better, not {column['metric']}")


def check_average(where: str, average: dict, columns: list[dict]) -> None:
    """An average over tasks is over columns of its table: their languages and settings are its own."""
    check_keys(where, average, "average", AVERAGE_KEYS)
    if ("xtreme" in average) == ("tasks" in average):
        raise UserError(f"{where}: needs one of 'xtreme' (as XTREME counts) and 'tasks' (the mean of their columns)")
    if average.get("of", AVERAGE) not in (AVERAGE, GAP):
        raise UserError(f"{where}, key 'of': {average['of']!r} is neither {AVERAGE!r} nor {GAP!r}")
    for task in average.get("tasks", []):
        if not any(column["task"] == task for column in columns):
            raise UserError(f"{where}, key 'tasks': no column of {task}; add one (with 'show: []' it stays hidden)")
    for task in average.get("xtreme", []):
        if task not in XTREME:
            raise UserError(f"{where}, key 'xtreme': {task!r} is no task of it; known: {', '.join(XTREME)}")
        found = sorted(column["metric"] for column in columns if column["task"] == task)
        if found != sorted(XTREME[task]):
            raise UserError(
                f"{where}, key 'xtreme': {task} counts with one column of each of {', '.join(XTREME[task])}, the table "
                f"has {', '.join(found) or 'none'} (with 'show: []' a column stays hidden)"
            )
        if task == "tatoeba" and not any(column["task"] == task and "direction" in column for column in columns):
            raise UserError(
                f"{where}, key 'xtreme': the column of tatoeba needs a 'direction': en-xx is XTREME's, 'both' the mean"
            )


class PublishedNumbers:
    """One CSV of config/published: setting,model,task,language,metric[,layer or epoch],value,note.

    A curve that is printed without a number has a row without a value.
    """

    def __init__(self, path: Path | None, scale: int = 1):
        """`scale`: 100 gives per cent for printed fractions, with the same digits: 0.7798 is 77.98."""
        self.path = path
        self.rows = read_rows(path, ",") if path else []
        for line, row in enumerate(self.rows, start=2):
            try:
                if row["value"] != "":
                    float(row["value"])
                    row["value"] = str(Decimal(row["value"]).scaleb(2)) if scale == 100 else row["value"]
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
            wanted = (column.published_task, column.published_metric, column.published_language)
            found = [
                row["value"] for row in rows if (row["task"], row["metric"], row["language"]) == wanted and row["value"]
            ]
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
        overrides[key] = parse_yaml(value, f"--override {key}")
    return overrides


def load_context(
    config_path: str | Path, scale: str, scores_root: str | Path, overrides: Iterable[str] = ()
) -> tuple[Context, dict[str, dict], dict[str, dict]]:
    """The context of the configuration, its tables and its figures. `plan` is imported late: tests do without it."""
    import plan.claimed
    import plan.needs
    import plan.runs
    from plan.evidence import seeds_of, trainings_of
    from plan.load import load_config
    from plan.needs import canonical_run, needs, score_paths
    from plan.words import described

    config_path, scores_root = Path(config_path), Path(scores_root)
    root = config_path.resolve().parent.parent
    changes = {**parse_overrides(overrides), "scale": scale}
    config = load_config(root, changes, config_path.resolve().relative_to(root))

    def expected(spec: dict) -> list[Path]:
        keys = {
            (canonical_run(config, run, task), task, setting)
            for run, task, setting in needs(config, spec, f"{spec['paper']}/{spec['item']}")
        }
        paths = [
            scores_root / run / task / setting / f"seed-{seed}.json"
            for run, task, setting in sorted(keys)
            for seed in seeds_of(config, run)
        ]
        kept = {(*path.parts[-4:-1], path.name) for path in map(Path, score_paths(config, spec))}
        return [path for path in paths if (*path.parts[-4:-1], path.name) in kept] if config.from_reference else paths

    context = Context(
        scale=scale,
        world=config.has_world,
        runs=config.selected,
        tasks={name: frozenset(task["settings"]) for name, task in config.tasks.items()},
        canonical=lambda run, task: canonical_run(config, run, task),
        expected=expected,
        description=described(config.scale),
        warning=config.scale.get("warning"),
        untrained=frozenset(name for name, run in config.runs.items() if run.get("schedule", {}).get("steps") == 0),
        root=root,
        unselected=frozenset(config.runs) - config.selected,
        absent=frozenset(config.not_here),
        reference=config.from_reference,
        unfit=lambda run, task, setting: plan.needs.unfit(config, run, task, setting),
        seeds=lambda run: seeds_of(config, run),
        trainings=lambda run: {seed: root / path for seed, path in trainings_of(config, run).items()},
        lineage=lambda run: plan.runs.lineage(config, run),
        cost_unknown=lambda run: plan.claimed.cost_unknown(config, run),
        config=config,
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
    results, parts = {}, {}
    for (run, task, name), paths in group_paths(context.expected(spec)).items():
        setting, language = split_setting(name, context.tasks.get(task, ()))
        if language is None:
            results[run, task, setting] = load_results(paths, context.scale)
        else:
            parts.setdefault((run, task, setting), {})[language] = paths
    return results | {key: load_parts(of_language, context.scale) for key, of_language in parts.items()}


def split_setting(name: str, known: Iterable[str]) -> tuple[str, str | None]:
    """`translate-train-de` -> translate-train, de: a setting that trains one model for each language has a folder of
    each. The name of a known setting (translate-train-all) is that setting."""
    setting, _, language = name.rpartition("-")
    return (setting, language) if name not in known and setting in known else (name, None)


def column_setting(column: dict, group: dict) -> str:
    """The setting that the group has for the column's task, or the column's own, or the group's."""
    setting = group.get("settings", {}).get(column["task"]) or column.get("setting") or group.get("setting")
    if setting is None:
        raise UserError(
            f"group {group['title']!r}, column {column['task']!r}: neither names a 'setting'; mend the spec"
        )
    return setting


def expand_columns(spec: dict, languages_of: Callable[[dict], list[str]]) -> list[Column]:
    """The columns that are shown, averages over tasks last."""
    languages = [
        languages_of(entry) if entry["languages"] == SCALE_LANGUAGES else entry["languages"]
        for entry in spec["columns"]
    ]
    columns = []
    for entry, codes in zip(spec["columns"], languages, strict=True):
        shown = entry.get("show", [*codes, *([AVERAGE] if entry.get("average") else [])])
        columns += [make_column(entry, name, codes) for name in shown]
    for average in spec.get("averages", []):
        of, tasks = average.get("of", AVERAGE), average.get("xtreme") or average["tasks"]
        parts = tuple(
            tuple(
                make_column(entry, of, codes)
                for entry, codes in zip(spec["columns"], languages, strict=True)
                if entry["task"] == task
            )
            for task in tasks
        )
        name = f"xtreme-{len(tasks)}" if "xtreme" in average else "average"
        metric = GAP if of == GAP else "average"
        columns.append(
            Column(
                task=name,
                metric=metric,
                setting=None,
                language=of,
                languages=(),
                heading=average["heading"],
                published_task=average.get("published_task", name),
                published_metric=average.get("published_metric", metric),
                published_language=AVERAGE,
                parts=parts,
            )
        )
    return columns


def make_column(entry: dict, name: str, languages: list[str]) -> Column:
    return Column(
        task=entry["task"],
        metric=entry["metric"],
        setting=entry.get("setting"),
        language=name,
        languages=tuple(code for code in languages if name != OTHERS or code != ENGLISH),
        heading=entry.get("heading", ""),
        published_task=entry.get("published_task", entry["task"]),
        published_metric=entry.get("published_metric", entry["metric"]),
        published_language=entry.get("published_languages", {}).get(name, name),
        of_scale=entry["languages"] == SCALE_LANGUAGES,
        direction=entry.get("direction"),
        reaches=entry.get("reaches"),
    )


def why_missing(row: dict, task: str, setting: str, context: Context) -> str | None:
    """Why no score of this row, task and setting is expected; None where one is."""
    run = row.get("run")
    if run is None:
        return f"published only: {row.get('without_run', 'this row names no run')}"
    if run in context.absent:
        return context.unfit(run, task, setting)
    if run in context.unselected:
        return f"run {run} is not trained here; add it to `runs`, or say --config runs=all"
    if run not in context.runs:
        return f"run {run} has no file in config/runs yet"
    if task not in context.tasks:
        return f"task {task} is not evaluated yet (no file in config/tasks)"
    if setting not in context.tasks[task]:
        return f"task {task} has no setting {setting}"
    return context.unfit(run, task, setting)


def no_file(context: Context) -> str:
    return "not among the reference scores" if context.reference else "no score file found; its jobs have not run"


def cell_of(column: Column, results: Results | None, context: Context) -> Cell:
    """The cell of a column that stands for one task."""
    if results is None or not results.by_seed:
        return Cell(reason=no_file(context))
    metric, direction = column.metric, column.direction
    if column.reaches:
        return cell_of_reaching(column, results)
    if not column.is_derived:
        values = results.values(column.language, metric, direction)
        unruled = "its recipe has no rule of restarts" if metric == FAILURES else None
        reason = unruled or f"language not evaluated at scale {context.scale}"
        return Cell(values=values, reason=None if values else reason)
    present = tuple(code for code in column.languages if results.values(code, metric, direction))
    if column.language == GAP:
        if ENGLISH not in present or len(present) < 2:
            return Cell(reason=f"the gap needs English and another language; scale {context.scale} lacks them")
        values = results.gap_values(present, metric)
    else:
        if not present:
            return Cell(reason=f"no language of the average evaluated at scale {context.scale}")
        values = results.average_values(present, metric, direction)
    if not values:
        return Cell(reason="no seed has a score of every language")
    return Cell(values=values, partial=present if len(present) < len(column.languages) else ())


def cell_of_reaching(column: Column, results: Results) -> Cell:
    """Of each seed the first update at which it is where the other run ends on average; a number only if all get there.

    A mean over those alone would be the smaller, the more seeds never do.
    """
    curve = results.curves(column.metric, column.languages, "update")
    if not curve:
        return Cell(reason=f"no score by update of {', '.join(column.languages)}")
    if column.target is None:
        return Cell(reason=f"{column.reaches} has no score that could be reached")
    last, seeds = max(curve), sorted({seed for of_seed in curve.values() for seed in of_seed})
    first = {}
    for seed in seeds:
        reached = [update for update, of_seed in curve.items() if of_seed.get(seed, -1.0) >= column.target]
        if reached:
            first[seed] = float(reached[0])
    if len(first) == len(seeds):
        return Cell(values=first)
    if not first:
        return Cell(beyond=last, reason=f"no seed reaches {column.target:.1f} in {last} updates")
    after = ", ".join(f"{update:.0f}" for update in sorted(first.values()))
    words = f"{column.target:.1f} is reached by {len(first)} of {len(seeds)} seeds, after {after} updates"
    return Cell(reason=f"{words}; by the others not in {last}", told=True)


def cell_of_tasks(cells: list[tuple[Column, list[Cell]]]) -> Cell:
    """The cell of an average over tasks: only from all of them, and each task is the mean of its columns."""
    of_tasks = [[cell.values for cell in of_task] for _, of_task in cells]
    lacking = {
        f"{column.task} ({cell.reason})": None for column, of_task in cells for cell in of_task if not cell.values
    }
    if lacking:
        return Cell(reason=f"not every task of the average has a score: {'; '.join(lacking)}")
    seeds = set.intersection(*(set(values) for of_task in of_tasks for values in of_task))
    if not seeds:
        return Cell(reason="no seed has a score of every task")
    means = {
        seed: statistics.fmean(statistics.fmean(values[seed] for values in of_task) for of_task in of_tasks)
        for seed in sorted(seeds)
    }
    partial = {code for _, of_task in cells for cell in of_task for code in cell.partial}
    return Cell(values=means, partial=tuple(sorted(partial)))


def mark_best(group: Group, columns: list[Column]) -> None:
    """The best reproduced cell of each column, where it leads the second run by more than their pooled deviation.

    Cells of nothing learnt are no competitors: their gap is small, and their noise too.
    """
    for index, column in enumerate(columns):
        by_run: dict[str, list[Cell]] = {}
        for row in group.rows:
            if row.cells[index].summary and not row.cells[index].no_best:
                by_run.setdefault(row.canonical, []).append(row.cells[index])
        cells = [cells[0] for cells in by_run.values()]
        if len(cells) < 2 or len({cell.partial for cell in cells}) > 1:
            continue
        sign = 1 if column.less_is_better else -1
        ranked = sorted(by_run.values(), key=lambda same: sign * same[0].summary.mean)
        first, second = ranked[0][0].summary, ranked[1][0].summary
        noise = pooled_std(first, second)
        if noise is not None and abs(first.mean - second.mean) > noise:
            for cell in ranked[0]:
                cell.best = True


def build(spec: dict, context: Context) -> Table:
    """Every row of the spec with its published and reproduced cells."""
    results = load_expected(spec, context)
    paths = group_paths(path for path in context.expected(spec) if path.exists())

    def lookup(row: dict, task: str, setting: str) -> Results | None:
        run = row.get("run")
        return results.get((context.canonical(run, task), task, setting)) if run in context.runs else None

    def languages_of(entry: dict) -> list[str]:
        found: set[str] = set()
        for group in spec["groups"]:
            for row in group["rows"]:
                if one := lookup(row, entry["task"], column_setting(entry, group)):
                    found.update(one.languages(entry["metric"]))
        return sorted(found)

    def reproduced(column: Column, row: dict, group: dict) -> Cell:
        if column.parts and row.get("run"):
            return cell_of_tasks(
                [(parts[0], [reproduced(part, row, group) for part in parts]) for parts in column.parts]
            )
        setting = setting_of(column, group)
        if reason := why_missing(row, column.task, setting, context):
            return Cell(reason=reason)
        return cell_of(column, lookup(row, column.task, setting), context)

    def with_target(column: Column) -> Column:
        """What is to be reached: the mean over seeds of the last value that each seed of the other run has."""
        if column.reaches is None:
            return column
        group, row = row_of(spec, column.reaches)
        results = lookup(row, column.task, setting_of(column, group))
        last: dict[int, float] = {}
        for of_seed in (results.curves(column.metric, column.languages, "update") if results else {}).values():
            last |= of_seed
        return replace(column, target=statistics.fmean(last.values()) if last else None)

    def files_behind(column: Column, row: dict, group: dict, seeds: Iterable[int]) -> tuple[Path, ...]:
        found = []
        for part in [part for parts in column.parts for part in parts] or [column]:
            run, setting = context.canonical(row["run"], part.task), setting_of(part, group)
            codes = part.languages if part.is_derived else (part.language,)
            for name in (setting, *(f"{setting}-{code}" for code in codes)):  # one model, or one for each language
                of_seed = paths.get((run, part.task, name), {})
                found += [of_seed[seed] for seed in sorted(seeds) if seed in of_seed]
        return tuple(dict.fromkeys(found))

    columns = [with_target(column) for column in expand_columns(spec, languages_of)]
    path = context.root / spec["published"] if "published" in spec else None
    published = PublishedNumbers(path, spec.get("published_scale", 1))
    errata = errata_of(context.root, spec["paper"], spec["item"])
    used_errata = set()
    chance: list[float | None] = [None] * len(columns)
    groups = []
    for entry in spec["groups"]:
        settings = [setting_of(column, entry) for column in columns]
        group = Group(entry["title"], settings, [])
        published_setting = entry.get("published_setting", entry.get("setting") or settings[0])
        for spec_row in entry["rows"]:
            run, model = spec_row.get("run"), spec_row.get("published")
            if run in context.absent and model is None:
                continue
            cells = [reproduced(column, spec_row, entry) for column in columns]
            if model is not None:
                note = spec_row.get("published_note")
                for cell, value in zip(cells, published.values(published_setting, model, note, columns), strict=True):
                    cell.published = value
            row = Row(
                label=spec_row["label"],
                model=model,
                run=run,
                canonical=context.canonical(run, columns[0].task) if run in context.runs else run,
                cells=cells,
            )
            for erratum in errata:
                if erratum["row"] == f"{published_setting} / {model}":
                    row.errata.append(erratum["explanation"])
                    used_errata.add(id(erratum))
            for index, (cell, column) in enumerate(zip(cells, columns, strict=True)):
                if not cell.values:
                    continue
                cell.summary = summarise(cell.values.values())
                behind = {
                    part: lookup(spec_row, part.task, setting_of(part, entry))
                    for parts in column.parts or ((column,),)
                    for part in parts
                }
                row.selection |= {
                    (part.task, setting_of(part, entry)): one.selection for part, one in behind.items() if one.selection
                }
                row.layers |= {
                    (part.task, setting_of(part, entry)): dict(one.layers) for part, one in behind.items() if one.layers
                }
                for part, one in behind.items():
                    if seeds := seeds_at_chance(part, one):
                        row.at_chance[part.task, setting_of(part, entry)] = seeds
                    wanted = {*context.seeds(run), *one.expected_seeds}
                    row.expected_seeds = max(row.expected_seeds, len(wanted))
                    key, found = (part.task, setting_of(part, entry)), one.by_seed if column.parts else cell.values
                    lacking = {*row.lacking.get(key, ()), *(wanted - set(found))}
                    if lacking:
                        row.lacking[key] = tuple(sorted(lacking))
                cell.files = files_behind(column, spec_row, entry, cell.values)
                own_chance = chance_of(column, behind)
                if chance[index] is None:
                    chance[index] = own_chance
                cell.no_best = (
                    run in context.untrained
                    or any(seeds_at_chance(part, one) for part, one in behind.items())
                    or any(part.language == GAP and not english_is_learnt(part, one) for part, one in behind.items())
                    or (
                        own_chance is not None
                        and not column.less_is_better
                        and cell.summary.mean <= own_chance + NOT_LEARNT
                    )
                )
            group.rows.append(row)
        mark_best(group, columns)
        groups.append(group)
    of_item = [
        f"{e['row']}, {e['column']}: printed {e['printed']}, recomputed {e['recomputed']}; {e['explanation']}"
        for e in errata
        if id(e) not in used_errata
    ]
    return Table(spec, context, columns, groups, chance, of_item)


def setting_of(column: Column, group: dict) -> str:
    """The setting of a column in a group; an average over tasks has those of its tasks."""
    if column.parts:
        return group.get("setting", "")
    return column_setting({"task": column.task, "setting": column.setting}, group)


def chance_of(column: Column, behind: Mapping[Column, Results]) -> float | None:
    """What chance reaches: for an average the mean of what stands behind it; for a gap nothing that says anything."""
    if column.language == GAP or column.reaches:
        return None
    if column.parts:
        of_tasks = [[chance_of(part, behind) for part in parts] for parts in column.parts]
        if any(value is None for values in of_tasks for value in values):
            return None
        return statistics.fmean(statistics.fmean(values) for values in of_tasks)
    results = behind[column]
    codes = list(column.languages) if column.is_derived else [column.language]
    values = [results.chance(code, column.metric) for code in codes if results.values(code, column.metric)]
    values = [value for value in values if value is not None]
    return statistics.fmean(values) if values else None


NOT_LEARNT = 1.0  # points above chance
WELL_LEARNT = 10.0  # points above chance, in English: below, a gap to it says nothing


def english_is_learnt(column: Column, results: Results) -> bool:
    """Does every seed know enough in English for a gap to say something?"""
    values, chance = results.values(ENGLISH, column.metric), results.chance(ENGLISH, column.metric)
    return all(value > (chance or 0.0) + WELL_LEARNT for value in values.values())


def seeds_at_chance(column: Column, results: Results) -> tuple[int, ...]:
    """The seeds whose fine-tuning taught nothing: in English, which all train on (or in every language, where English
    is not among them), the score is that of chance. They count in every mean, and are told."""
    if results.selection is None or column.less_is_better or column.reaches:
        return ()
    languages = results.languages(column.metric)
    tried = [ENGLISH] if ENGLISH in languages else languages
    learnt: set[int] = set()
    for code in tried:
        chance = results.chance(code, column.metric)
        values = results.values(code, column.metric)
        learnt |= {seed for seed, value in values.items() if chance is None or value > chance + NOT_LEARNT}
    return tuple(sorted(set(results.by_seed) - learnt)) if tried else ()


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
    if context.warning:
        return (
            f"Scale {context.scale}, {'generated mini-world' if context.world else 'real text'}: this scale tests the "
            "code, its numbers mean nothing and are not comparable with the published ones."
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
