"""An arena's bytes in the memory of a device: one process holds them, and the others map them (CUDA's IPC).

What each trial copied to the device would stand there once for each; what they map stands there once. Pages of a file
are private to who writes to them, and this memory is not: `written` tells whether anybody has written to it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.multiprocessing.reductions import reduce_tensor

HANDLE = ".handle"
"""The ending of the file beside an arena by which others map what a process holds."""


@dataclass(frozen=True)
class Mapped:
    """The bytes of an arena that this process has mapped on a device."""

    values: torch.Tensor
    """The bytes, of type uint8."""
    checksum: int
    """The sum of the bytes when they were copied to the device."""

    @property
    def edges(self) -> tuple[int, int]:
        """The first address, and the one after the last."""
        return self.values.data_ptr(), self.values.data_ptr() + self.values.numel()


_mapped: dict[tuple[Path, str], Mapped | None] = {}
"""What this process has mapped, by arena and device; None for what it copies.

It lives as long as the process, for its tensors do not own it.
"""


def hold(arena: Path, device: str = "cuda") -> torch.Tensor:
    """Copy an arena to a device and let others map it. They may do so while the tensor that is returned is kept."""
    values = torch.from_file(str(arena), size=arena.stat().st_size, dtype=torch.uint8).to(device)
    said = pickle.dumps((reduce_tensor(values), checksum(values)))  # the sum waits for the copy, too
    unfinished = arena.with_suffix(".unfinished")
    unfinished.write_bytes(said)
    os.replace(unfinished, handle_of(arena))
    return values


def mapped(arena: Path, device: str) -> Mapped | None:
    """Return an arena's bytes on a device; None if nobody holds them there, or if they can't be mapped."""
    key = arena, device
    if key not in _mapped:
        _mapped[key] = None
        with contextlib.suppress(Exception):  # a driver without IPC, a container: who can't map them copies them
            (rebuild, about), known = pickle.loads(handle_of(arena).read_bytes())
            values = rebuild(*about)
            if str(values.device) == device:
                _mapped[key] = Mapped(values, known)
    return _mapped[key]


def part(whole: Mapped, place: int, count: int) -> torch.Tensor:
    """Return `count` bytes from `place` on, as a tensor whose storage holds no others."""
    device = whole.values.device
    storage = torch._C._construct_storage_from_data_pointer(whole.values.data_ptr() + place, device, count)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (count,))


def checksum(values: torch.Tensor) -> int:
    """Return the sum of bytes as whole numbers of 64 bits, modulo 2^64. Their number is a multiple of eight."""
    return int(values.view(torch.int64).sum())


def ranges() -> list[tuple[int, int]]:
    """Return the first address of each arena that is mapped on a device, and the one after its last."""
    return [one.edges for one in _here()]


def size() -> int:
    """Return the bytes on devices that this process has mapped. PyTorch's allocator does not know of them."""
    return sum(one.values.numel() for one in _here())


def written() -> int:
    """Return the bytes of the mapped arenas to which somebody has written, this process or another."""
    return sum(one.values.numel() for one in _here() if checksum(one.values) != one.checksum)


def _here() -> list[Mapped]:
    return [one for one in _mapped.values() if one]


def handle_of(arena: Path) -> Path:
    """Return the path of the file by which others map an arena on a device."""
    return arena.with_suffix(HANDLE)
