"""Clean one shard of a bitext: keep pairs that translate each other, count and list the others by reason."""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError, run_main
from corpus.characters import Characters, characters_of, normalise_lines
from corpus.cleaning import (
    Duplicates,
    Language,
    Verdicts,
    add_input_arguments,
    add_output_arguments,
    count_kept,
    load_eval_index,
    load_near_index,
    open_language,
    write_counts,
    write_rejects,
)
from corpus.corpusio import Batch, BitextThresholds, load_thresholds, read_batches, read_header, zst_writer
from corpus.duplicates import EXACT, SKELETON
from corpus.language_id import wrong_language
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles
from corpus.pair_model import PairModel, load
from corpus.textfilters import copied, is_broken, is_empty, long_word, too_many_symbols, unequal_lengths, wrong_script
from corpus.words import words_of


@dataclass(frozen=True)
class Rules:
    """What a pair is held against: thresholds, and what they ask about."""

    limits: BitextThresholds
    languages: list[Language]  # of both sides
    index: EvalIndex
    model: PairModel
    near: NearIndex | None


def judge(
    batch: Batch, sides: list[tuple[list[str], np.ndarray]], duplicates: Duplicates, rules: Rules
) -> tuple[Verdicts, list[Characters]]:
    """The verdicts of pairs, and the characters of both sides; `sides` are lines and their codes."""
    limits, index, model = rules.limits, rules.index, rules.model
    words = [words_of(*side) for side in sides]
    characters = [
        characters_of(lines, language.classes, codes)
        for (lines, codes), language in zip(sides, rules.languages, strict=True)
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
    verdicts.reject("near-test-sentence", either([resembles(side, rules.near) for side in words]))
    verdicts.reject("misaligned", model.gain(a, b) < limits.pair_gain * model.usual_gain)
    for (lines, _), (_, language_id, label) in zip(sides, rules.languages, strict=True):
        if language_id is not None:
            verdicts.reject("language", wrong_language(lines, verdicts.open, language_id, label, limits.own_language))
    return verdicts, characters


def clean_shard(shard: Path, duplicates: Path, rules: Rules, out: Path, rejects: Path) -> tuple[Counter, Counter]:
    """Write the clean pairs and the list of rejects; return what went in and out, and the rejects by reason."""
    repeats = Duplicates(duplicates)
    files = read_header(shard).files
    rejected: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with zst_writer(out) as text, zst_writer(rejects) as listed:
        for batch in read_batches(shard, "bitext"):
            sides = [normalise_lines(batch.texts), normalise_lines(batch.others)]
            verdicts, characters = judge(batch, sides, repeats, rules)
            rejected.update(write_rejects(listed, files, batch.places, verdicts))
            (a, _), (b, _) = sides
            text.writelines(f"{a[i]}\t{b[i]}\n" for i in np.flatnonzero(verdicts.open).tolist())
            pairs = int(verdicts.open.sum())
            counts.update(documents_in=len(batch), sentences_in=2 * len(batch), documents=pairs, sentences=2 * pairs)
            for side in characters:
                count_kept(counts, side, verdicts.open)
    return counts, rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_input_arguments(parser, "bitext")
    parser.add_argument("--pair-model", type=Path, required=True, help="made by train_pair_model")
    parser.add_argument("--pair", required=True, help="two project codes, such as de-en")
    add_output_arguments(parser, "clean pairs, .tsv.zst: side a, tab, side b")
    args = parser.parse_args()
    codes = args.pair.split("-")
    if len(codes) != 2:
        raise UserError(f"--pair {args.pair}: write two language codes joined by '-'")
    limits = load_thresholds(args.config, "bitext", args.overrides)
    languages = [open_language(args, code) for code in codes]
    index, model = load_eval_index(args.eval_index), load(args.pair_model)
    near = load_near_index(args.eval_signatures, args.config, args.overrides)
    rules = Rules(limits, languages, index, model, near)
    counts, rejected = clean_shard(args.shard, args.duplicates, rules, args.out, args.rejects)
    labels = {code: language.identified_as() for code, language in zip(codes, languages, strict=True)}
    cleaned = {"kind": "bitext", "pair": args.pair, "language_id": labels}
    write_counts(args.counts, cleaned, counts, rejected)
    kept = f"{counts['documents']} of {counts['documents_in']} pairs kept"
    print(f"{kept}; rejected: {dict(sorted(rejected.items()))}")


if __name__ == "__main__":
    run_main(main)
