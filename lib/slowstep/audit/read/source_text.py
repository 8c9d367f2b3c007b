"""The text of a file that is read, and errors that name the place in it."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

LARGEST = 2**28
"""The most bytes of a file that is read as a whole: a table or JSON. Logs are read in pieces, however large."""


class Unreadable(ValueError):
    """An error of reading, with the line and column, and what to do."""

    def __init__(self, source: str, line: int, column: int, message: str):
        super().__init__(f"{source}:{line}:{column}: {message}")


class NoFigures(Unreadable):
    """An error of reading a table that holds no figure, so that the file may be of another kind."""


def encoding_of(content: bytes) -> str:
    """Return the encoding of a file by its first bytes: UTF-8, or UTF-16 with a byte order mark."""
    return "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def size_of(path: Path) -> int:
    """Return the bytes of a regular file; Unreadable for anything else: a pipe is waited for, a device never ends."""
    try:
        found = path.stat()
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(str(path), 1, 1, "is a folder, a pipe or a device; name a file")
    return found.st_size


def text_of(path: Path, errors: str = "strict") -> str:
    """Return the text of a file, with Unix line ends; Unreadable if it can't be read, or is larger than `LARGEST`.

    UTF-8 is read, and UTF-16 with a byte order mark, as PowerShell writes it. Another encoding can't be read, either.
    """
    if (size := size_of(path)) > LARGEST:
        why = f"has {size >> 20} MiB, and {LARGEST >> 20} MiB at most are read; keep the part that tells the speed"
        raise Unreadable(str(path), 1, 1, why)
    try:
        content = path.read_bytes()
        encoding = encoding_of(content)
        return content.decode(encoding, errors).replace("\r\n", "\n")
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise Unreadable(
            str(path),
            line,
            column,
            f"byte 0x{content[error.start]:02x} is no {encoding.removesuffix('-sig').upper()}; save the file as UTF-8",
        ) from None
