"""What the driver of the devices (NVML) tells while a block is measured, and whether the block counts.

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
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pynvml

from slowstep_probe.measured import Telemetry

READING_SECONDS = 0.25
"""Seconds between two readings. One takes about a millisecond of a core."""

INTERRUPTING_REASONS = {
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "heat",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "heat, by the hardware",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
}
"""The reasons that interrupt a block."""

ORDINARY_REASONS = {pynvml.nvmlClocksThrottleReasonSwPowerCap: "software power cap"}
"""The reasons that are written down, and are no interruption."""

INTERRUPTING_PERCENT = 5
"""The per cent of the device's processors from which on another process interrupts a block."""

UUID_PREFIXES = ("GPU-", "MIG-")
"""What NVML writes before the UUID of a whole device, and of a part of one."""


@dataclass
class WatchedBlock:
    """A block that is being watched. `telemetry` and `interrupted` are known when it is over."""

    telemetry: Telemetry | None = None
    interrupted: str | None = None


@dataclass
class DeviceSample:
    """One device while a block is measured."""

    device: Any
    clocks: list[float] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.since = datetime.now(UTC).timestamp()  # NVML dates what it tells of processes
        self.energy = _told(pynvml.nvmlDeviceGetTotalEnergyConsumption, self.device)
        self.began = time.perf_counter()

    def read(self) -> None:
        """Read clock, temperature and reasons once."""
        _keep(self.clocks, _told(pynvml.nvmlDeviceGetClockInfo, self.device, pynvml.NVML_CLOCK_SM))
        _keep(self.temperatures, _told(pynvml.nvmlDeviceGetTemperature, self.device, pynvml.NVML_TEMPERATURE_GPU))
        bits = _told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.device) or 0
        self.reasons |= {name for bit, name in (INTERRUPTING_REASONS | ORDINARY_REASONS).items() if bits & bit}

    def over(self, own: Collection[int]) -> tuple[Telemetry, str | None]:
        """Return what was told of the block that has ended, and what interrupted it."""
        spent = _told(pynvml.nvmlDeviceGetTotalEnergyConsumption, self.device)
        seconds = time.perf_counter() - self.began
        known = self.energy is not None and spent is not None and seconds > 0
        others = _others(self.device, own)
        telemetry = Telemetry(
            watts=(spent - self.energy) / 1e3 / seconds if known else None,
            sm_mhz=statistics.median(self.clocks) if self.clocks else None,
            celsius=max(self.temperatures, default=None),
            throttled=sorted(self.reasons),
            others=None if others is None else len(others),
        )
        return telemetry, self._interrupted(others or frozenset())

    def _interrupted(self, others: Collection[int]) -> str | None:
        held = sorted(self.reasons & set(INTERRUPTING_REASONS.values()))
        if held:
            return f"the device's clock was held down ({', '.join(held)})"
        used = _used(self.device, others, self.since) if others else 0
        if used is None:
            return f"{len(others)} other processes held the device"
        return f"other processes used {used} % of the device" if used >= INTERRUPTING_PERCENT else None


@contextlib.contextmanager
def watched(own: Callable[[], Collection[int]], devices: Sequence[str]) -> Iterator[WatchedBlock]:
    """Watch devices, named by their UUIDs, while the body runs. `own` returns the numbers of the trials' processes.

    Numbers would mean other devices here than in a trial, whose program may hide some, and CUDA's order is not NVML's.
    """
    found = [device for device in map(known, devices) if device is not None]
    seen, readings = WatchedBlock(), [DeviceSample(device) for device in found]
    if not readings:
        yield seen
        return
    over = threading.Event()
    reader = threading.Thread(target=_read, args=(readings, over), daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()
    told = [reading.over(own()) for reading in readings]
    seen.telemetry = together([telemetry for telemetry, _ in told])
    seen.interrupted = next((why for _, why in told if why), None)


def together(devices: Sequence[Telemetry]) -> Telemetry:
    """Return what is told of several devices: the power of all, the slowest clock, and the highest temperature.

    A figure that the driver does not tell of one of them is not known of all.
    """

    def of_all(name: str, join: Callable[[list[Any]], Any]) -> Any:
        values = [getattr(one, name) for one in devices]
        return None if None in values else join(values)

    return Telemetry(
        watts=of_all("watts", sum),
        sm_mhz=of_all("sm_mhz", min),
        celsius=of_all("celsius", max),
        throttled=sorted({reason for one in devices for reason in one.throttled}),
        others=of_all("others", sum),
    )


@functools.cache
def known(uuid: str) -> Any:
    """Return NVML's handle of a device; None without NVML, or for a device of another node."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    handles = (_told(pynvml.nvmlDeviceGetHandleByUUID, kind + uuid) for kind in UUID_PREFIXES)
    return next((handle for handle in handles if handle is not None), None)


def _read(readings: Sequence[DeviceSample], over: threading.Event) -> None:
    """Read all devices again and again until it is over."""
    while True:
        last = over.wait(READING_SECONDS)
        if last and all(reading.clocks for reading in readings):  # the block has ended, and so has its load
            return
        for reading in readings:
            reading.read()
        if last:
            return


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
