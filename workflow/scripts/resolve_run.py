"""Write one pre-training run at one scale: the run file, the scale's overrides over it, and only the data it has."""

import argparse
from pathlib import Path

import yaml

from common.atomic import write_summed
from common.errors import run_main
from plan.config import Config
from plan.kept import config_of
from plan.runs import resolve_run

HEADER = (
    "# {run} at scale {scale}: written by resolve_run.py from config/runs/{run}.yaml and config/scales/{scale}.yaml\n"
)


def render(config: Config, name: str) -> str:
    """The resolved run as YAML: sorted keys, so that equal content is equal bytes."""
    content = yaml.safe_dump(resolve_run(config, name), sort_keys=True, allow_unicode=True, width=120)
    return HEADER.format(run=name, scale=config.scale_name) + content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, type=Path, help="config/runs/<run>.yaml")
    parser.add_argument("--scale", required=True, type=Path, help="config/scales/<scale>.yaml")
    parser.add_argument("--licences", choices=("any", "open"), help="in place of config/config.yaml's")
    parser.add_argument("--out", required=True, type=Path, help="results/<scale>/runs/<run>/run.yaml")
    arguments = parser.parse_args()
    config = config_of(arguments.run, arguments.scale, "runs", arguments.licences)
    write_summed(arguments.out, render(config, arguments.run.stem))


if __name__ == "__main__":
    run_main(main)
