"""Count the corpora: documents, sentences, pairs and bytes, before and after cleaning, by language and language pair.

    kind -> corpus -> language or pair -> {"raw": ..., "kept": ...}

Numbers are those that cleaning wrote beside each shard; bytes, of UTF-8 without line ends, are those of the clean text.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.atomic import write_json
from common.errors import UserError, run_main
from corpus.corpusio import BROKEN, open_bytes

SUFFIX = ".clean.json"
TEXTS = {"mono": ".clean.txt.zst", "bitext": ".clean.tsv.zst"}
BLOCK = 1 << 20
QUANTITIES = ("documents", "sentences", "words", "characters")


def place_of(path: Path) -> tuple[str, str, str]:
    """kind, corpus and language or pair of `<kind>/<corpus>/<name>/<shard>.clean.json`."""
    parts = path.parts[-4:-1]
    if len(parts) != 3 or parts[0] not in TEXTS or not path.name.endswith(SUFFIX):
        raise UserError(
            f"{path}: expected <mono or bitext>/<corpus>/<language or pair>/<shard>{SUFFIX}; correct the path"
        )
    return parts


def read_counts(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {state: {key: content[part].get(key, 0) for key in QUANTITIES} for part, state in STATES.items()}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; clean the shard first") from None
    except (ValueError, KeyError, AttributeError):
        raise UserError(f"{path}: no counts of cleaning in it; clean the shard again") from None


STATES = {"in": "raw", "out": "kept"}


def text_bytes(path: Path) -> int:
    """Bytes of the lines of clean text, both sides of a pair: whole blocks, since a corpus has terabytes."""
    total = 0
    try:
        with open_bytes(path) as file:
            while block := file.read(BLOCK):
                total += len(block) - block.count(b"\n") - block.count(b"\t")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; clean the shard first") from None
    except BROKEN as error:
        raise UserError(f"{path}: broken ({error}); remove it and clean the shard again") from None
    return total


def count(paths: Sequence[Path]) -> dict:
    counts: dict = {kind: {} for kind in TEXTS}
    for path in sorted(paths):
        kind, corpus, name = place_of(path)
        found = counts[kind].setdefault(corpus, {}).setdefault(name, {"raw": {}, "kept": {}})
        for state, quantity, number in quantities(path, kind):
            found[state][quantity] = found[state].get(quantity, 0) + number
    return counts


def quantities(path: Path, kind: str) -> Iterator[tuple[str, str, int]]:
    """(raw or kept, quantity, number) of one shard. A pair is a document of two sentences."""
    for state, numbers in read_counts(path).items():
        yield state, "documents" if kind == "mono" else "pairs", numbers["documents"]
        yield state, "sentences", numbers["sentences"]
    yield "kept", "words", numbers["words"]
    yield "kept", "characters", numbers["characters"]
    yield "kept", "bytes", text_bytes(path.with_name(path.name.removesuffix(SUFFIX) + TEXTS[kind]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--counts", nargs="*", default=[], type=Path, help="counts of cleaning; the clean text is beside them"
    )
    parser.add_argument("--out", type=Path, required=True, help="results/<scale>/corpus/counts.json")
    args = parser.parse_args()
    counts = count(args.counts)
    write_json(args.out, counts)
    for kind, corpora in counts.items():
        for corpus, names in corpora.items():
            for name, states in names.items():
                print(
                    f"{kind} {corpus} {name}: {states['kept']['sentences']} of {states['raw']['sentences']} sentences"
                )


if __name__ == "__main__":
    run_main(main)
