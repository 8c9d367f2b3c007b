"""The C library's heap, on which a CPU's tensors lie: where it begins, and what becomes of memory that a step frees."""

from __future__ import annotations

import ctypes
import platform
import secrets
from typing import Any

from slowstep.settings.schema import FreedMemory

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""

SHIFT = 2**20
"""By up to so many bytes the heap of a trial is moved."""


def settle(freed_memory: FreedMemory) -> FreedMemory:
    """What becomes of freed memory from now on: what is asked for, where glibc is there and serves this process.

    By itself it returns memory to the system or not, as the heap happens to lie, and large tensors always; then each
    step takes it anew, page by page.
    """
    if freed_memory == "returned" or platform.libc_ver()[0] != "glibc":
        return "returned"
    libc, used = ctypes.CDLL("libc.so.6"), ctypes.CDLL(None)
    if _address(used.malloc) != _address(libc.malloc):
        return "returned"  # by whatever another library, preloaded, does with it
    kept = all([libc.mallopt(M_TRIM_THRESHOLD, -1), libc.mallopt(M_MMAP_MAX, 0)])
    return "kept" if kept else "returned"


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def shift() -> bytearray:
    """A piece of random size that moves what is allocated after it.

    A script's heap begins anywhere; those of a server's children begin at one place, and all launches would lie alike.
    """
    return bytearray(secrets.randbelow(SHIFT))
