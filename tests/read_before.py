"""The code of all scripts and tests, read by the first process of pytest for those that it begins.

Each would take eight seconds for it, most of them to write out what each `assert` says, where Python keeps no code in
files, or has none yet.
"""

import atexit
import contextlib
import importlib.util
import marshal
import os
import tempfile
from pathlib import Path
from types import CodeType

import pytest
from _pytest.assertion import rewrite

from remembered import compile_the_scripts, compiled, take_the_scripts

TESTS = Path(__file__).resolve().parent
READ_BEFORE = "PARALLAX_READ_BEFORE"  # a file


def read_the_code(config: pytest.Config) -> None:
    compile_the_scripts()
    tests = {}
    for path in sorted({*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py")}):
        kept = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(path, kept) is None:
            with contextlib.suppress(SyntaxError):  # which who imports it will be told
                tests[str(path)] = rewrite._rewrite_test(path, config)
    handle, name = tempfile.mkstemp(prefix="code-")
    atexit.register(os.unlink, name)
    with open(handle, "wb") as file:
        marshal.dump((compiled, tests), file)
    os.environ[READ_BEFORE] = name


def take_the_code() -> None:
    if READ_BEFORE not in os.environ:
        return
    scripts, tests = marshal.loads(Path(os.environ[READ_BEFORE]).read_bytes())
    compiled.update(scripts)
    take_the_scripts()
    write_out = rewrite._rewrite_test

    def known_or_written_out(path: Path, config: pytest.Config) -> tuple[bytes, CodeType]:
        source, code = tests.get(str(path), (b"", None))
        if code and source == importlib.util.source_hash(path.read_bytes()):
            return source, code
        return write_out(path, config)

    rewrite._rewrite_test = known_or_written_out
