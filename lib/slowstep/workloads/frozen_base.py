"""A model's frozen weights, built once and mapped by every trial: one file, whose pages all of them share.

LoRA and QLoRA never change the base, and yet each launch would build and quantise it anew. A process of its own builds
it, packs all its tensors into one file (the arena), and pickles the rest beside it. A trial maps the arena privately:
whoever writes to a page gets a copy of his own, so no trial can disturb another, and the kernel tells how much was
copied.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ALIGN = 64
"""The bytes of which each tensor's place in the arena is a multiple, as PyTorch's allocator has it."""

STRUCTURE = "structure"
"""The ending of the file beside the arena that holds everything but the values of tensors."""


def write(base: torch.nn.Module, arena: Path) -> None:
    """Write a model to `arena` and the file beside it.

    The random numbers that come next are kept, too: adapters are drawn from them.
    """
    structure = io.BytesIO()
    with arena.open("wb") as file:
        packer = _Packer(structure, file)
        packer.dump((base, torch.get_rng_state().tolist()))
    arena.with_suffix(f".{STRUCTURE}").write_bytes(structure.getvalue())


def mapped(arena: Path) -> torch.nn.Module:
    """Return the model that `write` wrote. Its tensors lie in the pages that all processes share.

    Random numbers go on as they did where it was built.
    """
    whole = torch.from_file(str(arena), shared=False, size=arena.stat().st_size, dtype=torch.uint8)
    with _unpacking(whole):
        base, draws = pickle.loads(arena.with_suffix(f".{STRUCTURE}").read_bytes())
    torch.set_rng_state(torch.tensor(draws, dtype=torch.uint8))
    base.slowstep_arena = whole
    return base


def facts(base: torch.nn.Module) -> dict[str, int | None]:
    """Return the bytes of frozen parameters that are shared and that are not, and those of pages that were written to.

    The last is None where the system does not tell it. {} for a model that was not mapped.
    """
    arena = next((m.slowstep_arena for m in base.modules() if hasattr(m, "slowstep_arena")), None)
    if arena is None:
        return {}
    begin, end = arena.data_ptr(), arena.data_ptr() + arena.numel()
    frozen = [p for p in base.parameters() if not p.requires_grad]
    inside = [p for p in frozen if begin <= p.data_ptr() < end]
    return {
        "frozen_bytes_shared": _size(inside),
        "frozen_bytes_own": _size(frozen) - _size(inside),
        "frozen_bytes_written": _copied(begin, end),
    }


def _size(parameters: list[torch.nn.Parameter]) -> int:
    return sum(p.numel() * p.element_size() for p in parameters)


class _Packer(pickle.Pickler):
    """Pickles a model, and writes the values of its tensors into a file."""

    def __init__(self, structure: io.BytesIO, arena: io.BufferedWriter):
        super().__init__(structure, pickle.HIGHEST_PROTOCOL)
        self.arena, self.size = arena, 0
        self._places: dict[tuple[Any, ...], int] = {}
        """The place of each tensor. Tied weights are one tensor, and stay tied."""
        self._kept: list[torch.Tensor] = []
        """The tensors so far: none may be freed, or another could take its address."""

    def reducer_override(self, tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
            return NotImplemented
        plain = tensor.detach().as_subclass(torch.Tensor)
        key = (plain.data_ptr(), plain.shape, plain.stride(), plain.dtype)
        if key not in self._places:
            self._kept.append(plain)
            self._places[key] = self._written(plain.contiguous().cpu())
        kind = type(tensor)
        state = None if kind is torch.Tensor else vars(tensor).copy()
        about = (kind, self._places[key], tuple(plain.shape), plain.dtype, tensor.requires_grad)
        return _tensor, about, state, None, None, _set_state

    def _written(self, dense: torch.Tensor) -> int:
        place = self.size
        data = dense.reshape(-1).view(torch.uint8).numpy()
        self.arena.write(data.data)
        padding = -len(data) % ALIGN
        self.arena.write(bytes(padding))
        self.size += len(data) + padding
        return place


_arena: torch.Tensor | None = None
"""The arena of the model that is being unpickled: pickle calls `_tensor` with what was pickled, and nothing else."""


@contextlib.contextmanager
def _unpacking(arena: torch.Tensor) -> Iterator[None]:
    global _arena
    _arena = arena
    try:
        yield
    finally:
        _arena = None


def _tensor(
    kind: type[torch.Tensor], place: int, shape: tuple[int, ...], dtype: torch.dtype, requires_grad: bool
) -> torch.Tensor:
    """Return a view of the arena as a tensor of its own class."""
    size = torch.Size(shape).numel() * dtype.itemsize
    values = _arena[place : place + size].view(dtype).view(shape) if size else torch.empty(shape, dtype=dtype)
    if kind is torch.Tensor:
        return values.requires_grad_(requires_grad)
    return torch.Tensor._make_subclass(kind, values, requires_grad)


def _set_state(tensor: torch.Tensor, state: dict[str, Any]) -> None:
    vars(tensor).update(state)


def _copied(begin: int, end: int) -> int | None:
    """Return the bytes of a private mapping of which this process has copies, since it wrote to them (Linux).

    They lie in memory, or were swapped out. None if that can't be read.
    """
    copied, inside = 0, False
    try:
        with open("/proc/self/smaps", encoding="ascii", errors="replace") as lines:
            for line in lines:
                first = line.split(maxsplit=1)[0]
                if not first.endswith(":"):
                    low, high = (int(edge, 16) for edge in first.split("-"))
                    inside = low < end and high > begin
                elif inside and first in ("Anonymous:", "Swap:"):
                    copied += int(line.split()[1]) * 1024
    except OSError:
        return None
    return copied
