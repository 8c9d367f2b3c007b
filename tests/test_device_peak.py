"""The peak of a device is that of what it computes, without the time that a call takes beside it."""

from __future__ import annotations

import pytest

from slowstep_probe.trial import device_peak
from slowstep_probe.trial.device_peak import fastest

COPY, LAUNCH, WAIT = 1e-4, 5e-6, 1e-5
"""The seconds of a copy on the device, and those of a launch and of a wait on the host."""


class Device:
    """A device that works through what is launched while the host goes on, in time that is told to pass."""

    now = free = 0.0

    def launch(self) -> None:
        """Begin a copy, as soon as the device is free."""
        self.now += LAUNCH
        self.free = max(self.free, self.now) + COPY

    def wait(self) -> None:
        """Wait until the device is free."""
        self.now = max(self.now, self.free) + WAIT


@pytest.mark.parametrize(("together", "most"), [(0.01, 1.01 * COPY), (0.0, LAUNCH + COPY + WAIT)])
def test_launches_and_waits_are_no_part_of_a_peak(
    together: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several calls are timed together; where one is timed alone, as on the host, they are."""
    device = Device()
    monkeypatch.setattr(device_peak.time, "perf_counter", lambda: device.now)
    found = fastest(device.launch, device.wait, together, lambda tries: tries >= 3)

    assert COPY < found == pytest.approx(most, rel=0.01)
