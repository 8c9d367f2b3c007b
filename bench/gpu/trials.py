"""What the parts ask of the kit: arms from parameter files, one launch with one block, comparisons, investigations."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.gpu.part import Bench, Figures
from slowstep.batch.measuring import measured
from slowstep.environment.home import ROOT
from slowstep.factors import Arm
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.judgement.comparison import log_ratios, result_of
from slowstep.judgement.run_facts import flops_of
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.throughput import throughput
from slowstep.judgement.verdict import Outcome
from slowstep.launch.trial_process import TrialEnded
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import Block, ComparisonRecord, identity
from slowstep.settings import Loaded, Settings, load, override
from slowstep.settings.convert import to_plain
from slowstep.wording.causes import Cause, causes


def settings_of(file: str, changes: Mapping[str, Any], bench: Bench) -> Settings:
    """Return the settings of a parameter file with changes, and with the scale's budget."""
    budget = {f"budget.{name}": value for name, value in bench.scale.budget.items()}
    return override(load(ROOT / file).settings, budget | dict(changes))


def arm_of(settings: Settings, label: str) -> Arm:
    """Return the arm of some settings."""
    return Arm(label=label, settings=settings)


def measurer_of(settings: Settings, bench: Bench, part: str) -> LocalMeasurer:
    """Return a measurer for a part. Its comparisons end with the call."""
    made = LocalMeasurer(settings.budget, bench.work / "logs" / part)
    made.deadline = bench.deadline
    return made


def once(measurer: LocalMeasurer, arm: Arm, seconds: float) -> Figures:
    """Launch an arm, measure one block of at least so many seconds, and return what is known of both.

    A trial that fails is a result: its status, its reason, and the memory that it held. The trial stays live.
    """
    key = identity(arm.determinants())
    try:
        trial = measurer.pool.launch(arm, key)
        block = block_of(trial, seconds)
    except TrialEnded as ended:
        measurer.pool.end(key)
        failed = ended.failed
        return {
            "arm": arm.label,
            "status": str(failed.status),
            "reason": failed.reason,
            "memory": to_plain(failed.memory),
        }
    return {"arm": arm.label, "status": "ok", **speed(block, trial), **life(trial)}


def block_of(trial: LiveTrial, seconds: float) -> Block:
    """Return a block of at least two steps and so many seconds; TrialEnded if the trial fails."""
    return trial.block(max(2, math.ceil(seconds / trial.step_seconds)) * trial.step_samples)


def speed(block: Block, trial: LiveTrial) -> Figures:
    """Return a block's throughput, its phases, and the FLOP/s that its useful tokens need."""
    rates, observed = throughput([block]), trial.record.observed
    flops = flops_of([block], observed)
    useful = rates.useful_tokens_per_second
    return {
        "seconds_per_step": rates.seconds_per_step,
        "useful_tokens_per_second": useful,
        "samples_per_second": rates.samples_per_second,
        "needed_flops_per_second": useful * flops.needed if flops and useful else None,
        "phases": {phase: seconds / block.seconds for phase, seconds in block.phases.items()},
        "steps": block.steps,
    }


def life(trial: LiveTrial) -> Figures:
    """Return what a trial's start took, its memory, and what it really ran with."""
    record = trial.record
    return {
        "device": trial.device,
        "startup": record.startup,
        "wall": record.wall,
        "warmup_steps": record.warmup_steps,
        "settled": record.settled,
        "memory": to_plain(record.memory),
        "observed": record.observed,
        "losses": record.losses[:8],
    }


def compared(
    measurer: LocalMeasurer, baseline: Arm, treatment: Arm, stop: StopRule, twin: bool = False, purpose: str = ""
) -> tuple[ComparisonRecord, Figures]:
    """Compare two arms; return the record, and its figures."""
    record = measurer.compare(
        ComparisonRequest(baseline=baseline, treatment=treatment, stop=stop, twin=twin, purpose=purpose)
    )
    return record, compared_figures(record)


def compared_figures(record: ComparisonRecord) -> Figures:
    """Return the effect of a comparison with its interval, the spread of its pairs, and what was measured again."""
    sides = {"baseline": record.baseline, "treatment": record.treatment}
    found: Figures = {
        "status": {side: f"{trial.status} {trial.reason}".strip() for side, trial in sides.items()},
        "pairs": len(record.pairs),
        "launches": len({pair.launch for pair in record.pairs}),
        "by_turns": record.by_turns,
        "redone": record.redone,
        "seconds": record.seconds,
        "wall": {side: trial.wall for side, trial in sides.items()},
        "memory": {side: to_plain(trial.memory) for side, trial in sides.items()},
    }
    if record.pairs:
        result, d = result_of(record.pairs), log_ratios(record.pairs)
        found |= {
            "ratio": result.effect.ratio,
            "low": result.effect.low,
            "high": result.effect.high,
            "reading": str(result.reading),
            "detectable": result.detectable,
            "spread": statistics.stdev(d) if len(d) > 1 else None,
            "block_seconds": statistics.median(p.baseline.seconds for p in record.pairs),
            "telemetry": [to_plain(b.telemetry) for b in record.blocks],
            "useful_tokens": [b.work.useful_tokens for b in record.blocks],
            "block_lengths": [b.seconds for b in record.blocks],
            "interrupted": [b.interrupted for b in record.blocks],
        }
    return found


def investigated(settings: Settings, bench: Bench) -> Figures:
    """Measure a whole investigation as `slowstep measure` does, and return what it concluded.

    Its records lie in the work folder, so an investigation that was stopped goes on where it was.
    """
    loaded = Loaded(settings=settings, source=settings.name, places={})
    verdicts, failed, choice, lab = {}, {}, None, None
    with contextlib.closing(measured(sections_to_answer(settings), loaded, bench.work, lambda progress: None)) as steps:
        for one in steps:
            lab = one.lab
            verdicts |= {v.name: v for v in one.verdicts}
            choice = one.choice or choice
            if one.failed is not None:
                failed[one.section.notebook] = f"{type(one.failed).__name__}: {one.failed}"
    found = causes(choice.verdicts if choice else [], lab.suspects, settings.budget.minimum_effect) if lab else []
    final = choice.verdict if choice else None
    return {
        "causes": [_cause(cause) for cause in found],
        "verdicts": {
            name: {"outcome": str(v.outcome), "reason": v.reason, "effect": _effect(v.effect)}
            for name, v in verdicts.items()
        },
        "decided": sum(v.outcome in (Outcome.SUPPORTED, Outcome.REFUTED) for v in verdicts.values()),
        "failed": failed,
        "final": None if final is None else {"name": final.name, "outcome": str(final.outcome)} | _effect(final.effect),
        "mfu": lab.baseline.mfu if lab else None,
        "noise": lab.baseline.reading.detectable if lab else None,
        "step_seconds": lab.baseline.facts.throughput.seconds_per_step if lab else None,
        "projection": to_plain(lab.baseline.projection) if lab else None,
    }


def _cause(cause: Cause) -> Figures:
    return {
        "name": cause.factor or f"unexplained: {cause.phase}",
        "text": cause.text,
        **dict(zip(("ratio", "low", "high"), cause.size, strict=True)),
    }


def _effect(effect: Any) -> Figures:
    return {} if effect is None else {"ratio": effect.ratio, "low": effect.low, "high": effect.high}


def with_minutes(settings: Settings, minutes: float | None) -> Settings:
    """Return the settings with so many minutes for the whole investigation; None for as many as it takes."""
    return replace(settings, budget=replace(settings.budget, minutes=minutes))
