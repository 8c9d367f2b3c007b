"""Which changes explain a loss of time: those that act on it, fit into it, and take a good part of it away."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slowstep.factors import ALL_PHASES, Meaning, touched_by
from slowstep.factors.catalogue.gradient_checkpointing import MOST_TIMES
from slowstep.judgement.suspects import WAITING, Suspect, eased, gone
from slowstep.judgement.verdict import Outcome, Verdict

MOSTLY = 0.5
"""The part of a loss, in log-ratios, that a change must be able to take away, within its interval, to name the loss.
One that is shown to take less leaves the name to the loss: its cure is another one."""

A_PART = 1 / 3
"""The part of a loss, in log-ratios, that counts as a good part of it: what an estimate must reach to name it."""

LARGER = "larger_batches"

WHOLES = ("processes", LARGER)
"""The factors that explain no phase's loss. Fewer processes do everything else, and have no slow one among them; larger
batches thin out whatever a step costs beside its samples. What they bring is the whole of all that is lost in such a
way, so these causes come after those that are a good part of it."""

FEW, HARDLY = 8, 3.0
"""The most samples that are few, and the speed-up by larger batches from which on a step hardly depends on its own
batch. One of more samples is mostly chosen for what is learned, so it is a cause only from that speed-up on."""

EVERYWHERE = ("freed_memory", "num_threads", "garbage_collection")
"""Factors that make all of a process faster, work in a wait as well. They name no wait of which something stays."""


def are_small_batches(v: Verdict) -> bool:
    """Return whether the run's own batches are a cause where larger ones are faster."""
    larger = v.overrides.get("training_arguments.per_device_train_batch_size", 0)
    return larger <= FEW * MOST_TIMES or v.effect.ratio >= HARDLY


def takes_part(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change that acts on the phase is shown to leave less of its loss, in pairs that met it."""
    return eases(v, suspect) and not (v.factor in EVERYWHERE and suspect.phase in WAITING)


def eases(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change that acts on the phase is shown to leave less of its loss."""
    return v.factor not in WHOLES and suspect.phase in touched_by(v.factor) and eased(suspect, v.leaves)


def fits(v: Verdict, whole: float) -> bool:
    """Return whether a change may bring no more than the whole of a loss; one that does acts on other time, too."""
    return v.effect.low <= whole


def is_within(v: Verdict, limit: Verdict) -> bool:
    """Return whether a change acts only on what a diagnostic change takes away, waits among it, and fits into that."""
    acts, on = touched_by(v.factor), touched_by(limit.factor)
    return acts <= on != ALL_PHASES and bool(acts & {*WAITING}) and fits(v, limit.effect.high)


def names(best: Verdict, whole: float) -> bool:
    """Return whether a change takes a good part of a loss away, and perhaps most: the cause is what it undoes."""
    return is_part(best.effect.ratio, whole) and math.log(best.effect.high) >= MOSTLY * math.log(whole)


def is_part(ratio: float, whole: float) -> bool:
    """Return whether a speed-up is a good part of another one, in log-ratios."""
    return math.log(ratio) >= A_PART * math.log(whole)


def likely_change(suspect: Suspect, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the undecided change that acts on the phase and under which its time is gone; None if there is none.

    Of several, this is the one with the largest gain.
    """
    fits = [
        v
        for v in verdicts
        if v.outcome is Outcome.INCONCLUSIVE
        and v.factor not in WHOLES
        and v.alone
        and not v.conditional
        and v.meaning is not Meaning.DIAGNOSTIC
        and suspect.phase in touched_by(v.factor)
        and gone(suspect, v.leaves)
        and v.effect.ratio > 1
        and v.effect.high >= suspect.least
    ]
    return max(fits, key=lambda v: v.gain, default=None)


def relieving(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase and under which its time is gone."""
    acting = [v for v in verdicts if v.factor not in WHOLES and suspect.phase in touched_by(v.factor)]
    return [v for v in acting if gone(suspect, v.leaves)]


def not_reached(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase, and not on all, for which there was no time.

    None acts on what a profile alone tells: a loop in the program's code, say.
    """
    return [v for v in verdicts if v.untried and suspect.comparable and _acts_there(v, suspect)]


def was_tried(suspect: Suspect, verdicts: Sequence[Verdict]) -> bool:
    """Return whether a change that acts on the phase, and not on all, was measured."""
    return any(v.effect is not None and _acts_there(v, suspect) for v in verdicts)


def _acts_there(v: Verdict, suspect: Suspect) -> bool:
    acts = touched_by(v.factor)
    return v.meaning is not Meaning.DIAGNOSTIC and suspect.phase in acts and acts != ALL_PHASES
