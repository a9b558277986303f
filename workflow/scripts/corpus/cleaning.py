"""What cleaning text and cleaning pairs share: arguments, verdicts, duplicates, evaluation index, languages, counts."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from common.atomic import check_sum, write_json
from common.errors import UserError
from corpus.characters import CharacterClasses, Characters, spaced_words
from corpus.corpusio import add_config_arguments, file_and_line, load_thresholds
from corpus.duplicates import DUPLICATE, NEAR
from corpus.language_id import LanguageId
from corpus.likeness import EVAL_INDEX_VERSION, EvalIndex, NearIndex

KEPT = "kept"
REMADE = "delete it, and the clean text that was made with it, and run again"
_DUPLICATES = 1 << 16  # read at once


def add_input_arguments(parser: ArgumentParser, kind: str) -> None:
    parser.add_argument("--shard", type=Path, required=True, help=f"a shard made by split_corpus {kind}")
    parser.add_argument("--duplicates", type=Path, required=True, help="its duplicates, made by find_duplicates")
    parser.add_argument("--language-id", type=Path, required=True, help="fastText model")
    parser.add_argument("--eval-index", type=Path, required=True, help="made by index_eval_sets")
    parser.add_argument("--eval-signatures", type=Path, help="made by it too, to find near duplicates")


def add_output_arguments(parser: ArgumentParser, out: str) -> None:
    parser.add_argument("--languages", default="config/languages.tsv", help="table of languages (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help=out)
    parser.add_argument("--counts", type=Path, required=True, help="JSON of counts per reason")
    parser.add_argument("--rejects", type=Path, required=True, help=".tsv.zst: upstream file, line, reason")
    add_config_arguments(parser)


class Duplicates:
    """The duplicates of a shard, read along with it: a list of them is as long as the shard."""

    def __init__(self, path: Path):
        try:
            with open(path, "rb") as stream:
                np.lib.format.read_magic(stream)
                (self.left,), _, dtype = np.lib.format.read_array_header_1_0(stream)
                self.begin = stream.tell()
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{path}: not a list of duplicates ({error}); run find_duplicates again") from None
        if dtype != DUPLICATE or path.stat().st_size != self.begin + self.left * DUPLICATE.itemsize:
            raise UserError(f"{path}: not a list of duplicates; run find_duplicates again")
        self.path = path
        self.places = np.zeros(0, np.uint64)
        self.found = np.zeros(0, np.uint8)

    def reasons(self, places: np.ndarray) -> np.ndarray:
        """Reasons (L,) of the lines at `places`, which go on after the last ones that were asked for; 0 = none."""
        while self.left and (not len(self.places) or self.places[-1] < places[-1]):
            count = min(self.left, _DUPLICATES)
            more = np.fromfile(self.path, DUPLICATE, count, offset=self.begin)
            passed = np.searchsorted(self.places, places[0])
            self.places = np.concatenate([self.places[passed:], more["place"]])
            self.found = np.concatenate([self.found[passed:], more["reasons"]])
            self.begin += count * DUPLICATE.itemsize
            self.left -= count
        if not len(self.places):
            return np.zeros(len(places), np.uint8)
        at = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where(self.places[at] == places, self.found[at], 0)


def load_eval_index(path: Path) -> EvalIndex:
    check_sum(path, REMADE)
    try:
        index = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not an index ({error}); run index_eval_sets again") from None
    if index.ndim != 2 or index.shape[1] != 3 or index.dtype != np.uint64 or int(index[0, 0]) != EVAL_INDEX_VERSION:
        raise UserError(f"{path}: not an index of this version; run index_eval_sets again")
    return EvalIndex(index)


def load_near_index(path: Path | None, config: Path, overrides: str | None) -> NearIndex | None:
    """Nothing where the thresholds look for no near duplicates of test sentences."""
    similarity = load_thresholds(config, "decontamination", overrides).similarity
    if path is None or not similarity:
        return None
    shingles = load_thresholds(config, "duplicates", overrides)
    check_sum(path, REMADE)
    try:
        signatures = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: no signatures ({error}); run index_eval_sets again") from None
    if signatures.dtype != np.uint32 or signatures.shape[1:] != (shingles.bands * shingles.rows,):
        raise UserError(f"{path}: not signatures of {shingles.bands} bands; run index_eval_sets again")
    return NearIndex(signatures, shingles, similarity)


def spread_over_documents(reasons: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """bool (L,): lines of documents whose first line says NEAR."""
    lengths = np.diff(np.append(starts, len(reasons)))
    return np.repeat((reasons[starts] & NEAR) != 0, lengths)


class Verdicts:
    """The first reason of each line; later filters are not asked about lines that are already out."""

    def __init__(self, lines: int):
        self.reason = np.zeros(lines, np.uint8)  # number in `names`
        self.names = [KEPT]

    @property
    def open(self) -> np.ndarray:
        return self.reason == 0

    def reject(self, reason: str, lines: np.ndarray) -> None:
        self.reason[self.open & lines] = len(self.names)
        self.names.append(reason)

    def rejected(self) -> Iterator[tuple[int, str]]:
        """(line, reason) of those that are out, in their order."""
        out = np.flatnonzero(self.reason)
        yield from zip(out.tolist(), (self.names[number] for number in self.reason[out].tolist()), strict=True)


def write_rejects(stream: TextIO, files: list[str], places: list[int], verdicts: Verdicts) -> Counter[str]:
    counts: Counter[str] = Counter()
    for i, reason in verdicts.rejected():
        file, line = file_and_line(places[i])
        stream.write(f"{files[file]}\t{line}\t{reason}\n")
        counts[reason] += 1
    return counts


def open_language_id(path: Path, language: str, languages: str, candidates: int) -> tuple[LanguageId | None, str]:
    """The model and the language's label in it; no model where it does not know the language."""
    from plan.datasets import load_languages

    table = load_languages(languages)
    if language not in table:
        raise UserError(f"language {language!r} is not in {languages}; add a row or correct the code")
    check_sum(path, REMADE)
    model = LanguageId(str(path), candidates)
    label = table[language].lid or language
    return (model, label) if model.has(label) else (None, label)


def script_of(language: str, languages: str) -> str:
    from plan.datasets import load_languages

    return load_languages(languages)[language].script


class Language(NamedTuple):
    classes: CharacterClasses
    identifier: LanguageId | None
    label: str

    def identified_as(self) -> str | None:
        """None where the model does not know the language."""
        return self.label if self.identifier else None


def open_language(args: Namespace, code: str) -> Language:
    candidates = load_thresholds(args.config, "language_id", args.overrides).candidates
    identifier, label = open_language_id(args.language_id, code, args.languages, candidates)
    return Language(CharacterClasses(script_of(code, args.languages)), identifier, label)


def count_kept(counts: Counter[str], characters: Characters, kept: np.ndarray) -> None:
    counts["characters"] += int(characters.total[kept].sum())
    counts["words"] += int(spaced_words(characters)[kept].sum())


def write_counts(path: Path, cleaned: dict, counts: Counter[str], rejected: Counter[str]) -> None:
    came = {name: counts[f"{name}_in"] for name in ("documents", "sentences")}
    kept = {name: counts[name] for name in ("documents", "sentences", "words", "characters")}
    write_json(path, cleaned | {"in": came, "out": kept, "rejected": dict(rejected)})
