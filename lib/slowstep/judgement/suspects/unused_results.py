"""The suspect of results that a forward pass computes and nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from slowstep.judgement.operators import unused_results
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.suspects.suspect import NAMED, PASSES, Suspect, from_profile, largest
from slowstep.records import ProfileRecord


def what_nothing_uses(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of operators whose results nothing uses, if they take the share `least` of the time.

    What threads beside the training read is not seen.
    """
    is_seen = phase == PASSES[0] and not profile.beside
    lines = unused_results(profile, facts.shares[phase].mean) if is_seen else []
    known = sum(line.share for line in lines)
    if known < least:
        return
    yield Suspect(
        phase=phase,
        share=from_profile(known, facts.shares[phase], profile),
        why="nothing uses a part of what is computed there: in the steps that were looked at, no gradient went back "
        "through it, and no operator and no line read it",
        **largest([line for line in lines if line.share >= NAMED * least] or lines),
        comparable=False,
    )
