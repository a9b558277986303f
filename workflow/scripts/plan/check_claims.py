"""Checks of config/claims.yaml: that a claim names what exists, and that its quotes are those of the tables."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from common.csvfiles import read_rows
from common.errors import UserError
from common.yamlfiles import check_known
from plan.claims import BY_LAYER, BY_UPDATE, ENGLISH, KINDS, SHOWN, kind_of, links_of, runs_of


def check_claims(claims: list[dict], runs: dict[str, dict], tasks: dict[str, dict], papers: Iterable[str]) -> None:
    """Ids are unique; papers, runs, tasks, settings, metrics and languages exist."""
    seen: set[str] = set()
    for claim in claims:
        where = f"{SHOWN}, claim {claim['id']}"
        if claim["id"] in seen:
            raise UserError(f"{where}: this id stands twice; rename one")
        seen.add(claim["id"])
        check_known(claim["paper"], papers, f"{where}, paper", "paper")
        kinds = [kind for kind in KINDS if kind in claim]
        if len(kinds) != 1:
            raise UserError(f"{where}: needs exactly one test, has {', '.join(kinds) or 'none'}; {', '.join(KINDS)}")
        for run in runs_of(claim):
            check_known(run, runs, f"{where}, {kinds[0]}: {run}", "run")
        check_test(claim[kinds[0]], kinds[0], tasks, f"{where}, {kinds[0]}")
        if "control" in claim:
            if kinds[0] not in ("better", "gap"):
                raise UserError(f"{where}, control: goes with 'better' and 'gap', and this is '{kinds[0]}'; remove it")
            check_known(other := claim["control"]["run"], runs, f"{where}, control.run", "run")
            if other in (claim[kinds[0]]["run"], claim[kinds[0]]["than"]):
                raise UserError(f"{where}, control.run: {other} is a side of the claim already; name a third run")
        links = links_of(claim, tasks)
        if any(link.better == link.than for link in links):
            raise UserError(f"{where}, {kinds[0]}: both sides are the same; name another run, setting or layer")
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
            check_known(task, counted, f"{where}.xtreme", "task")
        for task in test.get("settings", {}):
            check_known(task, test["xtreme"], f"{where}.settings", "task of xtreme")
    for key in ("task", "metric"):
        if "xtreme" not in test and key not in test:
            raise UserError(f"{where}: key '{key}' is missing")
    if "setting" not in test:
        raise UserError(f"{where}: key 'setting' is missing")
    for task in test.get("xtreme") or [test["task"]]:
        check_known(task, tasks, f"{where}.task", "task")
        settings = tasks[task]["settings"]
        setting = test.get("settings", {}).get(task, test["setting"])
        check_known(setting, settings, f"{where}.setting", f"setting of {task}")
        for key in ("than_setting", *(("than",) if kind == "settings" else ())):
            if key in test:
                check_known(test[key], settings, f"{where}.{key}", f"setting of {task}")
    if "task" in test:
        check_metric(test, kind, tasks[test["task"]], where)


def check_metric(test: dict, kind: str, task: dict, where: str) -> None:
    by_layer = [task["metric"] + BY_LAYER] if task["kind"] in ("retrieval", "alignment") else []
    by_update = [task["metric"] + BY_UPDATE] if task["kind"] == "translation" else []
    allowed = {"layers": by_layer, "reaches": by_update}.get(kind, [*task["metrics"], *by_layer])
    check_known(test["metric"], allowed, f"{where}.metric", f"metric of {test['task']}")
    if test["metric"].endswith(BY_LAYER) != ("layer" in test) or ("layer" in test) != ("of" in test):
        raise UserError(f"{where}: 'layer' and 'of' go with a metric by layer, and it with them")
    layers = [test["layer"], *(test["than"] if kind == "layers" else [])] if "layer" in test else []
    if layers and max(layers) > test["of"]:
        raise UserError(f"{where}: layer {max(layers)} of {test['of']}; name layers from 0 to {test['of']}")
    if "direction" in test and (task["kind"] != "retrieval" or "layer" in test):
        raise UserError(f"{where}.direction: is for retrieval at the task's own layer; remove the key")
    for code in test.get("languages", []):
        check_known(code, {*task["languages"], ENGLISH}, f"{where}.languages", f"language of {test['task']}")
    if kind == "gap" and ENGLISH not in (test.get("languages") or task["languages"]):
        raise UserError(f"{where}: a gap needs English, which {test['task']} here is not evaluated in")


def check_published(published: dict, kind: str, links: int, where: str) -> None:
    count = 1 if kind == "cost" else links
    if len(differences(published)) != count:
        raise UserError(
            f"{where}.difference: {len(differences(published))} numbers for {count} links; write one a link"
        )
    if kind != "equal" and any(value is not None and value <= 0 for value in differences(published)):
        raise UserError(f"{where}.difference: must be above 0, in favour of the claim; swap its sides, or mend it")
    if "better" in published and len(published.get("than", [])) != count:
        raise UserError(f"{where}.than: needs one entry for each of {count} links; null where none is printed")
    if ("better" in published) != ("than" in published) or ("cells" in published and "better" not in published):
        raise UserError(f"{where}: 'better' and 'than' go together, and 'cells' with them")


def differences(published: dict) -> list[float | None]:
    """As the paper has them, one a link."""
    difference = published["difference"]
    return difference if isinstance(difference, list) else [difference]


def quoted_cells(claim: dict) -> list[tuple[dict, dict] | None]:
    """Of each link the two printed cells that its difference is of; None where the claim quotes none."""
    published = claim["published"]
    if "better" not in published:
        return [None] * len(differences(published))
    chain = kind_of(claim) == "ordering"
    shared, found = published.get("cells", {}), []
    above = {**shared, **published["better"]}
    for entry in published["than"]:
        below = {**shared, **(entry or {})}
        found.append(None if entry is None else (above, below))
        above = below if chain and entry is not None else above
    return found


def quoted(root: Path, claim: dict) -> list[tuple[float, float] | None]:
    """The numbers of these cells."""
    where = f"{SHOWN}, claim {claim['id']}, published"
    for file in claim["published"].get("by_language", []):
        printed_rows(root, file, f"{where}.by_language")
    pairs = quoted_cells(claim)
    return [pair and (cell_value(root, pair[0], where), cell_value(root, pair[1], where)) for pair in pairs]


CELL = ("setting", "model", "task", "language", "metric", "value", "note")  # columns of a table of results


@cache
def _rows(path: Path, columns: tuple[str, ...], shown: str, _changed: int) -> list[dict[str, str]]:
    """Read once: claims quote many cells of few tables."""
    return read_rows(path, columns, shown)


def printed_rows(root: Path, file: str | None, where: str, columns: tuple[str, ...] = ()) -> list[dict[str, str]]:
    shown = f"config/published/{file}.csv"
    try:
        return _rows(root / shown, columns, shown, (root / shown).stat().st_mtime_ns)
    except FileNotFoundError:
        raise UserError(f"{where}: {shown}: no such file") from None


def cell_value(root: Path, cell: dict, where: str) -> float:
    """The printed number of a cell, or the mean over its languages."""
    rows = printed_rows(root, cell.get("file"), f"{where}.file", CELL)
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
