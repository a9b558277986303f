"""What the plan says of itself to a person: which scale this is, and what can be asked for."""

from __future__ import annotations

from common.yamlfiles import did_you_mean, read_yaml
from plan.config import Config
from plan.needs import canonical_runs
from plan.recipes import recipe_of, setting_jobs
from plan.runs import hash_of

OF_TASKS = ("finetuned", "predictions", "scores")  # results/<scale>/<one of these>/<run>/<task>/<setting>/...
OF_RUNS = (*OF_TASKS, "exported", "runs", "trainings")


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
    parents = runs_that_are_their_parent(config)
    for run, parent in parents.items():
        words += (
            f" {run} is {parent} here, and is not trained again: what it changes is nothing, or has another value in "
            f"config/scales/{config.scale_name}.yaml, run_overrides or objective_overrides."
        )
    words += what_the_scale_makes_of_own_runs(config, parents)
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


def what_the_scale_makes_of_own_runs(config: Config, parents: dict[str, str]) -> str:
    """Of a person's own, of those that were asked for, that are trained here as themselves."""
    asked, own = config.settings.get("runs") or "all", runs_of_no_paper(config)
    of_papers = set(config.runs) - set(own)
    known = {one["name"] for run in of_papers for one in config.runs[run].get("objectives", ())}
    chosen = [run for run in own if run in config.pretrained and run not in parents]
    return "".join(what_the_scale_makes_of(config, run, known) for run in chosen if asked == "all" or run in asked)


def what_the_scale_makes_of(config: Config, run: str, known: set[str]) -> str:
    """What a person wrote of a run and the scale has otherwise; and an objective that neither the scale nor a paper's
    run knows, beside others that the scale changes."""
    scale, shown = config.scale, f"config/scales/{config.scale_name}.yaml"
    changes = scale.get("objective_overrides", {})
    written = read_yaml(config.root / f"config/runs/{run}.yaml", f"config/runs/{run}.yaml")
    objectives = {one["name"]: one for one in written.get("objectives", ())} | written.get("objective_overrides", {})
    pairs = [("", written, scale.get("run_overrides", {}))]
    pairs += [(f"{name}.", own, changes[name]) for name, own in objectives.items() if own and name in changes]
    replaced = [words for prefix, own, change in pairs for words in _replaced(own, change, prefix)]
    said = f" {run}: {shown} has {', '.join(replaced)}." if replaced else ""
    new = [one["name"] for one in config.runs[run]["objectives"] if one["name"] not in {*changes, *known}]
    if changes and new:
        said += f" {run}: {', '.join(new)} is as its file says, and others are as {shown} says, objective_overrides."
    return said


def _replaced(own: dict, change: dict, prefix: str) -> list[str]:
    """The keys of both that have another value, as the scale has them."""
    found = []
    for key in own.keys() & change.keys():
        if isinstance(own[key], dict) and isinstance(change[key], dict):
            found += _replaced(own[key], change[key], f"{prefix}{key}.")
        elif own[key] != change[key]:
            found.append(f"{prefix}{key} {change[key]} in place of {own[key]}")
    return sorted(found)


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


def unknown_target(config: Config, target: str) -> str:
    """Of a target that no rule makes, what was perhaps meant. All that there are would fill the screen."""
    return f"error: {target}: nothing makes a file of this name; {_what_is_wrong(config, target)}"


def _what_is_wrong(config: Config, target: str) -> str:
    top, scale, folder, *names = [*target.split("/"), "", ""]
    if top == "results" and scale != config.scale_name and (config.root / f"config/scales/{scale}.yaml").is_file():
        return f"it is of scale {scale} and this is {config.scale_name}: give --config scale={scale}"
    run, task, job = [*names, "", "", ""][:3]
    if (top, scale) == ("results", config.scale_name) and folder in OF_RUNS:
        if run not in config.runs:
            return f"run {run!r} is unknown; {did_you_mean(run, config.runs)}"
        if folder in OF_TASKS and task not in config.tasks:
            return f"task {task!r} is unknown; {did_you_mean(task, config.tasks)}"
        if folder in OF_TASKS:
            jobs = [own for setting in config.tasks[task]["settings"] for own in setting_jobs(config, task, setting)]
            if job not in jobs:
                return f"setting {job!r} is unknown; {did_you_mean(job, jobs)}"
    guess = did_you_mean(target, named_targets(config)).partition(" Allowed: ")[0]
    return guess if guess.startswith("did you mean") else "`snakemake --list` names the targets"
