"""The environments of rules against the pins and against what their scripts import; the container against CI's list."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from plan.code import local_imports
from trees import copy_tree

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENTS = sorted((REPOSITORY / "envs").glob("*.yaml"))
# what conda calls a package of PyPI, and what one imports of it
CONDA = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
IMPORTED_AS = {"pyyaml": "yaml", "fasttext-community": "fasttext"}
# what is imported where it is used alone, and by which rules: the others import the module around it for something else
FOR_ONE_USE = {
    "fasttext": ("clean", "train_language_id", "report_cleaning"),
    "sacremoses": ("score",),
    "pandas": ("collect_scores",),
}


OF_THE_DEMO = {"audit", "draw_effects", "evaluate_claims", "make_ledger", "make_site", "plot_figure"}


def pins(path: Path) -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines if line)}


def packages(path: Path) -> dict[str, str]:
    """Package, as PyPI calls it -> version, of one environment; those without a pin have none."""
    found = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]:
        if isinstance(entry, dict):
            found |= {name.lower(): version for name, version in (one.split("==") for one in entry["pip"])}
        else:
            name, _, version = entry.partition(" ")
            found[CONDA.get(name, name)] = version.removeprefix("=")
    return found


def test_no_environment_with_packages_of_pip_has_pins_of_conda():
    """Snakemake installs from the pins alone, which know nothing of what stands under `pip:`."""
    of_pip = [path.stem for path in ENVIRONMENTS if "pip:" in path.read_text(encoding="utf-8")]
    assert of_pip == ["data", "diagrams", "torch"], "mend CONTRIBUTING.md, too, which names the others"
    assert [path for path in (REPOSITORY / "envs").glob("*.pin.txt") if path.name.split(".")[0] in of_pip] == []


def test_the_lock_file_has_what_is_required():
    locked = pins(REPOSITORY / "requirements.lock")
    required = pins(REPOSITORY / "requirements.txt")
    assert required and {name: locked.get(name) for name in required} == required
    of_tests = pins(REPOSITORY / "tests/requirements.txt")
    assert of_tests and all(locked.get(name, version) == version for name, version in of_tests.items())


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_has_the_pins_of_the_lock_file(path):
    locked = pins(REPOSITORY / "requirements.lock")
    assert yaml.safe_load(path.read_text())["channels"] == ["conda-forge", "nodefaults"]
    own = packages(path)
    assert own["python"] == ">=3.11"
    pinned = {name: version for name, version in own.items() if version and name != "python"}
    assert pinned == {name: locked[name] for name in pinned}
    assert set(own) - set(pinned) <= {"python", "pip", "texlive-core"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.partition(".")[0])
    return found


def rules() -> list[tuple[str, str, str]]:
    """(rule, its script, its environment)"""
    found = []
    for path in sorted((REPOSITORY / "workflow/rules").glob("*.smk")):
        for block in re.split(r"^(?=rule )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name = re.match(r"rule (\w+):", block).group(1)
            script = re.search(r"workflow/scripts/(\w+)\.py", block).group(1)
            found.append((name, script, re.search(r"envs/(\w+)\.yaml", block).group(1)))
    return found


def imported_by(script: str, rule: str) -> set[str]:
    """The packages that a rule's script and all that it imports of ours import."""
    path = REPOSITORY / f"workflow/scripts/{script}.py"
    files = [path, *map(Path, local_imports(path))]
    local = {one.stem for one in (REPOSITORY / "workflow/scripts").iterdir()}
    foreign = set().union(*map(imports, files)) - local - set(sys.stdlib_module_names)
    return foreign - {module for module, users in FOR_ONE_USE.items() if not rule.startswith(users)}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule[0])
def test_an_environment_has_what_its_rules_import(rule):
    name, script, environment = rule
    foreign = imported_by(script, name)
    there = {IMPORTED_AS.get(name, name) for name in packages(REPOSITORY / f"envs/{environment}.yaml")}
    assert foreign <= there, f"envs/{environment}.yaml lacks {', '.join(sorted(foreign - there))}"


def test_the_lock_of_the_demo_is_a_part_of_the_lock():
    locked, demo = pins(REPOSITORY / "requirements.lock"), pins(REPOSITORY / "requirements-demo.lock")
    required = (REPOSITORY / "requirements-demo.txt").read_text(encoding="utf-8").splitlines()
    assert {line.lower() for line in required if not line.startswith("#")} <= set(demo)
    assert demo
    assert demo == {name: locked[name] for name in demo}
    assert not {"torch", "fasttext-community"} & set(demo)


def test_the_demo_installs_what_its_rules_import():
    """But torch, which they import where the engine is asked (test_reference.py makes the demo without it)."""
    there = {IMPORTED_AS.get(name, name) for name in pins(REPOSITORY / "requirements-demo.lock")}
    used = [(name, script) for name, script, _ in rules() if name in OF_THE_DEMO]
    assert {name for name, _ in used} == OF_THE_DEMO
    for name, script in used:
        assert imported_by(script, name) - {"torch", "safetensors"} <= there, name


CONDA_ITSELF = """#!{python}
import json, os, pathlib, sys

words = sys.argv[1:]
if words == ["--version"]:
    print("conda 25.1.0")
elif words == ["info", "--json"]:
    print(json.dumps({{"conda_prefix": "/opt/conda", "platform": "linux-64"}}))
elif words[:2] == ["config", "--get"]:
    print(json.dumps({{"get": {{"channel_priority": "strict"}}}}))
elif words[:1] == ["clean"]:
    pass
elif words[:2] == ["env", "create"]:
    pathlib.Path(words[words.index("--prefix") + 1]).mkdir(parents=True)
    with open({log!r}, "a") as log:
        log.write(json.dumps(pathlib.Path(words[words.index("--file") + 1]).read_text()) + "\\n")
else:
    sys.exit(f"unexpected: {{words}}")
"""


@pytest.mark.dag
def test_conda_is_asked_for_each_environment_once(tmp_path):
    """As `snakemake --sdm conda --conda-create-envs-only` asks; a stand-in for conda writes it down."""
    tree, log = copy_tree(REPOSITORY, tmp_path / "tree", own_reference=False), tmp_path / "log"
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "conda").write_text(CONDA_ITSELF.format(python=sys.executable, log=str(log)))
    (bin_ / "conda").chmod(0o755)
    path = os.pathsep.join((str(bin_), str(Path(sys.executable).parent), os.environ["PATH"]))
    wanted = ("results/tables/all.pdf", "results/index.html")
    command = ["snakemake", "--cores", "1", "--sdm", "conda", "--conda-create-envs-only", "--config", "scale=smoke"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--", *wanted],
        cwd=tree, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    asked = sorted(map(json.loads, log.read_text().splitlines()))
    assert asked == sorted(one.read_text(encoding="utf-8") for one in ENVIRONMENTS)


def test_the_container_has_the_packages_of_continuous_integration():
    recipe = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    ci = (REPOSITORY / ".ci/run").read_text(encoding="utf-8")
    wanted = {name for words in re.findall(r'^(?:first|packages)="(.*?)"', ci, re.MULTILINE) for name in words.split()}
    installed = set(re.search(r"apt-get install .*?--no-install-recommends(.*?)&&", recipe, re.DOTALL).group(1).split())
    assert installed - {"\\"} == wanted
    for source in re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", recipe, re.MULTILINE):
        assert all((REPOSITORY / name).exists() for name in source.split()), source


def test_continuous_integration_installs_then_tests(tmp_path):
    """On a machine that has nothing: programs that write down how they are called stand for those that install."""
    for name, does in {"apt-get": "", "dpkg-query": "exit 1", "id": "echo 0", "make": ""}.items():
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n{does}\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_text((REPOSITORY / ".ci/run").read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "not found" not in done.stderr, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    installs = [call for call in calls if call.startswith("apt-get install")]
    assert calls.count("apt-get update --quiet") == 1
    assert "python3-venv" in installs[0] and any("texlive-latex-base" in call for call in installs[1:])
    assert any("slurmctld" in call for call in installs)
    order = [
        next(n for n, call in enumerate(calls) if what in call)
        for what in ("python3-venv", ".installed-for-tests", "make test")
    ]
    assert order == sorted(order) and calls.count("make test") == calls.count("make test-slurm") == 1


def test_the_citation_names_the_papers():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "MIT"
    assert citation["authors"] and citation["message"] and citation["title"].startswith("Parallax")
    with open(REPOSITORY / "config/published/papers.tsv", encoding="utf-8") as file:
        cited = [line.rstrip("\n").split("\t")[2] for line in list(file)[1:]]
    of_papers = [one for one in cited if one and "course blog" not in one]
    for reference in citation["references"]:
        assert any(reference["title"].lower() in one.lower() for one in cited), reference["title"]
    assert len(citation["references"]) == len(of_papers)
