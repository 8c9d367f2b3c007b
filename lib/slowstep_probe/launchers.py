"""Launchers that would start the training in a child process: they run it in this one, where it is watched.

`accelerate launch` does so, and whatever calls it: the command line of TRL, for one. Launchers of several processes are
left alone.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from slowstep_probe.late_imports import LateImports
from slowstep_probe.program import Program


def run_here(late: LateImports) -> None:
    """Let launchers of one process run their program in this process, as soon as they are imported."""
    late.on("accelerate.commands.launch", _accelerate)


def _accelerate(module: ModuleType) -> None:
    launched = module.simple_launcher

    def simple_launcher(args: Any) -> None:
        command, env = module.prepare_simple_launcher_cmd_env(args)
        if os.path.realpath(command[0]) != os.path.realpath(sys.executable):
            launched(args)  # a program that is none of Python's
            return
        os.environ.update(env)
        program = Program(arguments=command[1:], folder=os.getcwd(), command=command)
        program.enter()
        program.run()

    module.simple_launcher = simple_launcher  # type: ignore[attr-defined]
