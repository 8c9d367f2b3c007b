"""Limits of a change: it can't bring more than the time it acts on, and it can't move phases that it can't touch.

What was expected and never measured is held against what was measured of the same change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import permutations

from slowstep.audit.differences import changed, differences
from slowstep.audit.equal_work import equal_work
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, claimed, contradicts, times
from slowstep.audit.physics import Sizes, most_of_length
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import ReportedRun, batches, same_devices
from slowstep.factors import CATALOGUE
from slowstep.judgement.controls import CONTROLS, MATERIAL, MOVED, NOTICEABLE
from slowstep.settings.reported import Claim

CHECKPOINTING = {"the whole model is trained": 4 / 3, "the base is frozen": 3 / 2, "the base may be frozen": 3 / 2}
"""FLOPs of a step with a recomputed forward pass, divided by those without: 8 N / 6 N, and 6 N / 4 N where the weights
need no gradients of their own (`slowstep.judgement.flops`)."""

OVERHEADS = 1.15
"""An allowance for what FLOPs do not count: recomputing also launches kernels and allocates memory anew."""

ALL_OF_IT = 2.0
"""The most that stopping recomputation can bring, as a ratio: two forward passes become one. It may be more than FLOPs
say where a forward pass takes longer than its FLOPs. The kit measured 1.64 with the dropout of a small GPT-2 on a CPU,
whose forward pass takes longer than its backward pass (docs/cases.md)."""

APART = math.exp(MOVED)
"""The ratio by which two rows may differ just because they were measured at different times."""


OF_STEPS = ("seconds_per_step", "steps_per_second")
"""Figures of a step, which hold no saves and no evaluations if they were measured step by step."""


SPEEDS = {TITLES[quantity] for quantity in ("steps_per_second", "samples_per_second", "tokens_per_second")}

WHAT_ELSE = "it was measured, so recomputation alone can't be the cause: what else changed?"


@dataclass(frozen=True)
class Limit:
    """The most that a change can bring."""

    expected: float
    """The ratio beyond which a size must be explained."""
    most: float
    """The ratio beyond which a size is impossible."""
    why: str
    of_flops: bool = False
    """True if it is reckoned by FLOPs, which do not count what else a setting does, such as moving activations."""


def beyond_bound(
    claim: Claim, a: ReportedRun, b: ReportedRun, stated: Figure | None, gain: Figure | None, sizes: Sizes | None
) -> list[Finding]:
    """Find a size that the factor can't have, or hardly: a contradiction, a doubt, or for a length an explanation.

    A change costs no more than the change back would bring, so that a loss has the bound of the gain in reverse. Where
    the rows were measured and their `gain` is of that size, FLOPs do not deny it: something else happened as well.
    """
    if stated is None or not same_devices(a, b):
        return []
    said = f"is {'claimed' if claim.speed_up else 'expected' if b.projected else 'reported'}"
    for before, after, size in ((a, b, stated), (b, a, 1 / stated)):
        limit = _limit(claim, before, after, sizes)
        if limit and size.low > limit.expected:
            many = times(size.middle) if size.bounded else f"more than {times(size.low)}"
            back = f", so that the change back would make it {many} as fast" * (after is a)
            beyond = FindingKind.BOUND if size.low > limit.most else FindingKind.UNLIKELY
            text = f"{claimed(stated)} as fast {said}{back}, and {limit.why}"
            if beyond is FindingKind.BOUND and limit.of_flops and _is_measured(a, b, stated, gain):
                beyond, text = FindingKind.UNLIKELY, f"{text}; {WHAT_ELSE}"
            kind = FindingKind.PHYSICS if claim.factor == "max_length" else beyond
            return [Finding(kind=kind, where=claim.text, text=text)]
    return []


def _is_measured(a: ReportedRun, b: ReportedRun, stated: Figure, gain: Figure | None) -> bool:
    """Return whether the measured figures of two rows give the stated size."""
    return a.measured and b.measured and gain is not None and not contradicts(gain, stated)


def between_steps(claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure | None, unit: str) -> list[Finding]:
    """Find that a factor of saves or evaluations is blamed for the time of a step, which holds none of them."""
    factor = CATALOGUE.get(claim.factor or "")
    of_steps = unit in SPEEDS and all({*OF_STEPS} & r.given.keys() for r in (a, b))
    if not factor or not factor.event or not of_steps or gain is None or gain.meets(exact(1)) or a.from_file:
        return []
    text = f"{claim.factor} acts between steps, and the figures are those of a step: something else may have changed"
    return [Finding(kind=FindingKind.UNLIKELY, where=claim.text, text=text)]


def _limit(claim: Claim, a: ReportedRun, b: ReportedRun, sizes: Sizes | None) -> Limit | None:
    """Return the most that a factor can bring, by its nature or by the phases that it acts on; None if not known."""
    if claim.factor == "max_length":
        bound, why = most_of_length(a, b, sizes) or (math.inf, "")
        return Limit(bound, bound, why)
    acting = _acting_settings(claim, a, b)
    alone = len(acting) <= 1
    if claim.factor == "gradient_checkpointing" and alone:
        if not a.settings.training("gradient_checkpointing") or b.settings.training("gradient_checkpointing"):
            return None
        return _without_recomputation(_trained(a))
    most = room(claim.factor, a, b, acting)
    if most is None:
        return None
    acts = f"all that {claim.factor} acts on" if alone else "what these changes act on"
    why = f"{acts} leaves so much of the step that {times(most.high)} is the very most"
    return Limit(most.high, APART * most.high, why)


def _acting_settings(claim: Claim, a: ReportedRun, b: ReportedRun) -> set[str]:
    """Return the settings that differ and may act on the figure of the claim.

    Settings of saving and evaluating do not act on the speed of a step. They do act on Trainer's mean over all time.
    """
    of_a_step = claim.quantity in OF_STEPS and not (a.from_file or b.from_file)
    idle = (level for f, level in differences(a.settings, b.settings) if f.event and of_a_step)
    return {*changed(a.settings, b.settings)} - {key.rpartition(".")[2] for level in idle for key in level.changes}


def room(factor: str | None, a: ReportedRun, b: ReportedRun, names: Collection[str]) -> Figure | None:
    """Return how many times as fast a step is without the phases that the changed settings `names` act on.

    None where `a` does not say how long these phases take.
    """
    factors = [CATALOGUE.get(name or "") for name in ({factor} if len(names) <= 1 else names)]
    step = a.solved.known.get("seconds_per_step")
    if None in factors or not step or not step.bounded:
        return None
    touched = frozenset().union(*(f.touches for f in factors))
    if not touched or not touched <= a.phases.keys():
        return None
    left = step - sum((a.phases[p] for p in touched), exact(0))
    return step / left if left.middle > 0 else None  # else the phases are not of this step


def _trained(run: ReportedRun) -> str:
    if run.settings.peft:
        return "the base is frozen"
    return "the base may be frozen" if run.settings.figures_alone else "the whole model is trained"


def _without_recomputation(trained: str) -> Limit:
    of_flops = CHECKPOINTING[trained]
    return Limit(
        of_flops * OVERHEADS,
        ALL_OF_IT,
        f"without recomputation a step loses one forward pass, whatever the batch: {times(of_flops)} by its FLOPs, as "
        f"{trained}, and {times(ALL_OF_IT)} at the very most, as another forward pass is left",
        of_flops=True,
    )


def controls(claim: Claim, a: ReportedRun, b: ReportedRun) -> list[Finding]:
    """Find phases that moved by a good part of the step although no difference between the rows can touch them."""
    factor = CATALOGUE.get(claim.factor or "")
    if factor is None:
        return []
    touched = factor.touched("cuda").union(*(f.touched("cuda") for f, _ in differences(a.settings, b.settings)))
    moved = {phase: _moved(phase, a, b) for phase in CONTROLS if phase not in touched}
    text = "the phase {} took {} its time, which {} can't cause: something else changed, and the comparison is void"
    return [
        Finding(kind=FindingKind.CONTROL, where=claim.text, text=text.format(phase, times(ratio.middle), claim.factor))
        for phase, ratio in moved.items()
        if ratio
    ]


def _moved(phase: str, a: ReportedRun, b: ReportedRun) -> Figure | None:
    """Return how many times its time a phase took for the same work; None where it moved little.

    Little is meant as a share of the step and of the step's change (`slowstep.judgement.controls`).
    """
    step, then = (r.solved.known.get("seconds_per_step") for r in (a, b))
    if not step or not step.bounded or phase not in b.phases or phase not in a.phases or a.phases[phase].low <= 0:
        return None
    before, after = batches(a, b)
    work = after / before if before and after and before.bounded else exact(1)
    was = a.phases[phase] * (1 if phase == "optimizer" else work)
    ratio, more = b.phases[phase] / was, b.phases[phase] - was
    if phase == "data":
        more = _not_hidden(more, a, b, work)
    whole = step * work
    change = abs(then.middle - whole.middle) if then else 0.0
    if abs(more.middle) <= max(NOTICEABLE * whole.middle, MATERIAL * change):
        return None
    beyond = math.log(max(ratio.low, 1e-9)) > MOVED or math.log(max(ratio.high, 1e-9)) < -MOVED
    return ratio if beyond else None


def _not_hidden(more: Figure, a: ReportedRun, b: ReportedRun, work: Figure) -> Figure:
    """Return the seconds by which the wait for data became longer or shorter beyond what the computation hides of it.

    A shorter computation hides less of the wait. A longer one hides more, unless the process itself loads the data.
    """
    steps = [r.solved.known.get("seconds_per_step") for r in (a, b)]
    if None in steps:
        return more
    saved = (steps[0] - a.phases["data"]) * work - (steps[1] - b.phases["data"])
    in_process = any(r.settings.training_arguments.get("dataloader_num_workers") == 0 for r in (a, b))
    if more.middle * saved.middle <= 0 or (more.middle < 0 and in_process):
        return more
    return more - saved if abs(more.middle) > abs(saved.middle) else exact(0)


def expectation(claim: Claim, a: ReportedRun, b: ReportedRun, runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find that nothing was measured here, and what the measured phases and the same change elsewhere say about it."""
    expected = [f"'{r.label}'" for r in (a, b) if r.projected]
    if not expected:
        return []
    text = f"the figures of {' and '.join(expected)} are an expectation; nothing was measured"
    most = None if a.projected else room(claim.factor, a, b, changed(a.settings, b.settings))
    if most and 0 < most.middle < math.inf:
        text += f", and what the changes don't act on leaves room for {times(most.middle)} as fast"
    note = Finding(kind=FindingKind.PROJECTED, where=claim.text, text=text)
    return [note, *_measured_otherwise(claim, a, b, [r for r in runs if not r.projected])]


def _measured_otherwise(claim: Claim, a: ReportedRun, b: ReportedRun, measured: Sequence[ReportedRun]) -> list[Finding]:
    """Find the same change of the same factor between two measured rows, if its effect differs."""
    factor, (hoped, unit) = CATALOGUE.get(claim.factor or ""), equal_work(a, b, claim.quantity)
    if factor is None or hoped is None:
        return []
    before, after = (factor.current(r.settings.run) for r in (a, b))
    for c, d in permutations(measured if before != after else (), 2):
        if (factor.current(c.settings.run), factor.current(d.settings.run)) != (before, after):
            continue
        known, same = equal_work(c, d, claim.quantity)
        if known and same == unit and known.gap(hoped) > CONSEQUENCE:
            text = (
                f"where the same change was measured ('{c.label}', '{d.label}') it is {times(known.middle)} as fast in "
                f"{unit}, and here {times(hoped.middle)} is expected"
            )
            return [Finding(kind=FindingKind.MEASURED, where=claim.text, text=text)]
    return []
