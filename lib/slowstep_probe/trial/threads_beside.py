"""Threads of Python that run beside the training, with the processor time that they take.

One thread at a time runs Python, so what another one computes in it the training waits for, in whatever phase it is: a
logger that writes in a thread of its own makes the passes longer. The phases can't show that. Threads are told here by
the functions that they run.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from slowstep_probe.own_time import time
from slowstep_probe.places import PROBE
from slowstep_probe.trial.stacks import Function, stack

LEAST = 0.01
"""The share of the time from which on a thread is told."""


class ThreadsBeside:
    """Measures the threads of this process that run Python, from `begin` to `end`, but for the one that calls these.

    A thread that ends meanwhile is not seen, and neither are those of libraries that run no Python.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._before: dict[int, float] = {}

    def begin(self) -> None:
        """Begin."""
        self._began = time.monotonic()
        self._before = {number: _seconds(number) for number in _others()}

    def end(self) -> dict[str, float]:
        """Return the processor time of each function's threads as a share of the time since `begin`, largest first.

        Two threads of one function may take more than the whole time together.
        """
        took, found = time.monotonic() - self._began, Counter[str]()
        frames = sys._current_frames()
        for number, identity in _others().items():
            function = _function(frames.get(identity))
            if function:
                found[function] += (_seconds(number) - self._before.get(number, 0.0)) / took
        return {function: share for function, share in found.most_common() if share >= LEAST}


def _others() -> dict[int, int]:
    """Return the threads of Python beside this one: their numbers in the system, and those by which frames are kept."""
    own = threading.get_ident()
    threads = [one for one in threading.enumerate() if one.ident != own]
    return {one.native_id: one.ident for one in threads if one.native_id is not None and one.ident is not None}


def _seconds(number: int) -> float:
    """Return the processor time of a thread so far; 0.0 if it is gone, or where the system does not tell."""
    try:
        return 1e-9 * int(Path(f"/proc/self/task/{number}/schedstat").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def _function(frame: FrameType | None) -> str:
    """Return the outermost function on a thread's stack that is none of Python's own library, or else the outermost.

    It is empty for a thread of the kit's, and for one that has ended.
    """
    frames = [one for one in stack(frame) if _module(one) != threading.__name__]
    if not frames or frames[-1].f_code.co_filename.startswith(PROBE):
        return ""
    outside = [one for one in frames if _module(one) not in sys.stdlib_module_names]
    code = (outside or frames)[-1].f_code
    return str(Function(code.co_filename, code.co_firstlineno, code.co_name))


def _module(frame: FrameType) -> str:
    """Return the package of a frame's module, or the module if it is in none."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
