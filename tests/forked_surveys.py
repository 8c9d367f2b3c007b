"""Surveys in processes that are forked from a warm interpreter, as trials are. To import PyTorch anew takes seconds.

Only the start is another one. `test_survey.py` holds that a survey in an interpreter of its own sees what it should.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from unittest import mock

from shared_interpreters import TRAINERS
from slowstep.launch import surveyed_process
from slowstep.launch.fresh_start import FreshStart
from slowstep.launch.of_command import OFFLINE
from slowstep.launch.warm_interpreter import ALWAYS, WarmInterpreter, of_the_kit, warm
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.wire import Wire
from slowstep_probe.survey import main as survey
from slowstep_probe.survey.early_environment import mattering

PRELOADED = (*ALWAYS, "numpy", "torch._dynamo", "slowstep_probe.survey.survey", "slowstep.launch.surveyed_process")
"""What the programs of the tests import, or PyTorch for them, and what this module imports."""

OF_EACH = ("PYTHONPATH", "MLFLOW_TRACKING_URI")
"""Variables that differ between any two surveys."""


class Forked(FreshStart):
    """Stands in for a fresh start: the guard is forked from the warm interpreter of the tests.

    A program that needs another interpreter, other variables or other nodes is started anew.
    """

    def __init__(self, folder: str, printed: IO[bytes], lines: Sequence[Wire]):
        super().__init__(folder, printed, lines)
        self.interpreter: WarmInterpreter | None = None

    def fork(self, order: Order, connection: Wire, report: Wire) -> int:
        """Start the guard, and return its number."""
        (python, *options, _, _), given, env = order.arguments
        about = of_the_kit(PRELOADED + imports_of(given), os.environ | OFFLINE)
        if (
            self.lines
            or len(options)
            or not os.path.samefile(python, sys.executable)
            or settled(env) != settled(dict(about.env))
        ):
            return super().fork(order, connection, report)
        self.interpreter = interpreter = warm(about)
        self.guards = interpreter.guards
        printed = f"/proc/{os.getpid()}/fd/{self.printed.fileno()}"
        here = str(Path(__file__).parent)
        own = replace(order, target=f"{__name__}:run", arguments=[given, env, printed], path=[here])
        return interpreter.fork(own, connection, report)

    def end_orphans(self, guard: int) -> None:
        """End what is left of the guard, if it was killed."""
        (self.interpreter.end_orphans if self.interpreter else super().end_orphans)(guard)


def imports_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a program imports that takes longer than PyTorch, by its text."""
    program = Path(given["folder"], given["arguments"][0])
    with contextlib.suppress(OSError):
        return TRAINERS if "transformers" in program.read_text(encoding="utf-8") else ()
    return ()


def settled(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that libraries may have read when they were imported."""
    return {name: value for name, value in mattering(env).items() if name not in OF_EACH}


def run(wire: Wire, given: dict[str, Any], env: Mapping[str, str], printed: str) -> None:
    """Survey a program in this process, which prints into a file. Never returns."""
    out = os.open(printed, os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.environ.clear()
    os.environ.update(env)
    survey.main(json.dumps(given | {"result": wire.fileno()}))


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Have surveys forked while the block runs."""
    with mock.patch.object(surveyed_process, "FreshStart", Forked):
        yield
