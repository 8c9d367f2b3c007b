"""The results of an audit: kinds of findings, judgements of claims, and the sizes that claims state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from slowstep.audit.figures import Figure, exact, figure, shown
from slowstep.audit.relations import CONSEQUENCE
from slowstep.audit.run import ReportedRun
from slowstep.settings.reported import Claim

MOST = 1e9
"""The upper end, as a ratio, of a claim that something is faster by any amount."""

ABOUT = 0.05
"""The share by which the size of a claim may be off that is given as a whole number: "twice as fast", "no slower"."""


class FindingKind(StrEnum):
    """The kinds of faults and notes."""

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


NOTES = (FindingKind.NEIGHBOURS, FindingKind.MEANING, FindingKind.PROJECTED, FindingKind.RANKING, FindingKind.MEMORY)
"""Kinds of findings that are worth a note but no fault."""


class Judgement(StrEnum):
    """The possible judgements of a claim by the figures."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNDECIDED = "can't be decided from these figures"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault or a note in words, with the row or the claim that it is about."""

    kind: FindingKind
    where: str
    text: str
    small: bool = False
    """True for a slip: beyond rounding, but without consequence."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with its judgement by the figures."""

    claim: Claim
    judgement: Judgement
    reason: str
    gain: Figure | None
    """The treatment's speed over the baseline's, at equal work."""
    unit: str
    """The unit that counts that work."""
    findings: Sequence[Finding] = field(default_factory=list)
    questions: Sequence[str] = field(default_factory=list)
    """Questions whose answers would decide the claim."""
    by_single_runs: bool = False
    """True if its effect is as small as what lies between two runs of one configuration, and nothing was repeated."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything that a report's own figures say."""

    runs: Sequence[ReportedRun]
    claims: Sequence[Judged]
    findings: Sequence[Finding]
    """Findings about the rows, not about a claim."""
    questions: Sequence[str]
    impossible: Collection[str] = ()
    """Names of rows whose figures can't be true. They are left out of statements about all rows."""

    @property
    def faults(self) -> list[Finding]:
        """Return the faults of consequence, of rows and of claims."""
        return [f for f in self.everything if not f.small and f.kind not in NOTES]

    @property
    def notes(self) -> list[Finding]:
        """Return the notes, each once. That figures were only expected is said in their claim's reason."""
        first: dict[str, Finding] = {}
        for f in self.everything:
            if f.kind in NOTES and f.kind is not FindingKind.PROJECTED:
                first.setdefault(f.text, f)
        return list(first.values())

    @property
    def beside(self) -> list[Finding]:
        """Return the faults and notes that no claim's reason names."""
        return [f for f in (*self.faults, *self.notes) if not any(f.text in c.reason for c in self.claims)]

    @property
    def first_questions(self) -> list[str]:
        """Return the first questions to ask: those on the whole report, and two on each claim that is undecided.

        Of one that holds by single runs it is the last one, on how often they were measured.
        """
        undecided = (q for c in self.claims if c.judgement is Judgement.UNDECIDED for q in c.questions[:2])
        holds = (c for c in self.claims if c.judgement is Judgement.HOLDS and c.by_single_runs)
        return list(dict.fromkeys([*self.questions, *undecided, *(q for c in holds for q in c.questions[-1:])]))

    @property
    def everything(self) -> list[Finding]:
        """Return all findings, notes and slips included."""
        return [*self.findings, *(f for c in self.claims for f in c.findings)]


def times(ratio: float) -> str:
    """Return a ratio in words: 2.11 times."""
    if ratio >= 1000:
        return f"{ratio:,.0f} times"
    return f"{ratio:.3g} times" if ratio < 0.995 or ratio >= 10 else f"{ratio:.2f} times"


def spread(figure: Figure, written: Figure | None = None, unit: str = "") -> str:
    """Return a figure that follows from what was `written`, in words, and in brackets its ends with rounding."""
    written = written or exact(figure.middle)
    ends = [shown(written.low), shown(written.high)]
    known = " to ".join(dict.fromkeys(ends))
    rounded = [shown(figure.low), shown(figure.high)]
    if rounded in (ends, [known, known]):
        return known + unit
    return f"{known}{unit} (with rounding {' to '.join(rounded)}{unit})"


def stated_speed_up(claim: Claim) -> Figure | None:
    """Return the claimed speed-up: `>1` is anything faster, `1/3` three times slower; None where no size is given."""
    said = claim.speed_up
    if isinstance(said, str) and said[:1] in ("<", ">"):
        end = figure(said[1:]).middle
        return Figure(0.0, end) if said[0] == "<" else Figure(end, MOST)
    if isinstance(said, str) and said.startswith("1/"):
        return 1 / _size(said[2:])
    return None if said is None else _size(said)


def _size(said: object) -> Figure:
    """Return a claimed size. One without decimals is not exact, and not as wide as its rounding either."""
    found = figure(said)
    whole = found.middle == round(found.middle) and found.high - found.low > 2 * ABOUT * found.middle > 0
    return Figure((1 - ABOUT) * found.middle, (1 + ABOUT) * found.middle, found.middle) if whole else found


def contradicts(gain: Figure, stated: Figure) -> bool:
    """Return whether a gain is not what was claimed. A claim of a size has a tolerance, and an inequality has none."""
    of_a_size = stated.low > 0 and stated.high < MOST
    return gain.gap(stated) > CONSEQUENCE or not (of_a_size or gain.meets(stated))


def claimed(stated: Figure) -> str:
    """Return a claimed size in words: `2.11 times`, `more than 1.5 times`."""
    if stated.high == MOST:
        return f"more than {times(stated.low)}"
    return f"less than {times(stated.high)}" if stated.low == 0 else times(stated.middle)
