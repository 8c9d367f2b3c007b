"""Suspects: phases with time that a healthy run would not spend, whether or not a factor of the catalogue acts on it.

Waiting for data, copying, logging, saving and evaluating train nothing, so their time is always suspected. Two other
kinds of time may be a hook, a sleep or a slow operator, but also just the price of launching many small operations.
They are suspected only with evidence of what they consist of: lines of code, operators, or long steps.

- **Time between the phases** counts where it is spent at places in the code that each take a good part of it, lines or
  functions that train nothing, or in steps that are far longer than the others. Python's ordinary way from one phase to
  the next is spread over many lines.
- **A pass** is compared with the other pass by their FLOPs, but only where the other pass reaches a good part of the
  device's rate: FLOPs say nothing about a step that is bound by launching. Its excess counts as far as operators beside
  the products, or stretches without any operator, account for it. Without FLOPs, what computes nothing counts:
  stretches without any operator, loops of the user's own that call operators one by one, and operators that only copy,
  fill or arrange memory, beyond what every model has of them. So does what one operator spares: attention, or a
  product of matrices, that is written out.

A change explains such time if the time is gone in the change's own blocks. Time that no supported change takes away
stays "unexplained"; it is never blamed on a factor that happens to be listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slowstep.judgement.flops import TokenFlops
from slowstep.judgement.intervals import Interval
from slowstep.judgement.operators import (
    PROFILED_TO,
    Part,
    beside,
    line_of_loop,
    line_of_moves,
    line_of_written_out,
    looped,
    moved,
    pause,
    places,
    training,
    trust,
)
from slowstep.judgement.ranks import Skew, collectives, node_of_rank, skew
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.shares import difference, long_steps
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.timeline import Timeline
from slowstep.records import ProfileRecord
from slowstep_probe.measured import ATTENTION, PRODUCT, WHERE_RANKS_WAIT

WAITING = ("data", "host_to_device", "communication", "log", "save", "evaluate")
"""The phases that train nothing, whatever they consist of."""

PASSES = ("forward", "backward")

UNEVEN = 1.5
"""The multiple of its part by FLOPs beyond which a pass is suspected. Both passes reach similar, not equal, rates."""

KNOWN_TO = 1.15
"""The factor by which the part of a pass by its FLOPs may be off, for the same reason. The interval of what the pass
loses is widened by it."""

BINDS = 0.5
"""The share of what the device computes at most (`devices.Peak.most`) from which on a pass is bound by its arithmetic.
Then the other pass is compared with it."""

NAMED = 0.5
"""The share of the least time that matters from which on a place or an operator is named."""

LOOP, MOVING = "a loop in Python", "moving numbers in memory"
"""What suspects do."""

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

WRITTEN_ANYWAY = {ATTENTION: 0.0, PRODUCT: 0.1}
"""The share of the time in a pass from which on what is written out counts. A mask times a loss takes little."""

OFTEN = 1 / 3
"""The share of long steps beyond which a phase is slow throughout, and not now and then."""

MOST_NAMED = 3
"""The most places or operators that are named of a suspect."""

MOVES_ANYWAY, USUALLY = 0.12, 0.03
"""The shares of the time that a pass takes at most, and usually, to move numbers: 11 % where Swin shifts its windows.
Of 46 architectures, only those that take sequences apart take more (docs/method.md)."""

LINE = re.compile(r"(?P<file>\S+):(?P<line>\d+)(, \d+)*( and others)? in (?P<function>\S+)")
"""A place in the code, `train.py:7 in dice`, or several of one function."""

LITTLE = 0.5
"""The most that a change which takes a loss away may leave of it, as a share of the least that the phase loses."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A phase with lost time: `share`, 0 to 1, is the part of the wall time that a healthy run would not spend."""

    phase: str
    share: Interval
    why: str
    consists_of: list[str] = field(default_factory=list)
    """Lines of code or operators, with their shares, largest first."""
    mostly: str = ""
    """The largest of them, or the function of several lines that take more together; empty if there is none."""
    rank: int | None = None
    """The rank that the others wait for; None if that is no matter of one rank."""
    node: int | None = None
    """The node of that rank."""
    ordinary: float = 0.0
    """The share of the wall time that the phase takes beside the lost one. Each step still takes as long without the
    loss."""
    ordinary_at_most: float = 0.0
    """The most that this may be: what is lost is known within its interval."""
    back_through: str = ""
    """The phase with what this is the way back through: a loop, say."""
    does: str = ""
    """What is done there, or gone back through: `LOOP`, `MOVING` or of `WRITTEN_OUT`; empty where that is not told."""
    does_at: str = ""
    """The line that does it, or that this is the way back through; the phase where no line is known to."""
    comparable: bool = True
    """True if the blocks of a changed run tell how much of it is left. A profile tells only about the baseline."""

    @property
    def at(self) -> str:
        """Return where most of it is in few words; empty if that is not known."""
        return self.mostly or next(iter(self.consists_of), "")

    @property
    def ratio(self) -> float:
        """Return the speed-up if that time were gone, as a ratio."""
        return speed_up(self.share.mean)

    @property
    def least(self) -> float:
        """Return the same speed-up at the lower end of the share."""
        return speed_up(self.share.lower)

    @property
    def most(self) -> float:
        """Return the same speed-up at the upper end of the share."""
        return speed_up(self.share.upper)


def lost(steps: Timeline, flops: TokenFlops | None) -> dict[str, Interval]:
    """Return the share of the wall time, 0 to 1, that each phase loses.

    A phase that trains nothing loses all its time. A pass loses what it takes beyond its part by FLOPs: 0 if it takes
    no more. A pass is absent if the FLOPs are not known.
    """
    found = {p: steps.share(p) for p in (*WAITING, "other")}
    for phase, other, part in _parts(flops):
        if _excess(steps, phase, other, UNEVEN * part).lower > 0:
            least, most = (_excess(steps, phase, other, part * by) for by in (KNOWN_TO, 1 / KNOWN_TO))
            found[phase] = replace(_excess(steps, phase, other, part), lower=least.lower, upper=most.upper)
        else:
            found[phase] = Interval(mean=0.0, lower=0.0, upper=0.0, p=1.0, n=len(steps.position))
    return found


def suspects(facts: RunFacts, minimum: float) -> list[Suspect]:
    """Return the phases whose lost time is certainly worth a gain of `minimum` (0.05 for 5 %); largest first."""
    least = minimum / (1 + minimum)
    found = [_suspect_wait(facts, phase, least) for phase in WAITING]
    found.append(_suspect_between_phases(facts, least))
    found += [_suspect_pass(facts, phase, least) for phase in PASSES]
    slow = skew(facts.blocks, least)
    if slow is not None:
        found = [_of_slow_rank(slow, facts, found)] + [s for s in found if s and s.phase != slow.phase]
    return sorted((s for s in found if s and s.least - 1 >= minimum), key=lambda s: -s.ratio)


@dataclass(frozen=True, kw_only=True)
class Left:
    """Lost time that a change leaves, as shares of the baseline's wall time for the same samples, 0 to 1, by phase."""

    least: Mapping[str, float]
    """The least that the changed run still loses. The time of a phase that is absent is not known to be gone."""
    most: Mapping[str, float] = field(default_factory=dict)
    """The most that the changed run still loses."""
    before: Mapping[str, float] = field(default_factory=dict)
    """What the baseline lost in the same pairs, told in the same way. If it lost nothing there, met no stalls say, the
    absence of a loss after proves nothing."""
    steps: float = 1.0
    """The steps that the changed run takes for what the baseline does in one."""
    seen: Mapping[str, float] = field(default_factory=dict)
    """What is certainly lost with all that is adopted, this change among it, where a profile of that tells it."""

    def least_of(self, suspect: Suspect) -> float:
        """Return the least that is left of what a suspect loses: of what is seen, no more than this change leaves."""
        if suspect.phase in self.seen:
            return max(0.0, min(self.seen[suspect.phase], self.most_of(suspect)))
        return max(0.0, self.least[suspect.phase] - suspect.ordinary_at_most * self.steps)

    def most_of(self, suspect: Suspect) -> float:
        """Return the most that is left of what a suspect loses; all of the time if that is not known."""
        most = self.most.get(suspect.phase)
        return 1.0 if most is None else most - suspect.ordinary * self.steps


def unexplained(found: Sequence[Suspect], left: Sequence[Left], minimum: float) -> list[tuple[Suspect, float]]:
    """Return the suspects that no change takes away, each with the share of the wall time that stays at best.

    `left` says what each supported change leaves.
    """
    stays = [(s, min([s.share.mean, *(one.least_of(s) for one in left if eased(s, one))])) for s in found]
    return [(s, share) for s, share in stays if speed_up(share) - 1 >= minimum]


def met(suspect: Suspect, left: Left) -> bool:
    """Return whether the baseline of the same pairs lost about as much as the suspect says.

    Only then does it mean something that the changed run does not lose it.
    """
    return suspect.comparable and left.before.get(suspect.phase, 1.0) - suspect.ordinary >= LITTLE * suspect.share.lower


def eased(suspect: Suspect, left: Left) -> bool:
    """Return whether a changed run is shown to lose less than the suspect does."""
    return met(suspect, left) and left.most_of(suspect) < suspect.share.lower


def gone(suspect: Suspect, left: Left) -> bool:
    """Return whether a changed run is shown to lose little of what the suspect loses."""
    return met(suspect, left) and left.most_of(suspect) <= LITTLE * suspect.share.lower


def achieved(facts: RunFacts, phase: str) -> float | None:
    """Return the rate at which a pass computes, as a share of the device's peak; None where that is not known."""
    tokens, peak = facts.throughput.padded_tokens_per_second, facts.peak_flops
    if facts.flops is None or not tokens or not peak or not facts.share(phase):
        return None
    work = facts.flops.forward if phase == "forward" else facts.flops.backward
    return work * tokens / facts.share(phase) / peak


def _of_slow_rank(slow: Skew, facts: RunFacts, found: Sequence[Suspect | None]) -> Suspect:
    """Return the suspect of a rank that the others wait for, with what is known of the phase in which it is slow."""
    known = next((s for s in found if s and s.phase == slow.phase), None)
    node = node_of_rank(slow.rank, facts.on_nodes)
    on_node = f" (on node {node})" if len(facts.on_nodes) > 1 else ""
    return Suspect(
        **_beside(facts, slow.phase, slow.share),
        phase=slow.phase,
        share=slow.share,
        why=f"rank {slow.rank}{on_node} takes that much longer there than any other, and they wait for it meanwhile",
        consists_of=known.consists_of if known else [],
        mostly=known.mostly if known else "",
        rank=slow.rank,
        node=node,
    )


def _suspect_wait(facts: RunFacts, phase: str, least: float) -> Suspect:
    named = places(facts.places, phase, NAMED * least)
    why = "it trains nothing" + _now_and_then(facts, phase)
    share = facts.shares[phase]
    return Suspect(phase=phase, share=share, why=why, **_named(_within(named, share)))


def _suspect_between_phases(facts: RunFacts, least: float) -> Suspect | None:
    """Return the time between the phases that is spent at single places or in long steps; None if it is too little.

    `least` is the least share of the time that matters, here and in `_suspect_pass`.
    """
    share, profile = facts.shares["other"], facts.profile
    named = places(facts.places, "other", NAMED * least)
    at_places = max(0.0, sum(p.share for p in named) - (training(profile, "other") if profile else 0.0))
    in_stalls = facts.timeline.in_stalls("other")
    if at_places >= in_stalls:
        known = min(at_places, share.upper)
        lower, upper = known / PROFILED_TO, min(known * PROFILED_TO, share.upper)
        share = share if known >= share.mean else replace(share, mean=known, lower=min(lower, share.lower), upper=upper)
    else:
        rest = share.mean - in_stalls
        share = replace(share, mean=in_stalls, lower=max(0.0, share.lower - rest), upper=share.upper - rest)
    if share.mean < least:
        return None
    why = "it trains nothing" + _now_and_then(facts, "other")
    beside_it = _beside(facts, "other", share)
    return Suspect(phase="other", share=share, why=why, **_named(_within(named, facts.shares["other"])), **beside_it)


def _beside(facts: RunFacts, phase: str, loses: Interval) -> dict[str, float]:
    """Return the time of a phase beside what it `loses`, as a suspect holds it. Of a pass the loss alone is told."""
    if phase in PASSES:
        return {}
    whole = facts.shares[phase].mean
    return {"ordinary": max(0.0, whole - loses.mean), "ordinary_at_most": max(0.0, whole - loses.lower)}


def _suspect_pass(facts: RunFacts, phase: str, least: float) -> Suspect | None:
    """Return the time of a pass beyond its arithmetic of which it is known what it consists of; None if too little."""
    if facts.profile is None:
        return None
    named = [part for part in beside(facts.profile, phase) if part.share >= NAMED * least]
    told = (_by_operators(facts, phase, least, named), _in_python(facts, phase, least, named))
    told += (_moving(facts, phase, least), _through_earlier_steps(facts, phase, least))
    found = [one for one in (*told, *_written_out(facts, phase, least)) if one]
    return max(found, key=lambda one: one.share.lower, default=None)


def _by_operators(facts: RunFacts, phase: str, least: float, named: Sequence[Part]) -> Suspect | None:
    """Return the suspect of operators beside the arithmetic, or None: those that make a pass longer than its FLOPs."""
    known, excess = sum(part.share for part in named), _beyond_flops(facts, phase)
    if not excess or known < least:
        return None
    other = PASSES[1 - PASSES.index(phase)]
    share = excess if known >= excess.lower else _from_profile(known, excess, facts.profile)
    why = f"it takes longer than its FLOPs beside those of the {other} pass explain"
    return Suspect(phase=phase, share=share, why=why, **_named(named))


def _in_python(facts: RunFacts, phase: str, least: float, named: Sequence[Part]) -> Suspect | None:
    """Return the suspect of Python code in a pass, or None: code that waits, or that calls operators in a loop."""
    together = int(facts.observed.get("world_size") or 1) > 1
    waits = 1.0 if phase in WHERE_RANKS_WAIT and together else collectives(facts.blocks).get(phase, 0.0)
    known, why = max(0.0, pause(facts.profile, phase) - waits), "no operator runs there for milliseconds"
    back: dict[str, str] = {}
    parts = [part for part in named if part.what.startswith("Python")]
    loop = looped(facts.profile, phase, facts.product_rate)
    if loop and loop.share > known:
        of = facts.profile.loops[phase].of
        known, parts = loop.share, [loop]
        why = "it goes back through a loop in Python" if of else "a loop in Python runs there"
        back = {"back_through": of, "does": LOOP, "does_at": line_of_loop(facts.profile, of or phase)}
    if known < least or not parts:
        return None
    share = _from_profile(known, facts.shares[phase], facts.profile)
    return Suspect(phase=phase, share=share, why=why, **_named(parts), comparable=False, **back)


def _moving(facts: RunFacts, phase: str, least: float) -> Suspect | None:
    """Return the suspect of operators in a pass that only move numbers, or None where they are as few as elsewhere.

    How many healthy models have is known of a CPU alone: a device multiplies far faster, and copies weigh more there.
    """
    if facts.profile.device != "cpu":
        return None
    parts = moved(facts.profile, phase)
    taken = sum(part.share for part in parts)
    if taken < max(MOVES_ANYWAY, least + USUALLY):
        return None
    share = _from_profile(taken - USUALLY, facts.shares[phase], facts.profile)
    forth = sum(part.share for part in moved(facts.profile, PASSES[0])) >= MOVES_ANYWAY
    at = line_of_moves(facts.profile, PASSES[0]) if forth else ""
    why = f"operators only copy, fill or arrange memory there{f', mostly at {at}' if at and phase == PASSES[0] else ''}"
    back = {"back_through": PASSES[0]} if forth and phase != PASSES[0] else {}
    named = _named([part for part in parts if part.share >= NAMED * least])
    return Suspect(
        phase=phase, share=share, why=why, **named, comparable=False, does=MOVING, does_at=at or PASSES[0], **back
    )


def _through_earlier_steps(facts: RunFacts, phase: str, least: float) -> Suspect | None:
    """Return the suspect of a backward pass that goes through what earlier steps computed, or None."""
    known = facts.profile.earlier / facts.profile.seconds if phase == "backward" else 0.0
    if known < least:
        return None
    return Suspect(
        phase=phase,
        share=_from_profile(known, facts.shares[phase], facts.profile),
        why="it goes back through what earlier steps computed, too: a state or a loss that is kept without detach()",
        **_named([Part(what="going back through earlier steps", share=known)]),
        comparable=False,
    )


def _written_out(facts: RunFacts, phase: str, least: float) -> Iterator[Suspect]:
    """Yield the suspects of what a program writes out. The attention of transformers is a setting, which is tried."""
    for what, phases in facts.profile.written_out.items():
        share = phases.get(phase, 0.0) / facts.profile.seconds
        if share < max(least, WRITTEN_ANYWAY[what]) or (
            what == ATTENTION and facts.observed.get("attn_implementation")
        ):
            continue
        does, consists, why = WRITTEN_OUT[what]
        at = line_of_written_out(facts.profile, what, PASSES[0])
        consists = f"{consists}{f', mostly at {at}' if at else ''}" if phase == PASSES[0] else "going back through that"
        within = _from_profile(share, facts.shares[phase], facts.profile)
        yield Suspect(
            phase=phase,
            share=within,
            why=why,
            **_named([Part(what=consists, share=within.mean)]),
            comparable=False,
            back_through=PASSES[0] if phase != PASSES[0] else "",
            does=does,
            does_at=at or PASSES[0],
        )


def _from_profile(known: float, within: Interval, profile: ProfileRecord) -> Interval:
    """Return the interval of a share that a profile of a few steps gives: a part of `within`, and at most that."""
    by = trust(profile)
    upper = min(known * by, within.upper)
    return Interval(mean=min(known, upper), lower=min(known / by, upper), upper=upper, p=1.0, n=within.n)


def _beyond_flops(facts: RunFacts, phase: str) -> Interval | None:
    """Return the share a pass takes beyond its part by FLOPs; None unless arithmetic binds the other pass."""
    rate = achieved(facts, PASSES[1 - PASSES.index(phase)])
    excess = lost(facts.timeline, facts.flops).get(phase)
    return excess if rate is not None and rate >= BINDS and excess and excess.lower > 0 else None


def _within(parts: Sequence[Part], share: Interval) -> list[Part]:
    """Return the parts as shares that are together no more than a phase takes.

    The profiled steps may hold more of what comes now and then, an evaluation say, than others do on the mean.
    """
    by = min(1.0, share.mean / max(sum(part.share for part in parts), 1e-9))
    return [replace(part, share=by * part.share) for part in parts]


def function_at(place: str) -> tuple[str, ...]:
    """Return the file and the function of the place in a text, `train.py:7 in dice 20 %`; () if it has none."""
    at = LINE.search(place)
    return at.group("file", "function") if at else ()


def _named(parts: Sequence[Part]) -> dict[str, Any]:
    """Return what a suspect consists of, as it holds that, from its parts, largest first."""
    return {"consists_of": [str(part) for part in parts[:MOST_NAMED]], "mostly": _mostly(parts)}


def _mostly(parts: Sequence[Part]) -> str:
    """Return the function whose lines take most, `train.py:7, 9 in dice 35 %`, or a part that takes more alone."""
    together = defaultdict[tuple[str, ...], list[Part]](list)
    for part in parts:
        at = LINE.match(part.what)
        together[at.group("file", "function") if at else (part.what,)].append(part)
    most = max(together.values(), key=lambda some: sum(part.share for part in some), default=[])
    if len(most) < 2:
        return "".join(map(str, most))
    at = [LINE.match(part.what) for part in most]
    every = list(dict.fromkeys(one["line"] for one in at))
    lines = ", ".join(every[:MOST_NAMED]) + " and others" * (len(every) > MOST_NAMED)
    return str(Part(what=f"{at[0]['file']}:{lines} in {at[0]['function']}", share=sum(part.share for part in most)))


def _parts(flops: TokenFlops | None) -> list[tuple[str, str, float]]:
    """Return each pass with the other, and their ratio in FLOPs; nothing where the model's sizes are not known."""
    if flops is None or flops.forward <= 0 or flops.backward <= 0:
        return []
    part = flops.forward / flops.backward
    return [("forward", "backward", part), ("backward", "forward", 1 / part)]


def _excess(steps: Timeline, phase: str, other: str, part: float) -> Interval:
    return difference(steps.phases[phase], part * steps.phases[other], steps.whole)


def _now_and_then(facts: RunFacts, phase: str) -> str:
    """Return a note on how often long steps come, if a few of them hold most of the phase; else an empty text."""
    taken = facts.timeline.phases[phase]
    far = long_steps(taken)
    long = far > 0.1 * facts.timeline.whole.mean()
    if not 0 < long.mean() <= OFTEN or far[long].sum() < 0.5 * taken.sum():
        return ""
    return f"; one step in {1 / long.mean():.0f} is a long one, and those hold most of it"
