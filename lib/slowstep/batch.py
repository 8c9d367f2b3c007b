"""Investigations in batch: every notebook over a parameter file, whatever fails, from where it stopped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slowstep import __version__
from slowstep.investigation import ROOT
from slowstep.judgement.devices import Peak
from slowstep.judgement.timeline import contradicted, timeline
from slowstep.judgement.verdict import Outcome
from slowstep.machine import this_machine, versions
from slowstep.processes import POLL_SECONDS, adopt_orphans, end_descendants, locked, reap_adopted
from slowstep.processes.scratch import folder_prefix, remove_abandoned_files, remove_abandoned_folders
from slowstep.processes.tree import descendants
from slowstep.records import (
    ComparisonRecord,
    EventRecord,
    ObservationRecord,
    ProfileRecord,
    Status,
    Store,
    identity,
    steps_of_arm,
)
from slowstep.report.html import render
from slowstep.settings import Loaded, Settings
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import content_of
from slowstep.summary import NotebookRun, Summary
from slowstep.system import naming, temporary_folder
from slowstep.trials.progress import VARIABLE, Progress, from_file
from slowstep.trials.server import without_errors

NOTEBOOKS = ROOT / "notebooks"
Teller = Callable[[str, Progress | None], None]


FIRST = "00_baseline"
"""The notebook that says where the time goes."""

LAST = "90_final_config"
"""The notebook that says what to change."""

AUDIT = "95_reported_figures"
"""The notebook that needs figures to be reported, and nothing to be trained."""


def notebooks(settings: Settings | None = None) -> list[Path]:
    """The kit's notebooks in their order; if `settings` are given, those that run over them."""
    every = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    return [n for n in every if settings is None or settings.reported or n.stem != AUDIT]


def diagnose(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> list[NotebookRun]:
    """Run every notebook over one parameter file; one that fails does not stop the others."""
    folder = outputs / loaded.settings.name
    with locked(folder):
        _tidy(folder)
        _forget_failures(Store(folder / "records"))
        for line in unusable_records(folder):
            tell(line, None)
        runs = {n.stem: _run(n, loaded, overrides, outputs, tell) for n in notebooks(loaded.settings)}
        moved = contradictions(folder)
        if moved:
            tell(
                f"{FIRST}: drawn again, since later steps of the baseline show another share of {', '.join(moved)}",
                None,
            )
            for name in (FIRST, *_by_bound(folder)):
                runs[name] = _run(NOTEBOOKS / f"{name}.ipynb", loaded, overrides, outputs, tell, again=True)
        return list(runs.values())


def _by_bound(folder: Path) -> list[str]:
    """The notebooks that refuted something by shares that are contradicted now, and the last, which sums up."""
    every = Store(folder / "records").every(Summary, "summaries")
    refuted = [
        s.notebook
        for s in every
        if any(v.outcome is Outcome.REFUTED and not v.effect and v.bound and v.bound.evidence for v in s.verdicts)
    ]
    return [n for n in dict.fromkeys([*refuted, LAST]) if refuted and n != FIRST]


def contradictions(folder: Path) -> list[str]:
    """The phases of which the first notebook said what later steps of the baseline contradict."""
    store = Store(folder / "records")
    said = store.read(Summary, "summaries", FIRST)
    if said is None:
        return []
    return contradicted(said.shares, timeline(steps_of_arm(store, said.arm, to_plain(this_machine()), versions())))


def audit(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> NotebookRun:
    """Run the notebook that audits reported figures, and no other."""
    folder = outputs / loaded.settings.name
    with locked(folder):
        _tidy(folder)
        return _run(NOTEBOOKS / f"{AUDIT}.ipynb", loaded, overrides, outputs, tell)


RECORDS = {
    "comparisons": ComparisonRecord,
    "observations": ObservationRecord,
    "events": EventRecord,
    "profiles": ProfileRecord,
    "ceilings": Peak,
    "summaries": Summary,
    "notebooks": NotebookRun,
}
"""The kinds of records that an investigation keeps."""


def unusable_records(folder: Path) -> list[str]:
    """A line for each record of an investigation that can't be used; what it held is measured again where it is
    needed, and the file then kept beside the new one."""
    store = Store(folder / "records")
    for kind, record_type in RECORDS.items():
        for path in sorted((store.folder / kind).glob("*.json")):
            store.read(record_type, kind, path.stem)
    return [
        f"{path}: can't be used: {why}; it counts as absent, and is measured again where it is needed"
        for path, why in store.unusable.items()
    ]


def _tidy(folder: Path) -> None:
    """Remove what earlier runs left that were killed: their temporary folders, and files they had half written."""
    remove_abandoned_folders()
    remove_abandoned_files(folder)


def _forget_failures(store: Store) -> None:
    """Drop the comparisons in which a trial crashed or hung or the baseline failed, and observations that failed: the
    next run tries them again."""
    for path in (store.folder / "observations").glob("*.json"):
        seen = store.read(ObservationRecord, "observations", path.stem)
        if seen and seen.trial.status is not Status.OK:
            store.drop("observations", path.stem)
    for path in (store.folder / "comparisons").glob("*.json"):
        record = store.read(ComparisonRecord, "comparisons", path.stem)
        again = (Status.CRASHED, Status.TIMED_OUT)
        if record and (record.baseline.status is not Status.OK or record.treatment.status in again):
            path.unlink()


def _run(
    notebook: Path, loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller, again: bool = False
) -> NotebookRun:
    """Run one notebook, unless it is up to date; `again` does it even so."""
    name, folder = notebook.stem, outputs / loaded.settings.name
    store = Store(folder / "records")
    depends = identity(
        loaded.settings,
        loaded.settings.local_content(),
        content_of(loaded.settings.reported.files if loaded.settings.reported else ()),
        notebook.read_text(encoding="utf-8"),
        __version__,
        this_machine(),
        versions(),
        _sources(),
    )
    done = store.read(NotebookRun, "notebooks", name)
    if not again and done and done.status == "ok" and done.determinants == depends and (folder / done.report).is_file():
        tell(f"{name}: up to date", None)
        return done
    began = time.monotonic()
    store.drop("summaries", name)  # of an earlier run, with other settings perhaps
    run = NotebookRun(notebook=name, status="interrupted", determinants=depends, machine=str(this_machine()))
    store.write(run, "notebooks", name)
    executed = folder / f"{name}.ipynb"
    reason = _execute(notebook, executed, _parameters(loaded, overrides, outputs), tell)
    summary = store.read(Summary, "summaries", name)
    run = replace(
        run,
        status="failed" if reason else "ok",
        reason=reason,
        measured_seconds=summary.measured_seconds if summary and not reason else 0.0,
    )
    try:
        render(executed, folder / f"{name}.html", f"{loaded.settings.name}: {_title(notebook)}", reason)
        run = replace(run, report=f"{name}.html")
    except Exception as error:  # a report that can't be drawn must not cost the others theirs
        run = replace(run, status="failed", reason=run.reason or f"its report can't be drawn: {error}")
    run = replace(run, seconds=time.monotonic() - began)
    store.write(run, "notebooks", name)
    tell(f"{name}: {run.status} after {run.seconds:.0f} s" + (f": {run.reason}" if run.reason else ""), None)
    return run


def _execute(notebook: Path, target: Path, parameters: dict[str, object], tell: Teller) -> str:
    """Execute with papermill in a process of its own; returns why it failed, or nothing."""
    place = temporary_folder()
    with tempfile.TemporaryDirectory(prefix=folder_prefix("run"), dir=place, ignore_cleanup_errors=True) as scratch:
        progress, given, log = (Path(scratch) / n for n in ("progress.json", "parameters.json", "log"))
        with naming(given):
            given.write_text(json.dumps(parameters), encoding="utf-8")
        command = [sys.executable, "-m", "slowstep.papermill_run", str(notebook), str(target), str(given)]
        command += [str(os.getpid()), scratch]
        # what the notebook's process leaves behind comes to this one, and is ended with the notebook
        adopt_orphans()
        others = descendants(os.getpid())
        with log.open("w") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # trials keep their checkpoints in temporary folders, which go with this one however they end
                env=os.environ | _environment(scratch) | {VARIABLE: str(progress)},
                start_new_session=True,
            )
        try:
            while child.poll() is None:
                tell(notebook.stem, from_file(progress))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(POLL_SECONDS)
        finally:
            end_descendants(os.getpid(), keep=others)
            child.wait()
            reap_adopted(keep=others)
            remove_abandoned_folders()
        if child.returncode == 0:
            return ""
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if said:
            return said[-1]
        with naming(log), log.open("a") as output:  # where the disk is full, that is why it said nothing
            output.write("\n")
        return f"the notebook's process ended with status {child.returncode}"


def _environment(scratch: str) -> dict[str, str]:
    """What a notebook's process needs to run wherever the caller does: no home that can be written, strict warnings."""
    own = {"TMPDIR": scratch, "PYTHONWARNINGS": without_errors(os.environ.get("PYTHONWARNINGS", ""))}
    own |= {name: str(Path(scratch, name.lower())) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return own


def _parameters(loaded: Loaded, overrides: Sequence[str], outputs: Path) -> dict[str, object]:
    path = str(Path(loaded.source).resolve())
    return {"params": path, "overrides": list(overrides), "outputs": str(outputs.resolve())}


def _sources() -> str:
    """The library's own code, as a name: changed code runs its notebooks again, on records that still stand."""
    files = sorted(Path(__file__).parent.rglob("*"))
    return identity([p.read_bytes().hex() for p in files if p.suffix in (".py", ".j2", ".css")])


def _title(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
