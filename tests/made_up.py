"""Made-up score files and a made-up configuration, for the tests of tables, figures and the document."""

import dataclasses
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from common.identity import run_hash
from plan.config import Config
from plan.evidence import score_hash
from report.context import Context, context_of

LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "ru", "zh")
TASKS = {
    "xnli": frozenset({"cross-lingual-transfer", "translate-train-all"}),
    "ud-pos": frozenset({"cross-lingual-transfer"}),
    "tatoeba": frozenset({"zero-shot-retrieval"}),
}
SELECTION = {"cross-lingual-transfer": "en_dev", "translate-train-all": "mean_dev"}
RUNS = ("random-init", "xlm", "xlm-r", "xlm-r-small", "xlm-small")
SAME = {"xlm-r-small": "xlm-r", "xlm-small": "xlm"}  # one and the same run at this scale
SEEDS = (1, 2, 3)


def write_score(
    root: Path,
    run: str,
    task: str,
    setting: str,
    seed: int,
    scores: list[dict],
    scale="mini",
    rule: str | None = None,
    config: Config | None = None,
) -> Path:
    """As a job of the configuration would have written it; without one, as of make_config's."""
    found = score_hash(config, run, task, setting) if config else run_hash(weights_of(run))[:16]
    path = root / run / task / setting / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"run": run, "task": task, "setting": setting, "seed": seed, "pretrain_seed": seed, "scale": scale}
    about |= {
        "task_version": 1,
        "run_hash": found,
        "selection": {"rule": rule} if rule else None,
    }
    path.write_text(json.dumps({**about, "scores": scores}))
    return path


def weights_of(run: str) -> dict[str, str]:
    """What stands for a resolved run in make_config's configuration."""
    return {"weights": run}


def entry(language: str, value: float, metric="accuracy", chance=100 / 3, layer=None, direction=None) -> dict:
    about = {"language": language, "metric": metric, "layer": layer, "direction": direction}
    return {**about, "value": value, "n": 300, "chance": chance}


def write_all(root: Path, scale: str = "mini", layers: int = 3, config: Config | None = None) -> None:
    """Scores of three runs on every task, with seeded noise."""
    for run, gain in (("random-init", 0), ("xlm-r", 8), ("xlm", 14)):
        for task, settings in TASKS.items():
            for setting in settings:
                for seed in SEEDS:
                    noise = random.Random(f"{run} {task} {setting} {seed}")
                    scores = []
                    for code in LANGUAGES:
                        if task == "tatoeba":
                            if code != "en":
                                scores += retrieval(code, gain, layers, noise)
                        else:
                            for metric in ("accuracy",) if task == "xnli" else ("f1", "accuracy"):
                                scores.append(entry(code, 35 + 2 * gain + noise.uniform(-1, 1), metric))
                    write_score(root, run, task, setting, seed, scores, scale, SELECTION.get(setting), config)


def retrieval(code: str, gain: float, layers: int, noise: random.Random) -> list[dict]:
    scores = []
    for layer in range(layers + 1):
        for direction in ("en-xx", "xx-en"):
            value = 0.25 + gain * layer / layers + noise.uniform(0, 1)
            scores.append(entry(code, value, "accuracy-by-layer", 0.25, layer, direction))
    return [*scores, entry(code, scores[-1]["value"], "accuracy", 0.25, layers, "both")]


def make_config(
    repository: Path,
    scale: str = "mini",
    world: bool = True,
    runs: Iterable[str] = RUNS,
    tasks: Mapping[str, Iterable[str]] = TASKS,
    seeds: Iterable[int] = SEEDS,
    same: Mapping[str, str] = SAME,
    each: Iterable[str] = (),
) -> Config:
    """A configuration of these runs and tasks, whose settings train one model, or (`each`) one of each language.
    `same`: which run is which."""
    about = {"seeds": list(seeds), "pretrain_seeds": len(SEEDS), "description": "made-up_scores & 100 % noise"}
    about |= {"world": {}} if world else {}
    about |= {"warning": "numbers of a test"} if scale == "smoke" else {}
    written = {run: {"kind": "pretrain", "model": {}} for run in runs}
    defined = {
        task: {
            "kind": "classification",
            "languages": LANGUAGES,
            "datasets": {},
            "settings": {setting: {"train": "each" if setting in each else "all"} for setting in settings},
        }
        for task, settings in tasks.items()
    }
    config = Config(repository, {"scale": scale}, about, written, defined, {}, {}, {}, {})
    config._resolved.update({run: weights_of(same.get(run, run)) for run in written})
    return config


def make_context(repository: Path, scores: Path, *given: object, **more: object) -> Context:
    """Of a made-up configuration, whose trainings lie beside its scores; `given` and `more` are of make_config."""
    context = context_of(make_config(repository, *given, **more), scores)
    return dataclasses.replace(context, trainings_root=scores.parent / "trainings")
