"""What a node says of itself when it joins, and why it may be refused."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slowstep import __version__
from slowstep.environment.machine import this_machine, versions
from slowstep.records import Node
from slowstep.settings.command import Command
from slowstep.settings.convert import to_plain


@dataclass(frozen=True, kw_only=True)
class Hello:
    """A node: its host, its packages, and what the command starts there."""

    kit: str
    host: str
    machine: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    processes: int
    """The ranks on this node."""
    launcher: str
    launched: list[str]
    """The program that the command starts."""
    nodes: int
    """The number of nodes that the command names."""
    node: int | None = None
    """The number of this node, if the command says it."""

    @property
    def record(self) -> Node:
        """The node as it stands in records."""
        return Node(host=self.host, machine=self.machine, versions=self.versions, processes=self.processes)

    @property
    def program(self) -> str:
        """The program as it is compared: nodes may keep their files in unlike folders."""
        first, *rest = self.launched or [""]
        return shlex.join([Path(first).name, *rest])


def own_hello(command: Command, nodes: int, node: int | None, processes: int) -> Hello:
    """Return what this node says of itself."""
    found = versions() | {"python": command.python_version, "torch": command.torch_version}
    return Hello(
        kit=__version__,
        host=socket.gethostname(),
        machine=to_plain(this_machine()),
        versions=found,
        processes=processes,
        launcher=command.launcher,
        launched=command.launched or command.arguments,
        nodes=nodes,
        node=node,
    )


def other_version(own: Hello, kit: str) -> str:
    """Return why a node with another version of this kit can't join."""
    return f"slowstep {kit} is installed there, and {own.kit} on {own.host}; install the same on all nodes"


def refused(own: Hello, other: Hello, taken: Mapping[int, Hello]) -> str:
    """Return why a node can't join the session of `own`, as the node's user is told it; empty if it can."""
    if (other.nodes, other.launcher, other.program) != (own.nodes, own.launcher, own.program):
        theirs, ours = (f"`{one.program}` on {one.nodes} nodes" for one in (other, own))
        return f"another command was given on {other.host}: {theirs}, and on {own.host} {ours}; give the same on all"
    if other.node == 0:
        return f"{other.host} is node 0 by its command, and so is {own.host}, where `slowstep diagnose` runs"
    if other.node is not None and other.node >= own.nodes:
        return f"{other.host} is node {other.node} by its command, of {own.nodes} nodes that are counted from 0"
    if other.node in taken:
        return f"node {other.node} is {taken[other.node].host} already; give {other.host} another --node-rank"
    return "" if len(taken) < own.nodes - 1 else f"all {own.nodes} nodes have joined the session already"
