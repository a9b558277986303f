"""docs/terminal.md: what the terminal says, as docs/terminal.py recorded it, and one of its failures recorded again."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from beside import module_at


@pytest.fixture(scope="module")
def terminal(repository) -> ModuleType:
    return module_at(repository / "docs/terminal.py")


@pytest.fixture(scope="module")
def recorded(repository) -> dict[str, tuple[str, str]]:
    """Title -> command and what it said."""
    text = (repository / "docs/terminal.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## (.*)\n\n```\n\$ (.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    return {title: (command, said) for title, command, said in parts}


def test_the_page_has_every_part_and_no_machine(terminal, recorded, repository):
    assert [(title, command) for title, (command, _) in recorded.items()] == [
        (title, command) for title, _, command in terminal.PARTS
    ], "record again: python docs/terminal.py"
    text = (repository / "docs/terminal.md").read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.>*-])/(?:home|tmp|root|work|usr|var|opt|mnt)\b\S*", text) == []
    assert re.findall(r"127\.0\.0\.1|\b\d\d:\d\d\b|\b20\d\d-\d\d-\d\d\b", text) == []
    assert not re.search("Traceback|CalledProcessError|set -euo", text)


def test_every_failure_ends_with_its_cause_and_mend(terminal, recorded):
    failures = [
        title for title, broken, _ in terminal.PARTS if broken not in (terminal.nothing_broken, terminal.under_way)
    ]
    assert len(failures) == 5
    for title in failures:
        said = [line for line in recorded[title][1].splitlines() if not line.startswith("make: ***")]
        assert said[-3].endswith(" failed:") and said[-1].startswith("  all that it said: results/"), title
        assert re.match(r"  error: .*[;:.] (?:to mend: |remove |delete |[lL]ower |run |score |predict )", said[-2]), (
            title
        )
        assert recorded[title][1].count("\n".join(said[-3:])) == 1, f"{title}: the cause twice"
    going = recorded["The status of a run under way, from another terminal"][1]
    assert (
        " left" in going and "\n  running for ...: pretrain run=xlm-r" in going and re.search(r"\n    step +\d+", going)
    )
    assert "it failed" in recorded["The status after a failure"][1]
    assert (
        "it is finished. Open: results/index.html"
        in recorded["Its status, from another terminal, when it has ended"][1]
    )
    for title in ("The demo", "A main run"):
        assert "Open: results/index.html" in recorded[title][1]


def test_what_belongs_to_a_machine_or_an_hour_is_left_out(terminal):
    tree = Path("/home/me/parallax")
    said = "12:30 3 of 4 jobs, 70 s left, 1 min 20 s so far\nElapsed time: 0:01:22.76\n"
    said += "log: /home/me/parallax/.snakemake/log/x\n"
    said += "from http://127.0.0.1:8123/a\nin /home/me/parallax: error: results/smoke/a.tsv:3: wrong"
    assert terminal.neutral(said, tree) == (
        "..:.. 3 of 4 jobs, ... left, ... so far\nElapsed time: ...\nlog: .snakemake/log/x\n"
        "from http://files.example/a\nin parallax: error: results/smoke/a.tsv:3: wrong"
    )


@pytest.mark.dag
def test_a_failure_says_today_what_the_page_says(terminal, recorded, tmp_path):
    title, broken, command = next(part for part in terminal.PARTS if part[1] is terminal.download_gone)
    tree = terminal.fresh_copy(tmp_path / "parallax")
    before = (tree / "config/datasets.tsv").read_bytes()
    with broken(tree):
        said = terminal.record(command, tree)
    assert said.splitlines() == recorded[title][1].splitlines(), "record again: python docs/terminal.py"
    assert (tree / "config/datasets.tsv").read_bytes() == before
