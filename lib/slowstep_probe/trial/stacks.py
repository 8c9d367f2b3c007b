"""What stands on a stack: its place in the code, and the functions of the user's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from slowstep_probe.places import LIBRARIES, in_words, is_own, kind_of, line_of, name_of, nearest, real

GENERAL = {*sys.stdlib_module_names, "torch", "numpy"}
"""Packages whose functions say little about what is done."""

CALLS_MODULE = torch.nn.Module._call_impl.__code__
"""What runs each call of a module."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""The names of the functions that Python makes of comprehensions."""


class Function(NamedTuple):
    """A function of the user's own: the file and the line at which it begins, and its name."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{_shown(self.file)} in {self.name}"


def package_function(frame: FrameType) -> str:
    """Return the innermost function of an installed package, but for torch, that runs under the user's own code."""
    for one in takewhile(lambda one: kind_of(one.f_code.co_filename) != "user", stack(frame)):
        name = one.f_globals.get("__name__", "").partition(".")[0]
        if name not in GENERAL and kind_of(one.f_code.co_filename) == "library":
            return " in ".join(filter(None, (_shown(one.f_code.co_filename), _function(one))))
    return ""


def caller_of_module(frames: Sequence[FrameType]) -> str:
    """Return the place of the user's own code that calls the outermost module of a stack; empty if there is none."""
    modules = [one for one in frames if one.f_code is CALLS_MODULE]
    caller = nearest(modules[-1]) if modules else None
    return place_of(caller)[0] if caller in frames else ""


def outermost_of(frame: FrameType, codes: Collection[int]) -> Function | None:
    """Return the outermost function on a stack whose code is one of these, each by its `id`; None if none is."""
    found = [one.f_code for one in stack(frame) if id(one.f_code) in codes] if codes else []
    return _function_of(found[-1]) if found else None


def own_functions(frames: Sequence[FrameType]) -> tuple[Function, ...]:
    """Return the user's own functions of a stack, outermost first, each once. Lambdas and the like are none."""
    codes = [one.f_code for one in frames if is_own(one.f_code.co_filename)]
    own = [_function_of(code) for code in reversed(codes) if not _is_nameless(code.co_name)]
    return tuple(dict.fromkeys(own))


def _function_of(code: CodeType) -> Function:
    return Function(code.co_filename, code.co_firstlineno, code.co_name)


def _is_nameless(name: str) -> bool:
    return name.startswith("<") and name != "<module>"


def place_of(frame: FrameType, within: str = "") -> tuple[str, bool]:
    """Return the place that a stack stands at, and whether it is the user's own code.

    It is the innermost frame outside of the libraries: a hook, a dataset, a callback, a line of the user's loop. If
    there is none, since the loop is a library's, it is the innermost frame of all. Frames count that are called from
    the function `within`, if it is named.
    """
    own = nearest(frame)
    if own is not None and within and not called_from(own, within):
        own = None
    at = _line_at(own or frame)  # before anything that lets the thread go on
    return at.in_words(), own is not None


class OwnLine(NamedTuple):
    """A line of a function, by the file as its code names it."""

    file: str
    line: int
    function: str

    def in_words(self) -> str:
        """Return the line with a short path, as `place_of` does."""
        return in_words(_shown(self.file), self.line, self.function)


def own_lines(frame: FrameType | None) -> tuple[OwnLine, ...]:
    """Return the lines of the user's own code that a stack stands at, from the innermost outwards."""
    found = []
    while (own := nearest(frame)) is not None:
        found.append(_line_at(own))
        frame = own.f_back
    return tuple(found)


def line_without(lines: Sequence[OwnLine], needed: Collection[OwnLine]) -> OwnLine:
    """Return the innermost of the lines that a stack stands at without which all that is `needed` goes on.

    Where each line is needed, such as in a loop, it is the innermost one.
    """
    return next((line for line in lines if line not in needed), lines[0])


def _line_at(frame: FrameType) -> OwnLine:
    return OwnLine(frame.f_code.co_filename, line_of(frame), _function(frame))


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack from the one it stands at outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def called_from(frame: FrameType, function: str) -> bool:
    return any(one.f_code.co_name == function for one in stack(frame))


def _function(frame: FrameType) -> str:
    """Return the name of the function that a frame runs, or of the one that holds it; "" where none does.

    A comprehension runs where it stands, so its caller holds it. A lambda may be called from anywhere.
    """
    file, outer = frame.f_code.co_filename, frame
    while outer.f_code.co_name in COMPREHENSIONS and outer.f_back and outer.f_back.f_code.co_filename == file:
        outer = outer.f_back
    return name_of(outer.f_code)


def _shown(path: str) -> str:
    """Return a short path: within the library for a library's file, within the working folder for the user's own."""
    path = real(path)
    for library in sorted(LIBRARIES, key=len, reverse=True):
        if path.startswith(library):
            return path[len(library) :]
    try:
        here = os.getcwd() + os.sep
    except OSError:  # the folder is gone
        here = os.sep
    return path[len(here) :] if path.startswith(here) else os.sep.join(path.split(os.sep)[-2:])
