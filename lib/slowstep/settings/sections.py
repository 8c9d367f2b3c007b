"""The table of the parts of an investigation: its notebooks, and the sections of a parameter file that they test.

A factor stands in the catalogue under its section (`slowstep.factors.catalogue.<section>`). A parameter file lists its
levels there, or in any other section. To add a notebook, add its line here and the notebook to notebooks/.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Section:
    """A notebook, and the section of the parameter file whose levels it tests, if it tests any."""

    notebook: str
    title: str
    name: str = ""
    """The section's name; empty for a notebook that tests no levels."""
    crossed: tuple[str, ...] = ()
    """Factors that are also tried in combination, because they compete for the same memory or time."""
    catalogued: bool = True
    """True if the section lists levels of factors of the catalogue."""
    searches_batch: bool = False
    """True if the batch size that is worth having is searched for beside the levels."""
    asks_about: frozenset[str] = frozenset()
    """The phases beside passes and updates that its question is about, whichever of its factors can be tried."""


BASELINE = Section(notebook="00_baseline", title="Baseline")
"""The notebook that says where the time goes."""

FINAL = Section(notebook="90_final_config", title="Final configuration")
"""The notebook that says what to change."""

AUDIT = Section(notebook="95_reported_figures", title="Reported figures")
"""The notebook that checks reported figures, and trains nothing."""

OWN = "arguments"
"""The section with the levels of a command's own options; those of its configuration files go with them (`files`)."""

TESTED = (
    Section(
        notebook="10_data_loading",
        title="Data loading",
        name="data_loading",
        asks_about=frozenset({"data", "host_to_device"}),
    ),
    Section(
        notebook="20_gradient_checkpointing",
        title="Gradient checkpointing and batch size",
        name="gradient_checkpointing",
        crossed=("gradient_checkpointing", "per_device_train_batch_size"),
        searches_batch=True,
    ),
    Section(
        notebook="30_sequence_length",
        title="Sequence length",
        name="sequence_length",
        crossed=("max_length", "per_device_train_batch_size"),
    ),
    Section(notebook="40_compute", title="Compute", name="compute"),
    Section(
        notebook="50_overheads",
        title="Overheads",
        name="overheads",
        asks_about=frozenset({"log", "save", "evaluate", "other"}),
    ),
    Section(notebook="55_own_options", title="The command's own options", name=OWN, catalogued=False),
    Section(
        notebook="60_processes",
        title="Several processes",
        name="parallelism",
        asks_about=frozenset({"communication"}),
    ),
)
"""The notebooks that test levels, in the order in which they run."""

SECTIONS = (BASELINE, *TESTED, FINAL, AUDIT)
"""All notebooks, in the order in which they run."""

LEVEL_SECTIONS = tuple(section.name for section in TESTED if section.catalogued)
"""The sections of a parameter file that list levels of the catalogue's factors."""

TESTED_SECTIONS = tuple(section.name for section in TESTED)
"""All sections of a parameter file that list levels."""

CROSSED = {section.name: section.crossed for section in TESTED}
"""The factors that are tried in combination, by section."""
