"""The claims of config/claims.yaml: what has to be measured of each.

The plan reads this while the workflow is parsed, so: no NumPy. A claim becomes links, `this is better than that`; both
sides are numbers of a run. evaluate_claims.py measures them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

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
    layer: int | None = None  # of the model here, where it is not the one that the scale's tables read


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
            languages = claimed_languages(test, tasks[task])
            weighted += [(weight, Measure(run, task, setting, own, languages, direction=direction)) for own in metrics]
        return Side(run, tuple(weighted))
    measure = Measure(
        run,
        test["task"],
        test["setting"],
        test["metric"],
        claimed_languages(test, tasks[test["task"]]),
        gap=gap,
        direction=test.get("direction"),
        depth=(test["layer"], test["of"]) if "layer" in test else None,
        share=test.get("share"),
    )
    return Side(run, ((1.0, measure),))


def xtreme_metrics(task: dict) -> list[str]:
    """What a task counts with in XTREME's average: F1 and exact match of answers, else its one metric."""
    return task["metrics"] if task["kind"] == "question-answering" else [task["metric"]]


def claimed_languages(test: dict, task: dict) -> tuple[str, ...]:
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
