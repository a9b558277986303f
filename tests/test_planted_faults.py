"""The list of planted faults still fits the code; planting them is `python tests/planted_faults.py`."""

import pytest

import planted_faults
from planted_faults import FAULTS, Fault, plant


def test_there_are_faults_of_all_parts():
    assert len(FAULTS) >= 50 and len({one.what for one in FAULTS}) == len(FAULTS)
    parts = {one.place.partition("/")[0] for one in FAULTS if "/" in one.place}
    assert parts >= {"engine", "corpus", "plan", "report", "rules", "tasks", "training", "world", "watch", "billing"}


@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.what)
def test_a_fault_can_still_be_planted(repository, one):
    """Its old text stands in the code once, and what would notice it is there."""
    text = (repository / one.file).read_text(encoding="utf-8")
    assert text.count(one.old) == 1 and one.old != one.new
    if one.file.endswith(".py"):
        compile(text.replace(one.old, one.new), one.file, "exec")
    assert one.tests and all((repository / f"tests/test_{name}.py").is_file() for name in one.tests)


def test_a_copy_with_a_fault_fails_its_tests(tmp_path):
    one = next(one for one in FAULTS if one.tests == ("metrics",))
    tree = planted_faults.copied(tmp_path / "tree")
    plant(one, tree)
    status, failed = planted_faults.tested(one.tests, tree)
    assert status == 1 and failed.startswith("test_metrics.py::")
    with pytest.raises(AssertionError, match="mend the list"):
        plant(Fault("", one.file, one.old, "", one.tests), tree)
