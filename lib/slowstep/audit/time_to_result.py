"""Claims on the time to a result: where two runs come to the same one, their whole times count, whatever work they did.

Another optimizer, or fewer and better data, may need fewer steps. That is its gain, and no other amount of work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowstep.audit.equal_work import WHOLE, read_by, read_from
from slowstep.audit.figures import Figure
from slowstep.audit.findings import contradicts, times
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.factors import CATALOGUE
from slowstep.factors.factor import Meaning
from slowstep.settings.reported import Claim
from slowstep.text.sentences import listed

METRIC = r"(?:loss|acc(?:uracy)?|perplexity|ppl|top-?[15]|f1|bleu|rouge|m?iou|auc|wer|cer|psnr|bp[bc]|score|error)"

AIMS = re.compile(
    r"\breach|\btargets?\b|\bconverge|\btime[- ]to[- ](?:train|quality|result|solution)|"
    rf"\bto (?:[a-z-]+ ){{0,3}}{METRIC}\b",
    re.IGNORECASE,
)
"""Words of a claim on the time to a result: `reaches 75.9 % top-1`, `hours to val loss 3.28`."""

OF_TIME = re.compile(r"\b(?:time|hours?|minutes?|sooner|earlier)\b", re.IGNORECASE)
"""Words of a claim on a time. One that names no figure, and reaches a speed, is on that."""

RESULT = re.compile(rf"(?:\b|_){METRIC}(?:\b|_)", re.IGNORECASE)
"""Headers of columns of what a training came to."""

ALIKE = 0.002
"""The share by which two results may differ that are called the same."""

SAME_RESULT = "the figures don't show that both come to the same result"
ON_THAT = "the claim doesn't say whether it is on the time to that"
"""Reasons why a claim on a whole time is open."""


@dataclass(frozen=True, kw_only=True)
class WholeTime:
    """How two runs compare by the whole time or cost that a claim is read from."""

    gain: Figure
    unit: str
    result: str
    """The results of both in words, `the same val loss (3.28)`; empty if no columns say that they are the same."""
    counts: bool
    """True if the claim is on the time to that result, so that the whole time counts."""

    @property
    def doubt(self) -> str:
        """Return why the claim is open although the two differ in their work; empty where the whole time counts."""
        if self.counts:
            return ""
        why = f"both come to {self.result}, and {ON_THAT}" if self.result else SAME_RESULT
        return f"{read_by(self.unit)} it is {times(self.gain.middle)}, and {why}"


def whole_time(
    claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure | None, stated: Figure | None
) -> WholeTime | None:
    """Return what the whole times say of a claim that is, or may be, on the time to a result; None for other claims.

    Its words say so, or the results of both rows, or it is on the time of an epoch that has fewer samples. What leaves
    the training as it is makes no result come sooner than its steps do.
    """
    aims = bool(AIMS.search(claim.text) and (claim.quantity or OF_TIME.search(claim.text)))
    times_of_both = (q for q in ("seconds", "minutes", "hours") if q in a.given and q in b.given)
    quantity = claim.quantity or (next(times_of_both, None) if aims else None)
    whole = read_from(quantity, a, b) if quantity in WHOLE else None
    if whole is None or stated is None or _leaves_training(claim.factor):
        return None
    result = _same_results(a, b)
    counts = aims and bool(result)
    of_epoch = quantity.endswith("per_epoch") and "epoch" in claim.text.lower()
    may_be = not contradicts(whole, stated) and gain is not None and contradicts(gain, stated)
    if not counts and not (may_be and (aims or (not claim.factor and (result or of_epoch)))):
        return None
    return WholeTime(gain=whole, unit=TITLES[quantity], result=result, counts=counts)


def _leaves_training(factor: str | None) -> bool:
    known = CATALOGUE.get(factor or "")
    return known is not None and known.meaning is not Meaning.SEMANTICS


def _same_results(a: ReportedRun, b: ReportedRun) -> str:
    """Return the results that two rows have in common, in words; empty if any differs, or if none are given."""
    both = {name: (value, b.beside[name]) for name, value in a.beside.items() if name in b.beside}
    results = {name: pair for name, pair in both.items() if RESULT.search(name)}
    if not results or any(abs(c - d) > ALIKE * max(abs(c), abs(d)) for c, d in results.values()):
        return ""
    return f"the same {listed([f'{name} ({before:g})' for name, (before, _) in results.items()], ' and ')}"
