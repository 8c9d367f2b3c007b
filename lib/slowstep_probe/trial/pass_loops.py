"""Lines that call a model again and again within one step: for one sample at a time, say.

Two calls of a model one after the other have the frames in common that went on between them. The innermost of these is
where they come by turns, whatever functions lie between it and the model: if it is the user's own, its line is told.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from types import FrameType
from typing import Any

import torch

from slowstep_probe.looks import looking
from slowstep_probe.places import is_own, kind_of
from slowstep_probe.profiled import PassLoop
from slowstep_probe.trial.module_calls import OFTEN
from slowstep_probe.trial.stacks import own_lines, stack

Key = tuple[str, str, str, int]
"""A phase, the line, and the class of the model with its identity."""


class PassLoops:
    """Looks at each call of a model that is called outermost, in the thread that trains. `phase` tells the phase."""

    def __init__(self, phase: Callable[[], str]) -> None:
        self._phase = phase
        self._last: dict[int, list[FrameType]] = {}
        """The frames of the last call of each model, outermost first. They are held, so that none has the identity of
        another."""
        self._step, self._most = Counter[Key](), Counter[Key]()
        self._rows = Counter[Key]()
        """The most rows of a call."""
        self.called = looking(self._called)

    def _called(self, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        frames = [one for one in stack(sys._getframe(1)) if kind_of(one.f_code.co_filename) != "none"][::-1]
        before = self._last.get(id(module), [])
        self._last[id(module)] = frames
        shared = [one for one, other in takewhile(lambda both: both[0] is both[1], zip(frames, before, strict=False))]
        if not shared or not is_own(shared[-1].f_code.co_filename):
            return
        line = own_lines(shared[-1])[0].in_words()
        key = self._phase(), line, type(module).__name__, id(module)
        self._step[key] += 1
        self._rows[key] = max(self._rows[key], rows_of((*args, *kwargs.values())))

    def step_ended(self) -> None:
        """Count a step."""
        self._most |= self._step
        self._step.clear()

    def end(self) -> list[PassLoop]:
        """Look no more, and return the lines that called a model `OFTEN` times and more in a step, most calls first."""
        self.step_ended()
        self._last.clear()
        found: dict[tuple[str, str, str], PassLoop] = {}
        for key, calls in self._most.most_common():
            phase, where, name, _ = key
            if calls >= OFTEN:  # of several alike the one with the most calls
                loop = PassLoop(phase=phase, where=where, name=name, calls=calls, rows=self._rows[key])
                found.setdefault((phase, where, name), loop)
        return list(found.values())


def rows_of(given: Iterable[Any]) -> int:
    """Return the rows of the first tensor that a model is given: 1 where it has one dimension; 0 for no tensor."""
    first = next((one for one in given if isinstance(one, torch.Tensor)), None)
    if first is None:
        return 0
    return len(first) if first.dim() > 1 else 1
