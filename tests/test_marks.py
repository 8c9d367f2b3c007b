"""The names of the times between marks."""

from __future__ import annotations

import pytest

from slowstep_probe.probe.marks import STEP, Mark, phase_names

TRAINING, HELD_OUT = 1, 2


def marks(*phases: str, times: int) -> list[Mark]:
    """The marks of so many equal steps, in which `data` asks the loader of training and `held out` another one."""
    numbers = {"data": TRAINING, "held out": HELD_OUT}
    step = [Mark(0.0, "data" if p == "held out" else p, numbers.get(p)) for p in phases]
    return [mark for _ in range(times) for mark in (*step, Mark(0.0, STEP))]


@pytest.mark.parametrize(
    ("phases", "name"),
    [
        (("data", "evaluate", "forward", "backward", "optimizer"), "forward"),  # a teacher
        (("data", "optimizer", "forward", "evaluate", "other", "backward", "optimizer"), "forward"),  # zero_grad first
        (("data", "forward", "backward", "optimizer", "evaluate"), "evaluate"),
        (("data", "held out", "evaluate", "held out", "forward", "backward", "optimizer"), "evaluate"),
    ],
)
def test_a_pass_without_gradients_belongs_to_the_step_or_is_an_evaluation(phases: tuple[str, ...], name: str) -> None:
    """A reference model looks at the batch that is trained on; an evaluation fetches its own, or follows the update."""
    found = phase_names(marks(*phases, times=10), {TRAINING})

    assert found[phases.index("evaluate")] == name


def test_what_comes_seldom_is_an_evaluation() -> None:
    """Even if it looks at nothing but what is in memory, right before the backward pass."""
    plain = marks("data", "forward", "backward", "optimizer", times=9)
    once = marks("data", "forward", "evaluate", "backward", "optimizer", times=1)

    assert phase_names(plain + once, {TRAINING})[len(plain) + 2] == "evaluate"
