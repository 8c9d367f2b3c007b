"""The rule by which a comparison ends, as data: it can be sent to wherever the comparison is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.judgement.comparison import LOOKS, change, launches, log_ratios
from slowstep.judgement.intervals import NOMINAL_P, launches_weigh
from slowstep.records import Pair


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """A comparison ends when its hypothesis is decided, or after `max_pairs` pairs."""

    max_pairs: int
    minimum_effect: float | None = None
    """The gain in throughput that is asked about, 0.05 for 5 %; None measures all `max_pairs` pairs."""
    comparisons: int = 1
    """The number of comparisons that Holm's correction counts together with this one."""
    looks: tuple[int, ...] = LOOKS
    """The numbers of pairs after which the rule is asked, and after which both arms may be launched anew."""
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
        return (certain and effect.mean >= least) or effect.upper < least

    def anew(self, pairs: Sequence[Pair]) -> bool:
        """Return whether both arms are to be launched anew before the next pair.

        Only the scatter of the pairs and their launches decide it, never their mean.
        """
        return len(pairs) in self.looks and launches_weigh(log_ratios(pairs), launches(pairs), self.launch_share)
