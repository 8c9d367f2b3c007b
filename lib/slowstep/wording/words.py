"""Numbers in words and units that people read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slowstep.judgement.drift import Drift
from slowstep.judgement.intervals import Interval
from slowstep.judgement.projection import Projection
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.verdict import Outcome, Verdict, span
from slowstep.text.numbers import digits, percentage

NOT_MEASURED = "not measured"

SIGNS = {
    Outcome.SUPPORTED: "✔ supported",
    Outcome.REFUTED: "✘ refuted",
    Outcome.INCONCLUSIVE: "? inconclusive",
    Outcome.NOT_TESTABLE: "– not testable here",
}

NOT_REACHED = "not reached"
"""The words for a hypothesis that no time was left for."""

SCALES = (
    (7200.0, 3600.0, math.inf, "h"),
    (120.0, 60.0, 9.95, "min"),
    (0.9995, 1.0, math.inf, "s"),
    (-math.inf, 1e-3, 9.95, "ms"),
)
"""The seconds from which on a duration has a unit, the seconds of that unit, the number of units from which on they
have no decimal, and the unit's name."""

MOST_MORE = 2
"""The most decimals by which figures are told apart. Those that are still alike then are alike for whoever reads."""


def sign(verdict: Verdict) -> str:
    """Return the outcome of a hypothesis with its sign: "✔ supported". One that was not tried has none."""
    return f"– {NOT_REACHED}" if verdict.untried else SIGNS[verdict.outcome]


def effect(interval: Interval | None) -> str:
    """Return an effect with its interval, or "not measured"."""
    return span(interval) if interval else NOT_MEASURED


def duration(seconds: float, beside: float | None = None, more: int = 0) -> str:
    """Return seconds as a duration with two or three digits, in the unit that fits it, or that fits `beside`.

    It has so many decimals `more`.
    """
    large = seconds if beside is None else beside
    _, unit, whole_from, name = next(scale for scale in SCALES if not large < scale[0])
    value = seconds / unit
    if value < 0.95:
        return f"{value:.{2 + more}g} {name}"
    return f"{value:.{(value < whole_from) + more}f} {name}"


def hours(job: Projection, beside: Projection | None = None, more: int = 0) -> str:
    """Return the time of a projected job with its interval, in one unit, or in that of the job `beside` it."""
    unit = (beside or job).seconds
    middle, low, high = (duration(s, unit, more) for s in _figures(job))
    return f"{middle} [{low.split()[0]}, {high.split()[0]}]"


def _figures(job: Projection) -> tuple[float, float, float]:
    """Return the seconds of a projected job, and the ends of their interval."""
    return job.seconds, job.low, job.high


def decimals_more(before: Projection, after: Projection) -> int:
    """Return how many decimals more tell the times of two jobs apart, and the ends of the interval of the second."""
    takes = alone(after)
    figures = (before.seconds, after.seconds), (takes.low, takes.high)
    return _more(figures, lambda seconds, more: duration(seconds, before.seconds, more))


def _more(pairs: Iterable[tuple[float, float]], shown: Callable[[float, int], str]) -> int:
    """Return how many more decimals tell figures apart that differ; `shown` shows a figure with so many more."""
    differ = [(a, b) for a, b in pairs if a != b]
    enough = (more for more in range(MOST_MORE) if all(shown(a, more) != shown(b, more) for a, b in differ))
    return next(enough, MOST_MORE)


def change_of_job(before: Projection, after: Projection) -> str:
    """Return what becomes of a projected job by a change, as a clause.

    Its interval is that of the change `alone`, where that is known.
    """
    takes, more = alone(after), decimals_more(before, after)
    took = duration(before.seconds, more=more) if after.beside else hours(before, more=more)
    costs = ""
    paid, pays, *ends = (p.cost(s) for p, s in ((before, before.seconds), *((takes, s) for s in _figures(takes))))
    if paid is not None:
        decimals = _decimals(before)
        decimals += _more([(paid, pays), tuple(ends)], lambda amount, more: f"{amount:.{decimals + more}f}")
        was = cost(before, decimals) if after.beside else money(before, decimals)
        costs = f", and costs {money(takes, decimals)} in place of {was}"
    return f"takes {hours(takes, before, more)} in place of {took}{costs}"


def alone(after: Projection) -> Projection:
    """Return a projected job with the interval that a change alone leaves open.

    How long the job takes without it is known less well than the change, and a job that takes longer than expected does
    so with the change as well.
    """
    return replace(after, low=after.beside[0], high=after.beside[1]) if after.beside else after


def proviso(facts: RunFacts) -> str:
    """Return the condition under which the time of a projected job holds; empty where there is none."""
    if facts.observed.get("device") != "cpu" or facts.observed.get("freed_memory") != "kept":
        return ""
    return (
        " This holds with freed memory kept, as in the trials (docs/method.md says how); a job on a CPU that leaves it "
        "to glibc can take much longer, which `overheads: {freed_memory: [returned]}` measures."
    )


def counted(job: Projection) -> str:
    """Return what the time of a projected job counts, leaves out and allows for, as sentences."""
    *first, last = job.parts
    return " ".join(filter(None, (f"That counts {', '.join(first)} and {last}.", omits(job), drifted(job.drift))))


def omits(job: Projection) -> str:
    """Return what the time of a projected job leaves out, as a sentence; empty if nothing is known to be left out."""
    return f"The time of the job leaves out {job.left_out}." if job.left_out else ""


def drifted(seen: Drift) -> str:
    """Return how far the interval of a projected job allows for a machine that drifts, as a sentence."""
    if not seen.offsets:
        return "The run was timed at one moment: its interval hardly allows for a machine that drifts."
    n, *ends = len(seen.offsets), *(math.exp(end(seen.offsets)) for end in (min, max))
    least, most = map(percentage, ends)
    took = (
        f"another moment its steps took {most}" if n == 1 else f"{n:,} other moments its steps took {least} to {most}"
    )
    return f"At {took} of the time that this rests on, and the interval allows for that."


def money(job: Projection, decimals: int | None = None) -> str:
    """Return the cost of a projected job with its interval; empty where the price of an hour is not given."""
    paid = [job.cost(seconds) for seconds in _figures(job)]
    if None in paid:
        return ""
    n = _decimals(job) if decimals is None else decimals
    return f"{paid[0]:,.{n}f} [{paid[1]:,.{n}f}, {paid[2]:,.{n}f}] {job.currency}"


def cost(job: Projection, decimals: int | None = None) -> str:
    """Return the cost of a projected job without its interval; empty where the price of an hour is not given."""
    paid = job.cost(job.seconds)
    return "" if paid is None else f"{paid:,.{_decimals(job) if decimals is None else decimals}f} {job.currency}"


def _decimals(job: Projection) -> int:
    """Return the decimals of a job's cost: two, or as many as its first two digits that are not 0 need."""
    paid = job.cost(job.seconds) or 1.0
    return max(2, 1 - math.floor(math.log10(abs(paid))))


def size(count: float | None) -> str:
    """Return bytes as MiB or GiB."""
    if count is None:
        return NOT_MEASURED
    if count >= 2**30:
        return f"{count / 2**30:.2f} GiB"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 or count == 0 else f"{count / 2**10:.0f} KiB"


def rate(value: float | None) -> str:
    """Return a rate with a sensible number of digits."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def share(value: float | None) -> str:
    """Return a share, 0 to 1, as a percentage with two or three digits."""
    return NOT_MEASURED if value is None else percentage(value)


def time_taken(gain: Interval) -> str:
    """Return the share of the time that a speed-up takes away, with its interval: +100 % throughput, half the time."""
    low, middle, high = (digits(max(0.0, 1 - 1 / ratio)) for ratio in (gain.low, gain.ratio, gain.high))
    return f"{middle} % [{low}, {high}]"


def share_span(interval: Interval) -> str:
    """Return a share, 0 to 1, with its interval, as percentages."""
    return f"{share(interval.mean)} [{digits(interval.lower)}, {digits(interval.upper)}]"


def loss_change(value: float | None) -> str:
    """Return a relative change of the loss over the same samples as a percentage."""
    if value is None or math.isnan(value):
        return "not comparable"
    if value == 0:
        return "the same"
    return f"{100 * value:+.2f} %" if round(value, 4) else "changed by less than 0.01 %"


def measured_again(verdict: Verdict) -> str:
    """Return how the configuration to train with was measured in the end, as a clause."""
    return "measured once more in fresh pairs" if verdict.alone else "measured together in fresh pairs"


def not_measured_again(how: str) -> str:
    """Say that no time was left to confirm a configuration, as a clause; `how` is "once more" or "together"."""
    return f"no time was left to measure it {how} in fresh pairs (budget.minutes); more minutes may confirm it"


def changes_left_out(names: Sequence[str]) -> str:
    """Return which changes are left out of the configuration to train with, and why, as a clause."""
    return f"left out, since not missed beside the rest, not confirmed, or not paying in this job: {', '.join(names)}"


def not_shown_beside(names: Sequence[str]) -> str:
    """Return which parts of a configuration may bring nothing beside the others, as a sentence; empty for none."""
    brings = "brings" if len(names) == 1 else "bring"
    return f"Whether {' and '.join(names)} {brings} anything beside the rest was not shown." if names else ""


def apart(by: float) -> str:
    """Return how far the launches of a run lie apart beyond chance, by a log-ratio, as a sentence; empty for 0."""
    if not by:
        return ""
    differ = percentage(math.expm1(by))
    return f"The run's launches differ by {differ}, more than intervals allow for: no gain of that size is believed."


def strength(verdict: Verdict) -> str:
    """Return what a verdict rests on, in words that a manager understands."""
    if verdict.effect is None:
        return "by its bound, without a trial" if verdict.bound else "without a trial"
    return f"{verdict.effect.n} interleaved pairs"
