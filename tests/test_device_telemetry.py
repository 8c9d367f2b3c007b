"""What the device's driver tells of a block, and which blocks are measured again for it. The driver is a fake one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from slowstep.environment import machine
from slowstep.measure import device_telemetry
from slowstep.measure.device_telemetry import WatchedBlock, watched
from slowstep.records import Block, Work
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.measured import Telemetry

OWN, OTHER = 100, 200


@dataclass
class Driver:
    """A device as NVML tells of it. Its energy counter grows by `joules` between two questions."""

    joules: float = 0.0
    clock: int = 1980
    reasons: int = 0
    pids: tuple[int, ...] = (OWN,)
    used: dict[int, int] = field(default_factory=dict)
    kind: str = "GPU"
    silent: frozenset[str] = frozenset()
    """Parts of the names of functions that this device does not support."""
    asked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.spent = 0.0

    def answers(self) -> dict[str, Callable[[Any], Any]]:
        """NVML's functions, as far as this device answers them, without their further arguments."""
        found = {
            "TotalEnergyConsumption": self._energy,
            "ClockInfo": lambda: self.clock,
            "Temperature": lambda: 61,
            "CurrentClocksThrottleReasons": lambda: self.reasons,
            "ComputeRunningProcesses": lambda: [SimpleNamespace(pid=pid) for pid in self.pids],
            "ProcessUtilization": lambda: [SimpleNamespace(pid=p, smUtil=used) for p, used in self.used.items()],
        }
        return {name: found[name] for name in found if not any(part in name for part in self.silent)}

    def _energy(self) -> float:
        self.spent += 1e3 * self.joules
        return self.spent


ASKED = (
    "TotalEnergyConsumption",
    "ClockInfo",
    "Temperature",
    "CurrentClocksThrottleReasons",
    "ComputeRunningProcesses",
    "ProcessUtilization",
)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WatchedBlock]]:
    """Watches a block of no length on the devices that are `used`, by their numbers as the driver has them."""

    def refuse(*_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def asking(name: str) -> Callable[..., Any]:
        return lambda device, *_: device.answers().get(name, refuse)()

    def once(*drivers: Driver, used: Sequence[int] = (0,)) -> WatchedBlock:
        device_telemetry.known.cache_clear()
        by_name = {f"{kind}-{number:08x}": one for number, one in enumerate(drivers) for kind in [one.kind]}
        monkeypatch.setattr(pynvml, "nvmlInit", refuse if "nvmlInit" in drivers[0].silent else lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda name: by_name.get(name) or refuse())
        for name in ASKED:
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", asking(name))
        with watched(lambda: {OWN}, [f"{number:08x}" for number in used]) as seen:
            pass
        return seen

    yield once
    device_telemetry.known.cache_clear()


def test_a_block_alone_on_a_healthy_device_counts(watch: Callable[[Driver], WatchedBlock]) -> None:
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


def test_a_block_on_a_hot_device_is_interrupted(watch: Callable[[Driver], WatchedBlock]) -> None:
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
    driver: Driver, interrupted: str | None, watch: Callable[[Driver], WatchedBlock]
) -> None:
    """A process that holds memory and computes nothing slows nobody, and unknown numbers prove nothing."""
    assert interrupted == watch(driver).interrupted


def test_a_device_that_tells_little_leaves_gaps(watch: Callable[[Driver], WatchedBlock]) -> None:
    """What a driver does not support is not measured, which is never 0."""
    seen = watch(Driver(silent=frozenset({"Total", "ClockInfo", "Temperature", "Reasons", "Running"})))

    assert WatchedBlock(telemetry=Telemetry()) == seen


@pytest.mark.parametrize("used", [(0, 1), (1, 0), (1, 0, 7)], ids=["in order", "turned", "and another node's"])
def test_ranks_are_watched_on_all_their_devices(used: tuple[int, ...], watch: Callable[..., WatchedBlock]) -> None:
    """The power of all, the slowest clock, and whatever interrupts one of them."""
    hot = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    one = watch(Driver(joules=5.0))
    seen = watch(Driver(joules=5.0), Driver(joules=5.0, clock=900, reasons=hot), used=used)

    assert seen.telemetry.sm_mhz == 900 < one.telemetry.sm_mhz
    assert seen.telemetry.throttled == ["heat, by the hardware"]
    assert seen.telemetry.others == 0
    assert "heat" in seen.interrupted


@pytest.mark.parametrize("kind", ["GPU", "MIG"])
def test_a_program_is_watched_on_the_device_that_it_uses(kind: str, watch: Callable[..., WatchedBlock]) -> None:
    """What happens on a device that it does not use is not its affair, whichever of them is the first."""
    hot = Driver(clock=900, reasons=pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, kind=kind)

    assert watch(Driver(), hot, used=[0]).interrupted is None
    assert watch(Driver(), hot, used=[1]).telemetry.sm_mhz == 900


def test_without_a_driver_nothing_is_told(watch: Callable[[Driver], WatchedBlock]) -> None:
    """A machine without NVML measures as it did."""
    assert WatchedBlock() == watch(Driver(silent=frozenset({"nvmlInit"})))


def test_records_from_before_the_telemetry_can_be_read() -> None:
    """An old block has no telemetry, and a new one keeps it through JSON."""
    block = Block(steps=1, seconds=1.0, phases={"other": 1.0}, step_seconds=[1.0], work=Work(samples=1))
    old = {name: value for name, value in to_plain(block).items() if name != "telemetry"}
    new = to_plain(block) | {"telemetry": to_plain(Telemetry(watts=300.0))}

    assert block == from_plain(Block, old)
    assert 300.0 == from_plain(Block, new).telemetry.watts


@pytest.mark.parametrize(
    ("visible", "device", "count"),
    [
        (None, "first", 2),
        ("1", "second", 1),
        ("1,0", "second", 2),
        ("GPU-b", "second", 1),
        ("GPU-", "first", 1),
        ("0,-1,1", "first", 1),
        ("MIG-b1", "a part", 1),
        ("2", None, 0),
        ("", None, 0),
    ],
)
def test_the_machines_device_is_the_first_that_programs_see(
    visible: str | None, device: str | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data sheet says what the run can reach; another card's would make it look slow, or as fast as it can be."""
    named = {"0": "first", "1": "second", "GPU-a": "first", "GPU-b": "second", "MIG-b1": "a part"}

    def handle(name: object) -> str:
        if str(name) not in named:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return named[str(name)]

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    answers = {
        **dict.fromkeys(("nvmlInit", "nvmlShutdown"), lambda: None),
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetHandleByUUID": handle,
        "nvmlDeviceGetName": lambda one: one,
        "nvmlDeviceGetUUID": lambda one: {"first": "GPU-a", "second": "GPU-b"}[one],
        "nvmlDeviceGetMigMode": lambda one: (pynvml.NVML_DEVICE_MIG_DISABLE, 0),
        "nvmlSystemGetDriverVersion": lambda: "1",
        "nvmlDeviceGetMemoryInfo": lambda one: SimpleNamespace(total=10),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)

    assert (device, count) == machine._gpu()[:2]
