"""Counts of a data set's own, and models that are trained within one: workers would have copies of both."""

from __future__ import annotations

import dis
import inspect
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from slowstep_probe.data_sets.first_batches import FirstBatches, States, grown_steadily
from slowstep_probe.data_sets.held import all_of, attributes, held, innermost, is_of_library, named

MAKING = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
"""The methods with which the making of a batch begins, of a data set and of what it holds."""

READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
SETS = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
"""Instructions of Python's that read a name, or set one."""


class OwnCounts(FirstBatches):
    """Notes which data sets count while they make a batch, as one does that grows harder by what it gave so far.

    Each worker would count in a copy of its own, and anew in each epoch. What grows by the same number with each batch
    is taken for a count, and nothing that measures times. One that is only raised, and read by nothing that makes a
    batch, is a statistic; one that `__iter__` sets begins anew with each iterator anyway.
    """

    def state(self, data: Any) -> dict[str, float]:
        """Return the numbers that a data set and what it holds have, and those that its code names, by these words."""
        found: dict[str, float] = {}
        for name, one in held(data):
            parts = {"": one} if _is_number(one) else {} if is_of_library(one) else attributes(one)
            found |= {f"{name}.{key}" if key else name: value for key, value in parts.items() if _is_number(value)}
        return found | {name: value for name, value in named(innermost(data)) if _is_number(value)}

    def judged(self, data: Any, states: States) -> str:
        """Return the first count that the making of a batch reads."""
        grown = grown_steadily(states)
        matters = _read_in_making(data) if grown else set[str]()
        return next((name for name in grown if name.rpartition(".")[2] in matters), "")


def trained_within(data: Any, trained: Iterable[torch.Tensor]) -> str:
    """Return the attribute or the name by which a data set has a module of `trained` parameters; empty if it has none.

    Workers would have copies of it, which nobody trains.
    """
    own = {id(p) for p in trained}
    modules = ((name, one) for name, one in all_of(data) if isinstance(one, torch.nn.Module))
    return next((name for name, one in modules if any(id(p) in own for p in one.parameters())), "")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _read_in_making(data: Any) -> set[str]:
    """Return the names that the code for a batch reads elsewhere than where it sets them, as `+= 1` does.

    What `__iter__` sets anew, without reading it, is none of them.
    """
    codes, reached, found = _codes(data), set[types.CodeType](), set[str]()
    waiting = [one for name in MAKING for one in codes.get(name, ())]
    while waiting:
        code = waiting.pop()
        if code in reached:
            continue
        reached.add(code)
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        for reads, sets, calls in _uses(code):
            found |= reads - sets
            waiting += [one for name in reads | calls for one in codes.get(name, ())]
    anew = {name for code in codes.get("__iter__", ()) for reads, sets, _ in _uses(code) for name in sets - reads}
    return found - anew


def _uses(code: types.CodeType) -> list[tuple[set[str], set[str], set[str]]]:
    """Return the names that each line of a function reads, that it sets, and that it calls as methods."""
    lines = defaultdict[int, tuple[set[str], set[str], set[str]]](lambda: (set(), set(), set()))
    at = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        at = starts.get(one.offset) or at
        if one.opname in READS:
            is_method = one.opname == "LOAD_METHOD" or "NULL|self" in one.argrepr
            lines[at][2 if is_method else 0].add(one.argval)
        elif one.opname in SETS:
            lines[at][1].add(one.argval)
    return list(lines.values())


def _codes(data: Any) -> Mapping[str, list[types.CodeType]]:
    """Return the code of the functions and methods of a data set and of what it holds, by name."""
    found = defaultdict[str, list[types.CodeType]](list)
    for _, one in all_of(data):
        if isinstance(one, types.FunctionType):  # the data set calls what it holds
            found["__call__"].append(one.__code__)
        elif not is_of_library(one):
            for kind in type(one).__mro__:
                for name, method in vars(kind).items():
                    method = method.fget if isinstance(method, property) else inspect.unwrap(method)
                    if isinstance(code := getattr(method, "__code__", None), types.CodeType):
                        found[name].append(code)
    return found
