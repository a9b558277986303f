"""Two runs side by side: what differs in their configuration, their scores with intervals, what they cost.

    make compare A=xlm B=xlm-r LANGUAGES=de,fr
    python workflow/scripts/compare.py xlm xlm-r --config scale=mini scores_from=reference

Scores are those that are there, of this scale and of today's configuration; each is the mean over its languages other
than English, or over those of --languages that its task has. B minus A is over the pre-trainings that both have,
paired, with the 95 % interval of Student's t where there are three or more: of pre-trainings alone, for these test
items. Where runs are trained in several folders, --scores reads those of the second run in another one, whatever the
configuration there was.
"""

import argparse
import json
import math
import statistics
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from billing.jobs import settings_of
from common.columns import lined_up
from common.errors import UserError, run_main
from common.yamlfiles import check_known
from plan.config import Config
from plan.evidence import evidence, is_current, stale, trainings_of
from plan.kept import kept_config
from plan.needs import canonical_run
from plan.runs import hash_of, resolve_run
from plan.seeds import by_training
from report.intervals import FEWEST_TRAININGS, quantile_of_t
from report.scores import ENGLISH, LESS_IS_BETTER, group_paths, load_results, read_content
from report.trainings import Training, read_training

Key = tuple[str, str, str]  # task, setting, metric
CURVE = "-by-"  # in the name of a metric of one layer or one update
OWN = ("name", "paper")  # keys that differ in every run


def flat(value: Any, key: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {k: v for name, inner in value.items() for k, v in flat(inner, f"{key}.{name}" if key else name).items()}
    return {key: value}


def differences(a: dict, b: dict) -> list[tuple[str, str, str]]:
    """(key, of A, of B) of what a run is at this scale; objectives are compared by name."""

    def described(run: dict) -> dict[str, Any]:
        objectives = {one["name"]: {k: v for k, v in one.items() if k != "name"} for one in run.get("objectives", [])}
        return flat({**{k: v for k, v in run.items() if k not in OWN}, "objectives": objectives})

    first, second = described(a), described(b)
    found = []
    for key in sorted(first.keys() | second.keys()):
        if first.get(key, "-") != second.get(key, "-"):
            both = (first.get(key, "-"), second.get(key, "-"))
            shown = [value if isinstance(value, str) else json.dumps(value) for value in both]
            found.append((key, *(text if len(text) <= 40 else f"{text[:37]}..." for text in shown)))
    return found


def outdated(config: Config, path: Path) -> bool:
    """Is this score of another run, recipe or task than the configuration has today?"""
    if config.from_reference:
        return not is_current(config, path.absolute())
    return stale(config, read_content(path, config.scale_name), Path("results", config.scale_name)) is not None


def scores_of(
    config: Config, folder: Path, of_today: bool = True, only: Collection[str] = ()
) -> dict[Key, dict[int, float]]:
    """Of every task, setting and metric, by pre-training, the mean over the languages other than English, or over those
    of `only` that it has, and over the fine-tunings of that pre-training."""
    found: dict[Key, dict[int, float]] = {}
    paths = sorted(folder.glob("*/*/seed-*.json"))
    if config.from_reference:  # it may hold a part of a study that is not finished
        paths = [path for path in paths if int(path.stem.removeprefix("seed-")) in config.seeds]
    if left_out := [path for path in paths if of_today and outdated(config, path)]:
        print(f"Left out: {len(left_out)} scores of another configuration than today's, {left_out[0]} the first.\n")
    files = group_paths(path for path in paths if path not in left_out)
    for (run, task, setting), of_seed in sorted(files.items()):
        results = load_results(of_seed, config.scale_name)
        metrics = {score.metric for scores in results.by_seed.values() for score in scores}
        for metric in sorted(metric for metric in metrics if CURVE not in metric):
            languages = results.languages(metric)
            chosen = [language for language in languages if language != ENGLISH] or languages
            if only:
                chosen = [language for language in languages if language in only]
            if chosen:
                found[task, setting, metric] = by_training(config, run, results.average_values(chosen, metric))
    return found


def difference(a: dict[int, float], b: dict[int, float]) -> tuple[float, float | None, int]:
    """Mean of B minus A over the pre-trainings that both have, half the width of its interval, and how many."""
    seeds = sorted(a.keys() & b.keys())
    each = [b[seed] - a[seed] for seed in seeds]
    if not each:
        return math.nan, None, 0
    if len(each) < FEWEST_TRAININGS:
        return statistics.fmean(each), None, len(each)
    half = quantile_of_t(0.95, len(each) - 1) * statistics.stdev(each) / math.sqrt(len(each))
    return statistics.fmean(each), half, len(each)


def score_rows(a: dict[Key, dict[int, float]], b: dict[Key, dict[int, float]]) -> list[list[str]]:
    def mean(values: dict[int, float]) -> str:
        return f"{statistics.fmean(values.values()):.1f} ({len(values)})" if values else "--"

    rows = []
    for key in sorted(a.keys() | b.keys()):
        of_a, of_b = a.get(key, {}), b.get(key, {})
        value, half, seeds = difference(of_a, of_b)
        shown = "" if not seeds else f"{value:+.1f}" + (f" ± {half:.1f}" if half is not None else "")
        shown += f" ({seeds})" if seeds and {len(of_a), len(of_b)} != {seeds} else ""
        rows.append([" ".join(key) + " ↓" * (key[2] in LESS_IS_BETTER), mean(of_a), mean(of_b), shown])
    return rows


def trained(config: Config, name: str) -> list[Training]:
    """The pre-trainings of a run that are there, as the configuration has it today."""
    paths = [Path(path) for path in trainings_of(config, name).values() if Path(path).exists()]
    found = [read_training(path, config.scale_name) for path in paths]
    return [one for one in found if hash_of(config, one.run)[:16] == one.run_hash]


def cost_rows(trainings: Iterable[list[Training]]) -> list[list[str]]:
    """Means over seeds of what the pre-trainings took, the run's own alone."""
    costs = [[one.cost for one in own] for own in trainings]
    rows = []
    for key, words in (("steps", "steps"), ("tokens", "tokens"), ("flops", "FLOPs"), ("seconds", "seconds")):
        rows.append([words, *(f"{statistics.fmean(one[key] for one in own):.3g}" if own else "--" for own in costs)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="a run of config/runs")
    parser.add_argument("b", help="another")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument("--scores", type=Path, help="the scores of B, in place of those of this folder")
    parser.add_argument("--languages", default="", help="averages over these alone, joined by commas")
    arguments = parser.parse_args()
    config: Config = kept_config(".", settings_of(arguments.config))
    only = [code for code in arguments.languages.split(",") if code]
    for code in only:
        check_known(code, config.languages, "--languages", "language")
    names = [arguments.a, arguments.b]
    for name in names:
        check_known(name, config.runs, "make compare", "run")
    root = Path(evidence(config, "scores"))
    roots = (root, arguments.scores or root)
    folders = [folder / canonical_run(config, name) for folder, name in zip(roots, names, strict=True)]
    if arguments.scores and not folders[1].is_dir():
        raise UserError(f"--scores {arguments.scores}: has no folder {folders[1].name}; give that of the runs' folders")
    scores = [
        scores_of(config, folders[0], only=only),
        scores_of(config, folders[1], of_today=not arguments.scores, only=only),
    ]
    if not any(scores):
        shown = " and ".join(map(str, dict.fromkeys(folders)))
        where = f" of {arguments.languages}" if only else ""
        raise UserError(f"{shown}: no scores yet{where}; those of reference/: CONFIG=scores_from=reference")
    of_scale = f"scale={config.scale_name} runs=[{','.join(names)}]"
    differing = differences(*(resolve_run(config, name) for name in names))
    print(f"Scale {config.scale_name}. What differs of the runs:\n")
    print(lined_up([["key", *names], *map(list, differing)]) if differing else "nothing: they are one run here")
    averaged = f"{', '.join(only)} where a task has them" if only else "languages other than English"
    print(f"\nScores, mean over {averaged} (pre-trainings); the difference over those that both have,")
    print("from three on ± half of its 95 % interval; ↓: less is better:\n")
    print(lined_up([["task, setting, metric", *names, f"{names[1]} - {names[0]}"], *score_rows(*scores)]))
    trainings = [trained(config, name) for name in names]
    print("\nCost of pre-training, without that of runs it starts from:\n")
    print(lined_up([["", *names], *cost_rows(trainings)]))
    for name, own in zip(names, trainings, strict=True):
        wanted = trainings_of(config, name).values()
        if name in config.pretrained and not own and not config.from_reference:
            print(f"\n{name}: for its cost, snakemake --cores 1 --config {of_scale} -- {' '.join(map(str, wanted))}")
    print(
        f"\nCurves: make train RUN={names[0]} SCALE={config.scale_name}, and "
        f"results/{config.scale_name}/runs/<run>/training.png"
    )


if __name__ == "__main__":
    run_main(main)
