"""Looks at the stack of a thread, many times a second.

A profiler of operators sees neither a sleep nor a loop in Python. Looking at the stack sees both, costs the training
next to nothing, and gives the line.
"""

from __future__ import annotations

import math
import random
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from slowstep_probe.own_time import time
from slowstep_probe.probe.graphs import any_made
from slowstep_probe.trial.thread_timer import ThreadTimer

PERIOD = 0.002
"""Seconds between two looks, on the mean."""

RING = getattr(signal, "SIGRTMIN", 0) + 9
"""The timer's signal, one of those that programs may use as they like. Linux alone has them."""

SWITCH = 1e-4
"""Seconds after which the thread that trains hands over the interpreter to a thread that looks. By Python's own 5 ms, a
look would mostly happen where an operator lets go of the interpreter, and loops in Python would not be seen."""


class StackSampler:
    """Looks at the stack of a thread from `begin` to `end`, or for `longest` seconds; `look` is one look at it.

    When a look is due, whoever gets the interpreter first looks. While an operator has let go of it, that is a thread,
    which sees where the operator was called. While Python runs, it is the main thread, which a timer's signal has look
    at itself between two instructions: another thread hardly gets the interpreter then, and least from code that lets
    go of it for moments (pandas). Looks come at no regular distance, since the steps of training do. Each counts for
    the time since the last one.

    A thread looks alone where another than the main thread is looked at, where the program uses the signal itself, and
    where something was compiled, since the compiler would look at what the main thread does.
    """

    def __init__(self, thread: int, longest: float = math.inf):
        self._watched, self._longest = thread, longest
        self._last = self._due = self._until = 0.0
        self._timer: ThreadTimer | None = None
        self._random = random.Random()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="places", daemon=True)

    def begin(self) -> None:
        """Begin to look, in the thread that is looked at."""
        self._last = time.monotonic()
        self._due, self._until = self._last + PERIOD, self._last + self._longest
        self._switch = sys.getswitchinterval()
        if self._can_be_timed():
            with suppress(OSError):
                self._timer = ThreadTimer(RING)
        if self._timer is None:
            sys.setswitchinterval(min(SWITCH, self._switch))
            self._thread.start()
            return
        signal.signal(RING, self._rings)  # it stays: a ring may come after the end, and would end the process
        signal.siginterrupt(RING, False)
        self._thread.start()
        self._timer.set(PERIOD)

    def _can_be_timed(self) -> bool:
        if not threading.get_ident() == self._watched == threading.main_thread().ident or any_made():
            return False
        handler = signal.getsignal(RING) if hasattr(signal, "SIGRTMIN") else None
        return handler is signal.SIG_DFL or getattr(handler, "__func__", None) is StackSampler._rings

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()
        sys.setswitchinterval(self._switch)
        if self._timer:
            self._timer.delete()

    def look(self, frame: FrameType, since: int) -> None:
        """Look once, at the frame where the thread stands; the last look was `since` microseconds ago."""
        raise NotImplementedError

    def _rings(self, number: int, frame: FrameType | None) -> None:
        """Look, in the thread that is looked at."""
        self._look(frame)

    def _run(self) -> None:
        """Look, in a thread beside it."""
        while not self._ended.wait(max(0.0, self._due - time.monotonic())) and self._last < self._until:
            self._look(sys._current_frames().get(self._watched))

    def _look(self, frame: FrameType | None) -> None:
        """Look if that is due, and say when the next look is. An error in it is none of the program's."""
        now = time.monotonic()
        if now < self._due or self._ended.is_set():
            return
        until_next = PERIOD * self._random.uniform(0.5, 1.5)
        since, self._last, self._due = now - self._last, now, now + until_next
        with suppress(Exception):
            if self._timer and now < self._until:
                self._timer.set(until_next)
            if frame is not None:
                self.look(frame, round(1e6 * since))
