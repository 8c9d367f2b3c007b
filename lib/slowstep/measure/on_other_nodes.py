"""The interruption of a block on another node, by processes that are no part of the trials there.

Each node reads its own counters before and after. Two hosts' clocks are never compared.
"""

from __future__ import annotations

from slowstep.measure.other_processes import between
from slowstep.nodes.current import open_session
from slowstep.processes.cpu_times import CpuTimes
from slowstep.settings.convert import from_plain

ANSWER_SECONDS = 1.0
"""The seconds that a node has to answer. One that does not is not known to be interrupted."""


def read() -> dict[str, CpuTimes]:
    """Return the times of each other node of this session so far; empty if there is none."""
    session, found = open_session(), {}
    for member in session.members.values() if session else ():
        told = member.asked({"do": "load", "launch": session.name_launch()}, ANSWER_SECONDS)
        if told and "times" in told:
            found[str(member)] = from_plain(CpuTimes, told["times"])
    return found


def interrupted(before: dict[str, CpuTimes], after: dict[str, CpuTimes]) -> str | None:
    """Return what interrupted the trials on another node, in words; None if nothing did."""
    for node in before.keys() & after.keys():
        if found := between(before[node], after[node]):
            return f"on {node} {found}"
    return None
