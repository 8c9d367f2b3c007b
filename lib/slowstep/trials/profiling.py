"""A few steps of a trial under torch.profiler: which operators take the time, and how long the device stands idle.

The profiler slows what it looks at, so a profiled trial is one of its own and never judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from slowstep.records import Operator, ProfileRecord

TOP = 20
"""Operators that are kept."""

GAP = 10e-6
"""Seconds that a device stands idle between two kernels before it counts as a gap; a launch takes about 5 us."""


class Profiling:
    """The profiler, from its making to `stop`."""

    def __init__(self, device: str):
        self.on_device = device == "cuda"
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * self.on_device
        self.profiler = profile(activities=activities)
        self.profiler.start()

    def stop(self, steps: int, seconds: float, trace: Path) -> ProfileRecord:
        """What was seen of `steps` steps that took `seconds`; the trace is written for Perfetto."""
        self.profiler.stop()
        trace.parent.mkdir(parents=True, exist_ok=True)
        self.profiler.export_chrome_trace(str(trace))
        busy, gaps = self._busy()
        return ProfileRecord(
            device="cuda" if self.on_device else "cpu",
            steps=steps,
            seconds=seconds,
            operators=self._operators(),
            idle=max(0.0, 1 - busy / seconds),
            gaps_per_step=len(gaps) / steps,
            gap_seconds=float(gaps.sum()) / steps,
            trace=trace.name,
        )

    def _operators(self) -> list[Operator]:
        """By their own time on the device, or on the CPU where there is none."""
        found = [
            Operator(
                name=e.key,
                calls=e.count,
                seconds=1e-6 * (e.self_device_time_total if self.on_device else e.self_cpu_time_total),
            )
            for e in self.profiler.key_averages()
            # an operator's device time is that of its kernels, which have rows of their own
            if not e.is_user_annotation and (not self.on_device or e.device_type == DeviceType.CUDA)
        ]
        return sorted(found, key=lambda o: -o.seconds)[:TOP]

    def _busy(self) -> tuple[float, np.ndarray]:
        """Seconds in which a kernel runs (or, without a device, an operator of any thread), and the gaps between."""
        kind = DeviceType.CUDA if self.on_device else DeviceType.CPU
        starts, ends = _union((e.time_range.start, e.time_range.end) for e in self._events(kind))
        gaps = 1e-6 * (starts[1:] - ends[:-1])
        return 1e-6 * float((ends - starts).sum()), gaps[gaps > GAP]

    def _events(self, kind: DeviceType) -> Iterable[Any]:
        return (e for e in self.profiler.events() if e.device_type == kind and not e.is_user_annotation)


def _union(spans: Iterable[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends, in order, of the stretches that at least one span covers."""
    sorted_spans = np.array(sorted(spans), dtype=float).reshape(-1, 2)
    if not len(sorted_spans):
        return np.zeros(0), np.zeros(0)
    reach = np.maximum.accumulate(sorted_spans[:, 1])
    opens = np.concatenate([[True], sorted_spans[1:, 0] > reach[:-1]])
    last = np.append(np.flatnonzero(opens)[1:] - 1, len(reach) - 1)
    return sorted_spans[opens, 0], reach[last]


def warm_up_profiler() -> None:
    """The first start of a profiler loads its tools, which would be seen as a long first step."""
    with profile(activities=[ProfilerActivity.CPU]):
        torch.ones(1).sum()
