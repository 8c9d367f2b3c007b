"""Making untrusted text harmless to look at: names, paths, reasons, claims, messages of other people's code.

A terminal obeys escape sequences, and every viewer obeys the marks that change the direction of reading. Both can make
a line seem to say something else. So such characters are written out: `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Format characters that are shown as they are, since some languages and emoji need them for spelling."""


def visible(text: object) -> str:
    """Return `text` on one line, with all invisible characters written out; tabs become spaces."""
    return "".join(map(_shown, str(text).replace("\t", " ")))


def visible_lines(text: object) -> str:
    """Return `text` with its lines, each of them visible."""
    return "\n".join(map(visible, str(text).replace("\r\n", "\n").split("\n")))


def _shown(character: str) -> str:
    # Cc control, Cf format, Cs half of a pair (a byte of a path that is not UTF-8), Zl and Zp line separators
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in JOINERS
    return (
        character.encode("ascii", "backslashreplace").decode()
        if hidden and ord(character) > 0x7F
        else (f"\\x{ord(character):02x}" if hidden else character)
    )
