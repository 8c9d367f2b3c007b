"""A few steps of a trial under torch.profiler: which operators take the time, and how long the device stands idle.

The profiler slows what it looks at, so a profiled trial is one of its own and never judged.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from slowstep.records import Operator, ProfileRecord

TOP = 20
"""Operators that are kept."""

PAUSE = 1e-3
"""Seconds in which no operator runs that are no mere way from one operator to the next; Python takes some 50 us."""

ANNOTATION = "slowstep phase: "
"""What the name of a phase's stretch in a trace begins with."""

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
            by_phase=self._by_phase(),
            pauses={} if self.on_device else self._pauses(),
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
            if not e.is_user_annotation
            and not e.key.startswith(ANNOTATION)
            and (not self.on_device or e.device_type == DeviceType.CUDA)
        ]
        return sorted(found, key=lambda o: -o.seconds)[:TOP]

    def _by_phase(self) -> dict[str, list[Operator]]:
        """Operators of each phase by their own time, on a device by that of the kernels they started."""
        phases, sums = self._phases(), defaultdict[tuple[str, str], list[float]](lambda: [0, 0.0])
        for e in self._events(DeviceType.CPU):
            if not e.name.startswith("ProfilerStep"):
                one = sums[phases(e.time_range.start), e.name]
                one[0] += 1
                one[1] += 1e-6 * (e.self_device_time_total if self.on_device else e.self_cpu_time_total)
        found: dict[str, list[Operator]] = defaultdict(list)
        for (phase, name), (calls, seconds) in sorted(sums.items(), key=lambda item: -item[1][1]):
            if len(found[phase]) < TOP and seconds > 0:
                found[phase].append(Operator(name=name, calls=int(calls), seconds=seconds))
        return dict(found)

    def _pauses(self) -> dict[str, float]:
        """Seconds a phase in long stretches in which no operator runs."""
        phases, found = self._phases(), Counter[str]()
        spans = [(e.time_range.start, e.time_range.end) for e in self._events(DeviceType.CPU)]
        for _, begin, end in (s for s in self._stretches() if s[0] == "all"):
            starts, ends = _union([(begin, begin), *spans, (end, end)])
            for a, b in zip(ends[:-1], starts[1:], strict=True):
                if 1e-6 * (b - a) > PAUSE:
                    found[phases((a + b) / 2)] += 1e-6 * float(b - a)
        return dict(found)

    def _stretches(self) -> list[tuple[str, float, float]]:
        """The phases as they were entered and left: name, start and end in us; and all of it, as 'all'."""
        found = [
            (e.name.removeprefix(ANNOTATION), e.time_range.start, e.time_range.end)
            for e in self.profiler.events()
            if e.name.startswith(ANNOTATION) and e.device_type == DeviceType.CPU
        ]
        if found:
            found.append(("all", min(s for _, s, _ in found), max(e for _, _, e in found)))
        return sorted(found, key=lambda s: s[1])

    def _phases(self) -> Callable[[float], str]:
        """The phase at a moment of the profile."""
        entered = [s for s in self._stretches() if s[0] != "all"]
        starts = [s[1] for s in entered]

        def at(moment: float) -> str:
            i = bisect.bisect_right(starts, moment) - 1
            return entered[i][0] if i >= 0 and moment <= entered[i][2] else "other"

        return at

    def _busy(self) -> tuple[float, np.ndarray]:
        """Seconds in which a kernel runs (or, without a device, an operator of any thread), and the gaps between."""
        kind = DeviceType.CUDA if self.on_device else DeviceType.CPU
        starts, ends = _union((e.time_range.start, e.time_range.end) for e in self._events(kind))
        gaps = 1e-6 * (starts[1:] - ends[:-1])
        return 1e-6 * float((ends - starts).sum()), gaps[gaps > GAP]

    def _events(self, kind: DeviceType) -> Iterable[Any]:
        return (
            e
            for e in self.profiler.events()
            if e.device_type == kind and not e.is_user_annotation and not e.name.startswith(ANNOTATION)
        )


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
