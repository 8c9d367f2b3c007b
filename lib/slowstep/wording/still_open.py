"""What stays open after everything was tested: undecided hypotheses, and causes that no adopted change takes away."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.factors import is_undoing
from slowstep.judgement.intervals import Interval
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.wording.causes import Cause


def in_noise(verdict: Verdict) -> bool:
    """Return whether noise leaves a hypothesis undecided: its pairs speak of the change, and leave both possible."""
    undecided = verdict.outcome is Outcome.INCONCLUSIVE and verdict.effect is not None
    return undecided and verdict.tells and not verdict.run_failed


def says_nothing(verdict: Verdict) -> bool:
    """Return whether a comparison without a failure says nothing of its change, which its reason explains."""
    undecided = verdict.outcome is Outcome.INCONCLUSIVE and not verdict.untried
    return undecided and not (verdict.run_failed or in_noise(verdict))


def still_open(causes: Sequence[Cause], adopted: bool) -> list[str]:
    """Return what the causes leave open, in sentences.

    A limit is among them if its change undoes a cost, since nobody trains with that change. Any other limit is among
    them if nothing is `adopted`: what is adopted may take a part of it away.
    """
    return [open_one for c in causes if (open_one := c.still_open or _limit(c, adopted))]


def _limit(cause: Cause, adopted: bool) -> str:
    """Return the text of a cause that a limit shows; empty if it is no limit, or if it may be taken away."""
    is_limit = bool(cause.headline and cause.factor)
    return cause.text if is_limit and (not adopted or is_undoing(cause.factor)) else ""


def more_lost(causes: Sequence[Cause], adopted: Interval) -> str:
    """Say that more time is lost than what is adopted brings, as a sentence; empty if it is not."""
    more = next((c for c in causes if c.headline and _at_least(c) > adopted.ratio), None)
    if more is None:
        return ""
    return f"More is lost {'than that' if more.factor else 'elsewhere'}: {more.left[1] if more.left else more.headline}"


def _at_least(cause: Cause) -> float:
    """Return the speed-up without a cause at the least, once supported changes are made."""
    return min(cause.size[1], cause.left[0]) if cause.left else cause.size[1]
