"""An audit as lines for a terminal. Nothing is drawn, so that the lines appear at once."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.audit.confounded import counted_devices
from slowstep.audit.differences import changed
from slowstep.audit.doubts import UNKNOWN, doubt_of
from slowstep.audit.equal_work import WHOLE, disputed, equal_work, hindrance, read_by, with_speed, work_done
from slowstep.audit.findings import Audit, FindingKind, Judged, Judgement, times
from slowstep.audit.noise import width_of
from slowstep.audit.relations import TITLES
from slowstep.audit.run import same_devices, unknown_differences
from slowstep.audit.short_runs import beside_steps, few_steps
from slowstep.settings.reported import Claim
from slowstep.text.sentences import sentence
from slowstep.text.visible import visible

MOST = 100
"""The most rows that are compared with the first one in words."""

SIGNS = {Judgement.HOLDS: "✔ holds", Judgement.CONTRADICTED: "✘ contradicted", Judgement.UNDECIDED: "? undecided"}


def headline(audit: Audit) -> str:
    """Return what becomes of the claims, or how many findings there are, as a sentence."""
    counts = {j: sum(c.judgement is j for c in audit.claims) for j in Judgement}
    named = {j: SIGNS[j].split(" ", 1)[1] for j in Judgement}
    words = [f"{n} {named[j].removesuffix('s') if n > 1 else named[j]}" for j, n in counts.items() if n]
    if words:
        return f"Of {counted(len(audit.claims), 'claim')}: {', '.join(words)}."
    return f"{counted(len(audit.faults), 'finding')}." if audit.faults else "The figures agree with each other."


def counted(count: int, what: str) -> str:
    """Return a number of things with the thing's name."""
    return f"{count} {what}{'s' * (count != 1)}"


def answer(audit: Audit) -> str:
    """Return what the figures say, as a reader asks first: of the claims, and why of the first that does not hold."""
    contradicted = next((c for c in audit.claims if c.judgement is Judgement.CONTRADICTED), None)
    if contradicted is None:
        said = [f"{f.where}: {sentence(f.text)}" for f in audit.faults] + [sentence(text) for text in compared(audit)]
        return visible(" ".join([headline(audit), *(said[:1] if not audit.claims else [])]))
    return visible(f"{headline(audit)} “{contradicted.claim.text}”: {sentence(contradicted.reason)}")


def compared(audit: Audit) -> list[str]:
    """Compare every measured row with the first one, at equal work or with a doubt; impossible rows are left out."""
    measured = with_speed(r for r in audit.runs if r.label not in audit.impossible)
    odd = {f.where for f in audit.findings if f.kind is FindingKind.NEIGHBOURS}
    found = []
    for first, run in ((measured[0], run) for run in measured[1 : MOST + 1]):
        gain, unit = equal_work(first, run)
        if gain is None or not gain.bounded:
            why, question = hindrance(first, run)
            found.append(visible(f"'{run.label}' can't be compared with '{first.label}': {why} ({question})"))
            continue
        whole = next((q for q in WHOLE if TITLES[q] == unit), None)
        claim = Claim(text="", baseline=first.label, treatment=run.label, quantity=whole)
        doubts = [width_of(first, run, gain), doubt_of(claim, first, run, gain, unit), disputed(first, run, gain)]
        doubts += [UNKNOWN] * bool(whole and not work_done(whole, first, run))
        doubts += [few_steps(first, run, unit)]
        beside = [beside_steps(r)[0] for r in (first, run)]
        doubts += [] if all(beside) else beside  # what both have is no reason to doubt a difference
        doubts += [f"the figures of '{r.label}' are unlike its neighbours'" for r in (first, run) if r.label in odd]
        devices = "" if same_devices(first, run) else f", on {counted_devices(run)} and {first.devices}"
        unknown = unknown_differences(first, run)
        if unknown and not any(unknown.removesuffix(", which was not read") in doubt for doubt in doubts):
            doubts.append(f"they differ in {unknown}")
        elif not unknown and not devices and not changed(first.settings, run.settings):
            doubts.append("which settings differ is not given")
        text = f"'{run.label}' is {times(gain.middle)} as fast as '{first.label}' {read_by(unit)}{devices}"
        found.append(visible("; ".join([text, *dict.fromkeys(filter(None, doubts))])))
    if len(measured) > MOST + 1:
        found.append(f"{counted(len(measured) - MOST - 1, 'more row')} stand in the report's table")
    return found


def claim_lines(audit: Audit, claims: Sequence[Judged] | None = None) -> list[str]:
    """Return the lines of the claims, or of some of them; for a report without claims, a comparison of its rows."""
    if not audit.claims:
        rows = [sentence(text) for text in compared(audit)]
        return [*rows, "no claim was given; one that stands in `reported.claims` is judged"]
    shown = audit.claims if claims is None else claims
    return [f"{SIGNS[c.judgement]}: {visible(c.claim.text)}\n    {sentence(visible(c.reason))}" for c in shown]


def finding_lines(audit: Audit) -> list[str]:
    """Return the lines of all other findings, and of the first questions to ask."""
    found = [f"- {f.kind}: {visible(f.where)}: {sentence(visible(f.text))}" for f in audit.beside]
    return found + [f"- to be asked: {sentence(visible(q))}" for q in audit.first_questions]
