"""The peak of a device without a known data sheet: matrix products and a large copy, measured for a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

SMALLEST, LARGEST = 64, {"cpu": 2048, "cuda": 8192}
"""Sides of the square matrices, the largest by device. Launching a kernel takes no part of the largest one's time; what
is emulated may be fastest where the matrices stay in a cache."""

MOST_CALLS = 1000
"""The most calls that are timed together: a device takes in no more than about as many before the host waits for it."""

COPY_BYTES = 256 * 2**20
SECONDS = 0.5
TRIES = 3

TOGETHER = {"cpu": 0.0, "cuda": 0.01}
"""The seconds of calls that are timed together, by device. To launch one and to wait for it takes some 15 us, a good
part of the 0.1 ms of a copy."""


def fastest(act: Callable[[], Any], wait: Callable[[], None], together: float, enough: Callable[[int], bool]) -> float:
    """Return the fewest seconds that a call takes, of tries until there are `enough`.

    Each try makes as many calls as take the seconds `together`, one at least, and waits for all of them at its end.
    """
    calls, tries, found = 1, 0, float("inf")
    while not (tries and enough(tries)):
        began = time.perf_counter()
        for _ in range(calls):
            act()
        wait()
        seconds = (time.perf_counter() - began) / calls
        found, tries = min(found, seconds), tries + 1
        calls = max(calls, min(MOST_CALLS, math.ceil(together / found)))
    return found


def measure(connection: Wire, dtype: str) -> None:
    """Answer [TFLOP/s, GB/s, device, threads] over `connection`; no threads are told of a device.

    This runs in a process of its own, as a trial does.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    source = torch.empty(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def best(act: Callable[[], Any]) -> float:
        end = time.perf_counter() + SECONDS
        return fastest(act, wait, TOGETHER[device], lambda tries: time.perf_counter() >= end)

    def products(side: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = torch.randn(side, side, device=device).to(kind)
        return lambda: a @ a, lambda: a @ a.T  # what is emulated may be slow in one of the layouts

    side, found = SMALLEST, []
    while True:
        acts = products(side)
        took = {act: fastest(act, wait, TOGETHER[device], lambda tries: tries >= TRIES) for act in acts}
        found += [(2 * side**3 / seconds, side, act) for act, seconds in took.items()]
        if side >= LARGEST[device] or 8 * max(took.values()) > SECONDS:  # it may be known by emulation alone
            break
        side *= 2
    rate, side, act = max(found, key=lambda one: one[0])
    tflops = max(rate, 2 * side**3 / best(act)) / 1e12
    threads = torch.get_num_threads() if device == "cpu" else None
    bandwidth = 2 * COPY_BYTES / best(lambda: target.copy_(source)) / 1e9
    connection.send(encoded(Answer(value=[tflops, bandwidth, device, threads])))
