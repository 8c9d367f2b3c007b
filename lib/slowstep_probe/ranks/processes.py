"""Ranks that a program starts as objects of `multiprocessing.Process`, forked or as new interpreters.

Such a process may be anything: a rank, the other end of a queue, a logger. So in a survey each one runs, and tells when
it joins a group of several. Where ranks are known, that of this process runs here, and the others run elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, synchronize
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from slowstep_probe.patches import Patches
from slowstep_probe.places import is_started, kind_of

PATIENCE, TO_START = 5.0, 30.0
"""The seconds that a survey waits, once a process has joined a group, for others to join it and for others to start."""

LARGEST_PID = 2**22
"""No process of Linux has a larger number (`pid_max`), so nobody is met who asks for one that does not run here."""


def function_of(process: BaseProcess) -> str:
    """Return the name of the function of the user's own that a process runs; empty if it runs another's."""
    target = getattr(process, "_target", None)
    function = type(process).run if target is None else target
    function = inspect.unwrap(getattr(function, "func", function))  # that of a partial one
    code = getattr(function, "__code__", None)
    if code is None or not (kind_of(code.co_filename) == "user" or is_started(code.co_filename)):
        return ""
    return f"{function.__module__}.{function.__qualname__}"


# -- in a survey --

OTHER_NODES = (
    "it starts {known} processes for a group of {size}, so the others must be on other nodes. Processes that a program "
    "starts by itself are followed on one node alone; start it by torchrun on each node"
)


@dataclass(frozen=True)
class Started:
    """A process that a program has started."""

    function: str
    before: int
    """The number of processes with this function that were started before it."""


class Listening:
    """Starts the processes of a program, and calls `joins` when they are about to join a group of several.

    It gets the size of the group, what `RankAmongProcesses` is made from, and why they can't be followed; empty if they
    can.
    """

    def __init__(self, joins: Callable[[int, str, str], None]):
        self._joins = joins
        self._started: Counter[str] = Counter()
        self._joined: dict[int, Started] = {}
        """The processes that have joined the group, by their ranks."""
        self._size = 0
        self._lock = threading.Lock()

    def start(self, original: Callable[[Any], None], process: BaseProcess, function: str) -> None:
        """Start a process that runs a function of this name."""
        ours, theirs = multiprocessing.Pipe()
        process.run = Listened(process, theirs)  # type: ignore[method-assign]
        try:
            original(process)
        finally:
            theirs.close()
            process.__dict__.pop("run", None)
        started = Started(function, self._started[function])
        self._started[function] += 1
        listen = functools.partial(self._listen, ours, started)
        threading.Thread(target=listen, name="survey of a process", daemon=True).start()

    def _listen(self, ours: Connection, started: Started) -> None:
        with contextlib.suppress(EOFError, OSError):
            size, rank = ours.recv()
            with self._lock:
                first = not self._size
                self._size = self._size or size
                if size == self._size:
                    self._joined[rank] = started
            if first:
                began = time.monotonic()
                while (waited := time.monotonic() - began) < TO_START and len(self._joined) < size:
                    if waited > PATIENCE and self._known() >= size:
                        break
                    time.sleep(0.05)
                known = self._known()
                why = "" if known >= size else OTHER_NODES.format(known=known, size=size)
                self._joins(size, json.dumps(ranks_of(self._joined, size)), why)
            ours.send("it is no rank")

    def _known(self) -> int:
        """Return how many ranks there are on this node: the program, if it is one, and those that it has started."""
        found = ranks_of(dict(self._joined), self._size)
        first = min(rank for _, rank, _ in found.values())
        return first + sum(self._started[function] - before for function, (before, _, _) in found.items())


def ranks_of(joined: dict[int, Started], size: int) -> dict[str, list[int]]:
    """Return which processes are the ranks of a group, by the functions that they run.

    For each function these are three numbers: of the processes with it that are started before the first rank, of that
    rank, and of the ranks from there on.
    """
    found: dict[str, list[int]] = {}
    ranks = sorted(joined)
    for rank, after in zip(ranks, [*ranks[1:], size], strict=True):
        started = joined[rank]
        if started.function in found:
            of_function = found[started.function]
            of_function[2] = after - of_function[1]
        else:  # those before the first rank that was heard of are ranks, too, if as many were started
            unheard = min(started.before, rank) if rank == ranks[0] else 0
            found[started.function] = [started.before - unheard, rank - unheard, after - rank + unheard]
    return found


RESTORED = (
    "(lambda s: (s.path.append({at!r}), __import__('slowstep_probe.ranks.processes'), s.path.remove({at!r}), "
    "object.__new__(s.modules['slowstep_probe.ranks.processes'].Listened))[-1])(__import__('sys'))"
)
"""Makes an object of `Listened` in a new interpreter of the program's, which may not know of the kit."""


@dataclass
class Listened:
    """What a process runs, with an ear on the group that it joins."""

    process: BaseProcess
    told: Connection

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is made where the kit can't be imported by its name."""
        return eval, (RESTORED.format(at=str(Path(__file__).parents[2])),), dict(vars(self))

    def __call__(self) -> None:
        """Run it as it would run, up to the place where it joins a group of several."""
        import torch.distributed

        patches = Patches()
        if torch.distributed.is_available():
            for module in ("torch.distributed.distributed_c10d", "torch.distributed"):
                patches.everywhere(sys.modules[module], "init_process_group", self._joins)
        type(self.process).run(self.process)

    def _joins(self, original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(inspect.unwrap(original)).bind(*args, **kwargs).arguments
        size, rank = (_number(given.get(name), os.environ.get(name.upper())) for name in ("world_size", "rank"))
        if size > 1:
            self.told.send((size, max(0, rank)))
            self.told.recv()  # a survey of ranks begins anew, and ends this process
        original(*args, **kwargs)


def _number(given: Any, named: str | None) -> int:
    """Return what an argument gives, else what the environment names, as init_process_group does; -1 if neither."""
    if isinstance(given, int) and given >= 0:
        return given
    return int(named) if named and named.isdecimal() else -1


# -- as a rank --


class RankAmongProcesses:
    """Starts the processes of a program as the rank that this process is: number `local` on its node.

    A program that is no rank itself goes on until it waits for its processes, for one of them or for what one sends:
    then the rank runs here. A program that is a rank itself, beside those that it starts, goes on as that rank, or not
    at all.
    """

    def __init__(self, ranks: str, local: int):
        self._ranks: dict[str, list[int]] = json.loads(ranks)
        self._local = local
        self._is_rank_itself = min(first for _, first, _ in self._ranks.values()) > 0
        self._started: Counter[str] = Counter()
        self._own: BaseProcess | None = None
        """This process's rank, which waits for the program to wait for it."""

    def attach(self, patches: Patches) -> None:
        """Begin to look for the places where a program waits for its processes."""
        for owner, names in WAITS:
            for name in names:
                patches.around(owner, name, self._before)

    def start(self, original: Callable[[Any], None], process: BaseProcess) -> None:
        """Leave a process to others if it is a rank, keep it if it is this rank, or start it."""
        rank = self._rank_of(function_of(process))
        if rank is None:
            original(process)
            return
        process._popen = Elsewhere(self.run_own, LARGEST_PID + 1 + rank)  # type: ignore[attr-defined]
        process._sentinel = process._popen.sentinel  # type: ignore[attr-defined]
        if rank == self._local:
            self._own = process
            if self._is_rank_itself:
                self.run_own()

    def _rank_of(self, function: str) -> int | None:
        """Return the rank that the next process with a function is; None if it is none."""
        if function not in self._ranks:
            return None
        skipped, first, many = self._ranks[function]
        number, self._started[function] = self._started[function], self._started[function] + 1
        return None if number < skipped else first + (number - skipped) % many

    def run_own(self) -> None:
        """Run this process's rank, if it was started and has not run yet."""
        own, self._own = self._own, None
        if own is not None:
            own.run()

    def _before(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._own is not None and threading.current_thread() is threading.main_thread():
            self.run_own()
        return original(*args, **kwargs)


WAITS: list[tuple[Any, tuple[str, ...]]] = [
    (connection._ConnectionBase, ("recv", "recv_bytes", "poll")),  # what queues read from, too
    (connection, ("wait",)),
    (synchronize.Condition, ("wait",)),  # what events and barriers wait with, too
]
"""Where a program waits for its processes, beside asking for one of them."""


class Elsewhere:
    """What `multiprocessing` knows of a process that does not run under this one: whoever asks waits for its end."""

    returncode = 0

    def __init__(self, ended: Callable[[], None], pid: int) -> None:
        self._ended, self.pid = ended, pid
        self.sentinel, writer = os.pipe()
        os.close(writer)  # whoever waits for it finds that it has ended

    def poll(self, flag: int = 0) -> int:
        """Return that it has ended, which is so when this process's own rank has."""
        return self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until this process's own rank has ended, and return that this one has."""
        self._ended()
        return self.returncode

    def terminate(self) -> None:
        """Do nothing, as for any process that has ended."""

    kill = interrupt = close = terminate
