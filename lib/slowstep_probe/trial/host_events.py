"""The events of a profiler on the host: which operator called which, which made which node, and seconds over all steps.

Moments and times of events are in us.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, TypeVar

NODE = "autograd::engine::evaluate_function"
"""The beginning of the name of a frame in which the engine of autograd computes a node of the backward pass."""

IN_C = re.compile(r"Backward\d+$|AccumulateGrad$")
"""The names of nodes that are not Python's. What one of them calls again and again is no loop in Python."""

OUTSIDE, IN_C_ALONE = 0, -1
"""The places of operators outside of all nodes, and of those that a node calls which is none of Python's."""

K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class HostEvents:
    """The events of some steps."""

    every: Sequence[Any]
    part: Callable[[Any], tuple[str, int]]
    """Returns the phase and the number of the step of an event."""
    steps: int
    own: Callable[[Any], float] = lambda event: event.time_range.end - event.time_range.start
    """Returns the time that an event has for itself."""

    @cached_property
    def nodes(self) -> list[Any]:
        """The nodes of the backward passes."""
        return [e for e in self.every if e.name.startswith(NODE)]

    @cached_property
    def makers(self) -> dict[int, Any]:
        """The operator that made each node, by the node's number.

        An operator that makes none has the number of the next node, so it is the last one with a number that made it.
        """
        found = dict[int, Any]()
        for e in self.every:
            if e.sequence_nr >= 0 and not e.fwd_thread:  # a node has the thread of its forward pass
                last = found.get(e.sequence_nr)
                if last is None or e.time_range.start >= last.time_range.start:
                    found[e.sequence_nr] = e
        return found

    def made_in(self, operators: Iterable[Any]) -> dict[int, Any]:
        """Return what has made nodes, of operators and what they consist of, by the numbers of the nodes."""
        parts = (e for operator in operators for e in with_parts(operator))
        return {e.sequence_nr: e for e in parts if self.makers.get(e.sequence_nr) is e}

    @cached_property
    def called(self) -> list[Any]:
        """The operators that Python may have called, in order, thread by thread."""
        found = {id(operator): operator for event in self.every if is_operator(operator := outermost(event))}
        of_python = (operator for operator in found.values() if node_of(operator) != IN_C_ALONE)
        return sorted(of_python, key=lambda e: (e.thread, e.time_range.start))

    def seconds(self, event: Any) -> float:
        """Return the seconds that an event and all that happen in it have for themselves."""
        return 1e-6 * sum(self.own(e) for e in with_parts(event))

    def of_most_steps(self, taken: Mapping[int, float]) -> float:
        """Return the median of the seconds that each step took, times the number of steps.

        A step in which the machine did something else must not speak for all.
        """
        return self.steps * median(taken.get(step, 0.0) for step in range(self.steps))

    def totals(self, taken: Mapping[K, Mapping[int, float]]) -> dict[K, float]:
        """Return the seconds of most steps, over all of them, of what took any, the most first."""
        totals = {key: self.of_most_steps(seconds) for key, seconds in taken.items()}
        return {key: total for key, total in sorted(totals.items(), key=lambda one: -one[1]) if total > 0}


def is_operator(event: Any) -> bool:
    return "::" in event.name and not event.name.startswith("autograd::")


def outermost(event: Any) -> Any:
    """Return the operator that was called by Python or by autograd, and in which an event happened."""
    while (parent := event.cpu_parent) is not None and is_operator(parent):
        event = parent
    return event


def with_parts(event: Any) -> Iterator[Any]:
    """Yield an event and all that happen in it."""
    yield event
    for part in event.cpu_children:
        yield from with_parts(part)


def callers(event: Any) -> Iterator[Any]:
    """Yield what called an event, and what called that, and so on."""
    while (event := event.cpu_parent) is not None:
        yield event


def node_of(event: Any) -> int:
    """Return the identity of the backward pass's node in which Python may have called an operator, or its place."""
    for one in (event, *callers(event)):
        if one.name.startswith(NODE):
            return id(one)
        if IN_C.search(one.name):
            return IN_C_ALONE
    return OUTSIDE
