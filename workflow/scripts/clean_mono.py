"""Clean one shard of monolingual text: keep good lines in their documents, count and list the others by reason."""

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from atomic import write_json
from corpusio import (
    Batch,
    MonoThresholds,
    add_config_arguments,
    file_and_line,
    load_thresholds,
    read_batches,
    read_header,
    zst_writer,
)
from errors import UserError, run_main
from find_duplicates import DUPLICATE, EXACT, NEAR, SKELETON
from textfilters import (
    EVAL_INDEX_VERSION,
    CharacterClasses,
    LanguageId,
    characters_of,
    is_broken,
    is_empty,
    leaked,
    long_word,
    normalise,
    repetitive,
    too_long,
    too_many_numbers,
    too_many_symbols,
    too_short,
    words_of,
    wrong_language,
    wrong_script,
)

KEPT = "kept"


def load_duplicates(path: Path) -> np.ndarray:
    try:
        duplicates = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not a list of duplicates ({error}); run find_duplicates again") from None
    if duplicates.dtype != DUPLICATE:
        raise UserError(f"{path}: not a list of duplicates; run find_duplicates again")
    return duplicates


def load_eval_index(path: Path) -> np.ndarray:
    try:
        index = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not an index ({error}); run index_eval_sets again") from None
    if index.ndim != 2 or index.shape[1] != 3 or index.dtype != np.uint64 or int(index[0, 0]) != EVAL_INDEX_VERSION:
        raise UserError(f"{path}: not an index of this version; run index_eval_sets again")
    return index


def duplicate_reasons(places: np.ndarray, duplicates: np.ndarray) -> np.ndarray:
    """Reasons (L,) of the lines at `places`, 0 = none."""
    if not len(duplicates):
        return np.zeros(len(places), np.uint8)
    at = np.minimum(np.searchsorted(duplicates["place"], places), len(duplicates) - 1)
    return np.where(duplicates["place"][at] == places, duplicates["reasons"][at], 0)


def spread_over_documents(reasons: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """bool (L,): lines of documents whose first line says NEAR."""
    lengths = np.diff(np.append(starts, len(reasons)))
    return np.repeat((reasons[starts] & NEAR) != 0, lengths)


class Verdicts:
    """The first reason of each line; later filters are not asked about lines that are already out."""

    def __init__(self, lines: int):
        self.reasons = np.full(lines, KEPT, dtype=object)

    @property
    def open(self) -> np.ndarray:
        return self.reasons == KEPT

    def reject(self, reason: str, lines: np.ndarray) -> None:
        self.reasons[self.open & lines] = reason


def judge(
    batch: Batch,
    texts: list[str],
    duplicates: np.ndarray,
    index: np.ndarray,
    classes: CharacterClasses,
    language_id: LanguageId | None,
    label: str,
    limits: MonoThresholds,
) -> np.ndarray:
    """The reason of each line, or KEPT, (L,)."""
    words, characters = words_of(texts), characters_of(texts, classes)
    repeats = duplicate_reasons(np.array(batch.places, np.uint64), duplicates)
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
    verdicts.reject("test-sentence", leaked(words, index))
    if language_id is not None:
        verdicts.reject("language", wrong_language(texts, verdicts.open, language_id, label, limits.own_language))
    return verdicts.reasons


def documents_of(batch: Batch, texts: list[str], reasons: np.ndarray) -> Iterator[list[str]]:
    """Kept lines by document."""
    bounds = [*batch.starts, len(texts)]
    for begin, end in pairwise(bounds):
        yield [texts[i] for i in range(begin, end) if reasons[i] == KEPT]


def write_rejects(stream: object, files: list[str], places: list[int], reasons: np.ndarray) -> None:
    for place, reason in zip(places, reasons.tolist(), strict=True):
        if reason != KEPT:
            file, line = file_and_line(place)
            stream.write(f"{files[file]}\t{line}\t{reason}\n")


def open_language_id(path: Path, language: str, languages: str, candidates: int) -> tuple[LanguageId | None, str]:
    """The model and the language's label in it; no model where it does not know the language."""
    from datasets import load_languages

    table = load_languages(languages)
    if language not in table:
        raise UserError(f"language {language!r} is not in {languages}; add a row or correct the code")
    model = LanguageId(str(path), candidates)
    label = table[language].lid or language
    return (model, label) if model.has(label) else (None, label)


def script_of(language: str, languages: str) -> str:
    from datasets import load_languages

    return load_languages(languages)[language].script


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=Path, required=True, help="a shard made by split_corpus mono")
    parser.add_argument("--duplicates", type=Path, required=True, help="its duplicates, made by find_duplicates")
    parser.add_argument("--language-id", type=Path, required=True, help="fastText model")
    parser.add_argument("--eval-index", type=Path, required=True, help="made by index_eval_sets")
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
    duplicates, index = load_duplicates(args.duplicates), load_eval_index(args.eval_index)
    files = read_header(args.shard).files
    rejected: Counter[str] = Counter()
    counts = Counter(lines_in=0, lines=0, documents_in=0, documents=0, words=0, characters=0)
    with zst_writer(args.out) as out, zst_writer(args.rejects) as rejects:
        for batch in read_batches(args.shard, "mono"):
            texts = [normalise(text) for text in batch.texts]
            reasons = judge(batch, texts, duplicates, index, classes, language_id, label, limits)
            rejected.update(reason for reason in reasons.tolist() if reason != KEPT)
            write_rejects(rejects, files, batch.places, reasons)
            counts["lines_in"] += len(texts)
            counts["documents_in"] += len(batch.starts)
            for lines in documents_of(batch, texts, reasons):
                if not lines:
                    continue
                out.write("\n".join(lines) + "\n\n")
                counts["documents"] += 1
                counts["lines"] += len(lines)
                counts["characters"] += sum(map(len, lines))
                counts["words"] += sum(len(line.split()) for line in lines)
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
