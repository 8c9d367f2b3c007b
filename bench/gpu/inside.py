"""What is measured inside a process with torch: the probe's clock, its cost, and what it makes the host wait for.

The functions run in processes of their own (`run_in_subprocess`), so that the caller holds no device. They train a
plain loop: layers of one width, as many rows as make a step of the length that is asked for.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from slowstep.judgement.intervals import paired
from slowstep_probe.probe.clock import CudaClock, HostClock
from slowstep_probe.probe.probe import Probe
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

LAYERS, NARROW = 16, 32
"""Layers of the loop, and the width of what it loads, which is small so that copies take no part of a step."""

CALIBRATED = 5
"""Steps whose time says how many rows make a step of the wanted length."""

STEPS = 10
"""Steps of a block."""

BLOCK_SECONDS = 0.4
"""The most seconds of a block; long steps make blocks of fewer of them."""


class Loop:
    """Layers trained by a loop as in PyTorch's tutorials."""

    def __init__(self, width: int, rows: int):
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        layers = [m for _ in range(LAYERS) for m in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(torch.nn.Linear(NARROW, width), *layers, torch.nn.Linear(width, 1))
        self.model.to(self.device, torch.bfloat16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.rows, self.clock = rows, CudaClock() if self.device == "cuda" else HostClock()

    def batches(self, steps: int) -> DataLoader:
        """Return a loader of so many batches."""
        data = torch.randn(steps, self.rows, NARROW, dtype=torch.bfloat16)
        return DataLoader(TensorDataset(data), batch_size=None)  # an item is a batch, so that nothing is collated

    def train(self, loader: Iterator[Any] | DataLoader) -> None:
        """Train on the batches that are left in a loader."""
        for (rows,) in loader:
            self.optimizer.zero_grad()
            self.model(rows.to(self.device)).float().square().mean().backward()
            self.optimizer.step()

    def seconds(self, steps: int) -> float:
        """Train so many steps and return what they took; one step before them is not timed."""
        batches = iter(self.batches(steps + 1))
        self.train([next(batches)])
        self.clock.synchronize()
        began = time.perf_counter()
        self.train(batches)
        self.clock.synchronize()
        return time.perf_counter() - began


def loop_of(width: int, step_seconds: float) -> Loop:
    """Return a loop whose steps take about so long."""
    rows = max(8, width // 4)
    for _ in range(2):  # few rows are bound by launching, and say little of many
        trial = Loop(width, rows)
        trial.seconds(CALIBRATED)
        took = trial.seconds(CALIBRATED) / CALIBRATED
        rows = max(1, round(min(64.0, step_seconds / took) * rows))
        del trial
    return Loop(width, rows)


def clock(wire: Wire, width: int, step_seconds: float) -> None:
    """Answer what the probe's clock and the host's say of the same steps, and what the phases sum to."""
    loop = loop_of(width, step_seconds)
    loop.seconds(STEPS)
    probe = Probe(loop.clock)
    batches = loop.batches(STEPS)
    with probe.attached():
        loop.train(loop.batches(2))
        loop.clock.synchronize()
        probe.open()
        began = time.perf_counter()
        loop.train(batches)
        loop.clock.synchronize()
        host = time.perf_counter() - began
        block, _ = probe.close()
    _answer(
        wire,
        {
            "device": loop.device,
            "clock": type(loop.clock).__name__,
            "rows": loop.rows,
            "host_seconds": host,
            "block_seconds": block.seconds,
            "off": block.seconds / host - 1,
            "phases": block.phases,
            "sum_off": sum(block.phases.values()) / block.seconds - 1,
            "steps": block.steps,
        },
    )


def cost(wire: Wire, width: int, step_seconds: float, pairs: int) -> None:
    """Answer the probe's cost as a share of a step: blocks with the probe and without, in random order."""
    loop = loop_of(width, step_seconds)
    steps = max(2, min(STEPS, round(BLOCK_SECONDS / step_seconds)))
    order, ratios, bare = random.Random(0), [], []
    for _ in range(pairs):
        first = order.random() < 0.5
        took = {attached: _block(loop, steps, attached) for attached in (first, not first)}
        ratios.append(math.log(took[True] / took[False]))
        bare.append(took[False] / steps)
    effect = paired(ratios, range(len(ratios)), 0.05)
    _answer(
        wire,
        {
            "device": loop.device,
            "rows": loop.rows,
            "pairs": effect.n,
            "bare_step_seconds": sum(bare) / len(bare),
            "cost": effect.ratio - 1,
            "low": effect.low - 1,
            "high": effect.high - 1,
            "log_ratios": ratios,
        },
    )


def synchronisations(wire: Wire, width: int, step_seconds: float) -> None:
    """Answer how often the host waited for the device in some steps, with the probe and without.

    PyTorch's sync debug mode says it. On a CPU nobody waits, and both are 0.
    """
    loop = loop_of(width, step_seconds)
    loop.seconds(STEPS)
    found: dict[str, list[str]] = {}
    for name, attached in (("bare", False), ("probed", True)):
        probe, batches = Probe(loop.clock), loop.batches(STEPS)
        with probe.attached() if attached else contextlib.nullcontext():
            loop.train(loop.batches(2))  # the outermost module is found in the first step
            if attached:
                probe.open()
            found[name] = _waits(loop, batches)
    waits = {name: len(each) for name, each in found.items()}
    _answer(wire, waits | {"device": loop.device, "steps": STEPS, "texts": sorted(set(found["probed"]))[:5]})


def _waits(loop: Loop, batches: DataLoader) -> list[str]:
    """Train, and return a text for each time that the host waited for the device."""
    on_device = loop.device == "cuda"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if on_device:
            torch.set_warn_always(True)
            torch.cuda.set_sync_debug_mode("warn")
        try:
            loop.train(batches)
        finally:
            if on_device:
                torch.cuda.set_sync_debug_mode("default")
                torch.set_warn_always(False)
    return [str(one.message)[:200] for one in told if "synchroniz" in str(one.message)]


def _block(loop: Loop, steps: int, attached: bool) -> float:
    if not attached:
        return loop.seconds(steps)
    probe = Probe(loop.clock)
    with probe.attached():
        probe.open()
        return loop.seconds(steps)


def _answer(wire: Wire, found: dict[str, Any]) -> None:
    wire.send(encoded(Answer(value=found)))
