"""Devices on which a process trains, where PyTorch's allocator says nothing of them."""

from __future__ import annotations

import pytest
import torch

from simulated import CPU, GPU
from slowstep.factors.entries import needs_cuda
from slowstep.settings.run import Origin, Run, Value
from slowstep_probe import devices
from slowstep_probe.probe.clock import CudaClock
from slowstep_probe.survey.debug_environment import debugs
from slowstep_probe.trial.memory_peaks import memory_peaks

UNCOUNTED = "PYTORCH_NO_CUDA_MEMORY_CACHING"


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The devices that were waited for. There are two, of which the second is the current one; neither is counted."""
    found: list[int | None] = []
    for name, answer in {
        "is_initialized": lambda: True,
        "device_count": lambda: 2,
        "current_device": lambda: 1,
        "memory_reserved": lambda number: 0,
        "max_memory_reserved": lambda number: 0,
        "synchronize": found.append,
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    return found


@pytest.mark.parametrize("value", ["1", "0"])
def test_a_program_whose_tensors_are_not_counted_trains_on_its_current_device(
    value: str, waited: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is asked for by its presence alone. No peak is told as 0 bytes."""
    monkeypatch.setenv(UNCOUNTED, value)
    devices.synchronize()

    assert ([1], [1]) == (devices.used(), waited)
    assert (None, None) == (memory_peaks().allocated, memory_peaks().limit)
    assert debugs(UNCOUNTED, value)


def test_a_program_without_tensors_on_a_device_trains_on_none(
    waited: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have asked for a device's name."""
    monkeypatch.delenv(UNCOUNTED, raising=False)

    assert [] == devices.used()


def test_the_device_that_is_marked_is_waited_for(waited: list[int | None]) -> None:
    """Its events could not be read before it has come to them."""
    assert "mark" == CudaClock(0).ended("mark")
    assert waited[-1] == 0


@pytest.mark.parametrize(("seen", "testable"), [(True, False), (False, True), (None, None)])
def test_what_a_survey_saw_counts_for_the_device(seen: bool | None, testable: bool | None) -> None:
    """NVML tells nothing of AMD's devices, and a program may leave one unused that it tells of."""
    values = {} if seen is None else {"use_cpu": Value(value=seen, origin=Origin.OBSERVED)}
    refused = [needs_cuda("TF32")(True, Run(values=values, objects=frozenset()), machine) for machine in (CPU, GPU)]

    assert [why is None for why in refused] == ([False, True] if testable is None else [testable] * 2)
