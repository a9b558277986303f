"""What the scores of a scale say: which method each task is best served by, and which method is ahead of which.

Methods are the rows of this project's table of methods, tasks the columns of that table and of its tables by task: each
with its own metric, over the languages other than English. Nothing is named here; a new row or column is a new method
or task of these findings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from pathlib import Path
from statistics import fmean

from plan.claims import ENGLISH, Link, Measure, Side
from plan.config import Config
from plan.objectives import OBJECTIVE_DATA
from plan.recipes import task_languages
from plan.runs import lineage
from plan.seeds import by_training
from report.intervals import Estimate, adjusted
from report.measured import LEVEL, Evidence, Missing, Untestable, measure, values_of
from report.run_flops import flops_with_start
from report.scores import LESS_IS_BETTER, NOT_LEARNT
from report.tables import column_setting

METHODS, BY_TASK = "parallax/methods", "parallax/tasks-"


@dataclass(frozen=True)
class Task:
    task: str
    setting: str
    metric: str
    heading: str

    @property
    def less_is_better(self) -> bool:
        return self.metric in LESS_IS_BETTER


@dataclass(frozen=True)
class Method:
    run: str
    label: str
    parallel: bool  # reads sentence pairs, or goes on from a run that does
    flops: float | None  # of its training with all that it starts from; None where nobody can count them
    counted: bool = True  # while it was trained, mean over pre-trainings; otherwise from the configuration


@dataclass(frozen=True)
class Reached:
    """A score of a method: higher is better, so that an error rate is negative."""

    mean: float
    trainings: int
    of_reference: bool = False  # not trained here


@dataclass(frozen=True)
class Ahead:
    """One method minus another, paired by pre-training and test item."""

    found: Estimate
    p: float | None  # two-sided; None from fewer than three pre-trainings
    adjusted: float | None  # for all pairs of all tasks

    @property
    def decided(self) -> bool:
        return self.adjusted is not None and self.adjusted <= 1 - LEVEL

    def turned(self) -> tuple[float, tuple[float, float] | None]:
        """The other minus the one."""
        interval = self.found.interval
        return -self.found.mean, None if interval is None else (-interval[1], -interval[0])


@dataclass(frozen=True)
class Findings:
    methods: Mapping[str, Method]
    tasks: Sequence[Task]
    scores: Mapping[Task, Mapping[str, Reached]]  # run -> what it reaches, the best first
    pairs: Mapping[tuple[Task, str, str], Ahead]
    untrained: Mapping[Task, Reached]  # an encoder of random weights, where it has a score
    chance: Mapping[Task, float]  # with the sign of a score; no key where a task has none

    def ahead(self, task: Task, run: str, other: str) -> tuple[float, tuple[float, float] | None, Ahead] | None:
        if one := self.pairs.get((task, run, other)):
            return one.found.mean, one.found.interval, one
        if one := self.pairs.get((task, other, run)):
            return *one.turned(), one
        return None

    def tried(self, task: Task, parallel: bool | None = None) -> list[str]:
        """Those with a score, of those that read sentence pairs or of those that do not, the best on average first."""
        return [run for run in self.scores[task] if parallel is None or self.methods[run].parallel == parallel]

    def best(self, task: Task, parallel: bool | None = None) -> str | None:
        """The run with the highest mean; none where that is no better than chance, or two have it."""
        runs, means = self.tried(task, parallel), self.scores[task]
        if not runs or means[runs[0]].mean <= self.chance.get(task, -inf) + NOT_LEARNT:
            return None
        return None if len(runs) > 1 and means[runs[1]].mean == means[runs[0]].mean else runs[0]

    def of_all(self, parallel: bool) -> list[Task]:
        """The tasks that every method of its kind has a score of: only there is the best the best of all."""
        return [task for task in self.tasks if len(self.tried(task, parallel)) == self.number(parallel)]

    def number(self, parallel: bool) -> int:
        return sum(method.parallel == parallel for method in self.methods.values())

    def beaten(self, task: Task, run: str) -> list[str]:
        """Whom it is ahead of, corrected for all that was compared."""
        found = ((other, self.ahead(task, run, other)) for other in self.scores[task])
        return [other for other, one in found if one and one[0] > 0 and one[2].decided]

    def cheapest(self, task: Task, points: float) -> str | None:
        """Of those whose mean is so close to the best the one that costs least."""
        means = self.scores[task]
        if self.best(task) is None:
            return None
        near = [run for run in means if means[run].mean >= next(iter(means.values())).mean - points]
        priced = [run for run in near if self.methods[run].flops is not None]
        return min(priced, key=lambda run: self.methods[run].flops) if priced else None


def rows_of(spec: dict) -> Iterable[tuple[dict, dict]]:
    return ((group, row) for group in spec["groups"] for row in group["rows"] if "run" in row)


def find_tasks(tables: Mapping[str, dict], config: Config, runs: Iterable[str]) -> list[Task]:
    """(task, setting) of the columns below which these runs stand, each once; of a task its own metric alone."""
    runs, found = set(runs), {}
    names = [METHODS, *(name for name in tables if name.startswith(BY_TASK))]
    for spec in (tables[name] for name in names if name in tables):
        for group, row in rows_of(spec):
            for column in spec["columns"] if row["run"] in runs else ():
                if column.get("metric") != config.tasks[column["task"]]["metric"]:
                    continue
                setting = column_setting(column, group)
                heading = column.get("heading", column["task"])
                found.setdefault((column["task"], setting), Task(column["task"], setting, column["metric"], heading))
    return list(found.values())


def describe(evidence: Evidence, run: str, label: str) -> Method:
    config = evidence.config
    objectives = [one["name"] for name in lineage(config, run) for one in config.runs[name].get("objectives", [])]
    parallel = any(reads_pairs(name) for name in objectives)
    if counted := evidence.costs(run, "ours"):
        return Method(run, label, parallel, fmean(counted.values()))
    return Method(run, label, parallel, flops_with_start(config, run), counted=False)


def reads_pairs(objective: str) -> bool:
    return "bitext" in OBJECTIVE_DATA[objective]


def measure_of(config: Config, run: str, task: Task) -> Measure:
    """Over the languages that this scale evaluates: of smoke's, TyDiQA has English alone."""
    languages = task_languages(config, task.task)
    others = tuple(code for code in languages if code != ENGLISH)
    return Measure(run, task.task, task.setting, task.metric, others or tuple(languages))


def reached(evidence: Evidence, run: str, task: Task) -> Reached | None:
    """The mean over pre-trainings of the mean over languages; None where a language has no score."""
    try:
        parts = values_of(evidence, measure_of(evidence.config, run, task))
    except Missing:
        return None
    seeds = set.intersection(*(set(values.by_seed) for _, _, values in parts))
    if not seeds:
        return None
    by_seed = {seed: sum(weight * values.by_seed[seed] for weight, _, values in parts) for seed in seeds}
    of_training = by_training(evidence.config, run, by_seed)
    return Reached(fmean(of_training.values()), len(of_training))


def find(tables: Mapping[str, dict], config: Config, scores: Path, trainings: Path) -> Findings | None:
    """None where the table of methods is not among what is shown."""
    if METHODS not in tables:
        return None
    evidence = Evidence(config, scores, trainings)
    labels = {row["run"]: row["label"] for _, row in rows_of(tables[METHODS]) if row["run"] in config.selected}
    of_tasks: dict[Task, dict[str, Reached]] = {}
    for task in find_tasks(tables, config, labels):
        found = {run: one for run in labels if (one := reached(evidence, run, task))}
        if len(found) > 1:
            of_tasks[task] = dict(sorted(found.items(), key=lambda pair: -pair[1].mean))
    shown = {run for of_task in of_tasks.values() for run in of_task}
    methods = {run: describe(evidence, run, label) for run, label in labels.items() if run in shown}
    kept = reference_evidence(config)
    untrained = {task: one for task in of_tasks if (one := floor(evidence, task) or kept_floor(kept, task))}
    chance = {
        task: one for task, of in of_tasks.items() if (one := chance_of(evidence, next(iter(of)), task)) is not None
    }
    return Findings(methods, list(of_tasks), of_tasks, compare_all(evidence, of_tasks), untrained, chance)


def chance_of(evidence: Evidence, run: str, task: Task) -> float | None:
    """What chance reaches, as the score files of a run say it, over the languages of its mean."""
    one = measure_of(evidence.config, run, task)
    results = evidence.results(one)
    found = [results.chance(code, task.metric) for code in evidence.languages(one)]
    if not found or None in found:
        return None
    return -fmean(found) if task.less_is_better else fmean(found)


def reference_evidence(config: Config) -> Evidence:
    """What the repository keeps of this scale."""
    reference = replace(config, settings={**config.settings, "scores_from": "reference", "runs": "all", "seeds": None})
    folders = (config.root / f"reference/{kind}/{config.scale_name}" for kind in ("scores", "trainings"))
    return Evidence(reference, *folders)


def floor(evidence: Evidence, task: Task) -> Reached | None:
    """The best encoder of random weights."""
    runs = sorted(evidence.config.selected & evidence.config.untrained)
    found = [one for run in runs if (one := reached(evidence, run, task))]
    return max(found, key=lambda one: one.mean, default=None)


def kept_floor(reference: Evidence, task: Task) -> Reached | None:
    one = floor(reference, task)
    return one and replace(one, of_reference=True)


def compare_all(evidence: Evidence, scores: Mapping[Task, Mapping[str, Reached]]) -> dict[tuple, Ahead]:
    """Each method against each that has the same seeds, corrected over all of them at once."""
    found: dict[tuple[Task, str, str], Estimate] = {}
    for task, of_task in scores.items():
        for pair in combinations(of_task, 2):
            sides = (Side(run, ((1.0, measure_of(evidence.config, run, task)),)) for run in pair)
            try:
                found[task, *pair] = measure(evidence, Link(*sides), LEVEL).found
            except (Missing, Untestable):
                continue
    tested = {key: p for key, one in found.items() if (p := one.p_value(0.0)) is not None}
    corrected = dict(zip(tested, adjusted(list(tested.values())), strict=True))
    return {key: Ahead(one, tested.get(key), corrected.get(key)) for key, one in found.items()}
