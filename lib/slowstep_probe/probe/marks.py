"""Marks: the moments at which training passes from one phase to the next, and the steps that they make.

A mark costs as little as possible. The time between two marks is named afterwards, when nothing is measured.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from slowstep_probe.measured import PHASES, Steps

STEP = "step"
"""The name of the mark between two steps. What follows it is 'other' until a phase begins."""

BELONGS_TO_EVALUATION = ("data", "host_to_device", "communication", "other")
"""Phases that belong to an evaluation if they lie within one."""

OFTEN = 0.9
"""The share of the steps from which on a pass without gradients is part of training and no evaluation."""

FEWEST = 3
"""The fewest steps in which something can be said to come often."""

MICROSECOND = 6
"""Decimals of a second that are kept."""


class Mark(NamedTuple):
    """A moment of the clock, the phase that begins there, and for data the number of the iterator that is asked."""

    moment: Any
    phase: str
    iterator: int | None = None


def phase_names(marks: Sequence[Mark], training: Collection[int]) -> list[str]:
    """Return the name of the phase after each mark. All that belongs to an evaluation in the loop is 'evaluate'.

    A forward pass without gradients is evaluation. So is what lies between two of them, and between the last one and
    the end of its loader: fetching its batches, its losses, its sums. `training` holds the numbers of the iterators
    whose batches are trained on; asking one of those is never part of an evaluation.
    """
    own = _of_the_step(marks)
    names = ["forward" if i in own else mark.phase for i, mark in enumerate(marks)]
    inside = [
        mark.phase in BELONGS_TO_EVALUATION
        and not (mark.phase == "data" and (mark.iterator is None or mark.iterator in training))
        for mark in marks
    ]
    for i, name in enumerate(names):
        if name != "evaluate" or marks[i].phase != "evaluate":
            continue
        after = i + 1
        while after < len(names) and inside[after]:
            after += 1
        again = after < len(names) and marks[after].phase == "evaluate" and after not in own
        looped = any(marks[k].phase == "data" for k in range(i + 1, after))  # its loader was asked once more, in vain
        if again or looped:
            names[i + 1 : after] = ["evaluate"] * (after - i - 1)
        before = i
        while before > 0 and inside[before - 1]:
            before -= 1
        fetched = next((k for k in range(before, i) if marks[k].phase == "data"), i)
        names[fetched:i] = ["evaluate"] * (i - fetched)
    return names


def _of_the_step(marks: Sequence[Mark]) -> frozenset[int]:
    """Return the marks of forward passes without gradients that belong to nearly every training step.

    A reference model or a teacher looks at the batch that is trained on: between that batch and its backward pass,
    nothing else is fetched. An evaluation comes after the update, fetches batches of its own, or comes seldom.
    """
    found: list[list[int]] = [[]]
    waiting: list[int] = []
    for i, mark in enumerate(marks):
        if mark.phase == STEP:
            found.append([])
            waiting = []
        elif mark.phase == "evaluate":
            waiting.append(i)
        elif mark.phase == "data":
            waiting = []
        elif mark.phase == "backward":
            found[-1] += waiting
            waiting = []
    often = len(found) > FEWEST and sum(map(bool, found)) >= OFTEN * (len(found) - 1)
    return frozenset(i for each in found for i in each) if often else frozenset()


def steps_of(marks: Sequence[Mark], gaps: Sequence[float], starts: Sequence[int], training: Collection[int]) -> Steps:
    """Return the steps between `marks`, whose `gaps` are in seconds. Step k begins at the sample `starts[k]`."""
    rows: list[dict[str, float]] = [dict.fromkeys(PHASES, 0.0)]
    for name, seconds in zip(phase_names(marks, training), gaps, strict=False):
        if name == STEP:
            rows.append(dict.fromkeys(PHASES, 0.0))
        rows[-1]["other" if name == STEP else name] += seconds
    taken = [p for p in PHASES if any(row[p] for row in rows)]
    columns = {p: [round(row[p], MICROSECOND) for row in rows] for p in taken}
    return Steps(position=list(starts[: len(rows)]), phases=columns)
