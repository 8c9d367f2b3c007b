"""An investigation's summary beside its records: summary.md with summary.svg to paste, summary.json to read by program.

docs/summary.md describes the JSON. Its `version` grows with each change that a reader would notice.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from slowstep import __version__
from slowstep.factors import Meaning
from slowstep.investigation.results import Refused
from slowstep.judgement.intervals import Interval
from slowstep.judgement.projection import Projection
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records.store import write_atomically
from slowstep.report import overview_charts as charts
from slowstep.report.actions import what
from slowstep.report.drawing import svg_file
from slowstep.report.overview import Overview
from slowstep.settings.convert import to_plain
from slowstep.text.markdown import code, escape
from slowstep.wording.remaining import still_lost
from slowstep.wording.words import effect

VERSION = 1

NAME = "summary"
"""The name of the three files, without their endings."""


def write_summary(folder: Path, found: Overview) -> None:
    """Write the three files of an investigation into its folder. The drawing is left out if nothing was measured."""
    text = json.dumps(_finite(as_json(found)), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / f"{NAME}.json", f"{text}\n")
    chart = charts.step(found) or charts.hypotheses_chart(found.verdicts, found.minimum_effect)
    picture = folder / f"{NAME}.svg"
    if chart:
        write_atomically(picture, svg_file(chart.json, chart.description))
    else:
        picture.unlink(missing_ok=True)
    write_atomically(folder / f"{NAME}.md", as_markdown(found, chart.description if chart else ""))


def as_markdown(found: Overview, picture: str = "") -> str:
    """Return the summary as Markdown, to be pasted into an issue. `picture` describes the drawing, if there is one."""
    asks = "why are the steps slow?" if found.trained else "do the figures bear out what was concluded?"
    parts = [f"## {escape(found.name)}: {asks}", f"**{escape(found.headline)}**"]
    if found.beside:
        parts.append(escape(found.beside))
    if picture:
        parts.append(f"![{escape(picture)}]({NAME}.svg)")
    if found.causes:
        parts.append(_numbered("Why it is slow", [escape(c.text) for c in found.causes]))
    if found.actions:
        lines = [f"{code(a.what)}: {f'**{a.gain}**, ' if a.gain else ''}{escape(a.kind)}" for a in found.actions]
        parts.append(_numbered("What to do", lines))
    if found.confirmed:
        parts.append(f"{escape(found.confirmed)} {escape(found.memory)}".rstrip())
    if found.remains:
        parts.append("\n".join(["**What is still lost**", "", *(f"- {escape(one)}" for one in found.remains)]))
    if found.beyond:
        lines = [f"- {code(what(r.verdict))}: **{effect(r.verdict.effect)}**: {refusal(r)}" for r in found.beyond]
        parts.append("\n".join(["**Supported, and not adopted**", "", *lines]))
    counts = [f"{len(found.of(outcome))} {outcome}" for outcome in Outcome if found.of(outcome)]
    limits = sum(v.meaning is Meaning.DIAGNOSTIC for v in found.of(Outcome.SUPPORTED))
    counts[:1] = [f"{counts[0]} ({limits} of them a limit and no change)"] if limits else counts[:1]
    counts += [f"{len(found.untried)} not reached in the time given"] * bool(found.untried)
    rests = [f"Hypotheses: {', '.join(counts)}."] if counts else []
    rests += [escape(found.measured), escape(found.certainty)]
    rests.append(f"Written by slowstep {__version__}.")
    parts.append(" ".join(filter(None, rests)))
    return "\n\n".join(parts) + "\n"


def _numbered(title: str, lines: list[str]) -> str:
    return "\n".join([f"**{title}**", "", *(f"{i}. {line}" for i, line in enumerate(lines, 1))])


def refusal(refused: Refused) -> str:
    """Return why a change is not adopted, and what would let it in, as a clause in Markdown."""
    remedy = f"; {code(refused.remedy)} in {refused.file} allows it" if refused.remedy else ""
    return f"{escape(refused.why)}{remedy}"


def as_json(found: Overview) -> dict[str, Any]:
    """Return the summary as plain data. docs/summary.md says what each key means."""
    decision, left = found.decision, found.decision.remaining
    return {
        "version": VERSION,
        "slowstep": __version__,
        "judged_by_another_version": bool(found.other_code),
        "name": found.name,
        "machine": found.machine,
        "answer": found.answer,
        "course": found.course or None,
        "causes": [{"text": c.text, "factor": c.factor, "phase": c.phase} for c in found.causes],
        "adopted": _verdict(decision.adopted) if decision.adopted else None,
        "changes": [_verdict(v) for v in found.parts],
        "unshown": decision.unshown,
        "remaining": left and [{"text": still_lost(one), "phase": one.phase} for one in left.suspects],
        "refused": [_verdict(r.verdict) | {"why": r.why, "remedy": r.remedy or None} for r in decision.refused],
        "job": {"before": _job(decision.before), "after": _job(decision.after)},
        "step_seconds": {"before": decision.step_before or None, "after": decision.step_after or None},
        "memory_bytes": {"before": decision.memory_before.peak, "after": decision.memory_after.peak},
        "hypotheses": [_verdict(v) for v in found.verdicts],
        "detectable_ratio": found.noise,
        "minimum_effect": found.minimum_effect or None,
        "reports": {r.notebook: {"status": r.status, "file": r.report or None} for r in found.runs},
        "seconds": found.seconds or None,
    }


def _finite(value: Any) -> Any:
    """Return plain data with null for numbers that are not finite, such as the end of an interval of one pair."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _verdict(v: Verdict) -> dict[str, Any]:
    return {
        "name": v.name,
        "factor": v.factor,
        "outcome": str(v.outcome),
        "throughput_ratio": _ratio(v.effect),
        "at_most_ratio": v.bound.ratio if v.bound else None,
        "class": str(v.meaning),
        "cause": v.cause,
        "where": v.lines,
        "settings": to_plain(v.overrides),
        "beside": to_plain(v.held_constant),
        "reason": v.reason,
        "doubt": v.doubt or None,
        "node": v.node or None,
    }


def _ratio(found: Interval | None) -> dict[str, float] | None:
    return {"estimate": found.ratio, "low": found.low, "high": found.high, "pairs": found.n} if found else None


def _job(job: Projection | None) -> dict[str, Any] | None:
    if job is None:
        return None
    cost = None if job.price_per_hour is None else job.cost(job.seconds)
    seconds = {"estimate": job.seconds, "low": job.low, "high": job.high}
    return {
        "seconds": seconds,
        "steps": job.steps,
        "cost": cost,
        "currency": job.currency if cost is not None else None,
        "assumed": job.assumed or None,
        "left_out": job.left_out or None,
    }
