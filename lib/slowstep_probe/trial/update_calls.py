"""Calls that update the weights without an optimizer of PyTorch's, as looks at the stack of a program tell them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType

import torch

from slowstep_probe.looks import looking, with_size
from slowstep_probe.probe.probe import Probe

MOST = 8
"""The most weights that are looked at."""

BYTES = 16
"""The first bytes of each that are read."""


class UpdateCalls:
    """Finds the functions that run while weights change: those that stand on the stack before and after a change.

    `weights` returns the weights of the training; none, if an optimizer of PyTorch's updates them. Those on a device
    are not looked at, since that would wait for it. No operator runs, so that no mode of the program sees a look.

    A function is known by the `id` of its code, since the hash of a code object is made anew whenever it is asked for.
    """

    def __init__(self, weights: Callable[[], Sequence[torch.Tensor]]):
        self._weights = looking(_some)(weights) or []
        self._values: list[bytes] | None = None
        self._mark = -1
        self._frames: dict[int, FrameType] = {}
        """The calls that the last look saw, by their `id`. They are kept, so that no later call has the same."""
        self._codes: dict[int, CodeType] = {}
        """All functions that were seen, by their `id`, and kept for the same reason."""
        self.found: set[int] = set()

    def look(self, stack: Iterable[FrameType], mark: int) -> tuple[int, ...]:
        """Look at the weights and at a stack; return the functions on it, if any weights are looked at.

        A call lasts from look to look only if no phase begins between them: `mark`, the number of the last one, stays.
        """
        if not self._weights:
            return ()
        frames = {id(frame): frame for frame in stack}
        codes = {id(code): code for code in (frame.f_code for frame in frames.values())}
        self._codes.update(codes)
        now = looking(_all_bytes)(self._weights)
        if now is not None and self._values is not None and mark == self._mark and now != self._values:
            lasting = (frame for call, frame in frames.items() if self._frames.get(call) is frame)
            self.found.update(id(frame.f_code) for frame in lasting)
        self._values, self._frames, self._mark = now, frames, mark
        return tuple(codes)

    def end(self) -> None:
        """Look no more: let go of the program's calls and weights."""
        self._weights, self._values, self._frames = [], None, {}


def own_weights(probe: Probe) -> list[torch.Tensor]:
    """Return the weights of a program in which no optimizer of PyTorch's has stepped; none of another one."""
    models = probe.models if probe.optimizer is None else []
    return [weight for model in models for weight in with_size(model.parameters())]


def _some(weights: Callable[[], Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """Return a few weights from all over a model, those that can be read as they lie in the host's memory."""
    with torch._C.DisableTorchFunction():
        fit = [one for one in weights() if one.requires_grad and _is_plain(one)]
    return fit[:: max(1, len(fit) // MOST)]


def _is_plain(weight: torch.Tensor) -> bool:
    """Return whether a weight is none but its bytes in the host's memory."""
    kind = type(weight)
    return kind in (torch.Tensor, torch.nn.Parameter) and weight.device.type == "cpu" and weight.layout is torch.strided


def _all_bytes(weights: Iterable[torch.Tensor]) -> list[bytes]:
    """Return the first bytes of each weight, where it lies now."""
    with torch._C.DisableTorchFunction():
        return [_first_bytes(weight) if _is_plain(weight) else b"" for weight in weights]


def _first_bytes(weight: torch.Tensor) -> bytes:
    """Return the first bytes of a weight. Its storage is held meanwhile: the program may give it another one."""
    storage, begin = weight.untyped_storage(), weight.storage_offset() * weight.element_size()
    size = min(BYTES, weight.numel() * weight.element_size(), storage.nbytes() - begin)
    address = storage.data_ptr()
    return ctypes.string_at(address + begin, size) if address and size > 0 else b""
