"""A program finds the modules in its trial that it would find by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.launch.probe_entry import LIBRARY, entry
from slowstep_probe import program

ENTER = """
import sys
sys.path.insert(0, {library!r})
from slowstep_probe.program import Program
del sys.path[0]
program = Program(arguments={words!r}, folder={folder!r})
program.enter()
program.find_its_modules()
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


NAMESAKES = """
import logging
program = entered.Program(arguments=["train.py"], folder={folder!r})
program.enter()
program.run()
"""

TRAIN = """
import logging, os, profile, statistics, tracemalloc
print(profile.whose, statistics.whose, tracemalloc.whose, hasattr(os, "whose"), hasattr(logging, "getLogger"))
"""


@pytest.mark.parametrize("place", ["beside", "PYTHONPATH"])
def test_a_module_named_as_a_standard_one_is_found_as_python_finds_it(place: str, tmp_path: Path) -> None:
    """What the kit imports of the standard library hides no `profile.py` beside a program, and finds none of them."""
    for name in ("profile", "statistics", "tracemalloc", "os"):
        (tmp_path / f"{name}.py").write_text("whose = 'own'")
    (tmp_path / "logging").mkdir()
    (program := tmp_path / "program").mkdir()
    folder = tmp_path if place == "beside" else program
    (folder / "train.py").write_text(TRAIN)
    env = os.environ | ({} if place == "beside" else {"PYTHONPATH": f"{tmp_path}{os.pathsep}{LIBRARY}"})
    entered = entry("program").replace("entered.main(sys.argv.pop())", NAMESAKES.format(folder=str(folder)))
    told = subprocess.run([sys.executable, "-c", entered], capture_output=True, text=True, env=env, check=False)

    assert "own own own False True" == told.stdout.strip(), told.stderr


def test_the_list_of_words_is_the_one_that_a_library_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was imported in the warm interpreter may have kept `sys.argv`, and reads the trial's own words there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", held := ["before"])
    monkeypatch.setattr(sys, "orig_argv", [])
    monkeypatch.setenv("PWD", "")
    monkeypatch.setattr(program, "STARTED_IN", [])
    program.Program(arguments=["train.py", "--lr", "1"], folder=str(tmp_path)).enter()

    assert held == sys.argv == ["train.py", "--lr", "1"]


@pytest.mark.parametrize("imports", ["from package.cli import main", "import package.cli as cli", "import re, package"])
def test_the_package_that_a_console_script_starts_is_known(imports: str, tmp_path: Path) -> None:
    """Its lines are the program's own; scripts that a package writes itself import it in their own way."""
    script = tmp_path / "train"
    script.write_text(f"import sys\n{imports}\n\nsys.exit(0)\n")

    assert program.imported_first(str(script)).partition(".")[0] == "package"
