"""The calls of modules in profiled steps: which of them are called again and again before gradients are computed.

Layers that share their weights are called up to 24 times in a forward pass, in ALBERT, and twice that where two passes
have one loss. A module that is called more often, and whose calls hold most of the time meanwhile, is in a loop over
positions, samples or turns, whatever its calls consist of. A small module that a deep network shares holds little.
Modules alike that are called by turns (experts, each for its tokens) are in one loop, if each is called more often than
a model refines its answer (twelve times in RAFT). Modules alike of which none needs what another one makes (experts
again, the heads of many classes, the members of an ensemble) are in one loop, too, unless other layers are called
between them (`side_by_side`).
"""

from __future__ import annotations

import bisect
import itertools
import sys
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from slowstep_probe.own_time import time
from slowstep_probe.probe.graphs import any_made
from slowstep_probe.trial.call_flops import call_flops
from slowstep_probe.trial.loops import Product, Repeated, time_within
from slowstep_probe.trial.side_by_side import SIDE_BY_SIDE, Call, Kind, kind_of, runs
from slowstep_probe.trial.stacks import place_of

OFTEN = 50
"""The fewest calls of one module before a backward pass that are taken for a loop."""

OFTEN_EACH = 16
"""The fewest calls of each of several modules alike that are taken for a loop, if together they have twice `OFTEN`."""

MOSTLY = 0.5
"""The least share of a loop's time that lies within the calls of its modules."""

UNUSUAL = 50
"""The longest gaps between two calls count for nothing: one gap, and one more for each so many gaps. The machine may
have done something else for once. A gap that is longer than all calls together counts in any case."""


class ModuleCalls:
    """The calls of all modules that have weights, from now until `stop`. `phase` tells the phase of training.

    Their FLOPs are not asked for on a device, and neither where they are timed by a clock of another kind, `now`.
    """

    def __init__(
        self, phase: Callable[[], str], on_device: bool, now: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._phase, self._now, self._calls = phase, now, list[Call]()
        self._timed = now is time.perf_counter_ns
        self._with_flops = self._timed and not on_device
        self._begun = defaultdict[int, list[tuple[int, str]]](list)
        self._kinds: dict[int, Kind | None] = {}
        """The kind of each module, by identity; None for one that has no weights."""
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
        if (key := id(module)) not in self._kinds:
            self._kinds[key] = kind_of(module) if next(module.parameters(), None) is not None else None
        if self._kinds[key]:
            where = "" if self._timed else place_of(sys._getframe(1))[0]
            self._begun[key].append((self._now(), where))

    def _left(self, module: Any, inputs: Any, output: Any) -> None:
        if begun := self._begun.get(id(module)):
            ended = self._now()
            flops = call_flops(module, inputs, output) if self._with_flops else 0.0
            given = self._number(inputs[0]) if inputs and isinstance(inputs[0], torch.Tensor) else 0
            began, where = begun.pop()
            self._calls.append(Call(module, self._kinds[id(module)], self._phase(), began, ended, flops, given, where))

    def _number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor, from 1. Another one may have its identity once it is gone."""
        known = self._given.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._given[id(tensor)] = (weakref.ref(tensor), next(self._numbers))
        return known[1]

    @property
    def calls(self) -> list[Call]:
        """The calls that have ended, in this order."""
        return self._calls

    def forget(self) -> None:
        """Forget the calls so far."""
        self._calls.clear()

    def stop(self) -> None:
        """Note no further calls."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def repeated(
        self,
        boundaries: Sequence[float],
        clock: float,
        apart: Sequence[tuple[float, float]] = (),
        side_by_side: Mapping[Kind, str] | None = None,
    ) -> list[Repeated]:
        """Return the stretches in which modules are called `OFTEN` times or more, in order; none overlaps another.

        `boundaries` are the moments, in order and in us, over which no loop goes: there a backward pass begins, or a
        step ends. `clock` is what has to be added to this process's clock to be at such a moment. Time in the spans
        `apart`, in order and in us, between two calls belongs to them: that of the backward passes of their results.
        Of modules that are known to be called `side_by_side`, each kind with the line that calls it, fewer are enough.
        """
        ends = [1e3 * (boundary - clock) for boundary in boundaries]
        lines = {**dict.fromkeys(_given_the_same(self._calls), ""), **(side_by_side or {})}
        abreast = [run for run in runs(self._calls, ends, lines) if _is_abreast(run, side_by_side or {})]
        of_them = {id(part) for run in abreast for call in run for part in call.module.modules()}
        often = _called_often(self._by_stretch(ends))
        parts = {(*key[:2], id(part)) for key, calls in often.items() for part in list(calls[0].module.modules())[1:]}
        parts |= {key for key in often if key[2] in of_them}
        found = list[Repeated]()
        for together in _overlapping([calls for key, calls in often.items() if key not in parts]):
            found += _loop(together, clock, apart, MOSTLY)
        # what is done with each result is a part of the loop here
        found += [
            replace(one, where=lines[run[0].kind])
            for run in abreast
            for one in _loop([run], clock, apart, 0.0)
            if not any(other.begin < one.end and one.begin < other.end for other in found)
        ]
        found.sort(key=lambda one: one.begin)
        products = self._products(clock)
        return [_with_products(one, products) for one in found]

    def _by_stretch(self, ends: Sequence[float]) -> dict[Stretch, list[Call]]:
        """Return the calls by stretch, phase and module. Stretches end at these moments of this process's clock."""
        called = defaultdict[Stretch, list[Call]](list)
        for call in self._calls:
            called[bisect.bisect(ends, call.end), call.phase, id(call.module)].append(call)
        return called

    def _products(self, clock: float) -> list[Product]:
        """Return the calls with FLOPs that hold no other such call."""
        known = sorted((call for call in self._calls if call.flops), key=lambda call: call.begin)
        innermost = [a for a, b in pairwise([*known, None]) if b is None or b.begin >= a.end]
        return [Product(1e-3 * one.begin + clock, 1e-3 * one.end + clock, one.flops) for one in innermost]


Stretch = tuple[int, str, int]
"""The number of boundaries before some calls, their phase, and the identity of what is called."""


def _called_often(called: Mapping[Stretch, list[Call]]) -> dict[Stretch, list[Call]]:
    """Return what is called often: one module, or several of a kind by turns, each a few times."""
    kinds = {key: (*key[:2], calls[0].kind) for key, calls in called.items() if len(calls) >= OFTEN_EACH}
    alike = Counter[tuple[int, str, Kind]]()
    for key, kind in kinds.items():
        alike[kind] += len(called[key])
    by_turns = {key for key, kind in kinds.items() if alike[kind] >= 2 * OFTEN}
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


def _given_the_same(calls: Sequence[Call]) -> set[Kind]:
    """Return the kinds of which `OFTEN` modules and more are given the same tensor."""
    modules = defaultdict[tuple[int, Kind], set[int]](set)
    for call in calls:
        if call.given:
            modules[call.given, call.kind].add(id(call.module))
    return {kind for (_, kind), several in modules.items() if len(several) >= OFTEN}


def _is_abreast(run: Sequence[Call], side_by_side: Collection[Kind]) -> bool:
    """Return whether the calls of a run are side by side: those of kinds that are known for it, or of one tensor.

    Layers of a network may be of a kind of which many others, its heads, are given the same tensor.
    """
    if len(run) < SIDE_BY_SIDE:
        return False
    (_, of_one_tensor) = Counter(call.given for call in run).most_common(1)[0]
    return all(call.kind in side_by_side for call in run) or 2 * of_one_tensor >= len(run)


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
        for call in calls:
            of_kind[call.kind].append(call)
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
