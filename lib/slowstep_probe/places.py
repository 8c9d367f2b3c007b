"""Places in the user's code: the nearest line that is neither a library's nor the kit's."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from dataclasses import dataclass
from types import FrameType

PROBE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "")
KIT = (PROBE, os.path.join(os.path.dirname(PROBE.rstrip(os.sep)), "slowstep", ""))
"""The folders of the kit's own code: the probe, and beside it what trains the runs that a parameter file describes."""

LIBRARIES = tuple(
    {
        os.path.join(os.path.realpath(path), "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
FOLDERS = ("site-packages", "dist-packages")
"""Names of folders that hold libraries, wherever they lie."""


@dataclass(frozen=True)
class CodePlace:
    """A call in the user's code."""

    file: str
    """The real path; empty where no line of the user's own is on the stack."""
    line: int = 0
    column: int = 0
    """The column at which the call begins, from 0; 0 where Python does not tell (before 3.11)."""
    function: str = ""
    through: tuple[str, ...] = ()
    """The library functions between this line and what was called, outermost first."""


PROGRAMS: set[str] = set()
"""The files of the programs that this process runs, by their real paths: one, and what that one launches."""


class Places:
    """Finds places. The program's own file is the user's, even if it lies among libraries (as `trl` does)."""

    def __init__(self, program: str):
        self.program = os.path.realpath(program) if program else ""

    def here(self, depth: int = 1) -> CodePlace:
        """Return the nearest place of the user's code on the stack, from the caller's caller on."""
        frame: FrameType | None = sys._getframe(depth)
        between: list[str] = []
        while frame is not None:
            kind = self._kind(frame.f_code.co_filename)
            if kind == "user":
                column = _column(frame)
                return CodePlace(
                    _real(frame.f_code.co_filename),
                    frame.f_lineno,
                    column,
                    frame.f_code.co_name,
                    tuple(reversed(between)),
                )
            if kind == "library":
                between.append(frame.f_code.co_name)
            frame = frame.f_back
        return CodePlace("", through=tuple(reversed(between)))

    def own_files(self) -> list[str]:
        """Return the files of the user's own code that are imported, the program's among them."""
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        own = {
            _real(file)
            for file in files
            if isinstance(file, str) and os.path.isfile(file) and self._kind(file) == "user"
        }
        return sorted(own | PROGRAMS | ({self.program} if self.program else set()))

    def libraries(self) -> list[str]:
        """Return the modules of installed packages that are imported, in the order in which they were asked for."""
        standard = sys.stdlib_module_names
        found = []
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            top = name.partition(".")[0]
            if isinstance(file, str) and top not in standard and top != "slowstep_probe" and name != "__main__":
                found += [name] * (self._kind(file) == "library")
        return found

    def _kind(self, file: str) -> str:
        """Return 'user', 'library', or 'none' for the probe's own code and code without a file."""
        if file.startswith("<"):
            return "none"
        real = _real(file)
        if real == self.program or real in PROGRAMS:
            return "user"
        if real.startswith(PROBE):
            return "none"
        if real.startswith(LIBRARIES) or any(folder in real.split(os.sep) for folder in FOLDERS):
            return "library"
        return "user"


@functools.lru_cache(maxsize=4096)
def _real(file: str) -> str:
    return os.path.realpath(file)


def _column(frame: FrameType) -> int:
    """Return the column of the instruction that runs in a frame; 0 where it is not known."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return 0
    for at, (_, _, column, _) in enumerate(positions()):
        if at == frame.f_lasti // 2:
            return column or 0
    return 0
