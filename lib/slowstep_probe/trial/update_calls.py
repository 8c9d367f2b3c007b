"""Calls that update the weights without an optimizer of PyTorch's, as looks at the stack of a program tell them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from types import CodeType, FrameType

import torch

from slowstep_probe.looks import with_size
from slowstep_probe.probe import Probe

MOST = 8
"""The most weights that are looked at."""

VALUES = 4
"""The values of each."""


class UpdateCalls:
    """Finds the functions that run while weights change: those that stand on the stack before and after a change.

    `weights` returns the weights of the training; none, if an optimizer of PyTorch's updates them. Those on a device
    are not looked at, since that would wait for it.
    """

    def __init__(self, weights: Callable[[], Sequence[torch.Tensor]] = lambda: ()):
        self._weights = [one.detach().reshape(-1)[:VALUES] for one in _some(weights())]
        self._values: torch.Tensor | None = None
        self._mark = -1
        self._frames: dict[int, CodeType] = {}
        """The calls that the last look saw."""
        self.found: set[CodeType] = set()

    def look(self, stack: Iterable[FrameType], mark: int) -> tuple[CodeType, ...]:
        """Look at the weights and at a stack; return the functions on it, if any weights are looked at.

        A call lasts from look to look only if no phase begins between them: `mark`, the number of the last one, stays.
        """
        if not self._weights:
            return ()
        now, frames = torch.cat(self._weights), {id(frame): frame.f_code for frame in stack}
        if self._values is not None and mark == self._mark and not torch.equal(now, self._values):
            self.found |= {code for call, code in frames.items() if self._frames.get(call) is code}
        self._values, self._frames, self._mark = now, frames, mark
        return tuple(dict.fromkeys(frames.values()))


def own_weights(probe: Probe) -> list[torch.Tensor]:
    """Return the weights of a program in which no optimizer of PyTorch's has stepped; none of another one."""
    models = probe.models if probe.optimizer is None else []
    return [weight for model in models for weight in with_size(model.parameters())]


def _some(weights: Sequence[torch.Tensor]) -> Iterable[torch.Tensor]:
    """Return a few weights from all over a model, those of one kind that lie in the host's memory."""
    fit = [one for one in weights if one.device.type == "cpu" and one.dtype == weights[0].dtype and one.requires_grad]
    return islice(fit, 0, None, max(1, len(fit) // MOST))
