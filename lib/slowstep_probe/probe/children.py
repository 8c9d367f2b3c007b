"""Processes that a program forks while it is watched. One process trains: the program itself, or one of these.

A child has copies of everything that watches its parent, and of the line by which that speaks. Workers of loaders and
processes that evaluate beside the training would speak on it, too. A program may also leave all of its training to a
child, and wait for it.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable


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
