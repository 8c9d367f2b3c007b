"""The process of a notebook: started apart, watched, and ended with its whole process tree."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from slowstep.environment.system_errors import naming, temporary_folder
from slowstep.launch.environment import without_errors
from slowstep.measure.progress import VARIABLE, Progress, from_file
from slowstep_probe.processes.scratch import folder_prefix, remove_abandoned_folders
from slowstep_probe.processes.tree import POLL_SECONDS, adopt_orphans, descendants, end_descendants, reap_adopted


def execute(
    notebook: Path, target: Path, parameters: dict[str, object], tell: Callable[[str, Progress | None], None]
) -> str:
    """Execute a notebook with papermill in a process of its own; return why it failed, or an empty text."""
    place = temporary_folder()
    with tempfile.TemporaryDirectory(prefix=folder_prefix("run"), dir=place, ignore_cleanup_errors=True) as scratch:
        progress, given, log = (Path(scratch) / n for n in ("progress.json", "parameters.json", "log"))
        with naming(given):
            given.write_text(json.dumps(parameters), encoding="utf-8")
        command = [sys.executable, "-m", "slowstep.batch.papermill_process", str(notebook), str(target), str(given)]
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
    """Return environment variables for a notebook's process.

    With them it runs wherever the caller runs: without a home that can be written, or with strict warnings.
    """
    own = {"TMPDIR": scratch, "PYTHONWARNINGS": without_errors(os.environ.get("PYTHONWARNINGS", ""))}
    own |= {name: str(Path(scratch, name.lower())) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return own
