"""Filters of text: ours beside datatrove's of the same kind, on the same documents with the same language identifier.

    python -m venv PEER && PEER/bin/pip install "datatrove[io,processing]" spacy fasttext-numpy2-wheel orjson
    python benchmarks/filters.py --peer PEER/bin/python --out benchmarks/results/filters.json

Documents are made of recombined lines with dirt among them (big_corpus.py). They take turns, one process each;
processor time counts, from reading to writing, without imports and the model's loading. Ours is `clean_mono` with an
index of one test sentence: it judges and identifies every line. datatrove judges lines in its C4 filter and documents
in the others, and identifies documents. Gopher's filters of words and of repeated runs, the nearest to our rules for
words, symbols, numbers and repetitive lines, cut a document into words by spaCy; so they are added one after the other.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from big_corpus import documents, pools_of, train_language_id
from clean_throughput import CONFIG, rules_of
from peer import ask, tell

from clean_mono import clean_shard
from common.errors import run_main
from corpus.corpusio import load_thresholds
from corpus.duplicates import DUPLICATE
from corpus.eval_index import build_index
from corpus.likeness import EvalIndex
from split_corpus import split_mono

# What datatrove's Python runs: documents as JSON lines in, seconds and kept characters out.
PEER = """
import json, sys, time
from datatrove.pipeline.filters import C4QualityFilter, GopherQualityFilter, GopherRepetitionFilter, LanguageFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.lid import FT176LID
from loguru import logger

logger.remove()
given = json.loads(sys.argv[1])
folder, language = given["folder"], given["words"]
FT176LID.MODEL_URL = given["model"]
identified = LanguageFilter(languages=[given["language"]])
identified.model.model  # loaded before the clock starts
steps = [
    JsonlReader(folder + "/text"),
    identified,
    C4QualityFilter(filter_no_terminal_punct=False, min_num_sentences=-1, language=language),
    *([GopherQualityFilter(min_stop_words=0, language=language)] if given["filters"] > 1 else []),
    *([GopherRepetitionFilter(language=language)] if given["filters"] > 2 else []),
    JsonlWriter(folder + "/kept", compression=None),
]
for step in steps[2:-1]:  # its tokenizer of words likewise
    step.filter(next(iter(JsonlReader(folder + "/text").run())))
start = time.process_time()
read = None
for step in steps:  # as its executor does, which would copy the model that is loaded
    read = step(read, 0, 1)
for _ in read:
    pass
seconds = time.process_time() - start
with open(folder + "/kept/00000.jsonl", encoding="utf-8") as kept:
    print(json.dumps({"seconds": seconds, "characters": sum(len(json.loads(line)["text"]) for line in kept)}))
"""


def ours(folder: Path, language: str) -> tuple[float, int]:
    """Processor time, and the characters that are kept."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "tests.txt").write_text("this is the one sentence of the test\n")
        index = build_index([("text", Path(name) / "tests.txt")], load_thresholds(CONFIG, "decontamination"))
        rules = rules_of(language, folder / "lid.bin", EvalIndex(index))
        files = folder / "0.raw.zst", folder / "0.duplicates.npy"
        start = time.process_time()
        counts, _ = clean_shard(*files, rules, Path(name) / "0.clean.txt.zst", Path(name) / "0.rejects.tsv.zst")
        return time.process_time() - start, counts["characters"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="Python of an environment with datatrove (default: ours alone)")
    parser.add_argument(
        "--text", nargs="+", type=Path, help="CODE.txt.xz, two: the first is recombined, the second is dirt"
    )
    parser.add_argument("--words", default="eng", help="datatrove's name of the words (default: %(default)s)")
    parser.add_argument("--megabytes", type=float, default=10, help="of text (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="medians count (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    pools = pools_of(args.text)
    language, foreign = list(pools)[:2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text").mkdir()
        train_language_id(pools, folder / "lid.bin")
        written = characters = 0
        with (
            open(folder / "text.txt", "w", encoding="utf-8") as plain,
            open(folder / "text/0.jsonl", "w", encoding="utf-8") as objects,
        ):
            for number, text in enumerate(documents(pools[language], pools[foreign], round(args.megabytes * 1e6))):
                plain.write(text)
                objects.write(json.dumps({"text": text.strip(), "id": str(number)}, ensure_ascii=False) + "\n")
                written += len(text.encode())
                characters += len(text)
        split_mono([folder / "text.txt"], None, [folder / "0.raw.zst"])
        np.save(folder / "0.duplicates.npy", np.zeros(0, DUPLICATE))  # filters alone
        given = {
            "text": str(folder / "text"),
            "model": str(folder / "lid.bin"),
            "language": language,
            "words": args.words,
        }
        peers = {
            "datatrove, lines and language": {"filters": 1},
            "and words": {"filters": 2},
            "and repetition": {"filters": 3},
        }
        spent: dict[str, list[float]] = {name: [] for name in ("ours", *(peers if args.peer else ()))}
        kept: dict[str, float] = {}
        for _ in range(args.turns):
            for name, times in spent.items():
                if name == "ours":
                    seconds, of_them = ours(folder, language)
                else:
                    found = ask(args.peer, PEER, given | peers[name])
                    seconds, of_them = found["seconds"], found["characters"]
                times.append(seconds)
                kept[name] = round(of_them / characters, 3)
    return tell(spent, written, {"share_of_characters_kept": kept}, args.out)


if __name__ == "__main__":
    run_main(main)
