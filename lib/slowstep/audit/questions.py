"""Questions to the author of a report: facts that it does not give, and cures that it did not try."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise

from slowstep.audit.arithmetic import loads_beside
from slowstep.audit.device_words import named_devices
from slowstep.audit.differences import changed
from slowstep.audit.figures import exact
from slowstep.audit.findings import times
from slowstep.audit.outliers import SLIPS, unlike_for_a_reason
from slowstep.audit.prose_claims import prose_claims
from slowstep.audit.read.columns import column
from slowstep.audit.relations import TITLES, solve
from slowstep.audit.run import QUESTIONS, SAY, TEXT, ReportedRun, described
from slowstep.audit.short_runs import BESIDE_STEPS, beside_steps, of_one_epoch
from slowstep.factors.factor import show
from slowstep.judgement.devices import PEAKS, family_of, peak_of
from slowstep.settings import Settings
from slowstep.settings.errors import nearest
from slowstep.text.numbers import percentage
from slowstep.text.sentences import MOST, capitalised, listed

APART = 0.1
"""The share by which a ratio may be off that of two units."""

WAITING = 0.1
"""The share of a step from which on the wait for data is worth a question."""


def questions(settings: Settings, runs: Sequence[ReportedRun]) -> list[str]:
    """Return the questions on the whole report. Those on a claim are in its judgement."""
    return [
        *(_tokenising(runs) if described(settings) else []),
        *_loading(runs),
        *_starting(runs),
        *_whole_steps(runs),
        *_alike(runs),
        *_devices(runs),
        *_nodes(runs),
        *named_devices(runs),
        *_micro_batches(runs),
        *_split(runs),
        *_units(runs),
        *_parts(settings, runs),
        *_batches(runs),
        *_beside_steps(runs),
        *_epochs(runs),
        *unlike_for_a_reason(runs),
        *_busy(runs),
        *(f"'{run.label}': {question}" for run in runs for question in run.questions),
        *(question for run in runs for question in run.of_table),
        *_unread(runs),
        *prose_claims(runs),
        *_device(settings.reported.device if settings.reported else None),
        *_ignored(settings),
    ]


def _tokenising(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about tokenising once, which is the cheapest cure where steps wait for tokenising."""
    if any(r.settings.dataset.tokenize == "once" for r in runs):
        return []
    for run in runs:
        data, step = run.phases.get("data"), run.solved.known.get("seconds_per_step")
        share = (data / step).middle if data and step else 0.0
        if run.settings.workload in TEXT and WAITING < share < math.inf and not run.projected:
            return [
                f"'{run.label}' waits for data in {percentage(share)} of a step and tokenises each example whenever "
                "it is drawn. Was tokenising once, beforehand, tried? It ends that for good, without workers"
            ]
    return []


def _loading(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about loaders whose time is more than the step has left beside its other phases."""
    each = [words for words in map(loads_beside, runs) if words]
    return [f"Are {each[0]} hidden behind its steps, or waited for?"] if each else []


def _whole_steps(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask for the time of a step where rows give its phases alone: they may leave some out, or overlap."""
    alone = [r for r in runs if r.phases and not r.solved.known]
    if not alone:
        return []
    phases, names = sum(alone[0].phases.values(), exact(0)), listed([f"'{r.label}'" for r in alone], " and ")
    return [
        f"How long is a whole step of {names}? The phases alone are given, those of '{alone[0].label}' make {phases} "
        "s, and no row can be compared by them"
    ]


def _starting(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about workers that start anew with each short epoch."""
    found = []
    for run in runs:
        epoch, s = run.solved.known.get("seconds_per_epoch"), run.settings
        starts = s.training("dataloader_num_workers") and not s.training("dataloader_persistent_workers")
        if starts and epoch and epoch.middle < 10:
            found.append(
                f"An epoch of '{run.label}' takes {epoch.middle:.2g} s, and its workers start anew with each: do they "
                "persist (dataloader_persistent_workers)?"
            )
    return found


def _alike(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about equal figures under different settings: one of the two was not measured."""
    alike: dict[Hashable, list[ReportedRun]] = {}
    for run in runs:
        if len(run.given) > 1:
            alike.setdefault(frozenset(run.given.items()), []).append(run)
    return [
        f"'{b.label}' and '{a.label}' have the same figures under different settings: which of them was measured?"
        for group in alike.values()
        for b, a in pairwise(group)
        if changed(a.settings, b.settings) and not a.projected
    ]


def _devices(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about figures that fit several devices where their number is not given."""
    asked = (r for r in runs if "devices" not in r.given)
    fits = {r.label: c for r in asked for c in r.solved.contradictions if c.devices}
    return [
        f"Was '{label}' trained on {c.devices} devices? {TITLES[c.quantity]} is {c.given}, and would be {c.follows} on "
        "one"
        for label, c in fits.items()
    ]


def _nodes(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about costs that fit if the price of an hour is that of a node of several devices."""
    counted = [(r, r.given["devices"].middle) for r in runs if "devices" in r.given]
    fits = [(r, n, c) for r, n in counted for c in r.solved.contradictions if c.devices]
    asked = [(r, n / max(c.ratio, 1 / c.ratio), c) for r, n, c in fits if max(c.ratio, 1 / c.ratio) < 0.9 * n]
    return [
        f"Is the price of an hour of '{r.label}' that of a node of {each:.0f} devices? Its {TITLES[c.quantity]} is "
        f"{c.given}, and would be {c.follows} for one"
        for r, each, c in asked
    ]


def _micro_batches(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about figures that fit if a step is a micro-batch."""
    fits = {r.label: c for r in runs for c in r.solved.contradictions if c.micro_batches}
    return [
        f"Do the steps of '{label}' count micro-batches? {capitalised(TITLES[c.quantity])} is {c.given}, and follows "
        f"as {c.follows} from its other figures with {c.micro_batches} micro-batches a step"
        for label, c in fits.items()
    ]


def _split(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about models that may be split over devices, each copy of which has one batch."""
    found = [
        f"Is the model of '{run.label}' split over {c.split} devices? Samples a step are {c.given}, and would be "
        f"{exact(c.follows.middle)} if each device had a batch of its own"
        for run in runs
        for c in run.solved.contradictions
        if c.split and not c.micro_batches
    ]
    unknown = [
        f"'{r.label}'" for r in runs if r.says_batch and not r.copies and "samples_per_step" not in r.solved.known
    ]
    if unknown:
        found.append(
            f"How many samples does a step of {listed(unknown)} train on? The model may be split over devices, so that "
            "they do not follow from the batch"
        )
    return found


def _units(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows of one batch whose figures make samples a step that are as far apart as units of time."""
    given = ((r, r.solved.known.get("samples_per_step")) for r in runs if r.says_batch and _counts_samples(r))
    each = [(r, samples / r.settings.effective_batch_size) for r, samples in given if samples and samples.bounded]
    least, before = min(each, key=lambda pair: pair[1].middle, default=(None, None))
    found = []
    for run, parts in each:
        ratio = (parts / before).middle
        what = next((what for size, what in SLIPS.items() if size != 100 and abs(ratio / size - 1) < APART), "")
        if what:
            found.append(
                f"By their figures a step of '{run.label}' has {times(ratio)} the samples of one of '{least.label}' "
                f"for its batch: were {what} confused in a time or a speed?"
            )
    return found


def _busy(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about a device that is busy for more than all of the time, if devices were not counted."""
    busy = ((r, r.given["utilisation"]) for r in runs if "utilisation" in r.given and "devices" not in r.given)
    return [
        f"Is the device of '{run.label}' busy for {used} % as the sum of several? One is busy for 100 % at most"
        for run, used in busy
        if used.low > 100
    ]


def _device(name: str | None) -> list[str]:
    """Ask about a device that is not in the list: it is skipped, not guessed."""
    if name is None or peak_of(name):
        return []
    several = family_of(name)
    could = f" It could be {', '.join(several)}." if several else nearest(name, PEAKS)
    return [
        f"Which device is '{name}', as its driver names it? What it can do is not known here, and no figure was held "
        f"against it.{could}"
    ]


def _unread(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about columns of numbers whose meaning is not given."""
    names = dict.fromkeys(name for run in runs for name in run.unread)
    if not names:
        return []
    could_be = {name: QUESTIONS.get(column(name, set()).name, "").rstrip("?") for name in names}
    said = [f"{name} ({meanings})" if meanings else name for name, meanings in could_be.items()]
    if len(said) > MOST:
        said.sort(key=lambda name: name in could_be)  # those that may be a speed or a time come first
    return [f"What do these columns hold, which were not read: {listed(said)}? {capitalised(SAY)}"]


def _parts(settings: Settings, runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about accumulation and devices: a table with batch sizes seldom says what else makes up a step."""
    assumed = [r for r in runs if r.says_batch and "samples_per_step" in r.solved.known and not _counts_samples(r)]
    if described(settings) or not assumed:
        return []
    accumulated = all("gradient_accumulation_steps" in r.settings.training_arguments for r in assumed)
    counted = all("devices" in r.given for r in assumed)
    if counted:
        asked = "Are batches accumulated, and is that the same in all rows? The audit assumes they are not"
        return [] if accumulated else [asked]
    if accumulated:
        return ["Are batches spread over devices, and over as many in all rows? The audit assumes they are not"]
    return [
        "Are batches accumulated or spread over devices, and is that the same in all rows? The audit assumes neither"
    ]


def _counts_samples(run: ReportedRun) -> bool:
    """Return whether the samples of a step follow from the figures alone, without a batch."""
    samples = solve({q: f for q, f in run.given.items() if q in TITLES}).known.get("samples_per_step")
    return samples is not None and samples.bounded


def _batches(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about the batch of rows that give none and whose steps are compared, since they differ in other settings."""
    silent = [r for r in runs if r.measured and not r.says_batch and "samples_per_step" not in r.solved.known]
    by_steps = [r for r in silent if "steps_per_second" in r.solved.known]
    if not any(changed(a.settings, b.settings) for a, b in pairwise(by_steps)):
        return []
    return ["Is the batch the same in all rows? None gives one, and the audit assumes it where other settings differ"]


def _beside_steps(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about epochs and jobs with much time outside their steps: they also evaluate and save, or had other steps."""
    each = filter(all, map(beside_steps, runs))
    asked = [f"{rest}: is it evaluating, saving, starting, or were there other {what}?" for rest, what in each]
    of_epochs = [(run, what) for run in runs for what in ("steps", "samples") if of_one_epoch(run, what)]
    return asked + [
        f"Are the {run.given[what]} {what} of '{run.label}' those of one epoch? Its time is that of all "
        f"{run.solved.known['epochs']} epochs of so many"
        for run, what in of_epochs
    ]


def _epochs(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows whose samples a second and seconds an epoch make epochs of unlike size: an epoch is all data."""
    both = ("samples_per_second", "seconds_per_epoch")
    measured = [r for r in runs if r.measured and not r.packed and all(r.solved.known.get(q) for q in both)]
    each = [
        (r, r.solved.known[both[0]] * r.solved.known[both[1]]) for r in measured if "samples_per_epoch" not in r.given
    ]
    each = [(run, samples) for run, samples in each if samples.bounded]
    if len(each) < 2:
        return []
    (small, few), (large, many) = (pick(each, key=lambda one: one[1].middle) for pick in (min, max))
    if few.high * (1 + BESIDE_STEPS) >= many.low:
        return []
    return [
        f"By samples/s and s/epoch an epoch of '{large.label}' would have {many} samples and one of '{small.label}' "
        f"{few}: is it the same data, and what else is in the longer epoch?"
    ]


def _ignored(settings: Settings) -> list[str]:
    """Ask about settings of the report's run that a trial can't have."""
    held = settings.reported.ignored if settings.reported else {}
    return [
        f"The report's run has {name}={show(value)}, which a trial here leaves out: does it matter for the claim?"
        for name, value in held.items()
    ]
