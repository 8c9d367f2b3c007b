"""What the ranks of a surveyed program saw, told as one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.failures import LOST, is_broken
from slowstep_probe.ranks.far import FarWire
from slowstep_probe.ranks.fork import Ranks
from slowstep_probe.ranks.joined import awaited_rank
from slowstep_probe.ranks.rank import Rank

OTHERS_SECONDS = 2.0
"""The seconds that other ranks have once one has told."""

ASKED_SECONDS = 1.0
"""The seconds that those have then that are asked where they can meet: who waits for the first one tells nothing."""


def tell_together(ranks: Ranks, result: int) -> NoReturn:
    """Write what the first rank saw to the descriptor `result`, with the times of all ranks, and end all of them.

    If ranks ended by themselves, the cause is told, and not the connections that it broke.
    """
    told: dict[int, dict[str, Any]] = {}
    until, asked = float("inf"), False
    while len(told) < len(ranks.processes) and time.monotonic() < until:
        ready = ranks.wait([], 0.5)
        for each in ranks.processes:
            number = each.rank.number
            if number not in told and each.wire in ready:
                told[number] = _received(each.wire) or {"ended": "it ended without a word"}
            elif number not in told and each.over:
                told[number] = {"ended": LOST if each.lost else f"it ended with status {each.code}"}
            if number in told and until == float("inf"):
                until = time.monotonic() + OTHERS_SECONDS + ASKED_SECONDS
        if not asked and time.monotonic() > until - ASKED_SECONDS:
            asked = True
            _ask([each.wire for each in ranks.processes if each.rank.number not in told and not each.over])
        if any(each.over for each in ranks.processes):
            time.sleep(0.02)
    ranks.end()
    with os.fdopen(result, "w") as out:
        out.write(json.dumps(_together(told, [each.rank for each in ranks.processes]), default=str) + "\n")
    os._exit(0)


def _ask(wires: Sequence[Wire | FarWire]) -> None:
    """Ask ranks where they can meet others."""
    for wire in wires:
        with contextlib.suppress(OSError):
            wire.send({"tell": True})


def _received(wire: Wire | FarWire) -> dict[str, Any] | None:
    try:
        return wire.receive()
    except (EOFError, OSError):
        return None


def _together(told: dict[int, dict[str, Any]], ranks: Sequence[Rank]) -> dict[str, Any]:
    ends = {number: one["ended"] for number, one in sorted(told.items()) if one.get("ended")}
    own = [number for number, end in ends.items() if not is_broken(end)]
    trained = [one for _, one in sorted(told.items()) if one.get("training")]
    found = dict(trained[0] if trained else told.get(0) or next(iter(told.values())))
    if ends:
        failed = [number for number in own if told[number].get("failed")]
        first = (failed or own or list(ends))[0]
        found |= {"ended": f"{ranks[first]}: {ends[first]}", "failed": told[first].get("failed", False)}
    seen = {number: one["training"] for number, one in sorted(told.items()) if one.get("training")}
    if found.get("training"):
        awaited = list(seen)[awaited_rank([one["phases"] for one in seen.values()])]
        found["training"] |= {
            "phases": seen[awaited]["phases"],
            "step_seconds": seen[awaited]["step_seconds"],
            "processes": len(ranks),
            "ranks": {number: one["phases"] for number, one in seen.items()},
            "meets_after": _meets_after(told, len(ranks)),
            "work": _work_of_all(list(seen.values()), len(seen[awaited]["step_seconds"]), len(ranks)),
        }
    return found


def _meets_after(told: dict[int, dict[str, Any]], ranks: int) -> list[int]:
    """Return the optimizer steps after which each rank meets the others, where some draw from a loader and some do not.

    It is empty where all do, or none does. Ranks that told nothing do as most optimizers: one step.
    """
    loads, updates = dict[int, bool](), dict[int, int]()
    for number, one in told.items():
        if training := one.get("training"):
            loads[number], updates[number] = training["loader"] is not None, training["updates"]
        elif asked := one.get("asked"):
            loads[number], updates[number] = asked["loads"], asked["updates"]
    if len(set(loads.values())) < 2:
        return []
    return [max(1, updates.get(number, 1)) for number in range(ranks)]


def _work_of_all(seen: Sequence[dict[str, Any]], steps: int, ranks: int) -> dict[str, float | None]:
    """Return what all ranks do in so many steps, by what each did in its own. Those not seen do as the others."""
    found: dict[str, float | None] = {}
    for name in seen[0]["work"]:
        each = [(one["work"].get(name), len(one["step_seconds"])) for one in seen]
        known = [value / of for value, of in each if value is not None and of]
        found[name] = sum(known) / len(known) * ranks * steps if len(known) == len(seen) else None
    return found
