"""The rule by which a comparison ends, as data: it can be sent to wherever the comparison is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from slowstep.judgement.comparison import LOOKS, change, launches, log_ratios
from slowstep.judgement.intervals import NOMINAL_P, Interval, foreseen, launches_weigh
from slowstep.records import Pair

JUDGED_FROM = 7
"""The number of pairs from which on their scatter says whether more of them would decide."""


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """A comparison ends when its hypothesis is decided, when it will hardly be, or after `max_pairs` pairs."""

    max_pairs: int
    minimum_effect: float | None = None
    """The gain in throughput that is asked about, 0.05 for 5 %; None measures all `max_pairs` pairs."""
    comparisons: int = 1
    """The number of comparisons that Holm's correction counts together with this one."""
    looks: tuple[int, ...] = LOOKS
    """The numbers of pairs after which the rule is asked, and after which both arms may be launched anew."""
    futility: float = 0.1
    """The chance to be decided by the last pair below which a comparison ends; 0 for going on to the last pair."""
    launch_share: float = 0.5
    """The share of the scatter's part of the interval above which the launches' part is narrowed by new launches; 0 for
    new launches after each look."""

    def met(self, pairs: Sequence[Pair]) -> bool:
        """Return whether these pairs are enough.

        A supported hypothesis must survive Holm's correction, so its p is compared with the nominal p divided by the
        number of comparisons. A gain below the minimum effect needs no correction, since it claims nothing.
        """
        if len(pairs) >= self.max_pairs:
            return True
        if self.minimum_effect is None or len(pairs) not in self.looks:
            return False
        least, effect = math.log(1 + self.minimum_effect), change(pairs)
        certain = effect.lower > 0 and effect.p * max(self.comparisons, 1) <= NOMINAL_P
        decided = (certain and effect.mean >= least) or effect.upper < least
        return decided or (len(pairs) >= JUDGED_FROM and self._chance(effect) < self.futility)

    def _chance(self, effect: Interval) -> float:
        """Return the chance that all `max_pairs` pairs will support or refute the hypothesis, from those so far.

        Ending for a small chance can make no hypothesis look supported. It leaves open what would most likely stay
        open.
        """
        least = math.log(1 + self.minimum_effect)
        sd, refuting = foreseen(effect, self.max_pairs)
        _, supporting = foreseen(effect, self.max_pairs, NOMINAL_P / max(self.comparisons, 1))
        above = special.ndtr((effect.mean - max(supporting, least)) / sd)
        return float(above + special.ndtr((least - refuting - effect.mean) / sd))

    def anew(self, pairs: Sequence[Pair]) -> bool:
        """Return whether both arms are to be launched anew before the next pair.

        Only the scatter of the pairs and their launches decide it, never their mean.
        """
        return len(pairs) in self.looks and launches_weigh(log_ratios(pairs), launches(pairs), self.launch_share)
