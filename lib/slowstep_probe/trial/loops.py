"""Loops in Python, as a profile shows them: one operator again and again, and no product of two matrices in between.

A loop that calls a module with weights again and again is one, too, whatever it multiplies (`module_calls`).

Between two products of matrices a model calls up to a hundred operators, and none of them more than some twenty times
(measured on twenty-four architectures of transformers; RWKV's scan is a loop). What comes more often is a loop over
positions, samples or elements, which could be a single operator over all of them.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from slowstep_probe.operator_names import OF_VECTORS, OF_WEIGHTS, PRODUCTS
from slowstep_probe.profiled import Loop
from slowstep_probe.trial.host_events import OUTSIDE, HostEvents, is_operator, node_of, outermost, with_parts

OFTEN = 50
"""The fewest calls of one operator between two products that are taken for a loop."""

SHORT = 20e-6
"""Seconds up to which an operator takes hardly more than its call. A longer one computes, and its time is not lost."""

PAUSE = 1e-3
"""The least seconds without an operator that count as a pause. Python takes some 50 us between two operators."""

ALIKE = 2
"""The most nodes of one call that multiply and take an equal part of its FLOPs: those of a recurrent cell."""

UNDOING = re.compile(r"::mm$|::addmm$|::bmm$|_backward$")
"""The operators by which a node goes back through a product with weights. What is computed anew is none of them."""

MOVES = re.compile(
    r"(Select|Slice|Index|Narrow|Split|Unbind|Stack|Cat|Copy|Expand|View|Squeeze|Unsqueeze|AsStrided)\w*Backward"
)
"""Nodes that move numbers and compute none. That of a part of a tensor fills a whole one with zeros, and adds it."""

BACK = 2
"""The FLOPs of a way back over those of the way forth: gradients of weights, and of inputs."""


@dataclass(frozen=True)
class Product:
    """A call of a module that multiplies by its weights. Times are in us."""

    begin: float
    end: float
    flops: float
    """Its floating-point operations."""


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
    where: str = ""
    """The line that calls them, if none of them needs what another one makes (`side_by_side`); empty if not known."""
    products: Sequence[Product] = ()
    """The products among its calls, and within them, whose FLOPs are known; in order."""


def loops(
    events: HostEvents, busy: Sequence[tuple[float, float]] = (), repeated: Sequence[Repeated] = ()
) -> dict[str, Loop]:
    """Return the loops of each phase, told as one.

    `busy` are the spans in which a device computes, and `repeated` are those in which a module is called again and
    again, in order, both in us. Time in which a device computes is not lost.
    """
    forth, found = _forth(events, busy, repeated), dict[str, Loop]()
    for phase, turns in forth.items():
        loop = turns.loop(events)
        if loop.seconds > 0:
            found[phase] = loop
    for phase in list(found):
        loop = forth[phase].way_back(events, busy).loop(events)
        if loop.seconds > (found["backward"].seconds if "backward" in found else 0.0):
            found["backward"] = replace(loop, of=phase)
    return found


def _forth(events: HostEvents, busy: Sequence[tuple[float, float]], repeated: Sequence[Repeated]) -> dict[str, _Turns]:
    """Return the turns of each phase's loop."""
    found = defaultdict[str, _Turns](_Turns)
    for stretch in _stretches(events, repeated):
        calls, number = Counter(e.name for e in stretch), _within(stretch[0], repeated) if stretch else None
        if max(calls.values(), default=0) < OFTEN and number is None:
            continue
        phase, step = events.part(stretch[0])
        if phase == "backward" and node_of(stretch[0]) == OUTSIDE:
            continue  # behind the last node, where gradients are handed on in C++
        turns = found[phase]
        turns.seconds[step] += 1e-6 * _lost(stretch) * _idle(stretch, busy)
        turns.without_gradients[step] += 1e-6 * _without_gradients(stretch, calls) * _idle(stretch, busy)
        turns.operators.update(calls)
        for product, operators in _by_product(stretch, () if number is None else repeated[number].products):
            turns.add(step, operators, events, product)
    for one in repeated:
        if one.phase in found:
            found[one.phase].modules[one.name] += one.calls
            found[one.phase].where = one.where or found[one.phase].where
    return found


@dataclass
class _Turns:
    """What the turns of one loop take in each step, by the number of the step, and what they make."""

    operators: Counter[str] = field(default_factory=Counter)
    """The calls of each operator, by name."""
    modules: Counter[str] = field(default_factory=Counter)
    """The calls of each module that is called again and again, by its class."""
    where: str = ""
    """The line that calls modules of which none needs what another one makes."""
    seconds: Counter[int] = field(default_factory=Counter)
    """What is lost."""
    without_gradients: Counter[int] = field(default_factory=Counter)
    """The seconds of turns where gradients are switched off."""
    products: Counter[int] = field(default_factory=Counter)
    """The seconds of long products whose FLOPs are known."""
    flops: Counter[int] = field(default_factory=Counter)
    """These FLOPs."""
    nodes: dict[int, float] = field(default_factory=dict)
    """The nodes of autograd that they make, by number, with the FLOPs of going back through each."""

    def add(self, step: int, operators: Sequence[Any], events: HostEvents, product: Product | None) -> None:
        """Add operators that compute a product, or none whose FLOPs are known, and the nodes that they made."""
        made = events.made_in(operators)
        multiply = [number for number, e in made.items() if OF_WEIGHTS.search(e.name)]
        multiply = multiply if len(multiply) <= ALIKE else []
        self.nodes.update(dict.fromkeys(made, 0.0))
        if product is not None:
            self._multiply(step, operators, OF_WEIGHTS, product.flops)
            self.nodes.update(dict.fromkeys(multiply, BACK * product.flops / max(1, len(multiply))))

    def _multiply(self, step: int, operators: Iterable[Any], kind: re.Pattern[str], flops: float) -> None:
        """Add a product that operators of a kind compute. The time of short ones is lost, and none of its."""
        long = sum(1e-6 * _took(e) for e in operators if kind.search(e.name) and _is_long(e))
        if long:
            self.products[step] += long
            self.flops[step] += flops

    def way_back(self, events: HostEvents, busy: Sequence[tuple[float, float]]) -> _Turns:
        """Return what going back through the nodes takes."""
        back = _Turns(operators=self.operators, modules=self.modules, where=self.where)
        for node in (node for node in events.nodes if node.sequence_nr in self.nodes):
            step, flops = events.part(node)[1], self.nodes[node.sequence_nr]
            back.seconds[step] += 1e-6 * _undone(node) * _idle([node], busy)
            if flops:
                back._multiply(step, _called_by(node), UNDOING, flops)
        return back

    def loop(self, events: HostEvents) -> Loop:
        """Return what is told of the loop over all steps."""
        name, calls = (self.modules or self.operators).most_common(1)[0]
        of = (self.seconds, self.products, self.flops, self.without_gradients)
        seconds, products, flops, without = map(events.of_most_steps, of)
        times = {"seconds": seconds, "products": products, "flops": flops, "without_gradients": without}
        return Loop(name=name, calls=calls, where=self.where, **times)


def _by_product(stretch: Sequence[Any], products: Sequence[Product]) -> Iterator[tuple[Product | None, Sequence[Any]]]:
    """Yield the operators of each product, and then those of none."""
    found = defaultdict[int, list[Any]](list)
    for e in stretch:
        middle = (e.time_range.start + e.time_range.end) / 2  # modules are timed by another clock, known to some us
        at = bisect.bisect_right(products, middle, key=lambda product: product.begin) - 1
        found[at if at >= 0 and middle < products[at].end else -1].append(e)
    beside = found.pop(-1, [])
    yield from ((products[at], operators) for at, operators in found.items())
    yield None, beside


def _stretches(events: HostEvents, repeated: Sequence[Repeated]) -> Iterator[list[Any]]:
    """Yield the operators that Python calls one after the other, without a product among them.

    A stretch lies within one thread, one part of the profile, and one node of the backward pass: from node to node no
    Python runs. Where a module is called again and again, products belong to it.
    """
    multiply = {id(outermost(event)) for event in events.every if _is_of_matrices(event)}
    stretch, last = list[Any](), None
    for operator in events.called:
        number = _within(operator, repeated)
        is_product = number is None and id(operator) in multiply
        within = (operator.thread, events.part(operator), node_of(operator), number)
        if within != last or is_product:
            yield stretch
            stretch, last = [], within
        if not is_product:
            stretch.append(operator)
    yield stretch


def _is_of_matrices(event: Any) -> bool:
    return bool(PRODUCTS.search(event.name)) and not OF_VECTORS.search(event.name)


def _within(event: Any, repeated: Sequence[Repeated]) -> int | None:
    """Return the number of the stretch of repeated calls in which an event begins; None if it begins in none."""
    start = event.time_range.start
    i = bisect.bisect_right(repeated, start, key=lambda r: r.begin) - 1
    return i if i >= 0 and start < repeated[i].end else None


def _called_by(node: Any) -> Iterator[Any]:
    """Yield the operators that a node calls, without those within them."""
    return (e for e in with_parts(node) if is_operator(e) and outermost(e) is e)


def _undone(node: Any) -> float:
    """Return the time in us of a node that goes back through a call of a loop, as far as it computes no arithmetic."""
    computed = 0.0 if MOVES.search(node.name) else sum(_took(e) for e in _called_by(node) if _is_long(e))
    return _took(node) - computed


def _is_long(operator: Any) -> bool:
    """Return whether an operator takes longer than a call does."""
    return 1e-6 * _took(operator) > SHORT


def _took(event: Any) -> float:
    return event.time_range.end - event.time_range.start


def _lost(stretch: Sequence[Any]) -> float:
    """Return the time of a stretch in us that is Python's, or a short operator's; pauses are told elsewhere."""
    spans = [(e.time_range.start, e.time_range.end) for e in stretch]
    between = [b - a for (_, a), (b, _) in pairwise(spans)]
    called = sum(_took(e) for e in stretch if not _is_long(e))
    return called + sum(gap for gap in between if 0 < 1e-6 * gap < PAUSE)


def _without_gradients(stretch: Sequence[Any], calls: Mapping[str, int]) -> float:
    """Return the time in us of operators that come again and again with gradients switched off, and between them.

    The profiler gives them no number of a node.
    """
    turning = [e for e in stretch if e.sequence_nr < 0 and calls[e.name] >= OFTEN]
    gaps = (b.time_range.start - a.time_range.end for a, b in pairwise(turning))
    return sum(map(_took, turning)) + sum(gap for gap in gaps if 0 < 1e-6 * gap < PAUSE)


def _idle(stretch: Sequence[Any], busy: Sequence[tuple[float, float]]) -> float:
    """Return the share of a stretch, 0 to 1, in which no device computes."""
    begin, end = stretch[0].time_range.start, stretch[-1].time_range.end
    return 1.0 - time_within(busy, begin, end) / (end - begin) if end > begin else 1.0


def time_within(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return how long spans, which are in order and do not overlap, last between two moments."""
    there = spans[max(0, bisect.bisect(spans, (begin, begin)) - 1) : bisect.bisect(spans, (end, end))]
    return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in there)
