"""The choice of the configuration to train with: search, compare, confirm.

A combination that can't be trained gives way to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slowstep.factors import Arm, combine, label
from slowstep.final.combinations import Candidate, clashes, names_of, ranked, with_conditions
from slowstep.final.job import ends_sooner, job_of
from slowstep.final.own_words import in_own_words
from slowstep.final.search import CONFIRMED, find_winner, without_late, without_redundant
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.lab import Lab
from slowstep.investigation.permission import allowed_by, supported
from slowstep.investigation.results import Measured
from slowstep.judgement.projection import Projection
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.judgement.verdicts_together import best_levels, reconsidered
from slowstep.records import ProfileRecord
from slowstep.settings import TESTED_SECTIONS, Settings
from slowstep.wording.causes import Cause, causes

HEADROOM = 0.95
"""The largest share of the memory that a combination may be expected to fill."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The combination to train with, and the measurements that led to it."""

    tested: list[Measured]
    """Everything that the parameter file lists, each once."""
    allowed: list[Measured]
    """The supported changes that `allow` permits and that pay in the job, each against the run as it is."""
    head_to_heads: list[Measured]
    """The head-to-head comparisons of the finalists."""
    confirmed: list[Measured]
    """Combinations that were measured against the baseline with fresh pairs."""
    chosen: Measured | None
    """The winner, confirmed against the baseline; None if nothing could be combined, or if no job ends sooner."""
    left_out: list[str]
    """Levels that were redundant or late, and combinations that were not confirmed or do not pay, in words."""
    late: list[str] = field(default_factory=list)
    """The levels among them that would delay the start of the job by more than they save beside the winner's."""
    unshown: list[str] = field(default_factory=list)
    """The levels of the winner that were not shown to bring anything beside its others, in words."""
    settings: Settings
    """The final configuration: that of the winner if it is adopted, else the run's own."""
    before: Projection | None
    after: Projection | None
    remaining: Remaining | None = None
    """What the winner still loses; None if it is not adopted, or was not profiled."""

    @property
    def candidates(self) -> list[Verdict]:
        """Return the verdict on the best level of each factor that is allowed, largest gain first."""
        return best_levels([m.verdict for m in self.allowed])

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on everything that was tested, corrected by the confirmation."""
        return reconsidered([m.verdict for m in self.tested], [m.verdict for m in self.confirmed])

    @property
    def adopted(self) -> bool:
        """Return whether to train with the combination."""
        return self.chosen is not None and self.chosen.verdict.outcome is Outcome.SUPPORTED

    @property
    def arm(self) -> Arm | None:
        """Return the arm of the adopted combination; None if none is adopted."""
        return self.chosen.contrast.treatment if self.chosen and self.adopted else None

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict on the combination; None if there is none."""
        return self.chosen.verdict if self.chosen else None


def choose(lab: Lab) -> Choice:
    """Return the choice of what to train with, measured with the lab."""
    for section in TESTED_SECTIONS:
        lab.test(section)
    find_batch(lab)
    tested = _tested(lab)
    allowed = [_with_all_it_needs(lab, m) for m in tested if supported(m) and allowed_by(m, lab.settings)]
    allowed = [m for m in allowed if supported(m) and ends_sooner(lab, m)]
    ranking = _ranking(lab, tested, allowed)
    search = find_winner(lab, ranking)
    chosen, dropped, late, unshown = search.chosen, list[str](), list[str](), list[str]()
    if chosen:
        gains = {label(m.contrast.levels): m.verdict.effect.ratio for m in allowed}
        reduced = without_redundant(lab, chosen, gains)
        in_time = without_late(lab, reduced.chosen, ranking)
        chosen, dropped, late, unshown = in_time.chosen, reduced.dropped, in_time.dropped, reduced.unshown
    kept = names_of(chosen.contrast.levels) if chosen else frozenset()
    left_out = [one.text for one in search.rejected if one.measured is not chosen]
    left_out += [in_own_words(name, allowed) for name in (*dropped, *late)]
    adopted = chosen is not None and chosen.verdict.outcome is Outcome.SUPPORTED
    settings = chosen.contrast.treatment.settings if adopted else lab.settings
    return Choice(
        tested=tested,
        allowed=allowed,
        head_to_heads=search.head_to_heads,
        confirmed=[m for m in lab.found if m.family == CONFIRMED],
        chosen=chosen,
        left_out=left_out,
        late=late,
        unshown=[in_own_words(name, allowed) for name in unshown if name in kept],
        settings=replace(settings, name=f"{lab.settings.name}_final"),
        before=lab.baseline.projection,
        after=lab.evidence.projected(chosen) if adopted else None,
        remaining=_remaining(lab, chosen) if adopted else None,
    )


def _tested(lab: Lab) -> list[Measured]:
    """Return everything that the parameter file lists, each once: of several by one name the first counts."""
    tested = [m for m in lab.found if m.family != CONFIRMED]  # there are others if this was asked before
    return list({m.verdict.name: m for m in reversed(tested)}.values())[::-1]


def _ranking(lab: Lab, tested: Sequence[Measured], allowed: Sequence[Measured]) -> list[Candidate]:
    """Return the combinations of the allowed changes, the most promising first."""
    conditional = [m for m in tested if m.contrast.held_constant]
    known = [*(m for m in tested if not m.contrast.held_constant), *allowed]
    clashing = clashes(lab.settings, allowed, lab.machine)
    return ranked(allowed, known, _room(lab), clashing, conditional, job_of(lab))


def profiles(lab: Lab, choice: Choice) -> dict[str, ProfileRecord]:
    """Return the profiles of the run as it is and, if a combination is adopted and was profiled, of the run with it."""
    final = choice.arm and lab.evidence.read(lab.evidence.profile_spec(choice.arm))
    return {"baseline": lab.profile(lab.arm)} | ({"final": final} if final else {})


def causes_of(lab: Lab, choice: Choice) -> list[Cause]:
    """Return the causes that everything points at which was tested, the adopted configuration among it."""
    return causes(choice.verdicts, lab.suspects, lab.settings.budget.minimum_effect, choice.remaining)


def _remaining(lab: Lab, chosen: Measured) -> Remaining | None:
    """Have the winner profiled, if time is left, and return what it still loses; None where no profile tells that."""
    if lab.is_time_to_profile():
        lab.profile(chosen.contrast.treatment)
    return lab.evidence.remaining(chosen)


def _room(lab: Lab) -> float:
    """Return the bytes that a combination may take beyond the baseline's, which fits in any case."""
    memory = lab.baseline.record.baseline.memory
    return math.inf if memory.limit is None else max(0.0, HEADROOM * memory.limit - (memory.peak or 0))


def _with_all_it_needs(lab: Lab, m: Measured) -> Measured:
    """Return the change with what it needs, compared with the run as it is. `m` compared it with another run.

    Its levels stay as they are, so that what they need yields to what stands beside them in a combination.
    """
    if not m.contrast.held_constant:
        return m
    contrast = combine(lab.settings, with_conditions(m.contrast.levels), lab.machine)
    whole = lab.compare(contrast, f"{contrast.name} with all that it needs")
    return replace(whole, contrast=replace(whole.contrast, levels=m.contrast.levels))
