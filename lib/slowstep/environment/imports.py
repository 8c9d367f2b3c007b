"""How the kit imports: Python's own modules first, and without parts of packages that take seconds for nothing."""

from __future__ import annotations

import os
import sys


def without_address_grammar() -> None:
    """Have jsonschema do without its check of addresses, which compiles a grammar for 1.7 s when it is imported.

    nbformat imports jsonschema, and no notebook holds what that check is for. Call this before nbformat is imported.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: it counts as not installed


def find_standard_ones_first() -> None:
    """Put Python's own folder first on the path.

    PYTHONPATH, and `python -m` in a folder, put others before it, where a `statistics.py` or `profile.py` may lie.
    """
    standard = os.path.dirname(os.__file__)
    sys.path.sort(key=lambda place: place not in (standard, os.path.join(standard, "lib-dynload")))
