"""The findings of an investigation: the baseline, what was measured, and what a notebook leaves for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slowstep.environment.limits import usable_cores
from slowstep.factors import Contrast
from slowstep.judgement.block_length import BlockLength
from slowstep.judgement.comparison import FEWEST_PAIRS, ComparisonResult
from slowstep.judgement.course import Course
from slowstep.judgement.devices import Peak
from slowstep.judgement.first_reads import FirstReads
from slowstep.judgement.intervals import Interval
from slowstep.judgement.projection import Projection, devices
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import ComparisonRecord, Memory
from slowstep.text.shown import Shown

AUDITED = ("audits", "last")
"""The folder and the name of the record of an audit."""

INTERRUPTED = "interrupted"
"""The status of a notebook that has not come to its end."""

UNDER_WAY = "under way"
"""The status that is told in its place while a process works on the investigation. It stands in no record."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The measured baseline."""

    record: ComparisonRecord
    facts: RunFacts
    rests_on: list[str]
    """The records whose steps the facts rest on, by folder and name."""
    reading: ComparisonResult
    peak: Peak | None
    unobserved: str
    """The reason why the baseline could not be observed by itself; empty if it was."""
    unprofiled: str
    """The reason why the baseline could not be profiled; empty if it was."""
    beside: Mapping[str, float]
    """The processor time of threads of its own that run Python beside the training, as `ProfileRecord.beside`."""
    projection: Projection | None
    """The real job; None if its size or its speed is not known, or if its steps keep no one pace."""
    unprojected: str = ""
    """The reason why the job is not projected, as a clause; empty if it is."""
    fails: str = ""
    """How the run itself failed after it had trained for a while, as a clause; empty if it did not."""
    epochs_end: str = ""
    """Why epochs end in trials as the program has them, as a clause; empty if they go on without end."""
    courses: Sequence[Course] = ()
    """The phases in which steps become longer or shorter as training goes on."""
    block_length: BlockLength | None = None
    """The length of blocks that follows from the A/A comparison; None if the parameter file says it, or if it can't be
    told from so few pairs."""

    @property
    def noise(self) -> float | None:
        """The ratio, 1.08 for 8 %, that the pairs of the A/A comparison could tell from chance; None of too few."""
        return self.reading.detectable if len(self.record.pairs) >= FEWEST_PAIRS else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation, 0 to 1: the FLOPs that the useful tokens need, over the peak of all devices."""
        rate, flops = self.facts.throughput.useful_tokens_per_second, self.facts.flops
        if rate is None or flops is None or self.peak is None:
            return None
        return rate * flops.needed / (self.peak.tflops * 1e12 * devices(self.record.baseline, self.facts.on_nodes))


@dataclass(frozen=True, kw_only=True)
class Measured(Shown):
    """A contrast with its verdict, and its record where a trial was needed."""

    contrast: Contrast
    verdict: Verdict
    record: ComparisonRecord | None
    family: str = ""
    """The name of the comparison family, whose comparisons Holm's correction counts together."""


@dataclass(frozen=True, kw_only=True)
class BatchSize:
    """A batch size. `ratio` is its throughput over the baseline's: 1 for the baseline's own size, None if unknown."""

    value: int
    ratio: float | None
    too_big: bool = False
    """True if it ran out of memory."""
    measured: Measured | None = None

    @property
    def is_decided(self) -> bool:
        """Return whether its comparison shows how fast it is beside the run's own; True for that itself."""
        return self.measured is None or self.measured.verdict.outcome is not Outcome.INCONCLUSIVE


def worth_having(tried: Sequence[BatchSize], minimum_effect: float) -> BatchSize | None:
    """Return the smallest size within the minimum effect of the fastest; None if none could be trained.

    A size whose gain is undecided may be the fastest by chance, and counts as neither.
    """
    known = [s for s in tried if s.ratio is not None and s.is_decided]
    best = max((s.ratio for s in known), default=0.0)
    close = [s for s in known if s.ratio * (1 + minimum_effect) >= best]
    return min(close, key=lambda s: s.value, default=None)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A change that was shown to bring something, and is not adopted."""

    verdict: Verdict
    why: str
    """A clause: "not allowed by the parameter file (allow.numerics)"."""
    remedy: str = ""
    """What would let it in, as the whole section: `allow: {numerics: true}`; empty where nothing in the file would."""

    @property
    def file(self) -> str:
        """Return the file in which the remedy stands. A command's is made by the kit, in the folder of its records."""
        return "investigation.yaml" if self.verdict.lines else "the parameter file"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the final notebook decided, and what becomes of the job."""

    adopted: Verdict | None = None
    """The verdict on the adopted configuration; None if none was shown to be faster."""
    parts: list[Verdict] = field(default_factory=list)
    """The verdicts on the single changes that it is made of, the largest gain first."""
    unshown: list[str] = field(default_factory=list)
    """Those of them, in words, that were not shown to bring anything beside the others."""
    refused: list[Refused] = field(default_factory=list)
    before: Projection | None = None
    after: Projection | None = None
    step_before: dict[str, float] = field(default_factory=dict)
    """Seconds a step by phase as the run was, in the pairs that confirmed the configuration."""
    step_after: dict[str, float] = field(default_factory=dict)
    """Seconds by phase for the same samples with the configuration, in the same pairs."""
    tokens: float | None = None
    """The useful tokens a sample with the configuration, over those as the run was; None where none are counted."""
    remaining: Remaining | None = None
    """What the adopted configuration still loses; None if nothing is adopted, or if it was not profiled."""
    memory_before: Memory = Memory()
    memory_after: Memory = Memory()
    """The peaks of memory in the same pairs, as the run was and with the configuration."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The conclusion of a notebook."""

    notebook: str
    verdicts: list[Verdict] = field(default_factory=list)
    arm: str = ""
    """Identity of the baseline."""
    environment: str = ""
    """Identity of the environment that it was measured in."""
    shares: dict[str, Interval] = field(default_factory=dict)
    """The shares of the baseline's phases, 0 to 1, as they were known then."""
    suspects: list[Suspect] = field(default_factory=list)
    """The phases in which the baseline loses time, whatever the cause."""
    courses: list[Course] = field(default_factory=list)
    """The phases in which the baseline's steps become longer or shorter as training goes on."""
    minimum_effect: float = 0.0
    decision: Decision | None = None
    """What the final notebook decided."""
    noise: float | None = None
    """The ratio, 1.08 for 8 %, that the pairs of the A/A comparison could tell from chance."""
    apart: float = 0.0
    """How far the equal arms of that comparison lie apart beyond chance, as a log-ratio."""
    fails: str = ""
    """How the run itself failed after it had trained for a while, as a clause; empty if it did not."""
    unprojected: str = ""
    """The reason why the job is not projected, as a clause; empty if it is."""
    unprofiled: str = ""
    """The reason why the baseline was not profiled, as a clause; empty if it was."""
    beside: dict[str, float] = field(default_factory=dict)
    """The processor time of threads that run Python beside the training, as `ProfileRecord.beside`."""
    epochs_end: str = ""
    """Why epochs end in trials as the program has them, as a clause; empty if they go on without end."""
    first_reads: FirstReads | None = None
    """A wait of the baseline for files that later launches found in memory; None if there is none."""
    rests_on: list[str] = field(default_factory=list)
    """The records whose steps the shares rest on, such as "comparisons/0123456789abcdef"."""
    records: list[str] = field(default_factory=list)
    """All records that there were when the notebook concluded, by folder and name."""
    seconds: float = 0.0
    """The seconds that measuring took; those of the notebook itself are in its NotebookRun."""
    measured_seconds: float = 0.0
    steps: int = 0
    """Optimizer steps trained for the notebook."""
    code: str = ""
    """Identity of the kit's code that judged (`judging_code`); empty in records of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What the audit of reported figures found."""

    answer: str
    """The verdicts on the claims, in sentences."""


def drawn_at_once() -> int:
    """Return how many notebooks draw their reports beside each other on this machine."""
    return min(4, usable_cores())


@dataclass(frozen=True, kw_only=True)
class NotebookRun:
    """The run of a notebook, and its end.

    papermill leaves a notebook that looks complete when its kernel dies. So the status is kept here, and not read from
    the notebook.
    """

    notebook: str
    status: str
    """'ok', 'failed', or 'interrupted' until it has come to its end."""
    reason: str = ""
    report: str = ""
    """The HTML file beside records/, if one was written."""
    determinants: str = ""
    """Identity of all that the run depends on. A run with an equal one need not be repeated."""
    seconds: float = 0.0
    """The seconds that its kernel and its report took, without those in which it measured something itself. Notebooks
    that ran beside each other have equal parts of the time that all took."""
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanRun:
    """What all calls have spent on the plan, the comparisons of all notebooks, or on one notebook beside it."""

    seconds: float = 0.0
    measured_seconds: float = 0.0
    steps: int = 0
