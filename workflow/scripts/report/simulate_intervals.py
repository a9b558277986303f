"""How often is an interval from few pre-trainings wrong? Candidates, tried on differences that are drawn here.

A design says how many fine-tunings each pre-training has. A difference between two methods is the sum of what its
pre-training and its fine-tuning drew; the truth is zero. `wrong` is how often an interval leaves it out: one minus its
coverage, and the share of false verdicts where two methods do not differ. NumPy alone; equal seeds, equal numbers.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from report.intervals import quantile_of_t

Design = Sequence[int]  # fine-tunings of each pre-training
RESAMPLES = 300


# --- what is drawn ---------------------------------------------------------------------------------------------------


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return generator.normal(size=shape)


def heavy_tailed(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Student's t with three degrees of freedom, of deviation one: one draw in seventy lies beyond three deviations."""
    return generator.standard_t(3, shape) / math.sqrt(3)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The difference of two systems, each of which fails far below now and then: lognormal, of deviation one."""
    one, other = (np.exp(generator.normal(size=shape)) for _ in range(2))
    return (one - other) / math.sqrt(2 * (math.e - 1) * math.e)


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": normal,
    "heavy-tailed": heavy_tailed,
    "skewed": skewed,
}


def differences(
    generator: np.random.Generator, noise: str, design: Design, of_training: float, of_tuning: float, trials: int
) -> list[np.ndarray]:
    """Of each pre-training [trials, its fine-tunings]."""
    draw = NOISES[noise]
    return [
        of_training * draw(generator, (trials, 1)) + of_tuning * draw(generator, (trials, tunings))
        for tunings in design
    ]


# --- candidates: differences -> (low, high), each [trials], or None where they give no verdict ---------------------

Interval = tuple[np.ndarray, np.ndarray] | None


def student(values: np.ndarray) -> Interval:
    """[trials, n] -> Student's t over n values."""
    n = values.shape[1]
    half = quantile_of_t(0.95, n - 1) * values.std(axis=1, ddof=1) / math.sqrt(n)
    return values.mean(axis=1) - half, values.mean(axis=1) + half


def t_of_trainings(drawn: list[np.ndarray], generator: np.random.Generator) -> Interval:
    """That of intervals.py: the mean over the fine-tunings of each pre-training, then Student's t."""
    return student(np.stack([own.mean(axis=1) for own in drawn], axis=1)) if len(drawn) >= 3 else None


def t_of_seeds(drawn: list[np.ndarray], generator: np.random.Generator) -> Interval:
    """Student's t over all seeds, as if fine-tunings of one pre-training were independent."""
    return student(np.concatenate(drawn, axis=1))


def percentiles_of_seeds(drawn: list[np.ndarray], generator: np.random.Generator) -> Interval:
    """Seeds drawn with replacement, deviations stretched to the width of Student's t."""
    values = np.concatenate(drawn, axis=1)
    seeds = values.shape[1]
    stretch = math.sqrt(seeds / (seeds - 1)) * quantile_of_t(0.95, seeds - 1) / NormalDist().inv_cdf(0.975)
    mean = values.mean(axis=1, keepdims=True)
    shares = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    return quantiles(mean + stretch * ((values - mean) @ shares.T))


def percentiles_of_both(drawn: list[np.ndarray], generator: np.random.Generator) -> Interval:
    """Pre-trainings drawn with replacement, then fine-tunings of each: hierarchical percentiles."""
    tunings = [own.shape[1] for own in drawn]
    begins = np.cumsum([0, *tunings])
    shares = np.zeros((RESAMPLES, begins[-1]))  # of each fine-tuning in the mean of a resample
    for chosen in generator.integers(len(drawn), size=(len(drawn), RESAMPLES)):
        for i, begin in enumerate(begins[:-1]):
            [resamples] = np.nonzero(chosen == i)
            own = begin + generator.integers(tunings[i], size=(len(resamples), tunings[i]))
            np.add.at(shares, (resamples[:, None], own), 1 / (tunings[i] * len(drawn)))
    return quantiles(np.concatenate(drawn, axis=1) @ shares.T)


def corrected_percentiles(drawn: list[np.ndarray], generator: np.random.Generator) -> Interval:
    """BCa (Efron 1987) over the means of pre-trainings."""
    values = np.stack([own.mean(axis=1) for own in drawn], axis=1)
    n = values.shape[1]
    if n < 3:
        return None
    shares = generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    drawn_means, mean = np.sort(values @ shares.T, axis=1), values.mean(axis=1)
    below = ((drawn_means < mean[:, None]).mean(axis=1) + (drawn_means <= mean[:, None]).mean(axis=1)) / 2
    left_out = (n * mean[:, None] - values) / (n - 1)
    apart = left_out.mean(axis=1, keepdims=True) - left_out
    acceleration = (apart**3).sum(axis=1) / (6 * np.maximum((apart**2).sum(axis=1) ** 1.5, 1e-300))
    ends = []
    for z in (NormalDist().inv_cdf(0.025), NormalDist().inv_cdf(0.975)):
        bias = np.array([NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6)) for share in below])
        moved = bias + (bias + z) / (1 - acceleration * (bias + z))
        place = np.array([NormalDist().cdf(value) for value in moved]) * (RESAMPLES - 1)
        ends.append(np.take_along_axis(drawn_means, np.rint(place).astype(int)[:, None], axis=1)[:, 0])
    return ends[0], ends[1]


def quantiles(means: np.ndarray) -> Interval:
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return low, high


CANDIDATES: dict[str, Callable[[list[np.ndarray], np.random.Generator], Interval]] = {
    "Student's t of pre-trainings (chosen)": t_of_trainings,
    "Student's t of all seeds": t_of_seeds,
    "stretched percentiles of all seeds": percentiles_of_seeds,
    "hierarchical percentiles": percentiles_of_both,
    "BCa of pre-trainings": corrected_percentiles,
}

RESAMPLED = ("stretched percentiles of all seeds", "hierarchical percentiles", "BCa of pre-trainings")  # slow ones


def wrong(
    candidate: str, noise: str, design: Design, of_training: float, of_tuning: float, trials: int, seed: int = 0
) -> float | None:
    """The share of trials whose interval leaves the truth out; None where there is no verdict from so few."""
    generator = np.random.default_rng(seed)
    drawn = differences(generator, noise, design, of_training, of_tuning, trials)
    found = CANDIDATES[candidate](drawn, generator)
    if found is None:
        return None
    low, high = found
    return float(((low > 0) | (high < 0)).mean())
