"""From a table's spec, the published numbers and the score files to rows of cells. No formatting here.

A spec (config/tables/<paper>/<item>.yaml, config/figures/<paper>/<item>.yaml) states which runs, tasks, settings and
languages stand in an item. `build` gives every cell its numbers or the reason why it has none.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from common.errors import UserError
from plan.evidence import seeds_of
from plan.needs import canonical_run, on_request, unfit
from plan.recipes import trained_as
from plan.seeds import pretrain_seed
from report.context import Context, expected_scores, load_expected, why_unselected
from report.scores import (
    ENGLISH,
    FAILURES,
    NOT_LEARNT,
    Key,
    Results,
    Summary,
    group_paths,
    pooled_std,
    summarise,
)
from report.table_spec import (
    AVERAGE,
    GAP,
    OTHERS,
    SCALE_LANGUAGES,
    Column,
    PublishedNumbers,
    errata_of,
    row_of,
)


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
    chance: float | None = None  # what chance reaches


@dataclass
class Row:
    label: str
    model: str | None
    run: str | None
    canonical: str | None
    cells: list[Cell]
    expected_seeds: tuple[int, ...] = ()
    lacking: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # (task, setting) -> seeds
    selection: dict[tuple[str, str], str] = field(default_factory=dict)  # (task, setting) -> what chose the weights
    layers: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)  # seed -> the layer chosen
    at_chance: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # (task, setting) -> seeds
    again: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # (task, setting) -> seeds, trainings
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
    published_setting: str


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


# --- the model of a table -------------------------------------------------------------------------------------------


def column_setting(column: dict, group: dict) -> str:
    """The setting that the group has for the column's task, or the column's own, or the group's."""
    setting = group.get("settings", {}).get(column["task"]) or column.get("setting") or group.get("setting")
    if setting is None:
        raise UserError(
            f"group {group['title']!r}, column {column['task']!r}: neither names a 'setting'; mend the spec"
        )
    return setting


def expand_columns(spec: dict, languages: list[list[str]]) -> list[Column]:
    """The columns that are shown, averages over tasks last; `languages` are those of each column of the spec."""
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
        return unfit(context.config, run, task, setting)
    if reason := why_unselected(run, context):
        return reason
    if run not in context.runs:
        return f"run {run} has no file in config/runs yet"
    if task not in context.tasks:
        return f"task {task} is not evaluated yet (no file in config/tasks)"
    if setting not in context.tasks[task]:
        return f"task {task} has no setting {setting}"
    return unfit(context.config, run, task, setting) or on_request(context.config, run, task, setting)


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


@dataclass(frozen=True)
class Scores:
    """The score files that a spec asks for, read."""

    context: Context
    results: Mapping[Key, Results]
    paths: Mapping[Key, Mapping[int, Path]]

    def of(self, row: dict, task: str, setting: str) -> Results | None:
        run = row.get("run")
        if run not in self.context.runs:
            return None
        return self.results.get((canonical_run(self.context.config, run, task), task, setting))

    def behind(self, column: Column, row: dict, group: dict) -> dict[Column, Results | None]:
        """Those of a column; of an average over tasks those of every column that counts."""
        return {part: self.of(row, part.task, setting_of(part, group)) for part in parts_of(column)}

    def files(self, column: Column, row: dict, group: dict, seeds: Iterable[int]) -> tuple[Path, ...]:
        found = []
        for part in parts_of(column):
            run, setting = canonical_run(self.context.config, row["run"], part.task), setting_of(part, group)
            codes = part.languages if part.is_derived else (part.language,)
            for name in (setting, *(f"{setting}-{code}" for code in codes)):  # one model, or one for each language
                of_seed = self.paths.get((run, part.task, name), {})
                found += [of_seed[seed] for seed in sorted(seeds) if seed in of_seed]
        return tuple(dict.fromkeys(found))


def parts_of(column: Column) -> list[Column]:
    """The columns that an average over tasks counts; any other is its own."""
    return [part for of_task in column.parts for part in of_task] or [column]


def read_scores(spec: dict, context: Context) -> Scores:
    paths = group_paths(path for path in expected_scores(spec, context) if path.exists())
    return Scores(context, load_expected(spec, context), paths)


def build(spec: dict, context: Context) -> Table:
    """Every row of the spec with its published and reproduced cells."""
    scores = read_scores(spec, context)
    languages = [shown_languages(entry, spec, scores) for entry in spec["columns"]]
    columns = [with_target(column, spec, scores) for column in expand_columns(spec, languages)]
    path = context.root / spec["published"] if "published" in spec else None
    published = PublishedNumbers(path, spec.get("published_scale", 1))
    groups = [build_group(entry, columns, scores, published) for entry in spec["groups"]]
    errata = errata_of(context.root, spec["paper"], spec["item"])
    for group in groups:
        mark_best(group, columns)
        for row in group.rows:
            row.errata = [e["explanation"] for e in errata if e["row"] == f"{group.published_setting} / {row.model}"]
    of_rows = {f"{group.published_setting} / {row.model}" for group in groups for row in group.rows}
    of_item = [
        f"{e['row']}, {e['column']}: printed {e['printed']}, recomputed {e['recomputed']}; {e['explanation']}"
        for e in errata
        if e["row"] not in of_rows
    ]
    table = Table(spec, context, columns, groups, [None] * len(columns), of_item)
    for index in range(len(columns)):
        known = (row.cells[index].chance for row in table.rows)
        table.chance[index] = next((chance for chance in known if chance is not None), None)
    return table


def shown_languages(entry: dict, spec: dict, scores: Scores) -> list[str]:
    """Those that a column names, or all that its scores have in any row."""
    if entry["languages"] != SCALE_LANGUAGES:
        return entry["languages"]
    rows = [(row, column_setting(entry, group)) for group in spec["groups"] for row in group["rows"]]
    of_rows = (scores.of(row, entry["task"], setting) for row, setting in rows)
    return sorted({code for results in of_rows if results for code in results.languages(entry["metric"])})


def with_target(column: Column, spec: dict, scores: Scores) -> Column:
    """What is to be reached: the mean over seeds of the last value that each seed of the other run has."""
    if column.reaches is None:
        return column
    group, row = row_of(spec, column.reaches)
    results = scores.of(row, column.task, setting_of(column, group))
    last: dict[int, float] = {}
    for of_seed in (results.curves(column.metric, column.languages, "update") if results else {}).values():
        last |= of_seed
    return replace(column, target=statistics.fmean(last.values()) if last else None)


def build_group(entry: dict, columns: list[Column], scores: Scores, published: PublishedNumbers) -> Group:
    settings = [setting_of(column, entry) for column in columns]
    group = Group(entry["title"], settings, [], entry.get("published_setting", entry.get("setting") or settings[0]))
    for row in entry["rows"]:
        model = row.get("published")
        if row.get("run") in scores.context.absent and model is None:
            continue
        cells = [cell_of_row(column, row, entry, scores) for column in columns]
        if model is not None:
            printed = published.values(group.published_setting, model, row.get("published_note"), columns)
            cells = [replace(cell, published=value) for cell, value in zip(cells, printed, strict=True)]
        group.rows.append(build_row(row, entry, columns, cells, scores))
    return group


def cell_of_row(column: Column, row: dict, group: dict, scores: Scores) -> Cell:
    """The reproduced numbers of a cell with what is to be known of them, or why there are none."""
    cell = reproduced(column, row, group, scores)
    if not cell.values:
        return cell
    behind = scores.behind(column, row, group)
    summary, chance = summarise(cell.values.values()), chance_of(column, behind)
    return replace(
        cell,
        summary=summary,
        files=scores.files(column, row, group, cell.values),
        chance=chance,
        no_best=(
            row["run"] in scores.context.untrained
            or any(seeds_at_chance(part, results) for part, results in behind.items())
            or any(part.language == GAP and not english_is_learnt(part, results) for part, results in behind.items())
            or (chance is not None and not column.less_is_better and summary.mean <= chance + NOT_LEARNT)
        ),
    )


def reproduced(column: Column, row: dict, group: dict, scores: Scores) -> Cell:
    if column.parts and row.get("run"):
        of_tasks = [[reproduced(part, row, group, scores) for part in parts] for parts in column.parts]
        return cell_of_tasks([(parts[0], cells) for parts, cells in zip(column.parts, of_tasks, strict=True)])
    context, setting = scores.context, setting_of(column, group)
    if reason := why_missing(row, column.task, setting, context):
        return Cell(reason=reason)
    results = scores.of(row, column.task, setting)
    if not results and row["run"] in context.borrowed:
        lacks = f"run {row['run']} is not trained here, and has no such score in reference/"
        return Cell(reason=f"{lacks}; add it to `runs`, or say --config runs=all")
    return cell_of(column, results, context)


def build_row(entry: dict, group: dict, columns: list[Column], cells: list[Cell], scores: Scores) -> Row:
    """A row with what its notes say of the weights behind its cells."""
    context, run = scores.context, entry.get("run")
    canonical = canonical_run(context.config, run, columns[0].task) if run in context.runs else run
    row = Row(entry["label"], entry.get("published"), run, canonical, cells)
    for cell, column in zip(cells, columns, strict=True):
        if not cell.values:
            continue
        for part, results in scores.behind(column, entry, group).items():
            key = part.task, setting_of(part, group)
            if results.selection:
                row.selection[key] = results.selection
            if results.layers:
                row.layers[key] = dict(results.layers)
            if seeds := seeds_at_chance(part, results):
                row.at_chance[key] = seeds
            trainings = {pretrain_seed(context.config, seed, run) for seed in results.by_seed}
            if trained_as(context.config, *key) is None and len(trainings) < len(results.by_seed):
                row.again[key] = len(results.by_seed), len(trainings)
            wanted = {*seeds_of(context.config, run), *results.expected_seeds}
            row.expected_seeds = tuple(sorted({*row.expected_seeds, *wanted}))
            there = results.by_seed if column.parts else cell.values
            if lacking := {*row.lacking.get(key, ()), *(wanted - set(there))}:
                row.lacking[key] = tuple(sorted(lacking))
    return row


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


WELL_LEARNT = 10.0  # points above chance, in English: below, a gap to it says nothing


def english_is_learnt(column: Column, results: Results) -> bool:
    """Does every seed know enough in English for a gap to say something?"""
    values, chance = results.values(ENGLISH, column.metric), results.chance(ENGLISH, column.metric)
    return all(value > (chance or 0.0) + WELL_LEARNT for value in values.values())


def seeds_at_chance(column: Column, results: Results) -> tuple[int, ...]:
    """Those whose fine-tuning taught nothing; they count in every mean, and are told."""
    return () if column.reaches else results.untaught(column.metric)


# --- words that all formats share -----------------------------------------------------------------------------------
