"""Several nodes: what each one is, how they differ, and which one is slower with the same training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slowstep.investigation.results import Measured
from slowstep.judgement.intervals import Interval
from slowstep.judgement.nodes import against_first
from slowstep.records import Environment, Node
from slowstep.records.unlike_nodes import unlike
from slowstep.report.chart import Table
from slowstep.text.sentences import sentence
from slowstep.wording.slow_nodes import slower_nodes
from slowstep.wording.words import NOT_MEASURED, effect

ONE_NODE = "This run trains on one node."


def nodes(environment: Environment, measured: Sequence[Measured]) -> Table:
    """List the nodes, each with what it trains by its own processes alone, against the first one."""
    if not environment.nodes:
        return Table([], empty=ONE_NODE)
    effects = _effects(measured)
    rows = []
    for number, node in enumerate(environment.nodes):
        machine = node.machine
        gain = "the first node" if number == 0 else effect(effects.get(number))
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
    if not environment.nodes:  # the table above says so
        return Table([], empty="")
    return Table([], empty=" ".join([_slower(environment.nodes, _effects(measured)), *_differences(environment.nodes)]))


def _slower(all_nodes: Sequence[Node], effects: Mapping[int, Interval]) -> str:
    if not effects:
        return "No node was measured by itself: no time was left, or it could not be trained there alone."
    return slower_nodes(effects, [node.host for node in all_nodes])


def _differences(all_nodes: Sequence[Node]) -> list[str]:
    found = unlike(all_nodes)
    return [sentence(one) for one in found] or ["The nodes have the same devices and versions."]


def _effects(measured: Sequence[Measured]) -> dict[int, Interval]:
    return against_first([one.verdict for one in measured])
