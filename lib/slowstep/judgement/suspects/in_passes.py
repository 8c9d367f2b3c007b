"""Suspects in the passes: kinds of time that a healthy forward or backward pass would not take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from slowstep.judgement.intervals import Interval
from slowstep.judgement.observed_sizes import ranks_of
from slowstep.judgement.operators import (
    ProfileShare,
    beside,
    computed_again,
    line_of_loop,
    lines_of_moves,
    lines_of_written_out,
    loop_without_gradients,
    looped,
    memory_moves,
    pause,
)
from slowstep.judgement.ranks import collectives
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.suspects.lost import lost
from slowstep.judgement.suspects.suspect import NAMED, PASSES, Suspect, from_profile, largest
from slowstep.judgement.suspects.unused_results import what_nothing_uses
from slowstep.judgement.suspects.unused_rows import dense_gradients, ignored_rows
from slowstep.records import ProfileRecord
from slowstep.text.numbers import percentage
from slowstep_probe.measured import WHERE_RANKS_WAIT
from slowstep_probe.profiled import ATTENTION, PRODUCT

BINDS = 0.5
"""A pass is bound by its arithmetic from this share of what the device computes at most (`devices.Peak.most`).
Then the other pass is compared with it."""

LOOP, MOVING, AGAIN = "a loop in Python", "moving numbers in memory", "computing the same again"
"""What suspects do."""

SIDE_BY_SIDE = ", and none of its turns needs what another one makes, so one batched call could compute all of them"
"""What is told of a loop that calls modules side by side."""

WRITTEN_OUT = {
    ATTENTION: (
        "attention that is written out",
        "what lies between its two products",
        "attention is written out there, which scaled_dot_product_attention does in one operator",
    ),
    PRODUCT: (
        "a product that is written out",
        "multiplying elements, and summing them",
        "a product of matrices is written out there, and matmul or einsum lay none of the single products in memory",
    ),
}
"""What suspects do that write something out, what that consists of, and why it is lost."""

PART = 0.25
"""What takes less of one pass, as a part of the least that matters, is not looked at for what it takes of both."""

WRITTEN_ANYWAY = {ATTENTION: 0.0, PRODUCT: 0.1}
"""What is written out counts from this share of the time in a pass. A mask times a loss takes little."""

MOVES_ANYWAY, USUALLY = 0.12, 0.03
"""The shares of the time that a pass takes at most, and usually, to move numbers: 11 % where Swin shifts its windows.
Of 46 architectures, only those that take sequences apart take more (docs/method.md)."""


def suspect_passes(facts: RunFacts, least: float) -> list[Suspect]:
    """Return the kind of lost time that certainly takes most of each pass, of those that take the share `least`.

    What is done in one pass and gone back through in the other one may take that much in both of them together.
    """
    if facts.profile is None:
        return []
    alone = {phase: max(_of_kinds(facts, phase, least), key=_certain, default=None) for phase in PASSES}
    if all(alone.values()):
        return list(filter(None, alone.values()))
    small = {phase: list(_of_kinds(facts, phase, PART * least)) for phase in PASSES}
    forth, back = ([alone[phase]] if alone[phase] else small[phase] for phase in PASSES)
    pairs = [(there, way) for there, way in product(forth, back) if there.is_gone_back_through(way)]
    there, way = max(pairs, key=lambda pair: sum(map(_certain, pair)), default=(None, None))
    if not (there and way) or there.share.mean + way.share.mean < least:
        return list(filter(None, alone.values()))
    return [replace(there, other_pass=way.share), replace(way, other_pass=there.share)]


def _of_kinds(facts: RunFacts, phase: str, least: float) -> Iterator[Suspect]:
    return (suspect for kind in KINDS for suspect in kind(facts, facts.profile, phase, least))


def _certain(suspect: Suspect) -> float:
    return suspect.share.lower


def _by_operators(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of operators beside the arithmetic that make a pass longer than its FLOPs."""
    named = _beside_arithmetic(profile, phase, least)
    known, excess = sum(part.share for part in named), _beyond_flops(facts, phase)
    if not excess or known < least:
        return
    yield Suspect(
        phase=phase,
        share=excess if known >= excess.lower else from_profile(known, excess, profile),
        why=f"it takes longer than its FLOPs beside those of the {_other(phase)} pass explain",
        **largest(named),
    )


def _waiting(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of stretches without any operator, but for those in which ranks wait for each other."""
    together = ranks_of(facts.observed) > 1
    waits = 1.0 if phase in WHERE_RANKS_WAIT and together else collectives(facts.blocks).get(phase, 0.0)
    known = max(0.0, pause(profile, phase) - waits)
    parts = [part for part in _beside_arithmetic(profile, phase, least) if part.what.startswith("Python")]
    if known >= least and parts:
        share = from_profile(known, facts.shares[phase], profile)
        why = "no operator runs there for milliseconds"
        yield Suspect(phase=phase, share=share, why=why, **largest(parts), comparable=False)


def _looping(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of the user's own loop that calls operators one by one, or of the way back through one."""
    loop = looped(profile, phase, facts.product_rate)
    if loop is None or loop.share < least:
        return
    of, whole = profile.loops[phase].of, loop_without_gradients(profile, phase)
    abreast = SIDE_BY_SIDE if profile.loops[phase].where else ""
    share, kept = from_profile(loop.share, facts.shares[phase], profile), ""
    if whole > share.upper:
        share = replace(share, upper=min(whole, facts.shares[phase].upper))
        kept = f" ({percentage(whole)} in all; no gradient goes through it, so what it makes of data alone can be kept)"
    yield Suspect(
        phase=phase,
        share=share,
        why="it goes back through a loop in Python" if of else f"a loop in Python runs there{abreast}{kept}",
        **largest([loop]),
        comparable=False,
        back_through=of,
        does=LOOP,
        does_at=line_of_loop(profile, of or phase),
    )


def _moving(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of operators that only move numbers, where they are more than elsewhere.

    How many healthy models have is known of a CPU alone: a device multiplies far faster, and copies weigh more there.
    """
    parts = memory_moves(profile, phase)
    taken = sum(part.share for part in parts)
    if profile.device != "cpu" or taken < max(MOVES_ANYWAY, least + USUALLY):
        return
    first, is_first = PASSES[0], phase == PASSES[0]
    forth = sum(part.share for part in memory_moves(profile, first)) >= MOVES_ANYWAY
    lines = lines_of_moves(profile, first) if forth else []
    usual = f"beyond the {percentage(USUALLY)} of a usual model"
    yield Suspect(
        phase=phase,
        share=from_profile(taken - USUALLY, facts.shares[phase], profile),
        why=f"operators only copy, fill or arrange memory there{_at(lines) if is_first else ''}, {usual}",
        **largest([part for part in parts if part.share >= NAMED * least]),
        comparable=False,
        back_through=first if forth and not is_first else "",
        does=MOVING,
        does_at=_line_or(first, lines),
    )


def _through_earlier_steps(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of a backward pass that goes through what earlier steps computed."""
    known = profile.earlier / profile.seconds if phase == "backward" else 0.0
    if known < least:
        return
    yield Suspect(
        phase=phase,
        share=from_profile(known, facts.shares[phase], profile),
        why="it goes back through what earlier steps computed, too: a state or a loss that is kept without detach()",
        **largest([ProfileShare(what="going back through earlier steps", share=known)]),
        comparable=False,
    )


def _again(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspect of operators that compute what they have computed before, or of the way back through that."""
    first, is_first = PASSES[0], phase == PASSES[0]
    lines = computed_again(profile, phase)
    known = sum(line.share for line in lines)
    if known < least:
        return
    named = [line for line in lines if line.share >= NAMED * least] or lines
    forth = "it computes from the same values what the same step, or an earlier one, has computed before"
    back = "it goes back once more through what the step has computed before, or takes the same gradient again"
    yield Suspect(
        phase=phase,
        share=from_profile(known, facts.shares[phase], profile),
        why=forth if is_first else back,
        **largest(named),
        comparable=False,
        back_through="" if is_first else first,
        does=AGAIN,
        does_at=first,
    )


def _written_out(facts: RunFacts, profile: ProfileRecord, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspects of what a program writes out. The attention of transformers is a setting, which is tried."""
    for what, phases in profile.written_out.items():
        taken = phases.get(phase, 0.0) / profile.seconds
        is_setting = what == ATTENTION and facts.observed.get("attn_implementation")
        if is_setting or taken < max(least, WRITTEN_ANYWAY[what]):
            continue
        does, consists, why = WRITTEN_OUT[what]
        first, is_first = PASSES[0], phase == PASSES[0]
        lines = lines_of_written_out(profile, what, first)
        consists = f"{consists}{_at(lines)}" if is_first else "going back through that"
        share = from_profile(taken, facts.shares[phase], profile)
        yield Suspect(
            phase=phase,
            share=share,
            why=why,
            **largest([ProfileShare(what=consists, share=share.mean)]),
            comparable=False,
            back_through="" if is_first else first,
            does=does,
            does_at=_line_or(first, lines),
        )


def _at(lines: Sequence[str]) -> str:
    """Return where something is, for a sentence: at a line, or at one of a few."""
    return f", {'at' if len(lines) > 1 else 'mostly at'} {' or '.join(lines)}" if lines else ""


def _line_or(phase: str, lines: Sequence[str]) -> str:
    """Return the only line that may hold something; its phase if there is none, or more than one."""
    return lines[0] if len(lines) == 1 else phase


KINDS = (
    *(_by_operators, _waiting, _looping, _moving, _through_earlier_steps, _again, _written_out),
    *(ignored_rows, dense_gradients, what_nothing_uses),
)
"""What yields the suspects of each kind, from the facts, their profile, a pass, and the least share that matters."""


def _beside_arithmetic(profile: ProfileRecord, phase: str, least: float) -> list[ProfileShare]:
    return [part for part in beside(profile, phase) if part.share >= NAMED * least]


def _other(phase: str) -> str:
    return PASSES[1 - PASSES.index(phase)]


def _beyond_flops(facts: RunFacts, phase: str) -> Interval | None:
    """Return the share a pass takes beyond its part by FLOPs; None unless arithmetic binds the other pass."""
    rate = _achieved(facts, _other(phase))
    excess = lost(facts.timeline, facts.flops).get(phase)
    return excess if rate is not None and rate >= BINDS and excess and excess.lower > 0 else None


def _achieved(facts: RunFacts, phase: str) -> float | None:
    """Return the rate at which a pass computes, as a share of the device's peak; None where that is not known."""
    tokens, peak = facts.throughput.padded_tokens_per_second, facts.peak_flops
    if facts.flops is None or not tokens or not peak or not facts.share(phase):
        return None
    work = facts.flops.forward if phase == "forward" else facts.flops.backward
    return work * tokens / facts.share(phase) / peak
