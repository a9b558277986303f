"""What the rules ask beside files: wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable


def any_of(names: Iterable[str]) -> str:
    """A wildcard constraint: exactly one of these names."""
    return "|".join(re.escape(name) for name in sorted(set(names))) or "nothing"
