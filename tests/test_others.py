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
from slowstep_probe.processes.own_signals import can_keep_signals
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
    by_shell = 'os.system(f"kill -9 {number}")\n' if can_keep_signals() else ""
    (tmp_path / "train.py").write_text(STOPS_THE_LAST_RUN + by_shell + PLAIN.read_text())
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)

    assert seen.training
    assert last_run.status() != psutil.STATUS_ZOMBIE


STOPS_BY_OTHERS = """
import os, signal, subprocess, sys
number = int(sys.argv[1])
from slowstep_probe.processes.own_signals import keep_signals
assert keep_signals()
def own():
    return subprocess.Popen(["sleep", "600"])
subprocess.run(["sh", "-c", f"kill -9 {number}; pkill -9 -P {os.getppid()} sleep"])
try:
    signal.pidfd_send_signal(os.pidfd_open(number), signal.SIGKILL)
except PermissionError:
    print("not permitted")
try:
    os.listdir(f"/proc/{number}/root")  # what lies there is under no overlay
except PermissionError:
    print("not seen")
subprocess.run(["kill", "-9", str((one := own()).pid)], check=True)
assert one.wait() == -signal.SIGKILL
(one := own()).terminate()
assert one.wait() == -signal.SIGTERM
"""


@pytest.mark.skipif(not can_keep_signals(), reason="this Linux is older than 6.12, or has no Landlock")
def test_what_a_program_starts_can_signal_nobody_else() -> None:
    """A shell that kills, `pkill` and a system call reach what the program itself has started, and nobody else."""
    own = subprocess.Popen(["sleep", "600"])
    words = [sys.executable, "-c", STOPS_BY_OTHERS, str(own.pid)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lives = own.poll() is None
    own.kill()
    own.wait()

    assert (0, "not permitted\nnot seen\n") == (done.returncode, done.stdout), done.stderr
    assert lives


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
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(os.pidfd_open(first), 0)
        signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)
        left = subprocess.Popen(["sh", "-c", "sleep 600 & exit"], start_new_session=True)
        left.wait()
        os.killpg(left.pid, signal.SIGKILL)  # its leader has ended, and what it started lives
        os.waitpid(-left.pid, 0)
    finally:
        patches.remove()
    assert own.wait() == -signal.SIGKILL
    assert os.kill.__module__ == "posix"
