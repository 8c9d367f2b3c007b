"""What the device's driver (NVML) tells while a block is measured, and whether the block counts.

The opinions here, and why:

- A block counts as interrupted if heat or a power brake held the clock down, or if another process used the device: the
  next block may meet neither. The ordinary limit of power (`software power cap`) is a property of the card. It holds in
  most blocks of a busy device, so it is written down and interrupts nothing.
- Power is the difference of the driver's energy counter, since single readings of power miss short steps.
- Clocks and reasons are read again and again during the block. A reading before or after it shows an idle device.
- Within a container the driver may number processes as the host does. Where none of the trials is among the processes
  that it lists, others can't be told from the trials, and nothing is said of them.

Without NVML, or without a device, nothing is done.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pynvml

from slowstep_probe.measured import Telemetry

EVERY = 0.25
"""Seconds between two readings. One takes about a millisecond of a core."""

HELD_DOWN = {
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "heat",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "heat, by the hardware",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
}
"""The reasons that interrupt a block."""

ORDINARY = {pynvml.nvmlClocksThrottleReasonSwPowerCap: "software power cap"}
"""The reasons that are written down, and are no interruption."""

USED = 5
"""The per cent of the device's processors from which on another process interrupts a block."""


@dataclass
class Watched:
    """A block that is being watched. `telemetry` and `interrupted` are known when it is over."""

    telemetry: Telemetry | None = None
    interrupted: str | None = None
    clocks: list[float] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)


@contextlib.contextmanager
def watched(own: Callable[[], Collection[int]]) -> Iterator[Watched]:
    """Watch the device while the body runs. `own` returns the numbers of the trials' processes."""
    seen, device = Watched(), the_device()
    if device is None:
        yield seen
        return
    since = datetime.now(UTC).timestamp()  # NVML dates what it tells of processes
    began, over = time.perf_counter(), threading.Event()
    energy = _told(pynvml.nvmlDeviceGetTotalEnergyConsumption, device)
    reader = threading.Thread(target=_read, args=(device, seen, over), daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()
    spent = _told(pynvml.nvmlDeviceGetTotalEnergyConsumption, device)
    seconds = time.perf_counter() - began
    others = _others(device, own())
    seen.telemetry = Telemetry(
        watts=(spent - energy) / 1e3 / seconds if energy is not None and spent is not None and seconds > 0 else None,
        sm_mhz=statistics.median(seen.clocks) if seen.clocks else None,
        celsius=max(seen.temperatures, default=None),
        throttled=sorted(seen.reasons),
        others=None if others is None else len(others),
    )
    seen.interrupted = _interrupted(seen, device, others or frozenset(), since)


@functools.cache
def the_device() -> Any:
    """Return NVML's handle of the device that trials use; None without NVML or without a device."""
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if name in ("", "-1"):
        return None
    try:
        pynvml.nvmlInit()
        if name.isdigit():
            return pynvml.nvmlDeviceGetHandleByIndex(int(name))
        return pynvml.nvmlDeviceGetHandleByUUID(name)
    except pynvml.NVMLError:
        return None


def _read(device: Any, seen: Watched, over: threading.Event) -> None:
    """Read clocks, temperature and reasons until it is over."""
    while True:
        last = over.wait(EVERY)
        if last and seen.clocks:  # the block has ended, and so has its load
            return
        _keep(seen.clocks, _told(pynvml.nvmlDeviceGetClockInfo, device, pynvml.NVML_CLOCK_SM))
        _keep(seen.temperatures, _told(pynvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU))
        bits = _told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, device) or 0
        seen.reasons |= {name for bit, name in (HELD_DOWN | ORDINARY).items() if bits & bit}
        if last:
            return


def _interrupted(seen: Watched, device: Any, others: Collection[int], since: float) -> str | None:
    held = sorted(seen.reasons & set(HELD_DOWN.values()))
    if held:
        return f"the device's clock was held down ({', '.join(held)})"
    used = _used(device, others, since) if others else 0
    if used is None:
        return f"{len(others)} other processes held the device"
    return f"other processes used {used} % of the device" if used >= USED else None


def _others(device: Any, own: Collection[int]) -> frozenset[int] | None:
    """Return the processes on the device beside `own`; None where they can't be told from each other."""
    listed = _told(pynvml.nvmlDeviceGetComputeRunningProcesses, device)
    pids = frozenset(process.pid for process in listed or ())
    return pids - set(own) if pids & set(own) else None


def _used(device: Any, pids: Collection[int], since: float) -> int | None:
    """Return the most, in per cent, that one of these processes used of the device since then; None if not told."""
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(device, int(since * 1e6))
    except pynvml.NVMLError as error:
        return 0 if error.value == pynvml.NVML_ERROR_NOT_FOUND else None  # nobody used it since
    return max((sample.smUtil for sample in samples if sample.pid in pids), default=0)


def _told(ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the driver tells, or None if it does not."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None


def _keep(values: list[float], value: float | None) -> None:
    if value is not None:
        values.append(float(value))
