"""Objects whose tensors lie in one file, the arena. Every process that reads it shares its pages.

A process writes the arena, and beside it pickles all but the values of the tensors. A process that reads it maps the
arena privately: one that writes to a page gets a copy of its own, so no process can disturb another, and the kernel
tells how much was copied. A tensor that lay on a device is copied to it, or mapped where a process holds the arena on
that device (`slowstep_probe.weights.on_device`).
"""

from __future__ import annotations

import io
import mmap
import pickle
import shutil
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from slowstep_probe.looks import with_size
from slowstep_probe.weights import on_device

ALIGN = 64
"""The bytes of which each tensor's place in the arena is a multiple, as PyTorch's allocator has it."""

ROOM = 3
"""A model is written where the disk has room for so many of its size."""

STRUCTURE = "structure"
"""The ending of the file beside the arena. It is written last, so where it is, the arena is whole."""

_mapped: list[weakref.ref[mmap.mmap]] = []
"""The arenas that this process has mapped."""


def write(what: Any, arena: Path, given: Sequence[Any] = ()) -> None:
    """Write an object to `arena` and the file beside it. Objects in `given` are left out: the reader has its own.

    The file beside it is that of `written_of`; whoever renames it to `structure_of` says that others may read.
    """
    structure = io.BytesIO()
    with arena.open("wb") as file:
        _Packer(structure, file, given).dump(what)
    written_of(arena).write_bytes(structure.getvalue())


def read(arena: Path, given: Sequence[Any] = (), pages: mmap.mmap | None = None, structure: Path | None = None) -> Any:
    """Return the object that `write` wrote, with the reader's own `given` objects where the writer's were.

    Its tensors on the CPU lie in pages that all readers share, or in `pages` that `mapped` has returned. Each has a
    storage of its own, so that saving or copying one takes no other along.
    """
    pages = pages or mapped(arena)
    return _Unpacker(io.BytesIO((structure or structure_of(arena)).read_bytes()), arena, pages, given).load()


def mapped(arena: Path) -> mmap.mmap:
    """Return the pages of an arena, which this process may write to without changing the file."""
    with arena.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    _mapped.append(weakref.ref(pages))
    return pages


def _ranges() -> list[tuple[int, int]]:
    """Return the first address of each arena that is still mapped, and the one after its last."""
    alive = [pages for one in _mapped if (pages := one()) is not None]
    return [(at := torch.frombuffer(pages, dtype=torch.uint8).data_ptr(), at + len(pages)) for pages in alive]


def tensors_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers of a model."""
    return [*model.parameters(), *model.buffers()]


def fits(model: torch.nn.Module, folder: Path) -> bool:
    """Return whether the disk of a folder has room for a model, and is far from full with it."""
    size = sum(t.numel() * t.element_size() for t in tensors_of(model))
    return shutil.disk_usage(folder).free > ROOM * size


def structure_of(arena: Path) -> Path:
    """Return the path of the file beside an arena."""
    return arena.with_suffix(f".{STRUCTURE}")


def written_of(arena: Path) -> Path:
    """Return the path of the file beside an arena until others may read it."""
    return arena.with_suffix(".written")


def draws() -> list[torch.Tensor]:
    """Return the states of the generators of random numbers: the CPU's, and the current device's if it is in use."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [])]


def go_on_from(states: Sequence[torch.Tensor]) -> None:
    """Let random numbers go on from what `draws` returned."""
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1])


def facts(models: Iterable[torch.nn.Module]) -> dict[str, int | None]:
    """Return the bytes of frozen parameters that are shared, of those that are not, and of those that were written to.

    Pages of parameters that are trained are not counted. The bytes that were written to are None where the system does
    not tell them. Those of them on a device are told by themselves, too: its memory is one for all processes, so that
    one of them reads what another has written. {} is returned where nothing was mapped.
    """
    if not _mapped:
        return {}
    pages = _ranges()
    ranges = [*pages, *on_device.ranges()]
    every = {p.data_ptr(): p for model in models for p in model.parameters()}
    within = {at for at in every if any(begin <= at < end for begin, end in ranges)}
    shared = [every[at] for at in within if not every[at].requires_grad]
    trained = sum(_size([every[at]]) + 2 * mmap.PAGESIZE for at in within if every[at].requires_grad)
    copied = [_copied(begin, end) for begin, end in pages]
    there = on_device.written()
    known = None if None in copied else max(0, sum(filter(None, copied)) - trained) + there
    return {
        "frozen_bytes_shared": _size(shared),
        "frozen_bytes_own": _size(p for p in with_size(every.values()) if not p.requires_grad) - _size(shared),
        "frozen_bytes_written": known,
        "frozen_bytes_written_on_device": there,
    }


def _size(parameters: Iterable[torch.nn.Parameter]) -> int:
    return sum(p.numel() * p.element_size() for p in parameters)


class _Packer(pickle.Pickler):
    """Pickles an object, and writes the values of its tensors into a file."""

    def __init__(self, structure: io.BytesIO, arena: io.BufferedWriter, given: Sequence[Any]):
        super().__init__(structure, pickle.HIGHEST_PROTOCOL)
        self._arena, self._size = arena, 0
        self._given = {id(one): number for number, one in enumerate(given)}
        self._places: dict[tuple[Any, ...], int] = {}
        """The place of each tensor. Tied weights are one tensor, and stay tied."""
        self._kept: list[torch.Tensor] = []
        """The tensors so far: none may be freed, or another could take its address."""
        self._written(torch.zeros(ALIGN, dtype=torch.uint8))  # an empty file can't be mapped

    def persistent_id(self, one: Any) -> str | int | None:
        return "arena" if one is self._arena else self._given.get(id(one))

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
        place = (self._places[key], tuple(plain.shape), plain.dtype, str(plain.device))
        return _tensor, (self._arena, kind, *place, tensor.requires_grad), state, None, None, _set_state

    def _written(self, dense: torch.Tensor) -> int:
        place = self._size
        data = dense.reshape(-1).view(torch.uint8).numpy()
        self._arena.write(data.data)
        padding = -len(data) % ALIGN
        self._arena.write(bytes(padding))
        self._size += len(data) + padding
        return place


class _Unpacker(pickle.Unpickler):
    """Unpickles what was packed over a mapped arena."""

    def __init__(self, structure: io.BytesIO, arena: Path, pages: mmap.mmap, given: Sequence[Any]):
        super().__init__(structure)
        self._arena, self._pages, self._given = arena, pages, given
        self._parts: dict[tuple[int, torch.dtype, str], torch.Tensor] = {}

    def persistent_load(self, number: str | int) -> Any:
        return self if number == "arena" else self._given[int(number)]

    def part(self, place: int, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
        """Return a part of the arena, on its device: what is asked for twice is one."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype, device=device)
        if (place, dtype, device) not in self._parts:
            held = on_device.mapped(self._arena, device)
            if held:
                values = on_device.part(held, place, size)
            else:
                values = torch.frombuffer(self._pages, dtype=torch.uint8, count=size, offset=place).to(device)
            self._parts[place, dtype, device] = values.view(dtype)
        return self._parts[place, dtype, device].view(shape)


def _tensor(
    arena: _Unpacker,
    kind: type[torch.Tensor],
    place: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    requires_grad: bool,
) -> torch.Tensor:
    """Return a part of the arena as a tensor of its own class."""
    values = arena.part(place, shape, dtype, device)
    if kind is torch.Tensor:
        return values.detach().requires_grad_(requires_grad)
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
