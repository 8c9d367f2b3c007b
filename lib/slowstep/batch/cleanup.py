"""The records of an investigation before it goes on: those that can't be used, and those of what is tried again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from slowstep.factors import Arm
from slowstep.investigation.opening import DESCRIPTION, Description
from slowstep.investigation.record_specs import UNFINISHED
from slowstep.investigation.results import NotebookRun, PlanRun, Summary
from slowstep.judgement.devices import Peak
from slowstep.records import ComparisonRecord, EventRecord, ObservationRecord, ProfileRecord, Status, Store, identity
from slowstep.settings import Settings
from slowstep.settings.sections import FINAL, SECTIONS, Section

RECORDS = {
    "comparisons": ComparisonRecord,
    UNFINISHED: ComparisonRecord,
    "observations": ObservationRecord,
    "events": EventRecord,
    "profiles": ProfileRecord,
    "peaks": Peak,
    "summaries": Summary,
    "notebooks": NotebookRun,
    "plans": PlanRun,
    "spent": PlanRun,
    "investigation": Description,
}
"""The kinds of records that an investigation keeps, by their folders."""


def unusable_records(folder: Path) -> list[str]:
    """Return a line for each record of an investigation that can't be used.

    Such a record is measured again where it is needed. The file is then kept beside the new one.
    """
    store = Store(folder / "records")
    for kind, record_type in RECORDS.items():
        for path in sorted((store.folder / kind).glob("*.json")):
            store.read(record_type, kind, path.stem)
    return [
        f"{path}: can't be used: {why}; it counts as absent, and is measured again where it is needed"
        for path, why in store.unusable.items()
    ]


def forget_unfinished(store: Store, minutes: float | None) -> bool:
    """Drop what a run of so many `minutes` (None: without end) measures again, and return whether there was any.

    These are failures, which are tried again: comparisons in which a trial crashed or hung or the baseline failed, and
    observations and profiles that failed. Out of memory is a result and stays. It also drops what the end of fewer
    minutes left undecided: comparisons go on from there, and the rest is measured anew.
    """

    def cut(record: ComparisonRecord | ObservationRecord | EventRecord) -> bool:
        return record.cut_within is not None and (minutes is None or record.cut_within < minutes)

    again = {
        "observations": (ObservationRecord, lambda seen: seen.trial.status is not Status.OK or cut(seen)),
        "events": (EventRecord, cut),
        "profiles": (ProfileRecord, lambda profile: bool(profile.failed)),
        "comparisons": (ComparisonRecord, lambda record: _failed(record) or cut(record)),
    }
    found = [
        (kind, path.stem, record)
        for kind, (record_type, unfinished) in again.items()
        for path in (store.folder / kind).glob("*.json")
        if (record := store.read(record_type, kind, path.stem)) is not None and unfinished(record)
    ]
    for kind, name, record in found:
        if isinstance(record, ComparisonRecord) and _goes_on(record):
            store.write(record, UNFINISHED, name)
        store.drop(kind, name)
    return bool(found)


def forget_all_but(asked: Collection[Section], store: Store) -> list[Section]:
    """Drop what an earlier run concluded for sections that are asked nothing any more, and return those sections."""
    gone = [section for section in SECTIONS if section not in asked]
    for section in gone:
        store.drop("summaries", section.notebook)
        store.drop("notebooks", section.notebook)
    return gone


def forget_other_runs(settings: Settings, store: Store) -> list[str]:
    """Drop what was concluded of another baseline than that of `settings`, or of other files, and the choice made for
    other settings; return the names of those notebooks.

    The records of what was measured stay.
    """
    known, arm = store.read(Description, *DESCRIPTION), identity(Arm(label="", settings=settings).determinants())
    same = known is not None and known.settings == settings
    edited = known is not None and known.environment.files != settings.local_content()
    found = {name: store.read(Summary, "summaries", name) for name in store.names("summaries")}
    others = [
        name
        for name, one in found.items()
        if one is not None and (edited or one.arm != arm or (name == FINAL.notebook and not same))
    ]
    for name in others:
        store.drop("summaries", name)
    return others


def _goes_on(record: ComparisonRecord) -> bool:
    """Return whether later pairs may stand beside those of a comparison: both of this machine, and no trial failed.

    Of a cluster, another node may measure the later ones (docs/method.md).
    """
    return not record.node and all(arm.status is Status.OK for arm in (record.baseline, record.treatment))


def _failed(record: ComparisonRecord) -> bool:
    again = (Status.CRASHED, Status.TIMED_OUT, Status.ENDED)
    return record.baseline.status is not Status.OK or record.treatment.status in again
