"""Clean one shard of monolingual text: keep good lines in their documents, count and list the others by reason."""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from common.atomic import write_json
from common.errors import run_main
from corpus.characters import CharacterClasses, Characters, characters_of, normalise_lines, spaced_words
from corpus.cleaning import (
    Duplicates,
    Verdicts,
    load_eval_index,
    load_near_index,
    open_language_id,
    script_of,
    spread_over_documents,
    write_rejects,
)
from corpus.corpusio import (
    Batch,
    MonoThresholds,
    add_config_arguments,
    load_thresholds,
    read_batches,
    read_header,
    zst_writer,
)
from corpus.duplicates import EXACT, SKELETON
from corpus.language_id import LanguageId, wrong_language
from corpus.likeness import EvalIndex, NearIndex, leaked, resembles
from corpus.textfilters import (
    is_broken,
    is_empty,
    long_word,
    repetitive,
    too_long,
    too_many_numbers,
    too_many_symbols,
    too_short,
    wrong_script,
)
from corpus.words import words_of


@dataclass(frozen=True)
class Rules:
    """What a line is held against: thresholds, and what they ask about."""

    limits: MonoThresholds
    classes: CharacterClasses
    language_id: LanguageId | None
    label: str
    index: EvalIndex
    near: NearIndex | None = None


def judge(
    batch: Batch, texts: list[str], codes: np.ndarray, duplicates: Duplicates, rules: Rules
) -> tuple[Verdicts, Characters]:
    limits, language_id, label = rules.limits, rules.language_id, rules.label
    words, characters = words_of(texts, codes), characters_of(texts, rules.classes, codes)
    repeats = duplicates.reasons(np.array(batch.places, np.uint64))
    verdicts = Verdicts(len(texts))
    verdicts.reject("empty", is_empty(characters))
    verdicts.reject("broken-encoding", is_broken(characters))
    verdicts.reject("symbols", too_many_symbols(characters, limits.symbol_share))
    verdicts.reject("numbers", too_many_numbers(words, limits.number_share))
    verdicts.reject("too-short", too_short(characters, words, limits.shortest_characters, limits.shortest_words))
    verdicts.reject("too-long", too_long(characters, words, limits.longest_characters, limits.longest_words))
    verdicts.reject("long-word", long_word(words, limits.longest_word))
    verdicts.reject("repetitive", repetitive(words, limits.distinct_share, limits.distinct_words))
    verdicts.reject("script", wrong_script(characters, limits.script_share))
    verdicts.reject("near-duplicate", spread_over_documents(repeats, np.array(batch.starts, np.int64)))
    verdicts.reject("duplicate", (repeats & EXACT) != 0)
    verdicts.reject("skeleton-duplicate", (repeats & SKELETON) != 0)
    verdicts.reject("test-sentence", leaked(words, rules.index))
    verdicts.reject("near-test-sentence", resembles(words, rules.near))
    if language_id is not None:
        verdicts.reject("language", wrong_language(texts, verdicts.open, language_id, label, limits.own_language))
    return verdicts, characters


def documents_of(batch: Batch, texts: list[str], kept: np.ndarray) -> Iterator[list[str]]:
    """Kept lines by document."""
    bounds = [*batch.starts, len(texts)]
    whole = np.logical_and.reduceat(kept, bounds[:-1]).tolist()
    keep = kept.tolist()
    for (begin, end), all_kept in zip(pairwise(bounds), whole, strict=True):
        yield texts[begin:end] if all_kept else [texts[i] for i in range(begin, end) if keep[i]]


def clean_shard(shard: Path, duplicates: Path, rules: Rules, out: Path, rejects: Path) -> tuple[Counter, Counter]:
    """Write the clean text and the list of rejects; return what went in and out, and the rejects by reason."""
    repeats = Duplicates(duplicates)
    files = read_header(shard).files
    rejected: Counter[str] = Counter()
    counts = Counter(lines_in=0, lines=0, documents_in=0, documents=0, words=0, characters=0)
    with zst_writer(out) as text, zst_writer(rejects) as listed:
        for batch in read_batches(shard, "mono"):
            texts, codes = normalise_lines(batch.texts)
            verdicts, characters = judge(batch, texts, codes, repeats, rules)
            rejected.update(write_rejects(listed, files, batch.places, verdicts))
            for lines in documents_of(batch, texts, verdicts.open):
                if lines:
                    text.write("\n".join(lines) + "\n\n")
                    counts["documents"] += 1
            counts["lines_in"] += len(texts)
            counts["documents_in"] += len(batch.starts)
            counts["lines"] += int(verdicts.open.sum())
            counts["characters"] += int(characters.total[verdicts.open].sum())
            counts["words"] += int(spaced_words(characters)[verdicts.open].sum())
    return counts, rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=Path, required=True, help="a shard made by split_corpus mono")
    parser.add_argument("--duplicates", type=Path, required=True, help="its duplicates, made by find_duplicates")
    parser.add_argument("--language-id", type=Path, required=True, help="fastText model")
    parser.add_argument("--eval-index", type=Path, required=True, help="made by index_eval_sets")
    parser.add_argument("--eval-signatures", type=Path, help="made by it too, to find near duplicates")
    parser.add_argument("--language", required=True, help="project code, a row of the table of languages")
    parser.add_argument("--languages", default="config/languages.tsv", help="table of languages (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="clean text, .txt.zst, empty line between documents")
    parser.add_argument("--counts", type=Path, required=True, help="JSON of counts per reason")
    parser.add_argument("--rejects", type=Path, required=True, help=".tsv.zst: upstream file, line, reason")
    add_config_arguments(parser)
    args = parser.parse_args()
    limits = load_thresholds(args.config, "mono", args.overrides)
    candidates = load_thresholds(args.config, "language_id", args.overrides).candidates
    language_id, label = open_language_id(args.language_id, args.language, args.languages, candidates)
    classes = CharacterClasses(script_of(args.language, args.languages))
    near = load_near_index(args.eval_signatures, args.config, args.overrides)
    rules = Rules(limits, classes, language_id, label, load_eval_index(args.eval_index), near)
    counts, rejected = clean_shard(args.shard, args.duplicates, rules, args.out, args.rejects)
    write_json(
        args.counts,
        {
            "kind": "mono",
            "language": args.language,
            "language_id": label if language_id else None,  # null: the model does not know the language
            "in": {"documents": counts["documents_in"], "sentences": counts["lines_in"]},
            "out": {
                "documents": counts["documents"],
                "sentences": counts["lines"],
                "words": counts["words"],
                "characters": counts["characters"],
            },
            "rejected": dict(rejected),
        },
    )
    print(f"{counts['lines']} of {counts['lines_in']} lines kept; rejected: {dict(sorted(rejected.items()))}")


if __name__ == "__main__":
    run_main(main)
