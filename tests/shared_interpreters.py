"""Trials of commands whose programs are forked from one interpreter, whatever their words, folders and packages.

The kit keeps an interpreter for each command, with the imports that its survey saw. To import PyTorch anew takes
seconds, and `transformers` several times that. What an interpreter has of its command is held by `test_guard.py`, and
what a trial finds in it by `test_program_path.py`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

from slowstep.launch import of_command
from slowstep.launch.warm_interpreter import ALWAYS, Interpreter, WarmInterpreter, warm

PLAIN = (*ALWAYS, "numpy", "torch._dynamo")
"""What programs that train by PyTorch alone import, or PyTorch for them."""

TRAINERS = ("transformers.trainer", "accelerate.data_loader", "peft.tuners.lora")
"""What the others import besides, whichever part of it they use."""


def imports(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules that one interpreter imports for all programs like the one that imports these."""
    return (*PLAIN, *(TRAINERS if {"transformers", "accelerate", "peft"} & tops(modules) else ()))


def shared(about: Interpreter) -> WarmInterpreter:
    """Return the interpreter for a program's trials; one of its own if it imports packages that only its tests have."""
    if all(is_installed(name) for name in tops(about.preload)):
        about = replace(about, preload=imports(about.preload), folder="", argv=())
    return warm(about)


def tops(modules: tuple[str, ...]) -> set[str]:
    """Return the packages of modules."""
    return {name.partition(".")[0] for name in modules}


@functools.cache
def is_installed(package: str) -> bool:
    """Return whether the tests' own interpreter would find a package."""
    with contextlib.suppress(ValueError):
        return importlib.util.find_spec(package) is not None
    return False


@contextlib.contextmanager
def shared_interpreters() -> Iterator[None]:
    """Have trials of commands share interpreters while the block runs."""
    with mock.patch.object(of_command, "warm", shared):
        yield
