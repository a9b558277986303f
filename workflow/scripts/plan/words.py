"""What the plan says of itself to a person: which scale this is, and what can be asked for."""

from __future__ import annotations

from common.yamlfiles import read_yaml
from plan.config import Config
from plan.needs import canonical_runs
from plan.recipes import recipe_of
from plan.runs import hash_of


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
    for run, parent in runs_that_are_their_parent(config).items():
        words += (
            f" {run} is {parent} here, and is not trained again: what it changes is nothing, or has another value in "
            f"config/scales/{config.scale_name}.yaml, run_overrides or objective_overrides."
        )
    if config.scale_name == "paper":
        return words
    if config.has_world and not config.scale.get("warning"):
        words += " Its numbers are of made-up languages: they compare methods, and are not the papers'."
    return f"{words} The papers' own: --config scale=paper."


def runs_without_a_row(config: Config) -> list[str]:
    """Of the runs that were asked for by name: they are trained, and their scores would be nobody's."""
    asked = config.settings.get("runs") or "all"
    return [] if asked == "all" else sorted(set(asked) - set(canonical_runs(config)))


def runs_that_are_their_parent(config: Config) -> dict[str, str]:
    """Of the runs that were asked for by name, else of those that no paper has: they extend another, and a scale's own
    values leave no difference."""
    asked = config.settings.get("runs") or "all"
    found = {}
    for run in runs_of_no_paper(config) if asked == "all" else asked:
        parent = read_yaml(config.root / f"config/runs/{run}.yaml", f"config/runs/{run}.yaml").get("extends")
        if (
            parent
            and hash_of(config, run) == hash_of(config, parent)
            and recipe_of(config, run) == recipe_of(config, parent)
        ):
            found[run] = parent
    return found


def runs_of_no_paper(config: Config) -> list[str]:
    """A person's own: their files say `extends` and no `paper`."""
    texts = {
        path.stem: path.read_text(encoding="utf-8") for path in sorted((config.root / "config/runs").glob("*.yaml"))
    }
    return [
        run for run, text in texts.items() if "\nextends:" in text and "\npaper:" not in text and run in config.runs
    ]


def named_targets(config: Config) -> list[str]:
    """What a person asks for by name: for the question what was meant."""
    tables = [f"results/tables/{item}.{suffix}" for item in config.tables for suffix in ("tex", "csv", "html", "md")]
    figures = [f"results/figures/{item}.{suffix}" for item in config.figures for suffix in ("pdf", "png")]
    rules = ["tables", "data", "models", "scores", "training", "pages", "formats", "exports", "cleaning", "apart"]
    whole = [f"results/tables/{name}.tex" for name in ("all", "claims", "audit")]
    return [*rules, *tables, *figures, *whole, "results/tables/all.pdf", "results/index.html"]
