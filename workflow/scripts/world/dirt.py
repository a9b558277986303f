"""Dirt that real corpora have, planted with a gold list, so that the recall of the cleaning can be measured."""

import random
import unicodedata
from collections.abc import Callable, Sequence

GARBAGE = "#@|<>{}[]~^*_=+%$0123456789"
# a leak is rarely a byte-for-byte copy: other quotes and spacing, full-width letters, decomposed accents, lost case
DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: text.replace(" ", "  "),
    lambda text: text.lower(),
    lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
)


def garbage(rng: random.Random) -> str:
    return " ".join("".join(rng.choices(GARBAGE, k=rng.randint(2, 9))) for _ in range(rng.randint(4, 12)))


def changed_words(rng: random.Random, line: str, share: float) -> str:
    """The line with about `share` of its words (characters, where it has no spaces) swapped with a neighbour."""
    separator = " " if " " in line else ""
    words = line.split(" ") if separator else list(line)
    for i in range(len(words) - 1):
        if rng.random() < share:
            words[i], words[i + 1] = words[i + 1], words[i]
    return separator.join(words)


def dirty_documents(
    documents: list[list[str]],
    rng: random.Random,
    share: float,
    foreign: Sequence[str],
    test_sentences: Sequence[str],
) -> tuple[list[list[str]], list[list[str]]]:
    """The documents with dirty lines among them, and beside each line its kind ("" where it is clean).

    Every kind gets `share` of the number of clean lines. `duplicate` and `near-duplicate` copy whole documents.
    """
    texts = [list(document) for document in documents]
    kinds = [[""] * len(document) for document in documents]
    clean_lines = sum(map(len, documents))
    quota = max(1, round(share * clean_lines))
    sentence = " ".join if any(" " in line for line in documents[0]) else "".join
    makers: dict[str, Callable[[], str]] = {
        "wrong-language": lambda: rng.choice(foreign),
        "garbage": lambda: garbage(rng),
        "too-short": lambda: rng.choice(documents)[0][: rng.randint(1, 3)],
        "too-long": lambda: sentence(rng.choice(documents)[0] for _ in range(400)),
        "leaked-test": lambda: rng.choice(DISGUISES)(rng.choice(test_sentences)),
        "leaked-test-embedded": lambda: sentence(
            [rng.choice(documents)[0], rng.choice(test_sentences), rng.choice(documents)[-1]]
        ),
    }
    for kind, make in makers.items():
        for _ in range(quota if kind != "too-long" else max(1, quota // 20)):
            d = rng.randrange(len(texts))
            at = rng.randint(0, len(texts[d]))
            texts[d].insert(at, make())
            kinds[d].insert(at, kind)
    originals = list(texts)
    for kind in ("duplicate", "near-duplicate"):
        copied = 0
        while copied < quota:
            original = rng.randrange(len(documents))
            copy = [
                changed_words(rng, line, 0.04) if kind == "near-duplicate" else line for line in documents[original]
            ]
            if copy == documents[original] and kind == "near-duplicate":
                continue
            # after the original, wherever it stands by now: the first of two copies is the one to keep
            where = next(i for i, text in enumerate(texts) if text is originals[original])
            at = rng.randint(where + 1, len(texts))
            texts.insert(at, copy)
            kinds.insert(at, [kind] * len(copy))
            copied += len(copy)
    return texts, kinds


def dirty_pairs(
    pairs: list[tuple[str, str]],
    rng: random.Random,
    share: float,
    foreign: Sequence[str],
    test_pairs: Sequence[tuple[str, str]],
) -> tuple[list[tuple[str, str]], list[str]]:
    """The pairs with dirty ones among them, and the kind of each ("" where it is clean)."""
    quota = max(1, round(share * len(pairs)))
    glue = (" " if " " in pairs[0][0] else "", " " if " " in pairs[0][1] else "")

    def long_side() -> tuple[str, str]:
        a, b = rng.choice(pairs)
        extra = [rng.choice(pairs) for _ in range(4)]
        return (
            (a, glue[1].join([b, *(p[1] for p in extra)]))
            if rng.random() < 0.5
            else (glue[0].join([a, *(p[0] for p in extra)]), b)
        )

    def emptied() -> tuple[str, str]:
        a, b = rng.choice(pairs)
        return (a, "") if rng.random() < 0.5 else ("", b)

    makers: dict[str, Callable[[], tuple[str, str]]] = {
        "misaligned": lambda: tuple(side[i] for i, side in enumerate(rng.sample(pairs, 2))),
        "wrong-language": lambda: (rng.choice(pairs)[0], rng.choice(foreign)),
        "copied": lambda: (pair := rng.choice(pairs)) and (pair[0], pair[0]),
        "length-ratio": long_side,
        "empty": emptied,
        "duplicate": lambda: rng.choice(pairs),
        "leaked-test": lambda: tuple(rng.choice(DISGUISES)(side) for side in rng.choice(test_pairs)),
    }
    dirty = [(make(), kind) for kind, make in makers.items() for _ in range(quota)]
    rows = [(pair, "") for pair in pairs]
    for pair, kind in dirty:
        at = len(rows) if kind == "duplicate" else rng.randint(0, len(rows))  # a duplicate follows its original
        rows.insert(at, (pair, kind))
    return [pair for pair, _ in rows], [kind for _, kind in rows]
