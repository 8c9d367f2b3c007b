"""Speed-ups and scaling efficiencies that a table states, held against its other figures and against equal work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from slowstep.audit.claims import judge
from slowstep.audit.equal_work import WHOLE, WORK, equal_work, read_from
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, Judgement, times
from slowstep.audit.read.columns import PART_OF_ALL
from slowstep.audit.read.unit_grammar import DEVICES
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import STATED, ReportedRun, same_devices
from slowstep.audit.sample_sizes import is_length
from slowstep.audit.unclear_batches import is_batch_size
from slowstep.settings.reported import Claim
from slowstep.text.numbers import percentage

SPEED_UP, EFFICIENCY, TIME_LEFT = STATED

UNITS = {SPEED_UP: exact(1), EFFICIENCY: exact(100), TIME_LEFT: exact(100)}
"""What each ratio is for the row that it is to."""

OF_STEPS = {TITLES[quantity] for quantity in ("steps_per_second", "seconds_per_step", *WHOLE)}
"""Units that count steps, or time, and not the work that is done in it."""

OF_PACKING = re.compile(r"pack(?:ed|ing|s)?(?![a-z])|unpad|var-?len", re.IGNORECASE)
"""Words of rows whose samples may be several of the data set, and whose tokens are no padding."""

SLIGHT = 0.002
"""The share beyond rounding by which efficiencies may be off that were reckoned in an unusual way."""

Reckon = Callable[[ReportedRun, ReportedRun, ReportedRun], Figure]
"""A way to reckon an efficiency from the speed-ups of the reference, of the row above, and of the row itself."""

COUNTS = {"steps": "steps_per_second", "samples": "samples_per_second", "epochs": "seconds_per_epoch"}
"""Counts of work, each with the figure by which one of them is timed."""

OF_A_SIZE = re.compile(
    rf"(?:(?:#|n|no\.?|num(?:ber)?(?: of)?|total|world|data|model)[ _]?)?(?:{PART_OF_ALL}|{'|'.join(sorted(DEVICES))}|"
    r"accum\w*|steps?|params?|layers?|dp|tp|pp)(?:[ _](?:count|size|steps))?",
    re.IGNORECASE,
)
"""Headers that say how large a run was made, whose ratio is no speed-up."""

OF_STEPS_TO = re.compile(r"(?:\b|_)(?:steps|iter(?:ation)?s|updates)(?:\b|_)", re.IGNORECASE)
"""Words of a column that counts steps and was not read: `steps to 3.28`."""


COUNTS_LESS = ("samples_per_second", "steps_per_second")
"""Units that may count other work than the one that two rows are compared in."""


def stated_ratios(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find speed-ups and efficiencies that no figure of their row beside those of a reference gives.

    The reference is a row with a speed-up of 1, or an efficiency of 100 %, above; a row that is called the base, or the
    first rows if these state nothing; or the row directly above. Any figure that gives it will do, even one that counts
    other work: whether that is a fair comparison is another question.
    """
    found = [
        finding
        for quantity in UNITS
        for run, references in with_references(runs, quantity)
        for finding in _unlike(run, _as_ratio(run, quantity), references, quantity)
    ]
    accused = {f.where for f in found}
    return found + [f for f in _efficiencies(runs) if f.where not in accused]


def with_references(runs: Sequence[ReportedRun], quantity: str) -> Iterator[tuple[ReportedRun, list[ReportedRun]]]:
    """Yield each row that states a ratio other than that of a reference, with the rows that it may be to."""
    above: ReportedRun | None = None
    stating = [run for run in runs if run.measured and (quantity in run.given or quantity in run.bases)]
    references = _bases(stating, quantity)
    for run in (run for run in stating if quantity in run.given):
        if run.given[quantity].meets(UNITS[quantity]):
            references.append(run)
        elif references:
            yield run, [*references, *([above] if above else [])]
        above = run


def unchecked_ratios(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask for the row that stated ratios are to where none states 1, or 100 %, and none is called their base."""
    found = [
        f"Is the speed-up of '{run.label}' ({run.given[SPEED_UP]}) one of samples before they are packed, or of useful "
        "tokens? By its other figures nobody can tell"
        for run, references in with_references(runs, SPEED_UP)
        if any(_counts_other_samples(reference, run) for reference in references)
    ]
    for quantity, what in ((SPEED_UP, "speed-ups"), (EFFICIENCY, "scaling efficiencies"), (TIME_LEFT, "changes")):
        stating = [run for run in runs if run.measured and (quantity in run.given or quantity in run.bases)]
        given = [run for run in stating if quantity in run.given]
        if quantity == EFFICIENCY and not any("devices" in run.given for run in runs):
            continue  # that of something else, as of padding
        if given and not _bases(stating, quantity) and not any(r.given[quantity].meets(UNITS[quantity]) for r in given):
            found.append(
                f"Which row are the {what} to, as that of '{given[0].label}' ({given[0].given[quantity]})? No row says "
                "that it is their base, so they were not held against other figures"
            )
    return found


def _bases(stating: Sequence[ReportedRun], quantity: str) -> list[ReportedRun]:
    """Return the rows without a ratio of their own that it may be to: all of them if the first row is one."""
    return [run for run in stating if quantity not in run.given] if stating and quantity in stating[0].bases else []


def _efficiencies(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find efficiencies that do not follow from the speed-ups and devices of their own rows.

    Authors reckon them in three ways: by the devices of the reference, where each device has its own batch without
    devices, or by those of the row above. An efficiency is a fault if no way gives those of all rows.
    """
    rows = [r for r in runs if r.measured and {SPEED_UP, EFFICIENCY, "devices"} <= r.given.keys()]
    first = next((r for r in rows if all(r.given[q].meets(UNITS[q]) for q in (SPEED_UP, EFFICIENCY))), None)
    if first is None:
        return []

    def by_devices(a: ReportedRun, _: ReportedRun, b: ReportedRun) -> Figure:
        return 100 * b.given[SPEED_UP] / (b.given["devices"] / a.given["devices"])

    def by_row_above(_: ReportedRun, above: ReportedRun, b: ReportedRun) -> Figure:
        return by_devices(above, above, b) / above.given[SPEED_UP]

    def of_each_batch(_: ReportedRun, __: ReportedRun, b: ReportedRun) -> Figure:
        return 100 * b.given[SPEED_UP]

    misfits = _misfits(first, rows, by_devices, CONSEQUENCE)
    otherwise = any(not _misfits(first, rows, way, SLIGHT) for way in (of_each_batch, by_row_above))
    return [
        Finding(
            kind=FindingKind.ARITHMETIC,
            where=run.label,
            text=f"the scaling efficiency is given as {run.given[EFFICIENCY]} %, and a speed-up of "
            f"{run.given[SPEED_UP]} on {run.given['devices']} devices is {follows} %",
        )
        for run, follows in ([] if otherwise else misfits)
    ]


def _misfits(
    first: ReportedRun, rows: Sequence[ReportedRun], way: Reckon, share: float
) -> list[tuple[ReportedRun, Figure]]:
    """Return the rows whose efficiency is off by more than a share from what a way to reckon it gives, with that."""
    behind = rows[rows.index(first) :]
    reckoned = ((run, way(first, above, run)) for above, run in pairwise(behind))
    return [(run, follows) for run, follows in reckoned if follows.gap(run.given[EFFICIENCY]) > share]


def _counts_other_samples(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether only one of two rows packs samples by its words, so that no speed of theirs counts equal work."""
    packs = [bool(r.packed or OF_PACKING.search(" ".join((r.label, *r.unknown.values(), *r.remarks)))) for r in (a, b)]
    whole = any(read_from(quantity, a, b) for quantity in WHOLE)
    return packs[0] != packs[1] and not whole


def _unlike(run: ReportedRun, said: Figure, references: Sequence[ReportedRun], quantity: str) -> list[Finding]:
    """Return a finding if no figure of the row gives what is said beside any reference."""
    if any(_counts_other_samples(reference, run) for reference in references):
        return []
    gains = [(reference, *gain) for reference in references for gain in _gains(reference, run)]
    several = {r.label: run.devices / r.devices for r in references if "devices" in r.given and "devices" in run.given}
    allowed = []
    for reference, gain, unit in gains:
        by = several.get(reference.label, exact(1))
        whole = 100 * gain / by if quantity == EFFICIENCY else gain
        # where each device has its own batch, a step of twice the devices is twice the work (weak scaling)
        allowed += [whole, whole * by] if unit in OF_STEPS else [whole]
    if quantity == EFFICIENCY:
        gains = [(r, 100 * gain / several[r.label], unit) for r, gain, unit in gains if r.label in several]
    allowed += [
        100 * ratio / several[r.label] if quantity == EFFICIENCY else ratio
        for r in references
        for ratio in _beside(r, run)
        if quantity != EFFICIENCY or r.label in several
    ]
    if quantity != EFFICIENCY:
        allowed += [gain for r in references for gain in _after_other_work(r, run)]
    if not gains or any(gain.gap(said) <= CONSEQUENCE for gain in allowed):
        return []
    reference, gain, unit = min(gains, key=lambda one: _unlike_words(one[0], run))
    if quantity == TIME_LEFT:
        text = f"the time is said to {_by(said)}, and by {unit} beside '{reference.label}' it {_by(gain, 's')}"
        if gain.low > 1 and (exact(2) - 1 / said).meets(gain):
            text += f"; {percentage(gain.middle - 1)} is how much faster it is"
    elif quantity == EFFICIENCY:
        text = f"the scaling efficiency is given as {said} %, and by {unit} beside '{reference.label}' it is {gain} %"
    else:
        text = (
            f"the speed-up is given as {said}, and by {unit} it is {times(gain.middle)} as fast as '{reference.label}'"
        )
        saved = exact(1) - 1 / gain
        if gain.low > 1 and (said - 1).meets(saved):
            text += f"; {percentage(saved.middle)} is the time that it saves"
    return [Finding(kind=FindingKind.ARITHMETIC, where=run.label, text=text)]


def _unlike_words(a: ReportedRun, b: ReportedRun) -> int:
    """Return how many columns that were not read say another thing of two rows: the fewer, the nearer a reference."""
    return sum(b.unknown.get(name) != text for name, text in a.unknown.items())


def _as_ratio(run: ReportedRun, quantity: str) -> Figure:
    """Return what a row states as an efficiency, or as how many times as fast it is."""
    said = run.given[quantity]
    return 100 / said if quantity == TIME_LEFT else said


def _by(ratio: Figure, end: str = "") -> str:
    """Return in words how a time changes that is done so many times as fast."""
    left = (1 / ratio).middle
    return f"{'fall' if left < 1 else 'rise'}{end} by {percentage(abs(1 - left))}"


def _beside(a: ReportedRun, b: ReportedRun) -> Iterator[Figure]:
    """Yield the ratios, either way round, of numbers that were not read, which may be times by other names.

    The size of a run is none: twice the nodes are no proof of twice the speed.
    """
    for name, value in b.beside.items():
        other = a.beside.get(name, 0.0)
        if value > 0 and other > 0 and not _is_size(name):
            yield from (exact(value / other), exact(other / value))


def _is_size(header: str) -> bool:
    return bool(is_batch_size(header) or is_length(header) or OF_A_SIZE.fullmatch(header.strip()))


def _after_other_work(a: ReportedRun, b: ReportedRun) -> Iterator[Figure]:
    """Yield how many times as fast `b` was done, if it took another number of steps, samples or epochs than `a`."""
    for count, timed in COUNTS.items():
        before, after, gain = a.solved.known.get(count), b.solved.known.get(count), read_from(timed, a, b)
        if before and after and gain and before.bounded and after.bounded:
            yield gain * (before / after)
    gain = read_from("steps_per_second", a, b)
    for name in (name for name in a.beside if gain and OF_STEPS_TO.search(name)):
        before, after = a.beside[name], b.beside.get(name, 0.0)
        if before > 0 and after > 0:
            yield gain * (before / after)


def _gains(a: ReportedRun, b: ReportedRun) -> Iterator[tuple[Figure, str]]:
    """Yield how many times as fast `b` is than `a` by each figure that both have, that of the most equal work first."""
    first, unit = equal_work(a, b)
    if first is not None and first.bounded:
        yield first, unit
    for quantity in dict.fromkeys((*WORK, *WHOLE)):
        gain = read_from(quantity, a, b)
        if gain is not None:
            yield gain, TITLES[quantity]


def in_other_units(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find each stated speed-up that is one of samples or steps alone, where a claim of that size is contradicted.

    Where the figures leave open which unit counts equal work, as with padding, nothing is found.
    """
    return [f for run, references in with_references(runs, SPEED_UP) for f in _in_other_unit(run, references, runs)]


def _in_other_unit(
    run: ReportedRun, references: Sequence[ReportedRun], runs: Sequence[ReportedRun]
) -> Iterator[Finding]:
    said = run.given[SPEED_UP]
    beside = [(r, *equal_work(r, run)) for r in references if same_devices(r, run)]
    if len(beside) < len(references) or any(gain is None or gain.gap(said) <= CONSEQUENCE for _, gain, _ in beside):
        return
    for reference, gain, unit in beside:
        for quantity in COUNTS_LESS:
            read = read_from(quantity, reference, run)
            if TITLES[quantity] == unit or read is None or read.gap(said) > CONSEQUENCE:
                continue
            claim = Claim(
                text=run.label, baseline=reference.label, treatment=run.label, speed_up=str(said), quantity=quantity
            )
            judged = judge(claim, runs)
            trapped = any(f.kind is FindingKind.UNIT for f in judged.findings)
            if trapped and judged.judgement is Judgement.CONTRADICTED:
                text = (
                    f"the speed-up is given as {said}, which it is in {TITLES[quantity]} beside '{reference.label}'; "
                    f"in {unit}, which counts equal work, it is {times(gain.middle)}"
                )
                yield Finding(kind=FindingKind.UNIT, where=run.label, text=text)
                return
