"""A function in a process of its own, under a guard: started, asked over a wire, and ended for sure."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import time
from pathlib import Path
from typing import Any

from slowstep.launch.fresh_start import FreshStart
from slowstep.launch.warm_interpreter import WarmInterpreter
from slowstep.processes.signals import held
from slowstep_probe.processes.guard import END, PEAK, Ended, Order
from slowstep_probe.processes.tree import end_process_tree
from slowstep_probe.processes.wire import Wire, pair, wait
from slowstep_probe.trial.messages import decoded, encoded

GUARD_SECONDS = 90.0
"""The seconds that a guard may take to end what a trial left: more than it tries itself (`processes.tree.PATIENCE`)."""


class Guarded:
    """A process of its own that runs the function of an order and sends its answers through a wire.

    With a `line`, it answers over that and not over a wire to here. NotStarted if the interpreter could not fork it.
    """

    def __init__(self, interpreter: WarmInterpreter | FreshStart, order: Order, line: Wire | None = None):
        self.interpreter = interpreter
        self.folder = Path(order.folder) if order.folder else None
        self.pid: int | None = None
        """The number of the process; None if it was never started."""
        self.ended: Ended | None = None
        self.guard: int | None = None
        """The number of the guard's process, from which all that it starts descends."""
        self.connection, theirs = pair()
        if line is not None:
            theirs.close()
            theirs = line
        self._report, reporting = pair()
        try:
            _ = interpreter.preloaded
            with held():  # a signal that came between would end everything but what was just forked
                self.guard = interpreter.fork(order, theirs, reporting)
                atexit.register(self.end)  # before the interpreter's own
            with contextlib.suppress(EOFError, OSError):
                self.pid = self._report.receive().get("pid")
        except BaseException:
            if self.guard is None:
                self._delete_folder()
            else:
                self.end()
            raise

    @property
    def has_spoken(self) -> bool:
        """True if there is something to receive, or if it has ended."""
        return bool(wait([self.connection, self._report], 0))

    def has_ended(self) -> bool:
        """Return whether its guard has reported its end."""
        try:
            while self.ended is None and "over" not in (told := self._report.receive(0.0)):
                pass
            self.ended = self.ended or Ended(**told)
        except TimeoutError:
            return False
        except (EOFError, OSError):  # the guard is gone
            pass
        return True

    def send(self, message: Any) -> None:
        """Send a message; OSError if it has ended."""
        self.connection.send(encoded(message))

    def receive(self, timeout: float) -> Any:
        """Return what it sends next; EOFError if it has ended, TimeoutError if nothing comes in `timeout` seconds.

        What it sent before it ended is received first.
        """
        message = self.hear(timeout)
        try:
            return decoded(message)
        except ValueError:
            raise EOFError from None

    def hear(self, timeout: float) -> dict[str, Any]:
        """Return as plain data what it sends next, as `receive` does."""
        ready = wait([self.connection, self._report], timeout)
        if self.connection not in ready and not wait([self.connection], 0):
            raise EOFError if ready else TimeoutError
        try:
            return self.connection.receive()
        except OSError:
            raise EOFError from None

    def peak(self) -> int:
        """Return the most host memory, in bytes, that its process tree has held; as last known if it has ended."""
        try:
            self._report.send({"asked": PEAK})
            told = self._report.receive()
            if "over" in told:
                self.ended = Ended(**told)
            return told["peak"]
        except (EOFError, OSError):
            return self.ended.peak if self.ended else 0

    def end(self, grace: float = 0.0) -> Ended:
        """End its process tree, and return how it ended. Repeating this is harmless.

        It has `grace` seconds to end by itself.
        """
        if self.connection.closed:
            return self.ended
        self.ended = self._last_report(grace) or self.ended or Ended(code=None, peak=0, over=False)
        self._delete_folder()
        self.connection.close()  # last, since an end that is interrupted before this is begun anew by the next call
        self._report.close()
        self.interpreter.guards.discard(self.guard)
        atexit.unregister(self.end)
        return self.ended

    def _last_report(self, grace: float) -> Ended | None:
        """Return the guard's last message. If the guard is gone, end the process tree without it and return None."""
        if self.ended:
            return self.ended
        with contextlib.suppress(EOFError, OSError):
            with contextlib.suppress(TimeoutError):
                return self._told_its_end(grace)
            with contextlib.suppress(OSError):  # it has ended meanwhile, and said how
                self._report.send({"asked": END})
            return self._told_its_end(GUARD_SECONDS)
        self._end_without_guard()
        return None

    def _told_its_end(self, seconds: float) -> Ended:
        """Return the guard's last message. Messages before it, which nobody waited for in the end, are let go."""
        deadline = time.monotonic() + seconds
        while "over" not in (told := self._report.receive(max(0.0, deadline - time.monotonic()))):
            pass
        return Ended(**told)

    def _end_without_guard(self) -> None:
        """End what is left of the process tree of a guard that was killed.

        The kernel killed the trial with the guard, and gave the other processes to the warm interpreter.
        """
        end_process_tree(self.guard)
        if self.pid is not None:  # it may be about to end, and what it started has another parent only then
            end_process_tree(self.pid)
        self.interpreter.end_orphans(self.guard)

    def _delete_folder(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
