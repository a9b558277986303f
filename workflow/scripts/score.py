"""Score predictions against gold. Knows no model; needs no package but PyYAML, and for translations
sacrebleu and sacremoses.

The job form scores a folder that predict.py wrote, against the upstream files:
  score.py --recipe RECIPE --predictions FOLDER --raw RAW --out SCORE.json
By hand, anyone's file in XTREME's submission format, or of one translation a line, against an upstream or an XTREME
label file, or a reference of one segment a line:
  score.py --task TASK --language L --gold GOLD --predictions FILE --out SCORE.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from common.atomic import check_folder, check_sum, write_sealed
from common.errors import UserError, run_main
from engine import bleu
from engine.alignments import Alignment, diagonal_chance
from engine.answers import first_words_chance
from engine.metrics import Measure, accuracy, flatten, majority, nothing, one_of_n, shuffled_tags
from plan.datasets import DATASETS_TSV
from report.scores import BY_UPDATE, packed_items
from tasks import tatoeba, word_alignment
from tasks.known import TASKS, measure_of, task_module
from tasks.said import check_language

if TYPE_CHECKING:
    from tasks.recipe import Recipe

CHANCES = {
    "majority": majority,
    "shuffled-tags": shuffled_tags,
    "one-of-n": one_of_n,
    "first-words": first_words_chance,
    "diagonal": diagonal_chance,
    "nothing": nothing,
}
FROM_PREDICTIONS = ("run", "task", "setting", "seed", "pretrain_seed", "scale", "task_version", "run_hash", "commit")


def main() -> None:
    args = parse_arguments()
    content = score_folder(args) if args.recipe else score_file(args)
    write_sealed(args.out, content)
    for one in [] if args.recipe else content["scores"]:  # by hand
        print(f"{one['language']} {one['metric']} {one['value']:.2f} of {one['n']} items (chance {one['chance']:.2f})")


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", required=True, help="folder of predict.py, or one file (by hand)")
    parser.add_argument("--out", required=True, help="score JSON to write")
    job = parser.add_argument_group("job form")
    job.add_argument("--recipe", help="resolved recipe (YAML)")
    job.add_argument("--raw", help="folder of downloads, laid out <host>/<path>")
    job.add_argument("--datasets", default=DATASETS_TSV, help="table of sources (default: %(default)s)")
    job.add_argument(
        "--counts",
        choices=("upstream", "any"),
        default="any",
        help="upstream: the gold files must have the row counts of the task's YAML (default: %(default)s)",
    )
    hand = parser.add_argument_group("by hand")
    hand.add_argument("--task", choices=sorted(TASKS), help="what the files are")
    hand.add_argument("--language", help="project language code, e.g. de")
    hand.add_argument(
        "--gold",
        help="upstream archive or file of the task (XNLI-1.0.zip, a .conllu, xquad.de.json), or XTREME's label file",
    )
    args = parser.parse_args()
    if empty := [f"--{name}" for name, value in vars(args).items() if value == ""]:  # as of a shell's unset variable
        parser.error(f"{', '.join(empty)}: an empty name; give the name of a file")
    needed = ("recipe", "raw") if args.recipe or args.raw else ("task", "language", "gold")
    missing = [f"--{name}" for name in needed if getattr(args, name) is None]
    if missing:
        parser.error(f"{', '.join(missing)} missing; give --recipe and --raw, or --task, --language and --gold")
    return args


def score_folder(args: SimpleNamespace) -> dict:
    from tasks.recipe import load_recipe, raw_paths  # reads the tables of sources, which scoring by hand does not need

    recipe = load_recipe(args.recipe)
    folder = Path(args.predictions)
    described = read_description(folder, recipe)
    module = task_module(recipe.task)
    paths = raw_paths(recipe, args.raw, args.datasets)
    for path in sorted(set(paths.values())):  # those of training and dev too: the number rests on them
        check_sum(path, "delete it, download it again, and do again what has read it")
    test = module.read_test(paths, recipe.languages, recipe.expected("test", args.counts == "upstream"))
    metrics = {metric: recipe.chance[metric] for metric in recipe.metrics}
    scores, items = [], {}
    for language in recipe.languages:
        check_inputs(folder, described, language, module.inputs_of(test[language]))
        gold = module.gold_of(test[language])
        ending = "txt" if recipe.kind == "translation" else "tsv"
        predictions = module.read_predictions(folder / f"test-{language}.{ending}", gold)
        where = f"{recipe.task} test of {language}"
        if recipe.kind == "retrieval":
            by_layer = tatoeba.read_layer_predictions(folder / f"layers-{language}.tsv", gold)
            scores += retrieval_entries(language, gold, by_layer, described["layer"])
            both = [by_layer[direction, described["layer"]] for direction in tatoeba.DIRECTIONS]
            items[language] = items_of_directions(recipe.task, gold, both)
            if by_layer["en-xx", described["layer"]] != predictions:
                raise UserError(f"{folder}: test-{language}.tsv and layers-{language}.tsv disagree; predict again")
        elif recipe.kind == "alignment" and described["layers"] is not None:
            by_layer = word_alignment.read_layer_predictions(folder / f"layers-{language}.tsv", gold)
            if by_layer[described["layer"]] != predictions:
                raise UserError(f"{folder}: test-{language}.tsv and layers-{language}.tsv disagree; predict again")
            scores += alignment_entries(metrics, language, gold, by_layer, described["layer"])
        else:
            scores += entries(recipe.task, metrics, language, gold, predictions, where)
        if recipe.kind != "retrieval":
            items |= items_of_task(recipe.task, language, gold, predictions)
        if recipe.kind == "translation":
            scores += validation_entries(folder, described, language)
    return {
        **{key: described.get(key) for key in FROM_PREDICTIONS},
        "dtype": described.get("dtype"),
        "selection": described.get("selection"),
        "signature": signature(recipe, described),
        **({"centred": described["centred"] | {"layer": described["layer"]}} if recipe.centre else {}),
        "scores": scores,
        **({"items": items} if items else {}),
    }


def items_of_task(task: str, language: str, gold: list, predictions: list) -> dict:
    """What each test item adds to the headline metric; nothing for BLEU, which is no ratio of sums."""
    name, metric = next(iter(task_module(task).METRICS.items()))
    if metric.shares is None:
        return {}
    return {language: {name: packed_items(metric.shares(gold, predictions))}}


def items_of_directions(task: str, gold: list[int], found: list[list[int]]) -> dict:
    """Of a sentence pair both directions together."""
    name, metric = next(iter(task_module(task).METRICS.items()))
    columns = [metric.shares(gold, predictions) for predictions in found]
    pairs = [tuple(map(sum, zip(*of_item, strict=True))) for of_item in zip(*columns, strict=True)]
    return {name: packed_items(pairs)}


def score_file(args: SimpleNamespace) -> dict:
    module = task_module(args.task)
    check_language(args.task, args.language, args.gold, args.predictions)
    metrics = {name: metric.chance for name, metric in module.METRICS.items()}
    gold = module.read_gold(args.gold, args.language)
    predictions = module.read_predictions(args.predictions, gold)
    scores = entries(args.task, metrics, args.language, gold, predictions, args.gold)
    described = {"signature": f"{bleu.signature()}|{bleu.TOKENISED}"} if "sacrebleu" in metrics else {}
    return {"task": args.task, **described, "scores": scores}


def read_description(folder: Path, recipe: Recipe) -> dict:
    path = folder / "predictions.json"
    check_folder(folder, "delete the folder and predict again")
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the folder that predict.py wrote") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); predict again") from None
    for key, expected in (
        ("task", recipe.task),
        ("setting", recipe.setting),
        ("task_version", recipe.version),
        ("split", "test"),
    ):
        if described.get(key) != expected:
            raise UserError(
                f"{path}, {key}: {described.get(key)!r}, but the recipe asks for {expected!r}; predict again"
            )
    return described


def check_inputs(folder: Path, described: dict, language: str, expected: str) -> None:
    """The predictions were made for exactly the sentences that the gold labels belong to."""
    found = described.get("languages", {}).get(language, {}).get("inputs_sha256")
    if found is None:
        raise UserError(f"{folder}/predictions.json, languages.{language}: missing; predict again with this recipe")
    if found != expected:
        raise UserError(
            f"{folder}/predictions.json, languages.{language}: made for other sentences than the gold file holds "
            "(another split, or the files have changed since); predict again"
        )


def entries(task: str, metrics: dict[str, str], language: str, gold: list, predictions: list, where: str) -> list[dict]:
    """One score per metric, with what chance reaches on the same gold."""
    flat_gold = flatten(gold)
    # Accuracy beside another headline metric is told by its chance level alone: a UD test set may have one tag.
    if next(iter(metrics.values())) == "majority" and len(set(flat_gold)) < 2:
        raise UserError(
            f"{where}: {len(flat_gold)} gold labels, all {flat_gold[0]!r}; a constant answer would score 100"
        )
    found = []
    for name, chance in metrics.items():
        measure = measure_of(task, name)
        level = chance_level(chance, measure, gold)
        n = (
            len(gold) if task == "bucc" else len(flat_gold)
        )  # pairs of ids are single answers, tags of a sentence are not
        found.append(entry(language, name, measure(gold, predictions), n, level))
    return found


def chance_level(name: str, measure: Measure, gold: list) -> float:
    if name not in CHANCES:
        raise UserError(f"chance: {name!r} is unknown; use {', '.join(CHANCES)}")
    return CHANCES[name](measure, gold)


def retrieval_entries(
    language: str, gold: list[int], by_layer: dict[tuple[str, int], list[int]], layer: int
) -> list[dict]:
    """The mean of both directions at the task's layer, and each direction at every layer."""
    n, chance = len(gold), 100 / len(gold)
    values = {key: accuracy(gold, predictions) for key, predictions in sorted(by_layer.items())}
    both = sum(values[direction, layer] for direction in tatoeba.DIRECTIONS) / 2
    return [
        entry(language, "accuracy", both, n, chance, layer, "both"),
        *(
            entry(language, "accuracy-by-layer", value, n, chance, of_layer, direction)
            for (direction, of_layer), value in values.items()
        ),
    ]


def alignment_entries(
    metrics: dict[str, str], language: str, gold: list[Alignment], by_layer: list[list], layer: int
) -> list[dict]:
    """Each metric at the task's layer, and the headline one at every layer."""
    of_layer = [entries("word-alignment", metrics, language, gold, found, language) for found in by_layer]
    chosen = [{**one, "layer": layer} for one in of_layer[layer]]
    headline = chosen[0]["metric"]
    return chosen + [
        {**own[0], "metric": f"{headline}-by-layer", "layer": number} for number, own in enumerate(of_layer)
    ]


def validation_entries(folder: Path, described: dict, language: str) -> list[dict]:
    """sacreBLEU of the dev part at each snapshot of training: the test part is translated by the last model alone."""
    about = described["languages"][language]
    for key in ("validation", "validation_n"):
        if not about.get(key):
            raise UserError(f"{folder}/predictions.json, languages.{language}.{key}: missing; translate again")
    return [
        entry(language, f"sacrebleu{BY_UPDATE}", one["sacrebleu"], about["validation_n"], None)
        | {"update": one["update"], "epoch": one["epoch"]}
        for one in about["validation"]
    ]


def entry(
    language: str,
    metric: str,
    value: float,
    n: int,
    chance: float | None,
    layer: int | None = None,
    direction: str | None = None,
) -> dict:
    scored = {"language": language, "metric": metric, "value": value, "n": n, "chance": chance}
    return {**scored, "layer": layer, "direction": direction}


def signature(recipe: Recipe, described: dict) -> str:
    """Everything that two scores must share to be comparable, in one line."""
    parts = [recipe.metric]
    if described.get("aligner"):
        return "|".join([*parts, f"aligner={described['aligner']}", f"version={recipe.version}"])
    if recipe.kind == "translation":
        parts += [
            bleu.signature(),
            bleu.TOKENISED,
            *(f"{key}={described[key]}" for key in ("beam", "penalty", "averaged")),
        ]
        parts.append("curve=greedy")
    elif recipe.kind == "alignment":
        parts += [
            f"layer={described['layer']}/{described['layers']}",
            f"transport={recipe.recipe.iterations}{'/clamped' if recipe.recipe.clamp else ''}",
        ]
    elif recipe.kind in ("retrieval", "mining"):
        layer = "chosen" if recipe.centre else described["layer"]
        parts += [f"layer={layer}/{described['layers']}", "pooling=mean"]
        if recipe.centre:
            chosen = "+".join(recipe.centre["held_out"]) or "own"
            parts.append(f"centred={recipe.centre['run']}/{recipe.centre['pairs']}/{chosen}")
        parts += ["similarity=cosine" if recipe.kind == "retrieval" else f"margin=ratio/{recipe.recipe.neighbours}"]
    elif not recipe.model:
        parts += [f"dev={recipe.recipe.selection.removesuffix('_dev')}", f"train={'+'.join(recipe.train_languages)}"]
    if recipe.bitext:
        parts += [f"train={'+'.join(recipe.train_languages)}"]
    if recipe.model:
        parts += [f"model={recipe.model['task']}/{recipe.model['setting']}"]
    if recipe.kind == "question-answering":
        parts.append(f"windows={recipe.recipe.stride}/{recipe.recipe.max_query}/{recipe.recipe.max_answer}")
    parts += [f"max={described['max_length']}", f"recipe={described['recipe']}", f"version={recipe.version}"]
    return "|".join(parts)


if __name__ == "__main__":
    run_main(main)
