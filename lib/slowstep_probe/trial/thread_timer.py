"""A timer of the kernel that signals one thread. It is none of those that a program may use by `signal`.

`alarm` and `setitimer` set one timer that all of a process shares, and its signal goes to any thread. Linux has others
(timer_create(2) with SIGEV_THREAD_ID), which a child does not inherit, and which end when a program is replaced.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time

SIGEV_THREAD_ID = 4


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_byte * 44),
    )


class _Times(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns"))


class ThreadTimer:
    """A timer that sends the signal `number` to the thread that makes it; OSError where the system has none.

    Setting it keeps the interpreter, as functions of a PyDLL do.
    """

    def __init__(self, number: int):
        self._library = _library()
        event = _Event(signal=number, notify=SIGEV_THREAD_ID, thread=threading.get_native_id())
        self._timer = ctypes.c_void_p()
        self._call("timer_create", time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer))

    def set(self, seconds: float) -> None:
        """Have it signal once, after so many seconds."""
        whole, nanoseconds = divmod(max(1, round(1e9 * seconds)), 10**9)
        times = _Times(first_s=whole, first_ns=nanoseconds)
        self._call("timer_settime", self._timer, 0, ctypes.byref(times), None)

    def delete(self) -> None:
        """End it. A signal may be on its way."""
        self._call("timer_delete", self._timer)

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._library, name)(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _library() -> ctypes.PyDLL:
    """Return the library with the functions of timers: the C library, or librt for glibc before 2.34."""
    for name in (None, "librt.so.1"):
        library = ctypes.PyDLL(name, use_errno=True)
        if hasattr(library, "timer_create"):
            return library
    raise OSError("the C library has no timers of threads")
