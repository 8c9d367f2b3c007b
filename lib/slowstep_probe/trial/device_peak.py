"""The peak of a device without a known data sheet: matrix products and a large copy, measured for a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

SMALLEST, LARGEST = 64, {"cpu": 2048, "cuda": 8192}
"""Sides of the square matrices, the largest by device. Launching a kernel takes no part of the largest one's time; what
is emulated may be fastest where the matrices stay in a cache."""

COPY_BYTES = 256 * 2**20
SECONDS = 0.5
TRIES = 3


def measure(connection: Wire, dtype: str) -> None:
    """Answer [TFLOP/s, GB/s, device, threads] over `connection`; no threads are told of a device.

    This runs in a process of its own, as a trial does.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    source = torch.empty(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)

    def once(act: Callable[[], Any]) -> float:
        began = time.perf_counter()
        act()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def best(act: Callable[[], Any]) -> float:
        fastest, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            fastest = min(fastest, once(act))
        return fastest

    def products(side: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = torch.randn(side, side, device=device).to(kind)
        return lambda: a @ a, lambda: a @ a.T  # what is emulated may be slow in one of the layouts

    side, found = SMALLEST, []
    while True:
        took = {act: min(once(act) for _ in range(TRIES)) for act in products(side)}
        found += [(2 * side**3 / seconds, side, act) for act, seconds in took.items()]
        if side >= LARGEST[device] or 8 * max(took.values()) > SECONDS:  # it may be known by emulation alone
            break
        side *= 2
    rate, side, act = max(found, key=lambda one: one[0])
    tflops = max(rate, 2 * side**3 / best(act)) / 1e12
    threads = torch.get_num_threads() if device == "cpu" else None
    bandwidth = 2 * COPY_BYTES / best(lambda: target.copy_(source)) / 1e9
    connection.send(encoded(Answer(value=[tflops, bandwidth, device, threads])))
