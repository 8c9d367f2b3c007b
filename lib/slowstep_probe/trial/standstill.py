"""The standstill of a trial that waits for its turn: nothing of its program goes on meanwhile.

What makes batches beside the training would go on filling its queue. Then the first steps of the next block would find
their batches ready, and a run that waits for its data would look as if it did not. It would also take the processor
from the arm whose turn it is. So all processes that the program has started are stopped (SIGSTOP), loader workers
among them, and the interpreter is held while the trial waits, so that no other thread of Python goes on. Threads that
never ask for the interpreter, as those of a library in C++, can't be held. A timer that the program has set as a
watchdog (`signal.alarm`, `faulthandler.dump_traceback_later`) stands still, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import select
import signal
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from slowstep_probe.patches import Patches
from slowstep_probe.processes.tree import descendants, state

RESTING = ("", "Z", "X", "T", "t")
"""The states of processes that are gone, or that somebody has stopped already."""

CANCEL = faulthandler.cancel_dump_traceback_later

LOOK_MILLISECONDS = 60_000
"""The time after which a wait begins anew."""


class _Poll(ctypes.Structure):
    """`struct pollfd` of poll(2)."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


_poll = ctypes.PyDLL(None).poll  # functions of a PyDLL, unlike those of a CDLL, keep the interpreter


class Standstill:
    """Stops what the program has started, and lets it go on."""

    def __init__(self, alone: bool) -> None:
        self._guard = os.getppid() if alone else 0
        """The trial's guard, which adopts processes whose own parent has ended; one of several ranks adopts its own."""
        self._stopped: list[int] = []
        self._timer = (0.0, 0.0)
        """The seconds that were left of the program's timer, and those after which it repeats itself."""
        self._watchdog: Callable[[], object] | None = None
        """A call that sets the program's watchdog of `faulthandler` anew; None if it has set none."""

    def attach(self, patches: Patches) -> None:
        """Notice the watchdog that the program sets by `faulthandler`, whose own thread can't be held."""
        patches.around(faulthandler, "dump_traceback_later", self._sets_watchdog)
        patches.around(faulthandler, "cancel_dump_traceback_later", self._cancels_watchdog)

    def _sets_watchdog(self, original: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        self._watchdog = partial(original, *args, **kwargs)

    def _cancels_watchdog(self, original: Callable[[], object]) -> None:
        original()
        self._watchdog = None

    def begin(self) -> None:
        """Stop all processes that this one has started, also those that they start meanwhile, and the timers."""
        if self._watchdog is not None:
            CANCEL()
        left = signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._timer = left if any(left) else self._timer
        own = os.getpid()
        root = self._guard if os.getppid() == self._guard else own
        while new := [pid for pid in descendants(root) if pid != own and pid not in self._stopped]:
            running = [pid for pid in new if state(pid) not in RESTING]
            if not running:
                return
            self._signal(running, signal.SIGSTOP)
            self._stopped += running

    def end(self, but: Collection[int] = ()) -> None:
        """Let them go on, except those of `but`; the timers with the last of them."""
        self._signal([pid for pid in self._stopped if pid not in but], signal.SIGCONT)
        self._stopped = [pid for pid in self._stopped if pid in but]
        if any(self._timer) and not but:
            signal.setitimer(signal.ITIMER_REAL, *self._timer)
            self._timer = (0.0, 0.0)
        if self._watchdog is not None and not but:
            with contextlib.suppress(Exception):  # the file that it writes to may be closed by now
                self._watchdog()

    @staticmethod
    def wait(descriptor: int) -> None:
        """Wait until something can be read from a socket, or its other end is gone. No other thread runs meanwhile.

        A signal's handler runs as in any wait.
        """
        about = _Poll(descriptor, select.POLLIN, 0)
        while _poll(ctypes.byref(about), 1, LOOK_MILLISECONDS) <= 0:
            continue

    @staticmethod
    def _signal(pids: Collection[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
