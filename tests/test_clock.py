"""Durations hold whatever somebody does to the clock of the machine."""

from __future__ import annotations

import ast
import os
import sys
import time
from pathlib import Path

import pytest

from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.command.resolve import resolve
from slowstep.investigation import open_lab
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.settings import Loaded, Settings

PACKAGE = Path(__file__).resolve().parents[1] / "lib" / "slowstep"
PROBE = PACKAGE.with_name("slowstep_probe")


def test_no_duration_goes_by_the_wall_clock() -> None:
    """`time.time` is read nowhere: clocks that count on are."""
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "time.time_ns")
    ]

    assert [] == found


def test_a_clock_that_jumps_makes_no_negative_time(
    smoke: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook during which the clock is set back by a day took no negative time."""
    measurer = SimulatedMeasurer(Truth(), smoke.budget)
    lab = open_lab(Loaded(settings=smoke, source="x", places={}), tmp_path, "00_baseline", measurer)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)

    assert 0 <= lab.conclude().seconds < 3600


def test_the_probe_takes_no_clock_that_the_program_can_replace() -> None:
    """`own_time` alone imports the module, and another one for a constant of it."""
    found = [
        path.relative_to(PROBE).as_posix()
        for path in sorted(PROBE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        if "time" in [getattr(node, "module", None), *(one.name for one in node.names if isinstance(node, ast.Import))]
    ]

    assert ["own_time.py", "trial/thread_timer.py"] == found


FROZEN = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

names = ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")
originals = {getattr(time, name): name for name in names}
for module in list(sys.modules.values()):  # as freezegun does
    for own, value in list(vars(module).items()):
        if type(value) is type(len) and value in originals and module.__name__ != "threading":
            setattr(module, own, lambda: 0)

model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.randn(4000, 64)), batch_size=4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.trials
def test_a_program_that_freezes_time_is_timed(tmp_path: Path) -> None:
    """By the clocks as they were before it ran: no step takes nothing, and the survey comes to its end."""
    (tmp_path / "frozen.py").write_text(FROZEN)
    seen = survey(resolve([sys.executable, "frozen.py"], tmp_path, os.environ), SurveyOrder(startup=300), os.environ)

    assert not seen.failed, seen.output
    assert seen.first_step_boundary is not None
    assert 0 < seen.first_step_boundary
    assert all(0 < seconds for seconds in seen.training["step_seconds"])
