"""Processes that end themselves by `os._exit`: of those that train, it is told."""

from __future__ import annotations

import os

from slowstep_probe.patches import Patches
from slowstep_probe.processes.own_end import EXIT, OwnEnd


def test_the_process_that_trains_tells_of_its_end_and_no_copy_of_it_does() -> None:
    """A child that evaluates ends as well, and has all that watches its parent."""
    told, telling = os.pipe()
    if not (trains := os.fork()):
        own_end = OwnEnd(lambda status: os.write(telling, b"%d" % status))
        own_end.attach(Patches())
        own_end.trains_here()
        if not os.fork():
            os._exit(3)
        os.wait()
        os._exit(5)
    os.close(telling)
    _, status = os.waitpid(trains, 0)

    assert b"5" == os.read(told, 9)
    assert 5 == os.waitstatus_to_exitcode(status)
    assert os._exit is EXIT
    os.close(told)


def test_a_copy_of_a_process_that_has_trained_takes_no_steps() -> None:
    """A child that evaluates on the same loader ends no step. One that trains in place of its parent does."""
    own_end = OwnEnd(lambda status: None)
    own_end.trains_here()

    def in_child() -> bool:
        if not (child := os.fork()):
            EXIT(own_end.is_copy)
        return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert not in_child()
    own_end.trains_here()
    assert in_child()
    assert not own_end.is_copy
