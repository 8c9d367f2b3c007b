"""What stands still while it is measured, with the process that measures it, is seen and does not count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

WATCHES = """
import sys, time
from slowstep.measure import stood_still
with stood_still.watched() as watch:
    print("watching", flush=True)
    sys.stdin.readline()
print(watch.why)
"""


def _said(pause: float) -> str:
    """What is said of a stretch of a second in which the process is stopped for `pause` seconds."""
    words = [sys.executable, "-c", WATCHES]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(0.5)
        if pause:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(pause)
            os.kill(process.pid, signal.SIGCONT)
        return process.communicate("on\n")[0].strip()


def test_a_pause_is_told_from_a_long_step() -> None:
    """`docker pause` and Ctrl-Z stop all that measures and is measured; a step that is long stops nobody else."""
    assert "None" == _said(0.0)
    assert "stood still" in _said(3.0)
