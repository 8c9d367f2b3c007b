"""The C library's heap, on which a CPU's tensors lie: where it begins, and what becomes of memory that a step frees."""

from __future__ import annotations

import ctypes
import secrets

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""

SHIFT = 2**20
"""By up to so many bytes the heap of a trial is moved."""


def keep_freed_memory() -> bool:
    """Whether glibc, told to keep what is freed for the next who asks, will.

    By itself it returns memory to the system or not, as the heap happens to lie, and large tensors always; then each
    step takes it anew, page by page.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(M_TRIM_THRESHOLD, -1), mallopt(M_MMAP_MAX, 0)])


def shift() -> bytearray:
    """A piece of random size that moves what is allocated after it.

    A script's heap begins anywhere; those of a server's children begin at one place, and all launches would lie alike.
    """
    return bytearray(secrets.randbelow(SHIFT))
