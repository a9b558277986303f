"""A paired bootstrap over seeds and test items: how sure is the difference of two systems?

What is looked at is linear: a weighted sum of scores, some of the one system and, with negative weights, some of the
other. Each score is there once a seed; where the test items behind it are known, so is what each of them adds.

Paired: a draw takes the same seeds and the same items for both systems, so that what makes an item hard, or the
weights that both started from good, cancels. Crossed: all seeds answer the same items.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

DRAWS = 4000
FEWEST_SEEDS = 3  # below, a deviation over seeds says nothing
MOST_SEEDS = 100  # nobody trains more
CHUNK = 2_000_000  # weights of items in memory at once


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
    """A difference with its interval and the parts of its variance."""

    mean: float
    by_seed: tuple[float, ...]
    interval: tuple[float, float] | None  # None from fewer than three seeds
    level: float
    of_seeds: float | None  # variance between seeds, of one seed
    of_items: float | None  # variance of the mean that more seeds do not lower; None where no items are known
    with_items: bool  # did the items count, or the seeds alone?

    def half_width(self, seeds: int) -> float:
        """Of the interval that so many seeds would give, if the parts stay as they are."""
        return quantile_of_t(self.level, seeds - 1) * math.sqrt(self.of_seeds / seeds + (self.of_items or 0.0))


def estimate(terms: Sequence[Term], name: str, level: float = 0.95, draws: int = DRAWS) -> Estimate:
    """The mean over seeds of the weighted sum, with a percentile interval. The same name draws the same numbers."""
    by_seed = sum(term.weight * term.values for term in terms)
    mean, seeds = float(by_seed.mean()), len(by_seed)
    known = all(term.above is not None for term in terms)
    if seeds < FEWEST_SEEDS:
        return Estimate(mean, tuple(map(float, by_seed)), None, level, None, None, known)
    generator = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
    of_items, drawn = None, np.full(draws, mean)
    if known:
        shifts = item_shifts(terms, generator, draws)
        own, of_items = shared_part(shifts)
        drawn = drawn + own
    drawn = drawn + seed_shifts(by_seed, generator, draws, level)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    variance = float(by_seed.var(ddof=1))
    return Estimate(mean, tuple(map(float, by_seed)), (float(low), float(high)), level, variance, of_items, known)


def seed_shifts(by_seed: np.ndarray, generator: np.random.Generator, draws: int, level: float) -> np.ndarray:
    """Of each draw the shift of the mean by drawing seeds with replacement, widened for their small number.

    A plain bootstrap of n values has a standard error too small by sqrt((n - 1) / n), and its percentiles are those of
    a normal distribution whose deviation is known, not of Student's t with n - 1 degrees of freedom: of three seeds
    its 95 % interval covers the truth three times out of four. So deviations are stretched by both ratios, with which
    the interval over seeds alone is about as wide as Student's; tests/test_claims.py counts how often it covers.
    """
    seeds = len(by_seed)
    stretch = math.sqrt(seeds / (seeds - 1)) * quantile_of_t(level, seeds - 1)
    stretch /= NormalDist().inv_cdf((1 + level) / 2)
    shares = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds
    return stretch * (shares @ (by_seed - by_seed.mean()))


def item_shifts(terms: Sequence[Term], generator: np.random.Generator, draws: int) -> np.ndarray:
    """[draws, seeds]: how the sum shifts when items are drawn with replacement, the same for both systems, all seeds.

    Scores of equally many items share their draws: in parallel test sets (XNLI in fifteen languages) item i is one
    sentence, hard in all of them. Where they are not parallel that does no harm.
    """
    shifts = np.zeros((draws, len(terms[0].values)))
    for length in sorted({group_of(term) for term in terms}):
        group = [term for term in terms if group_of(term) == length]
        step = max(1, CHUNK // length)
        for start in range(0, draws, step):
            count = min(step, draws - start)
            times = generator.multinomial(length, np.full(length, 1 / length), size=count).astype(np.float64)
            for term in group:
                above, below = times @ term.above.T, times @ term.below.T
                drawn = 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)
                value = 100 - drawn if term.inverted else drawn
                shifts[start : start + count] += term.weight * (value - term.values)
    return shifts


def group_of(term: Term) -> int:
    return term.above.shape[1]


def shared_part(shifts: np.ndarray) -> tuple[np.ndarray, float]:
    """Of the shifts by items the part that all seeds share, by draw, and its variance.

    A seed's own answers to the items make its score vary too, and are in the deviation over seeds already; they are
    taken out here so that they count once.
    """
    mean = shifts.mean(axis=1)
    whole = float(mean.var())
    own = float(((shifts - mean[:, None]) ** 2).sum(axis=1).mean()) / (shifts.shape[1] - 1) / shifts.shape[1]
    shared = max(whole - own, 0.0)
    return mean * math.sqrt(shared / whole) if whole > 0 else mean, shared


def seeds_to_decide(found: Estimate, margin: float) -> int | None:
    """How many seeds would put the whole interval on one side of the margin if mean and variances stay; more than
    MOST_SEEDS where it is more; None where no number would, because the items alone leave it open."""
    lead = abs(found.mean - margin)
    if NormalDist().inv_cdf((1 + found.level) / 2) * math.sqrt(found.of_items or 0.0) >= lead:
        return None
    more = range(len(found.by_seed) + 1, MOST_SEEDS + 1)
    return next((seeds for seeds in more if found.half_width(seeds) < lead), MOST_SEEDS + 1)


def quantile_of_t(level: float, degrees: int) -> float:
    """Student's t: between minus this and this lies `level` of the distribution."""
    low, high = 0.0, 1.0
    while central_share(high, degrees) < level:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
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
