"""What programs write out by single operators though PyTorch has one for it, told by the order of the operators.

- **Attention**: two products of batches with a softmax between them. What lies between goes over a matrix of length
  times length for each head: scaling, masks, dropout, softmax. `scaled_dot_product_attention` computes it in parts that
  stay in the cache.
- **A product of matrices**: elements are multiplied, each with several others, and summed at once. All of the single
  products lie in memory between the two; `matmul` and `einsum` need no such room.

Only what the program calls itself counts, and not what an operator, or the way back through one, is made of.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from slowstep_probe.operator_names import PRODUCTS
from slowstep_probe.profiled import ATTENTION, PRODUCT
from slowstep_probe.trial.host_events import HostEvents, with_parts

BATCHED = ("aten::bmm", "aten::baddbmm")
"""The products of attention: nothing else in most models multiplies batches."""

FUSED = ("scaled_dot_product", "flash_attention", "efficient_attention")

BETWEEN = re.compile(
    r"aten::(mul|div|add|sub|rsub|neg|softmax|dropout|masked_fill|where|to|type_as|float|half|contiguous|clone|detach|"
    r"view|reshape|transpose|permute|expand|expand_as|t|unsqueeze|squeeze|slice|select|index|full|ones|zeros|empty|"
    r"full_like|ones_like|zeros_like|tri[ul]|arange|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|fill|copy|repeat|"
    r"scalar_tensor|lift_fresh|alias)_?"
)
"""What lies between the products of attention: scaling, masks, a softmax, dropout, casts and views."""

MOST = 60
"""The most operators between the two products of attention. A mask that is built anew takes some ten."""

NO_NODE = 2**62
"""The number from which on a node has none: leaves accumulate their gradients in nodes with the largest there is."""

MULTIPLIES, SUMS = "aten::mul", "aten::sum"


def written_out(events: HostEvents) -> dict[str, dict[str, float]]:
    """Return the seconds of each phase in what is written out, and going back through that, by what it is."""
    found: dict[str, dict[str, float]] = {}
    for what, operators in ((ATTENTION, _attention(events)), (PRODUCT, _products(events))):
        forth = list(operators)
        made = events.made_in(forth)
        taken = defaultdict[str, Counter[int]](Counter)
        for one in [*forth, *(node for node in events.nodes if node.sequence_nr in made)]:
            phase, step = events.part(one)
            taken[phase][step] += events.seconds(one)
        if seconds := events.totals(taken):
            found[what] = seconds
    return found


def _attention(events: HostEvents) -> Iterator[Any]:
    """Yield the operators between two products of batches with a softmax between them."""
    first, between = None, list[Any]()
    for operator in events.called:
        names = [e.name for e in with_parts(operator)]
        of_batches = any(name in BATCHED for name in names) and not any(word in operator.name for word in FUSED)
        if of_batches or any(PRODUCTS.search(name) for name in names):
            same = of_batches and first is not None and _are_together(events, first, operator)
            if same and any("aten::_softmax" in (e.name for e in with_parts(one)) for one in between):
                yield from between
            first, between = (operator if of_batches else None), []
        elif first is not None:
            between.append(operator)
            first = first if len(between) <= MOST and BETWEEN.fullmatch(operator.name) else None


def _products(events: HostEvents) -> Iterator[Any]:
    """Yield the operators that multiply elements and that sum them at once.

    The multiplications are those whose nodes sum on their way back: elements that met several others get the sum of
    what these give. Where each meets one, there is no product of matrices.
    """
    broadcast = {node.sequence_nr for node in events.nodes if any(e.name == SUMS for e in with_parts(node))}
    broadcast &= {number for number, e in events.makers.items() if e.name == MULTIPLIES}
    for one, after in pairwise(events.called):
        at_once = after.name == SUMS and _are_together(events, one, after)
        if at_once and one.name == MULTIPLIES and one.sequence_nr in broadcast:
            yield from (one, after)


def _are_together(events: HostEvents, one: Any, other: Any) -> bool:
    return one.thread == other.thread and events.part(one) == events.part(other)


def through_earlier_steps(events: HostEvents) -> float:
    """Return the seconds in which backward passes go through what earlier steps went through already.

    A graph that is kept, or a state that is not detached, is gone through again and again; any other graph is once,
    whenever it was made.
    """
    first, taken = dict[tuple[int, int], int](), Counter[int]()
    for node in sorted(events.nodes, key=lambda e: e.time_range.start):
        if 0 <= node.sequence_nr < NO_NODE:
            step = events.part(node)[1]
            if first.setdefault((node.fwd_thread, node.sequence_nr), step) < step:
                taken[step] += events.seconds(node)
    return events.of_most_steps(taken)
