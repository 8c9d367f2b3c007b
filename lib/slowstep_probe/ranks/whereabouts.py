"""The question where a rank stands, which it answers while its training hangs: a thread waits for it, and nothing else.

A rank whose main thread keeps the interpreter does not answer. That is an answer, too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire, wait
from slowstep_probe.ranks.fork import RankProcess, Ranks
from slowstep_probe.ranks.standing import RankState, waits_for_others

SECONDS = 0.4
"""The seconds that ranks have to answer."""


def answer_where(wire: Wire, place: Callable[[], tuple[str, int]]) -> None:
    """Answer each question over a wire by the phase, the steps trained, and whether the rank waits for others.

    A thread of its own answers.
    """

    def answering() -> None:
        try:
            while True:
                wire.receive()
                phase, steps = place()
                wire.send(RankState(phase, steps, waits_for_others())._asdict())
        except (EOFError, OSError):
            return

    threading.Thread(target=answering, name="whereabouts", daemon=True).start()


def ask_everywhere(ranks: Ranks) -> dict[int, RankState | None]:
    """Return where each rank of all nodes stands; None for one that does not answer."""
    answers = [node.ask_where() for node in ranks.nodes]
    found = ask_where(ranks.here)
    for answer in answers:
        found |= answer(2 * SECONDS)
    return found


def ask_where(ranks: Sequence[RankProcess]) -> dict[int, RankState | None]:
    """Return where each rank stands; None for one that does not answer."""
    for each in ranks:
        with contextlib.suppress(OSError):  # it has ended
            each.where.send({})
    found: dict[int, RankState | None] = dict.fromkeys(each.rank.number for each in ranks)
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
            found[each.rank.number] = RankState(**told)
    return found
