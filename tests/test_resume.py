"""Killed at any moment and started again, an investigation goes on where it stopped."""

import json

from slowstep.investigation.results import NotebookRun
from slowstep.records import Store


def test_a_killed_run_leaves_no_process(interrupted):
    """SIGKILL of the run ends everything it had started: notebook, kernel, interpreter, trials and their workers."""
    assert len(interrupted.family) >= 4
    assert interrupted.survivors == []


def test_a_killed_run_leaves_whole_records(interrupted):
    """What lies on disk after the kill is complete and readable."""
    assert len(interrupted.kept) >= 2
    assert all(json.loads(text)["record"]["pairs"] for text, _ in interrupted.kept.values())


def test_finished_comparisons_are_kept_and_the_run_ends(interrupted):
    """Started again, the run leaves finished comparisons untouched and finishes every notebook."""
    store = Store(interrupted.outputs / "smoke" / "records")
    runs = [store.read(NotebookRun, "notebooks", p.stem) for p in (interrupted.outputs / "smoke").glob("*.ipynb")]

    assert interrupted.status == 0
    assert {path: path.stat().st_mtime_ns for path in interrupted.kept} == {
        path: changed for path, (_, changed) in interrupted.kept.items()
    }
    assert {run.status for run in runs} == {"ok"}
