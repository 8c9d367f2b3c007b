"""The question where a rank stands, which it answers while its training hangs: a thread waits for it, and nothing else.

A rank whose main thread keeps the interpreter does not answer. That is an answer, too.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from slowstep_probe.processes.wire import Wire, wait
from slowstep_probe.ranks.fork import RankProcess, Ranks

SECONDS = 0.4
"""The seconds that ranks have to answer."""


def answer_where(wire: Wire, place: Callable[[], tuple[str, int]]) -> None:
    """Answer each question over a wire by the phase and the steps trained, from a thread of its own."""

    def answering() -> None:
        try:
            while True:
                wire.receive()
                phase, steps = place()
                wire.send({"phase": phase, "steps": steps})
        except (EOFError, OSError):
            return

    threading.Thread(target=answering, name="whereabouts", daemon=True).start()


def ask_everywhere(ranks: Ranks) -> dict[int, tuple[str, int] | None]:
    """Return the phase of each rank of all nodes, and the steps that it has trained; None for one without an answer."""
    answers = [node.ask_where() for node in ranks.nodes]
    found = ask_where(ranks.here)
    for answer in answers:
        found |= answer(2 * SECONDS)
    return found


def ask_where(ranks: Sequence[RankProcess]) -> dict[int, tuple[str, int] | None]:
    """Return the phase of each rank and the steps that it has trained; None for one that does not answer."""
    for each in ranks:
        with contextlib.suppress(OSError):  # it has ended
            each.where.send({})
    found: dict[int, tuple[str, int] | None] = dict.fromkeys(each.rank.number for each in ranks)
    deadline = time.monotonic() + SECONDS
    open_ones = list(ranks)
    while open_ones and (left := deadline - time.monotonic()) > 0:
        ready = wait([each.where for each in open_ones], left)
        for each in [each for each in open_ones if each.where in ready]:
            open_ones.remove(each)
            try:
                told = each.where.receive(0)
            except (EOFError, OSError, TimeoutError):
                continue
            found[each.rank.number] = (told["phase"], told["steps"])
    return found
