"""The calls of modules in profiled steps: which of them are called again and again before gradients are computed.

Layers that share their weights are called up to 24 times in a forward pass, in ALBERT, and twice that where two passes
have one loss. A module that is called more often, and whose calls hold most of the time meanwhile, is in a loop over
positions, samples or turns, whatever its calls consist of. A small module that a deep network shares holds little.
Modules alike that are called by turns (experts, each for its tokens) are in one loop, if each is called more often than
a model refines its answer (twelve times in RAFT). Modules alike that are all given the same tensor (the heads of many
classes, the members of an ensemble) are in one loop, too, unless other layers are called between them.
"""

from __future__ import annotations

import bisect
import itertools
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from slowstep_probe.own_time import time
from slowstep_probe.probe.graphs import any_made
from slowstep_probe.trial.call_flops import call_flops
from slowstep_probe.trial.loops import Product, Repeated, time_within

OFTEN = 50
"""The fewest calls of one module before a backward pass that are taken for a loop."""

OFTEN_EACH = 16
"""The fewest calls of each of several modules alike that are taken for a loop, if together they have twice `OFTEN`."""

MOSTLY = 0.5
"""The least share of a loop's time that lies within the calls of its modules."""

UNUSUAL = 50
"""The longest gaps between two calls count for nothing: one gap, and one more for each so many gaps. The machine may
have done something else for once. A gap that is longer than all calls together counts in any case."""


@dataclass(frozen=True)
class Call:
    """One call of a module, by this process's clock in ns."""

    module: Any
    phase: str
    begin: int
    end: int
    flops: float
    """The floating-point operations of its own weights; 0 where they are not known (`call_flops`)."""
    given: int = 0
    """The number of the tensor that it was given first; 0 where it was given none."""


class ModuleCalls:
    """The calls of all modules that have weights, from now until `stop`. `phase` tells the phase of training.

    On a device their FLOPs are not asked for.
    """

    def __init__(self, phase: Callable[[], str], on_device: bool) -> None:
        self._phase, self._on_device, self._calls = phase, on_device, list[Call]()
        self._begun = defaultdict[int, list[int]](list)
        self._weighted: dict[int, bool] = {}
        self._given: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        """Tensors that modules were given, each with its number, by identity."""
        self._numbers = itertools.count(1)
        self._handles: list[Any] = []
        if not any_made():  # what is compiled would be compiled anew, since the compiler looks at hooks
            self._handles = [
                register_module_forward_pre_hook(self._entered),
                register_module_forward_hook(self._left),
            ]

    def _entered(self, module: Any, _: Any) -> None:
        if (key := id(module)) not in self._weighted:
            self._weighted[key] = next(module.parameters(), None) is not None
        if self._weighted[key]:
            self._begun[key].append(time.perf_counter_ns())

    def _left(self, module: Any, inputs: Any, output: Any) -> None:
        if begun := self._begun.get(id(module)):
            ended = time.perf_counter_ns()
            flops = 0.0 if self._on_device else call_flops(module, inputs, output)
            given = self._number(inputs[0]) if inputs and isinstance(inputs[0], torch.Tensor) else 0
            self._calls.append(Call(module, self._phase(), begun.pop(), ended, flops, given))

    def _number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor, from 1. Another one may have its identity once it is gone."""
        known = self._given.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._given[id(tensor)] = (weakref.ref(tensor), next(self._numbers))
        return known[1]

    def _are_alone(self, together: Sequence[Sequence[Call]]) -> bool:
        """Return whether no other module, which these are no part of and that is no part of them, is called between."""
        own = {id(part) for calls in together for call in calls for part in call.module.modules()}
        begin, end = min(calls[0].begin for calls in together), max(call.end for calls in together for call in calls)
        return not any(begin < c.begin and c.end < end for c in self._calls if id(c.module) not in own)

    def forget(self) -> None:
        """Forget the calls so far."""
        self._calls.clear()

    def stop(self) -> None:
        """Note no further calls."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def repeated(
        self, boundaries: Sequence[float], clock: float, apart: Sequence[tuple[float, float]] = ()
    ) -> list[Repeated]:
        """Return the stretches in which modules are called `OFTEN` times or more, in order; none overlaps another.

        `boundaries` are the moments, in order and in us, over which no loop goes: there a backward pass begins, or a
        step ends. `clock` is what has to be added to this process's clock to be at such a moment. Time in the spans
        `apart`, in order and in us, between two calls belongs to them: that of the backward passes of their results.
        """
        modules = {id(call.module): call.module for call in self._calls}
        kinds = {key: _kind(module) for key, module in modules.items()}
        side_by_side = _side_by_side(self._calls, kinds)
        often = _called_often(self._by_stretch(boundaries, clock, kinds, side_by_side), kinds)
        parts = {(*key[:2], id(part)) for key, calls in often.items() for part in list(calls[0].module.modules())[1:]}
        of_one_tensor = set(map(hash, side_by_side))
        same_given = {id(calls) for key, calls in often.items() if key[2] in of_one_tensor}
        found = list[Repeated]()
        for together in _overlapping([calls for key, calls in often.items() if key not in parts]):
            # what is done with each result is a part of the loop where all are given the same; layers between are none
            if not any(id(calls) in same_given for calls in together):
                found += _loop(together, clock, apart, MOSTLY)
            elif self._are_alone(together):
                found += _loop(together, clock, apart, 0.0)
        products = self._products(clock)
        return [_with_products(one, products) for one in found]

    def _by_stretch(
        self, boundaries: Sequence[float], clock: float, kinds: Mapping[int, Any], side_by_side: Collection[Any]
    ) -> dict[Stretch, list[Call]]:
        """Return the calls by stretch, phase and module. Modules that are called side by side count as one."""
        called = defaultdict[Stretch, list[Call]](list)
        for call in self._calls:
            moment, together = 1e-3 * call.end + clock, (call.given, kinds[id(call.module)])
            as_one = hash(together) if together in side_by_side else id(call.module)
            called[bisect.bisect(boundaries, moment), call.phase, as_one].append(call)
        return called

    def _products(self, clock: float) -> list[Product]:
        """Return the calls with FLOPs that hold no other such call."""
        known = sorted((call for call in self._calls if call.flops), key=lambda call: call.begin)
        innermost = [a for a, b in pairwise([*known, None]) if b is None or b.begin >= a.end]
        return [Product(1e-3 * one.begin + clock, 1e-3 * one.end + clock, one.flops) for one in innermost]


Stretch = tuple[int, str, int]
"""The number of boundaries before some calls, their phase, and the identity of what is called."""


def _called_often(called: Mapping[Stretch, list[Call]], kinds: Mapping[int, Any]) -> dict[Stretch, list[Call]]:
    """Return what is called often: one module, or several of a kind by turns, each a few times."""
    kind_of = {key: (*key[:2], kinds[id(calls[0].module)]) for key, calls in called.items() if len(calls) >= OFTEN_EACH}
    alike = Counter[tuple[int, str, object]]()
    for key, kind in kind_of.items():
        alike[kind] += len(called[key])
    by_turns = {key for key, kind in kind_of.items() if alike[kind] >= 2 * OFTEN}
    return {key: calls for key, calls in called.items() if key in by_turns or len(calls) >= OFTEN}


def _overlapping(loops: Iterable[list[Call]]) -> list[list[list[Call]]]:
    """Return loops in groups, in order: those of a group overlap in time."""
    groups = list[list[list[Call]]]()
    for calls in sorted(loops, key=lambda calls: calls[0].begin):
        if groups and calls[0].begin < max(one[-1].end for one in groups[-1]):
            groups[-1].append(calls)
        else:
            groups.append([calls])
    return groups


def _side_by_side(calls: Sequence[Call], kinds: Mapping[int, Any]) -> set[tuple[int, Any]]:
    """Return the tensors, by number, that `OFTEN` modules alike and more are given, each with what these are.

    `kinds` says that of each module, by identity.
    """
    modules = defaultdict[tuple[int, Any], set[int]](set)
    for call in calls:
        if call.given:
            modules[call.given, kinds[id(call.module)]].add(id(call.module))
    return {key for key, several in modules.items() if len(several) >= OFTEN}


def _with_products(one: Repeated, products: Sequence[Product]) -> Repeated:
    """Return a stretch with the products within it, from all, in order."""
    first = bisect.bisect_left(products, one.begin, key=lambda product: product.begin)
    after = bisect.bisect_right(products, one.end, key=lambda product: product.begin)
    return replace(one, products=products[first:after])


def _loop(
    together: Sequence[Sequence[Call]], clock: float, apart: Sequence[tuple[float, float]], mostly: float
) -> list[Repeated]:
    """Return the loop of modules that are called by turns, as a list; none if less than `mostly` lies within them."""
    if not together:
        return []
    every = sorted((call for calls in together for call in calls), key=lambda call: call.begin)
    begin, end = every[0].begin, max(call.end for call in every)
    back = [time_within(apart, 1e-3 * a.end + clock, 1e-3 * b.begin + clock) for a, b in pairwise(every)]
    within = sum(call.end - call.begin for call in every) + 1e3 * sum(back)
    beside = sorted(max(0.0, b.begin - a.end - 1e3 * took) for (a, b), took in zip(pairwise(every), back, strict=True))
    fewest = len(beside) - 1 - len(beside) // UNUSUAL
    beside = [gap for at, gap in enumerate(beside) if at < fewest or gap > within]
    if within < mostly * (within + sum(beside)):
        return []
    of_kind = defaultdict[Any, list[Call]](list)
    for calls in together:
        of_kind[_kind(calls[0].module)] += calls
    most, named = max(of_kind.items(), key=lambda one: (len(one[1]), sum(call.end - call.begin for call in one[1])))
    return [
        Repeated(
            begin=1e-3 * begin + clock,
            end=1e-3 * end + clock,
            name=most[0].__name__,
            calls=len(named),
            phase=together[0][0].phase,
        )
    ]


def _kind(module: Any) -> tuple[type, tuple[Any, ...]]:
    """Return what modules alike have in common: their class, and the sizes of their weights."""
    return type(module), tuple(p.shape for p in module.parameters())
