"""The comparisons that come next in the plan: several of one baseline, which are measured in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slowstep.factors import Contrast
from slowstep.investigation.evidence import Evidence
from slowstep.investigation.order import most_promising_first, most_seconds
from slowstep.judgement.verdict import Outcome
from slowstep.records import identity

MOST_TOGETHER = 6
"""The most comparisons of a round. A pair then takes 7/12 of what it takes alone, and 1/2 is the limit; each arm more
takes memory, and puts the blocks of a pair further apart."""

Waiting = dict[str, tuple[Contrast, int]]
"""Contrasts that are not decided yet, by name, each with the number of comparisons in its family."""


def next_comparisons(
    waiting: Waiting, evidence: Evidence, needs_trial: Callable[[Contrast], bool], left: float, nodes: int = 1
) -> list[tuple[Contrast, int]]:
    """Return the most promising contrast with those that can share its rounds, and take them out of `waiting`.

    Contrasts that need no trial are taken out, too. A factor of data loading waits for the cached-batch ceiling, which
    may refute it. Only as many contrasts are returned as could be measured one after the other in the `left` seconds:
    where time is short, the most promising one is measured alone. Each of the `nodes` measures rounds of its own.
    """
    group: dict[str, tuple[Contrast, int]] = {}
    open_yet = set(waiting)
    for promising in most_promising_first([contrast for contrast, _ in waiting.values()], evidence):
        contrast = _open_ceiling(promising, open_yet, evidence) or promising
        if contrast.name not in waiting:  # it is in the group already
            continue
        if not needs_trial(contrast):
            waiting.pop(contrast.name)
            open_yet.remove(contrast.name)
            continue
        arm, base = (identity(one.determinants()) for one in (contrast.treatment, contrast.baseline))
        alone = not can_share(contrast, evidence)
        others = [identity(one.baseline.determinants()) for one, _ in group.values()]
        if group and (
            alone
            or arm in group
            or base not in others
            or (len(group) // nodes + 1) * most_seconds(contrast, evidence) > left
        ):
            continue
        group[arm] = waiting.pop(contrast.name)
        if alone or len(group) == MOST_TOGETHER * nodes:
            break
    return list(group.values())


def can_share(contrast: Contrast, evidence: Evidence) -> bool:
    """Return whether a contrast can be measured in the same rounds as others.

    They have the same baseline. Its steps hold as many samples, no event has to happen beside each block, its blocks
    hold no more steps than others (they hold whole periods of logging), and two arms fit in memory together.
    """
    before, after = contrast.baseline, contrast.treatment
    return (
        before.determinants() != after.determinants()
        and before.settings.effective_batch_size == after.settings.effective_batch_size
        and before.settings.run["logging_steps"] == after.settings.run["logging_steps"]
        and not contrast.events
        and "packing" not in (contrast.overrides.get("dataset.padding"), before.settings.run["dataset.padding"])
        and not evidence.noise.by_turns
    )


def _open_ceiling(contrast: Contrast, open_yet: Collection[str], evidence: Evidence) -> Contrast | None:
    """Return the ceiling that has to be known before a contrast is tried; None if there is none, or if it is known.

    `open_yet` are the names of the contrasts that have no verdict yet, those that are about to be measured among them.
    """
    if not any(factor.bound == "data" for factor, _ in contrast.levels):
        return None
    for ceiling in evidence.ceilings:
        if ceiling.name in open_yet and evidence.prior(ceiling).outcome is Outcome.INCONCLUSIVE:
            return ceiling
    return None
