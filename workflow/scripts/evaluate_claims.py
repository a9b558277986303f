"""Which claims of the papers hold at one scale: every claim of config/claims.yaml with what was measured and a verdict.

Each claim is a difference that has to lie above a margin. Its 95 % interval is over pre-trainings, their fine-tunings
and the test items (intervals.py). The verdict is `reproduced` where the whole interval lies above the margin and the
difference is at least half of the published one, `direction only` where it is less, `not reproduced` where the interval
lies below, and `undecided` between; of a chain of differences all have to lie above, and each interval is wider for
their number. A claim that two runs are equal is tried by two one-sided tests. From fewer than three pre-trainings
follows nothing, and without the scores there is no verdict but the reason. make_ledger.py shows them, scale by scale.
"""

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from common.atomic import check_seal, write_json
from common.errors import UserError, run_main
from plan import claims
from plan.claimed import layer_here, measured_languages, untestable
from plan.claims import Link, Measure
from plan.config import Config
from plan.evidence import is_current, seeds_of
from plan.load import load_config
from plan.needs import canonical_run
from plan.recipes import setting_jobs, setting_of_job, trained_as
from plan.runs import lineage, pretrain_seed, trained_run
from report.intervals import FEWEST_TRAININGS, MOST_TRAININGS, Estimate, Term, adjusted, estimate, trainings_to_decide
from report.scores import ENGLISH, Results, items_of, load_parts, load_results, read_content
from report.tables import LESS_IS_BETTER, add_context_arguments, paper_names, parse_overrides

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
    counted: bool = False  # a count of costs, which hardly varies: no test of anything

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
        """Of the published difference; an equality and a cost have none."""
        if not self.published or self.link.of_costs or self.link.within is not None:
            return None
        return self.found.mean / self.published


@dataclass
class Result:
    claim: dict
    verdict: str
    reason: str
    measured: list[Measured] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    control: "Result | None" = None  # the same against the run that simply goes on

    @property
    def p_value(self) -> float | None:
        """The smallest level of error at which the claim would be decided, either way; of a chain with as many links
        as it has counted in. None where nothing was tested."""
        tests = [(one, one.p_value) for one in self.measured if not one.counted]
        if not tests or any(test is None for _, test in tests) or self.verdict not in (*DECIDED, UNDECIDED):
            return None
        wider = [(1 - LEVEL) / (1 - one.found.level) for one, _ in tests]
        holds = max(min(1.0, test[0] * by) for (_, test), by in zip(tests, wider, strict=True))
        fails = min(min(1.0, test[1] * by) for (_, test), by in zip(tests, wider, strict=True))
        if self.verdict == UNDECIDED:  # perhaps for another reason than its interval
            return max(min(holds, fails), 1 - LEVEL)
        return fails if self.verdict == NOT_REPRODUCED else holds


class Evidence:
    """The score and training files of one scale, each read once; asked for one that is not there it says which."""

    def __init__(self, config: Config, scores_root: Path, trainings_root: Path) -> None:
        self.config, self.scores_root, self.trainings_root = config, scores_root, trainings_root
        self.read: dict[tuple[str, str, str], Results] = {}
        self.contents: dict[Path, dict] = {}
        self.used: set[str] = set()

    def paths(self, measure: Measure) -> dict[str, dict[int, Path]]:
        """Job (a setting, or one of each language) -> seed -> path."""
        run = canonical_run(self.config, measure.run, measure.task)
        jobs = setting_jobs(self.config, measure.task, measure.setting, self.languages(measure))
        seeds = seeds_of(self.config, run)
        folder = self.scores_root / run / measure.task
        found = {job: {seed: folder / job / f"seed-{seed}.json" for seed in seeds} for job in jobs}
        return {job: {seed: path for seed, path in of.items() if self.is_of_today(path)} for job, of in found.items()}

    def is_of_today(self, path: Path) -> bool:
        """Reference files may be of a configuration that has changed since."""
        return not self.config.from_reference or not path.exists() or is_current(self.config, path.absolute())

    def languages(self, measure: Measure) -> list[str]:
        return measured_languages(self.config, measure)

    def results(self, measure: Measure) -> Results:
        paths = self.paths(measure)
        key = (next(iter(next(iter(paths.values())).values())).parts[-4], measure.task, measure.setting)
        self.used |= {str(path) for of_seed in paths.values() for path in of_seed.values() if path.exists()}
        if key not in self.read or len(paths) > 1:
            if list(paths) == [measure.setting]:
                self.read[key] = load_results(paths[measure.setting], self.config.scale_name)
            else:
                parts = {setting_of_job(self.config, measure.task, job)[1]: of for job, of in paths.items()}
                self.read[key] = load_parts(parts, self.config.scale_name)
        return self.read[key]

    def items(self, measure: Measure, language: str, seed: int) -> tuple[list[float], list[float]] | None:
        paths = self.paths(measure)
        job = measure.setting if measure.setting in paths else f"{measure.setting}-{language}"
        path = paths[job][seed]
        if path not in self.contents:
            self.contents[path] = read_content(path, self.config.scale_name)
        return items_of(self.contents[path], language, measure.metric)

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
        seeds = sorted({pretrain_seed(self.config, seed) for seed in self.config.seeds})
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


# --- what is there --------------------------------------------------------------------------------------------------


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


# --- numbers ---------------------------------------------------------------------------------------------------------


def values_of(evidence: Evidence, measure: Measure) -> list[tuple[float, str, Values]]:
    """(weight, language, numbers by seed) of a measure; errors and gaps with the weight of what is lost."""
    config, languages = evidence.config, evidence.languages(measure)
    others = [code for code in languages if code != ENGLISH]
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
            by_seed = {seed: one for seed, one in by_seed.items() if seed == pretrain_seed(config, seed, measure.run)}
        headline = measure.depth is None and measure.share is None and measure.direction in (None, "both")
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
    return results.values(code, measure.metric, measure.direction)


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
    groups = groups_of(evidence.config, link, seeds, runs)
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
    if len(seeds) < len(config.seeds):
        trained = any(is_fine_tuned(config, one) for one in claims.measures_of([link]))
        if trained or len(seeds) < config.scale["pretrain_seeds"]:
            notes.append(f"{len(seeds)} of {len(config.seeds)} seeds have a score of both sides.")
    if (trainings := config.scale["pretrain_seeds"]) < FEWEST_TRAININGS:
        notes.append(f"The scale trains {trainings}: raise pretrain_seeds in config/scales/{config.scale_name}.yaml.")
    pretrained = len(groups)
    if pretrained < len(seeds):
        notes.append(f"{len(seeds)} fine-tunings of {pretrained} pre-training{'s' if pretrained > 1 else ''}.")
    return notes


def groups_of(config: Config, link: Link, seeds: Sequence[int], drawn: Iterable[str]) -> list[list[int]]:
    """Places of the seeds that hang together: those that share a pre-training of either side are one draw."""
    groups: list[tuple[set, list[int]]] = []
    for place, seed in enumerate(seeds):
        own = {(run, pretrain_seed(config, seed, run)) for run in drawn}
        joined = [group for group in groups if group[0] & own]
        groups = [group for group in groups if not group[0] & own]
        groups.append((own.union(*(of for of, _ in joined)), sorted([place, *(p for _, of in joined for p in of)])))
    return sorted(places for _, places in groups)


def measure(evidence: Evidence, link: Link, level: float, published: float | None = None) -> Measured:
    if link.of_costs:
        better, than = (evidence.costs(side.run, link.counting) for side in link.sides)
        seeds = sorted(set(better) & set(than))
        if not seeds:
            raise Missing(f"no seed has the cost of {link.better.run} and {link.than.run}")
        found = estimate([Term(1.0, np.array([math.log(than[seed] / better[seed]) for seed in seeds]))], level)
        counted = len(seeds) < FEWEST_TRAININGS  # over three seeds of mini it varies by a thousandth
        notes = [f"A count of {len(seeds)} seed{'s' if len(seeds) > 1 else ''}."] if counted else []
        return Measured(link, found, seeds, math.log(link.margin), notes, counted=counted)
    terms, seeds, groups, notes = terms_of(evidence, link)
    languages = {one.task: evidence.languages(one) for one in claims.measures_of([link])}
    return Measured(link, estimate(terms, level, groups), seeds, link.margin, notes, languages, published)


# --- verdicts --------------------------------------------------------------------------------------------------------


def evaluate(config: Config, evidence: Evidence, claim: dict) -> Result:
    """One claim with what was measured of it."""
    if reason := untestable(config, claim):
        return Result(claim, NOT_TESTABLE, reason)
    evidence.used = set()
    try:
        check_there(config, evidence, claim)
        links = claims.links_of(claim, config.tasks)
        if claims.kind_of(claim) == "cost" and "reach" in claim["cost"]:
            result = evaluate_reaching(evidence, claim, links)
        else:
            level = 1 - (1 - LEVEL) / len(links)  # all of a chain at once
            published = claims.differences(claim["published"])
            if claims.kind_of(claim) == "cost":
                published = [None] * len(links)
            pairs = zip(links, published, strict=True)
            measured = [measure(evidence, link, level, difference) for link, difference in pairs]
            result = Result(claim, *verdict_of(measured), measured)
    except Missing as missing:
        return Result(claim, NO_DATA, str(missing))
    except Untestable as reason:
        return Result(claim, NOT_TESTABLE, str(reason))
    result.files = sorted(evidence.used)
    if control := claims.control_of(claim):
        result.control = evaluate(config, evidence, control)
    return result


def verdict_of(measured: list[Measured]) -> tuple[str, str]:
    """A chain holds where every link does, and does not where one does not."""
    decided = [one.decided for one in measured]
    if NOT_REPRODUCED in decided:
        wrong = measured[decided.index(NOT_REPRODUCED)]
        return NOT_REPRODUCED, "" if len(measured) == 1 else f"{link_words(wrong.link)} does not hold"
    if UNDECIDED in decided:
        return UNDECIDED, advice([one for one in measured if one.decided == UNDECIDED])
    shares = [(one.share, one) for one in measured if one.share is not None and one.share < ENOUGH]
    if shares:
        least, one = min(shares, key=lambda pair: pair[0])
        of = "" if len(measured) == 1 else f" for {link_words(one.link)}"
        return DIRECTION, f"{100 * least:.0f} % of the published difference{of}"
    return REPRODUCED, ""


def advice(open_links: list[Measured]) -> str:
    """What would decide, if the numbers stay as they are."""
    fewest = min(len(one.found.by_training) for one in open_links)
    if any(one.interval is None for one in open_links):
        return f"{fewest} pre-training{'s' if fewest > 1 else ''}; at least {FEWEST_TRAININGS} are needed"
    # a difference within the margins of an equality is closest to leaving one of them
    margins = [
        one.margin if one.link.within is None else math.copysign(one.link.within, one.found.mean) for one in open_links
    ]
    needed = [trainings_to_decide(one.found, margin) for one, margin in zip(open_links, margins, strict=True)]
    if None in needed:
        same = all(one.found.of_trainings == 0 and one.found.mean == one.margin for one in open_links)
        return "no difference in any seed" if same else "more test items, not pre-trainings, would decide"
    if max(needed) > MOST_TRAININGS:
        return f"more than {MOST_TRAININGS} pre-trainings would decide, if the difference stays"
    return f"{max(needed)} pre-trainings would decide, if the difference stays"


def evaluate_one(claim: dict, score: Measured, cost: Measured) -> Result:
    """A claim on one training and no other: it has to be as good as it is cheap."""
    run = score.link.better.run
    misses = [(score, "is not there"), (cost, "costs too much")]
    if missed := [words for one, words in misses if one.decided == NOT_REPRODUCED]:
        return Result(claim, NOT_REPRODUCED, f"{run} {' and '.join(missed)}", [score, cost])
    verdict, reason = verdict_of([score, cost])
    if verdict == UNDECIDED and score.found.mean < score.margin:
        reason = f"{run} is not there on average; {reason}"
    return Result(claim, verdict, reason, [score, cost])


def evaluate_reaching(evidence: Evidence, claim: dict, links: list[Link]) -> Result:
    """Of several trainings the cheapest that is as good as the other run on average, and its cost."""
    tried = []
    for i in range(0, len(links), 2):
        score, cost = (measure(evidence, link, LEVEL) for link in links[i : i + 2])
        tried.append((score, cost))
    if len(tried) == 1:
        return evaluate_one(claim, *tried[0])
    tried.sort(key=lambda pair: (-pair[1].found.mean, pair[1].link.better.run))  # the cheapest first
    there = [pair for pair in tried if pair[0].found.mean >= pair[0].margin]
    if not there:
        open_ones = [pair for pair in tried if pair[0].decided != NOT_REPRODUCED]
        nearest = max(open_ones or tried, key=lambda pair: pair[0].found.mean)
        words = "none of the trainings tried is there"
        if not open_ones:
            return Result(claim, NOT_REPRODUCED, words, [*nearest])
        words += f" on average; {advice([score for score, _ in open_ones])}"
        return Result(claim, UNDECIDED, words, [*nearest])
    score, cost = there[0]
    if cost.decided == REPRODUCED:
        decided = score.decided == REPRODUCED
        return Result(claim, *((REPRODUCED, "") if decided else (UNDECIDED, advice([score]))), [score, cost])
    if cost.decided == UNDECIDED:
        return Result(claim, UNDECIDED, advice([cost]), [score, cost])
    if there[0] is tried[0]:
        words = f"{score.link.better.run} is there, and nothing cheaper was tried"
        return Result(claim, UNDECIDED, words, [score, cost])
    cheaper = [one for one, _ in tried[: tried.index(there[0])]]
    if any(one.decided != NOT_REPRODUCED for one in cheaper):  # one of them may be there too
        open_ones = [one for one in cheaper if one.decided == UNDECIDED]
        words = f"{score.link.better.run} is the cheapest that is there on average; {advice(open_ones)}"
        return Result(claim, UNDECIDED, words, [score, cost])
    return Result(claim, NOT_REPRODUCED, f"{score.link.better.run} is the cheapest that is there", [score, cost])


# --- words -----------------------------------------------------------------------------------------------------------


def link_words(link: Link) -> str:
    """`ernie-m-base > xlm-r`, or what else tells the two sides apart."""
    if link.of_costs:
        above, below = link.sides if link.at_most else link.sides[::-1]
        return f"cost of {above.run} / {below.run}"
    names = []
    for side, other in (link.sides, link.sides[::-1]):
        (_, one), (_, another) = side.measures[0], other.measures[0]
        if side.run != other.run:
            names.append(side.run)
        elif one.depth != another.depth:
            names.append(f"layer {one.depth[0]}")
        else:
            names.append(one.setting)
    if link.within is not None:
        return f"{' = '.join(names)} within {link.within:g}"
    return " > ".join(names) + (f" − {-link.margin:g}" if link.margin < 0 else "")


def measured_words(one: Measured) -> str:
    """`+1.2 [−0.3, +2.7] of +5.0`, the published one, of costs `0.79 times [0.78, 0.80]`."""
    ends = () if one.interval is None else one.interval
    if one.link.of_costs:
        sign = -1 if one.link.at_most else 1
        text = f"{times(sign * one.found.mean)} times"
        words = sorted(sign * end for end in ends)
        return f"{text} [{', '.join(map(times, words))}]" if ends else text
    text = f"{points(one.found.mean)} [{', '.join(map(points, ends))}]" if ends else points(one.found.mean)
    return text if one.published is None else f"{text} of {published_points(one.published)}"


def published_points(value: float) -> str:
    return f"{value:+}".replace("-", "−")


def times(logarithm: float) -> str:
    value = math.exp(logarithm)
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def points(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−") if abs(value) >= 0.05 else "0.0"


def published_words(claim: dict) -> list[str]:
    costs = claims.kind_of(claim) == "cost"
    words = []
    for difference in claims.differences(claim["published"]):
        if difference is None:
            words.append(NOTHING)
        else:
            words.append(f"{difference} times" if costs else published_points(difference))
    return words


# --- JSON ------------------------------------------------------------------------------------------------------------


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0


def to_json(result: Result, names: dict[str, str]) -> dict:
    claim = result.claim
    return {
        "id": claim["id"],
        "paper": claim["paper"],
        "paper_name": names[claim["paper"]],
        "where": claim["where"],
        "says": claim["says"],
        "note": claim.get("note"),
        "kind": claims.kind_of(claim),
        "runs": claims.runs_of(claim),
        "published": claims.differences(claim["published"]),
        "published_words": published_words(claim),
        **verdict_json(result),
        "p_value": rounded(result.p_value),
        "files": result.files,
        "control": None
        if result.control is None
        else {"run": claim["control"]["run"], **verdict_json(result.control), "files": result.control.files},
    }


def verdict_json(result: Result) -> dict:
    return {
        "verdict": result.verdict,
        "mark": MARKS[result.verdict],
        "reason": result.reason,
        "links": [link_json(one) for one in result.measured],
    }


def link_json(one: Measured) -> dict:
    found = one.found
    return {
        "words": link_words(one.link),
        "measured_words": measured_words(one),
        "unit": "logarithm of times" if one.link.of_costs else "points",
        "estimate": rounded(found.mean),
        "interval": None if one.interval is None else [rounded(end) for end in one.interval],
        "level": rounded(found.level),
        "margin": rounded(one.margin),
        "within": one.link.within,
        "published": one.published,
        "share": rounded(one.share),
        "languages": one.languages,
        "seeds": one.seeds,
        "by_seed": [rounded(value) for value in found.by_seed],
        "trainings": len(found.by_training),
        "by_training": [rounded(value) for value in found.by_training],
        "items_counted": found.with_items,
        "variance": {"between_trainings": rounded(found.of_trainings), "of_items": rounded(found.of_items)},
        "verdict": one.decided,
        "notes": one.notes,
    }


def corrected(found: list[dict]) -> list[dict]:
    """With each claim its verdict after Benjamini and Hochberg over the claims of the scale: what is no longer decided
    at the same level is undecided. Counts are no tests and keep theirs."""
    tested = [claim for claim in found if claim["p_value"] is not None]
    of_all = dict(zip((claim["id"] for claim in tested), adjusted([claim["p_value"] for claim in tested]), strict=True))
    for claim in found:
        p = of_all.get(claim["id"])
        open_again = p is not None and p > 1 - LEVEL and claim["verdict"] in DECIDED
        claim["p_adjusted"] = rounded(p)
        claim["verdict_corrected"] = UNDECIDED if open_again else claim["verdict"]
    return found


def counts_of(verdicts: Iterable[str]) -> dict[str, int]:
    verdicts = list(verdicts)
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def scale_words(config: Config) -> str:
    world = "the generated mini-world" if config.has_world else "real data"
    if config.scale_name == "smoke":
        return "Scale smoke: this scale tests the code, its verdicts mean nothing."
    return f"Scale {config.scale_name}, {world}: a verdict is of this scale, and not of the paper's."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_context_arguments(parser)
    parser.add_argument("--trainings-root", required=True, type=Path, help="results/<scale>/trainings")
    parser.add_argument("--out", required=True, type=Path, help="all numbers: results/<scale>/claims.json")
    args = parser.parse_args()
    path = args.config.resolve()
    root = path.parent.parent
    config = load_config(root, {**parse_overrides(args.override), "scale": args.scale}, path.relative_to(root))
    names, evidence = paper_names(root), Evidence(config, args.scores_root, args.trainings_root)
    results = [evaluate(config, evidence, claim) for claim in config.claims]
    found = corrected([to_json(result, names) for result in results])
    about = {
        "scale": config.scale_name,
        "words": scale_words(config),
        "counts": counts_of(claim["verdict"] for claim in found),
        "counts_corrected": counts_of(claim["verdict_corrected"] for claim in found),
    }
    write_json(args.out, about | {"claims": found})
    for result in results:
        print(f"{result.claim['id']}: {result.verdict}{f', {result.reason}' if result.reason else ''}")
    mean = statistics.fmean(len(result.files) for result in results) if results else 0
    print(f"{len(results)} claims; {mean:.1f} files behind each")


if __name__ == "__main__":
    run_main(main)
