"""Weights for others (safetensors that describe themselves) and resumable state for ourselves."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from atomic import atomic_path
from engine.model import Encoder, ModelConfig
from errors import UserError
from typed import build


def save_weights(path: str | Path, weights: nn.Module | dict[str, Tensor], metadata: dict[str, str]) -> None:
    """One safetensors file; metadata["model"] holds the ModelConfig, so the file needs no companion."""
    state = weights.state_dict() if isinstance(weights, nn.Module) else weights
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(state.items())}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)
        sort_header(temporary)


def sort_header(path: Path) -> None:
    """safetensors writes its metadata in a random order; sort it in place, so that equal weights are equal bytes."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(size))  # the same entries, so never longer than they were


def load_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path}: no such weights file") from None
    except SafetensorError as error:
        raise UserError(f"{path}: not a whole safetensors file ({error}); delete it and make it again") from None


def describe_model(config: ModelConfig) -> str:
    return json.dumps(asdict(config), sort_keys=True)


def load_encoder(path: str | Path) -> tuple[Encoder, dict[str, str]]:
    """The encoder of a pre-trained or fine-tuned weights file, and the file's metadata."""
    weights, metadata = load_weights(path)
    if "model" not in metadata:
        raise UserError(f"{path}: the file does not describe its model (no `model` in its metadata)")
    encoder = Encoder(build(ModelConfig, json.loads(metadata["model"]), "model"))
    prefix = "encoder."
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    try:
        encoder.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{path}: {error}") from None
    encoder.language_codes = json.loads(metadata.get("languages", "[]"))
    return encoder, metadata


def state_files(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    return sorted(folder.glob("step-*.pt"), reverse=True)


def save_state(folder: Path, step: int, state: dict, keep: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / f"step-{step:09d}.pt") as temporary:
        torch.save(state, temporary)
    sync_folder(folder)
    for old in state_files(folder)[keep:]:
        old.unlink()


def load_state(folder: Path) -> dict | None:
    """The newest readable checkpoint; an unreadable one is set aside with a warning and the one before it is used."""
    for path in state_files(folder):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            print(f"warning: {path} cannot be read ({error}); trying the checkpoint before it", file=sys.stderr)
            path.rename(path.with_suffix(".unreadable"))
    return None


def sync_folder(folder: Path) -> None:
    """A rename is only safe against a power cut once the folder itself is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
