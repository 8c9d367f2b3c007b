"""Looks at the objects of a program. Whatever an object answers, no look raises anything into the program.

What goes wrong in a look is printed once and kept in `FAILED`: the fact is left out, and a fault of the kit shows.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch.nn.parameter import is_lazy

T = TypeVar("T")

FAILED: list[str] = []
"""What went wrong in looks so far, once for each way to it: the error, and the lines on that way."""

_ways: set[str] = set()

UNSEEN = "slowstep could not look at an object of the program, and leaves out what it would tell: "
"""The beginning of what is printed of a look that failed."""


def looking(look: Callable[..., T]) -> Callable[..., T | None]:
    """Return a function that looks as `look` does, and that returns None where that raises an exception."""

    @functools.wraps(look)
    def looks(*args: Any, **kwargs: Any) -> T | None:
        try:
            return look(*args, **kwargs)
        except Exception as error:
            _keep(error)
            return None

    return looks


def seen(looks: Mapping[str, Callable[..., Any]], *of: Any) -> dict[str, Any]:
    """Return what each of several looks finds, by its name, without those that fail."""
    found: dict[str, Any] = {}

    def add(name: str, look: Callable[..., Any]) -> None:
        found[name] = look(*of)

    for name, look in looks.items():
        looking(add)(name, look)
    return found


def with_size(parameters: Iterable[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    """Return the parameters that have a size. That of a lazy module has none before its first forward pass."""
    return [one for one in parameters if not is_lazy(one)]


def weights_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    """Yield the weights that an optimizer updates."""
    return (weight for group in optimizer.param_groups for weight in group["params"])


def length_of(of: Any) -> int | None:
    """Return the length of a loader or a data set; None where it has none, however its class says so."""
    try:
        return len(of)
    except Exception:
        return None


def class_names(one: Any) -> list[str]:
    """Return the name of an object's class, and of those that it extends, the nearest first.

    A class is known by its name where its package may not be there, or must not be imported.
    """
    return [kind.__name__ for kind in type(one).__mro__]


def _keep(error: Exception) -> None:
    try:
        said = f"{type(error).__name__}: {error}"
    except Exception:
        said = type(error).__name__
    way = ", ".join(f"{line.name} in line {line.lineno}" for line in traceback.extract_tb(error.__traceback__)[1:])
    if way not in _ways:
        _ways.add(way)
        told = " ".join(f"{said} ({way})".split())
        FAILED.append(told)
        print(UNSEEN + told, file=sys.stderr)
