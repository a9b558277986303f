"""Lists of different lengths that lie end to end in one array."""

import numpy as np


def ramp(lengths: np.ndarray) -> np.ndarray:
    """[2, 3] -> [0, 1, 0, 1, 2]."""
    total = int(lengths.sum())
    return np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def running_count(values: np.ndarray) -> np.ndarray:
    """For sorted values, how many equal ones came before: [3, 3, 5] -> [0, 1, 0]."""
    fresh = (
        np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if len(values) else np.empty(0, np.int64)
    )
    sizes = np.diff(np.append(fresh, len(values)))
    return ramp(sizes)
