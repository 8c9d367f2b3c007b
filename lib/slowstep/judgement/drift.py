"""The drift of a machine: how far the speed of one run differs between two moments that are minutes apart.

Clocks, heat and what else a machine does change its speed from one minute to the next. Blocks that follow each other
see little of that, and pairs cancel it. A job begins at another moment than the comparison with itself that tells its
pace. So that pace may be wrong by as much as the pace of other moments differs from it. Every comparison trains the
baseline anew, on the same samples, and is such a moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from slowstep.judgement.held_up import FEWEST
from slowstep.judgement.intervals import LAUNCH_SD
from slowstep.judgement.timeline import timeline
from slowstep.records import Steps
from slowstep_probe.measured import TRAINS

P = 0.05
"""The two-sided p of the pace at another moment. It is asked for once, not look by look."""

EXPECTED = math.sqrt(2) * LAUNCH_SD
"""Standard deviation of the log-ratio of two moments' paces that is expected before any is known: that of two launches
on a machine that does nothing else."""

WEIGHT = 2
"""The number of moments that `EXPECTED` counts as."""


@dataclass(frozen=True)
class Drift:
    """The speed of a run at other moments than that of its comparison with itself."""

    offsets: list[float] = field(default_factory=list)
    """The log-ratios of a step's seconds at each other moment to those in the comparison with itself."""

    @property
    def half(self) -> float:
        """Return how far the pace at one more moment may lie from that of the comparison with itself, as a log-ratio.

        The offsets are draws of just that error. With a scaled inverse-chi-squared prior for its variance, of `WEIGHT`
        degrees of freedom, the next one has Student's t distribution (Gelman et al., Bayesian Data Analysis, section
        2.6).
        """
        freedom = WEIGHT + len(self.offsets)
        variance = (WEIGHT * EXPECTED**2 + sum(offset**2 for offset in self.offsets)) / freedom
        return -float(special.stdtrit(freedom, P / 2)) * math.sqrt(variance)


UNKNOWN = Drift()
"""The drift of a run that was trained at no other moment."""


def drift(noise: Sequence[Steps], others: Iterable[Sequence[Steps]]) -> Drift:
    """Return the drift that the launches of the `noise` comparison and those of other records of the same arm show.

    Each of `others` is a moment. One that shares fewer than `FEWEST` places of the data with the noise tells nothing.
    Steps in which the run trains are compared, by their median: how long it waits, and how often, is told elsewhere.
    """
    reference = _mean_by_place(noise)
    ratios = [
        [seconds / reference[place] for place, seconds in _mean_by_place(launches).items() if place in reference]
        for launches in others
    ]
    return Drift([float(np.median(np.log(found))) for found in ratios if len(found) >= FEWEST])


def _mean_by_place(launches: Iterable[Steps]) -> dict[int, float]:
    """Return the mean seconds in which launches train on the step at each place of the data, where they take any."""
    seen = timeline(launches)
    trained = np.sum([seen.phases[phase] for phase in TRAINS], axis=0)
    return {place: mean for place, mean in zip(seen.position.tolist(), trained.tolist(), strict=True) if mean > 0}
