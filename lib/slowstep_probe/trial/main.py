"""The process of a trial: it protects the user's files, becomes its rank, and runs the trial.

A guard (`slowstep_probe.processes.guard`) forks it from a warm interpreter, writes its log, watches its memory, and
ends it with all that it started.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Mapping
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.plain import from_plain
from slowstep_probe.processes.own_signals import keep_signals
from slowstep_probe.processes.protection import protect, unprotected
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.gathering import OwnRank, gather_ranks, handed_over
from slowstep_probe.ranks.leader import Leader
from slowstep_probe.ranks.outpost import Outpost
from slowstep_probe.ranks.rank import Group
from slowstep_probe.trial.failure import failure
from slowstep_probe.trial.memory_peaks import memory_peaks
from slowstep_probe.trial.messages import Launch, encoded
from slowstep_probe.trial.process_end import end, without_child_signals
from slowstep_probe.trial.program_hooks import NotTestable
from slowstep_probe.trial.trial import Trial


def main(wire: Wire, launch: Mapping[str, Any]) -> None:
    """Train as `launch` says and answer requests over `wire`, until that is closed or the trial fails."""
    entered = time.monotonic()
    faulthandler.enable(sys.stderr, all_threads=True)
    faulthandler.register(signal.SIGUSR1, sys.stderr, all_threads=True)
    asked, own = from_plain(Launch, launch), None
    try:
        _protect(asked)
    except NotTestable as error:
        print(error)  # another node that leads this one's ranks learns it from the log
        wire.send(encoded(failure(error, memory_peaks())))
        end(1)
    if asked.group is not None:
        own = _own_rank(wire, asked.group)
        wire = own.wire
    trial = Trial(wire, asked, entered, own)
    try:
        trial.run()
    except BaseException as caught:
        error = caught
    # No call stands between the exception and here, and Python lets a signal's handler run only at calls: an exception
    # that the loader's handler of SIGCHLD raises for another worker that died can't take this one's place.
    without_child_signals()
    without_child_signals()  # the first may have been struck itself
    trial.give_up(error)


def _protect(asked: Launch) -> None:
    """Let nothing stay that the program writes, if that is wanted; NotTestable where it can't be had.

    Its signals stay with it in any case, as far as the system can hold them.
    """
    if asked.intervention is None:
        return
    if asked.intervention.writable:
        protection = protect(asked.intervention.writable[0], asked.intervention.writable)
        if protection.open:
            raise NotTestable(unprotected(protection))
    keep_signals()


def _own_rank(wire: Wire, group: Group) -> OwnRank:
    """Return what each rank's process is. The process that has forked the ranks of this node does not return.

    A single rank, which nobody leads, is this process.
    """
    if group.alone:
        return OwnRank(rank=group.own[0], wire=wire)
    found = gather_ranks(group, handed_over(wire, group), wire)
    if isinstance(found, OwnRank):
        return found
    return Leader(wire, found).lead() if group.leads else Outpost(wire, found).serve()
