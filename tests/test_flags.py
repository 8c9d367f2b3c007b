"""What a process is set to, as it is read from Python and PyTorch."""

from __future__ import annotations

import cProfile
import pstats
import sys
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from slowstep_probe.changing.flags import FLAGS, Flags, tracing
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches

PROFILER = cProfile.Profile()


class Monitoring(SimpleNamespace):
    """`sys.monitoring` (PEP 669) as far as it is asked, for a Python that has none: a profiler watches all code."""

    def __init__(self) -> None:
        super().__init__()
        self.events = {2: 6}

    def get_tool(self, tool: int) -> str | None:
        """Return the name of a tool; None if it is not in use."""
        return "cProfile" if tool in self.events else None

    def get_events(self, tool: int) -> int:
        """Return what a tool watches; ValueError if it is not in use."""
        if tool not in self.events:
            raise ValueError(f"tool {tool} is not in use")
        return self.events[tool]

    def set_events(self, tool: int, events: int) -> None:
        """Have a tool watch something else."""
        self.events[tool] = events


def profiler(_: pytest.MonkeyPatch) -> None:
    """Start the profiler of this Python."""
    PROFILER.enable()


def monitored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tool watch, as from Python 3.12 on."""
    monkeypatch.setattr(sys, "monitoring", Monitoring(), raising=False)


@pytest.mark.parametrize("watch", [profiler, monitored])
def test_a_profiler_is_seen_and_ended(watch: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """By sys.setprofile, or by the tools of sys.monitoring: Python's own profiler went from one to the other."""
    watch(monkeypatch)
    seen = tracing()
    FLAGS["process.tracing"].write(False)

    assert (seen, tracing()) == (True, False)


def test_a_program_that_reads_what_it_traced_goes_on() -> None:
    """It gets traces of nothing, and none of the errors that Python raises where nothing was traced."""
    patches, profile = Patches(), cProfile.Profile()
    Flags(Wanted({"process.tracing": False})).attach(patches)
    try:
        tracemalloc.start()
        profile.enable()
        kept = bytearray(2**20)
        seen = tracing()
        snapshot = tracemalloc.take_snapshot()
        profile.disable()
        stats = pstats.Stats(profile)
    finally:
        patches.remove()

    assert (False, 0, True) == (seen, len(snapshot.traces), stats.total_calls < len(kept))


@pytest.mark.parametrize("value", [True, False])
def test_tf32_can_be_read_by_its_older_names(value: bool) -> None:
    """Compilers and libraries ask by these, and PyTorch raises an error where it was set by the newer ones alone."""
    flag = FLAGS["training_arguments.tf32"]
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        flag.write(value)
        by_older_names = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision() == "high"

        assert (value, value, value) == (flag.read(), *by_older_names)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
