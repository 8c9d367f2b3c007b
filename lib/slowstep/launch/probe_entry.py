"""The way into slowstep_probe: what an interpreter runs that knows nothing of it."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2]
"""The folder that holds slowstep_probe."""

ENTRY = """
import os, sys
path, own = [place for place in sys.path if place], os.path.dirname(os.__file__)
sys.path[:] = [own, os.path.join(own, "lib-dynload")]
import cProfile, resource, secrets, shlex, statistics, sysconfig, tracemalloc
sys.path[:] = [*path, {library!r}]
import {module} as entered
sys.path.pop()
entered.main({argument})
"""
"""A user may have files named like modules of Python's that no training needs (`profile.py`). Those that slowstep_probe
needs are imported from Python's own folder."""


def entry(module: str, argument: str = "sys.argv.pop()") -> str:
    """Return a program for `python -c` that calls `main` of a module of slowstep_probe, with its last word by default.

    Neither the kit's folder nor the folder it was started in is left on the interpreter's path.
    """
    return ENTRY.format(library=str(LIBRARY), module=f"slowstep_probe.{module}", argument=argument)
