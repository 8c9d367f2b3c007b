"""Gradients that a backward pass computes, and that are gone before any optimizer has used them.

The discriminator of a GAN is trained on pictures that were not detached, so its pass goes back through the generator,
whose gradients the next `zero_grad()` takes away.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from slowstep_probe import devices
from slowstep_probe.changing.idle_gradients import MATTERS
from slowstep_probe.looks import looking, weights_of, with_size
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, here

LOOKS, FEW = 32, 4
"""The backward passes that are looked at, as some models are trained in every fifth step alone; and those after which
no more are, where optimizers have used all that was computed. Such looks are over before a trial's steps are timed."""

BACKWARD = inspect.signature(torch.autograd.backward)

INPUTS = [*BACKWARD.parameters].index("inputs")

VALUES = 8
"""The values of a weight, and of its gradient, that are looked at."""

OFTEN = 3
"""How often gradients of one line have to be thrown away, and never used, before they are told."""


class Pending(NamedTuple):
    """A gradient that no optimizer has used yet."""

    weight: torch.nn.Parameter
    gradient: tuple[int, int]
    """What the last pass left: which tensor, and its version."""
    values: list[list[float]]
    """The first values of the weight and of the gradient."""
    lines: frozenset[CodePlace]
    """The lines whose passes have computed it."""


class ThrownGradients:
    """Looks for gradients that are thrown away, and has them computed no more if that is wanted.

    `models` returns the modules that are known to be called. A pass is known by its line: one line by which gradients
    are thrown away in one step and used in another one throws nothing away. Weights count that an optimizer updates by
    the gradients of another line; those of other weights are `IdleGradients`.
    """

    def __init__(self, models: Callable[[], Iterable[torch.nn.Module]], found: Callable[[], None] | None = None):
        self.models, self._found = models, found
        """What is called when some are found, after which none are asked for; None for looking alone."""
        self._left, self._depth = LOOKS, 0
        self._before: dict[int, tuple[int, int] | None] = {}
        self._pending: dict[int, Pending] = {}
        self._thrown: Counter[tuple[CodePlace, int]] = Counter()
        """How often gradients were thrown away, by the line of the pass and the identity of the weight."""
        self._used: set[tuple[CodePlace, int]] = set()
        self._own = False
        """True once the program was seen to write gradients, or to change weights that have some."""
        self._thrown_by: dict[CodePlace, set[int]] = {}
        """What each line was last known to throw away while it was looked at."""
        self._told: set[CodePlace] = set()

    def attach(self, patches: Patches) -> None:
        patches.around(torch.autograd, "backward", self._passing)  # Tensor.backward calls it
        patches.on_removal(register_optimizer_step_pre_hook(looking(self._steps)).remove)

    @property
    def seen(self) -> bool:
        """True if any line was seen to throw a good part of its gradients away."""
        return any(self._of(line) for line in {line for line, _ in self._thrown})

    def _of(self, line: CodePlace) -> set[int]:
        """Return the weights whose gradients a line throws away; none where they are too few to matter."""
        if self._own:
            return set()
        updated = {weight for other, weight in self._used if other != line}
        never = {w for (at, w), times in self._thrown.items() if at == line and times >= OFTEN and w in updated}
        never -= {weight for at, weight in self._used if at == line}
        size = {id(weight): weight.numel() for weight in self._weights()}
        used = sum(size.get(weight, 0) for at, weight in self._used if at == line)
        thrown = sum(size.get(weight, 0) for weight in never)
        return never if thrown > MATTERS * (used + thrown) else set()

    def _weights(self) -> Iterator[torch.nn.Parameter]:
        once = {id(weight): weight for model in self.models() for weight in model.parameters()}
        return (weight for weight in with_size(once.values()) if weight.requires_grad)

    def _passing(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        within, self._depth = self._depth, self._depth + 1
        looks = not within and self._left > 0 and not devices.is_capturing()
        line = here() if not within and (looks or self._found) else None
        wanted: list[torch.Tensor] = []
        try:
            if looks:
                looking(self._begins)()
            elif not within:
                self._pending.clear()
            if line is not None and self._found:
                wanted = looking(self._wanted)(line, args, kwargs) or []
            if wanted:
                self._tell(line)
                kwargs = kwargs | {"inputs": wanted}
            result = original(*args, **kwargs)
            if looks and not wanted:
                looking(self._ends)(line)
            return result
        finally:
            self._depth = within

    def _tell(self, line: CodePlace) -> None:
        """Call what is to be called where some are found, once for each line."""
        if line not in self._told:
            self._told.add(line)
            self._found()

    def _begins(self) -> None:
        """Note which gradients are gone since they were computed, and what there is before a pass."""
        for identity, one in list(self._pending.items()):
            self._own = self._own or _values(one.weight) != one.values[0]
            if _gone(one):
                self._thrown.update((line, identity) for line in one.lines)
                del self._pending[identity]
        self._before = {id(weight): _state(weight) for weight in self._weights()}
        self._left -= bool(self._before)  # models are known after their first steps
        if LOOKS - self._left > FEW and not self._thrown and not self._pending:
            self._left = 0

    def _ends(self, line: CodePlace) -> None:
        """Note which gradients a pass has computed."""
        for weight in self._weights():
            now, key = _state(weight), (line, id(weight))
            if now is None or weight.grad is None or now == self._before.get(id(weight)):
                self._thrown.pop(key, None)
                continue
            earlier = self._pending[id(weight)].lines if id(weight) in self._pending else frozenset()
            values = [_values(weight), _values(weight.grad)]
            self._pending[id(weight)] = Pending(weight, now, values, earlier | {line})

    def _steps(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Note which gradients an optimizer uses."""
        for weight in weights_of(optimizer):
            if weight.grad is not None and (one := self._pending.pop(id(weight), None)):
                self._used.update((line, id(weight)) for line in one.lines)
                self._own = self._own or not _alike(one.values[1], _values(weight.grad))

    def _wanted(self, line: CodePlace, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return all whose gradients a pass is to compute; nothing where it is left as it is."""
        given = BACKWARD.bind(*args, **kwargs).arguments
        if self._left:
            self._thrown_by[line] = self._of(line)
        thrown = self._thrown_by.get(line)
        if not thrown or len(args) > INPUTS or given.get("inputs") is not None or given.get("create_graph"):
            return []
        weights = {id(weight): weight for weight in self._weights()}
        others = [leaf for leaf in leaves(given["tensors"]) if id(leaf) not in weights]
        return [weight for identity, weight in weights.items() if identity not in thrown] + others


def _state(weight: torch.Tensor) -> tuple[int, int] | None:
    return None if weight.grad is None else (id(weight.grad), weight.grad._version)


def _values(of: torch.Tensor) -> list[float]:
    """Return the first values of a tensor; none of one that is sparse or spread over ranks."""
    plain = of.layout is torch.strided and not hasattr(of, "full_tensor")
    return of.detach().reshape(-1)[:VALUES].float().tolist() if plain else []


def _alike(left: Sequence[float], right: Sequence[float]) -> bool:
    """Return whether one gradient is the other, or is scaled by one number, as where it was clipped."""
    return all(
        math.isclose(a * d, b * c, rel_tol=1e-3, abs_tol=1e-30)
        for (a, b), (c, d) in pairwise(zip(left, right, strict=True))
    )


def _gone(one: Pending) -> bool:
    """Return whether a gradient is not there any more, or is zero."""
    gradient = one.weight.grad
    if gradient is None or _state(one.weight) == one.gradient or not _values(gradient):
        return gradient is None
    return not bool(gradient.detach().any())


def leaves(losses: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors at which the graph of a loss ends, or of several losses."""
    every = [losses] if isinstance(losses, torch.Tensor) else losses
    left, known = [loss.grad_fn for loss in every if loss.grad_fn is not None], set[Any]()
    while left:
        node = left.pop()
        if node in known:
            continue
        known.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        left.extend(after for after, _ in node.next_functions if after is not None)
