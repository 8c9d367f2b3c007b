"""Calls of modules side by side: modules alike, called one after the other, of which none needs what another one makes.

The experts of a layer, the heads of an attention layer, the members of an ensemble, a model that is given samples one
by one: one call could compute all of them, by weights that lie together or by a batch. Layers are called one after the
other as well, and each needs what the one before has made. What tells the two is the way of the values, from operator
to operator, in steps that are looked at operator by operator. What Python has read back may shape all that follows.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slowstep_probe.looks import with_size

SIDE_BY_SIDE = 8
"""The fewest calls side by side that are taken for a loop. Attention has three projections of one input."""

Kind = tuple[type, tuple[Any, ...]]
"""What modules alike have in common: their class, and the sizes of their weights."""


@dataclass(frozen=True)
class Call:
    """One call of a module: by this process's clock in ns, or by the number of operators before."""

    module: Any
    kind: Kind
    phase: str
    begin: int
    end: int
    flops: float
    """The floating-point operations of its own weights; 0 where they are not known (`call_flops`)."""
    given: int = 0
    """The number of the tensor that it was given first; 0 where it was given none."""
    where: str = ""
    """The line of the user's own that made it; empty where nobody asked."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The way of the values from operator to operator, which are known by their place in the order of all calls."""

    reads: Sequence[Collection[int]]
    """The operators of the same step whose results each one reads."""
    read_back: Mapping[int, Collection[int]]
    """The operators whose results Python has read back before some others began."""
    boundaries: Sequence[float]
    """The places, in order, at which a step ends or a backward pass begins."""


def kind_of(module: Any) -> Kind:
    """Return what a module has in common with others alike."""
    return type(module), tuple(p.shape for p in with_size(module.parameters()))


def runs(calls: Iterable[Call], boundaries: Sequence[float], kinds: Collection[Kind]) -> list[list[Call]]:
    """Return the calls of modules of some kinds in runs: no other module is called between two calls of one.

    Calls within these belong to them. No run goes over a boundary.
    """
    found, last, end = list[list[Call]](), None, float("-inf")
    in_order = sorted(enumerate(calls), key=lambda one: (one[1].begin, -one[1].end, -one[0]))  # what holds others first
    for _, call in in_order:
        if call.begin < end:
            continue
        if call.kind not in kinds:
            last = None
            continue
        if last != (last := (bisect.bisect(boundaries, call.end), call.phase)):
            found.append([])
        found[-1].append(call)
        end = call.end
    return found


def side_by_side(calls: Sequence[Call], flow: Flow) -> dict[Kind, str]:
    """Return the kinds of modules that are called side by side, each with the line that calls them most often.

    Layers may hold others, which are seen once the layers are known to be none.
    """
    of_kind = defaultdict[Kind, list[Call]](list)
    for call in calls:
        of_kind[call.kind].append(call)
    depths = {k: depths_of(some, flow) for k, some in of_kind.items() if len(some) >= SIDE_BY_SIDE}
    while depths:
        found, seen, layers = defaultdict[Kind, Counter[str]](Counter), set[Kind](), set[Kind]()
        for run in runs(calls, flow.boundaries, depths):
            for kind in {call.kind for call in run}:
                some = [call for call in run if call.kind == kind]
                abreast = Counter(depths[kind].get(call) for call in some).most_common(1)[0][1]
                seen.add(kind)
                if abreast >= max(SIDE_BY_SIDE, len(some) / 2):
                    found[kind].update(call.where for call in some)
                elif len(some) >= SIDE_BY_SIDE:
                    layers.add(kind)
        layers |= seen - found.keys()  # a few calls of a layer hide those that they hold
        if not layers:
            return {kind: lines.most_common(1)[0][0] for kind, lines in found.items()}
        depths = {kind: depth for kind, depth in depths.items() if kind not in layers}
    return {}


def depths_of(calls: Sequence[Call], flow: Flow) -> dict[Call, int]:
    """Return how many calls of one kind, one after the other, come before what each of them is given."""
    depth, after, found = [0] * len(flow.reads), 0, dict[Call, int]()
    begins = {call.begin: call for call in sorted(calls, key=lambda call: call.end)}  # of several the outermost
    number = 0
    while number < len(depth):
        call = begins.get(number)
        end = max(number + 1, call.end if call else 0)
        for at in range(number, end):
            after = max([after, *(depth[n] for n in flow.read_back.get(at, ()))])
        given = (depth[n] for at in range(number, end) for n in flow.reads[at] if n < number)
        deepest = max([after, *given])
        if call is not None:
            found[call] = deepest
        depth[number:end] = [deepest + (call is not None)] * (end - number)
        number = end
    return found
