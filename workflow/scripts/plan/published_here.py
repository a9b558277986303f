"""What the papers print of a claim's differences in the languages that a scale has: their averages are over more."""

from __future__ import annotations

from statistics import fmean

from plan import claims
from plan.check_claims import printed_rows, quoted_cells
from plan.claimed import measured_languages
from plan.config import Config

# What papers call a metric of ours; VECO prints the F1 of tags as accuracy.
IN_PRINT = {"error-rate": ("aer",), "exact-match": ("em",), "f1": ("f1", "accuracy")}
ERRORS = ("error-rate",)


class NotPrinted(Exception):
    """There is no cell of that language, or more than one."""


def printed_files(config: Config) -> list[str]:
    """The files of published numbers that the claims quote."""
    quoted = [cell["file"] for claim in config.claims for pair in quoted_cells(claim) for cell in pair or ()]
    beside = [file for claim in config.claims for file in claim["published"].get("by_language", [])]
    return sorted({f"config/published/{file}.csv" for file in (*quoted, *beside)})


def differences_here(config: Config, claim: dict) -> list[float | None]:
    """One a link, in favour of the claim. None where the paper's average is over the languages here and no others, or
    where it prints too few of its cells by language."""
    links, cells = claims.links_of(claim, config.tasks), quoted_cells(claim)
    if claims.kind_of(claim) == "cost":
        return [None] * len(links)
    files = claim["published"].get("by_language", [])
    return [pair and _difference(config, link, pair, files) for link, pair in zip(links, cells, strict=True)]


def _difference(config: Config, link: claims.Link, pair: tuple[dict, dict], files: list[str]) -> float | None:
    if link.better.measures[0][1].depth is not None:
        return None
    here = [(one.languages, measured_languages(config, one)) for one in claims.measures_of([link])]
    if all(set(of_paper) == set(own) for of_paper, own in here) or not all(own for _, own in here):
        return None
    try:
        better, than = (_side(config, side, cell, files) for side, cell in zip(link.sides, pair, strict=True))
    except NotPrinted:
        return None
    return round(better - than, 2)


def _side(config: Config, side: claims.Side, cell: dict, files: list[str]) -> float:
    """As measured.py weighs it: what is lost counts as negative."""
    total = 0.0
    for weight, measure in side.measures:
        codes = measured_languages(config, measure)
        values = {code: _printed(config, cell, measure, code, files or [cell["file"]]) for code in codes}
        if measure.gap:
            value = fmean(own for code, own in values.items() if code != claims.ENGLISH) - values[claims.ENGLISH]
        else:
            value = fmean(values.values())
        total += -weight * value if measure.metric in ERRORS else weight * value
    return total


def _printed(config: Config, cell: dict, measure: claims.Measure, code: str, files: list[str]) -> float:
    """The one number of a language, of pairs that with English; a task may be called otherwise in print."""
    model, setting = cell["model"], cell.get("setting", "")
    metrics, languages = IN_PRINT.get(measure.metric, (measure.metric,)), (code, f"en-{code}")
    rows = [
        row
        for file in files
        for row in printed_rows(config.root, file, claims.SHOWN)
        if row.get("model") == model
        and row.get("language") in languages
        and row.get("setting") == setting
        and row.get("metric") in metrics
        and (row["note"] or "").startswith(cell.get("note", ""))
    ]
    of_task = [row["value"] for row in rows if row["task"] in (measure.task, cell.get("task"))]
    found = of_task or [row["value"] for row in rows if row["task"].startswith(f"{measure.task}-")]
    if len(found) != 1 or not found[0]:
        raise NotPrinted
    return float(found[0])
