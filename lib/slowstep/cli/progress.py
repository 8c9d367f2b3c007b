"""What goes on, told on a terminal or in a log: the progress of an investigation, and of whatever else takes long."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

from slowstep.measure.progress import Progress
from slowstep.text.terminal import is_live, say, say_over

SILENT = 30.0
"""The seconds of silence after which it is said again what goes on: whoever waits for longer takes a program for
dead."""

NEXT = "what comes next is prepared"
"""What is said between the end of one thing and the beginning of the next."""


class Reminder:
    """Calls `remind`, which says what goes on, after each `SILENT` seconds of silence in its `with` block.

    It does so in a thread of its own, since what takes long holds the main one.
    """

    def __init__(self, remind: Callable[[], object]):
        self._remind, self._ended = remind, threading.Event()
        self._thread = threading.Thread(target=self._run, name="reminder", daemon=True)
        self.note_output()

    def note_output(self) -> None:
        """Note that something was said just now."""
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self.note_output()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(max(0.0, self._last + SILENT - time.monotonic())):
            if time.monotonic() >= self._last + SILENT:
                with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                    self._remind()
                self.note_output()


@contextlib.contextmanager
def reminding(what: str) -> Iterator[None]:
    """Say what a block does, and for how long so far, wherever it takes long: on the stream for errors."""
    began = time.monotonic()
    with Reminder(lambda: say(f"{what}, {time.monotonic() - began:.0f} s so far", error=True)):
        yield


class Terminal:
    """The progress as one live line on a terminal, or as plain lines in a log. In its `with` block it is said again
    where nothing else is said for long."""

    def __init__(self, investigation: str):
        self.investigation, self.live, self.last = investigation, is_live(), ""
        self._now: Callable[[], str] = lambda: NEXT
        self._about = ""
        """The notebook that goes on."""
        self._reminder = Reminder(self._remind)

    def __enter__(self) -> Self:
        self._reminder.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        self._reminder.__exit__(*ended)

    def __call__(self, what: str, progress: Progress | None) -> None:
        line = progress.line() if progress and progress.notebook == what else what
        ended, about = not progress and ":" in what, re.split("[: ]", what)[0]
        if not ended:
            began, self._about = time.monotonic(), about
            self._now = progress.line if progress else lambda: f"{what}  {time.monotonic() - began:.0f} s"
        elif about == self._about:
            self._now = lambda: NEXT
        if self.live:
            say_over(f"{self.investigation}  {line}", ended=ended)
        elif progress is None and line != self.last and ended:
            say(f"{self.investigation}  {line}")
        elif progress and (progress.comparison, progress.pair) != self.last:
            self.last = (progress.comparison, progress.pair)
            say(f"{self.investigation}  {line}")
        else:
            return
        self._reminder.note_output()

    def _remind(self) -> None:
        line = f"{self.investigation}  {self._now()}"
        say_over(line, ended=False) if self.live else say(line)
