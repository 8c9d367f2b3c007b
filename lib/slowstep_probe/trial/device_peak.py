"""The peak of a device without a known data sheet: a large matmul and a large copy, measured for a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

SIDE = {"cpu": 2048, "cuda": 8192}
"""The side of the square matrices, by device. They are so large that launching a kernel takes no part of the time."""

COPY_BYTES = 256 * 2**20
SECONDS = 0.5


def measure(connection: Wire, dtype: str) -> None:
    """Answer [TFLOP/s, GB/s, device] over `connection`. This runs in a process of its own, as a trial does."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    side = SIDE[device]
    a = torch.randn(side, side, device=device).to(kind)
    source = torch.empty(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)

    def best(act: Callable[[], Any]) -> float:
        fastest, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            began = time.perf_counter()
            act()
            if device == "cuda":
                torch.cuda.synchronize()
            fastest = min(fastest, time.perf_counter() - began)
        return fastest

    tflops = 2 * side**3 / best(lambda: a @ a) / 1e12
    bandwidth = 2 * COPY_BYTES / best(lambda: target.copy_(source)) / 1e9
    connection.send(encoded(Answer(value=[tflops, bandwidth, device])))
