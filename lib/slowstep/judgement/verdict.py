"""A verdict: what is known of a hypothesis, before its trial or after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slowstep.factors import Meaning
from slowstep.factors.factor import show_all
from slowstep.judgement.bounds import Bound
from slowstep.judgement.comparison import Reading
from slowstep.judgement.intervals import Interval
from slowstep.judgement.suspects import Residuals
from slowstep.records import Status
from slowstep.text.numbers import asked, spanned
from slowstep.text.shown import Shown


class Outcome(StrEnum):
    """The possible outcomes of a hypothesis."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True, kw_only=True)
class Verdict(Shown):
    """A judged hypothesis. `effect` is a throughput ratio with its interval; None where nothing was measured."""

    name: str
    factor: str
    title: str
    hypothesis: str
    meaning: Meaning
    changes: str
    outcome: Outcome
    reason: str
    cause: str = ""
    """The cost that the change takes away if the hypothesis is true, as the subject of a sentence."""
    effect: Interval | None = None
    reading: Reading | None = None
    bound: Bound | None = None
    status: Status | None = None
    alone: bool = True
    """True if a single level was changed."""
    node: str = ""
    """The node of a cluster that both arms were measured on; empty for the machine that the kit ran on."""
    held_constant: dict[str, Any] = field(default_factory=dict)
    """Settings held constant in both arms that the investigation's run lacks. The factor exists only beside them."""
    overrides: dict[str, Any] = field(default_factory=dict)
    least: float = 0.0
    """The least gain that supports it, 1.0 for twice as fast, where that is more than the run's minimum effect."""
    left: dict[str, float] = field(default_factory=dict)
    """Share of the wall time, by phase, that the changed run loses at least (`slowstep.judgement.suspects`)."""
    left_at_most: dict[str, float] = field(default_factory=dict)
    """Share of the wall time, by phase, that the changed run loses at most; empty where the comparison is worthless."""
    before: dict[str, float] = field(default_factory=dict)
    """Share of the wall time, by phase, that the baseline spent in the same pairs; for a pass, what it lost there."""
    steps: float = 1.0
    """The steps that the changed run takes for the work of one of the baseline's."""
    tells: bool = True
    """False if its pairs say nothing of the change: something else changed, or waits came too rarely in them."""
    loss_change: float | None = None
    """Relative change of the loss over the first samples; None where they differ or losses cancel."""
    warnings: list[str] = field(default_factory=list)
    doubt: str = ""
    """Why support is doubted all the same, as a clause; empty if it is not."""
    lines: list[str] = field(default_factory=list)
    """The change in the words of a command's own code, with its places once it was made; empty for described runs."""
    replaces: list[str] = field(default_factory=list)
    """What that code says now in those places, for arguments and options; empty for described runs."""

    @property
    def untried(self) -> bool:
        """Return whether no trial was made that could have decided it: no time was left for one."""
        return self.outcome is Outcome.INCONCLUSIVE and self.effect is None and self.status is None

    @property
    def run_failed(self) -> bool:
        """Return whether the run as it is failed in the comparison, which says nothing of the change."""
        return self.outcome is Outcome.INCONCLUSIVE and self.status not in (None, Status.OK)

    @property
    def shown(self) -> str:
        """Return the change as its reader would write it: in the program's own words, or else its name."""
        return "; ".join(self.lines) or self.name

    @property
    def order(self) -> str:
        """Return the change as what to do: "Set dataloader_num_workers=4"."""
        if self.shown.startswith("without "):
            return f"Train {self.shown}"
        return f"{'Change' if self.lines else 'Set'} {self.shown}"

    @property
    def conditional(self) -> bool:
        """Return whether the change was compared with another run than the investigation's own."""
        return bool(self.held_constant)

    @property
    def condition(self) -> str:
        """Return the settings held constant in both arms and what else was asked for, in words; empty for most."""
        held = [f"both arms with {show_all(self.held_constant)}"] if self.held_constant else []
        least = [f"counts from {asked(self.least)} on"] if self.least else []
        return f"({'; '.join(held + least)})" if held or least else ""

    @property
    def title_in_full(self) -> str:
        """Return the verdict's name with its condition."""
        return f"{self.shown} {self.condition}".rstrip()

    @property
    def as_limit(self) -> str:
        """Return "(a limit)" of a change that shows one and is nothing to train with; empty for all others."""
        return "(a limit)" if self.meaning is Meaning.DIAGNOSTIC else ""

    @property
    def title_in_list(self) -> str:
        """Return the verdict's name with its condition for a list of changes, in which a limit is called one."""
        return f"{self.title_in_full} {self.as_limit}".rstrip()

    @property
    def because(self) -> str:
        """Return why this outcome, with the doubt of it and what to mind."""
        reason = "; ".join(filter(None, (self.reason, self.doubt)))
        return f"{reason}. Mind: {'; '.join(self.warnings)}" if self.warnings else reason

    @property
    def leaves(self) -> Residuals:
        """Return the lost time that the change leaves, as shares of the time that the baseline takes for the same."""
        ratio = self.effect.ratio if self.effect else 1.0
        least, most = ({p: share / ratio for p, share in shares.items()} for shares in (self.left, self.left_at_most))
        return Residuals(least=least, most=most, before=self.before, steps=self.steps)

    @property
    def gain(self) -> float:
        """Return the measured gain, 0.05 for 5 %; 0 where nothing was measured."""
        return self.effect.ratio - 1 if self.effect else 0.0


def span(effect: Interval) -> str:
    """Return an effect with its interval in words, as every report shows it."""
    return spanned(effect.ratio, effect.low, effect.high)
