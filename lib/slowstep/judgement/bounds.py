"""The most that a factor could bring, known before its trial. A claim beyond its bound needs no trial to be refuted.

Each bound rests on the upper end of a measured share, so it carries the noise of the measurement. Each takes the
facts, the level's value and the size of an epoch, and gives a speed-up ratio with the reason in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slowstep.judgement.facts import BaselineFacts
from slowstep.judgement.flops import ALLOWANCE
from slowstep.judgement.units import speed_up

IMPLAUSIBLE = 0.9
"""Nothing trains at more of a device's peak than this; where it seems to, the peak or the FLOPs are not the run's."""

WORKER_START_SECONDS = 10.0
"""Generous: starting loader workers at an epoch's begin, imports included."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """At most `ratio` times the throughput, because of `why`."""

    ratio: float
    why: str

    def __str__(self) -> str:
        return f"at most {self.ratio - 1:+.1%}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be bounded."""

    value: Any
    epoch_samples: int | None


def bound(name: str | None, facts: BaselineFacts, value: Any, epoch_samples: int | None) -> Bound | None:
    """The bound called `name` in the catalogue; None where there is none or its facts were not measured."""
    return BOUNDS[name](facts, Asked(value=value, epoch_samples=epoch_samples)) if name else None


def _phases(phases: Sequence[str], words: str) -> Callable[[BaselineFacts, Asked], Bound]:
    def of_phases(facts: BaselineFacts, asked: Asked) -> Bound:
        share = min(sum(map(facts.most, phases)), 1.0)
        return Bound(ratio=speed_up(share), why=f"{words} is at most {share:.1%} of the step")

    return of_phases


def _data(facts: BaselineFacts, asked: Asked) -> Bound | None:
    """The wait that was measured, unless batches ready in memory bring more than it explains.

    That happens when preparing data slows the computation without being waited for (it holds the interpreter's lock,
    or workers take cores that training computes on): no phase shows it, only the ceiling does.
    """
    share, ceiling = facts.most("data"), facts.data_ceiling
    waiting = Bound(ratio=speed_up(share), why=f"waiting for data is at most {share:.1%} of the step")
    if ceiling is None or ceiling.n < 2:
        competes = facts.observed.get("device") == "cpu" and facts.observed.get("dataloader_num_workers")
        return None if competes else waiting
    if ceiling.low <= waiting.ratio <= ceiling.high:
        return waiting
    return Bound(ratio=max(1.0, ceiling.high), why="that is the most that batches ready in memory bring")


def _recomputation(facts: BaselineFacts, asked: Asked) -> Bound:
    on = bool(facts.observed.get("gradient_checkpointing"))
    if bool(asked.value) == on:
        return Bound(ratio=1.0, why="nothing would change")
    if asked.value:
        return Bound(
            ratio=1.0, why="checkpointing only adds a second forward pass; at the same batch it can't be faster"
        )
    share = facts.most("forward")
    return Bound(
        ratio=speed_up(share),
        why=f"it removes one forward pass, and the forward pass is at most {share:.1%} of the step",
    )


def _recomputed_layers(facts: BaselineFacts, asked: Asked) -> Bound | None:
    if not facts.observed.get("gradient_checkpointing"):
        return None  # both sides are given checkpointing, and of that run nothing is known yet
    now, layers = int(facts.observed.get("every_n_layers") or 1), int(facts.observed.get("layers") or 0)
    if not layers:
        return None
    share = facts.most("forward") * max(0, math.ceil(layers / now) - math.ceil(layers / asked.value)) / layers
    why = f"one layer in {asked.value} is still computed again; those that no longer are take {share:.1%} of the step"
    return Bound(ratio=speed_up(share), why=why)


def _ceiling(facts: BaselineFacts, asked: Asked) -> Bound | None:
    """All the device can do: every useful token at its peak, nothing recomputed, half of the attention left out."""
    rate, flops, peak = facts.throughput.useful_tokens_per_second, facts.flops, facts.peak_flops
    if rate is None or flops is None or peak is None or facts.observed.get("tf32"):
        return None  # a peak of plain 32-bit products says nothing of TF32
    used = rate * (flops.needed - flops.attention / 2) / peak
    if used > IMPLAUSIBLE:
        return None
    return Bound(ratio=1.0 / used, why=f"the useful tokens take {used:.0%} of what the device can compute")


def _event(event: str, every: str = "") -> Callable[[BaselineFacts, Asked], Bound | None]:
    def of_event(facts: BaselineFacts, asked: Asked) -> Bound | None:
        rare = facts.occasional.get(event, 0.0)
        if rare is None:
            return None
        share = min(rare + facts.most(event), 0.99)
        why = f"its time is at most {share:.1%} of the job"
        now = facts.observed.get(every)
        if every and isinstance(now, int) and isinstance(asked.value, int):
            share *= max(0.0, 1 - now / asked.value)
            why += f", and with {asked.value} steps between in place of {now} this falls by {share:.1%}"
        return Bound(ratio=speed_up(share), why=why)

    return of_event


def _on_host(phase: str, words: str) -> Callable[[BaselineFacts, Asked], Bound | None]:
    """For what makes the host wait for a device: there it moves time between all phases, and nothing is known."""
    known = _phases((phase,), words)
    return lambda facts, asked: known(facts, asked) if facts.observed.get("device") == "cpu" else None


def _padding(facts: BaselineFacts, asked: Asked) -> Bound | None:
    useful = facts.throughput.useful_share
    if useful is None:
        return None
    if asked.value == "max_length":
        if facts.observed.get("compiled"):
            return None  # one length for all batches ends compiling anew for each
        return Bound(ratio=1.0, why="padding every sequence to the maximum only adds positions")
    if asked.value == "packing":
        return None  # besides the padding it fills the step with more tokens, which can help by any amount
    share = _quadratic(facts)
    if share is None:
        return None
    why = (
        f"{1 - useful:.1%} of the computed positions are padding, and attention among them is quadratic "
        f"({facts.flops.attention_share:.1%} of the FLOPs, three times that allowed for its time)"
    )
    return Bound(ratio=speed_up(share) / useful, why=why)


def _sampling(facts: BaselineFacts, asked: Asked) -> Bound | None:
    return _padding(facts, Asked(value="longest", epoch_samples=None)) if asked.value == "group_by_length" else None


def _quadratic(facts: BaselineFacts) -> float | None:
    """Share of the time that attention's quadratic part may take."""
    return min(ALLOWANCE * facts.flops.attention_share, 0.9) if facts.flops else None


def _attention(facts: BaselineFacts, asked: Asked) -> Bound | None:
    useful = facts.throughput.useful_share
    if facts.flops is None or useful is None or asked.value > int(facts.observed.get("max_length") or 0):
        return None
    share = _quadratic(facts)
    why = (
        f"per useful token only padding ({1 - useful:.1%} of positions) and the quadratic part of attention "
        f"({facts.flops.attention_share:.1%} of the FLOPs, three times that allowed for its time) can shrink"
    )
    return Bound(ratio=speed_up(share) / useful, why=why)


def _lora_rank(facts: BaselineFacts, asked: Asked) -> Bound | None:
    if facts.flops is None:
        return None
    share = min(ALLOWANCE * facts.flops.adapter_share, 0.9)
    why = f"the adapters are {facts.flops.adapter_share:.1%} of the FLOPs (three times that allowed for their time)"
    return Bound(ratio=speed_up(share), why=why)


def _epoch_start(facts: BaselineFacts, asked: Asked) -> Bound | None:
    if not asked.epoch_samples:
        return None
    epoch = asked.epoch_samples / facts.throughput.samples_per_second
    share = WORKER_START_SECONDS / (epoch + WORKER_START_SECONDS)
    why = f"workers start once an epoch of {epoch:.0f} s, in {WORKER_START_SECONDS:.0f} s at the very most"
    return Bound(ratio=speed_up(share), why=why)


BOUNDS: dict[str, Callable[[BaselineFacts, Asked], Bound | None]] = {
    "data": _data,
    "batches": _phases(("data", "host_to_device"), "waiting for batches and copying them to the device"),
    "optimizer": _phases(("optimizer",), "the optimizer"),
    "clipping": _on_host("optimizer", "clipping with the optimizer"),
    "host_work": _on_host("other", "what Trainer does between the phases"),
    "log": _on_host("log", "logging"),
    "save": _event("save"),
    "save_interval": _event("save", "save_steps"),
    "evaluate": _event("evaluate"),
    "evaluation_interval": _event("evaluate", "eval_steps"),
    "ceiling": _ceiling,
    "recomputation": _recomputation,
    "padding": _padding,
    "sampling": _sampling,
    "attention": _attention,
    "recomputed_layers": _recomputed_layers,
    "lora_rank": _lora_rank,
    "epoch_start": _epoch_start,
}
