"""A trial that waits for its turn stands still, with all that its program has set going."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

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


def test_a_timer_that_is_not_set_stays_so(rung: list[int], still: Standstill) -> None:
    still.begin()
    still.end()
    still.begin()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
