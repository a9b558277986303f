"""Another library measured beside ours: asked in a Python of its own, and the result that names both."""

import datetime
import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from machine import processor

from common.errors import UserError

GOAL = 1.0  # times as fast as the other


def ask(python: Path, code: str, given: dict) -> dict:
    """What the other's Python says last, of the documents in the folder given["text"]."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "text").symlink_to(given["text"])
        call = [str(python), "-c", code, json.dumps(given | {"folder": name})]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"--peer {python}: datatrove ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def tell(spent: Mapping[str, Sequence[float]], written: int, found: dict, out: Path | None) -> int:
    """Print and write speeds and ratios of turns, ours under "ours", for so many bytes; 1 where one is faster."""
    ratios = {
        name: round(statistics.median(its / own for own, its in zip(spent["ours"], times, strict=True)), 2)
        for name, times in spent.items()
        if name != "ours"
    }
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": processor(),
        "megabytes": round(written / 1e6, 1),
        "mb_per_second_of_a_core": {
            name: round(written / 1e6 / statistics.median(times), 2) for name, times in spent.items()
        },
        "times_as_fast_as": ratios,
        "goal": GOAL,
        **found,
    }
    print(json.dumps(result, indent=1))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(any(ratio < GOAL for ratio in ratios.values()))
