"""Checks of figures against each other: relations, phases, sums, percentages. Rounding is no contradiction."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from slowstep.audit.equal_work import OF_PRICE, faster_is_less
from slowstep.audit.figures import Figure, exact, figure, shown
from slowstep.audit.findings import Finding, FindingKind, spread, times
from slowstep.audit.outliers import SLIPS
from slowstep.audit.relations import CONSEQUENCE, FITS, TITLES, Contradiction
from slowstep.audit.run import ReportedRun
from slowstep.settings.reported import Percentage, Sum

MIXED = {
    "steps": "steps",
    "samples": "samples trained on",
    "steps_per_epoch": "steps of an epoch",
    "samples_per_epoch": "samples of an epoch",
}
"""Counts that people confuse with each other."""

RISE = re.compile(r"\b(faster|quicker|more|higher|increase|rise|speed-?up)", re.IGNORECASE)
FALL = re.compile(
    r"\b(slower|less|lower|fewer|shorter|cheaper|drop|fall|fell|decrease|reduc|loss|lost|down|sav(?:e|ing)|cut)",
    re.IGNORECASE,
)
"""Words of a percentage that say in which direction it goes."""

PERCENTAGE = re.compile(r"\d[\d.,]*\s?(?:%|percent)")

OF_TIME = ("seconds", "minutes", "hours")
OF_SPEED = ("steps_per_second", "samples_per_second", "tokens_per_second")
"""The beginnings of the names of figures that have a unit of time."""

RESTARTED = 1.35
"""The ratio up to which device-hours beyond those of the run are taken for restarts and waiting."""

WIDE = 1.1
"""The ratio of a figure's ends from which on both ends are shown."""


def of_run(run: ReportedRun) -> list[Finding]:
    """Find the relations that fail among the figures of one run, and phases that don't add up to the step."""
    found = []
    for c in run.solved.contradictions:
        if c.devices or c.micro_batches or c.split or (c.quantity == "device_hours" and 1 < c.ratio < RESTARTED):
            continue
        off = f"{times(c.ratio)} that, " if c.follows.middle else ""
        text = (
            f"{TITLES[c.quantity]} is given as {c.given} and follows as {_wide(c.follows)} from "
            f"{c.relation or 'the settings'}: {off}which rounding does not explain"
        )
        text += _taken_for(run, c) + _of_one(run, c) + _of_each(run, c) + _other_unit(run, c)
        found.append(Finding(kind=FindingKind.ARITHMETIC, where=run.label, text=text, small=c.small))
    tensors, held = (run.given.get(f"memory_{what}_gib") for what in ("allocated", "reserved"))
    if tensors and held and tensors.low > held.high:
        text = f"{tensors} GiB are allocated out of {held} GiB reserved, which can't hold them"
        found.append(Finding(kind=FindingKind.ARITHMETIC, where=run.label, text=text))
    step = run.solved.known.get("seconds_per_step")
    if run.phases and step:
        whole = sum(run.phases.values(), exact(0))
        longer = whole.low > step.high and not loads_beside(run)
        if longer or ("other" in run.phases and whole.high < step.low):
            at_most = (
                "is given as" if "seconds_per_step" in run.given else "follows as" + " at most" * (not step.bounded)
            )
            text = f"the phases make {spread(whole)} s, and a step {at_most} {step} s"
            found.append(_finding(run.label, text, whole, step))
    return found


def loads_beside(run: ReportedRun) -> str:
    """Return in words that a step has room for all its phases but the loader's, which may run beside it; or nothing.

    Where the rest of the step is given as a phase (`other`), all of them are parts of it.
    """
    step = run.solved.known.get("seconds_per_step")
    if not step or "data" not in run.phases or "other" in run.phases:
        return ""
    whole, data = sum(run.phases.values(), exact(0)), run.phases["data"]
    without = sum((time for phase, time in run.phases.items() if phase != "data"), exact(0))
    if whole.low <= step.high or without.low > step.high or len(run.phases) < 3:
        return ""
    return f"the {data} s of the loader of '{run.label}' ({whole} s with its other phases, and a step is {step} s)"


def _wide(follows: Figure) -> str:
    wide = follows.bounded and follows.high > WIDE * follows.low
    return f"{follows} (anything from {shown(follows.low)} to {shown(follows.high)})" if wide else str(follows)


def _taken_for(run: ReportedRun, c: Contradiction) -> str:
    """Return a note if the figure is another count: samples in place of steps."""
    others = {q: run.solved.known.get(q) for q in MIXED if q != c.quantity} if c.quantity in MIXED else {}
    meant = next((q for q, other in others.items() if other and other.bounded and other.meets(c.given)), None)
    return f". {c.given} are the {MIXED[meant]}, and not {MIXED[c.quantity]}" if meant else ""


def _of_one(run: ReportedRun, c: Contradiction) -> str:
    """Return a note if a throughput is that of one of several devices."""
    devices = run.given.get("devices", exact(1))
    speed = c.quantity in ("samples_per_second", "tokens_per_second")
    if not speed or devices.low <= 1 or abs(c.ratio * devices.middle - 1) >= FITS:
        return ""
    return f". {c.given} is what one of {devices} devices does"


def _of_each(run: ReportedRun, c: Contradiction) -> str:
    """Return a note on what a cost would be if its price is that of one of several devices."""
    devices = run.given.get("devices", exact(1))
    if c.quantity != "cost" or "price_per_hour" not in c.among or devices.low <= 1:
        return ""
    return f". Were the price that of one of {devices} devices, it would be {c.follows * devices}"


def _other_unit(run: ReportedRun, c: Contradiction) -> str:
    """Return a note if another unit of a time or a speed would explain it: milliseconds that are given as seconds."""
    ratio = max(c.ratio, 1 / c.ratio) if c.ratio > 0 else 0.0
    timed = [TITLES[q] for q in TITLES if q in c.among and q in run.given and q.startswith((*OF_TIME, *OF_SPEED))]
    what = next((what for size, what in SLIPS.items() if size != 100 and abs(ratio / size - 1) < FITS), "")
    return f". Were {what} confused in {' or '.join(timed)}?" if what and timed else ""


def of_sum(given: Sum) -> list[Finding]:
    """Find parts that don't make the given total."""
    total, whole = figure(given.total), sum(map(figure, given.parts.values()), exact(0))
    if total.meets(whole):
        return []
    parts = " + ".join(f"{name} {value}" for name, value in given.parts.items())
    to_the_letter = sum((figure(v, rounded=False) for v in given.parts.values()), exact(0))
    return [_finding(given.text, f"{parts} make {spread(whole, to_the_letter)}, and not {given.total}", total, whole)]


def of_percentage(given: Percentage, runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find a percentage that does not follow from its two figures, or that rests on a figure which is contradicted."""
    before, after, said = figure(given.before), figure(given.after), figure(given.percent)
    if before.low <= 0 <= before.high:
        return []
    said = Figure(-0.5, 0.5, 0.0) if said == exact(0) else said
    is_speed, is_time = "_per_second" in (given.quantity or ""), faster_is_less(given.quantity or "seconds")
    unsigned = not RISE.search(given.text) and (not is_speed or bool(FALL.search(given.text)))
    follows = _percent(before, after, said, unsigned)
    inverse = 100 * (before / after - 1)  # 2.10 s in place of 1.49 are "41 % faster"
    said_of = _direction(given.text)
    rises = said_of is RISE
    of_speed = is_time and given.quantity not in OF_PRICE and after.low > 0 and said_of is not FALL
    if not said.meets(follows) and not (of_speed and said.low > 0 and said.meets(inverse)):
        said_percent = f"{str(given.percent).rstrip('% ')} %"
        faster = of_speed and rises and inverse.low > 0
        change = f"{spread(inverse, unit=' %')} more a second" if faster else spread(follows, unit=" %")
        text = f"from {given.before} to {given.after} is {change}, and not {said_percent}"
        return [Finding(kind=FindingKind.ARITHMETIC, where=given.text, text=text)]
    contradictions = [c for run in runs for c in run.solved.contradictions if c.quantity == given.quantity]
    true = {c.given: c.follows for c in contradictions if not c.small}
    if before not in true and after not in true:
        return []
    mended = _percent(true.get(before, before), true.get(after, after), said, unsigned)
    if said.meets(mended):
        return []
    wrong = " and ".join(str(f) for f in (before, after) if f in true)
    text = f"{given.percent} % rests on {wrong}, which does not hold; by what follows in its place it is {mended} %"
    return [Finding(kind=FindingKind.ARITHMETIC, where=given.text, text=text)]


def _direction(text: str) -> re.Pattern[str] | None:
    """Return in which direction the word goes that stands nearest to the percentage in a text; None without a word."""
    at = PERCENTAGE.search(text)
    begin, end = at.span() if at else (0, 0)
    words = [(word, kind) for kind in (FALL, RISE) for word in kind.finditer(text)]
    return min(words, key=lambda one: max(begin - one[0].end(), one[0].start() - end), default=(None, None))[1]


def _percent(before: Figure, after: Figure, said: Figure, unsigned: bool) -> Figure:
    """Return the change in percent. Where the text allows it, a fall may be `said` without its sign (`unsigned`)."""
    change = 100 * (after / before - 1)
    return -1 * change if unsigned and change.middle < 0 < said.middle else change


def _finding(where: str, text: str, a: Figure, b: Figure) -> Finding:
    return Finding(
        kind=FindingKind.ARITHMETIC, where=where, text=text, small=math.isclose(a.middle, b.middle, rel_tol=CONSEQUENCE)
    )
