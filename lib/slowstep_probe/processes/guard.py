"""The guard of a trial: a small process between the warm interpreter and the trial. Nothing outlives it.

The guard starts the trial, and the kernel gives it all orphans of the trial. So whatever a trial starts, in a session
of its own or by double forking, is a descendant of the guard. The process tree is killed when the trial ends, when the
measurer asks for it, or when the measurer's process is gone, however that died. In the meantime the guard does what
must go on while the trial is busy: it watches the memory, and writes the log, which it keeps short.

It looks around five times a second, and touches no tensor: it is forked from the warm interpreter, and shares its
memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import select
import signal
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.plain import to_plain
from slowstep_probe.processes.log import CappedLog
from slowstep_probe.processes.memory_watch import MemoryWatch, go_first, most_held
from slowstep_probe.processes.process_mark import is_dead, mark
from slowstep_probe.processes.scratch import remove_abandoned_folders, remove_folder
from slowstep_probe.processes.standard_streams import close_standard_input, flush, print_to
from slowstep_probe.processes.tree import adopt_orphans, descendants, die_with_parent, end_descendants
from slowstep_probe.processes.wire import Wire
from slowstep_probe.secret import know

LOOK_SECONDS = 0.2
NAP_SECONDS = 0.01
"""Seconds of rest after each portion of the log, so that a trial that prints many lines does not wake it for each."""

PIPE_BYTES = 2**20
"""The bytes that a trial can print before it has to wait for the guard. Ordinary users are not allowed more."""

PEAK, END = "peak", "end"
"""The requests of a measurer to a guard: `{"asked": PEAK}`."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The function that a guard runs in a process of its own, and what belongs to that process."""

    target: str
    """The function: `package.module:name`. It is called with the wire to the measurer and with the arguments."""
    arguments: list[Any] = field(default_factory=list)
    """Plain data."""
    path: list[str] = field(default_factory=list)
    """Folders on which modules are found, after those of the interpreter's own."""
    owner: str = field(default_factory=mark)
    """The mark of the measurer's process, which makes the order."""
    log: str = ""
    """The file that takes what it prints; empty if that goes where the measurer prints."""
    folder: str = ""
    """The folder that is deleted when it ends; empty for none."""
    limit: int | None = None
    """The most bytes of host memory. It is ended if it takes more."""
    secrets: list[str] = field(default_factory=list)
    """What nobody may read that is printed."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The guard's last message: the trial's process tree is gone, and its folder is deleted."""

    code: int | None
    """Exit status, or the negative number of the signal that ended the trial; None if it was ended on demand."""
    peak: int
    """The most host memory that the trial held, in bytes."""
    over: bool
    """True if that was more than the trial may take."""
    left: int = 0
    """The processes that it left when it ended by itself, and that were ended after it."""


def guard(report: Wire, connection: Wire, order: Order) -> None:
    """Run the order's function in a process of its own until it ends, or has to be ended.

    The number of that process is the first message to `report`, and `Ended` the last.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    adopt_orphans()
    know(order.secrets)
    inlet, outlet = os.pipe() if order.log else (-1, -1)
    parent = os.getpid()
    # the trial is forked from here, as its loader workers would be in the user's script
    pid = os.fork()
    if not pid:
        _begin(report, connection, order, parent, inlet, outlet)
    connection.close()
    if order.log:
        os.close(outlet)
    watch = _Watch(report, order, pid, inlet)
    try:
        watch.until_ended()
    finally:
        watch.finish()


class _Watch:
    """The guard of one trial at work."""

    def __init__(self, report: Wire, order: Order, pid: int, inlet: int):
        self.report, self.order, self.pid, self.inlet = report, order, pid, inlet
        self.memory = MemoryWatch(pid, order.limit)
        self.log = CappedLog(order.log) if order.log else None
        self.code: int | None = None
        self.told_to_end = self.left_alone = False
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._tell)
        if self.log:
            os.set_blocking(inlet, False)
        with contextlib.suppress(OSError):
            report.send({"pid": pid})

    def until_ended(self) -> None:
        """Wait until the trial has ended, or is to be ended."""
        poll = select.poll()
        poll.register(self.report.fileno(), select.POLLIN)
        if self.log:
            poll.register(self.inlet, select.POLLIN)
        ends = _pidfd(self.pid)
        if ends is not None:
            poll.register(ends, select.POLLIN)
        look = 0.0
        while self.code is None and not self.told_to_end:
            ready = dict(poll.poll(max(0.0, look - time.monotonic()) * 1000))
            if time.monotonic() >= look:
                self.memory.look(os.getpid())
                self.told_to_end = self.told_to_end or self.memory.over or is_dead(self.order.owner)
                look = time.monotonic() + LOOK_SECONDS
            if self.report.fileno() in ready:
                self._answer()
                while self.report.waits():
                    self._answer()
            if self.inlet in ready:
                if self._pump():
                    time.sleep(NAP_SECONDS)
                else:
                    poll.unregister(self.inlet)
            self._collect()

    def finish(self) -> None:
        """End all that is left of the process tree, and report how the trial ended."""
        by_itself = self.code is not None
        if by_itself and self.code == 0:  # helpers of multiprocessing and of trackers end a moment after it
            self._let_others_end()
        left = end_descendants(os.getpid())
        self._collect()
        if self.log:
            while self._pump():
                pass
            self.log.close()
        if self.order.folder:
            remove_folder(self.order.folder)
        if self._owner_is_gone():
            remove_abandoned_folders()
        told = {"peak": self.memory.peak, "over": self.memory.over, "left": left if by_itself else 0}
        with contextlib.suppress(OSError):
            self.report.send(to_plain(Ended(code=self.code, **told)))

    def _let_others_end(self) -> None:
        deadline = time.monotonic() + LOOK_SECONDS
        while descendants(os.getpid()) and time.monotonic() < deadline:
            time.sleep(NAP_SECONDS)
            self._collect()

    def _owner_is_gone(self) -> bool:
        """Return whether the measurer's process has ended. Its end of the wire is closed a moment before it is gone."""
        deadline = time.monotonic() + (LOOK_SECONDS if self.left_alone else 0.0)
        while not (gone := is_dead(self.order.owner)) and time.monotonic() < deadline:
            time.sleep(NAP_SECONDS)
        return gone

    def _answer(self) -> None:
        try:
            asked = self.report.receive()["asked"]
        except (EOFError, OSError):
            asked, self.left_alone = END, True
        if asked == END:
            self.told_to_end = True
            return
        self.memory.look(os.getpid(), exactly=True)
        with contextlib.suppress(OSError):
            self.report.send({"peak": self.memory.peak})

    def _pump(self) -> bool:
        """Move what was printed to the log, and return whether there was anything."""
        printed = False
        with contextlib.suppress(BlockingIOError):
            while text := os.read(self.inlet, PIPE_BYTES):
                self.log.write(text)
                printed = True
        return printed

    def _collect(self) -> None:
        """Note which processes have ended, and the most memory that each of them ever held."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    told = os.waitstatus_to_exitcode(status)
                    self.code = None if self.told_to_end and told == -signal.SIGKILL else told
                self.memory.note_at_its_end(most_held(usage))

    def _tell(self, *_: object) -> None:
        self.told_to_end = True


def _begin(report: Wire, connection: Wire, order: Order, parent: int, inlet: int, outlet: int) -> None:
    """Be the trial's process: it leads a process group, prints into the log, and dies with its guard."""
    status = 1
    try:
        die_with_parent(parent)
        os.setpgid(0, 0)  # as a shell does; one that leads a session, too, could not call os.setpgrp
        go_first()
        report.close()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        close_standard_input()
        if order.log:
            os.close(inlet)
            with contextlib.suppress(OSError):
                fcntl.fcntl(outlet, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            print_to(outlet)
        sys.path += [place for place in order.path if place not in sys.path]
        module, _, name = order.target.partition(":")
        getattr(importlib.import_module(module), name)(connection, *order.arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(status)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
