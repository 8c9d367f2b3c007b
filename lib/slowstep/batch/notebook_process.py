"""The process of a notebook: forked from an interpreter that has made the imports, watched, and ended for sure."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from slowstep.environment.system_errors import temporary_folder
from slowstep.launch.environment import without_errors
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.warm_interpreter import NotStarted, WarmInterpreter, of_the_kit, own_path, warm
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.log import last_line
from slowstep_probe.processes.scratch import folder_prefix, remove_abandoned_folders

EXECUTE = "slowstep.batch.execute_notebook:main"
"""What the process of a notebook runs."""

IMPORTED = (
    "slowstep.batch.execute_notebook",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "plotly.graph_objs._figure",
    *(f"plotly.graph_objs._{trace}" for trace in ("bar", "scatter", "heatmap")),
    "slowstep.report",
    "slowstep.final.files",
)
"""The modules that notebooks and their kernels need."""

LAST_SECONDS = 5.0
"""The seconds that a process may take to end after its last words."""


def notebook_interpreter() -> WarmInterpreter:
    """Return the interpreter that notebooks are forked from. It makes its imports while the caller goes on."""
    return warm(of_the_kit(IMPORTED, os.environ | _mild_warnings()))


class NotebookProcess:
    """A notebook that papermill executes in a process of its own."""

    def __init__(self, notebook: Path, target: Path, parameters: dict[str, object]):
        place = temporary_folder()
        self._scratch = tempfile.TemporaryDirectory(prefix=folder_prefix("run"), dir=place, ignore_cleanup_errors=True)
        self._log = Path(self._scratch.name, "log")
        arguments = [str(notebook), str(target), parameters, _environment(self._scratch.name)]
        order = Order(target=EXECUTE, arguments=arguments, path=own_path(), log=str(self._log))
        self._guarded, self._failed = None, ""
        try:
            self._guarded = Guarded(notebook_interpreter(), order)
        except NotStarted as why:
            self._failed = f"it could not be started: {why}"

    @property
    def alive(self) -> bool:
        """True until the notebook has run to its end, or its process is gone."""
        return self._guarded is not None and not self._guarded.has_spoken

    def end(self) -> str:
        """End the process and all that it started; return why it failed, or an empty text."""
        try:
            return self._guarded.receive(0.0).value if self._guarded else self._failed
        except TimeoutError:
            return "the notebook was ended"
        except EOFError:
            code = self._guarded.end(grace=LAST_SECONDS).code
            return last_line(self._log) or f"the notebook's process ended with status {code}"
        finally:
            if self._guarded:
                self._guarded.end()
            self._scratch.cleanup()
            remove_abandoned_folders()


def _environment(scratch: str) -> dict[str, str]:
    """Return the environment variables of a notebook's process.

    With them it runs wherever the caller runs: without a home that can be written, or with strict warnings.
    """
    own = _mild_warnings() | {"TMPDIR": scratch}
    own |= {name: str(Path(scratch, name.lower())) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return dict(os.environ) | own


def _mild_warnings() -> dict[str, str]:
    """Return the variable by which no library's warning is an error."""
    return {"PYTHONWARNINGS": without_errors(os.environ.get("PYTHONWARNINGS", ""))}
