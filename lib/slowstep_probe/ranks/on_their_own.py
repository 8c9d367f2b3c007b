"""Ranks of a program that runs for real: no leader asks them anything, and one that fails ends the others."""

from __future__ import annotations

import os
import signal
import socket
import sys

from slowstep_probe.processes.tree import adopt_orphans, die_with_parent, end_descendants
from slowstep_probe.ranks.rank import ADDRESS, Rank


def rank_of(size: int, named: bool) -> Rank:
    """Return the rank of this process, one of `size` that are forked here. The one that waits for them never returns.

    It ends as they do: with status 0 if all do, and else with that of the first that failed. With `named` each finds
    its rank in its environment from the beginning, as launchers leave it that start a program anew.
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
            os.environ.update(own.environment | _meeting())
        return own
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the ranks, too, which say what they do about it
    failed = 0
    while ranks and not failed:
        pid, status = os.wait()
        if ranks.pop(pid, None) is not None:
            code = os.waitstatus_to_exitcode(status)
            failed = code if code >= 0 else 128 - code
    end_descendants(parent)
    sys.stdout.flush()
    os._exit(failed)


def _meeting() -> dict[str, str]:
    return {name: os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT")}


def _free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return one.getsockname()[1]
