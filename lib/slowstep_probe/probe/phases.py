"""The phase that training is in, marked where one begins and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from slowstep_probe.probe.tape import Tape


class Phases:
    """Phases as they are entered and left. They do not nest: what happens inside one belongs to it."""

    def __init__(self, tape: Tape):
        self._tape = tape
        self._depth = 0
        self.annotation: Callable[[str], Any] | None = None
        """A function that returns a context, which names a phase in the profile; None while nothing is profiled."""
        self._annotated: Any = None

    @property
    def is_open(self) -> bool:
        """True within a phase."""
        return self._depth > 0

    @property
    def open(self) -> str | None:
        """The phase that is open; None where none is."""
        return self._tape.marks[-1].phase if self._depth and self._tape.marks else None

    def enter(self, phase: str, iterator: int | None = None) -> None:
        """Mark a phase that begins, with the number of the iterator that is asked there for data."""
        self._depth += 1
        if self._depth == 1:
            self._tape.mark(phase, iterator)
            if self.annotation is not None:
                self._annotated = self.annotation(phase)
                self._annotated.__enter__()

    def leave(self) -> None:
        """Mark the end of what was entered last."""
        self._depth -= 1
        if self._depth == 0:
            if self._annotated is not None:
                self._annotated.__exit__(None, None, None)
                self._annotated = None
            self._tape.mark("other")

    @contextmanager
    def within(self, phase: str) -> Iterator[str]:
        """Mark a phase while the block runs. Gives the phase that the time belongs to: an outer one, if one is open."""
        outer = self.open or phase
        self.enter(phase)
        try:
            yield outer
        finally:
            self.leave()
