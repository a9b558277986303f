"""The Python that the rules call: that of .venv, or jobs would fail one after the other for want of a module."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

NEEDED = "import numpy, yaml, zstandard"  # a few that no Python brings along


def wrong_python(running: str = sys.executable) -> str | None:
    """What to do where `python` on PATH is another one than Snakemake's, and lacks what the rules import."""
    found = shutil.which("python")
    if found and Path(found).parent == Path(running).parent:
        return None
    if found and subprocess.run([found, "-c", NEEDED], capture_output=True, check=False).returncode == 0:
        return None
    what = f"`python` is {found}, which lacks the packages of requirements.lock" if found else "no `python` on PATH"
    return f"{what}, and the rules call it: . {Path(running).parent}/activate, then the same line again"
