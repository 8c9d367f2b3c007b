"""A rank, one of the processes that train together, and the group of all of them, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TORCHRUN, SPAWN, ENVIRONMENT, SUBPROCESS, PROCESS = "torchrun", "spawn", "environment", "subprocess", "process"
"""The ways in which the ranks of a program are started (`slowstep_probe.ranks.launchers`). Behind the last one stands
which processes are ranks (`slowstep_probe.ranks.processes.Ranks`): `process:{"__main__.train": [0, 1]}`."""

BY_ITSELF = "by itself"
"""What is said of a program that starts processes which are no ranks: they are left to it."""

ADDRESS, PORT = "127.0.0.1", 29500
"""The address that ranks are told. Nothing listens there: `slowstep_probe.ranks.meeting` says where they meet."""


def way_of(launcher: str) -> str:
    """Return the way in which a launcher starts ranks."""
    return launcher.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One of `size` processes, numbered from 0. All of them run on one node if nothing else is said."""

    number: int
    size: int
    node: int = 0
    """The number of its node, among the nodes that take part."""
    first: int = 0
    """The number of the first rank on its node."""
    beside: int = 0
    """The ranks on its node; 0 if all of them are."""
    host: str = ""
    """The name of its node, for readers; empty where there is one node."""

    def __str__(self) -> str:
        return f"rank {self.number}" + (f" on {self.host}" if self.host else "")

    @property
    def local(self) -> int:
        """Its number among the ranks on its node."""
        return self.number - self.first

    @property
    def local_size(self) -> int:
        """The number of ranks on its node."""
        return self.beside or self.size

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which launchers tell a process its rank, those of `torch.distributed`."""
        return {
            "RANK": str(self.number),
            "LOCAL_RANK": str(self.local),
            "NODE_RANK": str(self.node),
            "GROUP_RANK": str(self.node),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": ADDRESS,
            "MASTER_PORT": str(PORT),
        }

    def environment_in(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return these variables, with the place to meet that an environment names already."""
        return self.environment | {name: known[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in known}


@dataclass(frozen=True, kw_only=True)
class Group:
    """The ranks of a trial, by the nodes that they run on. One node is the ordinary case.

    Each node has a process that forks its ranks. One of these leads: it asks the ranks of all nodes. The others pass
    on what it asks, and what their ranks answer.
    """

    on_nodes: list[int]
    """The ranks of each node that takes part."""
    hosts: list[str] = field(default_factory=list)
    """The names of these nodes, for readers; empty where there is one node and it is this one."""
    numbers: list[int] = field(default_factory=list)
    """The numbers of these nodes among all that the command names; empty where it names no others."""
    node: int = 0
    """The place of this process's node among them; -1 for a leader whose own node takes no part."""
    leads: bool = True

    @property
    def size(self) -> int:
        """The number of all ranks."""
        return sum(self.on_nodes)

    @property
    def own(self) -> list[Rank]:
        """The ranks on the node of this process."""
        return self.of_node(self.node) if self.node >= 0 else []

    @property
    def far(self) -> list[int]:
        """The nodes that a leader reaches over the network."""
        return [number for number in range(len(self.on_nodes)) if self.leads and number != self.node]

    @property
    def facts(self) -> dict[str, int]:
        """The node on which a rank trains, as a fact of its trial; empty where the command names no others."""
        return {"node": self.numbers[self.node]} if self.numbers else {}

    @property
    def alone(self) -> bool:
        """True for a single rank, which nobody leads."""
        return self.size == 1 and self.leads and not self.far

    def of_node(self, node: int) -> list[Rank]:
        """Return the ranks of a node."""
        first, beside = sum(self.on_nodes[:node]), self.on_nodes[node]
        host = self.hosts[node] if node < len(self.hosts) else ""
        return [
            Rank(number=number, size=self.size, node=node, first=first, beside=beside, host=host)
            for number in range(first, first + beside)
        ]
