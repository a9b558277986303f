"""The claims of config/claims.yaml: check them, and say of each what has to be measured.

The plan reads this while the workflow is parsed, so: no NumPy. A claim becomes links, `this is better than that`; both
sides are numbers of a run. evaluate_claims.py measures them.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.yamlfiles import did_you_mean

SHOWN = "config/claims.yaml"
KINDS = ("better", "equal", "ordering", "gap", "settings", "layers", "reaches", "cost")
BY_LAYER, BY_UPDATE = "-by-layer", "-by-update"  # end the names of metrics of which a score file has many values
ENGLISH = "en"


@dataclass(frozen=True)
class Measure:
    """One number a seed: the mean over languages, or the gap, of one metric of a run."""

    run: str
    task: str
    setting: str
    metric: str
    languages: tuple[str, ...]  # those of the claim; of them a scale has some
    gap: bool = False  # English minus the mean of the others
    direction: str | None = None
    depth: tuple[int, int] | None = None  # layer, of so many of the paper's model
    share: float | None = None  # of the updates, of a metric by update


@dataclass(frozen=True)
class Side:
    """A weighted sum of measures of one run; without any, what its pre-training cost."""

    run: str
    measures: tuple[tuple[float, Measure], ...] = ()


@dataclass(frozen=True)
class Link:
    """`better` is better than `than` by more than the margin; of costs: cheaper by more than so many times."""

    better: Side
    than: Side
    margin: float = 0.0
    counting: str | None = None  # of costs: ours or papers
    within: float | None = None  # the claim is that the two differ by less than so many points
    at_most: bool = False  # of costs: the claim is of `better` / `than`, and not the other way round

    @property
    def of_costs(self) -> bool:
        return self.counting is not None

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.better, self.than


def kind_of(claim: dict) -> str:
    return next(kind for kind in KINDS if kind in claim)


def links_of(claim: dict, tasks: dict[str, dict]) -> list[Link]:
    """What has to hold for the claim to hold. Of `cost` with several runs: of each run two links, score before cost."""
    kind = kind_of(claim)
    test = claim[kind]
    if kind == "better":
        other = {**test, "setting": test.get("than_setting", test.get("setting"))}
        pair = side_of(test, test["run"], tasks), side_of(other, test["than"], tasks)
        return [Link(*pair, test.get("margin", 0.0))]
    if kind == "equal":
        return [Link(*(side_of(test, run, tasks) for run in (test["run"], test["than"])), within=test["within"])]
    if kind == "ordering":
        sides = [side_of(test, run, tasks) for run in test["runs"]]
        return [Link(*pair) for pair in pairwise(sides)]
    if kind == "gap":
        pair = [side_of(test, run, tasks, gap=True) for run in (test["run"], test["than"])]
        return [Link(*pair, test.get("margin", 0.0))]
    if kind == "settings":
        pair = [side_of({**test, "setting": own}, test["run"], tasks) for own in (test["setting"], test["than"])]
        return [Link(*pair, test.get("margin", 0.0))]
    if kind == "layers":
        best = side_of(test, test["run"], tasks)
        return [Link(best, side_of({**test, "layer": layer}, test["run"], tasks)) for layer in test["than"]]
    if kind == "reaches":
        other = {**test, "setting": test["than_setting"], "share": 1.0}
        return [Link(side_of(test, test["run"], tasks), side_of(other, test["than"], tasks))]
    links = []
    for run in test["runs"]:
        if "reach" in test:
            sides = (side_of(test["reach"], own, tasks) for own in (run, test["than"]))
            links.append(Link(*sides, -test["reach"].get("margin", 0.0)))
        margin = test["times"] if "times" in test else 1 / test["at_most"]
        counting = test.get("counting", "ours")
        links.append(Link(Side(run), Side(test["than"]), margin, counting, at_most="at_most" in test))
    return links


def side_of(test: dict, run: str, tasks: dict[str, dict], gap: bool = False) -> Side:
    if "xtreme" in test:
        weighted = []
        for task in test["xtreme"]:
            setting = test.get("settings", {}).get(task, test["setting"])
            # XTREME's number for Tatoeba is that of one direction
            direction = "en-xx" if tasks[task]["kind"] == "retrieval" else None
            metrics = xtreme_metrics(tasks[task])
            weight = 1 / len(test["xtreme"]) / len(metrics)
            languages = languages_of(test, tasks[task])
            weighted += [(weight, Measure(run, task, setting, own, languages, direction=direction)) for own in metrics]
        return Side(run, tuple(weighted))
    measure = Measure(
        run,
        test["task"],
        test["setting"],
        test["metric"],
        languages_of(test, tasks[test["task"]]),
        gap=gap,
        direction=test.get("direction"),
        depth=(test["layer"], test["of"]) if "layer" in test else None,
        share=test.get("share"),
    )
    return Side(run, ((1.0, measure),))


def xtreme_metrics(task: dict) -> list[str]:
    """What a task counts with in XTREME's average: F1 and exact match of answers, else its one metric."""
    return task["metrics"] if task["kind"] == "question-answering" else [task["metric"]]


def languages_of(test: dict, task: dict) -> tuple[str, ...]:
    return tuple(test.get("languages") or task["languages"])


def runs_of(claim: dict) -> list[str]:
    """Every run that a claim names, sorted."""
    test = claim[kind_of(claim)]
    own = {test["than"]} if kind_of(claim) in ("better", "equal", "gap", "reaches", "cost") else set()
    return sorted(own | set(test.get("runs", [])) | ({test["run"]} if "run" in test else set()))


def control_of(claim: dict) -> dict | None:
    """The same claim against the run that simply goes on; no paper prints that difference."""
    if "control" not in claim:
        return None
    kind = kind_of(claim)
    own = {key: value for key, value in claim.items() if key not in ("control", "note", kind)}
    return {**own, "published": {"difference": None}, kind: {**claim[kind], "than": claim["control"]["run"]}}


def with_ties(claims: list[dict], tie: float) -> list[dict]:
    """`as good as` and `equal` with the file's margin where they have none of their own."""
    found = []
    for claim in claims:
        if "reach" in claim.get("cost", {}):
            claim = {**claim, "cost": {**claim["cost"], "reach": {"margin": tie, **claim["cost"]["reach"]}}}
        if "equal" in claim:
            claim = {**claim, "equal": {"within": tie, **claim["equal"]}}
        found.append(claim)
    return found


def measures_of(links: Iterable[Link]) -> list[Measure]:
    return [measure for link in links for side in link.sides for _, measure in side.measures]


# --- checks: a slip in a claim is found before any job ---------------------------------------------------------------


def check_claims(claims: list[dict], runs: dict[str, dict], tasks: dict[str, dict], papers: Iterable[str]) -> None:
    """Ids are unique; papers, runs, tasks, settings, metrics and languages exist."""
    seen: set[str] = set()
    for claim in claims:
        where = f"{SHOWN}, claim {claim['id']}"
        if claim["id"] in seen:
            raise UserError(f"{where}: this id stands twice; rename one")
        seen.add(claim["id"])
        known(claim["paper"], papers, f"{where}, paper", "paper")
        kinds = [kind for kind in KINDS if kind in claim]
        if len(kinds) != 1:
            raise UserError(f"{where}: needs exactly one test, has {', '.join(kinds) or 'none'}; {', '.join(KINDS)}")
        for run in runs_of(claim):
            known(run, runs, f"{where}, {kinds[0]}: {run}", "run")
        check_test(claim[kinds[0]], kinds[0], tasks, f"{where}, {kinds[0]}")
        if "control" in claim:
            if kinds[0] not in ("better", "gap"):
                raise UserError(f"{where}, control: goes with 'better' and 'gap', and this is '{kinds[0]}'; remove it")
            known(claim["control"]["run"], runs, f"{where}, control.run", "run")
        links = links_of(claim, tasks)
        check_published(claim["published"], kinds[0], len(links), f"{where}, published")


def check_test(test: dict, kind: str, tasks: dict[str, dict], where: str) -> None:
    if kind == "cost":
        if ("times" in test) == ("at_most" in test):
            raise UserError(f"{where}: needs one of 'times' and 'at_most'")
        if "reach" in test:
            check_test({**test["reach"], "run": ""}, "better", tasks, f"{where}.reach")
        elif len(test["runs"]) > 1:
            raise UserError(f"{where}.runs: several need 'reach', which says what they have to be as good at")
        return
    if kind == "ordering" and len(test["runs"]) < 2:
        raise UserError(f"{where}.runs: an ordering needs two runs or more")
    if "xtreme" in test:
        if other := [key for key in ("task", "metric", "layer", "direction", "languages") if key in test]:
            raise UserError(f"{where}: 'xtreme' counts its tasks as XTREME does; remove {other[0]!r}")
        for task in test["xtreme"]:
            counted = [name for name in tasks if tasks[name]["kind"] not in ("alignment", "translation")]
            known(task, counted, f"{where}.xtreme", "task")
        for task in test.get("settings", {}):
            known(task, test["xtreme"], f"{where}.settings", "task of xtreme")
    for key in ("task", "metric"):
        if "xtreme" not in test and key not in test:
            raise UserError(f"{where}: key '{key}' is missing")
    if "setting" not in test:
        raise UserError(f"{where}: key 'setting' is missing")
    for task in test.get("xtreme") or [test["task"]]:
        known(task, tasks, f"{where}.task", "task")
        settings = tasks[task]["settings"]
        known(test.get("settings", {}).get(task, test["setting"]), settings, f"{where}.setting", f"setting of {task}")
        for key in ("than_setting", *(("than",) if kind == "settings" else ())):
            if key in test:
                known(test[key], settings, f"{where}.{key}", f"setting of {task}")
    if "task" in test:
        check_metric(test, kind, tasks[test["task"]], where)


def check_metric(test: dict, kind: str, task: dict, where: str) -> None:
    by_layer = [task["metric"] + BY_LAYER] if task["kind"] in ("retrieval", "alignment") else []
    by_update = [task["metric"] + BY_UPDATE] if task["kind"] == "translation" else []
    allowed = {"layers": by_layer, "reaches": by_update}.get(kind, [*task["metrics"], *by_layer])
    known(test["metric"], allowed, f"{where}.metric", f"metric of {test['task']}")
    if test["metric"].endswith(BY_LAYER) != ("layer" in test) or ("layer" in test) != ("of" in test):
        raise UserError(f"{where}: 'layer' and 'of' go with a metric by layer, and it with them")
    layers = [test["layer"], *(test["than"] if kind == "layers" else [])] if "layer" in test else []
    if layers and max(layers) > test["of"]:
        raise UserError(f"{where}: layer {max(layers)} of {test['of']}; name layers from 0 to {test['of']}")
    if "direction" in test and (task["kind"] != "retrieval" or "layer" in test):
        raise UserError(f"{where}.direction: is for retrieval at the task's own layer; remove the key")
    for code in test.get("languages", []):
        known(code, {*task["languages"], ENGLISH}, f"{where}.languages", f"language of {test['task']}")
    if kind == "gap" and ENGLISH not in (test.get("languages") or task["languages"]):
        raise UserError(f"{where}: a gap needs English, which {test['task']} here is not evaluated in")


def check_published(published: dict, kind: str, links: int, where: str) -> None:
    count = 1 if kind == "cost" else links
    if len(differences(published)) != count:
        raise UserError(
            f"{where}.difference: {len(differences(published))} numbers for {count} links; write one a link"
        )
    if "better" in published and len(published.get("than", [])) != count:
        raise UserError(f"{where}.than: needs one entry for each of {count} links; null where none is printed")
    if ("better" in published) != ("than" in published) or ("cells" in published and "better" not in published):
        raise UserError(f"{where}: 'better' and 'than' go together, and 'cells' with them")


def differences(published: dict) -> list[float | None]:
    """As the paper has them, one a link."""
    difference = published["difference"]
    return difference if isinstance(difference, list) else [difference]


def known(word: str, words: Iterable[str], where: str, what: str) -> None:
    words = list(words)
    if word not in words:
        raise UserError(f"{where}: unknown {what} '{word}'; {did_you_mean(word, words)}")


# --- the published cells that a claim quotes -------------------------------------------------------------------------


def quoted(root: Path, claim: dict) -> list[tuple[float, float] | None]:
    """Of each link the two printed numbers that its difference is of; None where the claim quotes no cell."""
    published = claim["published"]
    if "better" not in published:
        return [None] * len(differences(published))
    chain = kind_of(claim) == "ordering"
    shared, found = published.get("cells", {}), []
    above = {**shared, **published["better"]}
    for entry in published["than"]:
        where = f"{SHOWN}, claim {claim['id']}, published"
        if entry is None:
            found.append(None)
            continue
        below = {**shared, **entry}
        found.append((cell_value(root, above, where), cell_value(root, below, where)))
        above = below if chain else above
    return found


def cell_value(root: Path, cell: dict, where: str) -> float:
    """The printed number of a cell, or the mean over its languages."""
    path = root / f"config/published/{cell.get('file')}.csv"
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except FileNotFoundError:
        raise UserError(f"{where}.file: config/published/{cell.get('file')}.csv: no such file") from None
    languages: list[Any] = cell["language"] if isinstance(cell.get("language"), list) else [cell.get("language", "")]
    values = []
    for language in languages:
        wanted = {key: cell[key] for key in ("setting", "model", "task", "metric") if key in cell}
        wanted["language"] = language
        if "layer" in cell:
            wanted["layer"] = str(cell["layer"])
        note = cell.get("note", "")
        same = [
            row
            for row in rows
            if all(row.get(key) == value for key, value in wanted.items()) and (row["note"] or "").startswith(note)
        ]
        if len(same) != 1 or not same[0]["value"]:
            named = " ".join(wanted.values())
            raise UserError(f"{where}: {cell['file']}.csv has {len(same)} rows of {named}; name one with a value")
        values.append(float(same[0]["value"]))
    return sum(values) / len(values)
