"""Ranks that a program starts as objects of `multiprocessing.Process`, forked or as new interpreters.

Such a process may be anything: a rank, the other end of a queue, a logger. So in a survey each one runs, and tells when
it joins a group of several. Where ranks are known, that of this process runs here, and the others run elsewhere.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches
from slowstep_probe.places import is_started, kind_of

SLEPT = 5.0
"""The seconds of sleep, in all, after which a program counts as waiting for its processes."""


Ranks = dict[str, list[int | None]]
"""The ranks that processes are, in the order in which they are started, by the functions that they run; None for a
process that is no rank."""


@dataclass(frozen=True)
class Started:
    """A process that a program has started."""

    function: str
    before: int
    """The number of processes with this function that were started before it."""


def function_of(process: BaseProcess) -> str:
    """Return the name of the function of the user's own that a process runs; empty if it runs another's."""
    target = getattr(process, "_target", None)
    function = type(process).run if target is None else target
    function = inspect.unwrap(getattr(function, "func", function))  # that of a partial one
    code = getattr(function, "__code__", None)
    if code is None or not (kind_of(code.co_filename) == "user" or is_started(code.co_filename)):
        return ""
    return f"{function.__module__}.{function.__qualname__}"


def ranks_of(joined: Mapping[int, Started], started: Mapping[str, int], size: int) -> Ranks:
    """Return which processes are the ranks of a group, from those that have joined it so far.

    Others with the same function are taken to be ranks where those that have joined are numbered in the order of their
    start.
    """
    found: Ranks = {}
    unheard = set(range(size)) - set(joined)
    for function in dict.fromkeys(joined[rank].function for rank in sorted(joined)):
        heard = {one.before: rank for rank, one in joined.items() if one.function == function}
        ranks = found[function] = [heard.get(before) for before in range(started[function])]
        offset, *others = {rank - before for before, rank in heard.items()}
        if others:
            continue
        # what was started before the first that has joined is a rank, too, if ranks and processes are numbered alike
        for before in range(0 if offset == 0 else min(heard), len(ranks)):
            if ranks[before] is None and before + offset in unheard:
                ranks[before] = before + offset
    return found


def missing(ranks: Ranks, size: int) -> set[int]:
    """Return the ranks of a group of this size that none of the processes is."""
    return set(range(size)) - {rank for of_function in ranks.values() for rank in of_function if rank is not None}


class RankAmongProcesses:
    """Starts the processes of a program as the rank that this process is: number `local` of `size` on its node.

    `ranks` is JSON of `Ranks`. A program that is no rank itself goes on until the thread that has started its processes
    waits, for one of them or for what one sends: then the rank runs in that thread. A program that is a rank itself,
    beside those that it starts, goes on as that rank; the others run here where they are started.
    """

    def __init__(self, ranks: str, local: int, size: int):
        self._ranks: Ranks = json.loads(ranks)
        by_program = missing(self._ranks, size)
        self._local, self._is_rank_itself = local, bool(by_program)
        self._runs_on_as_rank = local in by_program
        self._started: Counter[str] = Counter()
        self._own: BaseProcess | None = None
        """This process's rank, which waits for the program to wait for it."""
        self._round: list[Elsewhere] = []
        """What was started together, until it has ended."""
        self._failed: BaseException | None = None
        self._thread = threading.current_thread()
        self._slept = 0.0
        self._waits = Patches()

    def start(self, original: Callable[[Any], None], process: BaseProcess) -> None:
        """Leave a process to others if it is a rank, keep it if it is this rank, or start it."""
        rank = self._rank_of(function_of(process))
        if rank is None:
            original(process)
            return
        process._popen = elsewhere = Elsewhere(self)  # type: ignore[attr-defined]
        process._sentinel = elsewhere.sentinel  # type: ignore[attr-defined]
        self._round.append(elsewhere)
        if self._runs_on_as_rank:  # nobody can tell when they end
            self._end_round()
        if rank != self._local:
            return
        self._own, self._failed, self._slept = process, None, 0.0
        self._thread = threading.current_thread()
        if self._is_rank_itself:
            self.run_own()
        else:
            self._look_for_waits()

    def _rank_of(self, function: str) -> int | None:
        """Return the rank that the next process with a function is; None if it is none.

        A program may start its ranks again and again. What comes before them the first time is taken to come once.
        """
        if function not in self._ranks:
            return None
        ranks = self._ranks[function]
        number, self._started[function] = self._started[function], self._started[function] + 1
        if number >= len(ranks):
            first = next(i for i, rank in enumerate(ranks) if rank is not None)
            number = first + (number - len(ranks)) % (len(ranks) - first)
        return ranks[number]

    @property
    def is_its_thread(self) -> bool:
        """Return whether this is the thread that has started the ranks, in which this process's own one runs."""
        return threading.current_thread() is self._thread

    def run_own(self) -> None:
        """Run this process's rank, if it was started and has not run yet. What it raises is raised at each wait."""
        if self._failed is not None:
            raise self._failed
        own, self._own = self._own, None
        if own is None:
            return
        self._waits.remove()
        try:
            own.run()
        except BaseException as error:
            if not (isinstance(error, SystemExit) and error.code in (None, 0)):
                self._failed = error
                raise
        finally:
            self._end_round()

    def _end_round(self) -> None:
        for one in self._round:
            one.end()
        self._round = []

    def _look_for_waits(self) -> None:
        """Look for the places where the program waits for its processes, beside asking for one of them."""
        from multiprocessing import connection, managers, queues, synchronize

        plain = {
            connection._ConnectionBase: ["recv", "recv_bytes"],
            queues.Queue: ["get"],
            queues.SimpleQueue: ["get"],
            queues.JoinableQueue: ["join"],
            synchronize.Event: ["wait"],
            synchronize.Barrier: ["wait"],
            synchronize.Condition: ["wait", "wait_for"],
            threading.Condition: ["wait", "wait_for"],  # what queues of threads wait with, too
            threading.Event: ["wait"],
            threading.Thread: ["join"],
        }
        for owner, names in plain.items():
            for name in names:
                self._waits.around(owner, name, self._before)
        self._waits.around(connection._ConnectionBase, "poll", self._before_poll)
        self._waits.around(managers.BaseProxy, "_callmethod", self._before_call)
        self._waits.everywhere(connection, "wait", self._before)
        self._waits.everywhere(time, "sleep", self._before_sleep)  # type: ignore[arg-type]

    def _before(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # a thread that starts is waited for, and so are a manager's answer and a connection
        within = _caller().partition(".")[0] in ("multiprocessing", "threading")
        if self.is_its_thread and not within and _blocks(args, kwargs):
            self.run_own()
        return original(*args, **kwargs)

    def _before_poll(self, original: Callable[..., Any], connection: Any, timeout: float | None = 0.0) -> Any:
        if self.is_its_thread and timeout != 0 and _caller().partition(".")[0] != "multiprocessing":
            self.run_own()
        return original(connection, timeout)

    def _before_call(
        self,
        original: Callable[..., Any],
        proxy: Any,
        method: str,
        args: tuple[Any, ...] = (),
        kwds: Mapping[str, Any] | None = None,
    ) -> Any:
        """Look for the waits of a manager's objects; `args` and `kwds` are the arguments of the method."""
        named = kwds or {}
        waits = method in ("wait", "wait_for", "join", "acquire")
        waits |= method == "get" and "put" in (getattr(type(proxy), "_exposed_", None) or ())
        if self.is_its_thread and waits and _blocks((proxy, *args), named):
            self.run_own()
        return original(proxy, method, args, named)

    def _before_sleep(self, original: Callable[..., Any], seconds: float) -> Any:
        if self.is_its_thread:
            self._slept += seconds
            if self._slept > SLEPT:  # it looks now and then whether they are done
                self.run_own()
        return original(seconds)


def _caller() -> str:
    """Return the name of the module that has called a patched function."""
    return sys._getframe(3).f_globals.get("__name__", "")


def _blocks(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call waits: not where it says `block=False` or a timeout of 0, by name or as the first one."""
    return args[1:2] not in ((False,), (0,)) and kwargs.get("block", True) is not False and kwargs.get("timeout") != 0


class Elsewhere:
    """What `multiprocessing` knows of a process that does not run under this one, or not yet.

    It ends when this process's own rank does. Its number is that of a process which only stands in for it.
    """

    def __init__(self, ranks: RankAmongProcesses) -> None:
        self.returncode: int | None = None
        self._ranks, self._ended = ranks, threading.Event()
        nothing = subprocess.DEVNULL  # whoever reads what the program writes does not wait for it
        self._stand_in = subprocess.Popen(["sleep", "infinity"], stdout=nothing, stderr=nothing)
        self.pid = self._stand_in.pid
        self.sentinel, self._open_until_ended = os.pipe()

    def poll(self, flag: int = 0) -> int | None:
        """Return 0 if it has ended, and None if it has not. Before that, this process's rank runs where it waits."""
        if self._ranks.is_its_thread and sys._getframe(1).f_code.co_name != "__repr__":
            self._ranks.run_own()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until this process's own rank has ended, and return what `poll` does."""
        if self._ranks.is_its_thread:
            self._ranks.run_own()
            self.end()
        else:
            self._ended.wait(timeout)
        return self.returncode

    def end(self) -> None:
        """Note that it has ended well."""
        if self._ended.is_set():
            return
        self.returncode = 0
        self._ended.set()
        os.close(self._open_until_ended)  # whoever waits for the sentinel finds it
        self._stand_in.kill()
        self._stand_in.wait()

    def terminate(self) -> None:
        """Do nothing to a rank, which ends with the trial."""

    kill = interrupt = terminate

    def close(self) -> None:
        """Forget it."""
        self.end()
        os.close(self.sentinel)
