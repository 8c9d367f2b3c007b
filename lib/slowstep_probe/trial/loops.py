"""Loops in Python, as a profile shows them: one operator again and again, and no product of matrices in between.

A loop that calls a module with weights again and again is one, too, whatever it multiplies (`module_calls`).

Between two products of matrices a model calls up to a hundred operators, and none of them more than some twenty times
(measured on twenty-four architectures of transformers; RWKV's scan is a loop). What comes more often is a loop over
positions, samples or elements, which could be a single operator over all of them.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from slowstep_probe.measured import Loop

PRODUCTS = re.compile(
    r"(?<!o)mm(_|$)|::(add)?mv|matmul|::linear|conv(olution)?|mkldnn|gemm|cublas|cutlass|scaled_dot_product"
    r"|flash_attention|efficient_attention|::einsum|lstm|gru|rnn|^(add)?b?mmbackward",
    re.I,
)
"""Products of matrices and convolutions: the arithmetic that FLOPs count. The names are ATen's and those of kernels."""

OFTEN = 50
"""The fewest calls of one operator between two products that are taken for a loop."""

SHORT = 20e-6
"""Seconds up to which an operator takes hardly more than its call. A longer one computes, and its time is not lost."""

PAUSE = 1e-3
"""The least seconds without an operator that count as a pause. Python takes some 50 us between two operators."""

OF_WEIGHTS = re.compile(r"::linear|addmm|::mm$|conv|::lstm|::gru|::rnn")
"""The products with weights, whose FLOPs follow from these. That of two activations, as in attention, is none."""

NODE = "autograd::engine::evaluate_function"
"""The beginning of the name of a frame in which the engine of autograd computes a node of the backward pass."""

MOVES = re.compile(
    r"(Select|Slice|Index|Narrow|Split|Unbind|Stack|Cat|Copy|Expand|View|Squeeze|Unsqueeze|AsStrided)\w*Backward"
)
"""Nodes that move numbers and compute none. That of a part of a tensor fills a whole one with zeros, and adds it."""

BACK = 2
"""The FLOPs of a way back over those of the way forth: gradients of weights, and of inputs."""

IN_C = re.compile(r"Backward\d+$|AccumulateGrad$")
"""The names of nodes that are not Python's. What one of them calls again and again is no loop in Python."""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A stretch of time in which one module is called again and again. Times are in us."""

    begin: float
    end: float
    name: str
    """The class of the module that is called most often, of those that are no part of another one."""
    calls: int
    """Its calls."""
    phase: str
    """The phase in which they are."""
    flops: float = math.inf
    """The floating-point operations of the calls, as far as weights multiply; `math.inf` if that is not known."""


def loops(
    events: Sequence[Any],
    phase_at: Callable[[float], str],
    steps_end: Sequence[float],
    steps: int,
    busy: Sequence[tuple[float, float]] = (),
    repeated: Sequence[Repeated] = (),
) -> dict[str, Loop]:
    """Return the loops of each phase, told as one.

    `events` are those of the profiler on the host, `phase_at` tells the phase at a moment, `steps_end` are the moments
    at which steps end, `busy` are the spans in which a device computes, and `repeated` are those in which a module is
    called again and again, in order, all in us. Time in which a device computes is not lost.
    """
    made = dict[str, set[int]]()
    lost, names = defaultdict[str, _BySteps](_BySteps), defaultdict[str, Counter[str]](Counter)

    def part(event: Any) -> tuple[str, int]:
        return phase_at(event.time_range.start), bisect.bisect(steps_end, event.time_range.start)

    makers = _makers(events)
    turns = defaultdict[str, Counter[str]](Counter)
    for one in repeated:
        turns[one.phase][one.name] += one.calls
        lost[one.phase].flops[bisect.bisect(steps_end, one.begin)] += one.flops
    for stretch in _stretches(events, part, repeated):
        calls = Counter(e.name for e in stretch)
        if max(calls.values(), default=0) < OFTEN and (not stretch or _within(stretch[0], repeated) is None):
            continue
        phase, step = part(stretch[0])
        if phase == "backward" and _node(stretch[0]) == OUTSIDE:
            continue  # behind the last node, where gradients are handed on in C++
        lost[phase].seconds[step] += 1e-6 * _lost(stretch) * _idle(stretch, busy)
        lost[phase].products[step] += 1e-6 * _of_weights(stretch)
        names[phase].update(calls)
        within = (e for operator in stretch for e in _with_parts(operator))
        made.setdefault(phase, set()).update(e.sequence_nr for e in within if makers.get(e.sequence_nr) is e)
    found = {}
    for phase in names:
        name, times = (turns.get(phase) or names[phase]).most_common(1)[0]
        loop = lost[phase].loop(name, times, steps, on_device=bool(busy))
        if loop.seconds > 0:
            found[phase] = loop
    for phase in [phase for phase in found if made.get(phase)]:
        back, way_back = "backward", _BySteps()
        way_back.flops.update({step: BACK * flops for step, flops in lost[phase].flops.items()})
        for node in (e for e in events if e.name.startswith(NODE) and e.sequence_nr in made[phase]):
            way_back.seconds[part(node)[1]] += 1e-6 * _undone(node) * _idle([node], busy)
            way_back.products[part(node)[1]] += 1e-6 * _of_weights([node])
        loop = way_back.loop(found[phase].name, found[phase].calls, steps, on_device=bool(busy))
        if loop.whole > (found[back].whole if back in found else 0.0):
            found[back] = replace(loop, of=phase)
    return found


@dataclass
class _BySteps:
    """What a loop takes in each step, by the number of the step: lost seconds, those of products, and FLOPs."""

    seconds: Counter[int] = field(default_factory=Counter)
    products: Counter[int] = field(default_factory=Counter)
    flops: Counter[int] = field(default_factory=Counter)

    def loop(self, name: str, calls: int, steps: int, on_device: bool) -> Loop:
        """Return what is told of it over all steps. What a device computes meanwhile is not told."""
        flops = of_most_steps(self.flops, steps)
        return Loop(
            name=name,
            calls=calls,
            seconds=of_most_steps(self.seconds, steps),
            products=0.0 if on_device else of_most_steps(self.products, steps),
            flops=flops if math.isfinite(flops) else None,
        )


def of_most_steps(seconds: Mapping[int, float], steps: int) -> float:
    """Return the median of what each step took, times their number, from the seconds by the number of the step.

    A step in which the machine did something else must not speak for all.
    """
    return steps * median(seconds.get(step, 0.0) for step in range(steps))


def outermost(event: Any) -> Any:
    """Return the operator that was called by Python or by autograd, and in which an event of the profiler happened."""
    while (parent := event.cpu_parent) is not None and "::" in parent.name and not parent.name.startswith("autograd::"):
        event = parent
    return event


def _stretches(
    events: Iterable[Any], part: Callable[[Any], Hashable], repeated: Sequence[Repeated]
) -> Iterator[list[Any]]:
    """Yield the operators that Python calls one after the other, without a product among them.

    A stretch lies within one thread, one `part` of the profile, and one node of the backward pass: from node to node no
    Python runs. Where a module is called again and again, products belong to it.
    """
    called, products = dict[int, Any](), set[int]()
    for event in events:
        operator = outermost(event)
        if "::" in operator.name and not operator.name.startswith("autograd::"):
            called[id(operator)] = operator
            if PRODUCTS.search(event.name) and _within(operator, repeated) is None:
                products.add(id(operator))
    stretch, last = list[Any](), None
    for operator in sorted(called.values(), key=lambda e: (e.thread, e.time_range.start)):
        node = _node(operator)
        if node == IN_C_ALONE:
            continue
        within = (operator.thread, part(operator), node, _within(operator, repeated))
        if within != last or id(operator) in products:
            yield stretch
            stretch, last = [], within
        if id(operator) not in products:
            stretch.append(operator)
    yield stretch


def _within(event: Any, repeated: Sequence[Repeated]) -> int | None:
    """Return the number of the stretch of repeated calls in which an event begins; None if it begins in none."""
    start = event.time_range.start
    i = bisect.bisect_right(repeated, start, key=lambda r: r.begin) - 1
    return i if i >= 0 and start < repeated[i].end else None


def _makers(events: Iterable[Any]) -> dict[int, Any]:
    """Return the operator that made each node of autograd, by the node's number.

    An operator that makes none has the number of the next node, so it is the last one with a number that made it.
    """
    found = dict[int, Any]()
    for e in events:
        if e.sequence_nr >= 0 and "::" in e.name and not e.name.startswith("autograd::") and _node(e) == OUTSIDE:
            last = found.get(e.sequence_nr)
            if last is None or e.time_range.start >= last.time_range.start:
                found[e.sequence_nr] = e
    return found


def _with_parts(event: Any) -> Iterator[Any]:
    """Yield an event and all that happen in it."""
    yield event
    for part in event.cpu_children:
        yield from _with_parts(part)


def _undone(node: Any) -> float:
    """Return the time in us of a node that goes back through a call of a loop, as far as it computes no arithmetic."""
    took = _took(node)
    if MOVES.search(node.name):
        return took
    return took - sum(_took(e) for e in _with_parts(node) if "::" in e.name and outermost(e) is e and _computes(e))


def _computes(operator: Any) -> bool:
    """Return whether an operator takes longer than a call does."""
    return not operator.name.startswith("autograd::") and 1e-6 * _took(operator) > SHORT


def _took(event: Any) -> float:
    return event.time_range.end - event.time_range.start


def _of_weights(events: Sequence[Any]) -> float:
    """Return the time in us of the long ones among products with weights, called by Python or by nodes."""
    called = (e for event in events for e in _with_parts(event) if outermost(e) is e and _computes(e))
    return sum(_took(e) for e in called if OF_WEIGHTS.search(e.name))


OUTSIDE, IN_C_ALONE = 0, -1
"""The places of operators outside of all nodes, and of those that a node calls which is none of Python's."""


def _node(event: Any) -> int:
    """Return the identity of the backward pass's node in which Python may have called an operator, or its place."""
    while event is not None:
        if event.name.startswith(NODE):
            return id(event)
        if IN_C.search(event.name):
            return IN_C_ALONE
        event = event.cpu_parent
    return OUTSIDE


def _lost(stretch: Sequence[Any]) -> float:
    """Return the time of a stretch in us that is Python's, or a short operator's; pauses are told elsewhere."""
    spans = [(e.time_range.start, e.time_range.end) for e in stretch]
    between = [b - a for (_, a), (b, _) in pairwise(spans)]
    called = sum(b - a for a, b in spans if 1e-6 * (b - a) <= SHORT)
    return called + sum(gap for gap in between if 0 < 1e-6 * gap < PAUSE)


def _idle(stretch: Sequence[Any], busy: Sequence[tuple[float, float]]) -> float:
    """Return the share of a stretch, 0 to 1, in which no device computes."""
    begin, end = stretch[0].time_range.start, stretch[-1].time_range.end
    return 1.0 - time_within(busy, begin, end) / (end - begin) if end > begin else 1.0


def time_within(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return how long spans, which are in order and do not overlap, last between two moments."""
    there = spans[max(0, bisect.bisect(spans, (begin, begin)) - 1) : bisect.bisect(spans, (end, end))]
    return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in there)
