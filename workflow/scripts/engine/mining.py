"""Mining of translations out of two piles of sentences (BUCC): candidates, threshold, F1 of id pairs."""

from collections.abc import Collection, Iterable, Sequence

Pair = tuple[str, str]  # foreign id, English id


def pair_f1(gold: Collection[Pair], found: Collection[Pair]) -> float:
    right = len(set(gold) & set(found))
    return 200 * right / (len(set(gold)) + len(set(found))) if right else 0.0


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
