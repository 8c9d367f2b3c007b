"""The noise of two rows: what their repeats, or the rounding of their figures, allow a gain to be."""

from __future__ import annotations

import math
import re
import statistics

from slowstep.audit.equal_work import WORK, faster_is_less
from slowstep.audit.figures import Figure
from slowstep.audit.findings import MOST, Finding, FindingKind, contradicts, times
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.settings.reported import Claim

CONFIDENCE = 0.95

TOUCHING = 1e-9
"""The relative overlap of two figures that the rounding of floating point alone may cause."""

SURE = 0.5
"""The largest share of a claimed effect that rounding may change if the claim is to hold."""

DIGIT = 0.005
"""The share by which a ratio may be off that is told with two decimals."""

OF_RUNS = 0.05
"""The share by which runs of one configuration differ often: on other nodes, at another time, in another order. Each
of these alone made that much in the reports and the measurements that the kit was made from."""

SINGLE = "each was measured once, and such runs often differ by up to 5 %"

FIGURES_ALLOW = "as they are given, the figures allow anything from {} to {}"

REPEATED = ("seconds_per_step", *WORK)
"""Figures whose repeats are used to judge noise."""

COUNTS_REPEATS = re.compile(r"(?:(?:num|number of|no\.?|#)[ _]?)?(?:runs|repeats|repetitions|reps|seeds|trials)|n")
"""Headers of columns that say how often each row was measured."""

LARGEST_LOG = 100.0
"""The logarithm of the largest ratio that is told."""


def width_of(a: ReportedRun, b: ReportedRun, gain: Figure) -> str:
    """Return what the repeats of both rows allow a gain to be; without them what their figures allow, if that is much.

    It is much where it is more than half of the effect, and more than the digits of a ratio show.
    """
    interval = interval_of_repeats(a, b, gain)
    if interval:
        return f"the repeats allow anything from {times(interval.low)} to {times(interval.high)}"
    wide = math.log(gain.high / gain.low) / 2 > max(SURE * abs(math.log(gain.middle)), DIGIT)
    return FIGURES_ALLOW.format(times(gain.low), times(gain.high)) if wide else ""


def allowed_by_rounding(claim: Claim, gain: Figure | None, stated: Figure | None) -> list[Finding]:
    """Find out whether the figures with their rounding allow both a gain and a loss, and the claim does not."""
    if gain is None or gain.middle <= 0 or stated is None or stated.low < 1 < stated.high:
        return []
    if not (gain.low < 1 - TOUCHING and gain.high > 1 + TOUCHING) or contradicts(gain, stated):
        return []
    ends = times(gain.low), times(gain.high)
    text = (
        FIGURES_ALLOW.format(*ends) if ends[0] != ends[1] else "as they are given, the figures allow either direction"
    )
    return [Finding(kind=FindingKind.NOISE, where=claim.text, text=text)]


def noise_of_repeats(claim: Claim, a: ReportedRun, b: ReportedRun, interval: Figure) -> list[Finding]:
    """Find out whether the repeats of both rows differ among themselves as much as the rows do."""
    quantity = _repeated(a, b)
    if quantity is None or not interval.low <= 1 <= interval.high:
        return []
    counts = f"{len(a.repeats[quantity])} and {len(b.repeats[quantity])} repeats of {TITLES[quantity]}"
    text = f"{counts} differ among themselves as much as the two rows do"
    return [Finding(kind=FindingKind.NOISE, where=claim.text, text=text)]


def left_open_by_noise(gain: Figure, stated: Figure, by_repeats: Figure | None) -> str:
    """Return what is left open of a size that agrees, by repeats or else by rounding; empty where nothing is.

    - A claim of a size is left open where rounding alone may change the effect by more than half of it: 2 % where it
      may be 0 to 6 %.
    - A claim of no change is left open where the change may be larger than the claim's own rounding allows.
    - A claim of a direction is left open where there may be no change.
    """
    gain = by_repeats or gain
    of_a_size, equal = stated.low > 0 and stated.high < MOST, stated.low <= 1 <= stated.high
    if not of_a_size:
        within = stated.low * (1 + TOUCHING) < gain.low and gain.high * (1 + TOUCHING) < stated.high
    elif gain.low <= 0 or gain.high == math.inf:
        within = False
    else:
        room = max(stated.high - 1, 1 - stated.low) if equal else SURE * abs(math.log(stated.middle))
        within = math.log(gain.high / gain.low) / 2 <= room
    what = "rounding allows" if by_repeats is None else "the repeats allow"
    return "" if within else f"{what} anything from {times(gain.low)} to {times(gain.high)}"


def rests_on_single_runs(a: ReportedRun, b: ReportedRun, gain: Figure | None) -> bool:
    """Return whether a gain is as small as what lies between runs of one configuration, and nothing was repeated."""
    if gain is None or gain.middle <= 0 or a.projected or b.projected:
        return False
    repeated = any(run.repeats or run.with_spread or _counts_repeats(run) for run in (a, b))
    return not repeated and abs(math.log(gain.middle)) < math.log(1 + OF_RUNS)


def _counts_repeats(run: ReportedRun) -> bool:
    """Return whether a column says how often a row was measured."""
    return any(COUNTS_REPEATS.fullmatch(name.strip().lower()) and value > 1 for name, value in run.beside.items())


def interval_of_repeats(a: ReportedRun, b: ReportedRun, gain: Figure) -> Figure | None:
    """Return the gain with the interval that the repeats of both rows allow, by Welch's t; None if they tell none."""
    quantity = _repeated(a, b)
    if quantity is None:
        return None
    values = [r.repeats[quantity] for r in (a, b)]
    if gain.middle <= 0 or min(map(min, values)) <= 0:
        return None
    sign = -1 if faster_is_less(quantity) else 1
    before, after = ([sign * math.log(v) for v in each] for each in values)
    shift = math.log(gain.middle) - (statistics.fmean(after) - statistics.fmean(before))  # from this unit to equal work
    if len({*before}) == 1 and len({*after}) == 1:
        return None
    from scipy.stats import ttest_ind  # importing it takes most of an audit's start, and it is seldom needed

    interval = ttest_ind([v + shift for v in after], before, equal_var=False).confidence_interval(CONFIDENCE)
    if not interval.low > -LARGEST_LOG or not interval.high < LARGEST_LOG:  # nan where one row has a single figure
        return None
    return Figure(math.exp(interval.low), math.exp(interval.high), gain.middle)


def _repeated(a: ReportedRun, b: ReportedRun) -> str | None:
    """Return the quantity that was measured several times in both rows; None if there is none."""
    return next((q for q in a.repeats if q in b.repeats and q in REPEATED), None)
