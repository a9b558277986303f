import itertools

import pytest
import torch
from torch.nn.functional import normalize

from engine import retrieval


def brute_force(foreign, english, k):
    """Every pair scored, by the formula."""
    cosine = torch.nn.functional.cosine_similarity(foreign[:, None].double(), english[None].double(), dim=2)
    near_q, near_m = cosine.topk(min(k, len(english)), 1), cosine.T.topk(min(k, len(foreign)), 1)
    candidates = {}

    def margin(q, m):
        return float(cosine[q, m] / ((near_q.values[q].mean() + near_m.values[m].mean()) / 2))

    for q in range(len(foreign)):
        m = max(near_q.indices[q].tolist(), key=lambda m: margin(q, m))
        candidates[q, m] = margin(q, m)
    for m in range(len(english)):
        q = max(near_m.indices[m].tolist(), key=lambda q: margin(q, m))
        candidates[q, m] = margin(q, m)
    kept, left, right = [], set(), set()
    for (q, m), score in sorted(candidates.items(), key=lambda one: -one[1]):
        if q not in left and m not in right:
            left.add(q)
            right.add(m)
            kept.append((q, m, score))
    return kept


def exact(queries, keys, k):
    """All cosines in fp64, rounded, sorted stably."""
    cosine = torch.round(normalize(queries.double(), dim=1) @ normalize(keys.double(), dim=1).T, decimals=9)
    order = cosine.argsort(dim=1, descending=True, stable=True)[:, :k]
    return cosine.gather(1, order), order


def same(found, expected):
    return torch.equal(found[1], expected[1]) and torch.equal(found[0], expected[0])


@pytest.fixture(autouse=True)
def one_thread():
    """Two wait for each other where the machine does other work, and these products are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=["bfloat16", "float32", "both", "neither"])
def screens(request, monkeypatch):
    """Searches that a small test would not need a screen for take these."""
    monkeypatch.setattr(retrieval, "FEW_KEYS", 0)
    chosen = {"both": ["bfloat16", "float32"], "neither": []}.get(request.param, [request.param])
    if "bfloat16" in chosen and not torch.cpu._is_amx_tile_supported():
        pytest.skip("this CPU does not multiply bf16 in tiles, so it is not screened with")
    monkeypatch.setattr(retrieval, "_screens", lambda *_: [getattr(torch, name) for name in chosen])
    return chosen


@pytest.fixture
def exhausted(monkeypatch):
    """How many queries were compared with all keys in fp64, call by call."""
    counts, search = [], retrieval._exhaustive

    def counting(queries, *others):
        counts.append(len(queries.vectors))
        return search(queries, *others)

    monkeypatch.setattr(retrieval, "_exhaustive", counting)
    return counts


def spread(generator, queries, keys, width):
    return torch.randn(queries, width, generator=generator), torch.randn(keys, width, generator=generator)


def alike(generator, queries, keys, width):
    """Sentences of one encoder: a large common part."""
    common = 5 * torch.randn(width, generator=generator)
    return tuple(side + common for side in spread(generator, queries, keys, width))


def copies(generator, queries, keys, width):
    """Few different vectors, of many lengths."""
    few = torch.randn(7, width, generator=generator)
    asked, held = (few[torch.randint(0, 7, (count,), generator=generator)] for count in (queries, keys))
    return asked, held * (0.5 + torch.rand(keys, 1, generator=generator))


def near_ties(generator, queries, keys, width):
    """Keys 1e-8 apart around few different vectors, in fp64."""
    few = torch.randn(5, width, generator=generator, dtype=torch.float64)
    held = few[torch.randint(0, 5, (keys,), generator=generator)]
    noise = torch.randn(keys, width, generator=generator, dtype=torch.float64)
    return few[torch.randint(0, 5, (queries,), generator=generator)], held + 1e-8 * noise


def holes(generator, queries, keys, width):
    """Zero vectors among the others, on both sides."""
    sides = spread(generator, queries, keys, width)
    for side in sides:
        side[torch.rand(len(side), generator=generator) < 0.3] = 0
    return sides


def signs(generator, queries, keys, width):
    """Vectors of a few whole numbers: many ties of different vectors."""
    return tuple(side.sign() * (side.abs() > 0.7) for side in spread(generator, queries, keys, width))


def doubles(generator, queries, keys, width):
    return tuple(side.double() * 1e6 for side in spread(generator, queries, keys, width))


KINDS = [spread, alike, copies, near_ties, holes, signs, doubles]
SIZES = [(1, 1, 1), (3, 40, 2), (70, 33, 8), (65, 700, 64)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [50, 1024])
@pytest.mark.usefixtures("screens")
def test_neighbours_are_those_of_fp64(monkeypatch, kind, block):
    monkeypatch.setattr(retrieval, "BLOCK", block)
    monkeypatch.setattr(retrieval, "LOADED", 3)
    monkeypatch.setattr(retrieval, "COPIED", 17)
    generator = torch.Generator().manual_seed(block)
    for (queries, keys, width), k in itertools.product(SIZES, (1, 4, 40)):
        asked, held = kind(generator, queries, keys, width)
        assert same(retrieval.neighbours(asked, held, k), exact(asked, held, k)), (queries, keys, width, k)


@pytest.mark.parametrize("kind", KINDS)
def test_many_keys_of_a_real_width(kind):
    asked, held = kind(torch.Generator().manual_seed(1), 20, 5000, 768)
    found = retrieval.neighbours(asked, held)
    assert found[0].dtype == torch.float64 and same(found, exact(asked, held, 4))


def test_neither_threads_nor_blocks_change_the_answer(monkeypatch):
    asked, held = alike(torch.Generator().manual_seed(2), 300, 6000, 96)
    first = retrieval.neighbours(asked, held)
    for count, block in ((1, 64), (2, 1000), (3, 4096)):
        torch.set_num_threads(count)
        monkeypatch.setattr(retrieval, "BLOCK", block)
        assert same(retrieval.neighbours(asked, held), first)


def test_a_screen_suffices_for_vectors_that_differ(exhausted):
    asked, held = alike(torch.Generator().manual_seed(3), 100, 9000, 768)
    assert same(retrieval.neighbours(asked, held), exact(asked, held, 4)) and not exhausted


def test_where_no_screen_can_tell_all_keys_are_compared(exhausted):
    """Half of the queries have 3,000 equal best keys, and no screen keeps so many."""
    asked, held = spread(torch.Generator().manual_seed(4), 40, 9000, 32)
    held[2::3] = held[2]
    asked[::2] = held[2] + 0.01 * asked[::2]
    found = retrieval.neighbours(asked, held)
    assert same(found, exact(asked, held, 4)) and sum(exhausted) == 20
    assert found[1][0].tolist() == [2, 5, 8, 11]


def fan(step):
    """A query, and keys whose cosines with it fall by `step` from 0.9, in an order that is not theirs."""
    order = torch.randperm(6000, generator=torch.Generator().manual_seed(7))
    cosine = 0.9 - step * torch.arange(6000, dtype=torch.float64)[order]
    return torch.tensor([[1.0, 0, 0]], dtype=torch.float64), torch.stack(
        [cosine, (1 - cosine**2).sqrt(), torch.zeros(6000)], 1
    )


@pytest.mark.parametrize(("step", "proven"), [(3e-4, [False, True]), (2e-9, [False, False])])
def test_a_finer_screen_follows_one_that_is_not_certain(monkeypatch, exhausted, step, proven):
    if not torch.cpu._is_amx_tile_supported():
        pytest.skip("this CPU does not multiply bf16 in tiles, so there is one screen")
    seen, search = [], retrieval.Screen.search

    def watched(screen, queries):
        found = search(screen, queries)
        seen.append(bool(found[1].all()))
        return found

    monkeypatch.setattr(retrieval.Screen, "search", watched)
    asked, held = fan(step)
    assert same(retrieval.neighbours(asked, held), exact(asked, held, 4))
    assert seen == proven and sum(exhausted) == (not proven[-1])


@pytest.mark.parametrize("length", [1e-11, 1e30])
def test_lengths_beyond_fp32_are_compared_in_fp64(exhausted, length):
    asked, held = (side.double() for side in spread(torch.Generator().manual_seed(5), 20, 6000, 8))
    held[7] = length * asked[3]
    found = retrieval.neighbours(asked, held)
    assert same(found, exact(asked, held, 4)) and sum(exhausted) == 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [None, 40])
@pytest.mark.usefixtures("screens")
def test_nearest_is_the_first_of_the_best_both_ways(kind, block):
    asked, held = kind(torch.Generator().manual_seed(6), 40, 333, 8)
    there, back = retrieval.nearest(asked, held) if block is None else retrieval.nearest(asked, held, block)
    assert there == exact(asked, held, 1)[1][:, 0].tolist() and back == exact(held, asked, 1)[1][:, 0].tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("screens")
def test_mining_with_screens_is_brute_force(seed):
    generator = torch.Generator().manual_seed(seed)
    english = torch.randn(300, 12, generator=generator) + 1
    foreign = english[torch.randperm(300, generator=generator)[:211]]
    foreign = foreign + 0.3 * torch.randn(foreign.shape, generator=generator)
    before = foreign.clone(), english.clone()
    found, expected = retrieval.mined(foreign, english), brute_force(foreign, english, 4)
    assert [(q, m) for _, q, m in found] == [(q, m) for q, m, _ in expected]
    assert [score for score, _, _ in found] == pytest.approx([score for _, _, score in expected])
    assert torch.equal(foreign, before[0]) and torch.equal(english, before[1])


@pytest.mark.parametrize("block", [3, 1024])
def test_mining_is_brute_force_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(retrieval, "BLOCK", block)
    generator = torch.Generator().manual_seed(3)
    english = torch.randn(17, 6, generator=generator) + 1
    foreign = english[torch.randperm(17, generator=generator)[:11]] + 0.3 * torch.randn(11, 6, generator=generator)
    found = retrieval.mined(foreign, english)
    expected = brute_force(foreign, english, 4)
    assert [(q, m) for _, q, m in found] == [(q, m) for q, m, _ in expected]
    assert [score for score, _, _ in found] == pytest.approx([score for _, _, score in expected])


@pytest.mark.parametrize("block", [2, 1024])
def test_of_equal_neighbours_the_lowest_number_comes_first(monkeypatch, block):
    monkeypatch.setattr(retrieval, "BLOCK", block)
    keys = torch.tensor([[1.0, 0], [0, 1], [1, 0], [1, 0], [0, 1]], dtype=torch.float64)
    values, numbers = retrieval.neighbours(torch.tensor([[1.0, 0]], dtype=torch.float64), keys, 4)
    assert numbers.tolist() == [[0, 2, 3, 1]] and values.tolist() == [[1, 1, 1, 0]]


def test_fewer_sentences_than_neighbours():
    eye = torch.eye(2)
    assert [(q, m) for _, q, m in retrieval.mined(eye, eye)] == [(0, 0), (1, 1)]


def test_no_pair_is_mined_where_all_neighbours_point_away():
    """Of two negative cosines the quotient is positive, and largest for the very opposite."""
    english = torch.tensor([[-1.0, 0.0], [-0.9, 0.5], [-0.8, -0.6], [-0.5, -0.9]])
    assert retrieval.mined(torch.tensor([[1.0, 0.0]]), english) == []
