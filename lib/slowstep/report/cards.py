"""Cards: a verdict, a comparison, an arm or the lab as a notebook shows it, in HTML that needs no script."""

from __future__ import annotations

from functools import singledispatch
from html import escape

from slowstep.factors import Arm
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import Measured
from slowstep.judgement.verdict import Verdict
from slowstep.report.actions import KINDS
from slowstep.report.arm_charts import effects
from slowstep.report.chart import Table
from slowstep.report.drawing import svg
from slowstep.report.read_overview import overview
from slowstep.settings.convert import to_plain
from slowstep.settings.settings import Settings
from slowstep.text.visible import visible_lines
from slowstep.wording.words import effect, sign
from slowstep_probe.secret import masked


@singledispatch
def card(shown: object) -> str:
    """Return an object as HTML."""
    raise TypeError(f"there is no card for {type(shown).__name__}")


@card.register
def _(shown: Verdict) -> str:
    found = f"{effect(shown.effect)} throughput" if shown.effect else ""
    about = ", ".join(filter(None, (found, KINDS[shown.meaning])))
    return (
        f"<p><strong>{_text(sign(shown))}: {_text(shown.title_in_full)}</strong><br>{_text(about)}<br>"
        f"{_text(shown.reason)}</p>"
    )


@card.register
def _(shown: Measured) -> str:
    verdict, record = shown.verdict, shown.record
    if record is None or verdict.effect is None:
        return card(verdict)
    drawn = svg(effects([(verdict.title_in_full, verdict)], 0.0).json, f"effect {effect(verdict.effect)}")
    turns = "by turns" if record.by_turns else "both in memory"
    node = f", on node {record.node}" if record.node else ""
    rests = f"{verdict.effect.n} pairs of blocks, {turns}{node}"
    return f'{card(verdict)}<div style="max-width: 48rem">{drawn}</div><p>{_text(rests)}</p>'


@card.register
def _(shown: Arm) -> str:
    """Show what an arm sets beside the defaults, without secrets."""
    default, own = to_plain(Settings(name="")), to_plain(shown.settings)
    rows = []
    for section, values in own.items():
        usual = default.get(section)
        if isinstance(values, dict):
            changed = {key: value for key, value in values.items() if (usual or {}).get(key) != value}
            rows += [{"key": f"{section}.{key}", "value": str(masked(key, value))} for key, value in changed.items()]
        elif values != usual and section != "name":
            rows.append({"key": section, "value": str(masked(section, values))})
    return f"<p><strong>{_text(shown.label)}</strong></p>{Table(rows, 'Everything is as by default.')._repr_html_()}"


@card.register
def _(shown: Lab) -> str:
    """Show what is known, without measuring anything."""
    found = overview(shown.folder)
    answer = found.answer if found.runs or found.verdicts else "Nothing has been concluded yet."
    rows = [
        {"change": v.title_in_list, "verdict": sign(v), "effect [interval]": effect(v.effect)} for v in found.verdicts
    ]
    head = f"<p><strong>{_text(shown.settings.name)}</strong> on {_text(shown.machine)}: {_text(answer)}</p>"
    return head + (Table(rows)._repr_html_() if rows else "")


def _text(text: object) -> str:
    return escape(visible_lines(text))
