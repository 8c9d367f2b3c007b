"""A rank: one of the processes that train together on this host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TORCHRUN, SPAWN, ENVIRONMENT, SUBPROCESS = "torchrun", "spawn", "environment", "subprocess"
"""The ways in which the ranks of a program are started (`slowstep_probe.ranks.launchers`)."""

BY_ITSELF = "by itself"
"""What is said of a program that starts processes which are no ranks: they are left to it."""

ADDRESS, PORT = "127.0.0.1", 29500
"""The address that ranks are told. Nothing listens there: they meet by a file (`slowstep_probe.ranks.meeting`)."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One of `size` processes, numbered from 0."""

    number: int
    size: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which launchers tell a process its rank, those of `torch.distributed`."""
        return {
            "RANK": str(self.number),
            "LOCAL_RANK": str(self.number),
            "NODE_RANK": "0",
            "GROUP_RANK": "0",
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.size),
            "MASTER_ADDR": ADDRESS,
            "MASTER_PORT": str(PORT),
        }

    def environment_in(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return these variables, with the place to meet that an environment names already."""
        return self.environment | {name: known[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in known}
