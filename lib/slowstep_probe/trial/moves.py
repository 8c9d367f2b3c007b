"""Operators that only move numbers: they copy, fill or arrange memory, and compute nothing.

What reads or adds at chosen places (`index_select`, `scatter_add`) is none of them, since that is the work of models on
graphs or tables. Casts and copies to a device, which `aten::to` makes, are none either: mixed precision consists of
them. Nor are those with which ranks exchange gradients.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slowstep_probe.profiled import Operator
from slowstep_probe.trial.loops import NODE, of_most_steps, outermost

MOVING = re.compile(
    r"^aten::(copy_|fill_|zero_|cat|stack|im2col|col2im|repeat|repeat_interleave|roll|flip|rot90|tri[lu]_?|unfold_backward"
    r"|constant_pad_nd|(reflection|replication)_pad\dd(_backward)?|pixel_(un)?shuffle|eye|arange|one_hot)$"
)
"""The operators that move numbers, by their names in ATen."""

OTHERS = ("aten::to", "aten::_to_copy", "reducer::", "c10d::", "FSDP::")
"""The beginnings of the names of what copies for another type of numbers, to another device, or for other ranks."""


def moves(
    events: Iterable[Any],
    part: Callable[[Any], tuple[str, int]],
    steps: int,
    own: Callable[[Any], float],
    most: int,
) -> dict[str, list[Operator]]:
    """Return the operators of each phase that move numbers, at most `most`, largest first, each with what called it.

    `events` are those of the profiler on the host, `part` tells the phase and the number of the step of an event, and
    `own` its own time in us. Their seconds are those of most steps, over all of them.
    """
    taken, calls = defaultdict[tuple[str, str], Counter[int]](Counter), Counter[tuple[str, str]]()
    for event in events:
        if MOVING.match(event.name) and not _is_for_others(event):
            phase, step = part(event)
            key = (phase, _named(event))
            taken[key][step] += 1e-6 * own(event)
            calls[key] += 1
    found = defaultdict[str, list[Operator]](list)
    for (phase, name), seconds in _largest_first(taken, steps):
        if seconds > 0 and len(found[phase]) < most:
            found[phase].append(Operator(name=name, calls=calls[phase, name], seconds=seconds))
    return dict(found)


def _largest_first(
    taken: Mapping[tuple[str, str], Mapping[int, float]], steps: int
) -> Sequence[tuple[tuple[str, str], float]]:
    totals = [(key, of_most_steps(seconds, steps)) for key, seconds in taken.items()]
    return sorted(totals, key=lambda total: -total[1])


def _is_for_others(event: Any) -> bool:
    return any(within.name.startswith(OTHERS) for within in _callers(event))


def _named(event: Any) -> str:
    """Return the operator with the node of the backward pass, or the operator, that called it."""
    node = next((e.name for e in _callers(event) if e.name.startswith(NODE)), "")
    caller = node.rpartition(": ")[2] or outermost(event).name
    return event.name if caller == event.name else f"{event.name} in {caller}"


def _callers(event: Any) -> Iterable[Any]:
    """Yield what called an event, and what called that, and so on."""
    while (event := event.cpu_parent) is not None:
        yield event
