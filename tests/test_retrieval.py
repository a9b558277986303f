import pytest
import torch

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
