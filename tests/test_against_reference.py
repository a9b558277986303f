"""benchmarks/against_reference.py: how far one machine's scores are from those that are kept."""

import sys

import pytest

from beside import module_at
from small_results import entry, write


@pytest.fixture
def tool(repository):
    return module_at(repository / "benchmarks/against_reference.py")


def test_what_both_have_is_compared_and_another_configuration_left_out(tool, tmp_path, monkeypatch, capsys):
    own, kept = tmp_path / "own", tmp_path / "kept"
    for root, german in ((own, 50.0), (kept, 44.0)):
        write(root, [entry("de", german), entry("fr", 40.0)], seed=1)
        write(root, [entry("de", 41.0), entry("fr", 40.0)], seed=2)
        write(root, [entry("de", german)], seed=3, run_hash=str(root))
        write(root, [entry("de", 7.0)], task="ud-pos", seed=4 if root == own else 5)
    found, others = tool.distances(own, kept)
    assert found == {("xnli", "transfer"): tool.Distance(same=1, largest=6.0, means=[3.0, 0.0])} and others == 1
    monkeypatch.setattr(sys, "argv", ["against_reference.py", "--results", str(own), "--reference", str(kept)])
    tool.main()
    assert capsys.readouterr().out.splitlines()[1:] == [
        "xnli\ttransfer\t2\t1\t6.0\t1.5\t3.0",
        "2 files, 1 the same",
        "1 of another configuration, left out",
    ]


def test_a_number_that_only_one_has_is_a_difference(tool, tmp_path):
    write(tmp_path / "own", [entry("de", 50.0)])
    write(tmp_path / "kept", [entry("de", 50.0), entry("fr", 40.0)])
    assert tool.distances(tmp_path / "own", tmp_path / "kept")[0]["xnli", "transfer"].same == 0


def test_without_scores_it_says_what_makes_them(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["against_reference.py", "--scale", "mini", "--results", str(tmp_path)])
    with pytest.raises(tool.UserError, match="to mend: make SCALE=mini"):
        tool.main()
