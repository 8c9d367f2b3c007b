"""Figures against what the model needs and the device can do. Nothing here is known without the model's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, Kind, times
from slowstep.audit.run import Run
from slowstep.judgement.bounds import ALLOWANCE
from slowstep.judgement.devices import PEAKS
from slowstep.judgement.flops import TokenFlops, token_flops

Sizes = Mapping[str, Any]
"""What a trial would observe of the model: parameters that multiply and that are trained, layers, hidden size."""


def per_token(run: Run, sizes: Sizes | None) -> TokenFlops | None:
    """FLOPs a token of the run's model, at its full length."""
    if not sizes or not run.length:
        return None
    s = run.settings
    observed = {"lora_r": (s.peft or {}).get("r", 8) if s.peft else None}
    return token_flops(
        observed | {"gradient_checkpointing": bool(s.training("gradient_checkpointing"))} | sizes, run.length
    )


def mfu(run: Run, sizes: Sizes | None, device: str | None) -> Figure | None:
    """Model FLOPs utilisation, by the tokens that are given, else as if every sample were as long as it may be."""
    rate, flops, peak = run.tokens_at_full_length, per_token(run, sizes), PEAKS.get(device or "")
    devices = run.given.get("devices", exact(1))
    return rate * (flops.needed / (peak.tflops * 1e12)) / devices if rate and flops and peak else None


def beyond_the_device(run: Run, sizes: Sizes | None, device: str | None) -> list[Finding]:
    """More than the device can compute: the figures or the device are wrong, or the samples are short."""
    used = mfu(run, sizes, device)
    if used is None or used.low <= 1:
        return []
    text = (
        f"at {run.tokens_at_full_length} tokens/s the model would need {used.middle:.0%} of what {device} can compute: "
        "the speed, the device or the model is not what is given"
    )
    if "tokens_per_second" not in run.given:
        text += f", or the samples are far shorter than {run.length} tokens"
    return [Finding(kind=Kind.PHYSICS, where=run.label, text=text)]


def most_of_length(a: Run, b: Run, sizes: Sizes | None) -> tuple[float, str] | None:
    """How much a shorter sequence can bring per token: only attention's quadratic part shrinks."""
    long, short = per_token(a, sizes), per_token(b, sizes)
    if long is None or short is None or b.length >= a.length:
        return None
    share = min(ALLOWANCE * long.attention_share, 0.9)
    bound = 1 / (1 - share * (1 - b.length / a.length))
    return (
        bound,
        f"attention's quadratic part is {long.attention_share:.1%} of the work at length {a.length:g}, so per token "
        f"{b.length:g} brings {times(bound)} at the very most (with {ALLOWANCE:g} times that share allowed for its "
        "time); the rest is that a sample is shorter, and not that length is slow",
    )
