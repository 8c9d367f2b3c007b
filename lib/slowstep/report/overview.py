"""What an investigation says at one glance: the answer, what to do, what else there is, how sure it is.

The index, the summary in Markdown and the summary in JSON are written from it, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slowstep.factors import Meaning
from slowstep.investigation.results import Decision, NotebookRun, Refused, Summary
from slowstep.judgement.verdict import Outcome, Verdict, percent, reconsidered, span
from slowstep.records import Store
from slowstep.settings.sections import AUDIT, BASELINE, FINAL
from slowstep.wording.causes import Cause, causes
from slowstep.wording.words import SIGNS, duration, hours, money

KINDS = {
    Meaning.EXACT: "training stays the same",
    Meaning.NUMERICS: "other rounding: compare the loss",
    Meaning.SEMANTICS: "other training",
    Meaning.DIAGNOSTIC: "a limit, nothing to train with",
}
"""The classes of changes in words that need no explanation."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something to do."""

    what: str
    """The place in the code with the new value, or the key of the parameter file with it."""
    gain: str
    """What it brings by itself, with its interval."""
    kind: str
    """What it does to training."""
    why: str
    """The cost that it takes away."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One investigation."""

    name: str
    runs: Sequence[NotebookRun]
    verdicts: Sequence[Verdict]
    """All hypotheses: the supported first, the largest gain first."""
    causes: Sequence[Cause]
    headline: str
    """A sentence on the phase that takes most of the time, for a run without a cause."""
    decision: Decision
    shares: Mapping[str, float]
    """The share of a step, 0 to 1, that each phase of the run as it is takes."""
    noise: float | None
    minimum_effect: float
    machine: str
    trained: bool
    """True if any of its notebooks trains. The audit of reported figures does not."""
    files: Sequence[str]
    """The files of final/, relative to the folder of all investigations."""

    @cached_property
    def answer(self) -> str:
        """Return the answer in one sentence: what becomes of the job, or that nothing was found."""
        adopted, before, after = self.decision.adopted, self.decision.before, self.decision.after
        if not self.trained:
            return "Reported figures were audited, and nothing was trained."
        if adopted and before and after:
            cost = f", and costs {money(after)} in place of {money(before)}" if money(after) else ""
            return f"The job takes {hours(after)} in place of {hours(before)}{cost}: {span(adopted.effect)} throughput."
        if adopted:
            return f"Training runs at {span(adopted.effect)} of throughput with the changes below, measured together."
        if self.causes:
            return "No change that this file allows was shown and confirmed to be faster. The causes below say why."
        open_ones = [v for v in self.verdicts if v.outcome is Outcome.INCONCLUSIVE]
        undecided = f" {len(open_ones)} of {len(self.verdicts)} stay undecided." if open_ones else ""
        found = f"; {self.headline}" if self.headline else ""
        return f"No cause was shown{found}.{undecided}"

    @cached_property
    def actions(self) -> list[Action]:
        """Return what to do, the largest gain first."""
        return [_action(v) for v in self.decision.parts]

    @cached_property
    def together(self) -> str:
        """Return all that is adopted as it is written, if parts of it were not measured by themselves; else empty."""
        adopted = self.decision.adopted
        single = {key for v in self.decision.parts for key in v.overrides | v.held_constant}
        return what(adopted) if adopted and set(adopted.overrides) - single else ""

    @cached_property
    def beyond(self) -> list[Refused]:
        """Return the changes that would bring more and are not adopted, the largest gain first."""
        return sorted(self.decision.refused, key=lambda one: -one.verdict.gain)

    def of(self, outcome: Outcome) -> list[Verdict]:
        """Return the hypotheses with this outcome."""
        return [v for v in self.verdicts if v.outcome is outcome]

    @cached_property
    def certainty(self) -> str:
        """Return how small an effect this machine can show, in one sentence; empty if that is not known."""
        if self.noise is None:
            return ""
        return f"Measured against itself, this run on this machine can show {percent(self.noise)} and more."

    @cached_property
    def took(self) -> str:
        """Return how long the investigation took."""
        return duration(sum(run.seconds for run in self.runs))


def overview(folder: Path) -> Overview:
    """Return what one investigation says, from its records."""
    store = Store(folder / "records")
    runs = store.every(NotebookRun, "notebooks")
    summaries = {s.notebook: s for s in store.every(Summary, "summaries")}
    final, baseline = summaries.get(FINAL.notebook), summaries.get(BASELINE.notebook)
    verdicts: dict[str, Verdict] = {}
    for name in sorted(summaries):
        verdicts |= {v.name: v for v in summaries[name].verdicts if name != FINAL.notebook or v.name not in verdicts}
    known = reconsidered(list(verdicts.values()), final.verdicts if final else [])
    machine = next((r.machine for r in runs if r.machine), "")
    return Overview(
        name=folder.name,
        runs=runs,
        verdicts=sorted(known, key=lambda v: (list(SIGNS).index(v.outcome), -v.gain)),
        causes=causes(known, baseline.suspects, baseline.minimum_effect) if baseline else [],
        headline=baseline.cause if baseline else "",
        decision=(final.decision if final else None) or Decision(),
        shares={phase: share.mean for phase, share in baseline.shares.items()} if baseline else {},
        noise=baseline.noise if baseline else None,
        minimum_effect=baseline.minimum_effect if baseline else 0.0,
        machine=machine,
        trained=bool(baseline) or any(r.notebook != AUDIT.notebook for r in runs),
        files=[f"{folder.name}/final/{p.name}" for p in sorted((folder / "final").glob("*")) if p.is_file()],
    )


def _action(v: Verdict) -> Action:
    return Action(what=what(v), gain=span(v.effect), kind=KINDS[v.meaning], why=v.cause)


def what(v: Verdict) -> str:
    """Return a change as it is written: a place in the code with its new value, or keys of the parameter file."""
    if v.lines:
        return "; ".join(v.lines)
    keys = "; ".join(f"{key}: {_plain(value)}" for key, value in (v.overrides | v.held_constant).items())
    return keys or v.name


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
