"""A program surveyed in its own interpreter: it runs until it has taken some steps, and is ended there.

It is started as `python -c "…; main(ORDER)"`, where ORDER is JSON. It writes one line of JSON to the file descriptor
that the order names.
"""

from __future__ import annotations

import os
from json import dumps, loads
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.plain import from_plain
from slowstep_probe.processes.own_signals import keep_signals
from slowstep_probe.processes.protection import Protection, protect, unprotected
from slowstep_probe.processes.standard_streams import close_standard_input
from slowstep_probe.processes.wire import Wire
from slowstep_probe.program import Program
from slowstep_probe.ranks.rank import ENVIRONMENT, Group


def main(order: str) -> None:
    """Run the program of an order, and tell what was seen of it. Never returns.

    PyTorch is imported once the process is protected, since that takes a process of one thread.
    """
    asked = loads(order)
    began = time.monotonic()
    close_standard_input()
    protection = _protected(asked)
    keep_signals()
    own = _rank_of(asked) if asked["group"] else None
    program = Program(arguments=asked["arguments"], folder=asked["folder"], command=asked["command"])
    if own is not None and asked["launcher"] == ENVIRONMENT:
        os.environ.update(own.rank.environment)
    program.enter()
    from slowstep_probe.survey.watched import Watched

    watched = Watched(asked, own, protection, began)
    watched.attach()
    watched.tell(watched.run(program))


def _protected(asked: dict[str, Any]) -> Protection | None:
    """Return the overlays of this process, or None if what is written stays. Where none can be had, say so and end."""
    if not asked["scratch"]:
        return None
    protection = protect(asked["scratch"], [asked["scratch"]])
    if protection.open:
        with os.fdopen(asked["result"], "w") as out:
            out.write(dumps({"refused": unprotected(protection)}) + "\n")
        os._exit(1)
    return protection


def _rank_of(asked: dict[str, Any]) -> Any:
    """Return what each rank's process is. The process that has forked the ranks of this node never returns.

    Each rank tells what it saw over its wire. Where another node's process leads all ranks, the only descriptor in
    `asked["nodes"]` is the connection to it, and nothing is told here.
    """
    from slowstep_probe.ranks.fork import Ranks
    from slowstep_probe.ranks.gathering import gather_ranks
    from slowstep_probe.ranks.outpost import Outpost
    from slowstep_probe.ranks.surveyed_together import tell_together

    for each in asked["nodes"]:
        os.set_inheritable(each, False)
    group, lines = from_plain(Group, asked["group"]), [Wire.of(each) for each in asked["nodes"]]
    found = gather_ranks(group, lines, None) if group.leads else gather_ranks(group, [], lines[0])
    if not isinstance(found, Ranks):
        return found
    if group.leads:
        tell_together(found, asked["result"])
    return Outpost(lines[0], found).serve()
