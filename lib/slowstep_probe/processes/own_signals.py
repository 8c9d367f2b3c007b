"""A process whose signals reach nobody but itself and what it starts, by Landlock (landlock(7), Linux 6.12 and later).

The kernel holds that for whatever sends them: `pkill` in a shell, a C extension, a process that was started by one.
None of these may look into the memory of other processes, either (ptrace(2), /proc/PID/root).
"""

from __future__ import annotations

import ctypes
import os

CREATE_RULESET, RESTRICT_SELF = 444, 446
"""Numbers of system calls, which are the same on all machines but Alpha (the kernel's scripts/syscall.tbl)."""

ASK_FOR_VERSION, VERSION_OF_SCOPES = 1, 6
SIGNALS = 1 << 1
"""What processes may only send to others of their own domain (linux/landlock.h, LANDLOCK_SCOPE_SIGNAL)."""


class _Rules(ctypes.Structure):
    """`struct landlock_ruleset_attr`: accesses to files and to the network that are judged, and what has a scope."""

    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


def keep_signals() -> bool:
    """Let no signal of this process, which has one thread, leave it and its descendants; return whether that is so.

    It needs CAP_SYS_ADMIN, at least in a user namespace of its own.
    """
    if not can_keep_signals():
        return False
    libc, rules = ctypes.CDLL(None, use_errno=True), _Rules(scoped=SIGNALS)
    asked = libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    if asked < 0:
        return False
    try:
        return libc.syscall(RESTRICT_SELF, asked, 0) == 0
    finally:
        os.close(asked)


def can_keep_signals() -> bool:
    """Return whether this system knows how to keep signals."""
    if os.uname().sysname != "Linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_FOR_VERSION) >= VERSION_OF_SCOPES)
