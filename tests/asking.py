"""Asking a measurer for a comparison of so many pairs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest, Measurer, OnPairs
from slowstep.records import ComparisonRecord


def compare(
    measurer: Measurer,
    baseline: Arm,
    treatment: Arm,
    pairs: int = 1,
    looks: Collection[int] = (),
    stop: StopRule | None = None,
    on_pairs: OnPairs = lambda pairs: None,
    **about: Any,
) -> ComparisonRecord:
    """Return the record of so many pairs, both arms launched anew after as many pairs as `looks` says."""
    stop = stop or StopRule(max_pairs=pairs, looks=tuple(looks), launch_share=0)
    return measurer.compare(ComparisonRequest(baseline=baseline, treatment=treatment, stop=stop, **about), on_pairs)
