"""The log of a training: JSON lines for files, one line of progress for a person."""

import json
import sys
import time
from pathlib import Path

from common.atomic import atomic_path, told

LOG_EVERY = 10  # steps

PROGRESS_SECONDS = 5


class Log:
    """JSON lines in the state folder (it survives a retry), one progress line for a person on stderr."""

    def __init__(self, path: Path, step: int, steps: int, active: bool, cycle: int = 1):
        self.path, self.steps, self.active = path, steps, active
        self.cycle = cycle  # steps in which every objective has its turn: all of a cycle are logged, or none
        self.shown = self.started = time.monotonic()
        self.first_step, self.tokens = step, 0.0
        if active:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text().splitlines() if path.exists() else []
            kept = [line for line in lines if is_whole(line) and json.loads(line)["step"] <= step]
            with atomic_path(path) as temporary:  # killed here, the record of all steps before must not be lost
                temporary.write_text("".join(line + "\n" for line in kept))

    def write(self, step: int, signals: dict[str, float], rate: float, norm: float, tokens: float) -> None:
        if not self.active:
            return
        self.tokens += tokens
        elapsed = time.monotonic() - self.started
        speed = self.tokens / elapsed
        if -(-step // self.cycle) % LOG_EVERY == 0 or step in (1, self.steps):
            row = {"step": step, "lr": rate, "gradient_norm": norm, "tokens_per_second": round(speed), **signals}
            with told(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if time.monotonic() - self.shown > PROGRESS_SECONDS or step == self.steps:
            self.shown = time.monotonic()
            left = (self.steps - step) * elapsed / max(1, step - self.first_step)
            losses = "  ".join(f"{k.removesuffix('/loss')} {v:.3f}" for k, v in signals.items() if k.endswith("/loss"))
            end = "\r" if sys.stderr.isatty() and step < self.steps else "\n"
            text = f"step {step}/{self.steps}  {losses}  {speed:,.0f} tokens/s  {left:,.0f} s left"
            print(text, end=end, file=sys.stderr, flush=True)


def is_whole(line: str) -> bool:
    try:
        json.loads(line)
        return True
    except json.JSONDecodeError:
        return False
