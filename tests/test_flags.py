"""What a process is set to, as it is read from Python and PyTorch."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from slowstep_probe.changing.flags import FLAGS, tracing

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
