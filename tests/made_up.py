"""Made-up score files and a made-up configuration, for the tests of tables, figures and the document."""

import json
import random
from pathlib import Path

from report.context import Context
from report.tables import column_setting

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
    root: Path, run: str, task: str, setting: str, seed: int, scores: list[dict], scale="mini", rule: str | None = None
) -> Path:
    path = root / run / task / setting / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"run": run, "task": task, "setting": setting, "seed": seed, "pretrain_seed": seed, "scale": scale}
    about |= {"task_version": 1, "run_hash": f"hash of {run}", "selection": {"rule": rule} if rule else None}
    path.write_text(json.dumps({**about, "scores": scores}))
    return path


def entry(language: str, value: float, metric="accuracy", chance=100 / 3, layer=None, direction=None) -> dict:
    about = {"language": language, "metric": metric, "layer": layer, "direction": direction}
    return {**about, "value": value, "n": 300, "chance": chance}


def write_all(root: Path, scale: str = "mini", layers: int = 3) -> None:
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
                    write_score(root, run, task, setting, seed, scores, scale, SELECTION.get(setting))


def retrieval(code: str, gain: float, layers: int, noise: random.Random) -> list[dict]:
    scores = []
    for layer in range(layers + 1):
        for direction in ("en-xx", "xx-en"):
            value = 0.25 + gain * layer / layers + noise.uniform(0, 1)
            scores.append(entry(code, value, "accuracy-by-layer", 0.25, layer, direction))
    return [*scores, entry(code, scores[-1]["value"], "accuracy", 0.25, layers, "both")]


def make_context(repository: Path, scores: Path, scale: str = "mini", world: bool = True) -> Context:
    """As the configuration would say it: the runs and tasks above, three seeds."""

    def expected(spec: dict) -> list[Path]:
        keys = {
            (SAME.get(row["run"], row["run"]), column["task"], column_setting(column, group))
            for group in spec["groups"]
            for row in group["rows"]
            for column in spec["columns"]
            if row.get("run") in RUNS and column_setting(column, group) in TASKS.get(column["task"], ())
        }
        return [scores / run / task / setting / f"seed-{n}.json" for run, task, setting in sorted(keys) for n in SEEDS]

    return Context(
        scale=scale,
        world=world,
        runs=frozenset(RUNS),
        tasks=TASKS,
        canonical=lambda run, task: SAME.get(run, run),
        expected=expected,
        description="made-up_scores & 100 % noise",
        warning="numbers of a test" if scale == "smoke" else None,
        root=repository,
    )
