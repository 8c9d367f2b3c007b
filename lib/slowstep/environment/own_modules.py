"""The modules that this process finds: Python's own before those of the same names in folders of its user's."""

from __future__ import annotations

import os
import sys


def find_standard_ones_first() -> None:
    """Put Python's own folder first on the path.

    PYTHONPATH, and `python -m` in a folder, put others before it, where a `statistics.py` or `profile.py` may lie.
    """
    standard = os.path.dirname(os.__file__)
    sys.path.sort(key=lambda place: place not in (standard, os.path.join(standard, "lib-dynload")))
