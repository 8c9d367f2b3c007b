"""Operators between the phases that a backward pass goes back through: a loss is made of them, which is training.

A loss may be one operator or many (`poisson_nll_loss`, a line of the user's own). What tells them is the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slowstep_probe.trial.loops import NODE, SHORT, makers, with_parts


def in_losses(events: Iterable[Any], part: Callable[[Any], tuple[str, int]], own: Callable[[Any], float]) -> float:
    """Return the seconds of such operators. One that takes hardly more than its call may be a loop's, and counts not.

    `part` returns the phase and the step of an event, and `own` its own microseconds.
    """
    every = list(events)
    gone_through = {e.sequence_nr for e in every if e.name.startswith(NODE)}
    made = [e for number, e in makers(every).items() if number in gone_through and part(e)[0] == "other"]
    parts = [list(with_parts(e)) for e in made]
    lasting = [some for some in parts if 1e-6 * sum(own(e) for e in some) > SHORT]
    return 1e-6 * sum({id(e): own(e) for some in lasting for e in some}.values())
