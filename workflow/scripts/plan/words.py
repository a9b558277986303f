"""What the plan says of itself to a person: which scale this is, and what can be asked for."""

from __future__ import annotations

from plan.config import Config
from plan.needs import canonical_runs


def described(scale: dict) -> str:
    """What a scale is, with the warning that it has, be it its own or of the scale that it extends."""
    return "; ".join(filter(None, (scale["description"], scale.get("warning"))))


def what_this_is(config: Config) -> str:
    """The first line of every call: the scale, what its numbers are, and how to ask for the papers'."""
    words = f"Scale {config.scale_name}: {described(config.scale)}."
    if config.from_reference:
        words += " Scores are those of reference/: nothing is trained."
    if unseen := runs_without_a_row(config):
        them = "it" if len(unseen) == 1 else "them"
        words += f" No table or figure shows {', '.join(unseen)}, so nothing evaluates {them}: make new-table."
    if config.scale_name == "paper":
        return words
    if config.has_world and not config.scale.get("warning"):
        words += " Its numbers are of made-up languages: they compare methods, and are not the papers'."
    return f"{words} The papers' own: --config scale=paper."


def runs_without_a_row(config: Config) -> list[str]:
    """Of the runs that were asked for by name: they are trained, and their scores would be nobody's."""
    asked = config.settings.get("runs") or "all"
    return [] if asked == "all" else sorted(set(asked) - set(canonical_runs(config)))


def named_targets(config: Config) -> list[str]:
    """What a person asks for by name: for the question what was meant."""
    tables = [f"results/tables/{item}.{suffix}" for item in config.tables for suffix in ("tex", "csv", "html", "md")]
    figures = [f"results/figures/{item}.{suffix}" for item in config.figures for suffix in ("pdf", "png")]
    rules = ["tables", "data", "models", "scores", "training", "pages", "formats", "exports", "cleaning"]
    whole = [f"results/tables/{name}.tex" for name in ("all", "claims", "audit")]
    return [*rules, *tables, *figures, *whole, "results/tables/all.pdf", "results/index.html"]
