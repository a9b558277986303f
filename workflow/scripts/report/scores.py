"""Score files: read and check one, find the ones that a table expects, mean and deviation over seeds.

A score file is results/{scale}/scores/{run}/{task}/{setting}/seed-{seed}.json. Everything after scoring reads
nothing else, so what is wrong with a number is said here, with the file's name.
"""

import base64
import json
import math
import re
import statistics
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from common.atomic import check_seal
from common.errors import UserError

SEED_FILE = re.compile(r"seed-(\d+)\.json")
NAMED_BY_PATH = ("run", "task", "setting", "seed")
REQUIRED = (*NAMED_BY_PATH, "scale", "task_version", "run_hash", "scores")
REQUIRED_IN_SCORE = ("language", "metric", "value", "n")
ENGLISH = "en"
BOTH = "both"  # the direction of a headline that is the mean of two
# What chose the weights of fine-tuning: two rules of recipes, and the second where each language has its own model.
EN_DEV, MEAN_DEV, OWN_DEV = "en_dev", "mean_dev", "own_dev"

Key = tuple[str, str, str]  # run, task, setting
KEPT = "reference"  # the folder of finished scores, which no rule writes: Git has them
FAILURES = "failures"  # per cent of the tries of fine-tuning that ended below the bar of its recipe
LESS_IS_BETTER = {"error-rate", FAILURES}
NOT_LEARNT = 1.0  # points above chance
BY_UPDATE = "-by-update"  # ends the name of a metric of snapshots
FINE_TUNED_ONCE = "Each pre-training was fine-tuned once, not twice."


def seed_words(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


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
    update: int | None  # of training, where a snapshot of it was scored
    epoch: float | None  # at that update
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


class Snapshot(NamedTuple):
    """What a curve shows at one update."""

    epoch: float  # mean over seeds
    summary: Summary


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
    return scores_of(read_content(path, scale), path)


def read_content(path: Path, scale: str | None) -> dict:
    """What a score file says, checked up to its single scores."""
    again = f"git checkout -- {path}" if KEPT in path.parts else "delete the file and score again"
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant)
    except FileNotFoundError:
        raise UserError(f"{path}: no such score file; run its score job") from None
    except ValueError as error:
        raise UserError(f"{path}: not a usable score file ({error}); {again}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected one JSON object; {again}")
    check_seal(content, path, again)
    missing = [key for key in REQUIRED if key not in content]
    if missing:
        raise UserError(f"{path}: key {missing[0]!r} is missing; {again}")
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
    return content


def scores_of(content: dict, path: Path) -> list[Score]:
    scores, seen = [], set()
    for number, entry in enumerate(content["scores"], start=1):
        where = f"{path}, scores entry {number}"
        if not isinstance(entry, dict):
            raise UserError(f"{where}: expected an object; score again")
        for key in REQUIRED_IN_SCORE:
            if key not in entry:
                raise UserError(f"{where}: key {key!r} is missing; score again")
        value, chance = entry["value"], entry.get("chance")
        if not is_number(value):
            raise UserError(f"{where} ({entry['language']} {entry['metric']}): value {value!r} is not a finite number")
        if not 0 <= value <= 100:
            raise UserError(
                f"{where} ({entry['language']} {entry['metric']}): value {value!r} is not in percent, 0 to 100"
            )
        if not isinstance(entry["n"], int) or entry["n"] < 1:
            raise UserError(f"{where} ({entry['language']} {entry['metric']}): n {entry['n']!r}: nothing was scored")
        update, epoch = entry.get("update"), entry.get("epoch")
        if entry["metric"].endswith(BY_UPDATE) and not (isinstance(update, int) and is_number(epoch)):
            raise UserError(f"{where} ({entry['language']} {entry['metric']}): needs 'update' and 'epoch'; score again")
        identity = (entry["language"], entry["metric"], entry.get("layer"), entry.get("direction"), update)
        if identity in seen:
            named = " ".join(str(part) for part in identity if part is not None)
            raise UserError(f"{where}: {named} stands twice; score again")
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
                update=update,
                epoch=None if epoch is None else float(epoch),
                value=float(value),
                seed=content["seed"],
                n=entry["n"],
                chance=None if chance is None else float(chance),
                task_version=str(content["task_version"]),
                run_hash=str(content["run_hash"]),
            )
        )
    return [*scores, *failures_of(content, scores)]


def failures_of(content: dict, scores: Sequence[Score]) -> list[Score]:
    """How often the fine-tuning behind these scores failed on dev, in per cent of its tries; nothing where its recipe
    has no rule of restarts, or where the weights are those of another task."""
    selection = content.get("selection")
    if not isinstance(selection, dict) or not selection.get("tries") or "|model=" in (content.get("signature") or ""):
        return []
    tries, codes = selection["tries"], {score.language for score in scores}
    failed = sum(reached < selection["below"] for reached in tries)
    about = {"language": ENGLISH if ENGLISH in codes else min(codes), "metric": FAILURES, "n": len(tries)}
    none = dict.fromkeys(("layer", "direction", "update", "epoch", "chance"))
    return [replace(scores[0], value=100 * failed / len(tries), **about, **none)]


# --- test items: what one adds to a score, above and below the fraction line ----------------------------------------

PACKED = "b64:"
FINE = 10_000  # shares of one answer are kept to four digits


def packed_items(shares: Sequence[tuple[float, float]]) -> dict:
    """As a score file keeps them: whole numbers of two bytes, compressed. What is no whole number is multiplied first,
    and a row of ones below the line goes without saying."""
    scale = 1 if all(float(above).is_integer() for above, _ in shares) else FINE
    packed = {"n": len(shares), "num": pack([round(above * scale) for above, _ in shares])}
    if scale > 1:
        packed["scale"] = scale
    if any(below != 1 for _, below in shares):
        packed["den"] = pack([int(below) for _, below in shares])
    return packed


def pack(numbers: Sequence[int]) -> str:
    values = array("H", numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return PACKED + base64.b64encode(zlib.compress(values.tobytes(), 9)).decode("ascii")


def unpack(text: str) -> list[int]:
    if not text.startswith(PACKED):
        raise ValueError(f"does not begin with {PACKED}")
    values = array("H", zlib.decompress(base64.b64decode(text.removeprefix(PACKED), validate=True)))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def items_of(content: Mapping, language: str, metric: str) -> tuple[list[float], list[float]] | None:
    """(above, below) of every test item of a language: the score is 100 x sum(above) / sum(below), and of an error rate
    100 minus that. None where the file keeps none of this metric."""
    found = content.get("items", {}).get(language, {}).get(metric)
    if found is None:
        return None
    try:
        scale = found.get("scale", 1)
        above = [number / scale for number in unpack(found["num"])]
        below = [float(number) for number in unpack(found["den"])] if "den" in found else [1.0] * len(above)
        if not len(above) == len(below) == found["n"]:
            raise ValueError(f"{len(above)} and {len(below)} numbers of {found['n']} items")
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
        named = " ".join(str(content.get(key)) for key in NAMED_BY_PATH)
        raise UserError(f"score of {named}, items of {language} {metric}: damaged ({error}); score again") from None
    return above, below


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def selection_of(content: dict, path: Path) -> str | None:
    """What chose the weights of fine-tuning; None where nothing was fine-tuned."""
    selection = content.get("selection")
    if selection is None:
        return None
    rule = selection.get("rule") if isinstance(selection, dict) else selection
    if rule not in (EN_DEV, MEAN_DEV):
        raise UserError(f"{path}, key 'selection': the rule {rule!r} is neither {EN_DEV} nor {MEAN_DEV}; score again")
    return rule


@dataclass(frozen=True)
class Results:
    """The scores of one run x task x setting: seed -> its numbers. Absent seeds are absent, never zero.

    What is derived (a direction, an average, a gap) is taken seed by seed from unrounded values; deviations come last.
    """

    by_seed: Mapping[int, list[Score]]
    expected_seeds: tuple[int, ...]
    selection: str | None = None  # the rule that chose the weights; None where nothing was fine-tuned
    layers: Mapping[int, int] = field(default_factory=dict)  # seed -> the layer of retrieval, where pairs chose it

    @cached_property
    def by_name(self) -> dict[int, dict[tuple[str, str], list[Score]]]:
        """Seed -> (language, metric) -> its scores: tables ask for each many times."""
        index: dict[int, dict[tuple[str, str], list[Score]]] = {}
        for seed, scores in self.by_seed.items():
            names = index.setdefault(seed, {})
            for score in scores:
                names.setdefault((score.language, score.metric), []).append(score)
        return index

    def values(
        self, language: str, metric: str, direction: str | None = None, layer: int | None = None
    ) -> dict[int, float]:
        """Seed -> the value of a language: the headline (for retrieval: the task's layer, mean of both directions), or
        that of one direction, en-xx or xx-en, or of another layer."""
        headlines = self.headlines(language, metric)
        if direction in (None, BOTH) and layer is None:
            return {seed: one.value for seed, one in headlines.items()}
        found = {}
        for seed, one in headlines.items():
            at = one.layer if layer is None else layer
            rows = [row for row in self.by_name[seed].get((language, f"{metric}-by-layer"), []) if row.layer == at]
            values = [row.value for row in rows if direction in (None, BOTH, row.direction)]
            if not values:
                of = "" if direction is None else f" of direction {direction}"
                raise UserError(
                    f"scores of {one.run} {one.task} {one.setting} seed {seed}: no {metric}{of} "
                    f"for {language} at layer {at}; score again"
                )
            found[seed] = statistics.fmean(values)
        return found

    def headlines(self, language: str, metric: str) -> dict[int, Score]:
        """Seed -> the one score of a language and metric that stands for the task."""
        found = {}
        for seed, of_name in self.by_name.items():
            rows = of_name.get((language, metric), [])
            if len(rows) > 1:
                rows = [s for s in rows if s.direction == BOTH] or rows
            if len(rows) > 1:
                one = rows[0]
                raise UserError(
                    f"scores of {one.run} {one.task} {one.setting} seed {seed}: {len(rows)} values of {metric} for "
                    f"{language}; expected one, or one with direction 'both'"
                )
            if rows:
                found[seed] = rows[0]
        return found

    def languages(self, metric: str) -> list[str]:
        """Languages that every seed holds, sorted."""
        sets = [{s.language for s in scores if s.metric == metric} for scores in self.by_seed.values()]
        return sorted(set.intersection(*sets)) if sets else []

    def chance(self, language: str, metric: str) -> float | None:
        for of_name in self.by_name.values():
            for score in of_name.get((language, metric), []):
                if score.chance is not None:
                    return score.chance
        return None

    def untaught(self, metric: str) -> tuple[int, ...]:
        """The seeds whose fine-tuning taught nothing: in English, which all train on (or in every language, where
        English is not among them), the score is that of chance."""
        if self.selection is None or metric in LESS_IS_BETTER:
            return ()
        languages = self.languages(metric)
        tried = [ENGLISH] if ENGLISH in languages else languages
        learnt: set[int] = set()
        for code in tried:
            chance = self.chance(code, metric)
            values = self.values(code, metric)
            learnt |= {seed for seed, value in values.items() if chance is None or value > chance + NOT_LEARNT}
        return tuple(sorted(set(self.by_seed) - learnt)) if tried else ()

    def curves(self, metric: str, languages: Sequence[str], place: str) -> dict[int, dict[int, float]]:
        """Layer or update, as `place` says -> seed -> the mean over languages and directions."""
        table: dict[int, dict[int, float]] = {}
        for seed, scores in self.by_seed.items():
            groups: dict[int, dict[str, dict[str | None, float]]] = {}
            for score in scores:
                at = getattr(score, place)
                if score.metric == metric and score.language in languages and at is not None:
                    groups.setdefault(at, {}).setdefault(score.language, {})[score.direction] = score.value
            for at, of_language in groups.items():
                if set(of_language) != set(languages):
                    raise UserError(
                        f"scores of {scores[0].run} {scores[0].task} seed {seed}, {place} {at}: languages "
                        f"{', '.join(sorted(set(languages) - set(of_language)))} are missing; score again"
                    )
                means = [
                    values[BOTH] if BOTH in values else statistics.fmean(values[d] for d in sorted(values, key=str))
                    for _, values in sorted(of_language.items())
                ]
                table.setdefault(at, {})[seed] = statistics.fmean(means)
        return {at: table[at] for at in sorted(table)}

    def by_layer(self, metric: str, languages: Sequence[str]) -> dict[int, Summary]:
        """Layer -> summary over seeds of the mean over languages and directions."""
        return {layer: summarise(of.values()) for layer, of in self.curves(metric, languages, "layer").items()}

    def by_update(self, metric: str, languages: Sequence[str]) -> dict[int, Snapshot]:
        """Update -> its epoch, and summary over seeds of the mean over languages."""
        epochs: dict[int, list[float]] = {}
        for scores in self.by_seed.values():
            for score in scores:
                if score.metric == metric and score.language in languages:
                    epochs.setdefault(score.update, []).append(score.epoch)
        return {
            update: Snapshot(statistics.fmean(epochs[update]), summarise(of_seed.values()))
            for update, of_seed in self.curves(metric, languages, "update").items()
        }

    def summary(self, language: str, metric: str) -> Summary | None:
        values = self.values(language, metric)
        return summarise(values.values()) if values else None

    def average_values(self, languages: Iterable[str], metric: str, direction: str | None = None) -> dict[int, float]:
        """Seed -> the unweighted mean over languages, for the seeds that hold them all."""
        columns = [self.values(language, metric, direction) for language in languages]
        seeds = set.intersection(*(set(column) for column in columns)) if columns else set()
        return {seed: statistics.fmean(column[seed] for column in columns) for seed in sorted(seeds)}

    def gap_values(self, languages: Iterable[str], metric: str) -> dict[int, float]:
        """Seed -> English minus the mean of the other languages; empty without English or without another language."""
        others = self.average_values([code for code in languages if code != ENGLISH], metric)
        english = self.values(ENGLISH, metric)
        return {seed: english[seed] - mean for seed, mean in others.items() if seed in english}


def load_results(paths: Mapping[int, Path], scale: str) -> Results:
    """Read the score files of one run x task x setting (seed -> path); files that do not exist are missing seeds."""
    by_seed, firsts, rules, layers = {}, {}, {}, {}
    for seed in sorted(paths):
        path = paths[seed]
        if path.exists():
            content = read_content(path, scale)
            if "centred" in content:
                layers[seed] = content["centred"]["layer"]
            by_seed[seed] = scores_of(content, path)
            firsts[path], rules[path] = by_seed[seed][0], selection_of(content, path)
    check_agreement(firsts, rules, "seeds")
    return Results(by_seed, tuple(sorted(paths)), next(iter(rules.values()), None), layers)


def load_parts(parts: Mapping[str, Mapping[int, Path]], scale: str) -> Results:
    """One result of a setting that trains a model for each language: language -> seed -> path."""
    by_seed: dict[int, list[Score]] = {}
    firsts, rules = {}, {}
    for language, paths in sorted(parts.items()):
        results = load_results(paths, scale)
        for seed, scores in results.by_seed.items():
            if foreign := sorted({score.language for score in scores} - {language}):
                raise UserError(
                    f"{paths[seed]}: the model of {language} has scores of {', '.join(foreign)}; "
                    "delete it and score again"
                )
            by_seed.setdefault(seed, []).extend(scores)
            firsts[paths[seed]], rules[paths[seed]] = scores[0], results.selection
    check_agreement(firsts, rules, "languages")
    expected = {seed for paths in parts.values() for seed in paths}
    rule = next(iter(rules.values()), None)
    # the mean over the languages of a model that has one
    return Results(dict(sorted(by_seed.items())), tuple(sorted(expected)), OWN_DEV if rule == MEAN_DEV else rule)


def check_agreement(firsts: Mapping[Path, Score], rules: Mapping[Path, str | None], what: str) -> None:
    """Files (path -> one of its scores, path -> its rule of selection) that stand behind one number are of one run and
    one version of the task, and their weights were chosen alike."""
    found = {key: {path: getattr(score, key) for path, score in firsts.items()} for key in ("run_hash", "task_version")}
    for key, values in {**found, "selection": rules}.items():
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{path}: {value}" for path, value in values.items())
            raise UserError(
                f"{what} with different {key} cannot be averaged ({listed}); delete the older files and score again"
            )


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
