"""Durations hold whatever somebody does to the clock of the machine."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.investigation import open_lab
from slowstep.settings import Loaded, Settings

PACKAGE = Path(__file__).resolve().parents[1] / "lib" / "slowstep"


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
