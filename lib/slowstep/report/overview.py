"""What an investigation says at one glance: the answer, what to do, what else there is, how sure it is.

The index, the summary in Markdown and the summary in JSON are written from it, so that they say the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slowstep.investigation.results import (
    Decision,
    NotebookRun,
    Refused,
)
from slowstep.judgement.intervals import ONE_LAUNCH_MARGIN
from slowstep.judgement.verdict import Outcome, Verdict, span
from slowstep.report.actions import Action, actions, within
from slowstep.text.numbers import MOST, in_minutes, percent, percentage, unsigned
from slowstep.text.sentences import capitalised, sentence
from slowstep.wording.causes import Cause
from slowstep.wording.remaining import looked_at_again, remains
from slowstep.wording.still_open import in_noise, more_lost
from slowstep.wording.words import change_of_job, effect, not_shown_beside, omits, size

FEWER = 0.05
"""The part of a sample's tokens from which on a change that takes them out says so beside a job's hours."""

NOTHING_SHOWN = "No change that may be made here was shown and confirmed to be faster."
"""What is said where causes are known and nothing is adopted."""

NOTHING_TRIED = "No change was tried."
"""What is said there if no trial of a change was made."""

GOES_ON = "no time was left; more minutes go on from here"
"""What is said of hypotheses that the minutes did not reach."""

SECOND_LAUNCH = f" (below {percentage(math.expm1(ONE_LAUNCH_MARGIN))}, two launches have to show it)"
"""What is said beside gains that one launch alone does not show (`intervals.ONE_LAUNCH_MARGIN`)."""

NOTHING_TOLD = 2.0
"""The report says that a run differs much from itself if its pairs tell only a gain of this ratio from chance."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One investigation."""

    name: str
    runs: Sequence[NotebookRun]
    verdicts: Sequence[Verdict]
    """All hypotheses: the supported first, the largest gain first."""
    causes: Sequence[Cause]
    largest: str
    """A clause on the phase that takes most of the time, for a run without a cause."""
    decided: Decision | None
    """What the last notebook decided; None if it has not."""
    fails: str
    """How the run itself failed after it had trained for a while, as a clause; empty if it did not."""
    unmeasured: str
    """The reason why nothing is known of the run: its baseline failed, or was not measured; empty if it was."""
    undecided: str
    """The reason why nothing is decided: the last notebook failed, or has not run; empty if it has."""
    shares: Mapping[str, float]
    """The share of a step, 0 to 1, that each phase of the run as it is takes."""
    noise: float | None
    apart: str
    """How far the run lies apart from itself beyond chance, in a sentence; empty if it does not."""
    minimum_effect: float
    held_back: Sequence[str]
    """Sentences on what else holds the run back or ends it, and on files that were edited; empty texts among them."""
    doubts: Sequence[str]
    """Sentences on what the figures may not tell, beside how noisy the run is; empty texts among them."""
    course: str
    """What becomes of the run's steps as training goes on, in sentences; empty if they keep their pace."""
    unprojected: str
    """The reason why the job is not projected, as a clause; empty if it is."""
    unprofiled: str
    """The reason why the run was not profiled, as a clause; empty if it was."""
    audited: str
    """What the audit of reported figures found, in sentences; empty if there was none."""
    machine: str
    ran: str
    """The version of torch, and the command if one was measured: "torch 2.13.0, python train.py"; empty if neither is
    known."""
    trained: bool
    """True if any of its notebooks trains. The audit of reported figures does not."""
    now: Mapping[str, object]
    """The run's own values of the settings that parts of the decision change, by key."""
    files: Sequence[str]
    """The files of final/, relative to the folder of all investigations."""
    patch: str
    """The lines of code that the decision changes, as a patch; empty if there is none, or if it is long."""
    seconds: float
    """The time that the investigation took; 0 if that is not known."""
    measured_seconds: float = 0.0
    """The part of it in measured blocks."""
    other_code: str = ""
    """The sentence that another version of the kit has judged the records; empty if this one has."""

    @property
    def decision(self) -> Decision:
        """Return what was decided; an empty decision if nothing was."""
        return self.decided or Decision()

    @property
    def answer(self) -> str:
        """Return the whole answer: its first sentence, and what has to stand beside it."""
        return " ".join(filter(None, (self.headline, self.beside)))

    @property
    def headline(self) -> str:
        """Return what becomes of the job, or that nothing was found, in one sentence; before it, how the run failed."""
        return " ".join(filter(None, (self._failing, self._said[0])))

    @property
    def beside(self) -> str:
        """Return what has to stand beside the headline, in sentences: what it leaves open, and what else holds the run
        back. Empty if nothing does."""
        return " ".join(filter(None, (self._said[1], self._noise * self._is_in_noise, self.course, *self.held_back)))

    @property
    def _failing(self) -> str:
        """How the run itself failed, and that it did in most comparisons, as sentences; empty if it did neither."""
        told = [sentence(self.fails)] if self.fails else []
        if self._failed_in_most:
            ((why, times),) = Counter(v.reason for v in self._failed_beside).most_common(1)
            of = f"{len(self._failed_beside)} of {len(self._compared)}"
            most = f"in {times} of them " if times < len(self._failed_beside) else ""
            told.append(sentence(f"{of} comparisons say nothing of their change: {most}{why}"))
        return " ".join(told)

    @property
    def _compared(self) -> list[Verdict]:
        """The hypotheses of which a comparison was begun."""
        return [v for v in self.verdicts if v.status is not None]

    @property
    def _failed_beside(self) -> list[Verdict]:
        return [v for v in self._compared if v.run_failed]

    @property
    def _failed_in_most(self) -> bool:
        return 2 * len(self._failed_beside) > len(self._compared)

    @cached_property
    def _said(self) -> tuple[str, str]:
        """The answer's first sentence, and the sentences that have to stand beside it."""
        adopted, before, after = self.decision.adopted, self.decision.before, self.decision.after
        if not self.trained:
            told = "Reported figures were audited, and nothing was trained."
            return (self.audited, told) if self.audited else (told, "")
        if self.unmeasured:
            return f"Nothing is known yet: {self.unmeasured}.", ""
        if self.decided is None:
            return f"Nothing is decided yet: {self.undecided}.", ""
        if adopted and before and after:
            assumed = f", if {after.assumed}" if after.assumed else ""
            whole = f"{capitalised(self._with)} the job {change_of_job(before, after)}"
            beside = " ".join(filter(None, (omits(before), self._besides)))
            return f"{whole}: {span(adopted.effect)} throughput{assumed}{self._fewer_tokens}.", beside
        if adopted:
            why = f": {self.unprojected}" if self.unprojected else ""
            unknown = "" if self.course or self.fails else f"How long the whole job takes is not known{why}."
            whole = f"{capitalised(self._with)} throughput changes by {span(adopted.effect)}."
            return whole, " ".join(filter(None, (self._besides, unknown)))
        if self._failed_in_most:
            return "No change can be shown to be faster before the run trains to the end.", ""
        if self.causes and self.causes[0].headline:
            return self.causes[0].headline, self._nothing_shown
        refused = [one for one in self.decision.refused if one.verdict.effect]
        if refused:  # also where it names no cause, as it was compared beside settings that the run lacks
            best = max(refused, key=lambda one: one.verdict.effect.mean)
            shown = f"{span(best.verdict.effect)} throughput was shown with {best.verdict.shown}"
            return f"{shown}, which is not adopted.", sentence(best.why)
        if self.causes:
            return self._nothing_shown, "The causes below say why."
        found = f"; {self.largest}" if self.largest else ""
        yet = " yet" * bool(self.untried or self.of(Outcome.INCONCLUSIVE))
        return f"No cause was shown{yet}{found}.", self._undecided

    @property
    def _nothing_shown(self) -> str:
        """Return the sentence that no change is shown to be faster, or that none was tried, and for what no time was
        left."""
        return " ".join(filter(None, (NOTHING_SHOWN if self._compared else NOTHING_TRIED, self._unreached)))

    @property
    def _unreached(self) -> str:
        return f"For {_hypotheses(len(self.untried))} {GOES_ON}." if self.untried else ""

    @property
    def _undecided(self) -> str:
        """Return what could not be seen, how many hypotheses stay open, and why, in sentences; else an empty text."""
        within = "so time that is lost within the passes could not be seen"
        unseen = f"The run was not profiled ({self.unprofiled}), {within}." if self.unprofiled else ""
        open_ones = self.of(Outcome.INCONCLUSIVE)
        stay = "stays" if len(open_ones) == 1 else "stay"
        undecided = f"{len(open_ones)} of {_hypotheses(len(self.verdicts))} {stay} undecided." if open_ones else ""
        return " ".join(filter(None, (unseen, undecided, self._unreached, self._untestable)))

    @property
    def _fewer_tokens(self) -> str:
        """What has to be said of a job that becomes shorter than its throughput says: it trains on fewer tokens."""
        tokens = self.decision.tokens
        fewer = "; each sample then has fewer tokens, so the job gets shorter by more than that"
        return fewer if tokens is not None and tokens < 1 - FEWER else ""

    @property
    def _untestable(self) -> str:
        """How many hypotheses could not be tested, and the commonest reason, as a sentence; empty if most could."""
        reasons = Counter(v.reason for v in self.of(Outcome.NOT_TESTABLE))
        if not reasons or 2 * reasons.total() < len(self.verdicts):
            return ""
        ((why, times),) = reasons.most_common(1)
        most = f"{times} of them: " if times < reasons.total() else ""
        return sentence(
            f"{reasons.total()} of {_hypotheses(len(self.verdicts))} could not be tested here ({most}{why})"
        )

    @property
    def _with(self) -> str:
        """The change that is adopted, as the beginning of a sentence; for several, that they are listed below."""
        if not self.single:
            return "with all changes below together,"
        shown = self.decision.adopted.shown
        return f"{shown}," if shown.startswith("without ") else f"with {shown},"

    @property
    def _besides(self) -> str:
        """What has to stand beside the adopted gain: that more time is lost where no setting helps, or that no cause is
        known."""
        adopted = self.decision.adopted
        if not self.causes and not self.parts:
            return "No cause was shown: no single change is known to bring that."
        if not (adopted and adopted.effect):
            return ""
        return more_lost(self.causes, adopted.effect)

    @cached_property
    def actions(self) -> list[Action]:
        """Return what to do, the largest gain first, and last what is adopted without having been shown by itself."""
        adopted = self.decision.adopted
        found = actions(adopted, self.parts, self.now)
        if len(found) == 1 and found[0].gain:  # fresh pairs, which did not pick the change, tell what it brings
            return [replace(found[0], gain=span(adopted.effect))] if adopted.effect else found
        return [replace(one, kind=f"by itself; {one.kind}") if one.gain else one for one in found]

    @cached_property
    def parts(self) -> list[Verdict]:
        """Return what is adopted, part by part, each with the values that the whole has."""
        adopted = self.decision.adopted
        return [within(adopted, v) for v in self.decision.parts] if adopted else list(self.decision.parts)

    @property
    def single(self) -> bool:
        """Return whether all that is adopted is one change, which was measured by itself."""
        return len(self.actions) == 1 and bool(self.actions[0].gain)

    @cached_property
    def confirmed(self) -> str:
        """Return what all that is adopted brings, and by which pairs, as a sentence; empty if nothing is adopted."""
        adopted = self.decision.adopted
        if adopted is None:
            return ""
        pairs = f"{adopted.effect.n} fresh pairs" if adopted.effect else "fresh pairs"
        looked = f" {said}" if (said := looked_at_again(self.decision.remaining)) else ""
        if self.single:
            picked = self.parts[0].effect if self.parts else None
            showed = f"; the pairs that picked the change showed {span(picked)}" if picked else ""
            return f"Measured once more, by {pairs}{showed}.{looked}"
        apart = f" {said}" if (said := not_shown_beside(self.decision.unshown)) else ""
        return f"All together, measured by {pairs}: {effect(adopted.effect)}, since gains don't add.{apart}{looked}"

    @property
    def remains(self) -> list[str]:
        """Return what the adopted configuration still loses, in sentences; nothing where that is not known."""
        return remains(self.decision.remaining)

    @cached_property
    def memory(self) -> str:
        """Return what the changes do to the peak of memory, as a sentence; empty if nothing is adopted or measured."""
        before, after = self.decision.memory_before, self.decision.memory_after
        if before.peak is None or after.peak is None:
            return ""
        where = "the host" if after.reserved is None else "the device"
        limit = f"; a trial may take {size(after.limit)}" if after.limit else ""
        return f"The peak of memory on {where} becomes {size(after.peak)} (now {size(before.peak)}{limit})."

    @cached_property
    def beyond(self) -> list[Refused]:
        """Return the changes that would bring more and are not adopted, the largest gain first."""
        return sorted(self.decision.refused, key=lambda one: -one.verdict.gain)

    def of(self, outcome: Outcome) -> list[Verdict]:
        """Return the hypotheses with this outcome; those for which no time was left have none."""
        return [v for v in self.verdicts if v.outcome is outcome and not v.untried]

    @cached_property
    def untried(self) -> list[Verdict]:
        """Return the hypotheses for which no time was left."""
        return [v for v in self.verdicts if v.untried]

    @cached_property
    def certainty(self) -> str:
        """Return how small an effect this machine can show, what else kept it busy, and what does not count.

        The text is empty if nothing of that is known.
        """
        noise = "" if self._is_in_noise else self._noise
        return " ".join(filter(None, (noise, self.apart, *self.doubts, self.other_code)))

    @property
    def _is_in_noise(self) -> bool:
        """Return whether noise is a reason that nothing is adopted: it stands in the answer then."""
        if self.decided is None or self.decision.adopted or self.unmeasured:
            return False
        return (self.noise or 0.0) >= NOTHING_TOLD or any(map(in_noise, self.verdicts))

    @property
    def _noise(self) -> str:
        """How small an effect this machine can show, in a sentence; empty if that is not known."""
        if self.noise is None or not math.isfinite(self.noise):
            return ""
        gain = unsigned(percent(min(self.noise, MOST)))
        told = (
            f"In this machine's noise a few pairs can show a gain of {gain} or more, and more pairs a smaller one"
            f"{SECOND_LAUNCH * (self.noise < math.exp(ONE_LAUNCH_MARGIN))}."
        )
        if self.noise >= NOTHING_TOLD:
            told = (
                f"The run differs so much from itself that a few pairs show no gain below {gain}: it was measured for "
                "too short a time, or something else kept the machine busy."
            )
        return told

    @property
    def measured(self) -> str:
        """Return the machine, the version of torch and the command, as a sentence; empty if none is known."""
        known = [one for one in (self.machine, self.ran) if one]
        return f"{', '.join(known)}." if known else ""

    @cached_property
    def took(self) -> str:
        """Return how long the investigation took; empty if that is not known."""
        return f"Took {in_minutes(self.seconds)}." if self.seconds else ""


def _hypotheses(count: int) -> str:
    return f"{count} {'hypothesis' if count == 1 else 'hypotheses'}"
