"""Tasks and recipes at a scale: settings and their jobs, languages, files, and how a task is fine-tuned."""

from __future__ import annotations

from collections.abc import Iterable

from common.errors import UserError
from common.identity import digest
from common.pairs import pair_with_english
from common.yamlfiles import check_known, deep_merge
from plan.config import Config
from plan.runs import hash_of, resolve_run
from plan.sources import is_closed, only_open


def recipe_of(config: Config, name: str) -> str:
    """The recipe of a run's tasks; an aligner has none of its own."""
    return resolve_run(config, name).get("finetune_recipe", "default")


# What a file of a task may be, by the first word of its key; and which jobs read it.
TEST_PARTS = ("gold", "test", "foreign", "english")

DEV_PARTS = ("dev", "dev_english", "dev_foreign", "older_english", "older_foreign")  # older: before the others

HELD_OUT_PARTS = ("held_foreign", "held_english")  # pairs that choose the layer of a centred retrieval

PARTS = ("train", *TEST_PARTS, *DEV_PARTS)

TRAIN_PARTS = ("gold", "train", "dev")

# These read the states of an encoder as it is, their own or that of another task's model; the others fine-tune it, and
# retrieval does where a setting has `bitext`.
ENCODER_KINDS = ("retrieval", "mining", "alignment")


def train_languages(how: dict, languages: list[str], of_task: list[str]) -> list[str]:
    """The languages whose training files a setting reads: for `all` those that are evaluated, and always English."""
    if how.get("model"):
        return []
    if how["train"] == "all":
        return [code for code in of_task if code in languages or code == "en"]
    return list(languages) if how["train"] == "each" else list(how["train"])


def expand_datasets(
    config: Config, sources: dict[str, str], by_part: dict[str, list[str]], shown: str
) -> dict[str, str]:
    """{part or part-language: id}; `by_part` has the languages of each part.

    {language} in a key stands for each language of its part, {l3} in an id for its code in column tatoeba. A language
    that is named in a key goes before the template, and goes where it is not wanted.
    """
    expanded = {}
    for key, id_ in sorted(sources.items(), key=lambda item: "{" not in item[0]):
        part, _, language = key.partition("-")
        if part not in by_part:
            continue
        if not language:
            expanded[key] = id_
        elif language != "{language}":
            if language in by_part[part]:
                expanded[key] = id_
        else:
            for code in by_part[part]:
                l3 = config.languages[code].tatoeba
                if "{l3}" in id_ and not l3:
                    raise UserError(f"{shown}, datasets.{key}: {code} has no code in column tatoeba of languages.tsv")
                expanded[f"{part}-{code}"] = id_.replace("{language}", code).replace("{l3}", l3)
    return dict(sorted(expanded.items()))


def task_languages(config: Config, task: str, codes: Iterable[str] | None = None) -> list[str]:
    """The languages of a task that this scale evaluates, in the order of the task."""
    wanted = codes if codes is not None else config.scale.get("evaluation_languages") or config.scale.get("languages")
    of_task = config.scale.get("task_overrides", {}).get(task, {}).get("languages", config.tasks[task]["languages"])
    chosen = [code for code in of_task if wanted is None or code in wanted]
    if not only_open(config):
        return chosen
    return [code for code in chosen if not any(is_closed(config, id_) for id_ in _files_of(config, task, code))]


def sources_of(config: Config, task: str) -> dict[str, str]:
    """The files of a task, or those that the scale gives it instead."""
    overrides = config.scale.get("task_overrides", {}).get(task, {})
    return overrides.get("datasets", config.tasks[task]["datasets"])


def _files_of(config: Config, task: str, code: str) -> list[str]:
    """The files that a score of one language rests on: its own, and English ones of training."""
    by_part = {part: [code] for part in PARTS} | {"train": ["en"], "dev": ["en"]}
    return list(expand_datasets(config, sources_of(config, task), by_part, f"task {task}").values())


def without_training(config: Config, task: str, setting: str) -> list[str]:
    """The languages that a setting trains on and that the files which the scale gives the task do not have."""
    how, sources = config.tasks[task]["settings"][setting], sources_of(config, task)
    if sources is config.tasks[task]["datasets"] or {"gold", "train", "train-{language}"} & set(sources):
        return []
    wanted = train_languages(how, task_languages(config, task), config.tasks[task]["languages"])
    return [code for code in wanted if f"train-{code}" not in sources]


def gold_datasets(config: Config, task: str, languages: list[str]) -> list[str]:
    """Ids of the files that hold a task's gold in these languages."""
    sources, shown = sources_of(config, task), f"config/tasks/{task}.yaml"
    of_parts = dict.fromkeys((*TEST_PARTS, *DEV_PARTS), languages)
    return sorted(set(expand_datasets(config, sources, of_parts, shown).values()))


def recipe_datasets(resolved: dict, parts: Iterable[str]) -> list[str]:
    """Ids of the files of a resolved recipe that a job reads."""
    parts = tuple(parts)
    return sorted({id_ for key, id_ in resolved["datasets"].items() if key.partition("-")[0] in parts})


def setting_jobs(config: Config, task: str, setting: str, shown: Iterable[str] | None = None) -> list[str]:
    """A setting as jobs: itself, or one of each language (that is shown) where each has a model of its own."""
    if config.tasks[task]["settings"][setting]["train"] != "each":
        return [setting]
    return [f"{setting}-{code}" for code in task_languages(config, task) if shown is None or code in shown]


def setting_of_job(config: Config, task: str, job: str) -> tuple[str, str | None]:
    """(setting, language) of a name of `setting_jobs`; the language only where each has a model of its own."""
    settings = config.tasks[task]["settings"]
    if job in settings:
        return job, None
    setting, _, code = job.rpartition("-")
    if is_job(config, task, job):
        return setting, code
    check_known(job, settings, f"config/tasks/{task}.yaml, settings", "setting")
    raise AssertionError(job)


def is_job(config: Config, task: str, job: str) -> bool:
    """Is it a name of `setting_jobs` today? A file of results may be of a setting that was renamed since."""
    settings = config.tasks[task]["settings"]
    setting, _, code = job.rpartition("-")
    of_language = settings.get(setting, {}).get("train") == "each" and code in config.tasks[task]["languages"]
    return job in settings or of_language


def trained_as(config: Config, task: str, job: str) -> tuple[str, str] | None:
    """(task, setting) of the fine-tuned weights that predict; None where the pre-trained encoder does."""
    setting, _ = setting_of_job(config, task, job)
    model = config.tasks[task]["settings"][setting].get("model")
    if model:
        return model["task"], model["setting"]
    if config.tasks[task]["kind"] in ENCODER_KINDS and job not in bitext_settings(config, task):
        return None
    return task, job


def bitext_settings(config: Config, task: str) -> list[str]:
    """The settings of a task that are fine-tuned on sentence pairs, and not on a training part."""
    return [setting for setting, how in config.tasks[task]["settings"].items() if "bitext" in how]


def translation_corpora(config: Config, corpora: list[str]) -> list[str]:
    """Those that the scale has."""
    if not config.has_world:
        return sorted(corpora)
    return sorted(set(corpora) & set(config.scale["world"].get("translation", {}).get("corpora", [])))


def recipe_bitext(config: Config, run: str, languages: list[str]) -> dict:
    """The sentence pairs of a run at this scale, of these languages with English."""
    data = resolve_run(config, run)["data"].get("bitext", {}) if hash_of(config, run) else {}
    pairs = {pair_with_english(code) for code in languages if code != "en"}
    corpora = {pair: names for pair, names in data.get("corpora", {}).items() if pair in pairs}
    return {"run": run, "alpha": data.get("alpha", 1.0), "corpora": corpora}


def held_out_of(config: Config, centre: dict, languages: list[str]) -> dict[str, list[str]]:
    """{language: ids of its side and of the English one} of the pairs that choose a layer, those that the scale has."""
    if config.has_world and "translation" not in config.scale["world"]:
        return {}
    return {
        code: files
        for code, files in centre.get("held_out", {}).items()
        if code in languages and not (only_open(config) and any(is_closed(config, id_) for id_ in files))
    }


def resolve_recipe(config: Config, task: str, job: str, recipe: str) -> dict:
    """How one task is fine-tuned and scored at this scale: results/<scale>/recipes/<task>/<setting>/<recipe>.yaml."""
    key = (task, job, recipe)
    if key not in config._recipes:
        config._recipes[key] = _resolve_recipe(config, *key)
    return config._recipes[key]


REPLACED = ("datasets", "counts")  # a scale gives a task other files, and with them other counts


def _resolve_recipe(config: Config, task: str, job: str, recipe: str) -> dict:
    check_known(task, config.tasks, "config/tasks", "task")
    definition = config.tasks[task]
    shown = f"config/tasks/{task}.yaml"
    setting, own_language = setting_of_job(config, task, job)
    recipes = definition["recipes"]
    name = recipe if recipe in recipes else "default"
    check_known(name, recipes, f"{shown}, recipes", "recipe")
    chosen = recipes[name] or {}
    by_setting = (chosen.get("settings") or {}).get(setting) or {}
    how = definition["settings"][setting]
    resolved = {key: value for key, value in definition.items() if key not in ("settings", "recipes")}
    resolved |= {
        "setting": job,
        "train_limit": None,
        "recipe": {
            **deep_merge({key: value for key, value in chosen.items() if key != "settings"}, by_setting),
            "name": name,
        },
    }
    overrides = config.scale.get("task_overrides", {}).get(task, {})
    resolved = deep_merge(resolved, overrides) | {key: overrides[key] for key in REPLACED if key in overrides}
    resolved["languages"] = [own_language] if own_language else task_languages(config, task)
    by_setting = resolved["recipe"].pop("settings", {}).get(setting, {})
    resolved["recipe"] = deep_merge(resolved["recipe"], by_setting)
    if isinstance(limits := resolved["train_limit"], dict):
        resolved["train_limit"] = limits.get(setting, limits.get("*"))
    if how.get("model"):
        resolved["model"] = dict(how["model"])
    if own_language == "en":  # nothing to switch to: English is what the others are translated from
        resolved["recipe"].pop("code_switch", None)
    resolved["train_languages"] = train_languages(how, resolved["languages"], definition["languages"])
    if definition["kind"] == "translation":
        resolved["bitext"] = {"corpora": translation_corpora(config, definition["bitext"])}
        if len(resolved["bitext"]["corpora"]) == 0:
            raise UserError(
                f"config/scales/{config.scale_name}.yaml, world.translation.corpora: none of {task}'s corpora "
                f"({', '.join(definition['bitext'])}); name one of them"
            )
    if "bitext" in how:
        resolved["bitext"] = recipe_bitext(config, how["bitext"], resolved["languages"])
        with_english = {code for pair in resolved["bitext"]["corpora"] for code in pair.split("-")}
        resolved["train_languages"] = [code for code in resolved["languages"] if code in with_english]
    if "centre" in how:
        corpora = recipe_bitext(config, how["centre"]["run"], resolved["languages"])["corpora"]
        resolved["languages"] = [code for code in resolved["languages"] if pair_with_english(code) in corpora]
        held_out = held_out_of(config, how["centre"], resolved["languages"])
        resolved["centre"] = how["centre"] | {"corpora": corpora, "held_out": sorted(held_out)}
        for key in ("layer", "of"):  # it is chosen on the pairs
            resolved["recipe"].pop(key, None)
    by_part = dict.fromkeys(PARTS, resolved["languages"])
    switched = ["en"] if resolved["recipe"].get("code_switch") else []
    by_part["train"] = [*resolved["train_languages"], *switched]
    if resolved["recipe"].get("selection") == "en_dev":
        by_part["dev"] = ["en"]
    resolved["datasets"] = expand_datasets(config, resolved["datasets"], by_part, shown)
    if "centre" in how:
        for code, files in held_out.items():
            resolved["datasets"] |= {f"{part}-{code}": id_ for part, id_ in zip(HELD_OUT_PARTS, files, strict=True)}
    if how.get("pairs"):
        own = resolved["languages"]
        resolved["languages"] = [f"{context}-{question}" for context in own for question in own]
    return resolved


def recipe_key(config: Config, run: str, task: str, job: str) -> str:
    return f"{task}/{job}/{recipe_of(config, run)}"


def recipe_digest(config: Config, run: str, task: str, job: str) -> str:
    return digest(resolve_recipe(config, task, job, recipe_of(config, run)))[:16]
