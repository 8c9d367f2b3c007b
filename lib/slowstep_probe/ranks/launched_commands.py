"""The commands that launchers start as subprocesses: whether one is a program, a launcher, or on another node."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

SCRIPTS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
)
"""The console scripts and the modules of launchers, which other programs start as subprocesses."""

REMOTE = ("pdsh", "mpirun", "mpirun_rsh", "mpiexec", "srun")
"""The programs by which DeepSpeed's launcher starts processes on other nodes."""


def without_unbuffered(words: Sequence[str]) -> list[str]:
    """Return a program's words without the interpreter's option `-u`, which launchers put before them."""
    return list(words[1:] if words[:1] == ["-u"] else words)


def is_this_python(words: Sequence[str]) -> bool:
    """Return whether a command is run by the interpreter that runs this."""
    return bool(words) and os.path.realpath(words[0]) == os.path.realpath(sys.executable)


def is_program(words: Sequence[str]) -> bool:
    """Return whether a command runs a file or a module by this interpreter."""
    program = without_unbuffered(words[1:]) or ["-c"]
    return is_this_python(words) and program[0] != "-c"


def is_launcher(words: Sequence[str]) -> bool:
    """Return whether a command is a launcher that this interpreter would run."""
    if not words:
        return False
    if is_this_python(words):
        first, *others = without_unbuffered(words[1:]) or [""]
        return others[0] in MODULES if first == "-m" and others else os.path.basename(first) in SCRIPTS
    return os.path.basename(words[0]) in SCRIPTS and os.path.isfile(script(words[0]))


def is_remote(words: Sequence[str]) -> bool:
    """Return whether DeepSpeed's launcher would reach other nodes by a command."""
    return os.path.basename(words[0]) in REMOTE and "deepspeed.launcher.runner" in sys.modules


def script(name: str) -> str:
    """Return the path of a console script beside this interpreter."""
    return name if os.sep in name else os.path.join(os.path.dirname(sys.executable), name)
