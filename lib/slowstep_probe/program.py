"""A Python program that runs in this process as if it had been started by itself, by a file or by `-m`."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.util
import os
import runpy
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import PathFinder

from slowstep_probe.places import ENTRIES, PACKAGES, PROGRAMS, STARTED_IN, kind_of

AT_START = (
    *("abc", "codecs", "encodings", "genericpath", "io", "os", "posixpath", "runpy", "site", "stat", "zipimport"),
    *("_collections_abc", "_sitebuiltins", "importlib"),
)
"""Modules that Python has imported by itself before it runs a program, which can have none in their place."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program as its command starts it."""

    arguments: list[str]
    """What follows the interpreter and its own options: `["train.py", "--lr", "1"]`, or `["-m", "package", …]`."""
    folder: str
    """The working directory."""
    command: list[str] = field(default_factory=list)
    """The whole command, as `sys.orig_argv` shows it."""

    @property
    def is_module(self) -> bool:
        """True if the program is started by `-m`."""
        return self.arguments[0] == "-m"

    @property
    def argv(self) -> list[str]:
        """The words that it finds as `sys.argv`."""
        return ["-m", *self.arguments[2:]] if self.is_module else list(self.arguments)

    def enter(self) -> None:
        """Make this process the program's: working directory and arguments are what it would find."""
        os.chdir(self.folder)
        STARTED_IN[:] = [os.path.realpath(self.folder)]
        os.environ["PWD"] = self.folder
        sys.orig_argv = list(self.command) or [sys.executable, *self.arguments]
        sys.argv[:] = self.argv  # a library that was imported before may hold that list

    def find_its_modules(self) -> None:
        """Put the program's folder on the path where Python itself would, which `-P`, `-I` and PYTHONSAFEPATH forbid.

        A module there, or on PYTHONPATH, goes before one of the standard library of the same name (`profile.py`), which
        the kit or a library has imported by now. So the kit's own imports come before this.
        """
        if not getattr(sys.flags, "safe_path", sys.flags.isolated):  # Python 3.10 has no such flag
            own = os.getcwd() if self.is_module else os.path.dirname(os.path.realpath(self.arguments[0]))
            sys.path.insert(0, own)
        standard = os.path.dirname(os.__file__)
        before = sys.path[: sys.path.index(standard)] if standard in sys.path else []
        for name in sys.stdlib_module_names.difference(AT_START, sys.builtin_module_names).intersection(sys.modules):
            found, known = PathFinder.find_spec(name, before), getattr(sys.modules[name], "__spec__", None)
            # a folder alone is no module where there is another
            if found is not None and found.loader is not None and found.origin != getattr(known, "origin", None):
                del sys.modules[name]

    def file(self) -> str:
        """Return the real path of the program's own file; an empty text if it can't be told."""
        if not self.is_module:
            return os.path.realpath(self.arguments[0])
        name = self.arguments[1]
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            found = importlib.util.find_spec(f"{name}.__main__")
        return os.path.realpath(found.origin) if found is not None and found.origin else ""

    def _package(self) -> str:
        """Return the folder of the installed package that the program only starts; empty if it is the user's own."""
        file = self.file()
        scripts = os.path.realpath(sysconfig.get_path("scripts"))
        if os.path.dirname(file) == scripts:
            name = imported_first(file)
        else:
            name = self.arguments[1] if self.is_module and kind_of(file) == "library" else ""
        found = importlib.util.find_spec(name.partition(".")[0]) if name else None
        places = list(found.submodule_search_locations or ()) if found is not None else []
        return os.path.realpath(places[0]) if places else ""

    def run(self) -> None:
        """Run the program, which finds its own modules, until it returns or raises.

        The module `__main__` of a file stays, so that pickle, fork and spawn find the classes of the script.
        `runpy.run_path` would wipe it.
        """
        self.find_its_modules()
        if package := self._package():
            ENTRIES.add(self.file())
            PACKAGES.add(os.path.join(package, ""))
        PROGRAMS.update(filter(None, [self.file()]))
        # few functions of this kit's own lie around the program: the end of a log holds what the user wrote
        if self.is_module:
            runpy.run_module(self.arguments[1], run_name="__main__", alter_sys=True)
        else:
            exec(self._code(), sys.modules["__main__"].__dict__)

    def _code(self) -> types.CodeType:
        """Return the code of a program's file, for which there is a module `__main__` now."""
        path = self.arguments[0]
        module = types.ModuleType("__main__")
        module.__dict__.update(__file__=os.path.abspath(path), __builtins__=builtins, __cached__=None, __spec__=None)
        sys.modules["__main__"] = module
        with open(path, "rb") as file:
            # the program has the language that it asks for itself, and not that of this module
            return compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True)


AT_END: list[Callable[[], None]] = []
"""What is called where a program ends, before its threads are waited for."""


@contextlib.contextmanager
def to_its_end() -> Iterator[dict[int, BaseException]]:
    """Wait for the program's threads where the block ends or calls sys.exit, as an interpreter does at its end.

    What is in `AT_END` is called before.

    Gives the errors that end threads meanwhile, by the threads' identities.
    """
    found: dict[int, BaseException] = {}
    plain = threading.excepthook

    def noted(told: threading.ExceptHookArgs) -> None:
        if told.thread is not None and told.thread.ident is not None and told.exc_value is not None:
            found[told.thread.ident] = told.exc_value
        plain(told)

    threading.excepthook = noted
    try:
        yield found
        _wait()
    except SystemExit:
        _wait()
        raise
    finally:
        if threading.excepthook is noted:  # the program may have set its own
            threading.excepthook = plain


def _wait() -> None:
    try:
        for one in AT_END:
            one()
    finally:
        threading._shutdown()


def imported_first(file: str) -> str:
    """Return the first module of a package that a script imports, or imports from; empty if there is none."""
    try:
        with open(file, "rb") as script:
            lines = ast.parse(script.read()).body
    except (OSError, SyntaxError, ValueError):
        return ""
    modules = (
        name
        for line in lines
        if isinstance(line, ast.Import) or (isinstance(line, ast.ImportFrom) and not line.level)
        for name in ([one.name for one in line.names] if isinstance(line, ast.Import) else [line.module])
    )
    return next((m for m in modules if m and m.partition(".")[0] not in sys.stdlib_module_names), "")
