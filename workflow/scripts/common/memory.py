"""How the C library treats memory that is no longer used."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT = -1, -3, 2**30  # of malloc.h, in bytes


def keep_freed_memory() -> None:
    """Of glibc: what a step frees is there for the next step, and not given back and asked for anew, page by page."""
    allow = getattr(ctypes.CDLL(None), "mallopt", None)  # other libraries have none
    for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD) if allow else ():
        allow(parameter, KEPT)
