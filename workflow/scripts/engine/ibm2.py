"""IBM model 2 with a prior along the diagonal (fast_align, Dyer et al. 2013), the baseline of word alignment.

p(f_j, a_j = i) = p0 t(f_j | null) for i = 0, else (1 - p0) exp(-tension |i / n - j / m|) / Z_j  t(f_j | e_i),
e_1 ... e_n the source, f_1 ... f_m the target. EM; t with a Dirichlet prior (variational Bayes); after each round but
the first and the last, the tension follows the difference between the distances that the posterior and the prior
expect; the last round learns nothing more and links. So, and with these constants, does the released program with its
options -d -o -v. One slip of it is not copied: it counts the posterior's distances from j - 1, the prior's from j.

Shapes: F target words of some sentence pairs, L possible links of them, null included; K kinds of link of a corpus.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.alignments import Link

NULL = 0  # number of the empty source word
NULL_PROBABILITY = 0.08
TENSION, LEAST_TENSION, MOST_TENSION = 4.0, 0.1, 14.0
TENSION_STEPS, TENSION_RATE = 8, 20.0
ALPHA = 0.01  # of the Dirichlet prior of each source word's translations
ROUNDS = 5  # of which the last one links
CHUNK = 5000  # sentence pairs whose links are in memory at once
UNSORTED = 1 << 23  # links that wait at most to be sorted among the kinds already known

Pair = tuple[Sequence[str], Sequence[str]]


@dataclass
class Corpus:
    """Sentence pairs as numbers. A `kind` is a source word with a target word that it stands in some pair with."""

    sources: list[np.ndarray]  # with NULL in front
    targets: list[np.ndarray]
    kinds: np.ndarray  # (K,) sorted: source word x target_words + target word
    target_words: int

    @property
    def kind_source(self) -> np.ndarray:
        return self.kinds // self.target_words


@dataclass
class Links:
    """Every link that some pairs may have, target word by target word, null first."""

    kind: np.ndarray  # (L,)
    first: np.ndarray  # (F,) first link of each target word
    distance: np.ndarray  # (L,) |i / n - j / m|, 0 for null
    null: np.ndarray  # (L,) bool


def read_corpus(pairs: Sequence[Pair]) -> Corpus:
    source_number: dict[str, int] = {}
    target_number: dict[str, int] = {}
    sources = [np.array([NULL, *(source_number.setdefault(w, len(source_number) + 1) for w in s)]) for s, _ in pairs]
    targets = [np.array([target_number.setdefault(w, len(target_number)) for w in t], dtype=np.int64) for _, t in pairs]
    words = max(1, len(target_number))
    kinds, waiting, count = np.zeros(0, np.int64), [], 0
    for source, target in zip(sources, targets, strict=True):
        waiting.append((source[:, None] * words + target).ravel())
        count += len(waiting[-1])
        if count > UNSORTED:
            kinds, waiting, count = merged(kinds, waiting), [], 0
    return Corpus(sources, targets, merged(kinds, waiting), words)


def merged(kinds: np.ndarray, links: list[np.ndarray]) -> np.ndarray:
    """Sorted, each once. A stable sort of two parts that are in order merges them."""
    new = np.sort(np.concatenate([kinds[:0], *links]))
    every = np.sort(np.concatenate([kinds, new]), kind="stable")
    return every[np.diff(every, prepend=-1) > 0]


def links_of(corpus: Corpus, pairs: Sequence[int]) -> Links:
    codes, distances, nulls, counts = [], [], [], []
    for p in pairs:
        source, target = corpus.sources[p], corpus.targets[p]
        n, m = len(source) - 1, len(target)
        codes.append((source[None, :] * corpus.target_words + target[:, None]).ravel())
        place = np.arange(1, m + 1)[:, None] / max(1, m)
        distance = np.abs(np.arange(n + 1)[None, :] / max(1, n) - place)
        distance[:, 0] = 0
        distances.append(distance.ravel())
        nulls.append(np.tile(np.arange(n + 1) == 0, m))
        counts.append(np.full(m, n + 1))
    count = np.concatenate(counts)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    code = np.concatenate(codes)
    order = np.argsort(code)  # looked up in order they are found several times as fast
    kind = np.empty(len(code), np.int64)
    kind[order] = np.searchsorted(corpus.kinds, code[order])
    return Links(kind, first, np.concatenate(distances), np.concatenate(nulls))


def prior(links: Links, tension: float) -> np.ndarray:
    """(L,) of each target word the prior of its links; sums to 1, without source words to NULL_PROBABILITY."""
    weight = np.where(links.null, 0.0, np.exp(-tension * links.distance))
    total = np.add.reduceat(weight, links.first)
    size = np.diff(np.append(links.first, len(weight)))
    share = weight / np.maximum(np.repeat(total, size), np.finfo(float).tiny)
    return np.where(links.null, NULL_PROBABILITY, (1 - NULL_PROBABILITY) * share)


def posterior(links: Links, translation_K: np.ndarray, tension: float) -> np.ndarray:
    joint = prior(links, tension) * translation_K[links.kind]
    total = np.add.reduceat(joint, links.first)
    return joint / np.repeat(total, np.diff(np.append(links.first, len(joint))))


def chunks(corpus: Corpus) -> Iterator[Links]:
    filled = [p for p in range(len(corpus.targets)) if len(corpus.targets[p])]
    for start in range(0, len(filled), CHUNK):
        yield links_of(corpus, filled[start : start + CHUNK])


def train(corpus: Corpus, rounds: int = ROUNDS) -> tuple[np.ndarray, float]:
    """(K,) t(f | e) of every kind, and the tension."""
    translation_K = np.full(len(corpus.kinds), 1 / corpus.target_words)
    tension = TENSION
    for number in range(rounds - 1):
        counts_K, expected, words = np.zeros(len(translation_K)), 0.0, 0
        for links in chunks(corpus):
            share = posterior(links, translation_K, tension)
            np.add.at(counts_K, links.kind, share)
            expected += float((share * links.distance)[~links.null].sum())
            words += len(links.first)
        translation_K = expected_translations(corpus, counts_K)
        if number:
            tension = follow(corpus, tension, expected / max(1, words), words)
    return translation_K, tension


def expected_translations(corpus: Corpus, counts_K: np.ndarray) -> np.ndarray:
    """exp(E[log t]) under the posterior Dirichlet; the sum runs over what a source word stands with. Takes the place of
    the counts: in a large corpus these arrays are most of the memory.
    """
    source_K = corpus.kind_source
    counts_K += ALPHA
    totals = np.maximum(np.bincount(source_K, counts_K), ALPHA)
    torch.from_numpy(counts_K).digamma_()
    counts_K -= torch.digamma(torch.from_numpy(totals)).numpy()[source_K]
    return np.exp(counts_K, out=counts_K)


def follow(corpus: Corpus, tension: float, found: float, words: int) -> float:
    """Gradient steps on the tension: the prior should expect the distance that the posterior has found."""
    sizes = Counter((len(s) - 1, len(t)) for s, t in zip(corpus.sources, corpus.targets, strict=True) if len(t))
    for _ in range(TENSION_STEPS):
        expected = sum(count * expected_distance(*size, tension) for size, count in sizes.items())
        # distances are negative features in the paper: a prior that expects longer ones must become stiffer
        tension += (expected / max(1, words) - found) * TENSION_RATE
        tension = min(MOST_TENSION, max(LEAST_TENSION, tension))
    return tension


def expected_distance(n: int, m: int, tension: float) -> float:
    """Under the prior, null apart, added up over the m target words of a pair with n source words."""
    if not n:
        return 0.0
    distance = np.abs(np.arange(1, n + 1) / n - np.arange(1, m + 1)[:, None] / m)
    weight = np.exp(-tension * distance)
    return float(((weight * distance).sum(1) / weight.sum(1)).sum())


def best_links(
    corpus: Corpus, pairs: Iterable[int], translation_K: np.ndarray, tension: float
) -> list[frozenset[Link]]:
    """Of each of these pairs, (source word, target word) from 0; a target word that null explains best has none."""
    found = []
    for p in pairs:
        target = corpus.targets[p]
        if not len(target):
            found.append(frozenset())
            continue
        links = links_of(corpus, range(p, p + 1))
        score = (prior(links, tension) * translation_K[links.kind]).reshape(len(target), -1)
        found.append(frozenset((int(i) - 1, j) for j, i in enumerate(score.argmax(1)) if i))
    return found


def align(pairs: Sequence[Pair], beside: Sequence[Pair] = (), rounds: int = ROUNDS) -> list[frozenset[Link]]:
    """Links of `pairs` in both directions, symmetrised; learnt from them and from those that stand beside them."""
    every = [*pairs, *beside]
    there, back = (links_one_way(way, len(pairs), rounds) for way in (every, [(t, s) for s, t in every]))
    return [
        grow_diag_final_and(one, frozenset((i, j) for j, i in other)) for one, other in zip(there, back, strict=True)
    ]


def links_one_way(pairs: Sequence[Pair], first: int, rounds: int) -> list[frozenset[Link]]:
    """Of the first pairs; in a function of its own, so that one direction's corpus is gone before the other's comes."""
    corpus = read_corpus(pairs)
    return best_links(corpus, range(first), *train(corpus, rounds))


NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(one: frozenset[Link], other: frozenset[Link]) -> frozenset[Link]:
    """The intersection, grown by neighbours out of the union, then by links between words that have none."""
    union, links = one | other, set(one & other)

    def free(i: int, j: int) -> tuple[bool, bool]:
        return all(a != i for a, _ in links), all(b != j for _, b in links)

    grown = True
    while grown:
        grown = False
        for i, j in sorted(links):
            for di, dj in NEIGHBOURS:
                new = (i + di, j + dj)
                if new in union and new not in links and any(free(*new)):
                    links.add(new)
                    grown = True
    for direction in (one, other):
        for new in sorted(direction):
            if all(free(*new)):
                links.add(new)
    return frozenset(links)
