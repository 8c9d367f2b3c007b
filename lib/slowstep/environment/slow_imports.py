"""Imports of other packages that take seconds and that the kit has no use for."""

from __future__ import annotations

import sys


def without_address_grammar() -> None:
    """Have jsonschema do without its check of addresses, which compiles a grammar for 1.7 s when it is imported.

    nbformat imports jsonschema, and no notebook holds what that check is for. Call this before nbformat is imported.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: it counts as not installed
