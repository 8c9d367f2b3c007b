"""Tables of phases: what DeepSpeed calls a step, and a loader that runs beside its steps."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, audit
from slowstep.settings.load import validate


def report(table: str) -> Audit:
    return audit(validate({"name": "own", "reported": {"table": table}}, "own"))


def test_a_step_that_is_less_than_a_pass_is_the_optimizers() -> None:
    """As DeepSpeed's breakdown has it: the fused optimizer makes no step 3.02 times as fast."""
    table = "run,forward (ms),backward (ms),step (ms){}\nzero2,86.9,172.1,12.4{}\nfused,87.1,171.8,4.1{}\n"
    found = report(table.format(",samples/s", ",29.4", ",30.4"))

    assert [] == found.faults
    assert ["12.4 ms", "4.1 ms"] == [f"{run.phases['optimizer'].middle * 1e3:.3g} ms" for run in found.runs]
    assert "seconds_per_step" not in found.runs[0].given
    with_phases_alone = report(table.format("", "", ""))
    assert any("taken for the optimizer's: say the whole step" in question for question in with_phases_alone.questions)


@pytest.mark.parametrize(
    ("header", "step"),
    [("step (ms)", "300.1"), ("step (ms)", "200.0"), ("step time (ms)", "12.4"), ("s/it", "0.0124")],
)
def test_a_step_that_may_be_the_whole_one_stays_it(header: str, step: str) -> None:
    """It is above each pass, or is called otherwise; one below the sum of the passes is accused as ever."""
    found = report(f"run,forward (ms),backward (ms),{header}\na,86.9,172.1,{step}\nb,87.1,171.8,{step}\n")

    assert all("seconds_per_step" in run.given for run in found.runs)
    assert (step != "300.1") is bool(found.faults)


@pytest.mark.parametrize(
    ("phases", "faults"),
    [
        ("250,90,180,12", 0),  # workers load beside the step
        ("10,90,180,12", 0),
        ("10,150,180,12", 1),  # the passes alone are more
    ],
)
def test_a_loader_may_run_beside_the_step(phases: str, faults: int) -> None:
    """Whether it is waited for is asked."""
    found = report(f"run,step (ms),data (ms),forward (ms),backward (ms),optimizer (ms)\na,300,{phases}\n")

    assert faults == len(found.faults)
    assert phases.startswith("250") is any("hidden behind its steps, or waited for" in q for q in found.questions)


def test_phases_with_all_the_rest_are_parts_of_the_step() -> None:
    """Where the rest is a phase, too, what the loader takes is waited for."""
    phases = {"data": "0.25", "forward": "0.09", "backward": "0.18", "optimizer": "0.012", "other": "0.01"}
    row = {"label": "a", "figures": {"seconds_per_step": "0.300"}, "phases": phases}

    assert 1 == len(audit(validate({"name": "own", "reported": {"rows": [row]}}, "own")).faults)
