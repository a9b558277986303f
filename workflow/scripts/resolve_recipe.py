"""Write how one task is fine-tuned and scored at one scale: the task file, one setting and recipe, the overrides."""

import argparse
from pathlib import Path

import yaml

from common.atomic import write_summed
from common.errors import run_main
from plan.config import Config
from plan.kept import config_of
from plan.recipes import resolve_recipe

HEADER = (
    "# {task}, {setting}, recipe {recipe}, scale {scale}: written by resolve_recipe.py from config/tasks/{task}.yaml\n"
)


def render(config: Config, task: str, setting: str, recipe: str) -> str:
    """The resolved recipe as YAML: sorted keys, so that equal content is equal bytes."""
    resolved = resolve_recipe(config, task, setting, recipe)
    header = HEADER.format(task=task, setting=setting, recipe=recipe, scale=config.scale_name)
    return header + yaml.safe_dump(resolved, sort_keys=True, allow_unicode=True, width=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True, type=Path, help="config/tasks/<task>.yaml")
    parser.add_argument("--setting", required=True, help="one of the task's settings")
    parser.add_argument("--recipe", required=True, help="one of the task's recipes; an unknown one falls to `default`")
    parser.add_argument("--scale", required=True, type=Path, help="config/scales/<scale>.yaml")
    parser.add_argument("--licences", choices=("any", "open"), help="in place of config/config.yaml's")
    parser.add_argument(
        "--out", required=True, type=Path, help="results/<scale>/recipes/<task>/<setting>/<recipe>.yaml"
    )
    arguments = parser.parse_args()
    config = config_of(arguments.task, arguments.scale, "tasks", arguments.licences)
    write_summed(arguments.out, render(config, arguments.task.stem, arguments.setting, arguments.recipe))


if __name__ == "__main__":
    run_main(main)
