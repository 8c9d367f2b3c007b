"""The C library's heap, which holds a CPU's tensors: its beginning, and the fate of memory that a step frees."""

from __future__ import annotations

import ctypes
import platform
import secrets
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of mallopt, from glibc's malloc.h."""

PIECES, LARGEST = 8, 2**20
"""How many pieces of memory a trial takes before it allocates anything, and the most bytes of each."""


def settle(freed_memory: str) -> str:
    """Keep freed memory from now on if `freed_memory` is 'kept', and return what is in effect: 'kept' or 'returned'.

    Memory can be kept only where glibc serves this process. By itself glibc returns large tensors to the system always,
    and other memory as the heap happens to lie. Then each step takes it anew, page by page.
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


def shift() -> list[bytearray]:
    """Return pieces of memory of random sizes, which move all that is allocated after them.

    A script's heap begins at a random place. The heaps of a server's children all begin at one place and have the same
    holes, so without the pieces the memory of all launches would lie alike. One piece leaves most holes as they are.
    """
    return [bytearray(secrets.randbelow(LARGEST)) for _ in range(PIECES)]
