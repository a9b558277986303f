"""Write the run that trains one translation model at one scale: a run's weights, by the recipe of a task."""

import argparse
from pathlib import Path

import yaml

from common.atomic import write_summed
from common.errors import run_main
from plan.config import Config
from plan.kept import config_of
from plan.translators import resolve_translator

HEADER = (
    "# {run} for {task}, {setting}, scale {scale}: written by resolve_translator.py from config/runs and config/tasks\n"
)


def render(config: Config, run: str, task: str, setting: str) -> str:
    """The resolved run as YAML: sorted keys, so that equal content is equal bytes."""
    resolved = resolve_translator(config, run, task, setting)
    header = HEADER.format(run=run, task=task, setting=setting, scale=config.scale_name)
    return header + yaml.safe_dump(resolved, sort_keys=True, allow_unicode=True, width=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, type=Path, help="config/runs/<run>.yaml")
    parser.add_argument("--task", required=True, type=Path, help="config/tasks/<task>.yaml, of kind translation")
    parser.add_argument("--setting", required=True, help="one of the task's settings")
    parser.add_argument("--scale", required=True, type=Path, help="config/scales/<scale>.yaml")
    parser.add_argument("--licences", choices=("any", "open"), help="in place of config/config.yaml's")
    parser.add_argument("--out", required=True, type=Path, help="run.yaml to write")
    arguments = parser.parse_args()
    config = config_of(arguments.run, arguments.scale, "runs", arguments.licences)
    write_summed(arguments.out, render(config, arguments.run.stem, arguments.task.stem, arguments.setting))


if __name__ == "__main__":
    run_main(main)
