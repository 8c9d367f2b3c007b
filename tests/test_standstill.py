"""A trial that waits for its turn stands still, with all that its program has set going."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from slowstep.launch.probe_entry import LIBRARY
from slowstep_probe.trial.standstill import Standstill


@pytest.fixture
def rung() -> Iterator[list[int]]:
    """The signals of a timer that have come."""
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    yield came
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def still() -> Iterator[Standstill]:
    """A standstill of this process, which stops what the tests of other files have set going as well."""
    still = Standstill(alone=False)
    yield still
    still.end()


def test_a_watchdog_of_the_program_waits_with_it(rung: list[int], still: Standstill) -> None:
    """It would end a program that is healthy, because others had their turn."""
    signal.setitimer(signal.ITIMER_REAL, 0.2, 5.0)
    still.begin()
    time.sleep(0.4)
    assert (rung, signal.getitimer(signal.ITIMER_REAL)) == ([], (0.0, 0.0))

    still.end()
    left, every = signal.getitimer(signal.ITIMER_REAL)
    assert (0 < left <= 0.2, every) == (True, 5.0)


WATCHED = """
import faulthandler, os, time
from slowstep_probe.patches import Patches
from slowstep_probe.trial.standstill import Standstill
still = Standstill(alone=False)
still.attach(Patches())
faulthandler.dump_traceback_later(1.0, exit=True, file=open(os.devnull, "w"))
if os.environ["CANCELLED"]:
    faulthandler.cancel_dump_traceback_later()
still.begin()
time.sleep(1.5)
print("waited", flush=True)
still.end()
time.sleep(1.5)
print("went on")
"""


@pytest.mark.parametrize(("cancelled", "said"), [("", ["waited"]), ("yes", ["waited", "went on"])])
def test_a_watchdog_of_faulthandler_waits_with_it(cancelled: str, said: list[str]) -> None:
    """It ends the process from a thread in C, so it is set anew."""
    env = os.environ | {"PYTHONPATH": str(LIBRARY), "CANCELLED": cancelled}
    done = subprocess.run([sys.executable, "-c", WATCHED], env=env, stdout=subprocess.PIPE, text=True, check=False)

    assert said == done.stdout.splitlines()


def test_a_timer_that_is_not_set_stays_so(rung: list[int], still: Standstill) -> None:
    still.begin()
    still.end()
    still.begin()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
