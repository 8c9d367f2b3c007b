"""Processes that a program starts in a survey: each one runs, and tells when it joins a group of several."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
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

from slowstep_probe.own_time import time
from slowstep_probe.patches import Around, Patches
from slowstep_probe.ranks.processes import Ranks, Started, missing, ranks_of

PATIENCE, TO_START = 5.0, 30.0
"""The seconds that a survey waits, once a process has joined a group, for others to join it and for others to start."""

NOT_HERE = (
    "it starts {known} of the {size} processes of a group in a way that can be followed, so the others must be on "
    "other nodes, or be started in another way; start it by torchrun, on each node"
)

RESTORED = (
    "(lambda s: (s.path.append({at!r}), __import__('slowstep_probe.ranks.processes_heard'), s.path.remove({at!r}), "
    "object.__new__(s.modules['slowstep_probe.ranks.processes_heard'].Listened))[-1])(__import__('sys'))"
)
"""Makes an object of `Listened` in a new interpreter of the program's, which may not know of the kit."""


class GroupListener:
    """Starts the processes of a program, and calls `joins` when they are about to join a group of several.

    It gets the size of the group, which processes are its ranks, as JSON of `Ranks`, and why they can't be followed;
    empty if they can.
    """

    def __init__(self, joins: Callable[[int, str, str], None]):
        self._joins = joins
        self._program_is_one = False
        """True once the program is about to join a group itself: it is a rank beside those that it starts."""
        self._processes: list[BaseProcess] = []
        self._started: Counter[str] = Counter()
        self._joined: dict[int, Started] = {}
        """The processes that have joined the group, by their ranks."""
        self._size = 0
        self._lock = threading.Lock()

    def attach(self, patches: Patches) -> None:
        """Begin to hear whether the program joins a group itself."""
        before_joining(patches, self._program_joins)

    def _program_joins(self, original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        self._program_is_one = True
        original(*args, **kwargs)

    def start(self, original: Callable[[Any], None], process: BaseProcess, function: str) -> None:
        """Start a process that runs a function of this name."""
        ours, theirs = multiprocessing.Pipe()
        process.run = Listened(process, theirs)  # type: ignore[method-assign]
        try:
            original(process)
        finally:
            theirs.close()
            process.__dict__.pop("run", None)
        self._processes.append(process)
        started = Started(function, self._started[function])
        self._started[function] += 1
        listen = functools.partial(self._listen, ours, started)
        threading.Thread(target=listen, name="survey of a process", daemon=True).start()

    def end(self) -> None:
        """Wait for these processes as an interpreter does at its end, if the program has left some running."""
        if any(not one.daemon and one.is_alive() for one in self._processes):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()

    def _listen(self, ours: Connection, started: Started) -> None:
        with contextlib.suppress(EOFError, OSError):
            size, rank = ours.recv()
            with self._lock:
                first = not self._size
                self._size = self._size or size
                if size == self._size:
                    self._joined[rank] = started
            if first:
                ranks = self._all(size)
                known = size - len(missing(ranks, size)) + self._program_is_one
                why = "" if known >= size else NOT_HERE.format(known=known, size=size)
                self._joins(size, json.dumps(ranks), why)
            ours.send("it is no rank")

    def _all(self, size: int) -> Ranks:
        """Wait for the others of the group, and return which processes are its ranks."""
        began = time.monotonic()
        while True:
            ranks = ranks_of(dict(self._joined), self._started, size)
            known = len(self._joined) + self._program_is_one
            patience = PATIENCE if len(missing(ranks, size)) <= self._program_is_one else TO_START
            if known >= size or time.monotonic() - began > patience:
                return ranks
            time.sleep(0.05)


def before_joining(patches: Patches, joins: Around) -> None:
    """Have `joins` called in place of `init_process_group`, also where a survey has replaced it in one module."""
    import torch.distributed

    if torch.distributed.is_available():
        for module in ("torch.distributed.distributed_c10d", "torch.distributed"):
            patches.everywhere(sys.modules[module], "init_process_group", joins)


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
        before_joining(Patches(), self._joins)
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
