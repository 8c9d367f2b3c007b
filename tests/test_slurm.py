"""Comparisons measured by jobs that submitit runs as processes of this machine, with real trials."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import workloads_for_tests as w
from asking import compare
from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.records import Pair, Status, identity
from slowstep.settings.schema import Budget
from slowstep.settings.slurm import Slurm

pytest.importorskip("submitit", reason="submitit is not installed (the extra slurm)")

Make = Callable[..., Arm]


@pytest.fixture
def said() -> list[str]:
    """What the measurer says to its user."""
    return []


@pytest.fixture
def cluster(budget: Budget, tmp_path: Path, said: list[str]) -> Iterator[SlurmMeasurer]:
    """A measurer whose jobs, two at most, are processes of this machine."""
    folder = tmp_path / "investigation"
    with SlurmMeasurer(Slurm(cluster="local", nodes=2), budget, folder, tell=said.append) as measurer:
        yield measurer


def request(baseline: Arm, treatment: Arm, pairs: int) -> ComparisonRequest:
    return ComparisonRequest(baseline=baseline, treatment=treatment, stop=StopRule(max_pairs=pairs, looks=()))


def starts(measurer: SlurmMeasurer) -> dict[str, int]:
    """The process of each start of each job so far."""
    boxes = [m.box for m in (*measurer.crew.members, *measurer.crew.dismissed)]
    every = [box.take(name) for box in boxes for name in box.names() if name.startswith("start.")]
    return {start.name: start.pid for start in every}


def test_a_comparison_is_measured_by_a_job(cluster: SlurmMeasurer, arm: Make, said: list[str]) -> None:
    """Its record is that of a local measurer, and says the node. Its pairs are told while it is measured."""
    told: list[int] = []
    environment = cluster.describe()
    record = compare(cluster, arm(w.Tiny), arm(w.Twin), pairs=3, tell=lambda pairs: told.append(len(pairs)))

    assert (Status.OK, Status.OK, 3) == (record.baseline.status, record.treatment.status, len(record.pairs))
    assert os.uname().nodename == record.node
    assert environment.determinants == record.environment.determinants
    assert sorted(told) == told
    assert cluster.steps > 0 < cluster.measured_seconds
    assert [f"measures on node {record.node}" in line for line in said] == [True]
