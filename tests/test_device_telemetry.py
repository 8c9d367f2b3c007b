"""What the device's driver tells of a block, and which blocks are measured again for it. The driver is a fake one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from slowstep.measure import device_telemetry
from slowstep.measure.device_telemetry import Watched, watched
from slowstep.records import Block, Work
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.measured import Telemetry

OWN, OTHER = 100, 200


@dataclass
class Driver:
    """A device as NVML tells of it. Its energy counter grows by `joules` between two questions."""

    joules: float = 0.0
    reasons: int = 0
    pids: tuple[int, ...] = (OWN,)
    used: dict[int, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    """Parts of the names of functions that this device does not support."""
    asked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.spent = 0.0

    def answers(self) -> dict[str, Callable[..., Any]]:
        """NVML's functions."""
        return {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetHandleByIndex": lambda index: self,
            "nvmlDeviceGetTotalEnergyConsumption": self._energy,
            "nvmlDeviceGetClockInfo": lambda device, kind: 1980,
            "nvmlDeviceGetTemperature": lambda device, kind: 61,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda device: self.reasons,
            "nvmlDeviceGetComputeRunningProcesses": lambda device: [SimpleNamespace(pid=pid) for pid in self.pids],
            "nvmlDeviceGetProcessUtilization": lambda device, since: [
                SimpleNamespace(pid=pid, smUtil=used) for pid, used in self.used.items()
            ],
        }

    def _energy(self, device: Any) -> float:
        self.spent += 1e3 * self.joules
        return self.spent


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Driver], Watched]]:
    """Watches a block of no length on a device."""

    def refuse(*_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def once(driver: Driver) -> Watched:
        device_telemetry.the_device.cache_clear()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        for name, answer in driver.answers().items():
            silent = any(part in name for part in driver.silent)
            monkeypatch.setattr(pynvml, name, refuse if silent else answer)
        with watched(lambda: {OWN}) as seen:
            pass
        return seen

    yield once
    device_telemetry.the_device.cache_clear()


def test_a_block_alone_on_a_healthy_device_counts(watch: Callable[[Driver], Watched]) -> None:
    """Power is the energy over the time, and the ordinary limit of power is written down without interrupting."""
    seen = watch(Driver(joules=5.0, reasons=pynvml.nvmlClocksThrottleReasonSwPowerCap))

    assert seen.interrupted is None
    assert seen.telemetry.watts > 0
    assert (1980, 61, ["software power cap"], 0) == (
        seen.telemetry.sm_mhz,
        seen.telemetry.celsius,
        seen.telemetry.throttled,
        seen.telemetry.others,
    )


def test_a_block_on_a_hot_device_is_interrupted(watch: Callable[[Driver], Watched]) -> None:
    """Heat holds the clock down now and not in the next block, so the block is measured again."""
    seen = watch(Driver(reasons=pynvml.nvmlClocksThrottleReasonHwThermalSlowdown))

    assert "the device's clock was held down (heat, by the hardware)" == seen.interrupted


@pytest.mark.parametrize(
    ("driver", "interrupted"),
    [
        pytest.param(Driver(pids=(OWN, OTHER), used={OTHER: 40}), "other processes used 40 % of the device", id="busy"),
        pytest.param(Driver(pids=(OWN, OTHER), used={OWN: 90}), None, id="idle"),
        pytest.param(
            Driver(pids=(OWN, OTHER), silent=frozenset({"ProcessUtilization"})),
            "1 other processes held the device",
            id="use is not told",
        ),
        pytest.param(Driver(pids=(7, 8), used={7: 90, 8: 90}), None, id="numbers of another namespace"),
    ],
)
def test_a_shared_device_interrupts_if_it_is_known_to_be_shared(
    driver: Driver, interrupted: str | None, watch: Callable[[Driver], Watched]
) -> None:
    """A process that holds memory and computes nothing slows nobody, and unknown numbers prove nothing."""
    assert interrupted == watch(driver).interrupted


def test_a_device_that_tells_little_leaves_gaps(watch: Callable[[Driver], Watched]) -> None:
    """What a driver does not support is not measured, which is never 0."""
    seen = watch(Driver(silent=frozenset({"DeviceGetTotal", "DeviceGetClock", "Temperature", "Reasons", "Running"})))

    assert Watched(telemetry=Telemetry()) == seen


def test_without_a_driver_nothing_is_told(watch: Callable[[Driver], Watched]) -> None:
    """A machine without NVML measures as it did."""
    assert Watched() == watch(Driver(silent=frozenset({"nvmlInit"})))


def test_records_from_before_the_telemetry_can_be_read() -> None:
    """An old block has no telemetry, and a new one keeps it through JSON."""
    block = Block(steps=1, seconds=1.0, phases={"other": 1.0}, step_seconds=[1.0], work=Work(samples=1))
    old = {name: value for name, value in to_plain(block).items() if name != "telemetry"}
    new = to_plain(block) | {"telemetry": to_plain(Telemetry(watts=300.0))}

    assert block == from_plain(Block, old)
    assert 300.0 == from_plain(Block, new).telemetry.watts
