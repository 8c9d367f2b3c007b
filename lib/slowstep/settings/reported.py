"""The `reported` section: figures of runs that somebody measured, and what was concluded from them.

Figures keep the digits they were written with, so they may be texts (`"0.690"`, `"600K"`, `"20-24"`, `"~1.8"`). Their
names say what they mean and hold the unit. A list of figures is the same thing, measured several times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MICRO_BATCH = "micro-batch"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is told of one run beside its settings and its figures."""

    label: str
    projected: bool = False
    """True if the figures are an expectation and not a measurement."""
    out_of_memory: bool = False
    """True if the run ended out of memory: a result without a speed."""
    unread: list[str] = field(default_factory=list)
    """Columns of its table whose numbers could not be read."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Cells of its table that may say how it was made and were not read, by column."""
    beside: dict[str, float] = field(default_factory=dict)
    """Numbers of its table that were not read, by column: what a ratio may be to."""
    remarks: list[str] = field(default_factory=list)
    """Words of its table that differ between repeats of one measurement, such as notes."""
    rests_on: dict[str, float] = field(default_factory=dict)
    """The `steps` and the `seconds` that its pace rests on, and the steps that were `planned`, as far as its file says
    them."""
    with_spread: bool = False
    """True if a spread, or how often it was measured, stands beside one of its figures (`2.1 ± 0.05`, `n=3`)."""
    without_padding: bool = False
    """True if its tokens count no padding, as the header of their column says."""
    bases: list[str] = field(default_factory=list)
    """Ratios to another row that its table does not state for it (`baseline`, `-`), as for the row that they are to."""
    questions: list[str] = field(default_factory=list)
    """Questions that its reading left open, without their subject: `its lines say samples/s twice, ...`."""
    of_table: list[str] = field(default_factory=list)
    """Questions about the table whose first row it is."""
    prose: list[str] = field(default_factory=list)
    """Sizes that the text beside the table claims whose first row it is."""
    step_word: str = ""
    """What its file calls a step that may be a micro-batch, `it` or `batch`; MICRO_BATCH where it is one."""


@dataclass(frozen=True, kw_only=True)
class Row(Told):
    """One run: what differs from the file's own settings, its figures by name, and its phases in seconds a step."""

    settings: dict[str, object] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)
    phases: dict[str, object] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Names that stand in its table and are no runs, each with why."""
    place: str = ""
    """The place where it was read, for messages; empty for a row of the parameter file."""
    of_head: list[str] = field(default_factory=list)
    """The settings that the head of its log states, also those that it states to be off."""
    cells: dict[str, str] = field(default_factory=dict)
    """The line and column where each of its settings was read, by setting."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A conclusion about two rows: the treatment is so many times as fast as the baseline, because of a factor."""

    text: str
    baseline: str
    treatment: str
    factor: str | None = None
    speed_up: object = None
    """The claimed ratio of speeds: 3 times slower is "1/3", and just faster is ">1"; a range is a text."""
    quantity: str | None = None
    """The figure that the claim is read from."""


@dataclass(frozen=True, kw_only=True)
class Sum:
    """Parts that are said to make a total."""

    text: str
    total: object
    parts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Percentage:
    """A change that is said to be so many percent."""

    text: str
    percent: object
    before: object
    after: object
    quantity: str | None = None
    """The figure that changed. If that figure of a row proves wrong, so does the percentage."""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A whole report."""

    source: str = ""
    device: str | None = None
    """The device's name from its driver, to look up its peak."""
    table: str | None = None
    """A table as text, in Markdown or CSV."""
    columns: dict[str, str] = field(default_factory=dict)
    """The meaning of headers that don't say it: `Speed: s/it`."""
    files: list[str] = field(default_factory=list)
    """Tables (.csv, .md, .json, .jsonl), trainer_state.json, console logs (.log, .txt), exports of MLflow or W&B."""
    ignored: dict[str, object] = field(default_factory=dict)
    """Settings of the real run that a trial can't have: `storage: a network disk`."""
    rows: list[Row] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    percentages: list[Percentage] = field(default_factory=list)
