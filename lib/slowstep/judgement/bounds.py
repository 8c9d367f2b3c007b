"""The most that a factor could bring, known before its trial. A claim beyond its bound needs no trial to be refuted.

Each bound rests on the upper end of a measured share, so it carries the noise of the measurement. Each takes the
facts, the level's value and the size of an epoch, and gives a speed-up ratio with the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slowstep.judgement.facts import BaselineFacts

ALLOWANCE = 3.0
"""Attention and low-rank products run at a lower rate than the large products, so a share of the FLOPs is not a share
of the time. Up to three times the FLOP share is allowed for; beyond that no one has seen it on current devices."""

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


def _without(share: float) -> float:
    return 1.0 / (1.0 - min(share, 0.99))


def _phase(phase: str, words: str) -> Callable[[BaselineFacts, Asked], Bound]:
    def of_phase(facts: BaselineFacts, asked: Asked) -> Bound:
        share = facts.most(phase)
        return Bound(ratio=_without(share), why=f"{words} is at most {share:.1%} of the step")

    return of_phase


def _data(facts: BaselineFacts, asked: Asked) -> Bound:
    """The wait that was measured, unless batches ready in memory bring more than it explains.

    That happens when preparing data slows the computation without being waited for (it holds the interpreter's lock):
    no phase shows it, only the ceiling does.
    """
    share, ceiling = facts.most("data"), facts.data_ceiling
    waiting = Bound(ratio=_without(share), why=f"waiting for data is at most {share:.1%} of the step")
    if ceiling is None or ceiling.n < 2 or ceiling.low <= waiting.ratio <= ceiling.high:
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
        ratio=_without(share),
        why=f"it removes one forward pass, and the forward pass is at most {share:.1%} of the step",
    )


def _padding(facts: BaselineFacts, asked: Asked) -> Bound | None:
    useful = facts.throughput.useful_share
    if useful is None:
        return None
    if asked.value == "max_length":
        return Bound(ratio=1.0, why="padding every sequence to the maximum only adds positions")
    if asked.value == "packing":
        return None  # besides the padding it fills the step with more tokens, which can help by any amount
    return Bound(ratio=1.0 / useful, why=f"{1 - useful:.1%} of the computed positions are padding")


def _attention(facts: BaselineFacts, asked: Asked) -> Bound | None:
    useful = facts.throughput.useful_share
    if facts.flops is None or useful is None or asked.value > int(facts.observed.get("max_length") or 0):
        return None
    share = min(ALLOWANCE * facts.flops.attention_share, 0.9)
    why = (
        f"per useful token only padding ({1 - useful:.1%} of positions) and the quadratic part of attention "
        f"({facts.flops.attention_share:.1%} of the FLOPs, three times that allowed for its time) can shrink"
    )
    return Bound(ratio=_without(share) / useful, why=why)


def _lora_rank(facts: BaselineFacts, asked: Asked) -> Bound | None:
    if facts.flops is None:
        return None
    share = min(ALLOWANCE * facts.flops.adapter_share, 0.9)
    why = f"the adapters are {facts.flops.adapter_share:.1%} of the FLOPs (three times that allowed for their time)"
    return Bound(ratio=_without(share), why=why)


def _epoch_start(facts: BaselineFacts, asked: Asked) -> Bound | None:
    if not asked.epoch_samples:
        return None
    epoch = asked.epoch_samples / facts.throughput.samples_per_second
    share = WORKER_START_SECONDS / (epoch + WORKER_START_SECONDS)
    why = f"workers start once an epoch of {epoch:.0f} s, in {WORKER_START_SECONDS:.0f} s at the very most"
    return Bound(ratio=_without(share), why=why)


BOUNDS: dict[str, Callable[[BaselineFacts, Asked], Bound | None]] = {
    "data": _data,
    "host_to_device": _phase("host_to_device", "copying to the device"),
    "optimizer": _phase("optimizer", "the optimizer"),
    "recomputation": _recomputation,
    "padding": _padding,
    "attention": _attention,
    "lora_rank": _lora_rank,
    "epoch_start": _epoch_start,
}
