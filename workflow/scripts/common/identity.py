"""What names content: a digest of it, the hash that a run's weights have, the commit that wrote a file."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON: the same for equal content, however it is written or ordered."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def run_hash(resolved: dict) -> str:
    """The identity of the weights: everything in a resolved run but its names and how it is fine-tuned afterwards."""
    return digest({key: value for key, value in resolved.items() if key not in ("name", "paper", "finetune_recipe")})
