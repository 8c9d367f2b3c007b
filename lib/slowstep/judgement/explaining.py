"""Which changes explain a loss of time: those that act on it, fit into it, and take a good part of it away."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slowstep.factors import ALL_PHASES, Meaning, touched_by
from slowstep.factors.catalogue.gradient_checkpointing import MOST_TIMES
from slowstep.judgement.suspects import TRAINS_NOTHING, Suspect, eased, gone
from slowstep.judgement.verdict import Outcome, Verdict

LEAST_PART_REACHED = 0.5
"""A change is the main cause of a loss only if the upper end of its interval reaches this part of the loss, both as
log-ratios. If it certainly takes less, the loss has another remedy and keeps its own name."""

GOOD_PART = 1 / 3
"""The gain of a change is a good part of a loss if it reaches this part of it, both as log-ratios."""

LARGER_BATCHES = "larger_batches"

ACT_ON_ALL_PHASES = ("processes", LARGER_BATCHES)
"""Factors that act on every phase, so that they explain the loss of no single one. Larger batches make every cost of a
step rarer; fewer processes end every wait among them. Their gain is a sum of other losses, so they are ranked after
each loss that is a good part of it."""

SMALL_BATCH, LARGE_GAIN = 8, 3.0
"""The most samples that are a small batch, and the speed-up by larger batches at which a step hardly depends on its own
one. A batch of more samples is mostly chosen for what is learned, so it is a cause only from that speed-up on."""

SPEEDS_UP_WHOLE_PROCESS = ("freed_memory", "num_threads", "garbage_collection")
"""Factors that make all of a process faster, also what it does in a wait. They name no wait that stays in part."""


def are_small_batches(v: Verdict) -> bool:
    """Return whether the run's own batches are a cause where larger ones are faster."""
    larger = v.overrides.get("training_arguments.per_device_train_batch_size", 0)
    return larger <= SMALL_BATCH * MOST_TIMES or v.effect.ratio >= LARGE_GAIN


def removes_part(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change that acts on the phase is shown to take a part of its loss, and may bring no more."""
    whole_process = v.factor in SPEEDS_UP_WHOLE_PROCESS and suspect.phase in TRAINS_NOTHING
    return eases(v, suspect) and not whole_process and gains_at_most(v, suspect.most)


def eases(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change that acts on the phase is shown to leave less of its loss."""
    return v.factor not in ACT_ON_ALL_PHASES and suspect.phase in touched_by(v.factor) and eased(suspect, v.leaves)


def gains_at_most(v: Verdict, whole: float) -> bool:
    """Return whether a change may bring no more than the whole of a loss; one that does acts on other time, too."""
    return v.effect.low <= whole


def is_within(v: Verdict, limit: Verdict) -> bool:
    """Return whether a change acts only on what a diagnostic change takes away, waits among it, and fits into that."""
    acts, on = touched_by(v.factor), touched_by(limit.factor)
    return acts <= on != ALL_PHASES and bool(acts & {*TRAINS_NOTHING}) and gains_at_most(v, limit.effect.high)


def is_main_cause(best: Verdict, whole: float) -> bool:
    """Return whether a change removes a good part of a loss, and perhaps most of it: then the cause is what it undoes.

    `whole` is the speed-up if all of the loss were gone.
    """
    return is_good_part(best.effect.ratio, whole) and math.log(best.effect.high) >= LEAST_PART_REACHED * math.log(whole)


def is_good_part(ratio: float, whole: float) -> bool:
    """Return whether a speed-up is a good part of another one, in log-ratios."""
    return math.log(ratio) >= GOOD_PART * math.log(whole)


def likely_change(suspect: Suspect, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the undecided change that acts on the phase and under which its time is gone; None if there is none.

    Of several, this is the one with the largest gain.
    """
    acting = [
        v
        for v in verdicts
        if v.outcome is Outcome.INCONCLUSIVE
        and v.factor not in ACT_ON_ALL_PHASES
        and v.alone
        and not v.conditional
        and v.meaning is not Meaning.DIAGNOSTIC
        and suspect.phase in touched_by(v.factor)
        and gone(suspect, v.leaves)
        and v.effect.ratio > 1
        and v.effect.high >= suspect.least
    ]
    return max(acting, key=lambda v: v.gain, default=None)


def changes_that_remove(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase and under which its time is gone."""
    acting = [v for v in verdicts if v.factor not in ACT_ON_ALL_PHASES and suspect.phase in touched_by(v.factor)]
    return [v for v in acting if gone(suspect, v.leaves)]


def not_reached(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase, and not on all, for which there was no time.

    None acts on what a profile alone tells: a loop in the program's code, say.
    """
    return [v for v in verdicts if v.untried and suspect.comparable and _acts_there(v, suspect)]


def _acts_there(v: Verdict, suspect: Suspect) -> bool:
    acts = touched_by(v.factor)
    return v.meaning is not Meaning.DIAGNOSTIC and suspect.phase in acts and acts != ALL_PHASES
