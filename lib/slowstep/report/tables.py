"""The tables of what was tried: hypotheses, arms, trials, batch sizes, files, settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from slowstep.factors import CATALOGUE, Meaning
from slowstep.factors.factor import show
from slowstep.investigation.results import Baseline, BatchSize, Measured, worth_having
from slowstep.judgement.throughput import Throughput, throughput
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import Status, TrialRecord
from slowstep.report.chart import Table
from slowstep.settings import Loaded
from slowstep.settings.convert import to_plain
from slowstep.settings.settings import Settings
from slowstep.wording.words import (
    NOT_MEASURED,
    duration,
    effect,
    loss_change,
    rate,
    share,
    sign,
    size,
)
from slowstep_probe.secret import masked

FINAL_FILES = {
    "training_args.yaml": "TrainingArguments(**yaml.safe_load(...)) takes it as it is",
    "lora_config.yaml": "LoraConfig(**...)",
    "quantization_config.yaml": "BitsAndBytesConfig(**...)",
    "changes.md": "the lines of the program to change, each with what it brings",
    "changes.patch": "those that are keywords of a call, for `git apply -p1` in the command's folder",
    "changes.json": "the same for `slowstep run --with`, which trains with them and edits nothing",
    "decision.md": "the decision with its reasons, to keep beside the code",
    "train.py": "trains the job with this configuration; plain transformers and peft",
}
"""Files that the last notebook writes, each with its use. The parameter file beside them is named after the
investigation."""

NOT_LISTED = "No hypothesis was listed for this notebook in the parameter file."

NO_COMBINATION = "No combination was measured."


def findings(verdicts: Sequence[Verdict], empty: str = NOT_LISTED) -> Table:
    """List each hypothesis with verdict, effect, interval and reason."""
    read, rounded = any(v.reading for v in verdicts), _rounded(verdicts)
    rows = []
    for v in verdicts:
        more = {"reading": str(v.reading or "")} if read else {}
        rows.append(_row_of_hypothesis(v, rounded, v.because, more | {"class": str(v.meaning)}))
    return Table(rows, empty=empty)


def hypotheses(verdicts: Sequence[Verdict]) -> Table:
    """List each hypothesis in the short form, for files that are read as text."""
    rounded = _rounded(verdicts)
    return Table([_row_of_hypothesis(v, rounded, v.because, {}) for v in verdicts], empty=NOT_LISTED)


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


def in_units(t: Throughput) -> dict[str, str]:
    """Return a throughput in each unit, as text, by the unit's name."""
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
    rows = [{"arm": "baseline", **in_units(baseline.facts.throughput)}]
    for m in measured:
        if m.record and m.record.pairs:
            rows.append({"arm": m.verdict.name, **in_units(throughput([p.treatment for p in m.record.pairs]))})
        elif m.record:
            rows.append({"arm": m.verdict.name, "s/step": str(m.verdict.status)})
    seen = [name for name in rows[0] if any(row.get(name, NOT_MEASURED) != NOT_MEASURED for row in rows)]
    return Table([{name: row.get(name, "") for name in seen} for row in rows])


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
        empty="No change was trained.",
    )


def files(paths: Sequence[Path], folder: Path) -> Table:
    """List the files that were written, relative to the investigation's folder, each with its use."""
    new = "the run as it now is, for the next make diagnose"
    return Table([{"file": str(p.relative_to(folder)), "use": FINAL_FILES.get(p.name, new)} for p in paths])


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
