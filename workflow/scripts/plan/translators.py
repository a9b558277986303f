"""The runs that train translation models from the weights of others, by the recipe of a task."""

from __future__ import annotations

from collections.abc import Iterable

from common.errors import UserError
from common.identity import run_hash
from common.pairs import pair_with_english
from plan.config import Config
from plan.objectives import options_of, with_decoder
from plan.recipes import recipe_of, resolve_recipe, translation_corpora
from plan.runs import resolve_run, trained_run

DECODER = {"start": "fresh", "layers": 6}  # where a run says nothing: "the most normal", VECO section 5.1


def decoder_of(config: Config, name: str) -> dict:
    """The decoder of a run's translation models at this scale: layers, and what they start from: own, its objective's;
    last or first, copies of so many layers with their cross-attention; or fresh."""
    run, resolved = config.runs[name], resolve_run(config, name)
    for objective in resolved["objectives"]:
        if objective["name"] in with_decoder():
            return {"start": "own", "layers": options_of(objective, f"config/runs/{name}.yaml").decoder_layers}
    decoder = {**DECODER, **run.get("decoder", {})}
    layers = round(decoder["layers"] * resolved["model"]["layers"] / run["model"]["layers"])
    return {**decoder, "layers": max(1, layers)}


def pair_of(task: dict) -> str:
    """The language pair of a task of translation, as corpora name it."""
    return pair_with_english(task["languages"][0])


def _check_translator(how: dict, parent: dict, where: str) -> None:
    for small, large in (("average", "snapshots"), ("snapshots", "steps"), ("warmup_steps", "steps")):
        if how[small] > how[large]:
            raise UserError(f"{where}.{small}: {how[small]} is more than {large}, {how[large]}; lower it")
    if how["row_length"] > (places := parent["model"]["positions"] - 2):
        raise UserError(f"{where}.row_length: {how['row_length']}, and the model has {places} places; lower it")


def resolve_translator(config: Config, name: str, task: str, setting: str) -> dict:
    """The run that trains a translation model from the weights of a run, by the task's recipe:
    results/<scale>/translators/<run>/<task>/<setting>/run.yaml. The engine trains it like any other.
    """
    parent, decoder = resolve_run(config, name), decoder_of(config, name)
    resolved = resolve_recipe(config, task, setting, recipe_of(config, name))
    how = resolved["recipe"]
    corpora = {pair_of(config.tasks[task]): resolved["bitext"]["corpora"]}
    _check_translator(how, parent, f"config/tasks/{task}.yaml or the scale's task_overrides.{task}, recipe")
    same = {"own": [], "fresh": ["decoder"]}.get(decoder["start"])
    init = {"run": trained_run(config, name), "run_hash": run_hash(parent)[:16]}
    init |= {"decoder": decoder["start"]} if same is None else {"fresh": same}
    return {
        "name": f"{name}@{task}",
        "kind": "pretrain",
        "numerics": how["numerics"],
        "data": {"bitext": {"corpora": corpora, "alpha": 1.0}},
        "model": {**parent["model"], "dropout": how["dropout"], "attention_dropout": how["attention_dropout"]},
        "objectives": [
            {
                "name": "translation",
                "options": {
                    "decoder_layers": decoder["layers"],
                    "label_smoothing": how["label_smoothing"],
                    "source": "en",
                    "most_tokens": min(2 * how["max_length"], how["row_length"]) - 4,
                },
            }
        ],
        "batch": {key: how[key] for key in ("rows", "row_length", "device_rows")},
        "optimizer": {key: how[key] for key in ("peak_lr", "betas", "eps", "weight_decay", "clip")},
        "schedule": {"steps": how["steps"], "warmup_steps": how["warmup_steps"], "decay": "linear"},
        "checkpoint": {
            "every_steps": how["save_every"],
            "keep": 2,
            "snapshots": how["snapshots"],
            "average": how["average"],
        },
        "init": init,
        "precision": how["precision"],
    }


FROM_WEIGHTS = "pretrained-init"  # the setting of translation that starts from a run


def data_of_translator(config: Config, task: str) -> list[tuple[str, str]]:
    """The (corpus, pair) that the translation models of a task are trained on."""
    pair = pair_of(config.tasks[task])
    return [(corpus, pair) for corpus in translation_corpora(config, config.tasks[task]["bitext"])]


def translators(config: Config, found: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Of (run, task, setting) those that a translation model is trained for."""
    return [need for need in found if config.tasks[need[1]]["kind"] == "translation"]
