"""benchmarks/token_tables.py: what a table of tokens finds by the tokens that both sides share."""

import sys

import pytest
import torch

from beside import module_at


@pytest.fixture(scope="module")
def tool(repository):
    sys.path.insert(0, str(repository / "benchmarks"))  # it reads the script beside it, as when it is called
    try:
        return module_at(repository / "benchmarks/token_tables.py")
    finally:
        sys.path.remove(str(repository / "benchmarks"))


# Token 9 stands in every sentence; a pair shares one token more, but for the last, which shares none.
SIDES = [[9, 0, 5], [9, 1, 6], [9, 2, 7]], [[9, 0, 8], [9, 1, 8], [9, 3, 8]]


def test_vectors_at_right_angles_count_shared_tokens(tool):
    assert tool.accuracy(torch.eye(10), {"de": SIDES}, centred=False) >= 100 * 2 / 3


def test_a_direction_of_a_language_hides_what_is_shared_until_it_is_taken_out(tool):
    """A token of English that is longer than all others, in the sentences of English alone."""
    table_VD = torch.eye(10) + 0.3 * torch.randn(10, 10, generator=torch.Generator().manual_seed(1))
    table_VD[8] = 50 * table_VD[5]  # English looks like one foreign sentence
    raw, centred = (tool.accuracy(table_VD, {"de": SIDES}, centred) for centred in (False, True))
    assert raw <= 50 < 60 < centred


def test_whitened_tokens_spread_alike_in_all_directions(tool):
    table_VD = torch.randn(300, 6, generator=torch.Generator().manual_seed(0)) @ torch.diag(torch.arange(1.0, 7.0)) + 3
    seen = list(range(0, 300, 2))
    around_SD = tool.whitened(table_VD, seen)[seen]
    assert around_SD.mean(0) == pytest.approx(torch.zeros(6), abs=1e-5)
    assert (around_SD.T @ around_SD / len(seen)).numpy() == pytest.approx(torch.eye(6).numpy(), abs=1e-5)
    assert tool.dimensions(table_VD[seen]) < 5 < tool.dimensions(around_SD) == pytest.approx(6)
