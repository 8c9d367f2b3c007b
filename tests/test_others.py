"""A survey and a trial leave other processes of the machine alone, whatever the program would stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slowstep.command.resolve import resolve
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep_probe.patches import Patches
from slowstep_probe.processes import others
from slowstep_probe.processes.tree import adopt_orphans

PLAIN = Path(__file__).parent / "programs" / "plain_loop.py"

STOPS_THE_LAST_RUN = """
import os, signal
from pathlib import Path
number = int(Path("last.pid").read_text())
try:
    os.kill(number, signal.SIGTERM)
    print("stopped it")
except ProcessLookupError:
    print("there is none")
"""


@pytest.fixture
def last_run() -> Iterator[psutil.Process]:
    """A process that nobody here has started any more, in a session of its own."""
    words = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    number = subprocess.run(words, start_new_session=True, capture_output=True, check=True).stdout
    yield (one := psutil.Process(int(number)))
    one.kill()


def test_a_program_that_stops_the_run_before_it_stops_none(last_run: psutil.Process, tmp_path: Path) -> None:
    (tmp_path / "last.pid").write_text(str(last_run.pid))
    (tmp_path / "train.py").write_text(STOPS_THE_LAST_RUN + PLAIN.read_text())
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)

    assert seen.training
    assert last_run.status() != psutil.STATUS_ZOMBIE


def test_a_program_signals_its_own_processes_alone() -> None:
    """By number and by group; what is not its own is not there, and nothing is sent to all."""
    patches, first = Patches(), 1
    adopt_orphans()  # as the guard of a trial does
    others.attach(patches)
    try:
        own = subprocess.Popen(["sleep", "600"], start_new_session=True)
        os.kill(own.pid, signal.SIGSTOP)
        os.killpg(own.pid, signal.SIGKILL)
        for number in (os.getpid(), os.getppid(), 0):
            os.kill(number, 0)
        for number, told in ((first, 0), (first, signal.SIGCONT), (-1, 0), (os.getppid(), signal.SIGCONT)):
            with pytest.raises(ProcessLookupError):
                os.kill(number, told)
        with pytest.raises(ProcessLookupError):
            os.killpg(first, 0)
        left = subprocess.Popen(["sh", "-c", "sleep 600 & exit"], start_new_session=True)
        left.wait()
        os.killpg(left.pid, signal.SIGKILL)  # its leader has ended, and what it started lives
        os.waitpid(-left.pid, 0)
    finally:
        patches.remove()
    assert own.wait() == -signal.SIGKILL
    assert os.kill.__module__ == "posix"
