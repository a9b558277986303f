"""The claims that a scale can test, what they need, and with them everything that the document needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from common.identity import digest
from plan import claims, compare_specs
from plan.config import Config
from plan.data import data_of_runs
from plan.evidence import corpus_counts, existing, training_path, training_paths
from plan.needs import (
    canonical_run,
    compared_trainings,
    comparison_digest,
    figure_trainings,
    has_pairs,
    needs,
    on_request,
    paths_of_needs,
    unfit,
)
from plan.recipes import bitext_settings, recipe_of, resolve_recipe, setting_jobs, task_languages
from plan.runs import hash_of, lineage, not_here, resolve_run, trained_run, with_ancestors
from plan.seeds import pretrain_seeds


def counted_data(config: Config) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The (corpus, language) and (corpus, pair) of which counts.json says the size: of the runs that are trained here,
    and of those that a table compares the corpora of."""
    specs = [spec for spec in config.tables.values() if compare_specs.reads_corpora(spec)]
    if not specs:
        return [], []
    trained = {*config.listed, *(run for run, _, _ in all_needs(config))} & set(config.pretrained)
    shown = {run for spec in specs for run in compare_specs.runs_of(spec) if run in config.selected}
    return data_of_runs(config, {*with_ancestors(config, trained), *(run for run in shown if hash_of(config, run))})


def all_needs(config: Config) -> list[tuple[str, str, str]]:
    """The union of `needs` over every selected table and figure, and the claims where the whole document is built."""
    found = {need for spec in config.specs.values() for need in needs(config, spec)}
    if is_whole(config):
        found.update(claim_needs(config))
    return sorted(found)


def all_score_paths(config: Config) -> list[str]:
    return paths_of_needs(config, all_needs(config))


def shown_trainings(config: Config) -> list[str]:
    """The records of the pre-trainings behind the tables, figures and claims."""
    of_tables = (compared_trainings(config, spec) for spec in _comparisons(config))
    of_figures = (figure_trainings(config, spec) for spec in config.figures.values())
    behind_scores = training_paths(config, {run for run, _, _ in all_needs(config)})
    return sorted(set(behind_scores).union(*of_tables, *of_figures))


def shown_counts(config: Config) -> list[str]:
    """The sizes of the corpora, where a table shows them."""
    return corpus_counts(config) if any(map(compare_specs.reads_corpora, _comparisons(config))) else []


def compared_digest(config: Config) -> str:
    """The runs and recipes that stand in comparisons."""
    return digest([comparison_digest(config, spec) for spec in _comparisons(config)])


def _comparisons(config: Config) -> list[dict]:
    return [spec for spec in config.tables.values() if "compare" in spec]


def is_whole(config: Config) -> bool:
    """Is the whole document built, and not a choice of papers or items?"""
    return config.settings.get("papers") is None and config.settings.get("items") is None


def select_claims(config: Config, read: list[dict]) -> list[dict]:
    """Beside a choice of items those claims that rest on nothing else: a part of the document computes no more than its
    tables and figures do."""
    if is_whole(config):
        return read
    found = {need for spec in config.specs.values() for need in needs(config, spec)}
    trained = set(with_ancestors(config, {run for run, _, _ in found}))
    chosen = []
    for claim in _tested(config, read):
        alone = {key: value for key, value in claim.items() if key != "control"}
        if {trained_run(config, run) for run in claims.runs_of(claim)} <= trained:
            chosen += [own for own in (claim, alone) if set(claim_needs(config, [own])) <= found][:1]
    return chosen


def scales_beside(config: Config) -> list[str]:
    """The other scales whose claims are shown beside those of this one."""
    shown = config.settings.get("claims", {}).get("scales", [])
    return [scale for scale in shown if scale != config.scale_name] if config.scale_name in shown else []


def folder_beside(config: Config, scale: str) -> str:
    """Where the scores of another scale are: `reference` where it keeps any, else `results`."""
    return "reference" if (config.root / f"reference/scores/{scale}").is_dir() else "results"


def claims_digest(config: Config) -> str:
    """What the claims of another scale rest on beside its own file and its scores: every run and task as written."""
    return digest([config.runs, config.tasks])


def measured_languages(config: Config, measure: claims.Measure) -> list[str]:
    """Those of a claim that this scale evaluates."""
    return [code for code in task_languages(config, measure.task) if code in measure.languages]


def cost_unknown(config: Config, run: str) -> str | None:
    """Why nobody can say what a run cost: what its authors spent on a checkpoint is in no file."""
    for name in lineage(config, run) if run in config.runs else ():
        if config.runs[name]["kind"] == "checkpoint":
            return f"{name} is a checkpoint: what it cost is not known"
    return None


def layer_here(config: Config, measure: claims.Measure) -> int:
    """A layer of the paper's model at its relative depth in the model of this scale."""
    return _nearest_layer(config, measure.run, *measure.depth)


def _nearest_layer(config: Config, run: str, layer: int, of: int) -> int:
    return int(layer / of * resolve_run(config, run)["model"]["layers"] + 0.5)


def links_here(config: Config, claim: dict) -> list[claims.Link]:
    """What has to hold for a claim, with states read as deep as the paper reads them, and not as the tables here."""
    return [_as_deep_as_the_paper(config, link) for link in claims.links_of(claim, config.tasks)]


def _as_deep_as_the_paper(config: Config, link: claims.Link) -> claims.Link:
    better, than = (
        replace(
            side,
            measures=tuple((weight, replace(one, layer=_papers_layer(config, one))) for weight, one in side.measures),
        )
        for side in link.sides
    )
    return replace(link, better=better, than=than)


def _papers_layer(config: Config, measure: claims.Measure) -> int | None:
    """The layer that the recipe of the run says, which has it of the paper; None where the scale reads it too, where a
    setting trains the layer of the tables, and where the claim names layers, or held-out pairs do."""
    overrides = config.scale.get("task_overrides", {}).get(measure.task, {}).get("recipe", {})
    if measure.depth is not None or "layer" not in overrides or config.runs[measure.run]["kind"] == "aligner":
        return None
    if measure.setting in bitext_settings(config, measure.task):
        return None
    own = config.runs[measure.run].get("finetune_recipe", "default")
    recipes = config.tasks[measure.task]["recipes"]
    written = recipes[own if own in recipes else "default"]
    job = setting_jobs(config, measure.task, measure.setting)[0]
    here = resolve_recipe(config, measure.task, job, recipe_of(config, measure.run))["recipe"]
    if "layer" not in here:
        return None
    papers, tables = (_nearest_layer(config, measure.run, one["layer"], one["of"]) for one in (written, here))
    return papers if papers != tables else None


def untestable(config: Config, claim: dict) -> str | None:
    """Why this scale cannot test a claim, whatever is trained."""
    if reason := claim.get("by_construction"):
        return reason
    for run in claims.runs_of(claim):
        if run in config.not_here:
            return not_here(config, run)
        if claims.kind_of(claim) == "cost" and (reason := cost_unknown(config, run)):
            return reason
        if run in config.pretrained and not hash_of(config, run):
            return f"this scale has not the data that run {run} is trained on"
    cost = claim.get("cost", {})
    equal_steps = "steps" in config.scale.get("run_overrides", {}).get("schedule", {})
    if "reach" in cost and len(cost["runs"]) == 1 and equal_steps:
        return "the scale gives all runs as many steps, so what they cost beside each other is its choice"
    for link in claims.links_of(claim, config.tasks):
        for measure in claims.measures_of([link]):
            if reason := unfit(config, measure.run, measure.task, measure.setting):
                return reason
            present = measured_languages(config, measure)
            if not present or not has_pairs(config, measure.task, measure.setting):
                return f"this scale has no data of {measure.task}, {measure.setting}, in the languages of the claim"
            if measure.gap and ("en" not in present or len(present) < 2):
                return f"a gap needs English and another language, and this scale has {', '.join(present)}"
        if _seen_here(config, link.better) == _seen_here(config, link.than):
            return _why_equal(config, link)
    return None


def _seen_here(config: Config, side: claims.Side) -> list:
    """What a side of a claim is at this scale: equal for two sides that differ in the paper alone."""
    if not side.measures:
        return [trained_run(config, run) for run in lineage(config, side.run)]
    return [
        (
            canonical_run(config, one.run, one.task),
            *(one.task, one.setting, one.metric, one.direction, one.share),
            layer_here(config, one) if one.depth else None,
        )
        for _, one in side.measures
    ]


def _why_equal(config: Config, link: claims.Link) -> str:
    if link.better.run != link.than.run:
        return f"{link.better.run} and {link.than.run} are one and the same run here"
    (_, one), (_, other) = link.better.measures[0], link.than.measures[0]
    if one.depth != other.depth:
        layers = f"layers {one.depth[0]} and {other.depth[0]} of {one.depth[1]}"
        return f"{layers} are both layer {layer_here(config, one)} of the model here"
    return "both sides of the claim are one and the same"


def claim_needs(config: Config, chosen: Iterable[dict] | None = None) -> list[tuple[str, str, str]]:
    """The (run, task, setting) behind the claims, as `needs` has them: of those that this scale can test and all of
    whose runs are trained here, with their controls. A claim trains no run for its own sake."""
    found = set()
    for claim in _tested_with_controls(config, chosen):
        for one in claims.measures_of(claims.links_of(claim, config.tasks)):
            if on_request(config, one.run, one.task, one.setting):
                continue
            jobs = setting_jobs(config, one.task, one.setting, measured_languages(config, one))
            found |= {(canonical_run(config, one.run, one.task), one.task, job) for job in jobs}
    return sorted(found)


def claim_trainings(config: Config, chosen: Iterable[dict] | None = None) -> list[str]:
    """The files of trainings that say what the sides of the claims cost: of their runs and of what these start from."""
    named = {run for claim in _tested_with_controls(config, chosen) for run in claims.runs_of(claim)}
    runs = with_ancestors(config, named & {*config.pretrained})
    seeds = pretrain_seeds(config)
    return existing(config, [training_path(config, run, seed) for run in runs for seed in seeds])


def claim_paths(config: Config) -> list[str]:
    """The score files that claims read."""
    twice = [claim for claim in config.claims if looked_at_twice(config, claim)]
    more = second_look(config) if twice else config
    return sorted({*paths_of_needs(config, claim_needs(config)), *paths_of_needs(more, claim_needs(more, twice))})


def looked_at_twice(config: Config, claim: dict) -> bool:
    """Has it more seeds in the reference than the others, because with theirs it was undecided?"""
    kept = config.from_reference and not config.settings.get("seeds")
    return kept and claim["id"] in (config.scale.get("second_look") or {}).get("claims", [])


def second_look(config: Config) -> Config:
    """The same with the seeds of a second look beside those of the first."""
    seeds = [*config.seeds, *config.scale["second_look"]["seeds"]]
    return replace(config, settings={**config.settings, "seeds": seeds})


def _tested_with_controls(config: Config, chosen: Iterable[dict] | None) -> list[dict]:
    tested = _tested(config, chosen)
    controls = [own for claim in tested if (own := claims.control_of(claim))]
    return [*tested, *_tested(config, controls)]


def _tested(config: Config, chosen: Iterable[dict] | None) -> list[dict]:
    return [
        claim
        for claim in (config.claims if chosen is None else chosen)
        if set(claims.runs_of(claim)) <= config.selected and not untestable(config, claim)
    ]
