"""A run or a table of your own: the file, what it needs beside it, the checks, and the next command.

    make new-run NAME=mine FROM=xlm-r
    make new-table NAME=mine/table-01 RUNS="xlm-r mine" TASKS="ud-pos tatoeba"
    python workflow/scripts/new_item.py run mine --from xlm-r
    python workflow/scripts/new_item.py table mine/table-01 --runs xlm-r mine --tasks ud-pos tatoeba

A run extends another and holds what differs. A table shows its runs in rows and a column of each task; one in a new
folder of config/tables gets the line in config/published/papers.tsv that names it. Nothing that exists is changed, and
what does not pass the checks is taken back.
"""

import argparse
import re
from pathlib import Path

from common.atomic import write_text
from common.errors import UserError, run_main
from common.yamlfiles import check_known, read_yaml
from plan.config import Config
from plan.load import PAPERS, load_config

RUN = """\
# What differs from {parent}: write it here, key by key (config/README.md, "What a run says"). Until something does, the
# run is {parent} under another name, and is not trained again. A list, `objectives` too, replaces the parent's whole;
# one key of one objective is changed so:
#
#     objective_overrides: {{tlm: {{weight: 0.5}}}}
#
name: {name}
extends: {parent}
"""
TABLE = """\
# config/README.md, "What a table says", has the other keys.
paper: {folder}
item: {item}
title: "{runs}, side by side"
columns:
{columns}
groups:
  - title: Trained here
    setting: {setting}
    rows:
{rows}
"""
COLUMN = "  - {{task: {task}, metric: {metric}, setting: {setting}, languages: scale, average: true, heading: {task}}}"


def new_run(root: Path, name: str, parent: str) -> list[Path]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UserError(f"NAME={name}: a run is named in small letters, digits and hyphens, such as mine-2")
    check_known(parent, (path.stem for path in (root / "config/runs").glob("*.yaml")), "FROM", "run")
    path = root / f"config/runs/{name}.yaml"
    write_new(path, RUN.format(name=name, parent=parent))
    return [path]


def after_a_run(config: Config, name: str, parent: str) -> list[str]:
    """What to do next."""
    trains = config.runs[name]["kind"] == "pretrain"  # a checkpoint and an aligner do not
    return [
        f"config/runs/{name}.yaml: write into it what differs from {parent}, then:",
        *([f"  make train RUN={name}"] if trains else []),
        f'  make new-table NAME={name}/table-01 RUNS="{parent} {name}"',
    ]


def new_table(root: Path, name: str, runs: list[str], tasks: list[str]) -> tuple[list[Path], list[str]]:
    """A column shows a task's own metric in the first of its settings."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*", name):
        raise UserError(f"NAME={name}: write folder/table, in small letters, digits and hyphens: mine/table-01")
    for what, names in (("RUNS", runs), ("TASKS", tasks)):
        if twice := next((own for own in names if names.count(own) > 1), None):
            raise UserError(f"{what}: {twice} is named twice; remove one")
    for run in runs:
        check_known(run, (path.stem for path in (root / "config/runs").glob("*.yaml")), "RUNS", "run")
    folder, item = name.split("/")
    path = root / f"config/tables/{name}.yaml"
    columns = []
    for task in tasks:
        check_known(task, (path.stem for path in (root / "config/tasks").glob("*.yaml")), "TASKS", "task")
        about = read_yaml(root / f"config/tasks/{task}.yaml")
        columns.append({"task": task, "metric": about["metric"], "setting": next(iter(about["settings"]))})
    words = {
        "runs": ", ".join(runs),
        "columns": "\n".join(COLUMN.format(**column) for column in columns),
        "setting": columns[0]["setting"],
        "rows": "\n".join(f"      - {{label: {run}, run: {run}}}" for run in runs),
    }
    write_new(path, TABLE.format(folder=folder, item=item, **words))
    papers = root / PAPERS
    known, next_steps = papers.read_text(encoding="utf-8"), []
    if folder not in {line.partition("\t")[0] for line in known.splitlines()}:
        write_text(papers, f"{known}{folder}\t{folder}\t\n")
        next_steps = [f"{PAPERS}: its last line names {folder}: keep it or take it out with config/tables/{folder}/"]
    next_steps += [f"config/tables/{name}.yaml: its columns and rows can be changed; then:", f"  make table T={name}"]
    return [path], next_steps


def write_new(path: Path, text: str) -> None:
    if path.exists():
        raise UserError(f"{path}: is there already; choose another name, or change that file")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("."), help="the folder that holds config/")
    kinds = parser.add_subparsers(dest="kind", required=True)
    run = kinds.add_parser("run", help="a file of config/runs")
    run.add_argument("name")
    run.add_argument("--from", dest="parent", required=True, metavar="RUN", help="the run that it extends")
    table = kinds.add_parser("table", help="a file of config/tables")
    table.add_argument("name", help="folder/table")
    table.add_argument("--runs", nargs="+", required=True, help="its rows")
    table.add_argument("--tasks", nargs="+", default=["xnli"], help="its columns (default: xnli)")
    arguments = parser.parse_args()
    kept = (arguments.root / PAPERS).read_text(encoding="utf-8")
    if arguments.kind == "run":
        files, words = new_run(arguments.root, arguments.name, arguments.parent), []
    else:
        files, words = new_table(arguments.root, arguments.name, arguments.runs, arguments.tasks)
    try:
        config = load_config(arguments.root)
    except UserError:
        for path in files:
            path.unlink()
        write_text(arguments.root / PAPERS, kept)
        raise
    print("\n".join(words or after_a_run(config, arguments.name, arguments.parent)))


if __name__ == "__main__":
    run_main(main)
