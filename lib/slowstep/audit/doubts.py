"""Doubts that only the author of a report can resolve: why speeds can't be compared, and what to ask."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slowstep.audit.confounded import PARTS_OF_BATCH, in_column
from slowstep.audit.device_words import DEVICES, uncounted_devices
from slowstep.audit.differences import changed
from slowstep.audit.equal_work import (
    FULL_LENGTH,
    OF_A_DEVICE,
    OF_PRICE,
    WHOLE,
    as_in_an_epoch,
    counts_steps,
    lengths_differ,
    padding_differs,
    read_from,
    same_batch,
    tokens_disagree,
    work_done,
)
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import contradicts, stated_speed_up, times
from slowstep.audit.relations import TITLES, solve
from slowstep.audit.run import ReportedRun, unknown_differences
from slowstep.audit.sample_sizes import OTHER_SAMPLES, other_samples, question_of_sizes
from slowstep.audit.short_runs import FEW_STEPS, few_steps, question_of_steps
from slowstep.audit.time_to_result import ON_THAT, SAME_RESULT
from slowstep.audit.unclear_batches import ACCUMULATED, makes_more_sense
from slowstep.settings.reported import Claim

CUT = "the figures don't say how much of that is padding no longer computed, and how much is text no longer seen"
UNKNOWN = "this is a total time, and the figures don't say whether both runs did as much work in it"
PADDED = "the figures don't say whether the tokens a second count padding, and the two runs differ in its share"
OTHER_TOKENS = "the figures don't say whether the tokens that a sample lacks in one of them are padding or text"
BATCH = "the figures don't say whether a step trains on as many samples in both"
MICRO = "the figures don't say whether these steps are micro-batches"

OF_PADDING = re.compile(
    r"(?<![a-z])pad(?:s|ded|ding)?(?![a-z])|(?:group|sort)\w*[ _-]by[ _-]len|bucket(?:ing|ed)|smart[ _-]batch",
    re.IGNORECASE,
)
"""Words of what leaves out padding and no text."""


def doubt_of(claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure | None, unit: str) -> str:
    """Return why speeds can't be compared without more information; empty where they can."""
    if lengths_differ(a, b) and not (a.packed and b.packed):
        return CUT
    if unit == TITLES["tokens_per_second"] and padding_differs(a, b):
        return PADDED
    if gain and (other := other_samples(a, b, unit)):
        return other
    if tokens_disagree(a, b) and not _padding_explains(a, b) and not _epochs_decide(claim, a, b):
        by_tokens = read_from("tokens_per_second", a, b)
        also = f", and in tokens/s it is {times(by_tokens.middle)} as fast" if by_tokens else ""
        return PADDED if a.length and a.length == b.length else f"{OTHER_TOKENS}{also}"
    whole = read_from(claim.quantity, a, b) if claim.quantity in WHOLE else None
    unknown = whole and gain and not work_done(claim.quantity, a, b)
    # no other figure counts equal work
    alone = unknown and claim.quantity not in OF_PRICE and unit == TITLES["seconds"]
    if alone or (unknown and not whole.meets(gain)):  # type: ignore[union-attr]
        return UNKNOWN
    of_one = claim.quantity is not None and claim.quantity.endswith(OF_A_DEVICE)
    if not of_one and (of_devices := uncounted_devices(a, b, unit, claim.text)):
        return of_devices
    if gain and (other := by_micro_batches(a, b, gain, unit)) and not _both_deny(claim, gain, other):
        return f"{MICRO}, and if they are it is {times(other.middle)} as fast"
    differ = changed(a.settings, b.settings).keys()
    of_batch = _batch_unknown(a, b, unit) if not differ or differ & PARTS_OF_BATCH else ""
    return of_batch or (few_steps(a, b, unit) if gain else "")


def by_micro_batches(a: ReportedRun, b: ReportedRun, gain: Figure, unit: str) -> Figure | None:
    """Return the gain if steps that may be micro-batches are; None where that changes nothing, or makes less sense.

    Rows that accumulate other numbers of them are as a rule more alike by the right reading.
    """
    parts = [int(r.settings.training(ACCUMULATED)) if r.step_word else 1 for r in (a, b)]
    counted = {TITLES["tokens_per_second"]: "tokens_per_second"}.get(unit, "samples_per_second")
    if parts[0] == parts[1] or unit not in (TITLES["samples_per_second"], TITLES["tokens_per_second"], FULL_LENGTH):
        return None
    if all(counted in solve({q: f for q, f in r.given.items() if q in TITLES}).known for r in (a, b)):
        return None
    other = gain * (parts[0] / parts[1])
    return other if makes_more_sense(other, gain, parts[1] / parts[0]) else None


def _both_deny(claim: Claim, gain: Figure, other: Figure) -> bool:
    """Return whether a claim is contradicted whether or not its steps are micro-batches."""
    stated = stated_speed_up(claim)
    return bool(stated and contradicts(gain, stated) and contradicts(other, stated))


def _padding_explains(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether a sample has other tokens in two rows since one of them pads all to the full length."""
    padded = [r for r in (a, b) if r.settings.dataset.padding == "max_length"]
    tokens = padded[0].solved.known.get("tokens_per_sample") if len(padded) == 1 else None
    return bool(tokens and padded[0].length and tokens.meets(exact(padded[0].length)))


def _epochs_decide(claim: Claim, a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether the time of an epoch tells which tokens are gone: text, or padding if no text can be cut off."""
    unit = as_in_an_epoch(a, b)
    words = (claim.text, a.label, b.label, *a.unknown.values(), *b.unknown.values())
    of_padding = bool(a.length and a.length == b.length) or any(map(OF_PADDING.search, words))
    return unit == "tokens_per_second" or (unit == "samples_per_second" and of_padding)


def _batch_unknown(a: ReportedRun, b: ReportedRun, unit: str) -> str:
    """Return a doubt if two runs were compared by steps of which nobody says how many samples they have."""
    if not counts_steps(unit, a, b) or same_batch(a, b) is not None:
        return ""
    before, after = (r.solved.known.get("steps") for r in (a, b))
    if not before or not after or before.meets(after):
        return BATCH
    return f"{BATCH}, and '{b.label}' took {after} steps where '{a.label}' took {before}, as with another batch"


def questions_of(claim: Claim, a: ReportedRun, b: ReportedRun, doubt: str) -> list[str]:
    """Return the questions that would decide a claim: on the rows' settings, on a `doubt`, and on their measuring."""
    by_column = in_column(claim.factor, a) != in_column(claim.factor, b)
    known = by_column or changed(a.settings, b.settings) or unknown_differences(a, b)
    settings = f"Which settings differ between '{a.label}' and '{b.label}'? None are given"
    return [*([settings] if claim.factor and not known else []), *_on_doubt(a, b, doubt), *_on_measuring(a, b)]


def _on_doubt(a: ReportedRun, b: ReportedRun, doubt: str) -> Iterator[str]:
    """Yield the questions on a doubt, which begins or ends with the text that names it."""
    both = f"'{a.label}' and '{b.label}'"
    if doubt == CUT:
        short = min(n for n in (a.length, b.length) if n)
        yield (
            f"What share of the positions is padding in {_padded(a, b)}? If the samples are shorter "
            f"than {short} tokens, it was padding that cost the time"
        )
        yield f"What share of the tokens does a length of {short} cut off?"
    if doubt.startswith(OTHER_TOKENS):
        yield f"Do the tokens a second of {_padded(a, b)} count padding, or was text cut off in one of them?"
    if doubt.endswith(ON_THAT):
        yield "Is the claim on the time to the same result, or on the time of as much work?"
    if doubt.endswith(SAME_RESULT):
        yield f"Did {both} come to the same loss or accuracy?"
    if doubt == PADDED:
        yield f"Do the tokens a second of {_padded(a, b)} count padding?"
    if doubt.startswith(OTHER_SAMPLES):
        yield question_of_sizes(a, b)
    if doubt.startswith(FEW_STEPS):
        yield question_of_steps(a, b)
    if doubt.startswith(BATCH):
        yield f"How many samples does a step of '{a.label}' and one of '{b.label}' train on?"
    if doubt.startswith(MICRO):
        words = " or ".join(dict.fromkeys(f"'{r.step_word}'" for r in (a, b) if r.step_word))
        yield f"Is one {words} of {both} a micro-batch, or all that a step accumulates?"
    if doubt.endswith(DEVICES):
        yield f"On how many devices were {both} trained?"
    if doubt == UNKNOWN:
        yield f"How many steps or epochs did {both} take?"


def _on_measuring(a: ReportedRun, b: ReportedRun) -> Iterator[str]:
    """Yield what to ask about how two rows were measured."""
    if b.out_of_memory:
        yield f"Does '{b.label}' fit with a smaller batch, accumulated to the same samples a step?"
    elif a.repeats and b.repeats:
        yield f"Did the repeats of '{a.label}' and '{b.label}' take turns, or did one come after the other?"
    elif not b.projected:
        yield (
            f"How often was '{b.label}' measured, over how many steps after its warm-up, and in turns with '{a.label}' "
            "or at another time?"
        )


def _padded(a: ReportedRun, b: ReportedRun) -> str:
    """Return the names of the rows that can hold padding; packed ones have none."""
    return " and ".join(f"'{r.label}'" for r in (a, b) if not r.packed)
