"""What a change can't do: bring more than what it acts on, and move what it can't touch."""

from __future__ import annotations

import math

from slowstep.audit.differences import changed, differences
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, Kind, times
from slowstep.audit.physics import Sizes, most_of_length
from slowstep.audit.run import Run, batches
from slowstep.factors import CATALOGUE
from slowstep.judgement.controls import CONTROLS, MOVED, NOTICEABLE
from slowstep.settings.reported import Claim

CHECKPOINTING = 1.5
"""A recomputed forward pass beside the rest: 8/6 for a whole model, 6/4 for LoRA (`slowstep.judgement.flops`)."""


def beyond_bound(claim: Claim, a: Run, b: Run, stated: Figure | None, sizes: Sizes | None) -> list[Finding]:
    """A size that the factor can't have: for a length an explanation, else a contradiction."""
    limit = _limit(claim, a, b, sizes)
    if limit is None or stated is None or stated.low <= limit[0]:
        return []
    kind = Kind.PHYSICS if claim.factor == "max_length" else Kind.BOUND
    said = "claimed" if claim.speed_up else "reported"
    return [Finding(kind=kind, where=claim.text, text=f"{times(stated.middle)} as fast is {said}, and {limit[1]}")]


def _limit(claim: Claim, a: Run, b: Run, sizes: Sizes | None) -> tuple[float, str] | None:
    """The most that a factor can bring, from what it is or from the phases that it acts on."""
    if claim.factor == "max_length":
        return most_of_length(a, b, sizes)
    if len(changed(a.settings, b.settings)) > 1:
        return None
    if claim.factor == "gradient_checkpointing":
        if not a.settings.training("gradient_checkpointing") or b.settings.training("gradient_checkpointing"):
            return None
        lost = "without recomputation a step loses one forward pass, whatever the batch"
        return CHECKPOINTING, f"{lost}: {CHECKPOINTING} times at the very most"
    factor, step = CATALOGUE.get(claim.factor or ""), a.solved.known.get("seconds_per_step")
    if factor is None or not step or not step.bounded or not a.phases or not factor.touches <= a.phases.keys():
        return None
    left = step - sum((a.phases[p] for p in factor.touches), exact(0))
    if left.low <= 0:
        return None
    bound = (step / left).high
    return bound, f"all that {claim.factor} acts on leaves so much of the step that {times(bound)} is the very most"


def controls(claim: Claim, a: Run, b: Run) -> list[Finding]:
    """Phases that nothing which differs between the rows can touch, and that moved by a part of the step."""
    factor = CATALOGUE.get(claim.factor or "")
    step = a.solved.known.get("seconds_per_step")
    if factor is None or not step or not step.bounded:
        return []
    touched = factor.touched("cuda").union(*(f.touched("cuda") for f, _ in differences(a.settings, b.settings)))
    before, after = batches(a, b)
    work = after / before if before and after and before.bounded else exact(1)
    found = []
    for phase in CONTROLS:
        if phase in touched or phase not in a.phases or phase not in b.phases or a.phases[phase].low <= 0:
            continue
        was = a.phases[phase] * (1 if phase == "optimizer" else work)
        moved, more = b.phases[phase] / was, b.phases[phase] - was
        if phase == "data" and more.middle > 0:
            more = more - _given_up(a, b, work)  # a shorter computation lengthens the wait that it hid
            if more.middle <= 0:
                continue
        noticed = abs(more.middle) > NOTICEABLE * step.middle
        if noticed and (math.log(max(moved.low, 1e-9)) > MOVED or math.log(max(moved.high, 1e-9)) < -MOVED):
            text = (
                f"the phase {phase} took {times(moved.middle)} its time, which {claim.factor} can't cause: something "
                "else changed, and the comparison is void"
            )
            found.append(Finding(kind=Kind.CONTROL, where=claim.text, text=text))
    return found


def _given_up(a: Run, b: Run, work: Figure) -> Figure:
    """Seconds by which everything but the wait for data became shorter."""
    steps = [r.solved.known.get("seconds_per_step") for r in (a, b)]
    if None in steps:
        return exact(0)
    less = (steps[0] - a.phases["data"]) * work - (steps[1] - b.phases["data"])
    return Figure(max(0.0, less.low), max(0.0, less.high))
