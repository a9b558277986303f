"""Train a fastText language identifier on the raw text of all languages, each line labelled by the file that it is in.

The labels are noisy, because raw files hold lines of other languages; they are mostly right, which is what a classifier
needs. The bytes of the model depend on the text and the thresholds alone: fastText starts from uninitialised
memory below ten threads and races above one, so it runs with one thread and with MALLOC_PERTURB_=255, by which glibc
zero-fills what it hands out. glibc reads that variable when the process starts, so the script starts itself again if it
is missing.
"""

import argparse
import os
import sys
import tempfile
from itertools import islice
from pathlib import Path

from common.atomic import summed_path
from common.errors import UserError, run_main
from corpus.corpusio import LanguageIdThresholds, add_config_arguments, load_thresholds
from corpus.segments import read_segments

ZERO_FILL = ("MALLOC_PERTURB_", "255")


def restart_with_zeroed_memory() -> None:
    """Replace this process by itself with zero-filled memory, unless it has it."""
    if os.environ.get(ZERO_FILL[0]) != ZERO_FILL[1]:
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | dict([ZERO_FILL]))


def parse_texts(texts: list[str]) -> dict[str, list[Path]]:
    """`de=path` arguments by language, sorted."""
    files: dict[str, list[Path]] = {}
    for text in texts:
        code, equals, path = text.partition("=")
        if not equals or not code or not path:
            raise UserError(f"--text {text}: write language=path, such as de=raw/data.statmt.org/cc-100/de.txt.xz")
        files.setdefault(code, []).append(Path(path))
    if len(files) < 2:
        raise UserError("--text: one language alone cannot be told from others; name at least two")
    return dict(sorted(files.items()))


def write_examples(
    files: dict[str, list[Path]], labels: dict[str, str], out: Path, thresholds: LanguageIdThresholds
) -> None:
    """The first lines of each file, so many per language, languages taking turns."""
    from corpus.characters import normalise

    def examples(language: str) -> list[str]:
        cap = -(-thresholds.lines_per_language // len(files[language]))
        lines = []
        for path in files[language]:
            texts = (normalise(text)[: thresholds.characters_per_line] for _, text in read_segments(path) if text)
            lines += [f"__label__{labels[language]} {text}\n" for text in islice(filter(None, texts), cap)]
        if not lines:
            raise UserError(f"{files[language][0]}: no line of text to learn {language} from; check the download")
        return lines

    lists = [examples(language) for language in files]
    with open(out, "w", encoding="utf-8", newline="\n") as stream:
        for i in range(max(map(len, lists))):  # turns: a language at the end would weigh more in the last steps
            stream.writelines(lines[i] for lines in lists if i < len(lines))


def train(files: dict[str, list[Path]], labels: dict[str, str], out: Path, thresholds: LanguageIdThresholds) -> None:
    import fasttext

    from corpus.language_id import by_number

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "lines.txt")
        write_examples(files, labels, text, thresholds)
        with open(text, "rb") as lines:
            model = fasttext.train_supervised(
                by_number(lines),
                dim=thresholds.dimension,
                bucket=thresholds.buckets,
                minn=thresholds.shortest_ngram,
                maxn=thresholds.longest_ngram,
                epoch=thresholds.epochs,
                lr=thresholds.learning_rate,
                minCount=2,
                thread=1,
                seed=0,
                verbose=0,
            )
    with summed_path(out) as temporary, open(temporary, "wb") as file:
        model.save_model(by_number(file))


def label_of(language: str, languages: str) -> str:
    """The label of a language in lid.176, so that either model can be used; its own code where lid.176 lacks it."""
    from plan.datasets import load_languages

    table = load_languages(languages)
    if language not in table:
        raise UserError(f"language {language!r} is not in {languages}; add a row or correct the code")
    return table[language].lid or language


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", nargs="+", required=True, metavar="LANGUAGE=FILE", help="raw mono files")
    parser.add_argument("--languages", default="config/languages.tsv", help="table of languages (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the fastText model")
    add_config_arguments(parser)
    args = parser.parse_args()
    restart_with_zeroed_memory()
    files = parse_texts(args.text)
    labels = {language: label_of(language, args.languages) for language in files}
    train(files, labels, args.out, load_thresholds(args.config, "language_id", args.overrides))


if __name__ == "__main__":
    run_main(main)
