"""What the claims say, measured: differences of runs on items and seeds, with their intervals."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from common.atomic import check_seal
from common.errors import UserError
from plan import claims
from plan.claimed import layer_here, measured_languages
from plan.claims import Link, Measure
from plan.config import Config
from plan.evidence import check_hashes, is_current, seeds_of
from plan.needs import canonical_run
from plan.recipes import setting_jobs, setting_of_job, trained_as
from plan.runs import lineage, trained_run
from plan.seeds import first_seed, pretrain_seed, pretrain_seeds, second_fine_tunings
from report.intervals import FEWEST_TRAININGS, Estimate, Term, estimate
from report.scores import (
    ENGLISH,
    FINE_TUNED_ONCE,
    LESS_IS_BETTER,
    Results,
    items_of,
    load_parts,
    load_results,
    read_content,
    seed_words,
)

REPRODUCED, DIRECTION, NOT_REPRODUCED, UNDECIDED = "reproduced", "direction only", "not reproduced", "undecided"
NO_DATA, NOT_TESTABLE = "no data", "not testable at this scale"
VERDICTS = (REPRODUCED, DIRECTION, NOT_REPRODUCED, UNDECIDED, NO_DATA, NOT_TESTABLE)
DECIDED = (REPRODUCED, DIRECTION, NOT_REPRODUCED)
NOTHING = "–"
MARKS = {REPRODUCED: "+", DIRECTION: "(+)", NOT_REPRODUCED: "−", UNDECIDED: "?", NO_DATA: "o", NOT_TESTABLE: "/"}
LEVEL = 0.95
ENOUGH = 0.5  # of a published difference: a smaller one has its direction alone
ROUNDING = 0.01  # items add up to the score of their file, but for shares of four digits


class Missing(Exception):
    """What is needed for a verdict is not there; the message says what."""


class Untestable(Exception):
    """What is there cannot test the claim, however much more there were; the message says why."""


LOOKED_TWICE = "Tried again with more pre-trainings, at half of the error."


@dataclass(frozen=True)
class Values:
    """One number a seed, and what each test item adds to it where that is known."""

    by_seed: dict[int, float]
    items: dict[int, tuple[list[float], list[float]]] | None = None
    fixed: bool = False  # drawn nothing: one number stands for all seeds


@dataclass
class Measured:
    """A link with its numbers."""

    link: Link
    found: Estimate
    seeds: list[int]
    margin: float  # in what `found` is in: of costs the logarithm
    notes: list[str] = field(default_factory=list)
    languages: dict[str, list[str]] = field(default_factory=dict)  # of each task
    published: float | None = None  # what the paper has for this difference, in points
    published_here: float | None = None  # the same over the languages here, where that is another and is printed
    counted: bool = False  # a count of costs, which by seed varies by a thousandth: no test of anything

    @property
    def interval(self) -> tuple[float, float] | None:
        return (self.found.mean, self.found.mean) if self.counted else self.found.interval

    @property
    def decided(self) -> str:
        if self.interval is None:
            return UNDECIDED
        low, high = self.interval
        if self.link.within is None:
            return REPRODUCED if low > self.margin else NOT_REPRODUCED if high < self.margin else UNDECIDED
        if low > self.link.within or high < -self.link.within:
            return NOT_REPRODUCED
        inner_low, inner_high = self.found.interval_at(2 * self.found.level - 1)  # each side at its own level
        return REPRODUCED if -self.link.within < inner_low and inner_high < self.link.within else UNDECIDED

    @property
    def p_value(self) -> tuple[float, float] | None:
        """Of the test that the link holds, and of the one that it does not; None where there is none."""
        if self.found.of_trainings is None or self.counted:
            return None
        if self.link.within is None:
            p = self.found.p_value(self.margin)
            return (p, 1.0) if self.found.mean > self.margin else (1.0, p)
        nearest = math.copysign(self.link.within, self.found.mean)
        p = self.found.p_value(nearest)  # of two one-sided tests the one at the nearer end is the larger
        return (p / 2, 1.0) if abs(self.found.mean) < self.link.within else (1.0, p)

    @property
    def share(self) -> float | None:
        """Of the published difference; an equality, a cost and a lead that the paper has not here have none."""
        if not self.in_print or self.in_print < 0 or self.link.of_costs or self.link.within is not None:
            return None
        return self.found.mean / self.in_print

    @property
    def in_print(self) -> float | None:
        """What ours is set beside."""
        return self.published if self.published_here is None else self.published_here

    @property
    def most(self) -> float | None:
        """The largest share of the published difference that the interval leaves possible."""
        if self.share is None or self.interval is None:
            return None
        return self.interval[1] / self.in_print


@dataclass
class Result:
    claim: dict
    verdict: str
    reason: str
    measured: list[Measured] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    control: "Result | None" = None  # the same against the run that simply goes on
    all_fail: list[Measured] = field(default_factory=list)  # each has to fail for it not to be reproduced

    @property
    def p_value(self) -> float | None:
        """The smallest level of error at which the claim would be decided, either way; of a chain with as many links
        as it has counted in. None where nothing was tested."""
        if self.all_fail:
            return max(min(1.0, one.p_value[1] * (1 - LEVEL) / (1 - one.found.level)) for one in self.all_fail)
        tests = [(one, one.p_value) for one in self.measured if not one.counted]
        if not tests or any(test is None for _, test in tests) or self.verdict not in (*DECIDED, UNDECIDED):
            return None
        counts = [one.decided for one in self.measured if one.counted]
        if self.verdict == NOT_REPRODUCED and NOT_REPRODUCED in counts:
            return None
        wider = [(1 - LEVEL) / (1 - one.found.level) for one, _ in tests]
        holds = max(min(1.0, test[0] * by) for (_, test), by in zip(tests, wider, strict=True))
        fails = min(min(1.0, test[1] * by) for (_, test), by in zip(tests, wider, strict=True))
        if self.verdict == UNDECIDED:  # perhaps for another reason than its interval
            return max(min(holds, fails), 1 - LEVEL)
        return fails if self.verdict == NOT_REPRODUCED else holds


class Evidence:
    """The score and training files of one scale, each read once; asked for one that is not there it says which.

    `looks`: how often a verdict was asked for while these came together; a second one has half of the error."""

    def __init__(self, config: Config, scores_root: Path, trainings_root: Path, looks: int = 1) -> None:
        self.config, self.scores_root, self.trainings_root, self.looks = config, scores_root, trainings_root, looks
        self.read: dict[tuple[str, str, str], Results] = {}
        self.contents: dict[Path, dict] = {}
        self.used: set[str] = set()
        self.of_measure: dict[tuple, dict[str, dict[int, Path]]] = {}
        self.of_items: dict[tuple[Path, str, str], tuple[list[float], list[float]] | None] = {}

    def paths(self, measure: Measure) -> dict[str, dict[int, Path]]:
        """Job (a setting, or one of each language) -> seed -> path."""
        key = (measure.run, measure.task, measure.setting, measure.languages)
        if key not in self.of_measure:
            self.of_measure[key] = self._paths(measure)
        return self.of_measure[key]

    def _paths(self, measure: Measure) -> dict[str, dict[int, Path]]:
        run = canonical_run(self.config, measure.run, measure.task)
        jobs = setting_jobs(self.config, measure.task, measure.setting, self.languages(measure))
        seeds = seeds_of(self.config, run)
        folder = self.scores_root / run / measure.task
        found = {job: {seed: folder / job / f"seed-{seed}.json" for seed in seeds} for job in jobs}
        return {job: {seed: path for seed, path in of.items() if self.is_of_today(path)} for job, of in found.items()}

    def is_of_today(self, path: Path) -> bool:
        """Reference files may be of a configuration that has changed since."""
        kept = self.config.from_reference and path.exists()
        return not kept or is_current(self.config, path.absolute())

    def languages(self, measure: Measure) -> list[str]:
        return measured_languages(self.config, measure)

    def results(self, measure: Measure) -> Results:
        paths = self.paths(measure)
        if not all(paths.values()):
            raise Missing(f"{measure.run}, {measure.task}: the reference scores are of another configuration")
        key = (next(iter(next(iter(paths.values())).values())).parts[-4], measure.task, measure.setting)
        self.used |= {str(path) for of_seed in paths.values() for path in of_seed.values() if path.exists()}
        if key not in self.read or len(paths) > 1:
            if list(paths) == [measure.setting]:
                self.read[key] = load_results(paths[measure.setting], self.config.scale_name)
            else:
                parts = {setting_of_job(self.config, measure.task, job)[1]: of for job, of in paths.items()}
                self.read[key] = load_parts(parts, self.config.scale_name)
            check_hashes(self.config, (rows[0] for rows in self.read[key].by_seed.values()))
        return self.read[key]

    def items(self, measure: Measure, language: str, seed: int) -> tuple[list[float], list[float]] | None:
        paths = self.paths(measure)
        job = measure.setting if measure.setting in paths else f"{measure.setting}-{language}"
        key = (paths[job][seed], language, measure.metric)
        if key not in self.of_items:
            path = paths[job][seed]
            if path not in self.contents:
                self.contents[path] = read_content(path, self.config.scale_name)
            self.of_items[key] = items_of(self.contents[path], language, measure.metric)
        return self.of_items[key]

    def costs(self, run: str, counting: str) -> dict[int, float]:
        """Seed of pre-training -> FLOPs, with those of the runs that it starts from."""
        key = {"ours": "flops", "papers": "flops_by_the_papers_counting"}[counting]
        found = {}
        for seed, paths in self.trainings(run).items():
            if all(path.exists() for path in paths):
                found[seed] = math.fsum(self.cost(path, key) for path in paths)
        return found

    def trainings(self, run: str) -> dict[int, list[Path]]:
        """Seed of pre-training -> the files of a run and of those that it starts from."""
        names = [trained_run(self.config, own) for own in lineage(self.config, run)]
        seeds = pretrain_seeds(self.config)
        found = {seed: [self.trainings_root / name / f"seed-{seed}.json" for name in names] for seed in seeds}
        return {seed: paths for seed, paths in found.items() if all(map(self.is_of_today, paths))}

    def cost(self, path: Path, key: str) -> float:
        self.used.add(str(path))
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            check_seal(content, path, "summarise the training again")
            return float(content["cost"][key])
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{path}, cost.{key}: no number; summarise the training again") from None


def check_there(config: Config, evidence: Evidence, claim: dict) -> None:
    """Raise Missing with the reason why the numbers of a claim are not all there."""
    if untrained := [run for run in claims.runs_of(claim) if run not in config.selected]:
        several = "runs {} are" if len(untrained) > 1 else "run {} is"
        raise Missing(f"{several.format(', '.join(untrained))} not trained here; --config runs=all")
    links = claims.links_of(claim, config.tasks)
    wanted: list[list[Path]] = []  # each a number by seed: one seed of it has to be there
    for link in links:
        for measure in claims.measures_of([link]):
            wanted += [list(of_seed.values()) for of_seed in evidence.paths(measure).values()]
        for side in link.sides if link.of_costs else ():
            wanted += [list(of_run) for of_run in zip(*evidence.trainings(side.run).values(), strict=True)]
    if all(any(path.exists() for path in paths) for paths in wanted):
        return
    absent = list(dict.fromkeys(path for paths in wanted for path in paths if not path.exists()))
    if not absent:
        raise Missing("the reference scores are of another configuration")
    more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    what = "not among the reference scores" if config.from_reference else "not there"
    raise Missing(f"{short(absent[0])}{more}: {what}")


def short(path: Path) -> str:
    """From the folder of the scale on."""
    parts = path.parts
    at = max((i for i, part in enumerate(parts) if part in ("scores", "trainings")), default=0)
    return "/".join(parts[at:])


def values_of(evidence: Evidence, measure: Measure) -> list[tuple[float, str, Values]]:
    """(weight, language, numbers by seed) of a measure; errors and gaps with the weight of what is lost."""
    config, languages = evidence.config, evidence.languages(measure)
    others = [code for code in languages if code != ENGLISH]
    if not languages or (measure.gap and not others):
        raise Missing(f"{measure.task}: this scale evaluates none of its languages but English")
    weights = dict.fromkeys(languages, 1 / len(languages))
    if measure.gap:  # less is better: the others minus English
        weights = {ENGLISH: -1.0, **dict.fromkeys(others, 1 / len(others))}
    if measure.metric.removesuffix(claims.BY_LAYER) in LESS_IS_BETTER:
        weights = {code: -weight for code, weight in weights.items()}
    results = evidence.results(measure)
    found = []
    for code, weight in weights.items():
        by_seed = numbers(config, results, measure, code)
        if not by_seed:
            raise Missing(f"no {measure.metric} of {measure.run}, {measure.task}, {measure.setting}, for {code}")
        if not is_fine_tuned(config, measure):
            # seeds of fine-tuning that read the same encoder are one number
            by_seed = {seed: one for seed, one in by_seed.items() if seed == first_seed(config, seed, measure.run)}
        elsewhere = (measure.depth, measure.share, measure.layer) != (None, None, None)
        headline = not elsewhere and measure.direction in (None, "both")
        items = {seed: evidence.items(measure, code, seed) for seed in by_seed} if headline else {}
        known = bool(items) and all(one is not None for one in items.values())
        drawn = is_fine_tuned(config, measure) or config.runs[measure.run]["kind"] not in ("aligner", "checkpoint")
        fixed = len(by_seed) == 1 and not drawn
        found.append((weight, code, Values(by_seed, items if known else None, fixed)))
    return found


def numbers(config: Config, results: Results, measure: Measure, code: str) -> dict[int, float]:
    if measure.depth is not None:
        return results.curves(measure.metric, [code], "layer").get(layer_here(config, measure), {})
    if measure.share is not None:
        curve = results.curves(measure.metric, [code], "update")
        if not curve:
            return {}
        early = [update for update in curve if update <= measure.share * max(curve) + 1e-9]
        if not early:  # a later one would be better for having learned longer
            first = f"the first snapshot of {measure.run} is of update {min(curve)} of {max(curve)}"
            raise Untestable(f"{first}, and the claim is of {100 * measure.share:.0f} % of the updates")
        return curve[max(early)]
    return results.values(code, measure.metric, measure.direction, measure.layer)


def is_fine_tuned(config: Config, measure: Measure) -> bool:
    job = setting_jobs(config, measure.task, measure.setting)[0]
    return trained_as(config, measure.task, job) is not None


def terms_of(evidence: Evidence, link: Link) -> tuple[list[Term], list[int], list[list[int]], list[str]]:
    """What a link's difference is the sum of, over the seeds that both sides have, and which of these hang together."""
    entries, runs = [], set()  # (weight, task, language, metric, values)
    for sign, side in ((1.0, link.better), (-1.0, link.than)):
        for share, measure in side.measures:
            for weight, code, values in values_of(evidence, measure):
                entries.append((sign * share * weight, (measure.task, code, measure.metric), values))
                runs |= set() if values.fixed else {measure.run}
    drawn = [set(values.by_seed) for _, _, values in entries if not values.fixed]
    seeds = sorted(set.intersection(*drawn)) if drawn else [1]
    if not seeds:
        raise Missing("no seed has a score of both sides")
    groups = groups_of(evidence.config, seeds, runs)
    notes = notes_of(evidence, link, seeds, groups)
    lengths: dict[tuple[str, str, str], set[int]] = {}
    for _, name, values in entries:
        for above, _ in (values.items or {}).values():
            lengths.setdefault(name, set()).add(len(above))
    paired = all(values.items for _, _, values in entries) and all(len(of) == 1 for of in lengths.values())
    if not paired:
        notes.append("Over seeds alone.")
    terms = []
    for weight, (_, code, metric), values in entries:
        own = [next(iter(values.by_seed)) if values.fixed else seed for seed in seeds]
        column = np.array([values.by_seed[seed] for seed in own])
        if not paired:
            terms.append(Term(weight, column))
            continue
        above, below = (np.array([values.items[seed][part] for seed in own]) for part in (0, 1))
        inverted = metric in LESS_IS_BETTER
        check_items(column, above, below, inverted, f"{link.better.run} and {link.than.run}: {code} {metric}")
        terms.append(Term(weight, column, above, below, inverted))
    return terms, seeds, groups, notes


def check_items(values: np.ndarray, above: np.ndarray, below: np.ndarray, inverted: bool, where: str) -> None:
    """Items that do not make up their score would give the interval of another number."""
    whole = below.sum(axis=1)
    made = 100 * np.divide(above.sum(axis=1), whole, out=np.zeros_like(values), where=whole > 0)
    if np.abs((100 - made if inverted else made) - values).max() > ROUNDING:
        raise UserError(f"scores of {where}: the items of a seed do not make up its score; score again")


def notes_of(evidence: Evidence, link: Link, seeds: Sequence[int], groups: Sequence[Sequence[int]]) -> list[str]:
    """What must be known of a difference beside its number."""
    config, notes = evidence.config, []
    trained = any(is_fine_tuned(config, one) for one in claims.measures_of([link]))
    wanted = set(config.seeds) if trained else {first_seed(config, seed) for seed in config.seeds}
    if lacking := wanted - set(seeds):
        once = lacking <= second_fine_tunings(config, config.seeds)
        known = f"{len(seeds)} of {len(wanted)} seeds have a score of both sides."
        notes.append(FINE_TUNED_ONCE if once else known)
    if (trainings := config.scale["pretrain_seeds"]) < FEWEST_TRAININGS:
        notes.append(f"The scale trains {trainings}: raise pretrain_seeds in config/scales/{config.scale_name}.yaml.")
    pretrained = len(groups)
    if pretrained < len(seeds):
        notes.append(f"{len(seeds)} fine-tunings of {pretrained} pre-training{'s' if pretrained > 1 else ''}.")
    if evidence.looks > 1:
        notes.append(LOOKED_TWICE)
    return notes + layer_notes(link) + untaught_notes(evidence, link, seeds)


def layer_notes(link: Link) -> list[str]:
    """Where the numbers of a claim are not those of the tables."""
    read: dict[tuple[str, int], list[str]] = {}
    for one in claims.measures_of([link]):
        if one.layer is not None:
            read.setdefault((one.task, one.layer), []).append(one.run)
    return [
        f"Read at layer {layer}, as deep as in the paper, and not at the layer of the tables: "
        f"{task} of {' and '.join(dict.fromkeys(runs))}."
        for (task, layer), runs in sorted(read.items())
    ]


def untaught_notes(evidence: Evidence, link: Link, seeds: Sequence[int]) -> list[str]:
    """Fine-tunings that taught nothing count as any other, and their gap of nothing to English is no merit."""
    notes = []
    for measure in claims.measures_of([link]):
        untaught = sorted(set(evidence.results(measure).untaught(measure.metric)) & set(seeds))
        if untaught:
            counts = "with a gap of nothing" if measure.gap else "and counts"
            notes.append(
                f"{measure.run}: fine-tuning on {measure.task} taught {seed_words(untaught)} nothing, {counts}."
            )
    return list(dict.fromkeys(notes))


def groups_of(config: Config, seeds: Sequence[int], drawn: Iterable[str]) -> list[list[int]]:
    """Places of the seeds that hang together: those that share a pre-training of either side are one draw."""
    groups: list[tuple[set, list[int]]] = []
    for place, seed in enumerate(seeds):
        own = {(run, pretrain_seed(config, seed, run)) for run in drawn}
        joined = [group for group in groups if group[0] & own]
        groups = [group for group in groups if not group[0] & own]
        groups.append((own.union(*(of for of, _ in joined)), sorted([place, *(p for _, of in joined for p in of)])))
    return sorted(places for _, places in groups)


def measure(
    evidence: Evidence, link: Link, level: float, published: float | None = None, published_here: float | None = None
) -> Measured:
    if link.of_costs:
        better, than = (evidence.costs(side.run, link.counting) for side in link.sides)
        seeds = sorted(set(better) & set(than))
        if not seeds:
            raise Missing(f"no seed has the cost of {link.better.run} and {link.than.run}")
        found = estimate([Term(1.0, np.array([math.log(than[seed] / better[seed]) for seed in seeds]))], level)
        notes = [f"A count of {len(seeds)} seed{'s' if len(seeds) > 1 else ''}."]
        return Measured(link, found, seeds, math.log(link.margin), notes, counted=True)
    terms, seeds, groups, notes = terms_of(evidence, link)
    languages = {one.task: evidence.languages(one) for one in claims.measures_of([link])}
    found = estimate(terms, level, groups)
    return Measured(link, found, seeds, link.margin, notes, languages, published, published_here)
