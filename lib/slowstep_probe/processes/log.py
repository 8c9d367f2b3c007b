"""The log of a trial: the beginning and the end of its output, however much it prints in between."""

from __future__ import annotations

import contextlib
import os

from slowstep_probe.plain import shortened
from slowstep_probe.secret import Cleaner

MIB = 2**20
KEPT = 2 * MIB
"""The bytes that are kept of the beginning of a log. As many are kept of its end."""

TAIL = 30
"""The last lines of a log that a record keeps."""


class CappedLog:
    """A log file that stays small: what lies between the first and the last `kept` bytes is left out, and counted.

    At any time the file holds the beginning, a line that says how much is left out, and at least the last `kept`
    bytes. While it is written it may hold twice as many of them.

    Writing never fails: on a full disk the log has a gap, and the trial goes on.
    """

    def __init__(self, path: str, kept: int = KEPT):
        self.kept = kept
        self._cleaner = Cleaner()
        self.size = 0
        """Bytes in the file."""
        self.left_out = self.head = self.tail_at = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.descriptor: int | None = os.open(path, flags, 0o644)
        except OSError:
            self.descriptor = None

    def write(self, text: bytes) -> None:
        """Add `text` to the end, without the secrets of the environment."""
        text = self._cleaner.cleaned(text)
        for begin in range(0, len(text), self.kept):
            self._add(text[begin : begin + self.kept])

    def close(self) -> None:
        """Bring the file into its final form, and close it."""
        self._add(self._cleaner.rest())
        if self.descriptor is not None:
            if self.size - self.tail_at > self.kept and self.size > 2 * self.kept:
                self._shorten()
            os.close(self.descriptor)
            self.descriptor = None

    def _add(self, text: bytes) -> None:
        if self.descriptor is None:
            return
        with contextlib.suppress(OSError):
            self.size += os.pwrite(self.descriptor, text, self.size)
        if self.size - (self.tail_at or self.kept) > 2 * self.kept:
            self._shorten()

    def _shorten(self) -> None:
        """Cut out what lies between the beginning and the last `kept` bytes, at ends of lines if there are any."""
        with contextlib.suppress(OSError):
            head = self.tail_at or self._end_of_line(self.kept)
            if not self.tail_at:
                self.head = head
            begin = self._end_of_line(self.size - self.kept)
            tail = os.pread(self.descriptor, self.size - begin, begin)
            self.left_out += begin - head
            said = f"... {self.left_out / MIB:.1f} MiB of output left out here ...\n".encode()
            # the line replaces its predecessor, and is the longer one, if any
            os.pwrite(self.descriptor, said + tail, self.head)
            self.tail_at = self.head + len(said)
            self.size = self.tail_at + len(tail)
            os.ftruncate(self.descriptor, self.size)

    def _end_of_line(self, at: int) -> int:
        """Return the position after the line in which the byte `at` lies, if the line ends soon; else `at`."""
        text = os.pread(self.descriptor, min(self.kept // 4, self.size - at), at)
        return at + text.find(b"\n") + 1


def log_tail(path: os.PathLike[str]) -> str:
    """Return the last lines of a trial's log; an empty text if there is no log."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - MIB // 16))
            return "\n".join(file.read().decode("utf-8", errors="replace").splitlines()[-TAIL:])
    except OSError:
        return ""


def last_line(path: os.PathLike[str]) -> str:
    """Return the last line of a trial's log that is not empty, at most 300 characters of it."""
    return last_words(log_tail(path))


def last_words(output: str) -> str:
    """Return the last line of an output that is not empty, at most 300 characters of it; empty if there is none."""
    return next((shortened(line.strip(), 300) for line in reversed(output.splitlines()) if line.strip()), "")
