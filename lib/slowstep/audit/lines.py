"""An audit in lines for a terminal; nothing is drawn, so that they are there at once."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.audit.claims import UNKNOWN, doubt_of
from slowstep.audit.differences import changed
from slowstep.audit.findings import Audit, Judged, Judgement, Kind, times
from slowstep.audit.relations import TITLES
from slowstep.audit.work import WHOLE, equal_work, with_speed, work_done
from slowstep.settings.reported import Claim
from slowstep.text.visible import visible

SIGNS = {Judgement.HOLDS: "✔ holds", Judgement.CONTRADICTED: "✘ contradicted", Judgement.UNDECIDED: "? undecided"}


def sentence(text: str) -> str:
    """First letter large, a full stop at the end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def compared(audit: Audit) -> list[str]:
    """Every measured row beside the first, at equal work, or with the doubt whether it is; without those that can't be
    true."""
    measured = with_speed(r for r in audit.runs if r.label not in audit.impossible)
    odd = {f.where for f in audit.findings if f.kind is Kind.NEIGHBOURS}
    found = []
    for first, run in ((measured[0], run) for run in measured[1:]):
        gain, unit = equal_work(first, run)
        if gain is None or not gain.bounded:
            continue
        whole = next((q for q in WHOLE if TITLES[q] == unit), None)
        claim = Claim(text="", baseline=first.label, treatment=run.label, quantity=whole)
        doubts = [doubt_of(claim, first, run, gain, unit)]
        doubts += [UNKNOWN] * bool(whole and not work_done(whole, first, run))
        doubts += [f"the figures of '{r.label}' are unlike its neighbours'" for r in (first, run) if r.label in odd]
        doubts += ["which settings differ is not given"] * (not changed(first.settings, run.settings))
        text = f"'{run.label}' is {times(gain.middle)} as fast as '{first.label}' in {unit}"
        found.append("; ".join([text, *dict.fromkeys(filter(None, doubts))]))
    return found


def claim_lines(audit: Audit, claims: Sequence[Judged] | None = None) -> list[str]:
    """The claims, or some of them, for a terminal; of a report that claims nothing, its rows beside each other."""
    if not audit.claims:
        rows = [sentence(text) for text in compared(audit)]
        return [*rows, "no claim was given; what the figures say of one is judged if it stands in `reported.claims`"]
    told = audit.claims if claims is None else claims
    return [f"{SIGNS[c.judgement]}: {visible(c.claim.text)}\n    {sentence(c.reason)}" for c in told]


def finding_lines(audit: Audit) -> list[str]:
    """What else was found, and what is to be asked first, for a terminal."""
    found = [f"- {f.kind}: {f.where}: {sentence(f.text)}" for f in audit.beside]
    return found + [f"- to be asked: {sentence(q)}" for q in audit.first_questions]
