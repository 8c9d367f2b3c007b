"""Ranks of a program that runs for real: no leader asks them anything, and one that fails ends the others."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping

from slowstep_probe.own_time import time
from slowstep_probe.processes.tree import adopt_orphans, die_with_parent, end_descendants
from slowstep_probe.ranks.rank import ADDRESS, Rank

PATIENCE = 30.0
"""The seconds that ranks have to end once one has failed, as torchrun gives them."""


def rank_of(size: int, named: bool, at_end: Callable[[], None]) -> Rank:
    """Return the rank of this process, one of `size` that are forked here. The one that waits for them never returns.

    It ends as they do: with status 0 if all do, and else with that of the first that failed. Before that it calls
    `at_end`. What ranks that succeeded have left running goes on, as after any program: the upload of a checkpoint.
    With `named` each finds its rank in its environment from the beginning, as launchers leave it that start a program
    anew.
    """
    os.environ.setdefault("MASTER_ADDR", ADDRESS)
    os.environ.setdefault("MASTER_PORT", str(_free_port()))
    parent, ranks = os.getpid(), {}
    for number in range(size):
        if pid := os.fork():
            ranks[pid] = number
            continue
        die_with_parent(parent)
        own = Rank(number=number, size=size)
        if named:
            os.environ.update(own.environment_in(os.environ))
        return own
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the ranks, too, which say what they do about it
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda told, _: _tell(ranks, told))
    failed = 0
    while ranks and not failed:
        failed = _waited_for(ranks, os.wait())
    _tell(ranks, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while ranks and time.monotonic() < deadline:
        _waited_for(ranks, os.waitpid(-1, os.WNOHANG))
        time.sleep(0.05)
    if failed:
        end_descendants(parent)
    with contextlib.suppress(OSError):
        at_end()
    sys.stdout.flush()
    os._exit(failed)


def _tell(ranks: Mapping[int, int], number: int) -> None:
    """Send all ranks a signal."""
    for pid in list(ranks):
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _waited_for(ranks: dict[int, int], ended: tuple[int, int]) -> int:
    """Note that a process has ended; return the status of a rank that failed, else 0."""
    pid, status = ended
    if ranks.pop(pid, None) is None:
        return 0
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return one.getsockname()[1]
