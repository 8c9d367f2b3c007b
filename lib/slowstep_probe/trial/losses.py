"""Operators between the phases that a backward pass goes back through: a loss is made of them, which is training.

A loss may be one operator or many (`poisson_nll_loss`, a line of the user's own). What tells them is the graph.
"""

from __future__ import annotations

from slowstep_probe.trial.host_events import HostEvents, with_parts
from slowstep_probe.trial.loops import SHORT


def in_losses(events: HostEvents) -> float:
    """Return the seconds of such operators, but for those that take hardly more than their call, as in a loop."""
    gone_through = {node.sequence_nr for node in events.nodes}
    makers = (e for number, e in events.makers.items() if number in gone_through and events.part(e)[0] == "other")
    lasting = {id(e): e for one in makers if events.seconds(one) > SHORT for e in with_parts(one)}
    return 1e-6 * sum(map(events.own, lasting.values()))
