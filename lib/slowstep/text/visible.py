"""Untrusted text made harmless to look at: names, paths, reasons, claims, messages of other people's code.

A terminal obeys escape sequences, and every viewer obeys the marks that turn the direction of reading; both can make a
line say what it does not. So such characters are written out: `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Format characters that words of some languages, and emoji, are spelled with."""


def visible(text: object) -> str:
    """Return `text` on one line, with all that is no visible character written out; tabs become spaces."""
    return "".join(map(_shown, str(text).replace("\t", " ")))


def visible_lines(text: object) -> str:
    """Return `text` with its lines, each of them visible."""
    return "\n".join(map(visible, str(text).replace("\r\n", "\n").split("\n")))


def _shown(character: str) -> str:
    # Cc control, Cf format, Cs half of a pair (a byte of a path that is no UTF-8), Zl and Zp line separators
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in JOINERS
    return (
        character.encode("ascii", "backslashreplace").decode()
        if hidden and ord(character) > 0x7F
        else (f"\\x{ord(character):02x}" if hidden else character)
    )
