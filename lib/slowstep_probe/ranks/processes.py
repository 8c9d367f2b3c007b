"""Ranks that a program starts as objects of `multiprocessing.Process`, forked or as new interpreters.

Such a process may be anything: a rank, the other end of a queue, a logger. So in a survey each one runs, and tells when
it joins a group of several. Where ranks are known, the processes with the function that did so are ranks: that of this
process runs here, and the others run elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from slowstep_probe.patches import Patches
from slowstep_probe.places import kind_of


def function_of(process: BaseProcess) -> str:
    """Return the name of the function of the user's own that a process runs; empty if it runs another's."""
    run = type(process).run
    function = getattr(process, "_target", None) if run is BaseProcess.run else run
    function = inspect.unwrap(getattr(function, "func", function))  # that of a partial one
    code = getattr(function, "__code__", None)
    if code is None or kind_of(code.co_filename) != "user":
        return ""
    return f"{function.__module__}.{function.__qualname__}"


class Listening:
    """Starts the processes of a program, and calls `joins` when one is about to join a group of several.

    It gets the size of the group and what `RankAmongProcesses` is made from.
    """

    def __init__(self, joins: Callable[[int, str], None]):
        self._joins = joins
        self._started: Counter[str] = Counter()

    def start(self, original: Callable[[Any], None], process: BaseProcess, function: str) -> None:
        """Start a process that runs a function of this name."""
        ours, theirs = multiprocessing.Pipe()
        process.run = Listened(process, theirs)  # type: ignore[method-assign]
        try:
            original(process)
        finally:
            theirs.close()
            process.__dict__.pop("run", None)
        before, self._started[function] = self._started[function], self._started[function] + 1
        listen = functools.partial(self._listen, ours, function, before)
        threading.Thread(target=listen, name="survey of a process", daemon=True).start()

    def _listen(self, ours: Connection, function: str, before: int) -> None:
        with contextlib.suppress(EOFError, OSError):
            size, rank = ours.recv()
            # a program that trains as rank 0 itself starts the others alone
            self._joins(size, f"{max(0, rank - before)}:{function}")
            ours.send("it is no rank")


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


class RankAmongProcesses:
    """Starts the processes of a program as the rank that this process is: number `local` of `local_size` on its node.

    `ranks` is `1:__main__.train` where the processes that run this function are the ranks from 1 on, in the order in
    which they are started.
    """

    def __init__(self, ranks: str, local: int, local_size: int):
        first, _, self._function = ranks.partition(":")
        self._first, self._local = int(first), local
        self._many = max(1, local_size - self._first)
        self._started = 0

    def start(self, original: Callable[[Any], None], process: BaseProcess) -> None:
        """Run the process here if it is this rank, leave it to others if it is another rank, or start it."""
        if function_of(process) != self._function:
            original(process)
            return
        number = self._first + self._started % self._many
        self._started += 1
        if number == self._local:
            process.run()
        process._popen = Elsewhere()  # type: ignore[attr-defined]
        process._sentinel = process._popen.sentinel  # type: ignore[attr-defined]


class Elsewhere:
    """What `multiprocessing` knows of a process that does not run under this one: it has ended well."""

    returncode = 0

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.sentinel, writer = os.pipe()
        os.close(writer)  # whoever waits for it finds that it has ended

    def poll(self, flag: int = 0) -> int:
        """Return that it has ended."""
        return 0

    def wait(self, timeout: float | None = None) -> int:
        """Return that it has ended."""
        return 0

    def terminate(self) -> None:
        """Do nothing, as for any process that has ended."""

    kill = interrupt = close = terminate
