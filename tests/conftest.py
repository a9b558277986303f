import os
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Real data in upstream layout (<host>/<path>), where the machine has it."""
    candidates = [os.environ.get("PARALLAX_MIRROR"), REPOSITORY.parent / "shared" / "mirror"]
    for candidate in filter(None, candidates):
        if Path(candidate, "MANIFEST.tsv").exists():
            return Path(candidate)
    pytest.skip("no mirror of real data: set PARALLAX_MIRROR to a folder that holds MANIFEST.tsv")


@pytest.fixture(scope="session")
def papers() -> Path:
    """The tables of the papers as CSV (<paper>/table-<nn>.csv), where the machine has them."""
    candidates = [os.environ.get("PARALLAX_PAPERS"), REPOSITORY.parent / "shared" / "papers"]
    for candidate in filter(None, candidates):
        if Path(candidate, "index.csv").exists():
            return Path(candidate)
    pytest.skip("no transcribed tables of the papers: set PARALLAX_PAPERS to a folder that holds index.csv")
