"""The tables of the baseline, and of the job that follows from it: its figures, its cost, the time that it loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slowstep.investigation.results import Baseline
from slowstep.judgement.block_length import BlockLength
from slowstep.judgement.projection import Projection, devices
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.suspects.suspect import PASSES, TRAINS_NOTHING
from slowstep.judgement.throughput import speed_up
from slowstep.records import PHASES, ComparisonRecord
from slowstep.report.chart import Table
from slowstep.report.tables import in_units
from slowstep.text.numbers import percent
from slowstep.text.phases import PHASE_NAMES
from slowstep.text.sentences import sentence
from slowstep.wording.lost import gain_without
from slowstep.wording.remaining import not_certain
from slowstep.wording.words import (
    NOT_MEASURED,
    duration,
    effect,
    hours,
    money,
    rate,
    share,
    share_span,
    size,
)

NOTHING_LOST = "No phase is known to lose time that is worth a change."


def facts(baseline: Baseline) -> Table:
    """List the figures of the baseline."""
    f, reading, memory = baseline.facts, baseline.reading, baseline.record.baseline.memory
    few = f"can't be told from so few pairs ({len(baseline.record.pairs)})"
    rows = [("how it failed", baseline.fails)] if baseline.fails else []
    rows += [(unit, value) for unit, value in in_units(f.throughput).items()]
    rows += [
        ("mean sequence length, padding included", rate(f.length)),
        (
            "model FLOPs utilisation",
            _utilisation(baseline),
        ),
        ("peak memory allocated", size(memory.allocated)),
        ("peak memory reserved", size(memory.reserved)),
        ("device memory in use", size(_device_memory(baseline.record))),
        ("peak host memory", size(memory.host)),
        ("baseline against itself (A/A)", effect(reading.effect) if baseline.noise else few),
        ("shares and bounds rest on", str(f.evidence)),
        ("smallest effect these pairs could tell from chance", percent(baseline.noise) if baseline.noise else few),
        ("blocks measured again, since something interrupted them", str(len(baseline.record.redone))),
    ]
    rows += [("length of a block", _block_length(baseline.block_length))] if baseline.block_length else []
    rows += [("node that these figures are from", baseline.record.node)] if baseline.record.node else []
    start = baseline.record.baseline.startup
    rows += [(f"start-up: {part}", duration(seconds)) for part, seconds in start.items()]
    missing = [name for name, value in rows if value == NOT_MEASURED]
    rows = [row for row in rows if row[0] not in missing]
    if missing:
        rows.append((NOT_MEASURED, ", ".join(missing)))
    return Table([{"figure": name, "value": value} for name, value in rows])


def _device_memory(record: ComparisonRecord) -> int | None:
    """Return the bytes in use on the device as the baseline trains; None where others may hold some of them.

    The device counts what all processes hold there. The baseline was alone on it if arms took turns and the driver saw
    nobody else.
    """
    telemetry = [pair.baseline.telemetry for pair in record.pairs]
    alone = record.by_turns and telemetry and all(told and told.others == 0 for told in telemetry)
    return record.baseline.memory.device if alone else None


def _block_length(found: BlockLength) -> str:
    """Return how long blocks are at least, and what that follows from."""
    noise = f"a step's noise is {share(found.step_noise)}, that of a turn {share(found.drift)}"
    least = f"{duration(found.seconds)} or budget.block_steps_min steps, whichever is longer"
    return f"{least}: {noise}, and a turn costs {duration(found.turn_seconds)}"


def _utilisation(baseline: Baseline) -> str:
    if baseline.peak is None or baseline.mfu is None:
        return NOT_MEASURED
    n = devices(baseline.record.baseline, baseline.facts.on_nodes)
    each = f"{n} devices of " if n > 1 else ""
    return f"{share(baseline.mfu)} of {each}{baseline.peak.tflops:.3g} TFLOP/s ({baseline.peak.source})"


def trial_time(baseline: Baseline) -> Table:
    """List the parts of the wall time of both sides of the A/A comparison, to 100 %: the cost of a measurement."""
    rows = []
    for name, trial in (("one side", baseline.record.baseline), ("the other side", baseline.record.treatment)):
        whole = sum(trial.wall.values()) or 1.0
        parts = {part: f"{duration(s)} ({share(s / whole)})" for part, s in trial.wall.items()}
        rows.append({"A/A side": name, **parts, "all": duration(whole)})
    return Table(rows)


def job(baseline: Baseline) -> Table:
    """List the parts of the real job at the baseline's speed, with its cost."""
    p = baseline.projection
    if p is None:
        return _not_projected(baseline)
    rows = [
        {"part": name, "time": duration(seconds), "share": share(seconds / p.seconds)}
        for name, seconds in p.parts.items()
    ]
    rows.append(
        {
            "part": f"all ({p.steps:,} steps)",
            "time": hours(p),
            "share": share(1.0),
        }
    )
    if p.price_per_hour is not None:
        each = f" for each of {p.devices} devices" if p.devices > 1 else ""
        rows.append({"part": f"cost at {p.price_per_hour:g} {p.currency}/h{each}", "time": money(p), "share": ""})
    return Table(rows + _not_counted(p, rows))


def work_parts(baseline: Baseline) -> Table:
    """List the FLOPs a token by part. Weights and adapter grow with the tokens, attention with tokens times length."""
    flops = baseline.facts.flops
    if flops is None:
        return Table([], empty="This workload does not say its sizes, so its FLOPs can't be counted.")
    parts = {
        "weights (linear in tokens)": flops.weights,
        "LoRA adapter (linear in tokens)": flops.adapter,
        "attention (quadratic in length)": flops.attention,
    }
    rows = [{"part": n, "MFLOP a token": f"{f / 1e6:.2f}", "share": share(f / flops.needed)} for n, f in parts.items()]
    again = f"{flops.recomputation / 1e6:.2f}"
    return Table([*rows, {"part": "recomputed, beyond the needed", "MFLOP a token": again, "share": ""}])


def _not_projected(baseline: Baseline) -> Table:
    return Table([], empty=f"Not projected: {baseline.unprojected}.")


def before_after(baseline: Baseline, after: Projection | None) -> Table:
    """List hours and cost of the real job with the old configuration and the new one."""
    before = baseline.projection
    if before is None:
        return _not_projected(baseline)
    rows = [
        {"configuration": name, "time [interval]": hours(p), "cost [interval]": money(p), "steps": p.steps}
        for name, p in (("before", before), ("after", after))
        if p is not None
    ]
    return Table(rows + _not_counted(before, rows))


def _not_counted(p: Projection, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a last row, below those of a job, for what its time leaves out; [] if nothing is known to be left out."""
    first, *others = rows[0]
    return [{first: f"not counted: {p.left_out}"} | dict.fromkeys(others, "")] if p.left_out else []


def lost_time(suspects: Sequence[Suspect], baseline: Baseline, minimum_effect: float) -> Table:
    """List the phases with time that a healthy run would not spend, whether or not a factor acts on them.

    Where none is certain, those are named whose share would be worth a gain of `minimum_effect` if it were.
    """
    spans = {phase: baseline.facts.shares[phase] for phase in TRAINS_NOTHING}
    large = {phase: span for phase, span in spans.items() if speed_up(span.mean) >= 1 + minimum_effect}
    named = "; ".join(f"{PHASE_NAMES[phase]} takes {share_span(span)}" for phase, span in large.items())
    nothing = f"Nothing is certain from these blocks: {named}." if named else NOTHING_LOST
    unseen = "The run was not profiled, so time that is lost within the passes could not be seen."
    return _lost_time(suspects, f"{nothing} {unseen}" if baseline.unprofiled else nothing)


def _lost_time(suspects: Sequence[Suspect], empty: str) -> Table:
    return Table(
        [
            {
                "phase": PHASE_NAMES[s.phase],
                "share of the wall time": share_span(s.share),
                "without it": gain_without(s),
                "because": s.why,
                "consists of": "; ".join(s.consists_of) or "not known",
            }
            for s in suspects
        ],
        empty=empty,
    )


def remaining(found: Remaining | None) -> Table:
    """List the phases in which the adopted configuration still loses time."""
    if found is None:
        return Table(
            [], empty="Not known: nothing is adopted, or it was not profiled, for want of time or by a failure."
        )
    nothing = f"{NOTHING_LOST} {sentence(found.missed)}" if found.missed else NOTHING_LOST
    if unseen := [PHASE_NAMES[p] for p in PHASES if p not in found.looked_at and p not in PASSES]:
        nothing = f"Not known of {' and '.join(unseen)}: these steps do not show it."
    return _lost_time(found.suspects, not_certain(found) or nothing)
