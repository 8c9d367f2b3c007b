"""Ranks that a program starts as objects of `multiprocessing.Process`, forked or as new interpreters.

Such a process may be anything: a rank, the other end of a queue, a logger. So in a survey each one runs, and tells when
it joins a group of several. Where ranks are known, the processes with the function that did so are ranks: that of this
process runs here, and the others run elsewhere.
"""

from __future__ import annotations

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
from typing import Any, NoReturn

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


@dataclass(frozen=True)
class Joins:
    """What a process tells when it is about to join a group: the size of the group, and its own number in it."""

    size: int
    rank: int


class Listening:
    """Starts the processes of a program, and calls `joins` when one is about to join a group of several.

    It gets the size of the group and what `RankAmongProcesses` is made from.
    """

    def __init__(self, joins: Callable[[int, str], None]):
        self._joins = joins
        self._started: Counter[str] = Counter()

    def start(self, original: Callable[[Any], None], process: BaseProcess, function: str) -> None:
        """Start a process that runs a function of this name."""
        reader, writer = multiprocessing.Pipe(duplex=False)
        process.run = Listened(process.run, writer)  # type: ignore[method-assign]
        try:
            original(process)
        finally:
            writer.close()
        before, self._started[function] = self._started[function], self._started[function] + 1
        listen = functools.partial(self._listen, reader, function, before)
        threading.Thread(target=listen, name="survey of a process", daemon=True).start()

    def _listen(self, reader: Connection, function: str, before: int) -> None:
        try:
            told = reader.recv()
        except EOFError:
            reader.close()
            return
        # a program that trains as rank 0 itself starts the others alone
        self._joins(told.size, f"{max(0, told.rank - before)}:{function}")


@dataclass
class Listened:
    """What a process runs, with an ear on the group that it joins."""

    run: Callable[[], None]
    told: Connection

    def __call__(self) -> None:
        """Run it as it would run, up to the place where it joins a group of several."""
        import torch.distributed

        patches = Patches()
        if torch.distributed.is_available():
            for module in ("torch.distributed.distributed_c10d", "torch.distributed"):
                patches.everywhere(sys.modules[module], "init_process_group", self._joins)
        self.run()

    def _joins(self, original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(inspect.unwrap(original)).bind(*args, **kwargs).arguments
        size, rank = (_number(given.get(name), os.environ.get(name.upper())) for name in ("world_size", "rank"))
        if size > 1:
            self._tell(Joins(size, max(0, rank)))
        original(*args, **kwargs)

    def _tell(self, joins: Joins) -> NoReturn:
        """Tell of the group, and wait for the end that the survey makes then."""
        self.told.send(joins)
        while True:
            threading.Event().wait()


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
