"""The engine on a GPU, beside the same on a CPU. Without a GPU its half is skipped, and the CPU's half tries the tests.

    python -m pytest tests/gpu -rs
    python -m pytest tests/gpu -rs -k "not cpu"    # the GPU's half alone; docs/gpu.md has it in pieces

They need torch, NumPy and pytest, and the GPU (docs/gpu.md). What else the engine imports is stood in for where it is
not installed; the tests that read or write files with it are then skipped.
"""

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from unittest.mock import MagicMock

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow" / "scripts"), str(TESTS.parent / "benchmarks")]
NEEDED_BY_FILES = ("safetensors", "sentencepiece", "yaml")
MISSING = [name for name in NEEDED_BY_FILES if importlib.util.find_spec(name) is None]
for missing in MISSING:
    sys.modules |= {name: MagicMock() for name in (missing, f"{missing}.torch")}

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts: products that can be repeated

import torch  # noqa: E402
import torch.nn.attention.flex_attention as flex  # noqa: E402

from engine.attention import choose_kernels  # noqa: E402


def no_gpu(at_least: int = 1) -> str | None:
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return None if found >= at_least else f"needs {at_least} CUDA device{'s' * (at_least > 1)}, here {found}"


@pytest.fixture(params=["cpu", "cuda"])
def device(request) -> torch.device:
    if request.param == "cuda" and (reason := no_gpu()):
        pytest.skip(reason)
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def kernels_of_training(monkeypatch):
    """As pretrain.py chooses them. FlexAttention without its compiler is an error each time, not a warning once."""
    monkeypatch.setattr(flex, "_WARNINGS_SHOWN", set(), raising=False)
    with warnings.catch_warnings():
        choose_kernels(torch.device("cpu" if no_gpu() else "cuda"))
        warnings.filterwarnings("error", message="flex_attention called without torch.compile")
        yield


@pytest.fixture()
def whole_engine() -> None:
    if MISSING:
        pytest.skip(f"needs {', '.join(MISSING)}")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
