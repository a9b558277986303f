"""Give the losses of trainings to TensorBoard or Weights & Biases, while they train or afterwards.

    python workflow/scripts/curves.py --to tensorboard --follow (pip install tensorboardX; to look: tensorboard)
    tensorboard --logdir results/mini/tensorboard
    python workflow/scripts/curves.py --to wandb              (pip install wandb; WANDB_MODE=offline sends nothing)

It reads the train.jsonl of every run and translation model, so that a training knows nothing of it, is not slowed and
not planned again; trainings of long ago are shown as well. Called again it goes on after the last step that it gave.
`make curves TO=tensorboard` is the same.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from common.atomic import atomic_path
from common.errors import UserError, run_main

PROJECT = "parallax"


class Writer(Protocol):
    def write(self, step: int, values: dict[str, float]) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Event files, a folder for each training."""

    def __init__(self, name: str, folder: Path):
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(self, step: int, values: dict[str, float]) -> None:
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run for each training; its name is its id, so that a later call goes on with the same one."""

    def __init__(self, name: str, folder: Path):
        import wandb

        self.run = wandb.init(project=PROJECT, name=name, id=name.replace("/", "."), dir=str(folder), resume="allow")

    def write(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def close(self) -> None:
        self.run.finish()


WRITERS: dict[str, tuple[Callable[[str, Path], Writer], str]] = {
    "tensorboard": (TensorBoard, "tensorboardX"),
    "wandb": (WeightsAndBiases, "wandb"),
}


def logs(results: Path) -> dict[str, Path]:
    """Training, such as `xlm-r/seed-1` -> its log: the finished one, or that of the training under way, which lies in
    state/<key>/; of several, which other settings have left, the newest."""
    finished: dict[str, Path] = {}
    under_way: dict[str, Path] = {}
    for kind in ("runs", "translators"):
        for path in sorted((results / kind).glob("**/train.jsonl"), key=lambda path: path.stat().st_mtime):
            is_under_way = path.parent.parent.name == "state"
            folder = path.parents[2] if is_under_way else path.parent
            (under_way if is_under_way else finished)[folder.relative_to(results / kind).as_posix()] = path
    return dict(sorted((under_way | finished).items()))


def rows_after(path: Path, step: int) -> Iterator[tuple[int, dict[str, float]]]:
    """The whole lines after a step; the last line may be half written."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            return
        try:
            row = json.loads(line)
            now = int(row.pop("step"))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise UserError(f"{path}, line {number}: not a step of a training; move the file away") from None
        if now > step:
            yield now, {key: value for key, value in row.items() if isinstance(value, int | float)}


def give(to: str, results: Path) -> int:
    """What is new of every training; the number of steps given."""
    make, package = WRITERS[to]
    given = 0
    for name, path in logs(results).items():
        folder = results / to / name
        mark = folder / "given-until"  # the last step that was
        until = int(mark.read_text()) if mark.exists() else 0
        rows = list(rows_after(path, until))
        if not rows:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        try:
            writer = make(name, folder)
        except ModuleNotFoundError as error:
            raise UserError(f"--to {to}: {error.name} is not installed; pip install {package}") from None
        for step, values in rows:
            writer.write(step, values)
        writer.close()
        with atomic_path(mark) as temporary:
            temporary.write_text(f"{rows[-1][0]}\n")
        given += len(rows)
    return given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", choices=sorted(WRITERS), default="tensorboard", help="default: %(default)s")
    parser.add_argument("--scale", default="mini", help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="default: results/<scale>")
    parser.add_argument("--follow", action="store_true", help="look again every ten seconds, until Ctrl-C")
    arguments = parser.parse_args()
    results = arguments.results or Path(f"results/{arguments.scale}")
    if not logs(results) and not arguments.follow:
        raise UserError(f"{results}: no training has begun here; make train RUN=xlm-r")
    given = give(arguments.to, results)
    into = results / arguments.to
    print(f"{len(logs(results))} trainings are in {into}, with {given} logged steps more than before", flush=True)
    while arguments.follow:
        time.sleep(10)
        give(arguments.to, results)


if __name__ == "__main__":
    run_main(main)
