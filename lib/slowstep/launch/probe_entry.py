"""The way into slowstep_probe: what an interpreter runs that knows nothing of it."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2]
"""The folder that holds slowstep_probe."""

ENTRY = """
import sys
sys.path[:] = [place for place in sys.path if place]
sys.path.append({library!r})
import {module} as entered
sys.path.pop()
entered.main({argument})
"""


def entry(module: str, argument: str = "sys.argv.pop()") -> str:
    """Return a program for `python -c` that calls `main` of a module of slowstep_probe, with its last word by default.

    Neither the kit's folder nor the folder it was started in is left on the interpreter's path.
    """
    return ENTRY.format(library=str(LIBRARY), module=f"slowstep_probe.{module}", argument=argument)
