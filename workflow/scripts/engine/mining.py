"""Mining of translations out of two piles of sentences (BUCC): candidates, threshold, F1 of id pairs."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from engine.metrics import Share, ratio

Pair = tuple[str, str]  # foreign id, English id


def pair_f1(gold: Collection[Pair], found: Collection[Pair]) -> float:
    return ratio(pair_shares(gold, found)) if gold or found else 0.0


def pair_shares(gold: Collection[Pair], found: Collection[Pair]) -> list[Share]:
    """Of each foreign sentence that is in a pair: twice what is right of it, and what is in gold plus what is found."""
    right = Counter(foreign for foreign, _ in set(gold) & set(found))
    named = Counter(foreign for pairs in (set(gold), set(found)) for foreign, _ in pairs)
    return [(2 * right[foreign], named[foreign]) for foreign in sorted(named)]


def greedy(candidates: Iterable[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """(score, foreign, English) by falling score, each sentence at most once; of equals the lowest numbers first."""
    taken: tuple[set[int], set[int]] = (set(), set())
    kept = []
    for score, foreign, english in sorted(candidates, key=lambda one: (-one[0], one[1], one[2])):
        if foreign not in taken[0] and english not in taken[1]:
            taken[0].add(foreign)
            taken[1].add(english)
            kept.append((score, foreign, english))
    return kept


def best_threshold(scored: Sequence[tuple[float, Pair]], gold: Collection[Pair]) -> tuple[float, float]:
    """(threshold, F1 in percent) on dev: of all cuts of the candidates by falling score, the best, the first of equals.

    The threshold lies midway between the last pair that is kept and the next; after the last pair it is its score.
    """
    wanted = set(gold)
    ordered = sorted(scored, key=lambda one: -one[0])
    best, threshold, right = 0.0, float("inf"), 0
    for number, (score, pair) in enumerate(ordered, start=1):
        right += pair in wanted
        following = ordered[number][0] if number < len(ordered) else score
        if following == score and number < len(ordered):
            continue  # no threshold cuts between equal scores
        f1 = 200 * right / (number + len(wanted))
        if f1 > best:
            best, threshold = f1, (score + following) / 2
    return threshold, best
