"""Profiles, and looks at the stack, on a real device. No package is needed that only reports need."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from slowstep_probe.probe.clock import CudaClock
from slowstep_probe.probe.tape import Tape
from slowstep_probe.trial.profiling import Profiling
from slowstep_probe.trial.time_by_place import Places

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def loop() -> None:
    """Some milliseconds in which the interpreter is never let go of."""
    total = 0
    for i in range(60_000):
        total += i


@pytest.mark.gpu
@needs_cuda
def test_a_real_device_that_is_behind_was_not_idle(tmp_path: Path) -> None:
    """The host launches the profiled steps while the device is still at the one before them."""
    profiling = Profiling(CudaClock(), 3, phase=lambda: "other")
    while not profiling.ended:
        torch.cuda._sleep(50_000_000)  # cycles: above 20 ms on any device to date
        profiling.step_ends()
    record = profiling.read(tmp_path / "trace.json.gz")

    assert (record.failed, record.steps) == ("", 3)
    assert record.idle < 0.15


@pytest.mark.gpu
@needs_cuda
def test_the_line_that_a_real_device_waits_for_is_told_from_that_which_waits_for_it() -> None:
    """Each takes half of the host's time: a value that is read back, and a loop in Python."""
    tape = Tape(CudaClock(), ())
    places = Places(tape.last_mark)

    def reads_back() -> None:
        torch.ones(1, device="cuda").item()

    reads_back()
    torch.cuda.synchronize()
    tape.open()
    places.begin()
    for _ in range(20):
        tape.mark("forward")
        torch.cuda._sleep(50_000_000)
        tape.mark("other")
        reads_back()
        began = time.perf_counter()
        while time.perf_counter() - began < 0.03:
            loop()
    found = places.stop(tape.phases(), tape.reached)
    shares = {place.where.rpartition(" ")[2]: place.share for place in found if place.phase == "other"}

    assert shares["loop"] > 5 * shares.get("reads_back", 0.0)
