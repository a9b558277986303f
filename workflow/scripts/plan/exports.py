"""What an exported model is made of: its weights, what it comes from, and what its card rests on.

A model is an encoder of a seed of pre-training, or the `made` one of a (task, setting) and its own seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from common.identity import digest
from plan.checkpoints import checkpoint_ids
from plan.config import Config
from plan.data import data_of_runs
from plan.datasets import bitext_ids, mono_ids
from plan.recipes import TRAIN_PARTS, is_job, recipe_datasets, recipe_of, resolve_recipe, trained_as
from plan.runs import lineage, trained_run
from plan.seeds import pretrain_seed
from plan.words import described

Made = tuple[str, str] | None  # (task, setting) that it was trained for after pre-training


def sources_of(config: Config, run: str, made: Made) -> list[str]:
    """The runs that it started from; for a translation model the run itself too."""
    line = lineage(config, run)
    translates = made is not None and config.tasks[made[0]]["kind"] == "translation"
    return list(dict.fromkeys(trained_run(config, name) for name in (line if translates else line[1:])))


def scores_there(config: Config, run: str, made: Made, seed: int) -> list[str]:
    """The scores of an exported model that are there already, whatever is asked for besides."""
    found = []
    for path in sorted((config.root / f"results/{config.scale_name}/scores/{run}").glob("*/*/seed-*.json")):
        task, job, score_seed = path.parts[-3], path.parts[-2], int(path.stem[5:])
        if task not in config.tasks or not is_job(config, task, job):
            continue
        translates = config.tasks[task]["kind"] == "translation"
        if made:
            trained = (task, job) if translates else trained_as(config, task, job)
            is_its = trained == made and score_seed == seed
        else:
            is_its = not translates and pretrain_seed(config, score_seed, run) == seed
        if is_its:
            found.append(str(path))
    return found


def data_behind(config: Config, run: str, made: Made) -> list[str]:
    """Ids of the data that it was trained on, by the runs that it comes from and for its task."""
    line = lineage(config, run)
    mono, bitext = data_of_runs(config, line)
    known = (config.datasets, config.languages)
    ids = [id_ for name, code in mono for id_ in mono_ids(name, code, *known)]
    ids += [id_ for name, pair in bitext for id_ in bitext_ids(name, pair, *known)]
    for name in line:
        hub = config.runs[name].get("source", {}).get("hub")
        ids += checkpoint_ids(config, hub) if hub else []
    if made:
        ids += recipe_datasets(resolve_recipe(config, *made, recipe_of(config, run)), TRAIN_PARTS)
    return ids


def card_digest(config: Config, run: str, made: Made, scores: Iterable[str]) -> str:
    """What a card rests on beside its model: its scores, the scale, and the licences of its data."""
    licences = {id_: config.datasets[id_].licence for id_ in data_behind(config, run, made)}
    texts = [Path(path).read_text() for path in scores]
    return digest([texts, described(config.scale), config.has_world, licences])
