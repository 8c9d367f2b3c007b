"""What an audit finds: the kinds of findings, and what can be said of a claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from slowstep.audit.figures import Figure, exact, shown
from slowstep.audit.run import Run
from slowstep.settings.reported import Claim


class Kind(StrEnum):
    """What is wrong, or to be minded."""

    UNIT = "unit trap"
    ARITHMETIC = "arithmetic"
    PHYSICS = "against physics"
    BOUND = "beyond its bound"
    UNLIKELY = "more than expected"
    NEIGHBOURS = "unlike its neighbours"
    CONTROL = "something else changed"
    CONFOUNDED = "several changes at once"
    MEANING = "other training"
    NOISE = "within the noise"
    PROJECTED = "not measured"
    MEASURED = "measured otherwise"
    RANKING = "the fastest by unit"
    MEMORY = "out of memory"


NOTES = (Kind.NEIGHBOURS, Kind.MEANING, Kind.PROJECTED, Kind.RANKING, Kind.MEMORY)
"""What is to be minded and is no fault."""


class Judgement(StrEnum):
    """What the figures say of a claim."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNDECIDED = "can't be decided from these figures"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing, in words, with the row or the claim where it is."""

    kind: Kind
    where: str
    text: str
    small: bool = False
    """Beyond rounding, but of no consequence."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with what the figures say."""

    claim: Claim
    judgement: Judgement
    reason: str
    gain: Figure | None
    """The treatment's speed over the baseline's, at equal work."""
    unit: str
    """What counts that work."""
    findings: Sequence[Finding] = field(default_factory=list)
    questions: Sequence[str] = field(default_factory=list)
    """What would have to be known to decide."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything that a report's own figures say."""

    runs: Sequence[Run]
    claims: Sequence[Judged]
    findings: Sequence[Finding]
    """On the rows, not on a claim."""
    questions: Sequence[str]
    impossible: Collection[str] = ()
    """Rows whose figures can't be true; they take no part in what is said of all rows."""

    @property
    def faults(self) -> list[Finding]:
        """What is wrong, of consequence, on rows and on claims."""
        return [f for f in self.everything if not f.small and f.kind not in NOTES]

    @property
    def notes(self) -> list[Finding]:
        """What is to be minded, each once; that figures were only expected stands in their claim's reason."""
        first: dict[str, Finding] = {}
        for f in self.everything:
            if f.kind in NOTES and f.kind is not Kind.PROJECTED:
                first.setdefault(f.text, f)
        return list(first.values())

    @property
    def beside(self) -> list[Finding]:
        """Faults and notes that no claim's reason has said."""
        return [f for f in (*self.faults, *self.notes) if not any(f.text in c.reason for c in self.claims)]

    @property
    def first_questions(self) -> list[str]:
        """What would have to be known before all: of the whole, and of each claim that is not decided its first two."""
        undecided = (c for c in self.claims if c.judgement is Judgement.UNDECIDED)
        return list(dict.fromkeys([*self.questions, *(q for c in undecided for q in c.questions[:2])]))

    @property
    def everything(self) -> list[Finding]:
        """Notes and slips, too."""
        return [*self.findings, *(f for c in self.claims for f in c.findings)]


def times(ratio: float) -> str:
    """A ratio in words: 2.11 times."""
    return f"{ratio:.3g} times" if ratio < 0.995 or ratio >= 10 else f"{ratio:.2f} times"


def spread(figure: Figure, written: Figure | None = None) -> str:
    """A figure as it follows from what was `written`, and behind it what rounding makes of that."""
    written = written or exact(figure.middle)
    ends = [shown(written.low), shown(written.high)]
    known = " to ".join(dict.fromkeys(ends))
    rounded = [shown(figure.low), shown(figure.high)]
    return known if rounded in (ends, [known, known]) else f"{known} (with rounding {' to '.join(rounded)})"
