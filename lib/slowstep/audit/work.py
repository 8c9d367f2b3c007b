"""Equal work: in which unit two runs can be compared."""

from __future__ import annotations

from slowstep.audit.figures import Figure, exact
from slowstep.audit.relations import TITLES
from slowstep.audit.run import Run, batches

WORK = ("tokens_per_second", "samples_per_second", "steps_per_second", "seconds_per_epoch", "seconds")
"""Speeds and times, by how equal the work is that they count; an epoch is the same data."""


def equal_work(a: Run, b: Run, quantity: str | None = None) -> tuple[Figure | None, str]:
    """How many times as fast `b` is, in the unit of the most equal work that both allow, and that unit; how many times
    as cheap, if that is what a claim is about."""
    if a.out_of_memory or b.out_of_memory:
        return None, ""
    if quantity == "cost":
        return _of_the_whole(quantity, a, b)
    for unit in WORK:
        if unit != "tokens_per_second" and lengths_differ(a, b):
            continue
        if unit == "steps_per_second" and not same_batch(a, b):
            continue
        if unit.startswith("seconds"):
            gain, title = _of_the_whole(unit, a, b)
        else:
            gain, title = read_from(unit, a, b), TITLES[unit]
        if gain:
            return gain, title
    before, after = a.tokens_at_full_length, b.tokens_at_full_length
    if before and after and before.bounded and after.bounded:
        return after / before, "tokens/s, were every sample as long as it may be"
    return None, ""


def _of_the_whole(quantity: str, a: Run, b: Run) -> tuple[Figure | None, str]:
    """The ratio of two whole times or costs, for as much work as both did if that is known to differ."""
    gain = read_from(quantity, a, b)
    counts = (
        ("samples_per_epoch", "steps_per_epoch") if quantity == "seconds_per_epoch" else ("samples", "epochs", "steps")
    )
    for count in counts if gain else ():
        before, after = a.solved.known.get(count), b.solved.known.get(count)
        if not before or not after or not (before.bounded and after.bounded):
            continue
        if count.startswith("steps") and not same_batch(a, b):
            continue
        if before.meets(after):
            break
        return gain * (after / before), f"{TITLES[quantity]} for as many {TITLES[count]}"
    return gain, TITLES[quantity]


def same_batch(a: Run, b: Run) -> bool:
    """Whether a step trains on as many samples, by the figures or else by the settings."""
    before, after = batches(a, b)
    if before and after:
        return before.meets(after)
    each = [r.settings.effective_batch_size * r.given.get("devices", exact(1)) for r in (a, b)]
    return each[0].meets(each[1])


def lengths_differ(a: Run, b: Run) -> bool:
    """Whether a sample is another amount of work, and nobody counted its tokens."""
    counted = "tokens_per_second" in a.solved.known and "tokens_per_second" in b.solved.known
    return a.length != b.length and not counted


def read_from(quantity: str, a: Run, b: Run) -> Figure | None:
    """How many times as fast `b` is by one figure, whatever work it counts."""
    before, after = a.solved.known.get(quantity), b.solved.known.get(quantity)
    if not before or not after or not (before.bounded and after.bounded):
        return None
    return before / after if faster_is_less(quantity) else after / before


def faster_is_less(quantity: str) -> bool:
    """Whether it is a time or a cost."""
    return quantity.startswith(("seconds", "minutes", "hours", "cost"))
