"""Differences between the nodes of a run, in versions and in devices."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.records.schema import Node, in_gib

OF_MACHINE = ("processor", "cores", "memory", "gpu", "gpu_count", "gpu_driver")
"""What is compared of two machines."""


def unlike(nodes: Sequence[Node]) -> list[str]:
    """Return a sentence for each difference between the first node and another one."""
    found = []
    for number, other in enumerate(nodes[1:], 1):
        first = nodes[0]
        packages = sorted({*first.versions, *other.versions})
        pairs = [(name, first.versions.get(name, "none"), other.versions.get(name, "none")) for name in packages]
        pairs += [(n, in_gib(first.machine.get(n)), in_gib(other.machine.get(n))) for n in OF_MACHINE]
        found += [
            f"unlike nodes: {name.replace('_', ' ')} is {theirs} on node {number} ({other.host}), and {ours} on node 0 "
            f"({first.host})"
            for name, ours, theirs in pairs
            if ours != theirs
        ]
    return found
