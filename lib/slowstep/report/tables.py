"""The tables of the reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slowstep.factors import CATALOGUE, Meaning
from slowstep.factors.factor import show
from slowstep.investigation.results import Baseline, BatchSize, Measured, worth_having
from slowstep.judgement.block_length import BlockLength
from slowstep.judgement.projection import Projection, devices
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.suspects.suspect import PASSES, TRAINS_NOTHING
from slowstep.judgement.throughput import Throughput, speed_up, throughput
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import PHASES, ComparisonRecord, Status, TrialRecord
from slowstep.report.chart import Table
from slowstep.settings import Loaded
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Settings
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
    loss_change,
    money,
    rate,
    share,
    share_span,
    sign,
    size,
)
from slowstep_probe.secret import masked

FINAL_FILES = {
    "training_args.yaml": "TrainingArguments(**yaml.safe_load(...)) takes it as it is",
    "lora_config.yaml": "LoraConfig(**...)",
    "quantization_config.yaml": "BitsAndBytesConfig(**...)",
    "changes.md": "the lines of the program to change, each with what it brings",
    "changes.patch": "those that are keywords of a call, for `git apply -p1`",
    "changes.json": "the same for `slowstep run --with`, which trains with them and edits nothing",
    "decision.md": "the decision with its reasons, to keep beside the code",
    "train.py": "trains the job with this configuration; plain transformers and peft",
}
"""Files that the last notebook writes, each with its use. The parameter file beside them is named after the
investigation."""

NOT_LISTED = "No hypothesis was listed for this notebook in the parameter file."


NO_COMBINATION = "No combination was measured."

NOTHING_LOST = "No phase is known to lose time that is worth a change."


def findings(verdicts: Sequence[Verdict], empty: str = NOT_LISTED) -> Table:
    """List each hypothesis with verdict, effect, interval and reason."""
    read, rounded = any(v.reading for v in verdicts), _rounded(verdicts)
    rows = []
    for v in verdicts:
        more = {"reading": str(v.reading or "")} if read else {}
        because = f"{v.reason}. Mind: {'; '.join(v.warnings)}" if v.warnings else v.reason
        rows.append(_row_of_hypothesis(v, rounded, because, more | {"class": str(v.meaning)}))
    return Table(rows, empty=empty)


def hypotheses(verdicts: Sequence[Verdict]) -> Table:
    """List each hypothesis in the short form, for files that are read as text."""
    rounded = _rounded(verdicts)
    return Table([_row_of_hypothesis(v, rounded, v.reason, {}) for v in verdicts], empty=NOT_LISTED)


def _row_of_hypothesis(v: Verdict, rounded: bool, because: str, more: dict[str, str]) -> dict[str, str]:
    """Return the row of a hypothesis; `more` holds columns beside those of each list, and `rounded` adds the losses."""
    return {
        "change": v.title_in_list,
        "verdict": sign(v),
        "effect [interval]": effect(v.effect),
        **more,
        **({"loss, first samples": _loss(v)} if rounded else {}),
        "because": because,
    }


def _rounded(verdicts: Sequence[Verdict]) -> bool:
    """Return whether any change that is not exact has losses over the same samples."""
    return any(v.loss_change is not None and v.meaning is not Meaning.EXACT for v in verdicts)


def _loss(v: Verdict) -> str:
    """Return the change of the loss in words; empty for an exact change."""
    return "" if v.effect is None or v.meaning is Meaning.EXACT else loss_change(v.loss_change)


def _units(t: Throughput) -> dict[str, str]:
    return {
        "s/step": f"{t.seconds_per_step:.3g}" if t.seconds_per_step < 999.5 else f"{t.seconds_per_step:,.0f}",
        "samples/s": rate(t.samples_per_second),
        "padded tokens/s": rate(t.padded_tokens_per_second),
        "useful tokens/s": rate(t.useful_tokens_per_second),
        "loss tokens/s": rate(t.loss_tokens_per_second),
        "useful positions": share(t.useful_share),
        "tokens cut off": share(t.cut_share),
    }


def arms(baseline: Baseline, measured: Sequence[Measured]) -> Table:
    """List the throughput of every arm in every unit. Seconds per step are not judged, since steps differ in work.

    Absolute figures of arms measured at different times also differ by the machine's drift. Only the verdicts compare
    them, since they rest on pairs adjacent in time.
    """
    rows = [{"arm": "baseline", **_units(baseline.facts.throughput)}]
    for m in measured:
        if m.record and m.record.pairs:
            rows.append({"arm": m.verdict.name, **_units(throughput([p.treatment for p in m.record.pairs]))})
        elif m.record:
            rows.append({"arm": m.verdict.name, "s/step": str(m.verdict.status)})
    seen = [name for name in rows[0] if any(row.get(name, NOT_MEASURED) != NOT_MEASURED for row in rows)]
    return Table([{name: row.get(name, "") for name in seen} for row in rows])


def facts(baseline: Baseline) -> Table:
    """List the figures of the baseline."""
    f, reading, memory = baseline.facts, baseline.reading, baseline.record.baseline.memory
    few = f"can't be told from so few pairs ({len(baseline.record.pairs)})"
    rows = [("how it failed", baseline.fails)] if baseline.fails else []
    rows += [(unit, value) for unit, value in _units(f.throughput).items()]
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


def best_each_way(cells: Sequence[Measured], factor: str) -> Table:
    """List the combination with the highest throughput for each level of `factor`; the baseline counts as one.

    Only what is certainly faster than the baseline takes its place.
    """
    if not cells:
        return Table([], empty=NO_COMBINATION)
    now = show(CATALOGUE[factor].current(cells[0].contrast.baseline.settings.run))
    best: dict[str, tuple[float, str, str]] = {now: (0.0, "baseline", "the reference")}
    told = [m for m in cells if m.verdict.effect and m.verdict.tells and m.verdict.outcome is not Outcome.NOT_TESTABLE]
    for m in told:
        level = next((show(level.value) for f, level in m.contrast.levels if f.name == factor), now)
        if level == now and m.verdict.effect.low <= 1:
            continue
        best[level] = max(best.get(level, (-1.0, "", "")), (m.verdict.gain, m.verdict.name, effect(m.verdict.effect)))
    return Table(
        [{factor: level, "best": name, "effect [interval]": shown} for level, (_, name, shown) in best.items()]
    )


def accumulation(settings: Settings, baseline: Baseline, measured: Sequence[Measured]) -> Table:
    """List the splits of the same effective batch: samples at once, number of parts, effect and peak memory."""

    def row(s: Settings, shown: str, trial: TrialRecord | None) -> dict[str, str]:
        batch, parts = s.training("per_device_train_batch_size"), s.training("gradient_accumulation_steps")
        peak = size(trial.memory.peak) if trial else "not measured"
        return {"samples at once × parts": f"{batch} × {parts}", "effect [interval]": shown, "peak memory": peak}

    rows = [row(settings, "the baseline", baseline.record.baseline)]
    for m in measured:
        shown = effect(m.verdict.effect) if m.verdict.effect else m.verdict.reason
        rows.append(row(m.contrast.treatment.settings, shown, m.record.treatment if m.record else None))
    empty = "No other split is listed: gradient_checkpointing.gradient_accumulation_steps in the parameter file."
    return Table(rows if measured else [], empty=empty)


def batch_sizes(tried: Sequence[BatchSize], baseline: Baseline, minimum_effect: float) -> Table:
    """List every batch size that the search tried, with effect and peak memory, and mark the one worth having."""
    chosen = worth_having(tried, minimum_effect)
    rows = []
    for s in tried:
        record = s.measured.record if s.measured else baseline.record
        memory = record.treatment.memory if record else None
        peak = memory and memory.peak
        rows.append(
            {
                "batch size": s.value,
                "effect [interval]": effect(s.measured.verdict.effect) if s.measured else "the baseline",
                "peak memory": size(peak),
                "ended": s.measured.verdict.reason if s.measured and s.ratio is None else "trained",
                "worth having": "this one" if s is chosen else "",
            }
        )
    return Table(rows, empty="No search was asked for: set budget.find_batch in the parameter file.")


def trials(measured: Sequence[Measured]) -> Table:
    """List the end of each trial, and its pairs, memory and start; on a cluster also its node."""
    nodes = any(m.record and m.record.node for m in measured)
    return Table(
        [
            {
                "arm": m.verdict.name,
                "ended": str(m.record.treatment.status),
                "reason": m.record.treatment.reason,
                "pairs": len(m.record.pairs),
                "pairs again": len(m.record.redone),
                "arms in memory": "by turns" if m.record.by_turns else "both",
                **({"node": m.record.node} if nodes else {}),
                "peak host memory": size(m.record.treatment.memory.host),
                "start": duration(sum(s for part, s in m.record.treatment.startup.items() if part != "imports")),
                "log": m.record.treatment.log if m.record.treatment.status is not Status.OK else "",
            }
            for m in measured
            if m.record
        ],
        empty="No trial was needed.",
    )


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


def files(paths: Sequence[Path], folder: Path) -> Table:
    """List the files that were written, relative to the investigation's folder, each with its use."""
    new = "the run as it now is, for the next make diagnose"
    return Table([{"file": str(p.relative_to(folder)), "use": FINAL_FILES.get(p.name, new)} for p in paths])


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


def settings_table(loaded: Loaded) -> Table:
    """List every setting with the place that it came from."""
    return Table(list(_rows(loaded, to_plain(loaded.settings), "")))


def _rows(loaded: Loaded, data: dict, prefix: str) -> Iterator[dict[str, str]]:
    default = to_plain(Settings(name=""))
    for name, value in data.items():
        key = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict) and value:
            yield from _rows(loaded, value, key)
        elif place := loaded.places.get(key):
            shown = str(masked(name, value))
            yield {"key": key, "value": shown, "from": place.removeprefix(f"{Path(loaded.source).parent}/")}
        elif prefix in ("model", "dataset", "job", "budget", "allow") and default.get(prefix, {}).get(name) == value:
            yield {"key": key, "value": str(value), "from": "default"}
