"""What stands above a measurer of several nodes: time in the queue, and figures of other nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulated import CPU
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.investigation import Lab, open_lab
from slowstep.investigation.opening import measurer_of
from slowstep.measure.measurer import ComparisonRequest, OnPairs, OnPairsOf
from slowstep.measure.slurm.job_pool import differences
from slowstep.measure.slurm.jobs import words_of_sbatch
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.records import ComparisonRecord, Environment
from slowstep.report.cards import card
from slowstep.settings import Loaded, Settings, override
from slowstep.settings.convert import to_plain

LEVELS = {"overheads": {"max_grad_norm": [0.5], "logging_steps": [100]}, "compute": {"optim": ["sgd"]}}


class Nodes(SimulatedMeasurer):
    """Two nodes: the baseline's, and another for the comparisons of the plan, where a step takes ten times as long.

    Before each comparison an hour is spent in the queue.
    """

    nodes = 2

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord:
        self.waited_seconds += 3600
        return replace(super().compare(request, on_pairs), node="n1")

    def compare_together(
        self, requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf
    ) -> Iterator[tuple[int, ComparisonRecord]]:
        self.waited_seconds += 3600
        truth, self.truth = self.truth, replace(self.truth, sample_seconds=10 * self.truth.sample_seconds)
        for number, record in super().compare_together(requests, on_pairs):
            yield number, replace(record, node="n2")
        self.truth = truth


@pytest.fixture
def lab(quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab over two simulated nodes, with an hour for all, on a clock on which the queue's hours pass."""
    emptied = {section: {} for section in ("data_loading", "gradient_checkpointing", "sequence_length")}
    settings = override(quick, emptied | LEVELS | {"budget.minutes": 60.0, "budget.exhaustive": True})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    measurer = Nodes(Truth(gain=lambda arm, purpose: 0.1), settings.budget)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + measurer.waited_seconds)
    monkeypatch.setattr("slowstep.investigation.lab.time", clock)
    monkeypatch.setattr("slowstep.investigation.spending.working_clock", lambda: clock.monotonic)
    return open_lab(loaded, tmp_path, "test", measurer)


def test_time_in_the_queue_is_not_of_the_budget(lab: Lab) -> None:
    """Hours of waiting leave the minutes for measuring as they were, and are no time that a notebook took."""
    lab.pursue()
    summary = lab.conclude()

    assert lab.measurer.waited_seconds >= 2 * 3600
    assert 3 == sum(purpose == "" and name != "baseline" for name, purpose in lab.measurer.asked)
    assert 0 <= summary.seconds < 3600


def test_the_baseline_is_that_of_one_node(lab: Lab) -> None:
    """Steps that other nodes timed enter no share, no projection and no drift, and the verdict says its node."""
    before = lab.baseline
    lab.pursue()
    found = lab.test("overheads")

    assert {"logging_steps=100": "n1", "max_grad_norm=0.5": "n2"}.items() <= {
        verdict.name: verdict.node for verdict in found if verdict.effect
    }.items()
    again = open_lab(lab.loaded, lab.folder.parent, "again", lab.measurer)
    shares = [{phase: share.mean for phase, share in b.facts.shares.items()} for b in (before, again.baseline)]
    assert shares[0] == pytest.approx(shares[1])
    assert before.projection.parts == again.baseline.projection.parts
    own = [one for one in lab.measured if one.record and one.record.node == before.record.node]
    assert len(again.baseline.projection.drift.offsets) == len(own) > len(before.projection.drift.offsets)
    shown = [one for one in lab.measured if one.record]
    assert shown
    assert all(f"on node {one.verdict.node}" in card(one) for one in shown)


def test_the_section_says_what_measures(quick: Settings, tmp_path: Path) -> None:
    """Without it the kit measures here; with it no job is submitted before something is asked."""
    assert not isinstance(measurer_of(quick, tmp_path), SlurmMeasurer)
    assert isinstance(measurer_of(override(quick, {"measure.slurm": {"nodes": 3}}), tmp_path), SlurmMeasurer)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("machine", "versions", "said"),
    [
        ({}, {}, ""),
        ({"memory": int(CPU.memory * 0.99), "tools": []}, {}, ""),
        ({"memory": CPU.memory // 2}, {}, "memory"),
        ({"gpu": "NVIDIA A10"}, {}, "gpu (None, NVIDIA A10)"),
        ({}, {"torch": "3.0"}, "packages"),
    ],
)
def test_nodes_must_be_alike(machine: dict, versions: dict, said: str) -> None:
    """A node of another kind is told from one whose memory differs by what firmware takes."""
    one = Environment(machine=to_plain(CPU), versions={"torch": "2.13"}, kit="0")
    other = replace(one, machine=one.machine | machine, versions=one.versions | versions)

    found = differences(one, other)
    assert bool(said) == bool(found)
    assert said in found


def test_slurms_own_words_are_taken() -> None:
    """What sbatch prints before its words is left out."""
    text = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid"

    assert "invalid partition specified: x; Batch job submission failed: Invalid" == words_of_sbatch(text)
