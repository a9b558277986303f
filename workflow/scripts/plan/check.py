"""Checks across files: what a scale and a run may say. A schema sees one file alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from common.errors import UserError
from common.pairs import pair_with_english
from common.yamlfiles import check_known
from engine.options import DESCRIPTIONS
from plan.checkpoints import HUB, WEIGHTS, checkpoint_ids
from plan.config import COMMAND_LINE, Config
from plan.datasets import bitext_ids, mono_ids
from plan.objectives import OBJECTIVE_DATA, WITH_CROSS_ATTENTION, deepest, options_of, with_decoder
from plan.runs import data_languages, lineage, not_here
from plan.schemas import Schemas
from plan.sources import check_sources


def select(settings: dict, specs: dict[str, dict]) -> dict[str, dict]:
    papers, items = settings.get("papers"), settings.get("items")
    return {
        item: spec
        for item, spec in specs.items()
        if (papers is None or spec["paper"] in papers)
        and (items is None or item in items)
        and (settings.get("engine", True) or "diagram" not in spec)
    }


def check_filters(config: Config, specs: dict[str, dict], written: str, overridden: Iterable[str]) -> None:
    settings = config.settings
    shown = {key: COMMAND_LINE if key in overridden else written for key in ("papers", "items", "runs")}
    for index, paper in enumerate(settings.get("papers") or []):
        check_known(paper, {spec["paper"] for spec in specs.values()}, f"{shown['papers']}, papers[{index}]", "paper")
    for index, item in enumerate(settings.get("items") or []):
        check_known(item, specs, f"{shown['items']}, items[{index}]", "table or figure")
    chosen = settings.get("runs")
    for index, run in enumerate([] if chosen == "all" else chosen or []):
        check_known(run, config.runs, f"{shown['runs']}, runs[{index}]", "run")
    if specs and not select(settings, specs):
        if select(settings | {"engine": True}, specs):
            raise UserError(f"{shown['items']}, items and engine: the engine draws these; take engine=false out")
        raise UserError(f"{shown['items']}, papers and items: no table or figure is of both; take one of the two out")


# A scale shrinks a run; it does not make another one of it. `schedule.first` shrinks with the steps.
WHAT_A_RUN_IS = {
    "": ("name", "extends", "paper", "kind", "data", "objectives", "init", "decoder"),
    "model": ("layers_share", "absolute_positions", "token_types", "languages", "relative_bias", "admin"),
    "schedule": ("steps_share", "alternate", "first"),
}


RULES = Path(__file__).resolve().parents[2] / "rules"


@cache
def rule_scripts() -> frozenset[str]:
    """The scripts that rules run: a rule's resources stand under the name of its script."""
    text = "".join(path.read_text(encoding="utf-8") for path in RULES.glob("*.smk"))
    return frozenset(re.findall(r"workflow/scripts/(\w+)\.py", text))


@cache
def names_in(file: str, table: str) -> tuple[str, ...]:
    """The names in a table of a module of workflow/scripts that takes longer to load than all of the plan."""
    text = (RULES.parent / "scripts" / file).read_text(encoding="utf-8")
    listed = re.search(rf"^{table}(?:: .*?)? = \{{$(.*?)^\}}$", text, re.MULTILINE | re.DOTALL)
    return tuple(re.findall(r'^    "([\w-]+)": ', listed[1], re.MULTILINE))


def check_declared(objective: str, where: str) -> None:
    """Who adds an objective names it in four places; its training would tell, after all that it rests on."""
    for file, table in (("engine/objectives/__init__.py", "OBJECTIVES"), ("engine/cost.py", "PASSES")):
        if objective not in names_in(file, table):
            raise UserError(f"{where}: '{objective}' is not in {table} of workflow/scripts/{file}; add it there")
    about, shown = DESCRIPTIONS[objective], f"workflow/scripts/engine/options.py, DESCRIPTIONS, '{objective}'"
    check_known(about.data, ("mono", "bitext"), shown, "kind of data")
    check_known(about.form, names_in("engine/forms.py", "FORMS"), shown, "form")


def check_scale(config: Config, schemas: Schemas, shown: str) -> None:
    scale = config.scale
    schemas.check(scale.get("run_overrides", {}), "run", f"{shown}, run_overrides", partial=True)
    for section, keys in WHAT_A_RUN_IS.items():
        overrides = scale.get("run_overrides", {})
        for key in keys:
            if key in (overrides.get(section, {}) if section else overrides):
                where = f"{shown}, run_overrides.{section + '.' if section else ''}{key}"
                raise UserError(f"{where}: a scale does not change what a run is; remove the key")
    if "finetune_recipe" in scale.get("run_overrides", {}):
        where = f"{shown}, run_overrides.finetune_recipe"
        check_recipe_name(config, scale["run_overrides"]["finetune_recipe"], where)
    for index, run in enumerate(scale.get("runs") or []):
        check_known(run, config.runs, f"{shown}, runs[{index}]", "run")
    for rule in scale.get("resources", {}):
        check_known(rule, rule_scripts(), f"{shown}, resources", "rule")
    for objective, changes in scale.get("objective_overrides", {}).items():
        where = f"{shown}, objective_overrides"
        check_known(objective, OBJECTIVE_DATA, where, "objective")
        schemas.check({"objectives": [changes]}, "run", f"{where}.{objective}", partial=True)
        options_of({"name": objective, **changes}, f"{where}.{objective}")
    for task, changes in scale.get("task_overrides", {}).items():
        own = {key: changes[key] for key in ("datasets", "counts", "languages") if key in changes}
        own["recipes"] = {"default": changes.get("recipe", {})}
        schemas.check(own, "task", f"{shown}, task_overrides.{task}", partial=True)
    vocabulary = scale["vocabulary"]
    if sum(key in vocabulary for key in ("given", "size", "of")) != 1:
        raise UserError(
            f"{shown}, vocabulary: give one of 'given' (a dataset id), 'size' (to train one) and 'of' (a run of kind "
            "checkpoint, for its tokenizer)"
        )
    if "of" in vocabulary:
        check_known(
            vocabulary["of"],
            [name for name, run in config.runs.items() if run["kind"] == "checkpoint"],
            f"{shown}, vocabulary.of",
            "run of kind checkpoint",
        )
        if vocabulary["of"] not in config.imported:
            raise UserError(f"{shown}, vocabulary.of: {not_here(config, vocabulary['of'])}; take one in a folder")
    for key in ("sentences", "character_coverage") if "size" in vocabulary else ():
        if key not in vocabulary:
            raise UserError(f"{shown}, vocabulary: key '{key}' is missing, which a vocabulary to train needs")
    for key, id_ in (("vocabulary.given", vocabulary.get("given")), ("language_id", scale["language_id"])):
        if id_ not in (None, "trained"):
            check_known(id_, config.datasets, f"{shown}, {key}", "dataset")
    world = scale.get("world")
    if world:
        for code in world["languages"]:
            check_known(code, config.languages, f"{shown}, world.languages", "language")
        for key in ("languages", "evaluation_languages"):
            for index, code in enumerate(scale.get(key) or []):
                check_known(code, world["languages"], f"{shown}, {key}[{index}]", "language of the world")
        if not scale["languages"]:
            raise UserError(f"{shown}, languages: a scale with a world lists its languages")
        for index, corpus in enumerate(world.get("translation", {}).get("corpora", [])):
            known = {own for task in config.tasks.values() for own in task.get("bitext", [])}
            check_known(corpus, known, f"{shown}, world.translation.corpora[{index}]", "corpus of a translation task")
        for code, corpora in world["bitext"].items():
            check_known(code, world["languages"], f"{shown}, world.bitext", "language of the world")
            for index, corpus in enumerate(corpora):
                where = f"{shown}, world.bitext.{code}[{index}]"
                located(config, where, bitext_ids, corpus, pair_with_english(code))
    for index, code in enumerate(scale.get("languages") or []):
        check_known(code, config.languages, f"{shown}, languages[{index}]", "language")
    check_sources(config, shown)
    for name in scale.get("left_out", {}):
        check_known(name, {*config.tasks, *config.runs}, f"{shown}, left_out", "task or run")
    settings = {f"{name}/{setting}" for name, task in config.tasks.items() for setting in task["settings"]}
    for name in scale.get("on_request", {}):
        check_known(name, {*config.tasks, *settings}, f"{shown}, on_request", "task, or task/setting")
    for task in scale.get("task_overrides", {}):
        check_known(task, config.tasks, f"{shown}, task_overrides", "task")


def check_recipe_name(config: Config, name: str, where: str) -> None:
    """A task without a recipe of this name takes its default; one that no task has is a slip."""
    check_known(name, {recipe for task in config.tasks.values() for recipe in task["recipes"]}, where, "recipe")


def check_run(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    data = run.get("data", {})
    mono, bitext = data.get("mono"), data.get("bitext")
    if mono:
        for index, code in enumerate(mono["languages"]):
            where = f"{shown}, data.mono.languages[{index}]"
            check_known(code, config.languages, where, "language")
            located(config, where, mono_ids, mono["corpus"], code)
    if bitext:
        for pair, corpora in bitext["corpora"].items():
            codes = pair.split("-")
            for code in codes:
                check_known(code, config.languages, f"{shown}, data.bitext.corpora.{pair}", "language")
            if codes != sorted(set(codes)):
                raise UserError(
                    f"{shown}, data.bitext.corpora.{pair}: write the two codes in alphabetical order, "
                    f"'{'-'.join(sorted(set(codes)))}'"
                )
            for index, corpus in enumerate(corpora):
                where = f"{shown}, data.bitext.corpora.{pair}[{index}]"
                located(config, where, bitext_ids, corpus, pair)
    if run["kind"] == "pretrain":
        _check_pretraining(config, name)
    elif run["kind"] == "checkpoint":
        _check_checkpoint(config, name)


def _check_checkpoint(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    check_recipe_name(config, run["finetune_recipe"], f"{shown}, finetune_recipe")
    if len({"hub", "folder"} & set(run["source"])) != 1:
        raise UserError(f"{shown}, source: give either 'hub' (a name on the hub) or 'folder', not both")
    folder = run["source"].get("folder", "")
    if strange := next((letter for letter in folder if letter in "{}" or not letter.isprintable()), None):
        raise UserError(
            f"{shown}, source.folder: {folder!r} holds {strange!r}, which no rule can name; rename the folder"
        )
    if hub := run["source"].get("hub"):
        ids = checkpoint_ids(config, hub)
        if f"{HUB}{hub}/config.json" not in ids or not any(id_.endswith(WEIGHTS) for id_ in ids):
            raise UserError(
                f"{shown}, source.hub: config/datasets.tsv lacks files of {hub}; give it a row for each file that the "
                f"model needs (config.json, model.safetensors or pytorch_model.bin, and the tokenizer's), the first "
                f"with id {HUB}{hub}/config.json and url https://huggingface.co/{hub}/resolve/main/config.json"
            )


def _check_pretraining(config: Config, name: str) -> None:
    run, shown = config.runs[name], f"config/runs/{name}.yaml"
    data = run.get("data", {})
    check_recipe_name(config, run["finetune_recipe"], f"{shown}, finetune_recipe")
    for index, objective in enumerate(run["objectives"]):
        where = f"{shown}, objectives[{index}]"
        check_declared(objective["name"], where)
        kind = OBJECTIVE_DATA[objective["name"]]
        if kind not in data:
            raise UserError(
                f"{where}: objective '{objective['name']}' reads {kind} data but the run has no data.{kind}; "
                "add it, or remove the objective"
            )
        if (length := deepest(objective, where)) > run["model"]["layers"]:
            raise UserError(
                f"{where}.options: asks for layer {length} of a model with {run['model']['layers']}; lower it"
            )
        mask = objective["mask"]
        if abs(mask["mask"] + mask["random"] + mask["keep"] - 1) > 1e-9:
            raise UserError(f"{where}.mask: mask + random + keep must be 1")
    _check_decoder(run, shown)
    names = [objective["name"] for objective in run["objectives"]]
    if len(names) != len(set(names)):
        raise UserError(f"{shown}, objectives: '{max(names, key=names.count)}' stands twice; raise its weight instead")
    if run["model"]["width"] % run["model"]["heads"]:
        raise UserError(
            f"{shown}, model.heads: {run['model']['heads']} does not divide the width {run['model']['width']}"
        )
    if bool(run["objectives"]) != (run["schedule"]["steps"] > 0):
        raise UserError(f"{shown}, schedule.steps: a run with objectives has steps, a run without has 0")
    if (first := run["schedule"].get("first")) and first["steps"] >= run["schedule"]["steps"]:
        raise UserError(f"{shown}, schedule.first.steps: the first phase must end before schedule.steps does")
    codes = data_languages(data)
    if run["model"].get("languages", 0) not in (0, len(codes)):
        raise UserError(
            f"{shown}, model.languages: is {run['model']['languages']} but data names {len(codes)} languages; "
            "one vector per language"
        )
    lineage(config, name)


def _check_decoder(run: dict, shown: str) -> None:
    """Where a translation model of this run takes its decoder from exists."""
    decoder = run.get("decoder", {})
    if decoder.get("layers", 1) > run["model"]["layers"]:
        raise UserError(
            f"{shown}, decoder.layers: {decoder['layers']} of a model with {run['model']['layers']}; lower it"
        )
    names = {objective["name"] for objective in run["objectives"]}
    if decoder.get("start", "fresh") != "fresh" and not names & set(WITH_CROSS_ATTENTION):
        raise UserError(
            f"{shown}, decoder.start: '{decoder['start']}' layers become a decoder only with cross-attention, which "
            f"the objectives {', '.join(WITH_CROSS_ATTENTION)} train; write fresh"
        )
    if decoder and names & with_decoder():
        raise UserError(f"{shown}, decoder: its objective trains a decoder, which translates; remove the key")


def located(config: Config, where: str, find: Callable[..., list[str]], corpus: str, code: str) -> None:
    """Does config/datasets.tsv have this corpus there? Looked up once for all runs."""
    found = config.derived.setdefault("located", set())
    if (find, corpus, code) in found:
        return
    try:
        find(corpus, code, config.datasets, config.languages)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    found.add((find, corpus, code))
