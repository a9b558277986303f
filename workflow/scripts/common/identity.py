"""What names content: a digest of it, the hash that a run's weights have, the commit that wrote a file."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON: the same for equal content, however it is written or ordered."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def content_hash(value: Any) -> str:
    """Its first 16 digits: a name for what was asked."""
    return digest(value)[:16]


# Of a resolved run: its names, what happens afterwards, and what changes no bit (tests/test_every_mix.py).
NO_PART_OF_WEIGHTS = ("name", "paper", "finetune_recipe", "activations")


def run_hash(resolved: dict) -> str:
    """The identity of the weights that a resolved run has."""
    return digest({key: value for key, value in resolved.items() if key not in NO_PART_OF_WEIGHTS})


def commit_id() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
