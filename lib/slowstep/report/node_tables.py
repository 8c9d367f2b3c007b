"""Several nodes: what each one is, how they differ, and which one is slower with the same training."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.investigation.results import Measured
from slowstep.judgement.intervals import Interval
from slowstep.judgement.nodes import slow_node
from slowstep.records import Environment, Node
from slowstep.records.unlike_nodes import unlike
from slowstep.report.chart import Table
from slowstep.text.sentences import sentence
from slowstep.wording.words import NOT_MEASURED, effect

ONE_NODE = "This run trains on one node."


def nodes(environment: Environment, measured: Sequence[Measured]) -> Table:
    """List the nodes, each with what it trains by its own processes alone, against the first one."""
    if not environment.nodes:
        return Table([], empty=ONE_NODE)
    against_first = _effects(measured)
    rows = []
    for number, node in enumerate(environment.nodes):
        machine = node.machine
        gain = "the first node" if number == 0 else effect(against_first.get(number))
        rows.append(
            {
                "node": str(number),
                "host": node.host,
                "device": str(machine.get("gpu") or machine.get("processor") or "unknown"),
                "processes": str(node.processes),
                "alone, against the first": gain or NOT_MEASURED,
            }
        )
    return Table(rows)


def slower_node(environment: Environment, measured: Sequence[Measured]) -> Table:
    """Say which node is slower, and by how much; and in what the nodes differ."""
    if not environment.nodes:
        return Table([], empty=ONE_NODE)
    return Table([], empty=" ".join([_slower(environment.nodes, _effects(measured)), *_differences(environment.nodes)]))


def _slower(all_nodes: Sequence[Node], against_first: dict[int, Interval]) -> str:
    if not against_first:
        return "No node was measured by itself: no time was left, or it could not be trained there alone."
    found = slow_node(against_first)
    if found is None:
        known = "; ".join(f"node {n}: {effect(one)} against node 0" for n, one in sorted(against_first.items()))
        return f"No node is slower than another one beyond chance ({known})."
    host, told = all_nodes[found.number].host, effect(found.gain)
    return (
        f"Node {found.number} ({host}) is the slower one: with its own processes alone, node {found.against} trains "
        f"{told} against it."
    )


def _differences(all_nodes: Sequence[Node]) -> list[str]:
    found = unlike(all_nodes)
    return [sentence(one) for one in found] or ["The nodes have the same devices and versions."]


def _effects(measured: Sequence[Measured]) -> dict[int, Interval]:
    """Return what each other node trains by itself against the first one, where that was measured."""
    found = {}
    for one in measured:
        if [factor.name for factor, _ in one.contrast.levels] == ["node"] and one.record and one.verdict.effect:
            found[int(one.contrast.levels[0][1].value)] = one.verdict.effect
    return found
