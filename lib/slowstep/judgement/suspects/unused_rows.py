"""Suspects of rows from which nothing is learned: those that a loss ignores, and those that no step looks up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowstep.judgement.operators import share_used, unused_rows
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.shares import together
from slowstep.judgement.suspects.between_passes import beside_lost
from slowstep.judgement.suspects.suspect import PASSES, Suspect, from_profile, largest
from slowstep.records import ProfileRecord
from slowstep.text.numbers import percentage
from slowstep_probe.profiled import Unused

IGNORED, TABLES = "computing rows that the loss ignores", "going over rows of a table that no step looks up"
"""What these suspects do."""

UPDATES = "optimizer"
"""The phase that goes over whole tables."""

SPARSE_ROW_COST = 5.0
"""The time that a row takes by a sparse gradient, over the time of a row by a dense one.

On a CPU it was 3 for rows of 256 numbers, and 6 to 11 for rows of 64 (SparseAdam against fused AdamW, 1 to 10 % of the
rows of a table looked up), and 2 to 4 for SGD. So where a step looks up a fifth of the rows or more, nothing is spared.
"""


def ignored_rows(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of a pass that computes rows which the loss ignores, or goes back through them.

    A loss that is made between the phases is made of the rows that a forward pass computes.
    """
    first, is_first = PASSES[0], phase == PASSES[0]
    phases = (phase, "other") if is_first else (phase,)
    lines, within = unused_rows(profile, profile.ignored, *phases), facts.shares[phase]
    if is_first and unused_rows(profile, profile.ignored, "other"):
        within = together(within, facts.shares["other"])
    known = sum(line.share for line in lines)
    if known < least:
        return
    forth = (
        f"of the rows that are computed there the loss uses {percentage(share_used(profile.ignored))}; it ignores the "
        "others (by their labels, a mask or an index), and they need not be computed"
    )
    yield Suspect(
        phase=phase,
        share=from_profile(known, within, profile),
        why=forth if is_first else "it goes back through rows that the loss ignores, and whose gradients are all zero",
        **largest(lines),
        comparable=False,
        back_through="" if is_first else first,
        does=IGNORED,
        does_at=_only_line(profile.ignored, first),
    )


def dense_gradients(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of a pass that makes gradients as large as tables of which a step looks up some rows."""
    found = _of_tables(facts, profile, phase, least)
    if found:
        yield found


def suspect_tables(facts: RunFacts, least: float) -> Suspect | None:
    """Return the time in which an optimizer goes over rows of tables that a step does not look up.

    None if it is certainly too little. `least` is the least share of the time, 0 to 1, that matters.
    """
    found = _of_tables(facts, facts.profile, UPDATES, 0.0) if facts.profile else None
    return found if found and found.share.upper >= least else None


def _of_tables(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Suspect | None:
    """Return the time that a phase would spare by sparse gradients; None if it is nothing, or less than `least`."""
    lines = unused_rows(profile, [_spared(table) for table in profile.tables], phase)
    known = sum(line.share for line in lines)
    if not lines or known < least:
        return None
    share = from_profile(known, facts.shares[phase], profile)
    rows = percentage(share_used(profile.tables))
    return Suspect(
        phase=phase,
        share=share,
        why=f"a step looks up {rows} of the rows of a table, and its gradient is dense, so the optimizer goes over all "
        "of them. With `sparse=True`, an optimizer that takes sparse gradients (SGD without momentum, Adagrad, "
        "SparseAdam) goes over those that were looked up. With Adam that is another training, in which a row rests "
        "until it is looked up",
        **largest(lines),
        **beside_lost(facts, phase, share),
        comparable=False,
        back_through="" if phase == UPDATES else UPDATES,
        does=TABLES,
        does_at=_only_line(profile.tables, UPDATES),
    )


def _spared(table: Unused) -> Unused:
    """Return a table with the seconds that sparse gradients would spare in place of those of all rows without one."""
    part = max(0.0, 1 - SPARSE_ROW_COST * (1 - table.share)) / table.share
    return replace(table, seconds={phase: part * seconds for phase, seconds in table.seconds.items()})


def _only_line(lines: Sequence[Unused], phase: str) -> str:
    """Return the only line of several; the phase if there are more."""
    return lines[0].where if len(lines) == 1 else phase
