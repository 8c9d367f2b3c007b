"""Execute one notebook with papermill, in a process of its own, and answer why it failed.

papermill writes a dead kernel's notebook as if it were complete. Here every failure is answered in words.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slowstep.environment.imports import without_address_grammar

without_address_grammar()

import nbformat  # noqa: E402
import papermill  # noqa: E402
from papermill.exceptions import PapermillExecutionError  # noqa: E402
from traitlets.config import Config  # noqa: E402

from slowstep.batch.forked_kernel import fork_kernel, is_default, private_sockets  # noqa: E402
from slowstep.environment.system_errors import explained  # noqa: E402
from slowstep.settings.load import shown_override  # noqa: E402
from slowstep_probe.processes.wire import Wire  # noqa: E402
from slowstep_probe.trial.messages import Answer, encoded  # noqa: E402


def main(connection: Wire, notebook: str, target: str, parameters: dict[str, Any], environment: dict[str, str]) -> None:
    """Run `notebook` to `target` with `parameters`; answer an empty text if every cell ran, else why it failed."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # what it is told by the new environment
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with is_default(fork_kernel()), private_sockets() as sockets:
        connection.send(encoded(Answer(value=execute(notebook, target, parameters, sockets))))


def execute(notebook: str, target: str, parameters: dict[str, Any], settings: Config) -> str:
    """Run a notebook by a kernel with such settings, and return why it failed; an empty text if it did not."""
    try:
        papermill.execute_notebook(
            *(notebook, target, parameters),
            kernel_name="python3",
            progress_bar=False,
            autosave_cell_every=0,
            config=settings,
        )
    except PapermillExecutionError as error:
        is_sentence = error.traceback == error.evalue.splitlines()  # as a `Sentence` of slowstep.settings.errors shows
        said = error.evalue if is_sentence else f"{error.ename}: {error.evalue}"
        return " ".join(said.split())
    except OSError as error:
        with_path = error if error.filename else OSError(error.errno, error.strerror, target)
        return f"the notebook could not be run to its end: {explained(with_path)}"
    except BaseException as error:
        return " ".join(f"the notebook's kernel could not go on: {type(error).__name__}: {error}".split())
    finally:
        _hide_secrets(Path(target), parameters.get("overrides", []))
    return ""


def _hide_secrets(notebook: Path, overrides: Sequence[str]) -> None:
    """Put `***` in place of secrets that stand among the parameters of an executed notebook, which is shared."""
    shown = [shown_override(text) for text in overrides]
    if shown == list(overrides) or not notebook.is_file():
        return
    whole = nbformat.read(notebook, as_version=4)
    for cell in whole.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = "\n".join(
                f"overrides = {shown!r}" if line.startswith("overrides = ") else line
                for line in cell.source.split("\n")
            )
    whole.metadata.papermill.parameters["overrides"] = shown
    nbformat.write(whole, notebook)
