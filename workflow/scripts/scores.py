"""Score files: read and check one, find the ones that a table expects, mean and deviation over seeds.

A score file is results/{scale}/scores/{run}/{task}/{setting}/seed-{seed}.json. Everything after scoring reads
nothing else, so what is wrong with a number is said here, with the file's name.
"""

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from errors import UserError

SEED_FILE = re.compile(r"seed-(\d+)\.json")
NAMED_BY_PATH = ("run", "task", "setting", "seed")
REQUIRED = (*NAMED_BY_PATH, "scale", "task_version", "run_hash", "scores")
REQUIRED_IN_SCORE = ("language", "metric", "value", "n")

Key = tuple[str, str, str]  # run, task, setting


@dataclass(frozen=True)
class Score:
    """One number of one score file."""

    scale: str
    run: str
    task: str
    setting: str
    language: str
    metric: str
    layer: int | None
    direction: str | None
    value: float
    seed: int
    n: int
    chance: float | None
    task_version: str
    run_hash: str


@dataclass(frozen=True)
class Summary:
    """Mean and sample deviation over seeds; no deviation from a single seed."""

    mean: float
    std: float | None
    n: int


def summarise(values: Iterable[float]) -> Summary:
    values = list(values)
    return Summary(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def pooled_std(first: Summary, second: Summary) -> float | None:
    """The noise of a difference of two rows; None when neither row has two seeds."""
    squares = [(s.n - 1, s.std**2) for s in (first, second) if s.std is not None]
    if not squares:
        return None
    return math.sqrt(sum(weight * square for weight, square in squares) / sum(weight for weight, _ in squares))


def refuse_constant(name: str) -> float:
    raise ValueError(f"holds {name}")


def read_score_file(path: Path, scale: str | None = None) -> list[Score]:
    """All numbers of one score file, checked against its own path; `scale` is checked too where given."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant)
    except FileNotFoundError:
        raise UserError(f"{path}: no such score file; run its score job") from None
    except ValueError as error:
        raise UserError(
            f"{path}: not a usable score file ({error}); a diverged run has no score: mend it and score again"
        ) from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected one JSON object; delete the file and score again")
    missing = [key for key in REQUIRED if key not in content]
    if missing:
        raise UserError(f"{path}: key {missing[0]!r} is missing; delete the file and score again")
    match = SEED_FILE.fullmatch(path.name)
    if not match or len(path.parts) < 4:
        raise UserError(f"{path}: a score file is named <run>/<task>/<setting>/seed-<number>.json; remove this file")
    by_path = (*path.parts[-4:-1], int(match[1]))
    for key, expected in zip(NAMED_BY_PATH, by_path, strict=True):
        if content[key] != expected:
            raise UserError(
                f"{path}, key {key!r}: the file says {content[key]!r} and its path says {expected!r}; "
                "it was moved or copied: delete it and score again"
            )
    if scale is not None and content["scale"] != scale:
        raise UserError(
            f"{path}, key 'scale': {content['scale']!r} where {scale!r} is expected; delete and score again"
        )
    if not isinstance(content["scores"], list) or not content["scores"]:
        raise UserError(f"{path}, key 'scores': expected a list with at least one score; score again")

    scores, seen = [], set()
    for number, entry in enumerate(content["scores"], start=1):
        where = f"{path}, scores entry {number}"
        if not isinstance(entry, dict):
            raise UserError(f"{where}: expected an object; score again")
        for key in REQUIRED_IN_SCORE:
            if key not in entry:
                raise UserError(f"{where}: key {key!r} is missing; score again")
        value, chance = entry["value"], entry.get("chance")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UserError(f"{where} ({entry['language']} {entry['metric']}): value {value!r} is not a finite number")
        if not 0 <= value <= 100:
            raise UserError(
                f"{where} ({entry['language']} {entry['metric']}): value {value!r} is not in percent, 0 to 100"
            )
        if not isinstance(entry["n"], int) or entry["n"] < 1:
            raise UserError(f"{where} ({entry['language']} {entry['metric']}): n {entry['n']!r}: nothing was scored")
        identity = (entry["language"], entry["metric"], entry.get("layer"), entry.get("direction"))
        if identity in seen:
            raise UserError(f"{where}: {' '.join(str(part) for part in identity)} stands twice; score again")
        seen.add(identity)
        scores.append(
            Score(
                scale=content["scale"],
                run=content["run"],
                task=content["task"],
                setting=content["setting"],
                language=entry["language"],
                metric=entry["metric"],
                layer=entry.get("layer"),
                direction=entry.get("direction"),
                value=float(value),
                seed=content["seed"],
                n=entry["n"],
                chance=None if chance is None else float(chance),
                task_version=str(content["task_version"]),
                run_hash=str(content["run_hash"]),
            )
        )
    return scores


@dataclass(frozen=True)
class Results:
    """The scores of one run x task x setting: seed -> its numbers. Absent seeds are absent, never zero."""

    by_seed: Mapping[int, list[Score]]
    expected_seeds: tuple[int, ...]

    def values(self, language: str, metric: str) -> dict[int, float]:
        """Seed -> the headline value of a language (for retrieval: the task's layer, mean of both directions)."""
        found = {}
        for seed, scores in self.by_seed.items():
            rows = [s for s in scores if s.language == language and s.metric == metric]
            if len(rows) > 1:
                rows = [s for s in rows if s.direction == "both"] or rows
            if len(rows) > 1:
                one = rows[0]
                raise UserError(
                    f"scores of {one.run} {one.task} {one.setting} seed {seed}: {len(rows)} values of {metric} for "
                    f"{language}; expected one, or one with direction 'both'"
                )
            if rows:
                found[seed] = rows[0].value
        return found

    def languages(self, metric: str) -> list[str]:
        """Languages that every seed holds, sorted."""
        sets = [{s.language for s in scores if s.metric == metric} for scores in self.by_seed.values()]
        return sorted(set.intersection(*sets)) if sets else []

    def chance(self, language: str, metric: str) -> float | None:
        for scores in self.by_seed.values():
            for score in scores:
                if (score.language, score.metric) == (language, metric) and score.chance is not None:
                    return score.chance
        return None

    def by_layer(self, metric: str, languages: list[str]) -> dict[int, Summary]:
        """Layer -> summary over seeds of the mean over languages and directions."""
        table: dict[int, dict[int, float]] = {}
        for seed, scores in self.by_seed.items():
            groups: dict[int, dict[str, dict[str | None, float]]] = {}
            for score in scores:
                if score.metric == metric and score.language in languages and score.layer is not None:
                    groups.setdefault(score.layer, {}).setdefault(score.language, {})[score.direction] = score.value
            for layer, of_language in groups.items():
                if set(of_language) != set(languages):
                    raise UserError(
                        f"scores of {scores[0].run} {scores[0].task} seed {seed}, layer {layer}: languages "
                        f"{', '.join(sorted(set(languages) - set(of_language)))} are missing; score again"
                    )
                means = [
                    values["both"] if "both" in values else statistics.fmean(values[d] for d in sorted(values, key=str))
                    for _, values in sorted(of_language.items())
                ]
                table.setdefault(layer, {})[seed] = statistics.fmean(means)
        return {layer: summarise(table[layer].values()) for layer in sorted(table)}

    def summary(self, language: str, metric: str) -> Summary | None:
        values = self.values(language, metric)
        return summarise(values.values()) if values else None

    def average(self, languages: Iterable[str], metric: str) -> Summary | None:
        """Unweighted mean over languages of unrounded values, for each seed; then mean and deviation over seeds."""
        columns = [self.values(language, metric) for language in languages]
        if not columns or not all(columns):
            return None
        seeds = sorted(set.intersection(*(set(column) for column in columns)))
        return summarise(statistics.fmean(column[seed] for column in columns) for seed in seeds) if seeds else None


def load_results(paths: Mapping[int, Path], scale: str) -> Results:
    """Read the score files of one run x task x setting (seed -> path); files that do not exist are missing seeds."""
    by_seed = {seed: read_score_file(paths[seed], scale) for seed in sorted(paths) if paths[seed].exists()}
    for what in ("run_hash", "task_version"):
        values = {seed: getattr(scores[0], what) for seed, scores in by_seed.items()}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{paths[seed]}: {value}" for seed, value in values.items())
            raise UserError(
                f"seeds with different {what} cannot be averaged ({listed}); delete the older files and score again"
            )
    return Results(by_seed, tuple(sorted(paths)))


def group_paths(paths: Iterable[str | Path]) -> dict[Key, dict[int, Path]]:
    """Score paths -> (run, task, setting) -> seed -> path."""
    grouped: dict[Key, dict[int, Path]] = {}
    for path in sorted(Path(p) for p in paths):
        match = SEED_FILE.fullmatch(path.name)
        if not match or len(path.parts) < 4:
            raise UserError(f"{path}: a score file is named <run>/<task>/<setting>/seed-<number>.json")
        run, task, setting = path.parts[-4:-1]
        grouped.setdefault((run, task, setting), {})[int(match[1])] = path
    return grouped
