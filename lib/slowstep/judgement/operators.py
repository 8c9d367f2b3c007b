"""The purpose of PyTorch's operators: some are the arithmetic of training, and others do something beside it.

The names are those of ATen, the library that runs them (`aten::addmm`), and of kernels that replace them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slowstep.records import Operator, Place, ProfileRecord
from slowstep.text.numbers import percentage
from slowstep_probe.measured import TRAINS
from slowstep_probe.operator_names import PRODUCTS
from slowstep_probe.profiled import Unused

ATTENTION_OPERATORS = re.compile(
    r"scaled_dot_product|flash_attention|efficient_attention|::b(addb)?mm|_softmax|sdpa", re.I
)
"""Attention's own products; projections are not among them, and nothing else in a language model multiplies batches."""

LOSS = re.compile(r"log_softmax|nll_loss|cross_entropy|mse_loss|l1_loss|huber|kl_div|ctc_loss|embedding_bag", re.I)
"""Operators that a loss is made of. They are training wherever the loop computes them."""

FRAMES = re.compile(r"Backward\d+$|^autograd::|^Optimizer\.")
"""Frames that autograd and optimizers put around operators. Their own time is that of launching."""

HINTS = (
    (re.compile(r"bernoulli|dropout|::rand|::uniform_|::normal_", re.I), "random numbers, mostly of dropout"),
    (re.compile(r"::pow|::tanh|::erf|::exp$"), "an activation made of single operators; a fused one does it in one"),
    (re.compile(r"::item|_local_scalar_dense|::nonzero|::is_nonzero|::equal", re.I), "values read back to Python"),
    (re.compile(r"::copy_|::_to_copy|::to$|::contiguous|::clone|::cat|::stack", re.I), "copies and casts"),
    (re.compile(r"::index|::gather|::scatter|::masked|::where|::select|::slice|::fill_|::tri[ul]", re.I), "indexing"),
    (re.compile(r"sort|topk|unique|cumsum|histc", re.I), "sorting and counting"),
    (re.compile(r"dequantize|quantize|bitsandbytes", re.I), "quantising"),
)
"""Operators beside the arithmetic, and what they do, in words."""


LEAST_REST_OF_FUNCTION = 0.1
"""The lines of a function that are too small to be named are told together if they take at least this part of its
time."""

LARGE_PRODUCT_RATE = 0.7
"""The part of the measured rate that a large product with weights reaches: between half of it and all, so the middle of
both."""

PROFILE_ERROR, SHORT_PROFILE_ERROR = 1.5, 2.0
"""The factors by which a share from a profile of some steps may be off, and from one of fewer than `ENOUGH_STEPS`."""

ENOUGH_STEPS = 3
"""The fewest steps whose median one disturbed step does not move."""

MOST_LINES = 2
"""The most lines that are named where each of them may hold something."""


@dataclass(frozen=True, kw_only=True)
class ProfileShare:
    """A part of the profiled time: what it is, and its share, 0 to 1."""

    what: str
    share: float

    def __str__(self) -> str:
        return f"{self.what} {percentage(self.share)}"


def beside(profile: ProfileRecord, phase: str) -> list[ProfileShare]:
    """Return the parts of a pass beside the arithmetic of training, largest first: operators, and time without any."""
    parts = [
        ProfileShare(what=_shown(o), share=o.seconds / profile.seconds)
        for o in profile.by_phase.get(phase, ())
        if not any(_matches(o, kind) for kind in (PRODUCTS, LOSS, FRAMES))
    ]
    pause = profile.pauses.get(phase, 0.0) / profile.seconds
    if pause > 0:
        parts.append(
            ProfileShare(what=f"Python code or waiting while no operator runs{_where(profile, phase)}", share=pause)
        )
    return sorted(parts, key=lambda part: -part.share)


def pause(profile: ProfileRecord, phase: str) -> float:
    """Return the share of the time, 0 to 1, in which no operator runs for a millisecond or longer within a phase."""
    return profile.pauses.get(phase, 0.0) / profile.seconds


def looped(profile: ProfileRecord, phase: str, rate: float | None) -> ProfileShare | None:
    """Return the loop in Python within a phase, which lines of the user's code run or call; None where there is none.

    The profiler makes each call longer, so its share is at most what these lines take in steps without it. Small
    products are lost as far as a large one would be faster, at `LARGE_PRODUCT_RATE` of the `rate` (FLOP/s).
    """
    loop = profile.loops.get(phase)
    own = sum(p.share for p in profile.places if p.phase == phase and p.own)
    if loop is None or own <= 0:
        return None
    small = max(0.0, loop.products - loop.flops / (LARGE_PRODUCT_RATE * rate)) if rate else 0.0
    share = min(own, (loop.seconds + small) / profile.seconds)
    times = f"{loop.calls / profile.steps:,.0f} times a step"
    back = "the way back through " if loop.of else ""
    where = line_of_loop(profile, loop.of or phase)
    what = f"{back}{loop.name} {times}, one by one from Python{f', at {where}' if where else ''}"
    return ProfileShare(what=what, share=share)


def line_of_loop(profile: ProfileRecord, phase: str) -> str:
    """Return the line of a phase that runs its loop: that calls modules side by side, or a model by turns.

    Else it is the largest that calls operators about as often as the loop turns. Where no line is known to do so, it is
    the largest that takes no more than the loop does.
    """
    loop = profile.loops[phase]
    if loop.where:
        return loop.where
    if calling := next((one.where for one in profile.pass_loops if (one.phase, one.name) == (phase, loop.name)), ""):
        return calling
    if turning := _turning(profile, phase):
        return max(turning, key=lambda line: turning[line])
    found = [p for p in profile.places if p.phase == phase and p.own]
    most = profile_error(profile) * (loop.seconds + loop.products) / profile.seconds
    line = next((p for p in found if p.share <= most), found[0] if found else None)
    return line.where if line else ""


def loop_without_gradients(profile: ProfileRecord, phase: str) -> float:
    """Return the share of the time, 0 to 1, of all turns of a loop without gradients; 0 where it has some.

    Looks at the stack tell it without a profiler, where the lines of the loop are known.
    """
    seen = profile.loops[phase].without_gradients / profile.seconds
    return max(seen, sum(_turning(profile, phase).values())) if seen else 0.0


def _turning(profile: ProfileRecord, phase: str) -> dict[str, float]:
    """Return the lines that call operators about as often as a loop turns, with their shares of the time."""
    called = profile.called.get(phase, {})
    most = max(called.values(), default=0.0)
    if most < profile.loops[phase].calls / profile.steps / 2:
        return {}
    share = {p.where: p.share for p in profile.places if p.phase == phase and p.own}
    return {line: share.get(line, 0.0) for line, times in called.items() if times >= most / 2}


def lines_of_written_out(profile: ProfileRecord, what: str, phase: str) -> list[str]:
    """Return the lines of a phase that may hold what is written out, as `_lines_of` does."""
    return _lines_of(profile, phase, profile.written_out[what].get(phase, 0.0) / profile.seconds)


def memory_moves(profile: ProfileRecord, phase: str) -> list[ProfileShare]:
    """Return the operators of a pass that only move numbers, each with what called it, largest first."""
    return [ProfileShare(what=o.name, share=o.seconds / profile.seconds) for o in profile.moves.get(phase, ())]


def computed_again(profile: ProfileRecord, phase: str) -> list[ProfileShare]:
    """Return the lines whose operators compute the same again in a pass, or go back through that, largest first."""
    of = {"forward": profile.again, "backward": profile.again_backward}
    return largest_first({line: seconds / profile.seconds for line, seconds in of[phase].items()})


def unused_rows(profile: ProfileRecord, lines: Sequence[Unused], *phases: str) -> list[ProfileShare]:
    """Return lines with the share of the time that their unused rows take in some phases, largest first."""
    seconds = {one.where: sum(one.seconds.get(phase, 0.0) for phase in phases) for one in lines}
    return largest_first({line: taken / profile.seconds for line, taken in seconds.items() if taken > 0})


def share_used(lines: Sequence[Unused]) -> float:
    """Return the share of rows, 0 to 1, that are used, over the line whose unused rows take most time."""
    return 1.0 - max(lines, key=lambda one: sum(one.seconds.values())).share


def largest_first(shares: Mapping[str, float]) -> list[ProfileShare]:
    """Return lines with their shares of the time, largest first."""
    return [ProfileShare(what=line, share=share) for line, share in sorted(shares.items(), key=lambda one: -one[1])]


def lines_of_moves(profile: ProfileRecord, phase: str) -> list[str]:
    """Return the lines of a phase that may move the numbers, as `_lines_of` does."""
    return _lines_of(profile, phase, sum(part.share for part in memory_moves(profile, phase)))


def _lines_of(profile: ProfileRecord, phase: str, share: float) -> list[str]:
    """Return the lines of the user's code in a phase that may hold most of a share, largest first; none if many may.

    A line that takes far more may hold it as well, but does not tell where it is if no other line may.
    """
    may_hold = [p for p in profile.places if p.phase == phase and p.own and p.share >= share / 2]
    tells = any(p.share <= profile_error(profile) * share for p in may_hold)
    return [p.where for p in may_hold] if tells and len(may_hold) <= MOST_LINES else []


def profile_error(profile: ProfileRecord) -> float:
    """Return the factor by which a share from a profile may be off: more where one step may be a disturbed one."""
    return PROFILE_ERROR if profile.steps >= ENOUGH_STEPS else SHORT_PROFILE_ERROR


def training(profile: ProfileRecord, phase: str) -> float:
    """Return the share of the time, 0 to 1, that products and losses take within a phase."""
    found = profile.by_phase.get(phase, ())
    known = sum(o.seconds for o in found if _matches(o, PRODUCTS) or _matches(o, LOSS))
    return max(known, profile.losses if phase == "other" else 0.0) / profile.seconds


def share_of(profile: ProfileRecord, kind: re.Pattern[str]) -> float:
    """Return the share of the time, 0 to 1, that operators of a kind take in all phases together."""
    every: Iterable[Operator] = (o for operators in profile.by_phase.values() for o in operators)
    return sum(o.seconds for o in every if _matches(o, kind)) / profile.seconds


def places(seen: Sequence[Place], phase: str, least: float) -> list[ProfileShare]:
    """Return the places in the code where a phase spends at least the share `least` of the time, largest first.

    A function that trains nothing, an update of averages say, is one place with all that it runs, but for lines that
    take so much alone.

    Between the phases, a line at which the training spends more in a pass or an optimizer is none of them: it calls all
    of that, `trainer.fit(model)` say, and the time beside it is the way of a library from one phase to the next.
    """
    there = [p for p in seen if p.phase == phase]
    lines = [p for p in there if p.share >= least]
    calls = {p.where for p in lines if phase == "other" and p.share < _trained_at(seen, p.where)}
    found = [ProfileShare(what=_named(p), share=p.share) for p in lines if p.where not in calls]
    functions = {p.within: p.together for p in there if p.within and p.together >= least}
    for function, share in functions.items():
        rest = share - sum(p.share for p in lines if p.within == function)
        small = next((p for p in there if p.within == function and p not in lines), None)
        if small is not None and rest >= LEAST_REST_OF_FUNCTION * share:
            found.append(ProfileShare(what=f"{_named(small)} and other lines that {_name(function)} runs", share=rest))
    return sorted(found, key=lambda part: -part.share)


def _name(function: str) -> str:
    """Return the name of a function without its file, `train.py in update`."""
    return function.rpartition(" ")[2]


def _named(place: Place) -> str:
    return f"{place.where} (there mostly {place.inside})" if place.inside else place.where


def _trained_at(seen: Sequence[Place], where: str) -> float:
    return sum(p.share for p in seen if p.where == where and p.phase in TRAINS)


def _matches(operator: Operator, kind: re.Pattern[str]) -> bool:
    return kind.search(operator.name) is not None


def _shown(operator: Operator) -> str:
    hint = next((words for kind, words in HINTS if kind.search(operator.name)), "")
    return f"{operator.name} ({hint})" if hint else operator.name


def _where(profile: ProfileRecord, phase: str) -> str:
    found = [p for p in profile.places if p.phase == phase and p.own]
    return f", at {found[0].where}" if found else ""
