"""Places in the user's code: the nearest line that is neither a library's nor the kit's."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType

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

COMPILED = "torchinductor"
"""The beginning of the names of folders that hold what torch.compile has written."""


AT_THE_END = re.compile(r" \([^()]*:\d+(?: in [^()]*)?\)$")
"""A place in words, in brackets, at the end of a sentence."""


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

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "the process"

    def in_words(self) -> str:
        """Return the place for whoever works in the current folder, `train.py:88 in collate`; "" if there is none."""
        return in_words(from_here(self.file), self.line, self.function) if self.file else ""


def in_words(file: str, line: int, function: str) -> str:
    """Return a line of a function in words, `train.py:88 in collate`; without the function if that has no name."""
    return f"{file}:{line}{f' in {function}' if function else ''}"


def name_of(code: CodeType) -> str:
    """Return the name of a function, or of the one that holds it if it has none itself, as lambdas have none.

    It is empty where no function holds it, and before Python 3.11, which knows what holds it.
    """
    names = reversed(getattr(code, "co_qualname", code.co_name).split("."))
    return next((name for name in names if not name.startswith("<") or name == "<module>"), "")


STARTED_IN: list[str] = []
"""The real path of the folder that the program was started in; empty where this process runs none."""

PROGRAMS: set[str] = set()
"""The files of the programs that this process runs, by their real paths: one, and what that one launches."""


ENTRIES: set[str] = set()
"""The programs that only call a package's main function: console scripts, and packages started by `-m`."""

PACKAGES: set[str] = set()
"""The folders of the packages that `ENTRIES` call. Their code is looked at where the user's own says nothing."""


def here(making: object = None) -> CodePlace:
    """Return the nearest place of the user's code on the stack.

    For an object that is being made it is where its class is called. Its own methods, as the `__init__` of a class of
    the user's, run for all objects of that class.
    """
    inner: FrameType | None = sys._getframe()
    found = nearest(inner, making)
    between: list[str] = []
    while inner is not None and inner is not found:
        if kind_of(inner.f_code.co_filename) == "library":
            between.append(inner.f_code.co_name)
        inner = inner.f_back
    through = tuple(reversed(between))
    if found is None:
        return CodePlace("", through=through)
    code = found.f_code
    return CodePlace(real(code.co_filename), line_of(found), _column(found), code.co_name, through)


def raised_at(error: BaseException) -> CodePlace:
    """Return the innermost place of the user's code that an exception passed through.

    What a library raised for an exception of the user's code has the place of that one.
    """
    place, by_library = _passed(error)
    seen = [error]
    while by_library and (cause := seen[-1].__cause__) is not None and cause not in seen:
        seen.append(cause)
        deeper, by_library = _passed(cause)
        place = deeper if deeper.file else place
    return place


def _passed(error: BaseException) -> tuple[CodePlace, bool]:
    """Return the innermost place of the user's code in an exception's own traceback; and whether a library raised it.

    As for `nearest`, the line of a console script gives way to the package that it calls.
    """
    own, of_package, kind = CodePlace(""), CodePlace(""), ""
    place: TracebackType | None = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        at = CodePlace(real(code.co_filename), place.tb_lineno, function=name_of(code))
        kind = kind_of(code.co_filename)
        if kind == "user":
            own = at
        elif kind == "library" and is_started(code.co_filename):
            of_package = at
        place = place.tb_next
    return of_package if own.file in ENTRIES and of_package.file else own, kind == "library"


def from_here(file: str) -> str:
    """Return the path of a file, relative to the folder that the program was started in if it lies there.

    A program may go to another folder. Where none was started, it is the current one that counts.
    """
    try:
        folder = os.path.join(next(iter(STARTED_IN), None) or os.path.realpath(os.getcwd()), "")
    except OSError:  # somebody has removed it
        return file
    return real(file).removeprefix(folder)


def is_own(file: str) -> bool:
    """Return whether a file is the user's own, or belongs to the package that a console script starts."""
    kind = kind_of(file)
    return kind == "user" or (kind == "library" and is_started(file))


def is_started(file: str) -> bool:
    """Return whether a file belongs to the package that a console script starts."""
    return bool(PACKAGES) and real(file).startswith(tuple(PACKAGES))


def nearest(frame: FrameType | None, making: object = None) -> FrameType | None:
    """Return the innermost frame of the user's code on a stack; None if there is none.

    Where that is the line of a console script that calls a package's main function, it is the innermost frame of that
    package. Methods of the object `making` are passed over.
    """
    of_package = None
    while frame is not None:
        file = frame.f_code.co_filename
        kind = kind_of(file)
        if kind == "user" and not _is_method_of(making, frame):
            return of_package if of_package is not None and real(file) in ENTRIES else frame
        if of_package is None and kind == "library" and is_started(file):
            of_package = frame
        frame = frame.f_back
    return of_package


def _is_method_of(one: object, frame: FrameType) -> bool:
    code = frame.f_code
    return one is not None and code.co_argcount > 0 and frame.f_locals.get(code.co_varnames[0]) is one


def line_of(frame: FrameType) -> int:
    """Return the line that a frame stands at; that before it for an instruction of no line, as a loop's jump may be."""
    if frame.f_lineno is not None:
        return frame.f_lineno
    line = frame.f_code.co_firstlineno
    for start, _, there in frame.f_code.co_lines():
        if start > frame.f_lasti:
            break
        line = there or line
    return line


def standing(frame: FrameType) -> str:
    """Return in words where a stack stands: at the innermost line of the user's code, or else at that of any code."""
    own = nearest(frame) or frame
    return CodePlace(real(own.f_code.co_filename), line_of(own), function=name_of(own.f_code)).in_words()


def own_files() -> list[str]:
    """Return the files of the user's own code that are imported, the program's among them."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = {real(f) for f in files if isinstance(f, str) and os.path.isfile(f) and kind_of(f) == "user"}
    return sorted(own | PROGRAMS)


def libraries() -> list[str]:
    """Return the modules of installed packages that are imported, in the order in which they were asked for."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name.partition(".")[0] not in sys.stdlib_module_names and name != "__main__":
            found += [name] * (kind_of(file) == "library")
    return found


def kind_of(file: str) -> str:
    """Return 'user', 'library', or 'none' for the kit's own code and code without a file.

    A program's own file is the user's, even if it lies among libraries (as those of `trl` do).
    """
    path = real(file)
    if file.startswith("<") or path.startswith(KIT):
        return "none"
    return "user" if path in PROGRAMS else _kind_of(path)


@functools.lru_cache(maxsize=4096)
def _kind_of(path: str) -> str:
    parts = path.split(os.sep)
    if path.startswith(LIBRARIES) or any(part in FOLDERS or part.startswith(COMPILED) for part in parts):
        return "library"
    return "user"


@functools.lru_cache(maxsize=4096)
def real(file: str) -> str:
    """Return the real path of a file of code."""
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
