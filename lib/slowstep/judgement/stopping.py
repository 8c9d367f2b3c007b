"""The rule by which a comparison ends, as data: it can be sent to wherever the comparison is measured."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from slowstep.judgement.comparison import LOOKS, launches_of, log_ratios
from slowstep.judgement.intervals import (
    NOMINAL_P,
    ONE_LAUNCH_MARGIN,
    Interval,
    expected_half_width,
    launches_weigh,
    paired,
    predicted,
)
from slowstep.records import Pair

JUDGED_FROM = 7
"""The scatter of this many pairs or more says whether further ones would decide."""

PATIENT_UNTIL = 12
"""New launches after fewer pairs than this wait for the next look if that will probably decide without them."""

QUOTABLE_HALF = 0.1
"""The half of an interval, as a gain, that is short enough for any effect that is to be quoted."""


def needs_another_launch(effect: Interval, launches: Sequence[Hashable]) -> bool:
    """Return whether one launch alone shows this effect, and its own offset may be all of it."""
    return len(set(launches)) < 2 and max(effect.lower, -effect.upper) < ONE_LAUNCH_MARGIN


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """A comparison ends when its hypothesis is decided, when it will hardly be, or after `max_pairs` pairs."""

    max_pairs: int
    minimum_effect: float | None = None
    """The gain in throughput that is asked about, 0.05 for 5 %; None measures all `max_pairs` pairs."""
    comparisons: int = 1
    """The number of comparisons that Holm's correction counts together with this one."""
    two_sided: bool = False
    """True if a loss is asked about as a gain is, as between two nodes: one must be shown, or both be excluded."""
    looks: tuple[int, ...] = LOOKS
    """The numbers of pairs after which the rule is asked, and after which both arms may be launched anew."""
    futility: float = 0.1
    """A comparison ends if its chance to be decided by the last pair is below this; 0 for going on to the last pair."""
    precision: float = math.inf
    """A shown effect is measured on until half its interval is at most this part of it, so that it can be quoted. Half
    an interval that is below the minimum effect and below `QUOTABLE_HALF` always does. Infinite: any interval does."""
    launches: int = 9
    """The most launches of each arm."""
    launch_share: float = 0.5
    """Both arms are launched anew if the launches' part of the interval is wider than this share of the part that
    scatter makes; 0 for new launches after each look."""

    def met(self, pairs: Sequence[Pair]) -> bool:
        """Return whether these pairs are enough."""
        if len(pairs) >= self.max_pairs:
            return True
        if self.minimum_effect is None or len(pairs) not in self.looks:
            return False
        return self.ends(log_ratios(pairs), launches_of(pairs))

    def ends(self, ratios: np.ndarray, launches: Sequence[Hashable]) -> bool:
        """Return whether a look at log-ratios, shape (n,), ends the comparison; `launches` names the launch of each.

        A supported hypothesis must survive Holm's correction, so its p is compared with the nominal p divided by the
        number of comparisons. What one launch alone shows has to be confirmed by another, unless it is large. A gain
        below the minimum effect needs neither, since it claims nothing.
        """
        if len(ratios) >= self.max_pairs:
            return True
        effect = paired(ratios, launches)
        shown = self._shown(effect) and self._known_well(effect)
        if shown or self._excluded(effect):
            return not (shown and self.launches > 1 and needs_another_launch(effect, launches))
        return effect.n >= JUDGED_FROM and self._chance_to_decide(effect) < self.futility

    def _shown(self, effect: Interval) -> bool:
        certain = effect.p * max(self.comparisons, 1) <= NOMINAL_P
        gain = effect.lower > 0 and effect.mean >= self._least
        loss = self.two_sided and effect.upper < 0 and effect.mean <= -self._least
        return certain and (gain or loss)

    def _known_well(self, effect: Interval) -> bool:
        return effect.half <= self._allowed(effect.mean)

    def _allowed(self, mean: float) -> float:
        """Return the half of the interval, as a log-ratio, that is short enough for a shown effect."""
        return max(self.precision * abs(mean), min(self._least, math.log(1 + QUOTABLE_HALF)))

    def _excluded(self, effect: Interval) -> bool:
        return effect.upper < self._least and (not self.two_sided or effect.lower > -self._least)

    @property
    def _least(self) -> float:
        """The minimum effect as a log-ratio."""
        return math.log(1 + self.minimum_effect)

    def _chance_to_decide(self, effect: Interval) -> float:
        """Return the chance that all `max_pairs` pairs will support or refute the hypothesis, from those so far.

        Ending for a small chance can make no hypothesis look supported. It leaves open what would most likely stay
        open.
        """
        least = self._least
        sd, refuting = predicted(effect, self.max_pairs)
        _, supporting = predicted(effect, self.max_pairs, NOMINAL_P / max(self.comparisons, 1))
        shown = special.ndtr((effect.mean - max(supporting, least)) / sd)
        excluded = special.ndtr((least - refuting - effect.mean) / sd)
        if self.two_sided:
            shown += special.ndtr((-effect.mean - max(supporting, least)) / sd)
            excluded = max(0.0, excluded - special.ndtr((refuting - least - effect.mean) / sd))
        return float(shown + excluded)

    def needs_new_launches(self, pairs: Sequence[Pair]) -> bool:
        """Return whether both arms are to be launched anew before the next pair."""
        return len(pairs) in self.looks and self.look_needs_new_launches(log_ratios(pairs), launches_of(pairs))

    def look_needs_new_launches(self, ratios: np.ndarray, launches: Sequence[Hashable]) -> bool:
        """Return whether the pairs that follow a look need launches of their own.

        They do where one launch alone shows the effect, and where the launches' part of the interval weighs. Then an
        early look still takes none if the next one will decide without them, should the mean stay where it is.
        """
        effect = paired(ratios, launches)
        if self.minimum_effect is not None and self._shown(effect) and needs_another_launch(effect, launches):
            return True
        if not launches_weigh(ratios, launches, self.launch_share):
            return False
        return len(ratios) >= PATIENT_UNTIL or not self._next_look_decides(ratios, launches)

    def _next_look_decides(self, ratios: np.ndarray, launches: Sequence[Hashable]) -> bool:
        then = next((n for n in self.looks if n > len(ratios)), None)
        if self.minimum_effect is None or then is None or len(ratios) < 2:
            return False
        mean = float(np.mean(ratios))
        mean = abs(mean) if self.two_sided else mean
        refuting, supporting = (
            expected_half_width(ratios, launches, then, p) for p in (NOMINAL_P, NOMINAL_P / max(self.comparisons, 1))
        )
        known_well = refuting <= self._allowed(mean)
        return mean + refuting < self._least or (mean > max(supporting, self._least) and known_well)
