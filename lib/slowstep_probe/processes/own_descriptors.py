"""The descriptors over which the kit hears of a program. A program may close all that it has not opened itself.

That is what daemons do (`os.closerange(3, 1024)`), and what a loop over `os.close` does. These stay open all the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from typing import Any

from slowstep_probe.patches import Patches


def keep_open(descriptors: Collection[int], patches: Patches) -> None:
    """Have these descriptors seem closed to the program in this process. What it forks may close its copies."""
    process = os.getpid()

    def close(original: Callable[[int], Any], descriptor: int) -> None:
        if descriptor in descriptors and os.getpid() == process:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        original(descriptor)

    def close_range(original: Callable[[int, int], Any], low: int, high: int) -> None:
        kept = sorted(each for each in descriptors if low <= each < high) if os.getpid() == process else []
        for each in kept:
            original(low, each)
            low = each + 1
        original(low, high)

    patches.around(os, "close", close)
    patches.around(os, "closerange", close_range)
