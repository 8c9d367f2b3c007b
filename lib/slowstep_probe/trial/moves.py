"""Operators that only move numbers: they copy, fill or arrange memory, and compute nothing.

What reads or adds at chosen places (`index_select`, `scatter_add`) is none of them, since that is the work of models on
graphs or tables. Casts and copies to a device, which `aten::to` makes, are none either: mixed precision consists of
them. Nor are those with which ranks exchange gradients.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from slowstep_probe.profiled import Operator
from slowstep_probe.trial.host_events import NODE, HostEvents, callers, outermost

MOVING = re.compile(
    r"^aten::(copy_|fill_|zero_|cat|stack|im2col|col2im|repeat|repeat_interleave|roll|flip|rot90|tri[lu]_?|unfold_backward"
    r"|constant_pad_nd|(reflection|replication)_pad\dd(_backward)?|pixel_(un)?shuffle|eye|arange|one_hot)$"
)
"""The operators that move numbers, by their names in ATen."""

OTHERS = ("aten::to", "aten::_to_copy", "reducer::", "c10d::", "FSDP::")
"""The beginnings of the names of what copies for another type of numbers, to another device, or for other ranks."""


def moves(events: HostEvents, most: int) -> dict[str, list[Operator]]:
    """Return the operators of each phase that move numbers, at most `most`, largest first, each with what called it."""
    taken, calls = defaultdict[tuple[str, str], Counter[int]](Counter), Counter[tuple[str, str]]()
    for event in events.every:
        if MOVING.match(event.name) and not any(one.name.startswith(OTHERS) for one in callers(event)):
            phase, step = events.part(event)
            key = (phase, _named(event))
            taken[key][step] += 1e-6 * events.own(event)
            calls[key] += 1
    found = defaultdict[str, list[Operator]](list)
    for (phase, name), seconds in events.totals(taken).items():
        if len(found[phase]) < most:
            found[phase].append(Operator(name=name, calls=calls[phase, name], seconds=seconds))
    return dict(found)


def _named(event: Any) -> str:
    """Return the operator with the node of the backward pass, or the operator, that called it."""
    node = next((e.name for e in callers(event) if e.name.startswith(NODE)), "")
    caller = node.rpartition(": ")[2] or outermost(event).name
    return event.name if caller == event.name else f"{event.name} in {caller}"
