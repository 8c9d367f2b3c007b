"""Suspects of results that a forward pass computes and no training uses."""

from __future__ import annotations

from collections.abc import Iterator

from slowstep.judgement.operators import largest_first
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.suspects.suspect import NAMED, PASSES, Suspect, from_profile, largest
from slowstep.records import ProfileRecord

NOTHING_USES = (
    "nothing uses a part of what is computed there: in the steps that were looked at, no gradient went back through "
    "it, and no operator and no line read it"
)
ONLY_READ = (
    "a part of what is computed there is only read back to Python (item, tolist, numpy), and training goes on without "
    "it. Where that is for a log, every tenth step would do; where Python decides by it what comes next, it is needed"
)
OF_DATA = (
    "a part of what is computed there comes of the batch and of weights that are not trained, and is the same each "
    "time that its samples come. It can be computed once and kept, unless samples are changed at random, these weights "
    "are replaced now and then, or what is kept is too large"
)
"""Why time is lost that computes what training does not use, or what it has had in an earlier epoch."""

OF_DATA_ANYWAY = 0.1
"""The share of the time up to which what comes of data alone is as usual: masks, and a frozen layer before adapters."""


def what_nothing_uses(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspects of operators whose results nothing uses, or Python alone, or that each epoch has again.

    They take the share `least` of the time or more. What threads beside the training read is not seen.
    """
    if phase != PASSES[0] or profile.beside:
        return
    come_again = profile.of_data if facts.observed.get("epoch_steps") else {}
    for shares, why, anyway in (
        (profile.unused, NOTHING_USES, 0.0),
        (profile.only_read, ONLY_READ, 0.0),
        (come_again, OF_DATA, OF_DATA_ANYWAY),
    ):
        lines = largest_first({line: facts.shares[phase].mean * part for line, part in shares.items()})
        known = sum(line.share for line in lines)
        if known >= max(least, anyway):
            yield Suspect(
                phase=phase,
                share=from_profile(known, facts.shares[phase], profile),
                why=why,
                **largest([line for line in lines if line.share >= NAMED * least] or lines),
                comparable=False,
            )
