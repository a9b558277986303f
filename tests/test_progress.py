"""What `make test` does around the tests: which cases it draws, in which order, and the time that it says is left."""

from collections import Counter

import progress

CASES = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(9))
def test_family(number):
    pass

@pytest.mark.parametrize("number", range(3))
def test_alone(number):
    pass

@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_on(device, number):
    pass
"""


def collected(pytester, *arguments: str) -> list[str]:
    done = pytester.runpytest_subprocess("--collect-only", "-q", *arguments)
    return [line for line in done.outlines if "::" in line]


def test_of_a_family_the_same_sample_is_drawn_and_all_with_whole(pytester, repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{repository}/tests:{repository}/workflow/scripts")
    for name in ("conftest.py", "progress.py"):
        pytester.path.joinpath(name).write_text((repository / "tests" / name).read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\nmarkers = sampled(n)")
    pytester.makepyfile(test_it=CASES)
    drawn = collected(pytester)
    assert len(drawn) == 2 + 3 + 1 + 4 and drawn == collected(pytester), "of a GPU's all"
    assert len(collected(pytester, "--whole")) == 9 + 3 + 8 and len(collected(pytester, "test_it.py::test_family")) == 9


def test_the_time_left_is_the_rest_at_the_pace_so_far():
    known, total = {"a.py": 60.0, "b.py": 30.0, "c.py": 10.0}, Counter({"a.py": 6, "b.py": 3, "c.py": 1})
    assert progress.seconds_left(known, total, Counter(), 0, 1) == 100
    assert progress.seconds_left(known, total, Counter(), 0, 2) == 50
    # half of the work took 100 seconds of two processes: four times what it took when it was measured
    assert progress.seconds_left(known, total, Counter({"a.py": 5}), 100, 2) == 100
    assert progress.seconds_left(known, total, total, 100, 2) == 0
    # nobody knows the second file: it takes as long as a mean one
    assert progress.seconds_left({"a.py": 60.0}, Counter({"a.py": 1, "new.py": 4}), Counter(), 0, 1) == 120


def test_the_file_of_durations_names_the_files_of_tests(repository):
    """But the one of which each test needs Slurm: `make test` knows how long is left of all that it runs."""
    known = progress.known_durations()
    assert {*known} == {path.name for path in (repository / "tests").rglob("test_*.py")} - {"test_slurm_document.py"}
    assert all(seconds >= 0 for seconds in known.values())
