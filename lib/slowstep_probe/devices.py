"""The devices that this process trains on, as CUDA tells of them. Nothing here initialises one."""

from __future__ import annotations

import os

import torch

UNCOUNTED = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING")
"""The variables by which PyTorch asks the driver for each tensor, whatever their value: then nothing is counted."""


def used() -> list[int]:
    """Return the numbers of the devices on which this process holds memory, as PyTorch's allocator tells it.

    Another allocator (RMM) may tell nothing, and so may PyTorch's own (`UNCOUNTED`): then it is the current one.
    """
    if not torch.cuda.is_initialized():
        return []
    try:
        found = [number for number in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(number)]
        is_told = bool(found) or not any(name in os.environ for name in UNCOUNTED)
    except RuntimeError:
        found, is_told = [], False
    return found if is_told else [torch.cuda.current_device()]


def fullest() -> int | None:
    """Return the number of the device of which this process held the most memory; None if it holds none of any."""
    numbers = used()
    return max(numbers, key=torch.cuda.max_memory_reserved) if len(numbers) > 1 else next(iter(numbers), None)


def synchronize() -> None:
    """Wait until the devices have ended what this process has launched."""
    for number in used():
        torch.cuda.synchronize(number)


def identities() -> list[str]:
    """Return the UUIDs of the used devices, as the driver tells them. A number means another device to each process."""
    return [str(torch.cuda.get_device_properties(number).uuid) for number in used()]


def is_capturing() -> bool:
    """Return whether what is launched now is not run but recorded, to be run later (CUDA graphs).

    Nothing may be marked or waited for meanwhile: the mark would become a part of what is recorded.
    """
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
