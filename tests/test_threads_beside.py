"""Threads of a program that run Python beside its training are told with the time that they take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slowstep.wording.held_back import other_threads
from slowstep_probe.trial.threads_beside import ThreadsBeside

ENDED = threading.Event()


def computes() -> None:
    while not ENDED.is_set():
        sum(range(1000))


def waits() -> None:
    ENDED.wait()


@contextmanager
def beside(*functions: object) -> Iterator[None]:
    """Run each function in a thread of its own."""
    ENDED.clear()
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ENDED.set()
        for thread in threads:
            thread.join()


def some_python(seconds: float = 0.3) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


def test_a_thread_that_computes_is_told_and_one_that_waits_is_not() -> None:
    """It is told by the function that it runs, also if it began meanwhile."""
    seen = ThreadsBeside()
    seen.begin()
    with beside(computes, waits):
        some_python()
        found = seen.end()

    names = [where.rpartition(" in ")[2] for where in found]
    assert "computes" in names
    assert "waits" not in names
    assert "test_threads_beside.py" in next(where for where in found if where.endswith(" in computes"))


def test_what_a_thread_took_before_is_none_of_it() -> None:
    """A thread that has computed for long, and waits now, holds nobody up."""
    paused = threading.Event()

    def computed_once() -> None:
        some_python()
        paused.set()
        ENDED.wait()

    seen = ThreadsBeside()
    with beside(computed_once):
        paused.wait()
        seen.begin()
        some_python()
        found = seen.end()

    assert not [where for where in found if where.endswith("computed_once")]


def test_the_training_itself_is_no_thread_beside_it() -> None:
    """The thread that trains may be another one than the main thread."""
    found = {}

    def trains() -> None:
        seen = ThreadsBeside()
        seen.begin()
        some_python()
        found.update(seen.end())

    thread = threading.Thread(target=trains)
    thread.start()
    thread.join()

    assert not [where for where in found if where.endswith("trains")]


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ({"writer.py in run": 0.42}, ["42 %", "writer.py in run 42 %"]),
        ({"a.py in run": 0.3, "b.py in run": 0.2}, ["50 %", "a.py in run 30 %; b.py in run 20 %"]),
        ({"a.py in run": 0.04}, []),
        ({}, []),
    ],
)
def test_threads_are_told_where_they_take_as_much_as_matters(shares: dict[str, float], told: list[str]) -> None:
    """Below the minimum effect nothing is said."""
    text = other_threads(shares, 0.05)

    assert bool(text) == bool(told)
    assert all(part in text for part in told)
