"""The process of a notebook: it runs no code that lies about, and nobody else can listen to it."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

RUN = """
import sys, time
from pathlib import Path
from slowstep.batch.notebook_process import NotebookProcess
process = NotebookProcess(Path(sys.argv[1]), Path(sys.argv[2]), {})
while process.alive:
    time.sleep(0.05)
print(process.end())
"""
"""Runs a notebook as reports are drawn, and prints why it failed."""

CELL = """
import json, sys
from pathlib import Path
file = Path(get_ipython().config.IPKernelApp.connection_file)
told = {"path": sys.path, "transport": json.loads(file.read_text())["transport"], "rights": file.parent.stat().st_mode}
told["sockets"] = len([path for path in file.parent.iterdir() if path.is_socket()])
Path("told.json").write_text(json.dumps(told))
"""


@dataclass(frozen=True)
class Ran:
    """A notebook that ran in a folder with a file of each name that is installed."""

    said: str
    """Why it failed, and what went wrong."""
    told: dict[str, Any]
    """What its cell found."""
    imported: bool
    """True if any of the files ran."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    tmp_path = tmp_path_factory.mktemp("notebook")
    (folder := tmp_path / "sent").mkdir()
    names = {path.name.partition(".")[0] for place in site.getsitepackages() for path in Path(place).iterdir()}
    for name in names:
        (folder / f"{name}.py").write_text(f"open('ran.txt', 'a').write('{name}')\nraise RuntimeError('{name}')")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbformat.write(notebook, tmp_path / "x.ipynb")
    words = [sys.executable, "-P", "-c", RUN, str(tmp_path / "x.ipynb"), str(tmp_path / "done.ipynb")]
    done = subprocess.run(words, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    told = folder / "told.json"
    assert told.is_file(), done.stdout + done.stderr
    return Ran(done.stdout + done.stderr, json.loads(told.read_text()), (folder / "ran.txt").exists())


def test_a_notebook_imports_nothing_that_lies_about(ran: Ran) -> None:
    """Drawing a report in a folder that was sent runs none of the files in it, whatever they are called."""
    assert ran.said == "\n"
    assert not ran.imported
    assert "" not in ran.told["path"]


def test_what_a_notebook_says_is_its_users(ran: Ran) -> None:
    """Its kernel's five channels are files in a folder that nobody else may enter. Of a port all users could read."""
    assert ran.told["transport"] == "ipc"
    assert ran.told["sockets"] == 5
    assert ran.told["rights"] & 0o077 == 0
