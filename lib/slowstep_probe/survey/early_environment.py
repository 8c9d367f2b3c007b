"""Environment variables that a program sets before it imports the libraries that read them while they are imported.

The kit imports PyTorch before the program runs, and a warm interpreter imports more. OMP_NUM_THREADS or HF_HOME, set at
the beginning of a script, would come too late there. So they are noted, and the program is started with them.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from slowstep_probe.places import kind_of
from slowstep_probe.ranks.rank import Rank
from slowstep_probe.secret import is_secret, shown_value

MATTERS = re.compile(
    r"(OMP|MKL|OPENBLAS|NUMEXPR|KMP|GOMP|NVIDIA|NCCL|PYTORCH|TRITON|HF|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|DATASETS|"
    r"ACCELERATE|BITSANDBYTES|KERAS|XDG_CACHE|MALLOC|GLIBC|LD|PL|WANDB|MLFLOW|COMET|DNNL|ONEDNN|CUDNN|CUBLAS|CUBLASLT)"
    r"(_.*)?|(CUDA|TORCH|PYTHON).*"
)
"""The names of variables that training may depend on. `PYTHONPATH` and `TORCHINDUCTOR_…` have no underscore after the
first word; with none `LD` would be LDAP's, too."""

OF_RANKS = ("PWD", *Rank(number=0, size=1).environment)
"""Environment variables that differ between ranks, or that each process has of its own."""

PASSED_BY = (
    *("os", "_collections_abc", "collections.abc"),
    *("slowstep_probe.patches", "slowstep_probe.changing.flags"),
)
"""The modules through which a variable is set, whoever sets it: Python's, and those that look at what is set."""

READ_FROM_FILE = ("dotenv",)
"""Packages that set variables as their user says."""


def mattering(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that how a program trains may depend on. They belong to the command.

    No secret is among them: trials find those in the environment that they are started from.
    """
    known = {name: value for name, value in env.items() if MATTERS.fullmatch(name) and not is_secret(name, value)}
    return {name: value for name, value in known.items() if shown_value(value) == value}  # none with a password in it


class EarlyEnvironment:
    """Notes the variables that the program's own code sets before it imports a library.

    Those of the `known` names are started with already. `tell` is called with the others as soon as a library is
    imported after they were set; without it they are only noted.
    """

    def __init__(self, known: Collection[str], tell: Callable[[dict[str, str]], None] | None):
        self.known, self.tell = frozenset((*known, *OF_RANKS)), tell
        self.found: dict[str, str] = {}
        """The variables that were set before a library was imported."""
        self._set: dict[str, str] = {}
        """All that were set by the program's own code."""
        self._import = builtins.__import__
        self._watching = False

    def attach(self) -> None:
        self._watching, builtins.__import__ = True, self._imported
        sys.addaudithook(self._audit)  # it can't be removed

    def detach(self) -> None:
        """End."""
        self._watching, builtins.__import__ = False, self._import

    def _imported(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Import a module, and look before at what was set, where the program's own code asks for more than Python's
        own modules."""
        level = args[3] if len(args) > 3 else kwargs.get("level", 0)
        of_python = level == 0 and name.partition(".")[0] in sys.stdlib_module_names
        if self._set and not of_python and kind_of(sys._getframe(1).f_code.co_filename) == "user":
            self._look()
        return self._import(name, *args, **kwargs)

    def _look(self) -> None:
        now = {name: os.environ.get(name) for name in self._set if name not in self.known}
        new = mattering({name: value for name, value in now.items() if value is not None})
        self._set.clear()
        self.found |= new
        if new and self.tell is not None:
            self.tell(new)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a variable that the program's own code sets to another value. An audit hook may raise nothing."""
        if event != "os.putenv" or not self._watching:
            return
        name, value = (os.fsdecode(one) for one in arguments)
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in PASSED_BY:
            frame = frame.f_back
        by = str(frame.f_globals.get("__name__")).partition(".")[0]
        if os.environ.get(name) != value and (by in READ_FROM_FILE or kind_of(frame.f_code.co_filename) == "user"):
            self._set[name] = value
