"""How sure is the difference of two systems? An interval from few pre-trainings, their fine-tunings, and test items.

What is looked at is linear: a weighted sum of scores, some of the one system and, with negative weights, some of the
other. Each score is there once a seed; where the test items behind it are known, so is what each of them adds.

Three draws lie inside each other: the pre-training, the fine-tuning of it, the items. Fine-tunings of one pre-training
are no independent witnesses of a method, so they are averaged first, and the differences that remain, one for each
pre-training, are what Student's t is taken of; their deviation counts for no less than what their own answers to the
items give by themselves. From fewer than three there is no interval. Paired: both systems have the same seeds and
items, so that what makes an item hard, or the weights that both started from good, cancels.
simulate_intervals.py compares this interval with others and counts how often each of them is wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

FEWEST_TRAININGS = 3  # below, a deviation between pre-trainings says nothing
MOST_TRAININGS = 100  # nobody trains more


@dataclass(frozen=True)
class Term:
    """One score with its weight in the sum: a value a seed, and the items that make it up where they are known."""

    weight: float
    values: np.ndarray  # [seeds]
    above: np.ndarray | None = None  # [seeds, items]: the value is 100 x sum(above) / sum(below), or 100 minus that
    below: np.ndarray | None = None
    inverted: bool = False  # 100 minus that


@dataclass(frozen=True)
class Estimate:
    """A difference with the parts of its variance."""

    by_seed: tuple[float, ...]
    by_training: tuple[float, ...]  # the mean over the fine-tunings of each pre-training
    level: float
    of_trainings: float | None  # variance between these, of one; None from fewer than three
    of_items: float | None  # variance of the mean that more seeds do not lower; None where no items are known
    of_answers: float | None  # of one pre-training, that of its own answers to the items: a part of `of_trainings`
    with_items: bool  # did the items count, or the seeds alone?

    @property
    def mean(self) -> float:
        return math.fsum(self.by_training) / len(self.by_training)

    @property
    def interval(self) -> tuple[float, float] | None:
        return self.interval_at(self.level)

    def interval_at(self, level: float) -> tuple[float, float] | None:
        if self.of_trainings is None:
            return None
        half = self.half_width(len(self.by_training), level)
        return self.mean - half, self.mean + half

    def half_width(self, trainings: int, level: float | None = None) -> float:
        """Of the interval from so many pre-trainings, if the parts stay as they are: each part with a quantile of its
        own, Student's for the few pre-trainings and the normal one for the many items, added as squares.
        A few pre-trainings may lie closer together than their answers to the items let them: luck, which counts for
        nothing."""
        level = self.level if level is None else level
        normal = NormalDist().inv_cdf((1 + level) / 2) ** 2
        drawn = quantile_of_t(level, trainings - 1) ** 2 * self.of_trainings / trainings
        answered = normal * (self.of_answers or 0.0) / trainings
        return math.sqrt(max(drawn, answered) + normal * (self.of_items or 0.0))

    def p_value(self, margin: float) -> float | None:
        """One minus the level at which the interval just reaches the margin; two-sided."""
        if self.of_trainings is None:
            return None
        lead, trainings = abs(self.mean - margin), len(self.by_training)
        if not self.of_items and not self.of_answers:
            error = math.sqrt(self.of_trainings / trainings)
            return 1 - central_share(lead / error, trainings - 1) if error else float(lead == 0)
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.half_width(trainings, middle) < lead else (low, middle)
        return 1 - low


def estimate(terms: Sequence[Term], level: float = 0.95, groups: Sequence[Sequence[int]] | None = None) -> Estimate:
    """The weighted sum with its interval. `groups` are the places of the seeds that share a pre-training; without any,
    each seed has its own."""
    by_seed = sum(term.weight * term.values for term in terms)
    groups = groups or [[place] for place in range(len(by_seed))]
    by_training = np.array([by_seed[list(group)].mean() for group in groups])
    known = all(term.above is not None for term in terms)
    enough = len(groups) >= FEWEST_TRAININGS
    of_items, of_answers = item_variances(terms, groups) if enough and known else (None, None)
    return Estimate(
        tuple(map(float, by_seed)),
        tuple(map(float, by_training)),
        level,
        float(by_training.var(ddof=1)) if enough else None,
        of_items,
        of_answers,
        known,
    )


def item_variances(terms: Sequence[Term], groups: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Of the mean, the variance that drawing other items gives to all pre-trainings alike: what drawing items with
    replacement would give, to the first order. The own answers of a pre-training to the items make its number vary
    too, and are in the deviation between pre-trainings already; they are taken out here so that they count once. Theirs
    is the second number, of one pre-training.

    Scores of equally many items share their draws: in parallel test sets (XNLI in fifteen languages) item i is one
    sentence, hard in all of them. Where they are not parallel that does no harm.
    """
    whole = own = 0.0
    for length in sorted({term.above.shape[1] for term in terms}):
        adds = sum(influence(term) for term in terms if term.above.shape[1] == length)  # [seeds, items]
        adds = np.array([adds[list(group)].mean(axis=0) for group in groups])  # [pre-trainings, items]
        mean, correction = adds.mean(axis=0), length / max(length - 1, 1)
        whole += correction * float((mean**2).sum())
        own += correction * float(((adds - mean) ** 2).sum()) / (len(groups) - 1) / len(groups)
    return max(whole - own, 0.0), own * len(groups)


def influence(term: Term) -> np.ndarray:
    """[seeds, items]: how far the weighted value moves with the share of an item in the draw."""
    whole = term.below.sum(axis=1, keepdims=True)
    ratio = np.divide(term.above.sum(axis=1, keepdims=True), whole, out=np.zeros_like(whole), where=whole > 0)
    moved = np.divide(term.above - ratio * term.below, whole, out=np.zeros_like(term.above), where=whole > 0)
    return (-100 if term.inverted else 100) * term.weight * moved


def trainings_to_decide(found: Estimate, margin: float) -> int | None:
    """How many pre-trainings would put the whole interval on one side of the margin if mean and variances stay; more
    than MOST_TRAININGS where it is more; None where no number would, because the items alone leave it open."""
    lead = abs(found.mean - margin)
    if NormalDist().inv_cdf((1 + found.level) / 2) * math.sqrt(found.of_items or 0.0) >= lead:
        return None
    more = range(len(found.by_training) + 1, MOST_TRAININGS + 1)
    return next((number for number in more if found.half_width(number) < lead), MOST_TRAININGS + 1)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg (1995): of the tests whose adjusted value is at most q, a share of at most q is expected
    to be false."""
    order = sorted(range(len(p_values)), key=lambda i: -p_values[i])
    least, found = 1.0, [1.0] * len(p_values)
    for above, i in enumerate(order):
        least = min(least, p_values[i] * len(p_values) / (len(p_values) - above))
        found[i] = least
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm (1979): that any of the tests whose adjusted value is at most q is false has a probability of at most q."""
    order, worst, found = sorted(range(len(p_values)), key=p_values.__getitem__), 0.0, [1.0] * len(p_values)
    for below, i in enumerate(order):
        worst = max(worst, p_values[i] * (len(p_values) - below))
        found[i] = min(1.0, worst)
    return found


@cache
def quantile_of_t(level: float, degrees: int) -> float:
    """Student's t: between minus this and this lies `level` of the distribution."""
    low, high = 0.0, 1.0
    while central_share(high, degrees) < level:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if central_share(middle, degrees) < level else (low, middle)
    return high


def central_share(t: float, degrees: int) -> float:
    """The share of Student's t between -t and t: the finite series for whole degrees of freedom (Abramowitz and Stegun
    26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, squared = math.sin(angle), math.cos(angle) ** 2
    if degrees % 2:
        term, total = math.cos(angle), 0.0
        for step in range(1, (degrees - 1) // 2 + 1):
            total += term
            term *= squared * 2 * step / (2 * step + 1)
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for step in range(1, degrees // 2 + 1):
        total += term
        term *= squared * (2 * step - 1) / (2 * step)
    return sine * total
