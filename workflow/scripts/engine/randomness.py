"""Random numbers that depend on what they are for and on nothing else: not on rank, worker, batch or resume."""

import hashlib

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stable_hash(*parts: object) -> int:
    """A 63-bit integer of the parts, equal on every machine (Python's own hash is not)."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def mix(keys: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser: uint64 keys to uint64 that look random."""
    z = (keys + GOLDEN).astype(np.uint64, copy=False)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(keys: np.ndarray) -> np.ndarray:
    """uint64 keys to float64 in [0, 1)."""
    return (mix(keys) >> np.uint64(11)) * 2.0**-53


def generator(*purpose: object) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(stable_hash(*purpose)))
