"""What a change can't do: bring more than what it acts on, and move what it can't touch."""

from __future__ import annotations

import math

from slowstep.audit.differences import changed, differences
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, Kind, times
from slowstep.audit.physics import Sizes, most_of_length
from slowstep.audit.run import Run, batches
from slowstep.factors import CATALOGUE
from slowstep.judgement.controls import CONTROLS, MATERIAL, MOVED, NOTICEABLE
from slowstep.settings.reported import Claim

CHECKPOINTING = {"the whole model is trained": 4 / 3, "the base is frozen": 3 / 2}
"""FLOPs of a step with a recomputed forward pass over those without: 8 N to 6 N, and 6 N to 4 N where the weights need
no gradients of their own (`slowstep.judgement.flops`)."""

OVERHEADS = 1.15
"""Recomputing also launches kernels and allocates anew, and FLOPs are not time: the kit itself measured 1.523 with LoRA
where FLOPs say 1.5, and up to 1.455 at the interval's end for a whole model (docs/cases.md)."""


def beyond_bound(claim: Claim, a: Run, b: Run, stated: Figure | None, sizes: Sizes | None) -> list[Finding]:
    """A size that the factor can't have: for a length an explanation, else a contradiction."""
    limit = _limit(claim, a, b, sizes)
    if limit is None or stated is None or stated.low <= limit[0]:
        return []
    kind = Kind.PHYSICS if claim.factor == "max_length" else Kind.BOUND
    said = "claimed" if claim.speed_up else "expected" if b.projected else "reported"
    return [Finding(kind=kind, where=claim.text, text=f"{times(stated.middle)} as fast is {said}, and {limit[1]}")]


def _limit(claim: Claim, a: Run, b: Run, sizes: Sizes | None) -> tuple[float, str] | None:
    """The most that a factor can bring, from what it is or from the phases that it acts on."""
    if claim.factor == "max_length":
        return most_of_length(a, b, sizes)
    if claim.factor == "gradient_checkpointing" and len(changed(a.settings, b.settings)) <= 1:
        if not a.settings.training("gradient_checkpointing") or b.settings.training("gradient_checkpointing"):
            return None
        return _without_recomputation("the base is frozen" if a.settings.peft else "the whole model is trained")
    most = room(claim.factor, a, b)
    if most is None:
        return None
    acts = (
        f"all that {claim.factor} acts on" if len(changed(a.settings, b.settings)) <= 1 else "what these changes act on"
    )
    return most.high, f"{acts} leaves so much of the step that {times(most.high)} is the very most"


def room(factor: str | None, a: Run, b: Run) -> Figure | None:
    """How many times as fast a step is without any of the phases that the changes act on; None where `a` does not say
    how long they are."""
    names = {*changed(a.settings, b.settings)}
    factors = [CATALOGUE.get(name or "") for name in ({factor} if len(names) <= 1 else names)]
    step = a.solved.known.get("seconds_per_step")
    if None in factors or not step or not step.bounded:
        return None
    touched = frozenset().union(*(f.touches for f in factors))
    if not touched or not touched <= a.phases.keys():
        return None
    return step / (step - sum((a.phases[p] for p in touched), exact(0)))


def _without_recomputation(trained: str) -> tuple[float, str]:
    of_flops = CHECKPOINTING[trained]
    bound = of_flops * OVERHEADS
    return bound, (
        f"without recomputation a step loses one forward pass, whatever the batch: {times(of_flops)} by its FLOPs, as "
        f"{trained}, and {times(bound)} at the very most (with {OVERHEADS - 1:.0%} allowed for overheads)"
    )


def controls(claim: Claim, a: Run, b: Run) -> list[Finding]:
    """Phases that nothing which differs between the rows can touch, and that moved by a part of the step."""
    factor = CATALOGUE.get(claim.factor or "")
    if factor is None:
        return []
    touched = factor.touched("cuda").union(*(f.touched("cuda") for f, _ in differences(a.settings, b.settings)))
    moved = {phase: _moved(phase, a, b) for phase in CONTROLS if phase not in touched}
    text = "the phase {} took {} its time, which {} can't cause: something else changed, and the comparison is void"
    return [
        Finding(kind=Kind.CONTROL, where=claim.text, text=text.format(phase, times(ratio.middle), claim.factor))
        for phase, ratio in moved.items()
        if ratio
    ]


def _moved(phase: str, a: Run, b: Run) -> Figure | None:
    """How many times its time a phase took for as much work; None where that is little, of the step or of what the
    whole step changed (`slowstep.judgement.controls`)."""
    step, then = (r.solved.known.get("seconds_per_step") for r in (a, b))
    if not step or not step.bounded or phase not in b.phases or phase not in a.phases or a.phases[phase].low <= 0:
        return None
    before, after = batches(a, b)
    work = after / before if before and after and before.bounded else exact(1)
    was = a.phases[phase] * (1 if phase == "optimizer" else work)
    ratio, more = b.phases[phase] / was, b.phases[phase] - was
    if phase == "data" and more.middle > 0:
        more = more - _given_up(a, b, work)  # a shorter computation lengthens the wait that it hid
        if more.middle <= 0:
            return None
    whole = step * work
    change = abs(then.middle - whole.middle) if then else 0.0
    if abs(more.middle) <= max(NOTICEABLE * whole.middle, MATERIAL * change):
        return None
    beyond = math.log(max(ratio.low, 1e-9)) > MOVED or math.log(max(ratio.high, 1e-9)) < -MOVED
    return ratio if beyond else None


def _given_up(a: Run, b: Run, work: Figure) -> Figure:
    """Seconds by which everything but the wait for data became shorter."""
    steps = [r.solved.known.get("seconds_per_step") for r in (a, b)]
    if None in steps:
        return exact(0)
    less = (steps[0] - a.phases["data"]) * work - (steps[1] - b.phases["data"])
    return Figure(max(0.0, less.low), max(0.0, less.high))
