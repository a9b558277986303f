"""Who imports whom, read from the files: scripts are rules, rooms are packages, and no import goes round."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from plan.code import local_imports

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow/scripts"
MOST_LINES, MOST_OF_THE_PLAN = 600, 320
# Those that are longer, and how long they may be: a number here goes down, never up.
LONGER = {
    "scripts/build_world.py": 630,
}
MOST_LINES_OF_A_FUNCTION = 80


def module_of(path: Path) -> str:
    parts = path.relative_to(SCRIPTS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named_in(path: Path) -> set[str]:
    """Every module that a file may import, at its head, in a function or for its types alone."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Module -> those of ours that it imports. hub/ is copied beside exported models and imports none of them."""
    paths = {module_of(path): path for path in SCRIPTS.rglob("*.py") if path.parent.name != "hub"}
    return {module: (named_in(path) & paths.keys()) - {module} for module, path in paths.items()}


def room_of(module: str) -> str:
    return module.partition(".")[0] if (SCRIPTS / module.partition(".")[0]).is_dir() else ""


def test_no_import_goes_round(imports):
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"imports go round: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    "room, others",
    [
        ("common", {"plan", "fetching", "corpus", "engine", "training", "report", "billing", "tasks", "world"}),
        ("engine", {"plan", "fetching", "corpus", "training", "report", "billing", "tasks", "world"}),
        ("plan", {"fetching", "corpus", "training", "report", "billing", "tasks", "world"}),
        ("fetching", {"corpus", "engine", "training", "report", "billing", "tasks", "world"}),
        ("corpus", {"fetching", "training", "report", "billing"}),
        ("training", {"fetching", "report", "billing"}),
        ("report", {"fetching", "billing"}),
    ],
)
def test_a_room_does_not_import_what_stands_on_it(imports, room, others):
    wrong = {
        f"{module} imports {name}"
        for module, names in imports.items()
        if room_of(module) == room
        for name in names
        if room_of(name) in others
    }
    assert not wrong


def test_nothing_imports_a_script_but_the_translator_its_loop(imports):
    scripts = {module for module in imports if not room_of(module)}
    found = {(module, name) for module, names in imports.items() for name in names & scripts}
    assert found == {("train_translator", "pretrain")}


def test_no_test_imports_from_a_test():
    """What files of tests share lies in conftest.py and in the modules beside it."""
    tests = SCRIPTS.parent.parent / "tests"
    files = list(tests.rglob("*.py"))
    known = {path.stem for path in files if path.name.startswith("test_")}
    found = {f"{path.relative_to(tests)} imports {name}" for path in files for name in named_in(path) & known}
    assert len(known) > 50 and not found


def test_beside_the_rooms_lie_scripts_and_no_library():
    rules = "".join(path.read_text(encoding="utf-8") for path in (SCRIPTS.parent / "rules").glob("*.smk"))
    called = set(re.findall(r"workflow/scripts/(\w+)\.py", rules))
    there = {path.stem for path in SCRIPTS.glob("*.py")}
    assert called <= there
    for name in there:
        text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
        assert text.endswith('if __name__ == "__main__":\n    run_main(main)\n'), f"{name}.py is no script"


def test_files_and_functions_are_short_enough_to_be_read_whole():
    long = []
    for path in [*SCRIPTS.rglob("*.py"), *SCRIPTS.parent.rglob("*.smk")]:
        name, lines = path.relative_to(SCRIPTS.parent).as_posix(), path.read_text(encoding="utf-8").count("\n")
        most = LONGER.get(name, MOST_OF_THE_PLAN if name.startswith("scripts/plan/") else MOST_LINES)
        if lines > most:
            long.append(f"{name}: {lines} lines, at most {most}")
        assert name not in LONGER or lines > MOST_LINES, f"{name} is short enough: take it out of LONGER"
    for path in SCRIPTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_function = isinstance(node, ast.FunctionDef)
            if is_function and (lines := node.end_lineno - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION:
                long.append(f"{path.relative_to(SCRIPTS)}, {node.name}: {lines} lines")
    assert not long


def test_a_summary_of_a_training_hangs_on_little():
    """It is planned again when this code changes: for every training there is one."""
    files = local_imports(SCRIPTS / "summarise_training.py")
    assert len(files) <= 6 and not any("claim" in file for file in files), files
