"""The process and the thread that train, of all that run a program's code.

A process that the program forks has copies of everything that watches its parent, and of the line by which that speaks.
Workers of loaders and processes that evaluate beside the training would speak on it, too. A program may also leave all
of its training to a child, and wait for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Mapping

from slowstep_probe import devices


class TrainingThread:
    """Tells whether the training is here. `has_trained()` says whether this process has made a part of a step."""

    def __init__(self, has_trained: Callable[[], bool], in_child: Callable[[], None]):
        """Make it. `in_child` is called in each process that this one forks."""
        self._has_trained, self._in_child = has_trained, in_child
        self.number: int | None = None
        """The thread that makes backward passes and optimizer steps; None while that is not known."""
        self._aside = False
        """True in a process that does not train, beside the one that does."""
        self._right = TheOneThatTrains()
        self._forked = Forked(self._is_child)

    def takes_right(self) -> bool:
        """Return whether this process may train: of those that have begun to, the first one alone."""
        if self._has_trained() and not self._right.taken():
            self._aside = True
        return not self._aside

    def is_here(self) -> None:
        """Take this thread for the one that trains."""
        self.number = threading.get_ident()

    def is_elsewhere(self, fetching: bool = False) -> bool:
        """Return whether this thread is not the one that trains, or only records what another one will run.

        Until the thread is known that trains, one that only fetches is not.
        """
        if self._aside or devices.is_capturing():
            return True
        if self.number is None:
            return fetching and threading.current_thread() is not threading.main_thread()
        return self.number != threading.get_ident()

    @property
    def is_of_autograd(self) -> bool:
        """True in a thread of autograd's for a device, which calls hooks of a backward pass."""
        of_python = not isinstance(threading.current_thread(), threading._DummyThread)  # type: ignore[attr-defined]
        return not of_python and not self._aside

    def ended_by(self, errors: Mapping[int, BaseException]) -> BaseException | None:
        """Return the error that ended this thread, of those that ended threads; None if it is another one."""
        return None if self.number is None else errors.get(self.number)

    def _is_child(self) -> None:
        """Begin anew in a process that was forked. It may feed the training, evaluate, or be the one that trains."""
        self._aside = self._aside or self._has_trained()  # a look at a batch is no training
        self.number = None
        self._in_child()


class TheOneThatTrains:
    """The right to be taken for the training process. Whoever asks for it first has it."""

    def __init__(self) -> None:
        self._token, given = os.pipe()
        os.write(given, b"1")
        os.close(given)
        self._pipe = _identity(self._token)
        self._close = weakref.finalize(self, os.close, self._token)
        self._asked: bool | None = None

    def taken(self) -> bool:
        """Take it if no other process has, and return whether this process has it."""
        if self._asked is None:
            self._asked = True
            # a program may close all files that it has not opened, and open others under their numbers
            with contextlib.suppress(OSError):
                if _identity(self._token) == self._pipe:
                    self._asked = os.read(self._token, 1) == b"1"
                    self._close()
                else:
                    self._close.detach()
        return self._asked


def _identity(descriptor: int) -> tuple[int, int]:
    known = os.fstat(descriptor)
    return known.st_dev, known.st_ino


_told: weakref.WeakSet[Forked] = weakref.WeakSet()


class Forked:
    """Calls `in_child` in each process that this one forks, as long as it is kept."""

    def __init__(self, in_child: Callable[[], None]):
        self.in_child = in_child
        _told.add(self)


def _tell() -> None:
    for one in list(_told):
        one.in_child()


os.register_at_fork(after_in_child=_tell)
