"""The one place through which this kit writes to a terminal, so that all untrusted text is made visible first.

Output of a trial goes to its log, by the trial's own process. Everything else that people read is written here.
"""

from __future__ import annotations

import os
import shutil
import sys

from slowstep.text.visible import visible, visible_lines

CLEAR_LINE = "\r\033[K"


def say(text: object = "", *, error: bool = False) -> None:
    """Write one line, an `error` to the stream for errors. Line ends within the text are made visible."""
    _write(visible(text) + "\n", error)


def warn(text: object) -> None:
    """Write one line to the stream for errors."""
    say(text, error=True)


def say_lines(text: object, *, error: bool = False) -> None:
    """Write a text of several lines. Its line ends must be the kit's own."""
    _write(visible_lines(text) + "\n", error)


def say_over(text: object, *, ended: bool) -> None:
    """Write a line over the last one if that was not `ended`; it is cut to the terminal's width."""
    width = shutil.get_terminal_size().columns
    _write(CLEAR_LINE + visible(text)[:width] + ("\n" if ended else ""), error=False)


def is_live() -> bool:
    """Return whether the output is a terminal, where a line can be written over."""
    return sys.stdout.isatty()


def drop_output() -> None:
    """Drop all output from here on, since nobody reads it any more (`slowstep check x.yaml | head -1`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(text: str, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    # a terminal of another encoding gets escapes in place of what it can't show
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
