"""Clean one shard of a bitext: keep pairs that translate each other, count and list the others by reason."""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from common.atomic import write_json
from common.errors import UserError, run_main
from corpus.characters import CharacterClasses, Characters, characters_of, normalise_lines, spaced_words
from corpus.cleaning import (
    Duplicates,
    Verdicts,
    load_eval_index,
    load_near_index,
    open_language_id,
    script_of,
    write_rejects,
)
from corpus.corpusio import (
    Batch,
    BitextThresholds,
    add_config_arguments,
    load_thresholds,
    read_batches,
    read_header,
    zst_writer,
)
from corpus.duplicates import EXACT, SKELETON
from corpus.language_id import LanguageId, wrong_language
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles
from corpus.pair_model import PairModel, load
from corpus.textfilters import copied, is_broken, is_empty, long_word, too_many_symbols, unequal_lengths, wrong_script
from corpus.words import words_of

Side = tuple[CharacterClasses, LanguageId | None, str]  # the language's script, its identifier and label there


def judge(
    batch: Batch,
    sides: list[tuple[list[str], np.ndarray]],
    languages: tuple[Side, Side],
    duplicates: Duplicates,
    index: EvalIndex,
    model: PairModel,
    limits: BitextThresholds,
    near: NearIndex | None = None,
) -> tuple[Verdicts, list[Characters]]:
    """The verdicts of pairs, and the characters of both sides; `sides` are lines and their codes."""
    words = [words_of(*side) for side in sides]
    characters = [
        characters_of(side, classes, codes) for (side, codes), (classes, _, _) in zip(sides, languages, strict=True)
    ]
    a, b = words
    repeats = duplicates.reasons(np.array(batch.places, np.uint64))
    verdicts = Verdicts(len(batch))

    def either(flags: list[np.ndarray]) -> np.ndarray:
        return flags[0] | flags[1]

    verdicts.reject("empty", either([is_empty(side) for side in characters]))
    verdicts.reject("broken-encoding", either([is_broken(side) for side in characters]))
    verdicts.reject("too-short", either([side.counts < limits.shortest_words for side in words]))
    verdicts.reject("too-long", either([side.counts > limits.longest_words for side in words]))
    verdicts.reject("symbols", either([too_many_symbols(side, limits.symbol_share) for side in characters]))
    verdicts.reject("long-word", either([long_word(side, limits.longest_word) for side in words]))
    verdicts.reject("copied", copied(a, b, limits.copy_words))
    verdicts.reject(
        "length-ratio",
        unequal_lengths(a.counts, b.counts, model.log_length_ratio, limits.length_ratio, limits.length_slack),
    )
    verdicts.reject("script", either([wrong_script(side, limits.script_share) for side in characters]))
    verdicts.reject("duplicate", (repeats & EXACT) != 0)
    verdicts.reject("skeleton-duplicate", (repeats & SKELETON) != 0)
    verdicts.reject("test-sentence", either([leaked(side, index) for side in words]))
    verdicts.reject("near-test-sentence", either([resembles(side, near) for side in words]))
    verdicts.reject("misaligned", model.gain(a, b) < limits.pair_gain * model.usual_gain)
    for (side, _), (_, language_id, label) in zip(sides, languages, strict=True):
        if language_id is not None:
            verdicts.reject("language", wrong_language(side, verdicts.open, language_id, label, limits.own_language))
    return verdicts, characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=Path, required=True, help="a shard made by split_corpus bitext")
    parser.add_argument("--duplicates", type=Path, required=True, help="its duplicates, made by find_duplicates")
    parser.add_argument("--language-id", type=Path, required=True, help="fastText model")
    parser.add_argument("--eval-index", type=Path, required=True, help="made by index_eval_sets")
    parser.add_argument("--eval-signatures", type=Path, help="made by it too, to find near duplicates")
    parser.add_argument("--pair-model", type=Path, required=True, help="made by train_pair_model")
    parser.add_argument("--pair", required=True, help="two project codes, such as de-en")
    parser.add_argument("--languages", default="config/languages.tsv", help="table of languages (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="clean pairs, .tsv.zst: side a, tab, side b")
    parser.add_argument("--counts", type=Path, required=True, help="JSON of counts per reason")
    parser.add_argument("--rejects", type=Path, required=True, help=".tsv.zst: upstream file, line, reason")
    add_config_arguments(parser)
    args = parser.parse_args()
    codes = args.pair.split("-")
    if len(codes) != 2:
        raise UserError(f"--pair {args.pair}: write two language codes joined by '-'")
    limits = load_thresholds(args.config, "bitext", args.overrides)
    candidates = load_thresholds(args.config, "language_id", args.overrides).candidates
    languages = tuple(
        (
            CharacterClasses(script_of(code, args.languages)),
            *open_language_id(args.language_id, code, args.languages, candidates),
        )
        for code in codes
    )
    duplicates, index, model = Duplicates(args.duplicates), load_eval_index(args.eval_index), load(args.pair_model)
    near = load_near_index(args.eval_signatures, args.config, args.overrides)
    files = read_header(args.shard).files
    rejected: Counter[str] = Counter()
    counts = Counter(pairs_in=0, pairs=0, words=0, characters=0)
    with zst_writer(args.out) as out, zst_writer(args.rejects) as rejects:
        for batch in read_batches(args.shard, "bitext"):
            sides = [normalise_lines(batch.texts), normalise_lines(batch.others)]
            verdicts, characters = judge(batch, sides, languages, duplicates, index, model, limits, near)
            rejected.update(write_rejects(rejects, files, batch.places, verdicts))
            (a, _), (b, _) = sides
            out.writelines(f"{a[i]}\t{b[i]}\n" for i in np.flatnonzero(verdicts.open).tolist())
            counts["pairs_in"] += len(batch)
            counts["pairs"] += int(verdicts.open.sum())
            for side in characters:
                counts["characters"] += int(side.total[verdicts.open].sum())
                counts["words"] += int(spaced_words(side)[verdicts.open].sum())
    write_json(
        args.counts,
        {
            "kind": "bitext",
            "pair": args.pair,
            "language_id": {
                code: label if identifier else None
                for code, (_, identifier, label) in zip(codes, languages, strict=True)
            },
            "in": {"documents": counts["pairs_in"], "sentences": 2 * counts["pairs_in"]},
            "out": {
                "documents": counts["pairs"],
                "sentences": 2 * counts["pairs"],
                "words": counts["words"],
                "characters": counts["characters"],
            },
            "rejected": dict(rejected),
        },
    )
    print(f"{counts['pairs']} of {counts['pairs_in']} pairs kept; rejected: {dict(sorted(rejected.items()))}")


if __name__ == "__main__":
    run_main(main)
