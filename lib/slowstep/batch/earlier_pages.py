"""What earlier runs drew and wrote: it makes way, so that nobody takes an old verdict for one of the run that is there.

Nothing is removed, for it may still be read or used. What lies in `earlier/` is replaced by the next that makes way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from slowstep.environment.system_errors import naming
from slowstep.records.plain_files import plain_files
from slowstep.settings.sections import FINAL

EARLIER = "earlier"
"""The folder in that of an investigation."""

MOVED = f"{EARLIER}/: the reports and files of an earlier run are there now"


def set_aside(folder: Path, notebooks: Iterable[str], keep: Path) -> bool:
    """Move what these notebooks left in an investigation's folder to `earlier/`, and return whether there was any.

    That is the notebook as it was executed, its report, and the files of final/, but for the one to `keep`: a parameter
    file that is diagnosed may lie there itself. OSError names what can't be moved.
    """
    left = [path for name in notebooks for path in _left_by(name, folder) if path.resolve() != keep.resolve()]
    for path in left:
        target = folder / EARLIER / path.relative_to(folder)
        with naming(target, instead=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
        if path.parent != folder:
            with contextlib.suppress(OSError):  # something else is in it
                path.parent.rmdir()
    return bool(left)


def _left_by(notebook: str, folder: Path) -> list[Path]:
    pages = [folder / f"{notebook}{ending}" for ending in (".html", ".ipynb")]
    files = plain_files(folder / "final") if notebook == FINAL.notebook else ()
    return [*(page for page in pages if os.path.lexists(page)), *files]
