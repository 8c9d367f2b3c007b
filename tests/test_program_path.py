"""A program finds the modules in its trial that it would find by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.launch.probe_entry import LIBRARY

ENTER = """
import sys
sys.path.insert(0, {library!r})
from slowstep_probe.program import Program
del sys.path[0]
Program(arguments={words!r}, folder={folder!r}).enter()
try:
    import beside
except ImportError:
    print("not found")
"""


@pytest.mark.parametrize("words", [["train.py"], ["-m", "train"]])
@pytest.mark.parametrize(
    ("options", "env", "found"),
    [
        ([], {}, "found"),
        (["-P"], {}, "not found"),
        (["-I"], {}, "not found"),
        ([], {"PYTHONSAFEPATH": "1"}, "not found"),
    ],
)
def test_modules_beside_a_program_are_found_as_python_finds_them(
    words: list[str], options: list[str], env: dict[str, str], found: str, tmp_path: Path
) -> None:
    """Not where -P, -I or PYTHONSAFEPATH forbid it: a module there could stand in for an installed one."""
    (tmp_path / "beside.py").write_text("print('found')")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    entered = ENTER.format(library=str(LIBRARY), words=words, folder=str(tmp_path))
    told = subprocess.run(
        [sys.executable, *options, "-c", entered],
        cwd=elsewhere,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found == told.stdout.strip(), told.stderr
