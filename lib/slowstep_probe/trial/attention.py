"""Attention that is written out: two products of batches with a softmax between them, each an operator of its own.

What lies between goes over a matrix of length times length for each head: scaling, masks, dropout, softmax.
`scaled_dot_product_attention` computes it in parts that stay in the cache. Only what the program calls itself counts,
and not what that operator is made of where no fused kernel fits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from slowstep_probe.trial.loops import NODE, PRODUCTS, is_operator, makers, of_most_steps, outermost, with_parts

BATCHED = ("aten::bmm", "aten::baddbmm")
"""The products of attention: nothing else in most models multiplies batches."""

FUSED = ("scaled_dot_product", "flash_attention", "efficient_attention")

MOST = 60
"""The most operators between the two products. A mask that is built anew takes some ten."""


def written_out(
    events: Sequence[Any], part: Callable[[Any], tuple[str, int]], steps: int, own: Callable[[Any], float]
) -> dict[str, float]:
    """Return the seconds of each phase between the products of such attention, and going back through that.

    `events` are those of the profiler on the host, `part` tells the phase and the number of the step of an event, and
    `own` its own time in us. The seconds are those of most steps, over all of them.
    """
    taken, made = defaultdict[str, Counter[int]](Counter), set[int]()
    made_by = makers(events)

    def add(event: Any) -> None:
        phase, step = part(event)
        taken[phase][step] += sum(1e-6 * own(e) for e in with_parts(event))

    for operator in _between_products(events, part):
        add(operator)
        made |= {e.sequence_nr for e in with_parts(operator) if made_by.get(e.sequence_nr) is e}
    for node in events:
        if node.name.startswith(NODE) and node.sequence_nr in made:
            add(node)
    totals = {phase: of_most_steps(seconds, steps) for phase, seconds in taken.items()}
    return {phase: seconds for phase, seconds in totals.items() if seconds > 0}


def _between_products(events: Iterable[Any], part: Callable[[Any], tuple[str, int]]) -> Iterator[Any]:
    """Yield the operators that Python calls between two products of batches with a softmax between them."""
    called = {id(operator): operator for event in events if is_operator(operator := outermost(event))}
    first, between = None, list[Any]()
    for operator in sorted(called.values(), key=lambda e: (e.thread, e.time_range.start)):
        names = [e.name for e in with_parts(operator)]
        of_batches = any(name in BATCHED for name in names) and not any(word in operator.name for word in FUSED)
        if of_batches or any(PRODUCTS.search(name) for name in names):
            same = of_batches and first is not None and (first.thread, part(first)) == (operator.thread, part(operator))
            if same and any("aten::_softmax" in (e.name for e in with_parts(one)) for one in between):
                yield from between
            first, between = (operator if of_batches else None), []
        elif first is not None:
            between.append(operator)
            first = first if len(between) <= MOST else None
