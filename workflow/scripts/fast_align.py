"""Align words without a model: fast_align (engine/ibm2.py), learnt from clean sentence pairs and the test sentences.

Links nothing but the test sentences and reads no gold; that they are learnt from is usual, as nobody has linked them.
Writes the folder that predict.py writes, whole or not at all. Nothing is drawn: every seed has the same links.

Words are lower-cased. Those of the test sets are what white space separates; those of the corpora too, and there each
mark at either end of one (Unicode's P and S) is a word of its own, since the test sets have a space before the full
stop. What a tokeniser does inside a word (French elisions, hyphens) is left as it is, and a language that is written
without spaces would need a segmenter: the task has none.
"""

import argparse
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace

from common.atomic import atomic_folder, write_json
from common.errors import UserError, run_main
from common.identity import commit_id, run_hash
from common.pairs import pair_with_english
from common.yamlfiles import read_resolved
from corpus.corpusio import read_lines
from engine import ibm2
from plan.datasets import DATASETS_TSV
from tasks import word_alignment
from tasks.recipe import Recipe, load_recipe, raw_paths

ALIGNER = "fast_align+grow-diag-final-and"  # for the signature of the scores


def main() -> None:
    args = parse_arguments()
    run = read_run(args.run_file)
    recipe = load_recipe(args.recipe)
    if recipe.kind != "alignment" or recipe.model:
        raise UserError(f"{args.recipe}: {recipe.task}, {recipe.setting}: an aligner has links of words and no weights")
    paths = raw_paths(recipe, args.raw, args.datasets)
    test = word_alignment.read_test(paths, recipe.languages, recipe.expected("test", args.counts == "upstream"))
    texts = by_pair(args.bitext)
    limit = run.get("data", {}).get("bitext", {}).get("limit")
    with atomic_folder(args.out) as folder:
        described = {}
        for language in recipe.languages:
            examples = test[language]
            beside = corpus_pairs(texts, language, limit)
            links = ibm2.align(test_pairs(examples), beside)
            word_alignment.write_predictions(folder / f"test-{language}.tsv", links)
            described[language] = {"n": len(examples.gold), "inputs_sha256": word_alignment.inputs_of(examples)}
            described[language]["pairs_beside"] = len(beside)
            print(f"{recipe.task} {language}: {len(links)} aligned beside {len(beside)} pairs", flush=True)
        write_json(folder / "predictions.json", describe(args, run, recipe, described))


def parse_arguments() -> SimpleNamespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run-file", required=True, type=Path, help="resolved run of kind aligner")
    parser.add_argument("--recipe", required=True, help="resolved recipe (YAML) of word-alignment")
    parser.add_argument("--raw", required=True, help="folder of downloads, laid out <host>/<path>")
    parser.add_argument(
        "--bitext", nargs="*", type=Path, default=[], help="clean pairs, <corpus>/<pair>/<shard>.clean.tsv.zst"
    )
    parser.add_argument("--scale", required=True, help="name of the scale, for the record")
    parser.add_argument("--seed", required=True, type=int, help="evaluation seed, for the record")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--datasets", default=DATASETS_TSV, help="table of sources (default: %(default)s)")
    parser.add_argument(
        "--counts",
        choices=("upstream", "any"),
        default="any",
        help="upstream: the test sets must have the row counts of the task's YAML (default: %(default)s)",
    )
    return parser.parse_args()


def read_run(path: Path) -> dict:
    run = read_resolved(path)
    if not isinstance(run, dict) or run.get("kind") != "aligner":
        raise UserError(f"{path}, kind: not aligner; a run that is pre-trained predicts by predict.py")
    return run


def by_pair(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Language pair -> its files in the order given."""
    found: dict[str, list[Path]] = {}
    for path in files:
        found.setdefault(path.parent.name, []).append(path)
    return found


def corpus_pairs(texts: dict[str, list[Path]], language: str, limit: int | None) -> list[ibm2.Pair]:
    """The first `limit` pairs of a language with English, in the order of the test sets' sides."""
    pair = pair_with_english(language)
    swapped = pair != word_alignment.FOLDERS[language]
    lines = chain.from_iterable(map(read_lines, texts.get(pair, [])))
    found = []
    for line in islice(lines, limit):
        one, _, other = line.partition("\t")
        found.append((words(other), words(one)) if swapped else (words(one), words(other)))
    return found


def test_pairs(examples: word_alignment.Aligned) -> list[ibm2.Pair]:
    """The links count the words as they stand here."""
    return [
        (one.lower().split(), other.lower().split()) for one, other in zip(examples.first, examples.second, strict=True)
    ]


def words(text: str) -> list[str]:
    """White-space words, lower-cased, each mark at either end of one as a word of its own."""
    found: list[str] = []
    for word in text.lower().split():
        start, end = 0, len(word)
        while start < end and is_mark(word[start]):
            start += 1
        while start < end and is_mark(word[end - 1]):
            end -= 1
        found += [*word[:start], *([word[start:end]] if start < end else []), *word[end:]]
    return [*map(sys.intern, found)]  # of a corpus in memory each word once


@cache
def is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def describe(args: SimpleNamespace, run: dict, recipe: Recipe, languages: dict[str, dict]) -> dict:
    return {
        "run": run["name"],
        "scale": args.scale,
        "seed": args.seed,
        "pretrain_seed": None,
        "task": recipe.task,
        "task_version": recipe.version,
        "setting": recipe.setting,
        "recipe": recipe.recipe.name,
        "max_length": None,
        "split": "test",
        "run_hash": run_hash(run)[:16],
        "commit": commit_id(),
        "dtype": None,
        "layers": None,
        "layer": None,
        "aligner": ALIGNER,
        "selection": None,
        "languages": languages,
    }


if __name__ == "__main__":
    run_main(main)
