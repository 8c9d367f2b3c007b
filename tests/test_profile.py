"""Profiled trials: what they show adds up, and they judge nothing."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import slowstep_probe.probe
from slowstep.factors import Arm
from slowstep.measure.local import PROFILED_STEPS, LocalMeasurer
from slowstep.records import ProfileRecord
from slowstep.report import device_idle, operators
from slowstep_probe.trial.profiling import INNER, Profiling, covered
from slowstep_probe.trial.stack_sampler import Places, place_of
from workloads_for_tests import Raises


@pytest.fixture(scope="module")
def profiled(measurer: LocalMeasurer, arm: Callable[..., Arm], tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """The smoke run under the profiler, and its trace."""
    trace = tmp_path_factory.mktemp("traces") / "own.json.gz"
    return measurer.profile(arm(), trace), trace, dict(measurer.pool.live)


def test_operators_of_a_real_step_are_found(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Matrix products of a Llama are among them, and no operator takes more than all threads had."""
    record, _, _ = profiled
    names = {o.name for o in record.operators}

    assert names & {"aten::mm", "aten::addmm", "aten::bmm"}
    assert record.steps == PROFILED_STEPS
    assert all(0 < o.calls and 0 <= o.seconds <= 4 * record.seconds for o in record.operators)
    assert [o.seconds for o in record.operators] == sorted((o.seconds for o in record.operators), reverse=True)
    assert 0 <= record.idle < 1
    assert record.gap_seconds * record.steps <= record.seconds


def test_a_loop_within_an_operator_is_none_in_python(tmp_path: Path) -> None:
    """A product of many small matrices selects each of them itself; a loop over as many calls each from Python."""
    one, other = (
        torch.ones(600, 16, 16).long(),
        torch.ones(600, 16, 16).long(),
    )  # no library multiplies batches of these

    def looped(work: Callable[[], object]) -> dict[str, float]:
        """The part of its calls that is made within another operator, of each one that is called often."""
        profiling = Profiling("cpu")
        work()
        found = profiling.stop(1, 1.0, tmp_path / "trace.json.gz")
        return {o.name: o.within / o.calls for o in found.by_phase["other"] if o.calls > INNER}

    by_operator = looped(lambda: torch.bmm(one, other))
    by_python = looped(lambda: [one[i].add_(1) for i in range(600)])

    assert set(by_operator.values()) == {1.0}
    assert set(by_python.values()) == {0.0}


def test_the_trace_can_be_opened(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """It is a whole Chrome trace, as Perfetto reads it, and the record names the file."""
    record, trace, _ = profiled
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]

    assert record.trace == trace.name
    assert any(e.get("name") == "aten::mm" or e.get("name") == "aten::addmm" for e in events)


def test_a_profiled_trial_serves_for_nothing_else(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Nothing that was profiled stays resident to be measured."""
    assert profiled[2] == {}


def test_two_profiles_stand_side_by_side(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Chart and table show both, and one that failed is left out."""
    both = {"baseline": profiled[0], "final": profiled[0]}
    failed = {"other": replace(profiled[0], failed="crashed: SIGKILL")}

    assert {"operator", "baseline", "final"} == set(operators(both).rows[0])
    assert len(device_idle(both | failed).rows) == 2
    assert "SIGKILL" in repr(device_idle(failed))


def test_a_profile_that_fails_is_a_record_that_says_why(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """It is kept like any other, so that no notebook tries again in silence."""
    record = measurer.profile(arm(Raises), Path("none.json.gz"))

    assert record.failed.startswith("crashed: ")
    assert record.operators == []


def test_overlapping_spans_are_covered_once() -> None:
    """Operators of several threads, nested ones and gaps: the union of what they cover."""
    assert covered([(0, 4), (1, 2), (3, 6), (8, 9), (8, 8.5)]) == [(0, 6), (8, 9)]
    assert covered([]) == []
    rng = np.random.default_rng(0)
    for _ in range(50):
        spans = [(a, a + d) for a, d in rng.integers(0, 20, (8, 2))]
        points = {t for a, b in spans for t in range(2 * a, 2 * b)}
        assert sum(end - begin for begin, end in covered(spans)) == len(points) / 2


def test_the_probe_is_no_code_of_the_users() -> None:
    """A call that passes through the probe stands at the line of the user's own code."""
    given: dict[str, object] = {"sys": sys}
    exec(compile("frame = sys._getframe()", slowstep_probe.probe.__file__, "exec"), given)
    where, own = place_of(given["frame"])

    assert own
    assert "test_profile.py" in where


def test_a_place_names_the_function_around_a_comprehension() -> None:
    """A generator or a lambda has no name that anybody knows; the function in which it stands has one."""
    (generated,) = (place_of(sys._getframe()) for _ in range(1))
    by_lambda = (lambda: place_of(sys._getframe()))()

    for where, own in (generated, by_lambda):
        assert own
        assert where.endswith("in test_a_place_names_the_function_around_a_comprehension")


def test_a_loop_in_python_is_looked_at_as_often_as_an_operator() -> None:
    """A thread that looks gets the interpreter where an operator lets go of it. A loop of some milliseconds that never
    does is seen in its own share of the time all the same."""
    spent = {"loop": 0.0, "operator": 0.0}
    places = Places(lambda: 0)
    places.start()
    while sum(spent.values()) < 1.5:
        for act in (loop, operator):
            began = time.perf_counter()
            act()
            spent[act.__name__] += time.perf_counter() - began
    found = places.stop(["other"])
    seen = {name: sum(p.share for p in found if p.where.endswith(f" in {name}")) for name in spent}

    assert seen["loop"] == pytest.approx(spent["loop"] / sum(spent.values()), abs=0.15)


def loop() -> None:
    """Some milliseconds in which the interpreter is never let go of."""
    total = 0
    for i in range(60_000):
        total += i


def operator() -> None:
    """Short operators that let go of it."""
    for _ in range(20):
        np.linalg.norm(np.ones((64, 64)) @ np.ones((64, 64)))
        time.sleep(0)
