"""The calls of modules in profiled steps: which of them are called again and again before gradients are computed.

Layers that share their weights are called up to 24 times in a forward pass, in ALBERT. A module that is called more
often is in a loop over positions, samples or turns, whatever its calls consist of.
"""

from __future__ import annotations

import bisect
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch.nn.modules.module import register_module_forward_hook

from slowstep_probe.trial.loops import Repeated

OFTEN = 25
"""The fewest calls of one module before a backward pass that are taken for a loop."""


class ModuleCalls:
    """The calls of all modules that have weights, from now until `stop`."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, Any]] = []
        self._weighted: dict[int, bool] = {}
        # what is compiled would be compiled anew, since the compiler looks at hooks
        self._handle = None if _compiles() else register_module_forward_hook(self._left)

    def _left(self, module: Any, *_: Any) -> None:
        if (key := id(module)) not in self._weighted:
            self._weighted[key] = next(module.parameters(), None) is not None
        if self._weighted[key]:
            self._ends.append((time.perf_counter_ns(), module))

    def stop(self) -> None:
        """Note no further calls."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def repeated(self, phase_at: Callable[[float], str], borders: Sequence[float], clock: float) -> list[Repeated]:
        """Return the stretches in which modules are called `OFTEN` times or more, in order; none overlaps another.

        They lie within one phase, which `phase_at` tells at a moment in us. `borders` are the moments, in order, over
        which no loop goes: there a backward pass begins, or a step ends. `clock` is what has to be added to this
        process's clock to be at such a moment.
        """
        called, modules = defaultdict[tuple[int, str, int], list[float]](list), dict[int, Any]()
        for nanoseconds, module in self._ends:
            moment, modules[id(module)] = 1e-3 * nanoseconds + clock, module
            called[bisect.bisect(borders, moment), phase_at(moment), id(module)].append(moment)
        often = {key: at for key, at in called.items() if len(at) >= OFTEN}
        parts = {(*there, id(part)) for *there, module in often for part in list(modules[module].modules())[1:]}
        stretches = list[Repeated]()
        for key, at in often.items():
            first, module = at[0] - (at[-1] - at[0]) / (len(at) - 1), key[-1]
            calls = 0 if key in parts else len(at)  # what is part of another module of the loop does not name it
            stretches.append(Repeated(begin=first, end=at[-1], name=type(modules[module]).__name__, calls=calls))
        found = list[Repeated]()
        for one in sorted(stretches, key=lambda r: r.begin):
            if found and one.begin < found[-1].end:
                one = _together(found.pop(), one)
            found.append(one)
        return found


def _together(first: Repeated, second: Repeated) -> Repeated:
    """Return two stretches that overlap as one, named by what is called more often, and else by what comes first."""
    named = first if first.calls >= second.calls else second
    return replace(named, begin=first.begin, end=max(first.end, second.end))


def _compiles() -> bool:
    """Whether anything was compiled in this process."""
    compiler = sys.modules.get("torch._dynamo.utils")  # importing it takes seconds
    return compiler is not None and bool(compiler.counters["frames"])
