"""Which pre-training a seed of evaluation stands on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from plan.config import Config


def pretrain_seed(config: Config, seed: int, run: str | None = None) -> int:
    """Which pre-training an evaluation seed stands on: there are fewer pre-trainings than fine-tunings, and of a
    checkpoint there is one."""
    if run is not None and config.runs[run]["kind"] == "checkpoint":
        return 1
    trainings = config.scale["pretrain_seeds"]
    if "fine_tunings" not in config.scale:
        return (seed - 1) % trainings + 1
    block, place = divmod(seed - 1, trainings * config.scale["fine_tunings"])
    return block * trainings + place % trainings + 1


def pretrain_seeds(config: Config) -> list[int]:
    """The pre-trainings that the seeds of evaluation stand on."""
    return sorted({pretrain_seed(config, seed) for seed in config.seeds})


def by_training(config: Config, run: str, by_seed: Mapping[int, float]) -> dict[int, float]:
    """Pre-training -> the mean over its fine-tunings, which are no further evidence of the method."""
    found: dict[int, list[float]] = {}
    for seed, value in by_seed.items():
        found.setdefault(pretrain_seed(config, seed, run), []).append(value)
    return {training: fmean(values) for training, values in found.items()}


def first_seed(config: Config, seed: int, run: str | None = None) -> int:
    """The first evaluation seed that stands on the same pre-training."""
    training, trainings = pretrain_seed(config, seed, run) - 1, config.scale["pretrain_seeds"]
    return training // trainings * trainings * config.scale.get("fine_tunings", 1) + training % trainings + 1


def second_fine_tunings(config: Config, seeds: Iterable[int]) -> set[int]:
    """Those of some evaluation seeds whose pre-training an earlier seed has, where there are several pre-trainings."""
    return {seed for seed in seeds if config.scale["pretrain_seeds"] > 1 and first_seed(config, seed) < seed}
