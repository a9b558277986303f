"""Hold the cleaned mini-world against its list of planted dirt: recall per kind, clean lines lost, test sentences left.

A planted line counts as removed if it is among the rejects. A clean line counts as lost if it is among the rejects and
its text is nowhere in the cleaned text of its corpus, so that of two equal clean lines one may go; a clean line that
holds a test sentence is lost too. Test sentences are looked for in the cleaned text as plain substrings,
without the index that the cleaning used.
"""

import argparse
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from common.atomic import write_json
from common.errors import UserError, run_main
from corpus.characters import normalise
from corpus.corpusio import read_header, read_lines
from corpus.eval_index import parse_tasks, read_units
from corpus.sides import open_sides

LEAST_RECALL, MOST_LOST = 0.95, 0.01
# A test sentence of fewer words or letters is only looked for as a whole line: "Yes." inside a line is no
# leak. A wide letter (Chinese, Japanese) counts as two.
INSIDE_WORDS, INSIDE_LETTERS = 3, 12


def plain(text: str) -> str:
    """Lower-case words in compatibility form between single spaces. Independent of words.fold."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    return " ".join("".join(kept).split())


def wanted(test: str) -> str:
    """What to look for in "\\n line \\n line \\n"."""
    letters = [c for c in test if c.isalpha()]
    wide = sum(unicodedata.east_asian_width(c) == "W" for c in letters)
    unspaced = 2 * wide > len(letters)
    enough = len(letters) + wide >= INSIDE_LETTERS and (unspaced or test.count(" ") + 1 >= INSIDE_WORDS)
    if not enough:
        return f"\n {test} \n"
    return test if unspaced else f" {test} "


def read_gold(path: Path) -> dict[tuple[str, int], str]:
    """Kind of each planted line, by upstream file and line."""
    gold: dict[tuple[str, int], str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if number == 1 and cells == ["file", "line", "kind"]:
            continue
        if len(cells) != 3 or not cells[1].isdigit():
            raise UserError(f"{path}:{number}: expected file, line and kind, tab-separated; build the world again")
        gold[cells[0], int(cells[1])] = cells[2]
    return gold


def raw_lines(root: Path, name: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of an upstream file as rejects name it; a pair's sides are joined by a tab."""
    archive, member_mark, member = name.partition("#")
    if not member_mark:
        for number, line in enumerate(read_lines(root / archive), start=1):
            if line:
                yield number, normalise(line)
        return
    first, second = member.rsplit(".", 1)[1], ""
    stem = member.rsplit(".", 1)[0].rsplit(".", 1)[-1]  # <Corpus>.<a>-<b>.<a>
    second = next((code for code in stem.split("-") if code != first), "")
    with open_sides(root / archive, [(first,), (second,)]) as (_, a, b):
        for number, (left, right) in enumerate(zip(a, b, strict=True), start=1):
            yield number, f"{normalise(left.decode())}\t{normalise(right.decode())}"


def report(gold_path: Path, root: Path, corpus: Path, tasks: list[tuple[str, Path]]) -> dict:
    gold = read_gold(gold_path)
    units = sorted({normalise(text) for task, path in tasks for text in read_units(task, path)})
    tests = sorted({plain(unit) for unit in units} - {""})
    folders = sorted({path.parent for path in corpus.glob("mono/*/*/*.rejects.tsv.zst")}) + sorted(
        {path.parent for path in corpus.glob("bitext/*/*/*.rejects.tsv.zst")}
    )
    if not folders:
        raise UserError(f"{corpus}: no */*.rejects.tsv.zst below it; clean the corpora first")
    planted, removed = Counter(), Counter()
    clean = lost = 0
    leaks: list[dict] = []
    missed: list[dict] = []
    lost_by: Counter[str] = Counter()
    corpora = {}
    for folder in folders:
        kind = folder.relative_to(corpus).parts[0]
        rejects: dict[tuple[str, int], str] = {}
        # Not those of the rejects: of a file of which nothing was rejected all dirt was missed.
        files = {name for path in folder.glob("*.raw.zst") for name in read_header(path).files}
        for path in sorted(folder.glob("*.rejects.tsv.zst")):
            for line in read_lines(path):
                name, number, reason = line.split("\t")
                rejects[name, int(number)] = reason
        suffix = "txt" if kind == "mono" else "tsv"
        kept = [line for path in sorted(folder.glob(f"*.clean.{suffix}.zst")) for line in read_lines(path) if line]
        kept_texts = set(kept)
        here = {"clean": 0, "lost": 0}
        for name in sorted(files):
            for number, text in raw_lines(root, name):
                dirt, reason = gold.get((name, number)), rejects.get((name, number))
                if dirt is None:
                    here["clean"] += 1
                    if reason is not None and text not in kept_texts:
                        here["lost"] += 1
                        lost_by[f"{kind}/{reason}"] += 1
                else:
                    planted[f"{kind}/{dirt}"] += 1
                    removed[f"{kind}/{dirt}"] += reason is not None
                    if reason is None:
                        missed.append({"file": name, "line": number, "kind": dirt})
        clean, lost = clean + here["clean"], lost + here["lost"]
        corpora[folder.relative_to(corpus).as_posix()] = here
        leaks += [{"where": folder.relative_to(corpus).as_posix(), "text": text} for text in find_leaks(kept, tests)]
    kinds = {
        kind: {"planted": planted[kind], "removed": removed[kind], "recall": removed[kind] / planted[kind]}
        for kind in sorted(planted)
    }
    return {
        "kinds": kinds,
        "clean_lines": {"in": clean, "lost": lost, "share": lost / max(clean, 1), "lost_by_reason": dict(lost_by)},
        "corpora": corpora,
        "test_sentences": {"searched": len(tests), "left": len(leaks), "lines": leaks[:100]},
        "missed": missed[:200],
        "bounds": {"least_recall": LEAST_RECALL, "most_lost": MOST_LOST},
        "passed": all(entry["recall"] >= LEAST_RECALL for entry in kinds.values())
        and lost <= MOST_LOST * clean
        and not leaks,
    }


def find_leaks(kept: list[str], tests: list[str]) -> list[str]:
    """Kept lines (sides, for pairs) that hold a test sentence; by brute force over one long string."""
    sides = [side for line in kept for side in line.split("\t")]
    folded = [plain(side) for side in sides]
    whole = "\n" + "".join(f" {line} \n" for line in folded)
    leaks = []
    for test in tests:
        looked_for = wanted(test)
        at = whole.find(looked_for)
        while at >= 0:
            leaks.append(sides[whole.count("\n", 0, at + 1) - 1])
            at = whole.find(looked_for, at + 1)
    return leaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gold", type=Path, required=True, help="planted dirt: file, line, kind")
    parser.add_argument("--root", type=Path, required=True, help="folder of downloads, as for split_corpus")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with mono/ and bitext/")
    parser.add_argument("--task", nargs="+", action="extend", default=[], metavar="NAME=FILE", help="evaluation files")
    parser.add_argument("--out", type=Path, required=True, help="the report, JSON")
    args = parser.parse_args()
    result = report(args.gold, args.root, args.corpus, parse_tasks(args.task))
    write_json(args.out, result)
    print(f"{'planted dirt':<32}{'planted':>9}{'removed':>9}{'recall':>9}")
    for kind, entry in result["kinds"].items():
        print(f"{kind:<32}{entry['planted']:>9}{entry['removed']:>9}{entry['recall']:>9.2%}")
    lines = result["clean_lines"]
    print(f"clean lines lost: {lines['lost']} of {lines['in']} ({lines['share']:.2%}) {lines['lost_by_reason']}")
    tests = result["test_sentences"]
    print(f"test sentences left in the cleaned text: {tests['left']} (of {tests['searched']} searched)")
    print(f"bounds (recall >= {LEAST_RECALL:.0%}, lost <= {MOST_LOST:.0%}, none left): ", end="")
    print("met" if result["passed"] else "MISSED")


if __name__ == "__main__":
    run_main(main)
