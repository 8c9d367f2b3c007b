"""All suspects of a run: those outside the passes, those in them, and ranks that the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slowstep.judgement.ranks import Skew, node_of_rank, skew
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.suspects.between_passes import (
    beside_lost,
    suspect_between_phases,
    suspect_hooks,
    suspect_wait,
)
from slowstep.judgement.suspects.in_passes import suspect_passes
from slowstep.judgement.suspects.suspect import PASSES, TRAINS_NOTHING, Suspect
from slowstep.judgement.suspects.unused_rows import suspect_tables
from slowstep.judgement.throughput import speed_up


def suspects(facts: RunFacts, minimum: float) -> list[Suspect]:
    """Return the phases whose lost time is certainly worth a gain of `minimum` (0.05 for 5 %); largest first."""
    return [s for s in _candidates(facts, minimum) if speed_up(s.of_both[0]) - 1 >= minimum]


def perhaps_suspects(facts: RunFacts, minimum: float) -> list[Suspect]:
    """Return the phases whose lost time may be worth a gain of `minimum`, and is not certain to be; largest first."""
    found = ((s, *map(speed_up, s.of_both)) for s in _candidates(facts, minimum))
    return [s for s, least, most in found if least - 1 < minimum <= most - 1]


def _candidates(facts: RunFacts, minimum: float) -> list[Suspect]:
    """Return each phase that may lose time, as far as there is evidence of a loss in it; largest first."""
    least = minimum / (1 + minimum)
    found = [suspect_wait(facts, phase, least) for phase in TRAINS_NOTHING]
    found += [suspect_between_phases(facts, least), _in_optimizer(facts, least)]
    found += suspect_passes(facts, least)
    slow = skew(facts.blocks, least)
    if slow is not None:
        others = [s for s in found if s and s.phase != slow.phase]
        if slow.phase in PASSES:  # what the slow rank does there takes the place of what is done in both passes
            others = [replace(s, other_pass=None) for s in others]
        found = [_of_slow_rank(slow, facts, found), *others]
    return sorted(filter(None, found), key=lambda s: -s.ratio)


def _in_optimizer(facts: RunFacts, least: float) -> Suspect | None:
    """Return the larger loss in an optimizer's step: hooks, or rows of tables that no step looks up."""
    found = filter(None, (suspect_hooks(facts, least), suspect_tables(facts, least)))
    return max(found, key=lambda suspect: suspect.share.mean, default=None)


def _of_slow_rank(slow: Skew, facts: RunFacts, found: Sequence[Suspect | None]) -> Suspect:
    """Return the suspect of a rank that the others wait for, with what is known of the phase in which it is slow."""
    known = next((s for s in found if s and s.phase == slow.phase), None)
    node = node_of_rank(slow.rank, facts.on_nodes)
    on_node = f" (on node {node})" if len(facts.on_nodes) > 1 else ""
    return Suspect(
        **beside_lost(facts, slow.phase, slow.share),
        phase=slow.phase,
        share=slow.share,
        why=f"rank {slow.rank}{on_node} takes that much longer there than any other, and they wait for it meanwhile",
        consists_of=known.consists_of if known else [],
        mostly=known.mostly if known else "",
        rank=slow.rank,
        node=node,
    )
