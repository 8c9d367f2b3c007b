"""Bounds: the most that a factor could bring, known before its trial. A bound can refute a claim without a trial.

A bound is a function of the facts, the level's value and the size of an epoch. It returns a speed-up ratio with the
reason in words. The ratio rests on the upper end of a measured share, so it includes the noise of the measurement.

**Arithmetic.** A pass and the optimizer do the same work in each step, so a few steps are enough to measure it.

**Waits.** A wait for something outside (a disk, a network, a tracker) may come in one step of hundreds and take a fifth
of the time. Steps without such a wait say nothing about it. So the bound of a wait refutes only if stalls as rare as
`budget.rarest_stall` would have been met (`slowstep.judgement.timeline`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowstep.judgement.flops import ALLOWANCE
from slowstep.judgement.observed_sizes import positions_of_sample, samples_of_step
from slowstep.judgement.operators import ATTENTION_OPERATORS, PRODUCTS, profile_error, share_of
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.timeline import StepsSeen, Timeline
from slowstep.settings.run import DTYPES
from slowstep.text.numbers import percentage, signed

LARGEST_SHARE = 0.9
"""The share of a device's peak that no training exceeds. Where a run seems to, its peak or its FLOPs are wrong."""

WORKER_START_SECONDS = 10.0
"""Seconds to start loader workers at the beginning of an epoch, imports included: a generous guess. Where a launch
waited longer for its first batch, that counts: workers that are started anew may each be sent a large data set."""

STARTS, FIRST_STEPS = 3, 3
"""The fewest epochs whose beginnings were timed that tell what these take, and the steps that are a beginning: workers
that start take cores from the first of them."""

LARGEST_IDLE_SHARE = 0.1
"""The share of the time that a device may stand idle and still count as busy with its kernels."""

EMULATED_BELOW = 0.5
"""The ratio below which a precision is emulated for certain, and its bound refutes without a trial."""

UNINFORMATIVE_RATIO = 2.0
"""The ratio from which on a bound says nothing. Nearly every run could be twice as fast at its device's peak, and that
is no reason to expect a gain."""

EAGER_OVERHEAD = 4.0
"""The factor by which eager attention may take longer than its products and its softmax: scaling, mask, casts, dropout
and copies of keys go over tensors of the same size, and other implementations do without them."""

OPERATOR_CALL_SECONDS = 10e-6
"""The seconds, roughly, that calling an operator takes beside its arithmetic, from Python and under the profiler."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound: the throughput can grow to `ratio` times the baseline's at most, because of `why`."""

    ratio: float
    why: str
    evidence: StepsSeen | None = None
    """The steps that the measured share rests on; None where the bound rests on FLOPs or on the change itself."""
    suffices: bool = True
    """True if the bound may refute without a trial."""

    def __str__(self) -> str:
        text = f"at most {signed(self.ratio)} %: {self.why}"
        return f"{text} (seen on {self.evidence})" if self.evidence else text


@dataclass(frozen=True, kw_only=True)
class BoundQuery:
    """What a bound is asked for: a level of its factor, in a job of this epoch."""

    value: Any
    """The level's value."""
    epoch_samples: int | None
    """Samples of an epoch; None if not known."""


def bound(name: str | None, facts: RunFacts, value: Any, epoch_samples: int | None) -> Bound | None:
    """Return the bound called `name` in the catalogue; None where there is none or its facts were not measured.

    KeyError for a name that is not in `BOUNDS`.
    """
    return BOUNDS[name](facts, BoundQuery(value=value, epoch_samples=epoch_samples)) if name else None


def _phases(*phases: str, words: str, stalls: bool = True) -> Callable[[RunFacts, BoundQuery], Bound]:
    """Make the bound of phases, which can save their share of the step at most.

    `stalls` is True for phases that may wait for something outside, now and then for long.
    """

    def phase_bound(facts: RunFacts, query: BoundQuery) -> Bound:
        share = facts.most(*phases)
        why = f"{words} is at most {percentage(share)} of the step"
        evidence = facts.data_evidence if "data" in phases else facts.evidence
        suffices = not stalls or facts.sees_stalls(evidence)
        return Bound(ratio=speed_up(share), why=why, evidence=evidence, suffices=suffices)

    return phase_bound


def _data(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return the bound by the measured wait for data, or by the cached-batch ceiling if that is higher.

    Batches that are ready in memory may bring more than the wait: preparing data may slow the computation although
    nothing waits for it. It holds the interpreter's lock, or its workers take cores that training computes on. No phase
    shows this; only the ceiling does.
    """
    ceiling, waiting = facts.cached_batch_ceiling, _phases("data", words="waiting for data")(facts, query)
    if ceiling is None or ceiling.n < 2:
        competes = facts.observed.get("device") == "cpu" and facts.observed.get("dataloader_num_workers")
        return None if competes else waiting
    if ceiling.low <= 1 or ceiling.high <= waiting.ratio:
        return waiting  # many steps met waits that these few pairs may have missed
    why = "that is the most that batches ready in memory bring"
    return replace(waiting, ratio=ceiling.high, why=why)


def _recomputation(facts: RunFacts, query: BoundQuery) -> Bound:
    on = bool(facts.observed.get("gradient_checkpointing"))
    if bool(query.value) == on:
        return Bound(ratio=1.0, why="nothing would change")
    if query.value:
        return Bound(
            ratio=1.0, why="checkpointing only adds a second forward pass; at the same batch it can't be faster"
        )
    share = facts.most("forward")
    return Bound(
        ratio=speed_up(share),
        why=f"it removes one forward pass, and the forward pass is at most {percentage(share)} of the step",
        evidence=facts.evidence,
    )


def _recomputed_layers(facts: RunFacts, query: BoundQuery) -> Bound | None:
    if not facts.observed.get("gradient_checkpointing"):
        return None  # both arms will have checkpointing, and nothing is known of that run yet
    now, layers = int(facts.observed.get("every_n_layers") or 1), int(facts.observed.get("layers") or 0)
    if not layers:
        return None
    share = facts.most("forward") * max(0, math.ceil(layers / now) - math.ceil(layers / query.value)) / layers
    taken = percentage(share)
    why = f"one layer in {query.value} is still computed again; those that no longer are take {taken} of the step"
    return Bound(ratio=speed_up(share), why=why, evidence=facts.evidence)


def _kernels(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return the bound by the time of attention: another implementation of it can save no more."""
    known = [ALLOWANCE * facts.flops.attention_share] if facts.flops else []
    if _profiled(facts):
        is_eager = facts.observed.get("attn_implementation") == "eager"
        beside = EAGER_OVERHEAD if is_eager else profile_error(facts.profile)
        known = [beside * share_of(facts.profile, ATTENTION_OPERATORS)]
    if not known or facts.observed.get("compiled"):
        return _device_peak(facts, query)
    share = min(known[0], LARGEST_SHARE)
    why = f"attention takes at most {percentage(share)} of the time, as far as a profile of a few steps tells"
    return Bound(
        ratio=speed_up(share), why=why if _profiled(facts) else f"attention is at most {percentage(share)} of the work"
    )


def _profiled(facts: RunFacts) -> bool:
    """Return whether the profile's operators make up the time. On a device that stands idle, their launch does."""
    return facts.profile is not None and (facts.profile.device == "cpu" or facts.profile.idle <= LARGEST_IDLE_SHARE)


def _fusion(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return the bound by all that is not a product of matrices: a compiled graph fuses that, and multiplies as before.

    None where the bound says nothing.
    """
    if not _profiled(facts) or not query.value:
        return _device_peak(facts, query)
    products = share_of(facts.profile, PRODUCTS) / profile_error(facts.profile)
    fused = Bound(
        ratio=1 / max(products, 1 - LARGEST_SHARE),
        why=f"products of matrices, which it leaves as they are, take {percentage(products)} of the time at least",
    )
    return fused if fused.ratio < UNINFORMATIVE_RATIO else None


def _device_peak(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return the bound by the device: every useful token at its peak, no recomputation, half of the attention left out.

    None where the device could do twice as much or more, which says nothing about the change.
    """
    rate, flops, peak = facts.throughput.useful_tokens_per_second, facts.flops, facts.peak_flops
    if rate is None or flops is None or peak is None or facts.observed.get("tf32"):
        return None  # a peak of plain 32-bit products says nothing about TF32
    used = rate * (flops.needed - flops.attention / 2) / peak
    if used > LARGEST_SHARE or used < 1 / UNINFORMATIVE_RATIO:
        return None
    return Bound(ratio=1.0 / used, why=f"the useful tokens take {percentage(used)} of what the device can compute")


def _fixed(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Guess the gain of batches that are `query.value` times as large.

    The part of a step that does not grow with its batch is spread over more samples. Data, copies, pauses and the
    arithmetic of the passes grow. The calls of operators do not, nor does the update, nor the time in which a device
    stands idle without waiting for data.
    """
    profile, step = facts.profile, facts.throughput.seconds_per_step
    if profile is None or not profile.steps or not step:
        return None
    # on a device, the time of kernels is known by itself
    call = OPERATOR_CALL_SECONDS if profile.device == "cpu" else 0.0
    passes = ("forward", "backward", "other")
    operators = [o for phase in passes for o in profile.by_phase.get(phase, ())]
    arithmetic = sum(max(0.0, o.seconds - o.calls * call) for o in operators)
    pauses = sum(profile.pauses.get(phase, 0.0) for phase in passes)
    grows = (arithmetic + pauses) / profile.steps / step + facts.share("data") + facts.share("host_to_device")
    fixed = min(max(0.0, 1 - grows), LARGEST_SHARE)
    why = f"about {percentage(fixed)} of a step does not grow with its batch"
    return Bound(ratio=speed_up((1 - 1 / query.value) * fixed), why=why, suffices=False)


def _precision(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return the bound by products of matrices in another precision, at its peak, with all else done in no time.

    All positions are computed in it, padding and recomputation as well. On a processor that emulates the precision,
    that alone takes much longer than the whole step does now. A bound that is less clear refutes nothing, since a
    measured peak depends on shapes and on what else the machine does. None where the device could be twice as fast or
    faster, and where layers multiply in a precision of their own.
    """
    rate, flops = facts.throughput.padded_tokens_per_second, facts.flops
    now, then = facts.peak_flops, facts.other_peaks.get(DTYPES.get(query.value, ""))
    if rate is None or flops is None or now is None or then is None:
        return None
    of_their_own = facts.observed.get("weight_bits", 32) < 16 or (query.value == "fp32" and facts.observed.get("tf32"))
    computed = rate * (flops.needed - flops.attention / 2 + flops.recomputation)
    if of_their_own or computed < then / UNINFORMATIVE_RATIO or computed > LARGEST_SHARE * now:
        return None
    why = (
        f"in {query.value} the products of matrices alone take {percentage(computed / then)} of today's time, "
        "at the best that this device reaches in it"
    )
    return Bound(ratio=then / computed, why=why, suffices=then / computed < EMULATED_BELOW)


def _event(event: str, every: str = "") -> Callable[[RunFacts, BoundQuery], Bound | None]:
    """Make the bound of a periodic event: its share of the job.

    Where a level only makes the interval longer, whose setting is `every`, the events that still happen are left out.
    """

    def event_bound(facts: RunFacts, query: BoundQuery) -> Bound | None:
        rare = facts.periodic_events.get(event, 0.0)
        if rare is None:
            return None
        share = min(rare + facts.most(event), 0.99)
        why = f"its time is at most {percentage(share)} of the job"
        now = facts.observed.get(every)
        if every and isinstance(now, int) and isinstance(query.value, int):
            share *= max(0.0, 1 - now / query.value)
            why += f", and with {query.value} steps between in place of {now} this falls by {percentage(share)}"
        if rare or facts.share(event):  # the event was met, and its frequency is known
            return Bound(ratio=speed_up(share), why=why)
        suffices = facts.sees_stalls(facts.evidence)
        return Bound(ratio=speed_up(share), why=why, evidence=facts.evidence, suffices=suffices)

    return event_bound


def _cpu_only(known: Callable[[RunFacts, BoundQuery], Bound]) -> Callable[[RunFacts, BoundQuery], Bound | None]:
    """Make a bound that holds on a CPU alone. With a GPU such work makes the host wait, which moves time elsewhere."""
    return lambda facts, query: known(facts, query) if facts.observed.get("device") == "cpu" else None


def _padding(facts: RunFacts, query: BoundQuery) -> Bound | None:
    useful, whole_epoch = _useful(facts)
    if useful is None:
        return None
    if query.value == "max_length":
        if facts.observed.get("compiled"):
            return None  # with one length for all batches, a compiled graph is not compiled anew for each length
        return Bound(ratio=1.0, why="padding every sequence to the maximum only adds positions")
    if query.value == "packing":
        return None  # packing also fills the step with more tokens, which can help by any amount
    share = _quadratic(facts)
    if share is None:
        return None
    why = (
        f"{percentage(1 - useful)} of the computed positions are padding, and attention among them is quadratic "
        f"({percentage(facts.flops.attention_share)} of the FLOPs, three times that allowed for its time)"
    )
    return Bound(ratio=speed_up(share) / useful, why=why, suffices=whole_epoch)


def _useful(facts: RunFacts) -> tuple[float | None, bool]:
    """Return the least share of positions, 0 to 1, that are useful, and whether it is known of a whole epoch.

    The blocks see few of an epoch's batches, and the others may be far longer: one long text in a hundred makes a third
    of all positions padding. So the positions of the epoch count where they are known. Rows that are all full in the
    blocks are taken to be full everywhere.
    """
    seen, rates = facts.throughput.useful_share, facts.throughput
    positions = positions_of_sample(facts.observed)
    if seen is None or not positions:
        return seen, seen == 1.0
    return min(seen, rates.useful_tokens_per_second / rates.samples_per_second / positions), True


def _positions(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Return what goes with all padding if each position takes the same time: a guess, which refutes nothing."""
    useful = facts.throughput.useful_share
    if useful is None or query.value == "max_length":
        return None
    return Bound(
        ratio=1 / useful, why=f"{percentage(1 - useful)} of the computed positions are padding", suffices=False
    )


def _sampling(facts: RunFacts, query: BoundQuery) -> Bound | None:
    if query.value != "group_by_length":
        return None
    return _padding(facts, BoundQuery(value="longest", epoch_samples=None))


def _quadratic(facts: RunFacts) -> float | None:
    """Return the share of the time, 0 to 1, that attention's quadratic part may take; None without FLOPs."""
    return min(ALLOWANCE * facts.flops.attention_share, 0.9) if facts.flops else None


def _attention(facts: RunFacts, query: BoundQuery) -> Bound | None:
    useful, whole_epoch = _useful(facts)
    if facts.flops is None or useful is None or query.value > int(facts.observed.get("max_length") or 0):
        return None
    share = _quadratic(facts)
    why = (
        f"per useful token only padding ({percentage(1 - useful)} of positions) and the quadratic part of attention "
        f"({percentage(facts.flops.attention_share)} of the FLOPs, three times that allowed for its time) can shrink"
    )
    return Bound(ratio=speed_up(share) / useful, why=why, suffices=whole_epoch)


def _lora_rank(facts: RunFacts, query: BoundQuery) -> Bound | None:
    if facts.flops is None:
        return None
    share = min(ALLOWANCE * facts.flops.adapter_share, 0.9)
    own = percentage(facts.flops.adapter_share)
    why = f"the adapters are {own} of the FLOPs (three times that allowed for their time)"
    return Bound(ratio=speed_up(share), why=why)


def _epoch_start(facts: RunFacts, query: BoundQuery) -> Bound | None:
    if not query.epoch_samples:
        return None
    epoch = query.epoch_samples / facts.throughput.samples_per_second
    start = max(WORKER_START_SECONDS, facts.first_wait or 0.0)
    share = start / (epoch + start)
    why = f"workers start once an epoch of {epoch:.0f} s, in {start:.0f} s at the very most"
    if facts.first_wait is not None:
        why += f", as a launch had its first batch after {facts.first_wait:.1f} s"
    return Bound(ratio=speed_up(share), why=why)


def _epoch_starts_seen(facts: RunFacts, query: BoundQuery) -> Bound | None:
    """Guess what the start of workers takes in each epoch by the first steps of the epochs that were timed.

    It refutes nothing: a program may leave its epochs before their end.
    """
    seen = _first_steps(facts, query.epoch_samples) if query.epoch_samples else []
    if len(seen) < STARTS:
        return None
    epoch = query.epoch_samples / facts.throughput.samples_per_second
    share = min(max(0.0, max(seen) / epoch), 0.9)
    why = f"the first steps of an epoch of {epoch:.0f} s took at most {max(seen):.1f} s longer than others"
    return Bound(ratio=speed_up(share), why=why, suffices=False)


def _first_steps(facts: RunFacts, epoch_samples: int) -> list[float]:
    """Return the seconds by which the first steps of each epoch took longer than usual ones, of epochs that were timed.

    An epoch ends behind all its samples, or where the last batch that is full does. Where it is not known which, the
    steps tell: those that begin an epoch are the longer ones.
    """
    steps = facts.observed.get("epoch_steps")
    full = int(steps) * samples_of_step(facts.observed) if isinstance(steps, int) else epoch_samples
    found = [_excess_of_first(facts.timeline, length) for length in {epoch_samples, full} if length > 0]
    return max(found, key=lambda seconds: sum(seconds) / max(1, len(seconds)), default=[])


def _excess_of_first(steps: Timeline, epoch: int) -> list[float]:
    """Return what the first steps of each epoch of so many samples took beyond the median.

    Those epochs count whose very first step was timed.
    """
    if not len(steps.position):
        return []
    number, within = np.divmod(steps.position, epoch)
    usual, whole = float(np.median(steps.whole)), steps.whole
    return [
        float((whole[number == one][:FIRST_STEPS] - usual).sum())
        for one in np.unique(number[within == 0])
        if one > 0 and (number == one).sum() > FIRST_STEPS
    ]


BOUNDS: dict[str, Callable[[RunFacts, BoundQuery], Bound | None]] = {
    "data": _data,
    "batches": _phases("data", "host_to_device", words="waiting for batches and copying them to the device"),
    "optimizer": _phases("optimizer", words="the optimizer", stalls=False),
    "clipping": _cpu_only(_phases("optimizer", words="clipping with the optimizer", stalls=False)),
    "host_work": _cpu_only(_phases("other", words="what Trainer does between the phases")),
    "log": _cpu_only(_phases("log", words="logging")),
    "save": _event("save"),
    "save_interval": _event("save", "save_steps"),
    "evaluate": _event("evaluate"),
    "evaluation_interval": _event("evaluate", "eval_steps"),
    "peak": _device_peak,
    "batch": _device_peak,
    "fixed": _fixed,
    "precision": _precision,
    "kernels": _kernels,
    "fusion": _fusion,
    "recomputation": _recomputation,
    "padding": _padding,
    "positions": _positions,
    "sampling": _sampling,
    "attention": _attention,
    "recomputed_layers": _recomputed_layers,
    "lora_rank": _lora_rank,
    "epoch_start": _epoch_start,
    "epoch_starts_seen": _epoch_starts_seen,
}
