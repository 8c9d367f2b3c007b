"""Differences between the nodes of a run, in versions and in devices."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.records.schema import Node

OF_MACHINE = ("processor", "cores", "memory", "gpu", "gpu_count", "gpu_driver")
"""What is compared of two machines."""


def unlike(nodes: Sequence[Node]) -> list[str]:
    """Return a sentence for each difference between the first node and another one."""
    found = []
    for number, other in enumerate(nodes[1:], 1):
        first = nodes[0]
        packages = sorted({*first.versions, *other.versions})
        pairs = [(name, first.versions.get(name, "none"), other.versions.get(name, "none")) for name in packages]
        pairs += [(n, _rounded(first.machine.get(n)), _rounded(other.machine.get(n))) for n in OF_MACHINE]
        found += [
            f"unlike nodes: {name.replace('_', ' ')} is {theirs} on node {number} ({other.host}), and {ours} on node 0 "
            f"({first.host})"
            for name, ours, theirs in pairs
            if ours != theirs
        ]
    return found


def _rounded(value: object) -> object:
    """Return a size of memory in GiB, since no two hosts have the same bytes; anything else as it is."""
    return f"{value / 2**30:.0f} GiB" if isinstance(value, int) and value > 2**30 else value
