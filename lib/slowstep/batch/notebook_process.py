"""The process of a notebook: started apart, watched, and ended with its whole process tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from slowstep.environment.system_errors import naming, temporary_folder
from slowstep.launch.environment import without_errors
from slowstep_probe.processes.scratch import folder_prefix, remove_abandoned_folders
from slowstep_probe.processes.tree import adopt_orphans, descendants, end_descendants, reap_adopted


class NotebookProcess:
    """A notebook that papermill executes in a process of its own."""

    def __init__(self, notebook: Path, target: Path, parameters: dict[str, object]):
        place = temporary_folder()
        self._scratch = tempfile.TemporaryDirectory(prefix=folder_prefix("run"), dir=place, ignore_cleanup_errors=True)
        scratch = self._scratch.name
        given, self._log = Path(scratch, "parameters.json"), Path(scratch, "log")
        with naming(given):
            given.write_text(json.dumps(parameters), encoding="utf-8")
        command = [sys.executable, "-m", "slowstep.batch.papermill_process", str(notebook), str(target), str(given)]
        command += [str(os.getpid()), scratch]
        # what the notebook's process leaves behind comes to this one, and is ended with the notebook
        adopt_orphans()
        self._others = descendants(os.getpid())
        with self._log.open("w") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # trials keep their checkpoints in temporary folders, which go with this one however they end
                env=os.environ | _environment(scratch),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._child.poll() is None

    def end(self, beside: Collection[int] = ()) -> str:
        """End the process and all that it started; return why it failed, or an empty text.

        The processes `beside`, of other notebooks, go on with all that they started.
        """
        keep = {*self._others, *beside}
        end_descendants(os.getpid(), keep=keep)
        self._child.wait()
        reap_adopted(keep=keep)
        try:
            return self._reason()
        finally:
            self._scratch.cleanup()
            remove_abandoned_folders()

    def _reason(self) -> str:
        if self._child.returncode == 0:
            return ""
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if said:
            return said[-1]
        with naming(self._log), self._log.open("a") as output:  # where the disk is full, that is why it said nothing
            output.write("\n")
        return f"the notebook's process ended with status {self._child.returncode}"


def _environment(scratch: str) -> dict[str, str]:
    """Return environment variables for a notebook's process.

    With them it runs wherever the caller runs: without a home that can be written, or with strict warnings.
    """
    own = {"TMPDIR": scratch, "PYTHONWARNINGS": without_errors(os.environ.get("PYTHONWARNINGS", ""))}
    own |= {name: str(Path(scratch, name.lower())) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return own
