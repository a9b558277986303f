import fcntl
import os
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import ready
from read_before import READ_BEFORE, read_the_code, take_the_code
from remembered import remember_the_configuration
from slurm import cluster as slurm
from trees import copy_tree, snakemake

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))
os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: tests run beside each other, one on each core

pytest_plugins = ("progress", "pytester")


remember_the_configuration()
take_the_code()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="all tests of families of which else a sample is drawn")


def pytest_configure(config: pytest.Config) -> None:
    # Who measures has each process count its own.
    if getattr(config.option, "numprocesses", None) and not config.option.write_durations:
        ready.share()
        if config.args_source is config.ArgsSource.TESTPATHS and READ_BEFORE not in os.environ:
            read_the_code(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a parametrised test marked `sampled(n)` n cases, always the same ones; all of what is named by `::`, and all
    of a GPU's."""
    if config.getoption("--whole") or any("::" in argument for argument in config.args):
        return
    families = defaultdict(list)
    for item in items:
        if (marker := item.get_closest_marker("sampled")) and item.callspec.params.get("device") != "cuda":
            families[item.nodeid.partition("[")[0], *marker.args].append(item)
    left_out = set()
    for (name, count), cases in families.items():
        left_out |= {*cases} - {*random.Random(name).sample(cases, min(count, len(cases)))}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """A copy of config/, with no result beside it; files that need more have a `tree` of their own."""
    shutil.copytree(repository / "config", tmp_path / "config")
    return tmp_path


@pytest.fixture(scope="session")
def smoke(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with all of scale smoke, computed for real as by `make smoke`, once for all files and processes: copy it
    before a change."""
    root = tmp_path_factory.getbasetemp()
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    tree, whole = shared / "smoke", shared / "smoke.whole"
    with open(shared / "smoke.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            assert not tree.exists(), "it failed in another process, which says why"
            copy_tree(repository, tree, own_reference=False)
            snakemake(tree, "--cores", "2", "--config", "scale=smoke", "--", "tables", "results/index.html")
            whole.touch()
    return tree


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    """A Slurm on this machine, of one process of tests."""
    if slurm.missing():
        pytest.skip(f"no Slurm here: {', '.join(slurm.missing())} (Debian: slurmctld slurmd slurm-client)")
    with slurm.running(seconds=4500) as one:
        yield one


@pytest.fixture(scope="module")
def paper(repository):
    """The configuration at the scale of the papers."""
    from plan.load import load_config

    return load_config(repository, {"scale": "paper"})


@pytest.fixture
def loaded(paper, tmp_path):
    """A run of it by its name, as a training reads it."""
    from costs import load_resolved

    return lambda name: load_resolved(paper, name, tmp_path)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """A few tiny shards: small_corpus.py."""
    from small_corpus import write_corpus

    folder = tmp_path_factory.mktemp("shards")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """The like with their vocabulary and a plan of sampling, to train on: small_training.py."""
    from small_training import make_corpus

    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def double() -> Iterator[None]:
    """What is made in the test is made in fp64, where equal means equal but for roundings."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
