"""The beginning of a group: each node's process forks its own ranks, and all are told where they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks import meeting
from slowstep_probe.ranks.far import FarNode
from slowstep_probe.ranks.fork import Ranks, fork_ranks
from slowstep_probe.ranks.rank import Group, Rank


@dataclass(frozen=True, kw_only=True)
class OwnRank:
    """The rank that a process is."""

    rank: Rank
    wire: Wire
    """The wire over which it is asked."""
    where: Wire | None = None
    """The wire over which it is asked where it stands; None for a single rank, which nobody leads."""
    address: meeting.Address | None = None
    """Where it meets ranks on other nodes; None if there are none."""


def gather_ranks(group: Group, nodes: Sequence[Wire], wire: Wire | None) -> OwnRank | Ranks:
    """Return in each rank's process what it is, and all ranks in the process that has forked them.

    `nodes` are the connections to other nodes, in a process that leads all ranks. In one that does not, `wire` is the
    connection to that; else it is the one to the measurer, if there is one.
    """
    address = meeting.open_address(nodes, bool(group.own)) if group.leads else meeting.receive_address(wire)
    forked = fork_ranks(group.own)
    if isinstance(forked, list):
        if address is not None:
            address.close()
        far = [FarNode(one, group.of_node(number)) for one, number in zip(nodes, group.far, strict=True)]
        return Ranks(forked, far)
    rank, own, where = forked
    for one in filter(None, (*nodes, wire)):  # a connection that a rank held open would hide its end
        one.close()
    if address is not None and rank.number:
        address.close()
    return OwnRank(rank=rank, wire=own, where=where, address=address)


def handed_over(wire: Wire, group: Group) -> list[Wire]:
    """Return the connections to other nodes, which the measurer hands over one by one."""
    found = []
    for _ in group.far:
        wire.receive()
        found.append(Wire.of(wire.descriptors.pop(0)))
    return found
