"""DeepSpeed's ZeRO: how far weights, gradients and the optimizer's state are spread over ranks, and how they travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.entries import one_of, only, section, switched, whole
from slowstep.factors.factor import EXCHANGE, Factor, Meaning
from slowstep.settings.run import Run

BUCKET = 500_000_000
"""The elements that DeepSpeed exchanges at once where nobody says otherwise."""

PREFETCHED = 50_000_000
"""The elements of weights that its third stage fetches ahead where nobody says otherwise."""


def _engine(value: Any, run: Run, machine: Machine) -> str | None:
    """a run whose model is an engine of DeepSpeed"""
    made = run["deepspeed"] if run.objects is None else "DeepSpeed" in run.objects
    return None if made else "it needs an engine of DeepSpeed, and none is made"


def _value(name: str, run: Run) -> Any:
    """Return a value as a survey saw it in effect, or as a described run's configuration has it; None if neither."""
    seen = run[f"zero_optimization.{name}"]
    if seen is not None or run.objects is not None:
        return seen
    known = run["deepspeed"]
    part = known.get("zero_optimization") if isinstance(known, Mapping) else None
    value = part.get(name) if isinstance(part, Mapping) else None
    return value.get("device") if isinstance(value, Mapping) else value


def _third(value: Any, run: Run) -> str | None:
    """weights that are spread over ranks (ZeRO's third stage)"""
    stage = _value("stage", run)
    return None if stage in (None, 3) else f"weights are spread over ranks in ZeRO's third stage, and this is {stage}"


def _stage_below(run: Run, machine: Machine) -> Sequence[Any]:
    """Return the stage below: it exchanges less, and takes more memory."""
    now = _value("stage", run) or 0
    return (now - 1,) if now > 1 else ()


def _larger(name: str, usual: int) -> Any:
    """Make the proposal of the usual size where a smaller one was chosen: small pieces cost more than they save."""

    def proposes(run: Run, machine: Machine) -> Sequence[Any]:
        return (usual,) if (_value(name, run) or usual) < usual else (usual // 10,)

    return proposes


def _zero(name: str, default: Any) -> dict[str, Any]:
    key = f"zero_optimization.{name}"

    def current(run: Run) -> Any:
        value = _value(name, run)
        return default if value is None else value

    return section(key, fact=key) | {"current": current, "requires": _engine}


ZERO = (
    Factor(
        name="zero_offload_optimizer",
        title="Optimizer's state on the host",
        hypothesis="The optimizer's state is moved to the host, where its update is slower.",
        cause=switched("Keeping the optimizer's state on the device", "Updating weights on the host"),
        meaning=Meaning.EXACT,
        changes="nothing in training; the state takes memory of the device",
        **_zero("offload_optimizer", "none"),
        touches=frozenset({"optimizer"}) | EXCHANGE,
        examples=("none", "cpu"),
        proposes=only("none"),
        undoes=True,
        accepts=one_of("none", "cpu"),
    ),
    Factor(
        name="zero_stage",
        title="ZeRO's stage",
        hypothesis="Weights or gradients are spread over ranks, which exchange more than memory requires.",
        cause="Spreading more over ranks than memory requires",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; a lower stage takes more memory",
        **_zero("stage", 0),
        touches=frozenset({"forward", "optimizer"}) | EXCHANGE,
        examples=(1, 2),
        proposes=_stage_below,
        accepts=one_of(1, 2, 3),
    ),
    Factor(
        name="zero_overlap_comm",
        title="Exchange beside the backward pass",
        hypothesis="Gradients are exchanged after the backward pass, where they could be exchanged beside it.",
        cause=switched("Exchanging gradients after the backward pass", "Exchanging gradients beside the backward pass"),
        meaning=Meaning.EXACT,
        changes="nothing in training; it takes memory for a second bucket",
        **_zero("overlap_comm", False),
        touches=EXCHANGE | {"optimizer"},
        examples=(True, False),
        proposes=lambda run, machine: (not _value("overlap_comm", run),),
    ),
    Factor(
        name="zero_reduce_bucket_size",
        title="Size of the buckets of gradients (ZeRO)",
        hypothesis="Gradients are exchanged in pieces that are too small to fill the connection, or too large to begin "
        "early.",
        cause="Exchanging gradients in pieces of an unsuitable size",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; larger buckets take memory",
        **_zero("reduce_bucket_size", BUCKET),
        touches=EXCHANGE | {"optimizer"},
        examples=(BUCKET,),
        proposes=_larger("reduce_bucket_size", BUCKET),
        accepts=whole(1),
    ),
    Factor(
        name="zero_allgather_bucket_size",
        title="Size of the buckets of weights (ZeRO)",
        hypothesis="Updated weights are gathered in pieces that are too small to fill the connection.",
        cause="Gathering weights in pieces of an unsuitable size",
        meaning=Meaning.EXACT,
        changes="nothing in training; larger buckets take memory",
        **_zero("allgather_bucket_size", BUCKET),
        touches=EXCHANGE | {"optimizer"},
        examples=(BUCKET,),
        proposes=_larger("allgather_bucket_size", BUCKET),
        accepts=whole(1),
    ),
    Factor(
        name="zero_prefetch_bucket_size",
        title="Weights that are fetched ahead (ZeRO)",
        hypothesis="Passes wait for weights that are fetched from other ranks too late.",
        cause="Waiting for weights of other ranks",
        meaning=Meaning.EXACT,
        changes="nothing in training; weights that are fetched ahead take memory",
        **_zero("stage3_prefetch_bucket_size", PREFETCHED),
        touches=frozenset({"forward"}) | EXCHANGE,
        examples=(PREFETCHED,),
        proposes=_larger("stage3_prefetch_bucket_size", PREFETCHED),
        refuses=_third,
        accepts=whole(0),
    ),
)
