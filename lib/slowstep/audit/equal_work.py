"""Equal work: the units in which two runs can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import times
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import TEXT, ReportedRun, batches
from slowstep.audit.sample_sizes import lengths_say_why

WORK = ("tokens_per_second", "samples_per_second", "steps_per_second", "seconds_per_epoch", "seconds")
"""Speeds and times; the more equal the work that they count, the earlier they come. An epoch is the same data."""

WHOLE = ("seconds_per_epoch", "minutes_per_epoch", "seconds", "minutes", "hours", "cost", "device_hours")
"""Times and costs of all that a run did. They include saves and evaluations, which steps do not."""


OF_PRICE = ("cost", "device_hours")
"""What all that a run did takes of money or of devices. A claim on it is read from that alone."""

FULL_LENGTH = "tokens/s with every sample at full length"
FULL_LENGTH_ALIKE = f"{FULL_LENGTH} and every batch as large"
"""Units whose work is equal under a condition, which a reader has to know."""

OTHER_TEXT = 0.1
"""The share by which the tokens of a sample may differ in two runs on the same text, whose batches differ."""

OF_A_DEVICE = "_per_device"
"""The ending of the names of speeds that count the work of one device."""


def with_speed(runs: Iterable[ReportedRun]) -> list[ReportedRun]:
    """Return the measured runs whose figures say how fast they were."""
    return [r for r in runs if r.measured and r.solved.known.keys() & {*WORK}]


def read_by(unit: str) -> str:
    """Return in words what two runs are compared by."""
    return "by total time" if unit == TITLES["seconds"] else f"in {unit}"


def equal_work(a: ReportedRun, b: ReportedRun, quantity: str | None = None) -> tuple[Figure | None, str]:
    """Return how many times as fast `b` is, and the unit: the one of the most equal work that both runs allow.

    For a claim on cost this is how many times as cheap it is. None, with an empty text, if no unit fits.
    """
    if a.out_of_memory or b.out_of_memory:
        return None, ""
    if quantity and quantity.endswith(OF_A_DEVICE):
        gain, unit = equal_work(a, b, quantity.removesuffix(OF_A_DEVICE))
        return (gain and gain / (b.devices / a.devices)), f"{unit} a device" if unit else ""
    for unit in _units(a, b, quantity):
        gain = _tokens_ratio(a, b) if unit == "tokens_per_second" else read_from(unit, a, b)
        if gain:
            return _at_equal_work(unit, gain, a, b) if unit in WHOLE else (gain, TITLES[unit])
    before, after = a.tokens_at_full_length, b.tokens_at_full_length
    if quantity in OF_PRICE or a.packed != b.packed:
        return None, ""
    if before and after and before.bounded and after.bounded:
        return after / before, FULL_LENGTH
    steps = read_from("steps_per_second", a, b)
    if steps and a.length and b.length and not any(map(_knows_its_batch, (a, b))):
        longer = exact(b.length) / exact(a.length)
        return steps * longer, FULL_LENGTH_ALIKE
    return None, ""


def _knows_its_batch(run: ReportedRun) -> bool:
    return run.says_batch or "samples_per_step" in run.solved.known


def hindrance(a: ReportedRun, b: ReportedRun) -> tuple[str, str]:
    """Return why two runs that have speeds can't be compared by them, and the question whose answer would tell."""
    shared = [q for q in WORK if q in a.solved.known and q in b.solved.known]
    if lengths_differ(a, b):
        return "a sample has another length", "how many tokens a second do both train on?"
    if a.packed != b.packed:
        return "only one of them packs several samples into one", "how long does an epoch of each take?"
    if not shared:
        return "their figures have no unit in common", "how many samples a second do both train on?"
    if "steps_per_second" in shared and same_batch(a, b) is False:
        return "a step has another batch or number of devices", "how many samples does a step of each train on?"
    return "their figures are only known from one side, or may be 0", "how many samples a second do both train on?"


def _units(a: ReportedRun, b: ReportedRun, quantity: str | None) -> Iterator[str]:
    """Yield the units that the two can be compared in, those of the most equal work first.

    If a claim is read from a whole time of known work, that comes first. Units that count samples are left out where
    only one run packs several samples into one.
    """
    if quantity in OF_PRICE:
        yield quantity
        return
    if quantity in WHOLE and not lengths_differ(a, b) and work_done(quantity, a, b):
        yield quantity
    if not padding_differs(a, b) and (not tokens_disagree(a, b) or as_in_an_epoch(a, b) == "tokens_per_second"):
        yield "tokens_per_second"
    if a.packed and b.packed and a.length != b.length:
        yield "seconds_per_epoch"  # an epoch is the same text, since packing cuts nothing off
        return
    if lengths_differ(a, b):
        return
    if a.packed == b.packed:
        yield "samples_per_second"
    same = same_batch(a, b) if a.packed == b.packed else False
    if same is None:
        yield "seconds_per_epoch"  # an epoch is the same data, whatever the batch
    if same is not False:
        yield "steps_per_second"
    yield from ("seconds_per_epoch", "tokens_per_second", "seconds")


def _at_equal_work(quantity: str, gain: Figure, a: ReportedRun, b: ReportedRun) -> tuple[Figure, str]:
    """Return the ratio of two whole times or costs, corrected for the work of both if that is known to differ."""
    work, count = work_done(quantity, a, b) or (exact(1), "")
    if work.meets(exact(1)):
        return gain, TITLES[quantity]
    return gain * work, f"{TITLES[quantity]} for as many {TITLES[count]}"


def work_done(quantity: str, a: ReportedRun, b: ReportedRun) -> tuple[Figure, str] | None:
    """Return how many times as much work `b` did in a whole time, and what counts it; None where it is not known."""
    per_epoch = quantity.endswith("per_epoch")
    for count in ("samples_per_epoch", "steps_per_epoch") if per_epoch else ("samples", "epochs", "steps"):
        before, after = a.solved.known.get(count), b.solved.known.get(count)
        if not before or not after or not (before.bounded and after.bounded):
            continue
        unlike = a.packed != b.packed or (count.startswith("steps") and same_batch(a, b) is False)
        if unlike and count != "epochs":
            continue
        return exact(1) if before.meets(after) else after / before, count
    return (exact(1), "") if per_epoch else None


def same_batch(a: ReportedRun, b: ReportedRun) -> bool | None:
    """Return whether a step trains on the same number of samples, by the figures or else by the settings.

    None if that is not known: where no batch is given, nobody says that both runs had the default one. Where one of
    them accumulated more or had more devices, their steps differ whatever the batch.
    """
    before, after = batches(a, b)
    if before and after:
        return before.meets(after)
    if a.says_batch != b.says_batch or (a.says_batch and not (a.copies and b.copies)):
        return None
    copies = (a.copies, b.copies) if a.says_batch else (r.given.get("devices", exact(1)) for r in (a, b))
    each = [r.settings.effective_batch_size * of for r, of in zip((a, b), copies, strict=True)]
    return a.says_batch or None if each[0].meets(each[1]) else False


def counts_steps(unit: str, a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether two runs that were compared in a `unit` were compared by their steps, as if these were equal."""
    if unit == TITLES["tokens_per_second"]:
        return read_from("tokens_per_second", a, b) is None
    whole = next((q for q in WHOLE if unit.split(" for as many ")[0] == TITLES[q]), None)
    work = work_done(whole, a, b) if whole else None
    by_steps = (TITLES["steps_per_second"], FULL_LENGTH_ALIKE)
    return unit in by_steps or bool(work and work[1].startswith("steps"))


def lengths_differ(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether a sample is a different amount of work in the two, and its tokens were not counted."""
    return a.length != b.length and (_tokens_ratio(a, b) is None or padding_differs(a, b))


def padding_differs(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether tokens a second, which may count padding, are different work in the two."""
    if not all(r.settings.workload in TEXT for r in (a, b)):
        return False
    if a.counts_text and b.counts_text:
        return False
    each = {r.settings.dataset.padding for r in (a, b)}
    return len(each) > 1 or (each == {"max_length"} and a.length != b.length)


def tokens_disagree(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether a sample has other tokens in the two, by tokens and samples a second, and nothing says why.

    Lengths that differ say why, and so does other padding where no length is known.
    """
    each = [r.solved.known.get("tokens_per_sample") for r in (a, b)]
    if a.copies and b.copies and not a.copies.meets(b.copies) and a.assumes_samples and b.assumes_samples:
        return False  # one batch of all devices may be accumulated less often on more of them
    if None in each or a.packed or b.packed or (a.length and b.length and a.length != b.length):
        return False
    if (not a.length and not b.length and padding_differs(a, b)) or lengths_say_why(a, b):
        return False
    follow = not any("tokens_per_sample" in r.given for r in (a, b))
    return follow and all(tokens.bounded for tokens in each) and each[0].gap(each[1]) > OTHER_TEXT


def as_in_an_epoch(a: ReportedRun, b: ReportedRun) -> str:
    """Return which speed, of samples or of tokens, goes with the time of an epoch where these disagree; else empty.

    An epoch is the same data. If it goes with the samples, the tokens counted padding, or text was cut off.
    """
    epochs, work = read_from("seconds_per_epoch", a, b), work_done("seconds_per_epoch", a, b)
    if epochs is None or (work and not work[0].meets(exact(1))):
        return ""
    speeds = {q: read_from(q, a, b) for q in ("samples_per_second", "tokens_per_second")}
    near = [q for q, gain in speeds.items() if gain and gain.gap(epochs) <= OTHER_TEXT / 2]
    return near[0] if len(near) == 1 else ""


def _tokens_ratio(a: ReportedRun, b: ReportedRun) -> Figure | None:
    """Return how many times as many tokens a second `b` trains on; None if not known.

    They are taken as both count them, or from the tokens of a sample where a step has the same samples in both.
    """
    gain = read_from("tokens_per_second", a, b)
    steps, each = read_from("steps_per_second", a, b), [r.tokens_of_a_sample for r in (a, b)]
    if gain or steps is None or None in each or same_batch(a, b) is False:
        return gain
    return steps * (each[1] / each[0]) if each[0].bounded and each[1].bounded else None


def read_from(quantity: str, a: ReportedRun, b: ReportedRun) -> Figure | None:
    """Return how many times as fast `b` is by one figure, whatever work that counts; None if not known."""
    before, after = a.solved.known.get(quantity), b.solved.known.get(quantity)
    if not before or not after or not (before.bounded and after.bounded):
        return None
    return before / after if faster_is_less(quantity) else after / before


def faster_is_less(quantity: str) -> bool:
    """Return whether a quantity is a time or a cost, so that less of it is faster."""
    return quantity.startswith(("seconds", "minutes", "hours", *OF_PRICE))


def gains_without(a: ReportedRun, b: ReportedRun, quantity: str | None = None) -> dict[str, Figure]:
    """Return how many times as fast `b` is without each figure that may be the wrong one.

    A figure is left out in both rows where both contradict themselves, as people measure all rows in the same way.
    """
    found = {}
    for wrong in dict.fromkeys((*a.open_figures, *b.open_figures)):
        gain, _ = equal_work(a.without(wrong), b.without(wrong), quantity)
        if gain and gain.bounded:
            found[wrong] = gain
    return found


def disputed(a: ReportedRun, b: ReportedRun, gain: Figure, quantity: str | None = None) -> str:
    """Return why a gain is in doubt, if it is another one without a figure that may be wrong; else an empty text."""
    for wrong, other in gains_without(a, b, quantity).items():
        if other.gap(gain) > CONSEQUENCE:
            rows = " and ".join(f"'{r.label}'" for r in (a, b) if wrong in r.open_figures)
            otherwise = f"without {TITLES[wrong]} it is {times(other.middle)}"
            return f"the figures of {rows} contradict each other, and {otherwise}"
    return ""
