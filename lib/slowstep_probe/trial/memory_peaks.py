"""The memory peaks of a trial's process."""

from __future__ import annotations

import torch

from slowstep_probe import devices
from slowstep_probe.measured import Memory
from slowstep_probe.processes.memory_watch import most_held_alone
from slowstep_probe.weights import on_device


def memory_peaks() -> Memory:
    """Return the memory peaks of this process so far, on the device that it fills most.

    Those of a device are told by PyTorch's allocator, if it counts. The guard knows the host's with pages of files.
    """
    host = most_held_alone()
    try:
        number = devices.fullest()
        if number is None or not torch.cuda.max_memory_reserved(number):
            return Memory(host=host)
        free, total = torch.cuda.mem_get_info(number)
    except RuntimeError:  # after some device errors nothing more can be asked
        return Memory(host=host)
    mapped = on_device.size()  # it counts as if this process had it alone, as it will in the real job
    return Memory(
        allocated=torch.cuda.max_memory_allocated(number) + mapped,
        reserved=torch.cuda.max_memory_reserved(number) + mapped,
        device=total - free,
        host=host,
        limit=total,
        retries=torch.cuda.memory_stats(number).get("num_alloc_retries"),
    )
