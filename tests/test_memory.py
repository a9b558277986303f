"""benchmarks/memory.py: what jobs took beside what their rules ask for."""

import re
import sys
from pathlib import Path

import pytest

from beside import module_at
from common.errors import UserError
from plan.load import load_config
from trees import rule_blocks

HEADER = "s\th:m:s\tmax_rss\tmax_vms\n"


@pytest.fixture(scope="module")
def memory(repository):
    return module_at(repository / "benchmarks/memory.py")


def write(results: Path, rule: str, job: str, mb: str) -> None:
    path = results / "benchmarks" / rule / f"{job}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}1.0\t0:00:01\t{mb}\t900\n", encoding="utf-8")


def test_every_rule_with_a_benchmark_is_known_by_its_folder(memory, repository):
    """Its folder may be that of several rules, of one script."""
    asked = memory.asked(load_config(repository, {"scale": "mini"}))
    for rule, block in rule_blocks(repository).items():
        if "benchmark:" in block:
            folder = re.search(r"benchmarks/(\w+)", block.partition("benchmark:")[2]).group(1)
            assert folder in asked, rule


def test_a_job_beyond_what_its_rule_asks_for_is_named(memory, tmp_path, monkeypatch, capsys):
    def status() -> int:
        monkeypatch.setattr(sys, "argv", ["memory.py", "--scale", "mini", "--results", str(tmp_path)])
        return memory.main()

    with pytest.raises(UserError, match="no benchmark files with max_rss"):
        status()
    write(tmp_path, "score", "a/seed-1", "120.5")
    write(tmp_path, "score", "a/seed-2", "240.0")
    write(tmp_path, "score", "a/seed-3", "-")
    assert status() == 0 and "score\t2\t240\t2000\t0.12" in capsys.readouterr().out
    write(tmp_path, "score", "a/seed-3", "2001")
    assert (
        status() == 1 and "score/a/seed-3.tsv: 2001 MB of 2000; raise mem_mb of rule score" in capsys.readouterr().err
    )
    write(tmp_path, "scores", "a", "1")
    with pytest.raises(UserError, match="no rule scores asks for mem_mb"):
        status()
