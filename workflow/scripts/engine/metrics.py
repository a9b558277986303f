"""Each metric once, as a function of gold and predictions, in percent; and what chance reaches on the same gold."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence


def accuracy(gold: Sequence[Hashable], predictions: Sequence[Hashable]) -> float:
    if not gold or len(gold) != len(predictions):
        raise ValueError(f"{len(predictions)} predictions for {len(gold)} gold labels")
    return 100 * sum(g == p for g, p in zip(gold, predictions, strict=True)) / len(gold)


def runs(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(tag, first, last) of every maximal run of equal tags; a tag that begins with S starts anew at each token.

    That is what seqeval <= 0.0.12 makes of tags without B- and I-: it takes SCONJ and SYM for the S- of IOBES.
    XTREME's published POS scores are F1 over these runs, so ours are too.
    """
    spans = set()
    first = 0
    for i, tag in enumerate(tags):
        if i + 1 == len(tags) or tags[i + 1] != tag or tag.startswith("S"):
            spans.add((tag, first, i))
            first = i + 1
    return spans


def run_f1(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> float:
    """Micro F1 over the runs of all sentences."""
    if not gold or len(gold) != len(predictions):
        raise ValueError(f"{len(predictions)} tagged sentences for {len(gold)} gold sentences")
    correct = in_gold = predicted = 0
    for gold_tags, tags in zip(gold, predictions, strict=True):
        if len(gold_tags) != len(tags):
            raise ValueError(f"{len(tags)} tags for {len(gold_tags)} tokens")
        gold_runs, tag_runs = runs(gold_tags), runs(tags)
        correct += len(gold_runs & tag_runs)
        in_gold += len(gold_runs)
        predicted += len(tag_runs)
    return 200 * correct / (in_gold + predicted) if correct else 0.0


def flatten(sentences: Sequence[Sequence[str]]) -> list[str]:
    return [tag for tags in sentences for tag in tags]


def majority_chance(gold: Sequence[Hashable]) -> float:
    """Accuracy of always answering the most frequent gold label."""
    return 100 * max(Counter(gold).values()) / len(gold)


def shuffled_tags_chance(gold: Sequence[Sequence[str]]) -> float:
    """Run F1 of the gold's own tags in a random order: right frequencies, no knowledge of the tokens."""
    tags = flatten(gold)
    random.Random("shuffled tags").shuffle(tags)
    rest = iter(tags)
    return run_f1(gold, [[next(rest) for _ in sentence] for sentence in gold])
