"""What a data set holds, from the outside in, and what its code names."""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import types
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

DEPTH, MOST = 4, 500
"""How deep a data set is looked into, and at how many objects."""

WHOLE = ("datasets.", "pyarrow.", "numpy", "torch", "pandas.", "logging", "multiprocessing.")
"""Packages whose objects are not looked into; but the data sets that PyTorch makes of others are."""

OF_OTHERS = "torch.utils.data."

PLAIN = (int, float, str, bool, bytes, type(None))


def held(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a data set holds, from the outside in, by the words that lead to it."""
    waiting, seen = deque([("", data, 0)]), set[int]()
    while waiting and len(seen) < MOST:
        name, one, depth = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield name, one
        if depth < DEPTH:
            waiting.extend((name + inner, value, depth + 1) for inner, value in parts(one))


def all_of(data: Any) -> list[tuple[str, Any]]:
    """Return what a data set holds and what its code names, by the words that lead to it."""
    return [*held(data), *named(innermost(data))]


def class_of(one: Any) -> tuple[str, str]:
    """Return the package and the name of an object's class."""
    return type(one).__module__.lstrip("_").partition(".")[0], type(one).__name__


def is_of_library(one: Any) -> bool:
    """Return whether an object is not looked into, since a library made its class: `WHOLE`, or Python itself."""
    module = type(one).__module__
    return module.startswith((*WHOLE, "builtins")) and not module.startswith(OF_OTHERS)


def parts(one: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object is made of, by the words that lead to it."""
    if isinstance(one, functools.partial):
        yield from ((f"[{i}]", value) for i, value in enumerate((one.func, *one.args, *one.keywords.values())))
    elif isinstance(one, (types.MethodType, types.BuiltinMethodType)):
        yield "", one.__self__
    elif isinstance(one, types.FunctionType):
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # it is empty so far
                yield f".{name}", cell.cell_contents
    elif isinstance(one, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(one[:20]) if not isinstance(value, PLAIN))
    elif isinstance(one, dict):
        yield from (
            (f"[{key!r:.20}]", value)
            for key, value in islice(list(one.items()) if len(one) < MOST else one.items(), 20)
            if not isinstance(value, PLAIN)
        )
    elif isinstance(one, (type, types.ModuleType)) or is_of_library(one):
        return
    else:
        yield from ((f".{key}", value) for key, value in attributes(one).items() if not isinstance(value, PLAIN))


def attributes(one: Any) -> dict[str, Any]:
    """Return the attributes of an object: its own, those with a slot, and those of its class that are no methods."""
    found: dict[str, Any] = {}
    for kind in reversed(type(one).__mro__):
        if kind.__module__.startswith((*WHOLE, "builtins")):
            continue
        for name, value in vars(kind).items():
            if isinstance(value, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # nothing is in the slot so far
                    found[name] = getattr(one, name)
            elif not (name.startswith("__") or callable(value) or hasattr(type(value), "__get__")):
                found[name] = value
    own = getattr(one, "__dict__", None)
    return found | (dict(own) if isinstance(own, dict) else {})


def named(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the global variables that a data set's code for an item names."""
    for method in ("__getitem__", "__getitems__", "__iter__"):
        if not hasattr(type(data), method):
            continue
        function = inspect.unwrap(getattr(type(data), method))
        code, variables = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        names = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"} if code else ()
        yield from ((name, variables[name]) for name in names if name in variables)


def innermost(data: Any) -> Any:
    """Return the data set within those that only select from another (torch's Subset)."""
    seen = 0
    while type(data).__module__.startswith(OF_OTHERS) and hasattr(data, "dataset") and seen < DEPTH:
        data, seen = data.dataset, seen + 1
    return data
