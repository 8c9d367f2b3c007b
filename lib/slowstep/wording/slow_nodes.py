"""Words for nodes that are slower than others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slowstep.judgement.intervals import Interval
from slowstep.judgement.nodes import slow_nodes
from slowstep.text.numbers import unsigned
from slowstep.wording.words import effect


def slower_nodes(effects: Mapping[int, Interval], hosts: Sequence[str] = ()) -> str:
    """Return which nodes are slower than another one, and by how much, in sentences.

    `effects` is `against_first` of the verdicts, and `hosts` holds the names of all nodes, where they are known.
    """
    if not effects:
        return "No node is known to be slower: what was measured of them tells of no node by itself."
    found = slow_nodes(effects, 0.0)
    if found is None:
        known = "; ".join(f"node {n}: {effect(one)} against node 0" for n, one in sorted(effects.items()))
        return f"No node is slower than another one beyond chance ({known})."
    slow = " and ".join(f"node {n}{f' ({hosts[n]})' if hosts else ''}" for n in found.numbers)
    return (
        f"Slower than another one: {slow}. Each by its own processes alone, node {found.against} trains "
        f"{unsigned(effect(found.gain))} more than node {found.numbers[0]}."
    )
