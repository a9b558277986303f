"""Weights for others (safetensors that describe themselves) and resumable state for ourselves.

Both carry a sha256 of their own bytes, weights in their header and states in their name: neither format notices a
changed byte by itself.
"""

import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from common.atomic import atomic_path, sha256_of, told
from common.errors import UserError, why_no_file
from common.typed import build
from engine.dist import cut_like, whole
from engine.model import Encoder, shapes_alone
from engine.optim import AdamW
from engine.prenorm import PreNormConfig, PreNormEncoder
from engine.shape import ModelConfig

SHA256 = "sha256"  # key of the metadata
UNKNOWN = "0" * 64  # in its place while the file is summed up
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def save_weights(path: str | Path, weights: nn.Module | dict[str, Tensor], metadata: dict[str, str]) -> None:
    """One safetensors file; metadata["model"] holds the ModelConfig, so the file needs no companion."""
    state = weights.state_dict() if isinstance(weights, nn.Module) else weights
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(state.items())}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata=metadata | {SHA256: UNKNOWN})
        finish_header(temporary)


def finish_header(path: Path) -> None:
    """safetensors writes its metadata in a random order; sort it in place, so that equal weights are equal bytes, and
    write the sum of everything over the zeros that stand for it."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(size))  # the same entries, so never longer than they were
        file.seek(0)
        sum_ = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(8)
        file.write(text.replace(UNKNOWN.encode(), sum_.encode(), 1))


def check_own_sum(path: str | Path, known: str) -> None:
    with open(path, "rb") as file:
        start = file.read(8)
        header = file.read(int.from_bytes(start, "little"))
        digest = hashlib.sha256(start + header.replace(known.encode(), UNKNOWN.encode(), 1))
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    if digest.hexdigest() != known:
        raise UserError(
            f"{path}: not as it was written (sha256 is {digest.hexdigest()}, its header says {known}); "
            "delete it and make it again"
        )


def load_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata, all bytes checked. Older files have no sum."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if known := metadata.pop(SHA256, None):
                check_own_sum(path, known)
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except OSError:  # safetensors' own: it names no file, nor says that a folder is none
        raise UserError(f"{path}: {why_no_file(path)}; give a file of weights") from None
    except (SafetensorError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error}); delete it and make it again") from None


def describe_model(config: ModelConfig | PreNormConfig) -> str:
    return json.dumps(asdict(config), sort_keys=True)


def described_model(metadata: dict[str, str], path: str | Path) -> ModelConfig | PreNormConfig:
    """The shape of the encoder that a file's metadata describe."""
    try:
        values = json.loads(metadata["model"])
        is_pre_norm = isinstance(values, dict) and "pre_norm" in values
        return build(PreNormConfig if is_pre_norm else ModelConfig, values, "model")
    except (UserError, ValueError, RecursionError) as error:
        raise UserError(f"{path}, `model` of its metadata: {error}; make the file again") from None


def load_encoder(path: str | Path, dropout: float | None = None) -> tuple[Encoder | PreNormEncoder, dict[str, str]]:
    """The encoder of a pre-trained, fine-tuned or imported weights file, and the file's metadata; with another dropout
    than the file's where one is given."""
    weights, metadata = load_weights(path)
    if "model" not in metadata:
        raise UserError(f"{path}: the file does not describe its model (no `model` in its metadata)")
    config = described_model(metadata, path)
    if dropout is not None:
        config = replace(config, dropout=dropout, attention_dropout=dropout)
    kind = PreNormEncoder if isinstance(config, PreNormConfig) else Encoder
    prefix = "encoder."
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    try:
        with shapes_alone():  # before any memory is asked for: the file may describe what nobody has room for
            kind(config).load_state_dict(own, assign=True)
        encoder = kind(config)
        encoder.load_state_dict(own)
    except (AssertionError, RuntimeError) as error:  # of torch; the first of a table without a row of padding
        raise UserError(f"{path}: {error}") from None
    try:
        encoder.language_codes = json.loads(metadata.get("languages", "[]"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, `languages` of its metadata: {error}; make the file again") from None
    encoder.path = str(path)
    return encoder, metadata


# Resumable state: <folder>/step-<number>-<sha256, first half>.pt


@contextmanager
def sole_use(folder: Path, wait: float = 120.0) -> Iterator[None]:
    """One training at a time in a state folder: two would mix their logs and take away each other's checkpoints.

    The kernel frees the lock when its holder dies, however it dies. A job that was told to stop may still be saving
    while the next one starts, so there is some patience.
    """
    path = folder.with_name(f"{folder.name}.lock")
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    deadline = time.monotonic() + wait
    waiting = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            if time.monotonic() >= deadline:
                handle.close()
                raise UserError(
                    f"{folder}: {holder} is training this run with this seed; wait for it, or end it and run again. "
                    f"If it is gone, with its node, delete {path}"
                ) from None
            if not waiting:
                print(f"{folder}: {holder} is at work here; waiting up to {wait:.0f} s", file=sys.stderr, flush=True)
            waiting = True
            time.sleep(0.2)
            continue
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            print(f"warning: {path}: this file system knows no locks; start this run only once", file=sys.stderr)
        if is_at(handle.fileno(), path):
            break
        handle.close()  # its holder ended and took the file away
        handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    try:
        handle.truncate(0)
        job = os.environ.get("SLURM_JOB_ID")
        handle.write(f"process {os.getpid()} on {platform.node()}{f' (Slurm job {job})' if job else ''}\n")
        handle.flush()
        yield
    finally:
        path.unlink(missing_ok=True)
        handle.close()


def is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def state_files(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    return sorted(folder.glob("step-*.pt"), reverse=True)


def whole_state(model: nn.Module, optimizer: AdamW | None = None) -> dict:
    """{model, optimizer} of all ranks, for rank 0 to save. Every rank must call it."""
    state = {"model": {name: whole(tensor) for name, tensor in model.state_dict().items()}}
    if optimizer:
        weights, held = optimizer.weights(), optimizer.state_dict()["state"]
        state["optimizer"] = {"state": {i: optimizer.whole_state(weights[i]) for i in held}}
    return state


def load_whole_state(model: nn.Module, optimizer: AdamW, state: dict) -> None:
    own = model.state_dict()
    model.load_state_dict({name: cut_like(tensor, own[name]) for name, tensor in state["model"].items()})
    weights = optimizer.weights()
    held = {i: optimizer.cut_state(weights[i], own) for i, own in state["optimizer"]["state"].items()}
    optimizer.load_state_dict({"state": held})


def save_state(folder: Path, step: int, state: dict, keep: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    unnamed = folder / f"step-{step:09d}.unnamed"
    with atomic_path(unnamed) as temporary, open(temporary, "wb") as file:
        torch.save(state, file)  # given a name, it would not say why it could not write
    with told(unnamed):
        os.replace(unnamed, folder / f"step-{step:09d}-{sha256_of(unnamed)[:32]}.pt")
        sync_folder(folder)
    for old in state_files(folder)[keep:]:
        old.unlink()


def load_state(folder: Path) -> dict | None:
    """The newest readable checkpoint; an unreadable one is set aside with a warning and the one before it is used."""
    for path in state_files(folder):
        try:
            known = re.search("-([0-9a-f]{32})$", path.stem)  # older ones have no sum in their name
            if known and not sha256_of(path).startswith(known[1]):
                raise ValueError("its bytes are not those that were written")
            return torch.load(path, map_location="cpu", weights_only=True)
        except FileNotFoundError:  # another rank has set it aside
            continue
        except OSError as error:  # a disk that does not answer says nothing of the bytes
            raise UserError(f"{path}: cannot be read now ({error.strerror}); run again") from error
        except Exception as error:
            print(f"warning: {path} cannot be read ({error}); trying the checkpoint before it", file=sys.stderr)
            with suppress(FileNotFoundError):  # another rank was faster
                path.rename(path.with_suffix(".unreadable"))
    return None


def sync_folder(folder: Path) -> None:
    """A rename is only safe against a power cut once the folder itself is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
