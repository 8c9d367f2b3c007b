"""The places in the code where a loader's workers spend their time, found by looking at their stacks as at the trial's.

What the training waits for is made there, and the trial's own stack shows no more than the loop that asks for it. A
worker is a fork of the trial, so it has the trial's handlers of two signals that are hardly used: by one it begins to
look, by the other it tells what it has seen. What workers saw that end before is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from selectors import EVENT_READ, PollSelector
from types import FrameType
from typing import Any

from slowstep_probe.profiled import Place
from slowstep_probe.trial.stack_sampler import StackSampler
from slowstep_probe.trial.stacks import place_of, stack
from slowstep_probe.trial.time_by_place import AT_WORKER, KEPT

SIGNAL = getattr(signal, "SIGRTMIN", 0) + 7
"""The signal that has a worker look, one of those that programs may use as they like. Linux alone has them."""

ENOUGH = SIGNAL + 1
"""The signal that has it tell what it has seen. Two signals of one number that come close together would be one."""

ATOMIC = 4000
"""The bytes of a message that a pipe takes whole, however many write to it (PIPE_BUF is 4096 on Linux)."""

PATIENCE = 1.0
"""Seconds in which a worker may tell what it has seen. One that computes in C reads no signal meanwhile."""

LONGEST = 120.0
"""Seconds after which a worker that is not told to stop looks no longer."""

LOOP, FETCH = "_worker_loop", "fetch"
"""The functions of torch.utils.data in which a worker lives, and makes a batch."""

IN_A_WORKER = ", in a loader's worker"
"""The words after a worker's place."""


class WorkerStacks:
    """Looks at the stacks of workers. It is made in the trial before they are."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self.descriptors = [self._read, self._write]
        self._ready = PollSelector()  # it needs no descriptor of its own
        self._ready.register(self._read, EVENT_READ)
        self._watched: set[int] = set()
        self._late = set[int]()
        """Workers that have not told yet what they saw at an earlier time, which is no answer to what is asked now."""
        self._look: _Look | None = None
        if hasattr(signal, "SIGRTMIN"):
            for number, act in ((SIGNAL, self._looks), (ENOUGH, self._tells)):
                signal.signal(number, act)
                signal.siginterrupt(number, False)

    def begin(self, workers: Iterable[int]) -> None:
        """Begin to look at those of the `workers`, by their process numbers, that are not looked at yet.

        Nobody is looked at if the program handles these signals itself.
        """
        if signal.getsignal(SIGNAL) != self._looks or signal.getsignal(ENOUGH) != self._tells:
            return
        self._late -= {told["pid"] for told in self._told(0.0)}
        for pid in set(workers) - self._watched - self._late:
            if _handles(pid):
                self._watched.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, SIGNAL)

    def end(self) -> Counter[tuple[str, bool]]:
        """Stop looking, and return the microseconds of workers at each place, and whether it is the user's own."""
        found = Counter[tuple[str, bool]]()
        waiting = set()
        for pid in filter(_handles, self._watched):
            with contextlib.suppress(OSError):
                os.kill(pid, ENOUGH)
                waiting.add(pid)
        self._watched.clear()
        while waiting and (every := self._told(PATIENCE)):
            for told in every:
                if told["pid"] in waiting:
                    waiting.discard(told["pid"])
                    found.update({(where, own): count for where, own, count in told["places"]})
                self._late.discard(told["pid"])
        self._late |= waiting
        return found

    def _told(self, patience: float) -> list[dict[str, Any]]:
        """Return what workers have told, after at most so many seconds."""
        if not self._ready.select(patience):
            return []
        return [json.loads(line) for line in os.read(self._read, 2**20).splitlines()]

    def _looks(self, *_: Any) -> None:
        """Begin to look: in a worker, between two of its instructions."""
        if self._look is None:
            look = _Look()
            with contextlib.suppress(Exception):  # no thread can be started, say
                look.begin()
                self._look = look

    def _tells(self, *_: Any) -> None:
        """Stop looking, and tell what was seen; nothing if there was no look."""
        look, self._look = self._look, None
        if look is not None:
            look.end()
        places = look.found.most_common(KEPT) if look is not None else []
        with contextlib.suppress(OSError):
            os.write(self._write, _message([[where, own, count] for (where, own), count in places]))


def _message(places: list[list[Any]]) -> bytes:
    """Return what a worker tells, in one line of at most `ATOMIC` bytes: the most frequent places."""
    while True:
        line = json.dumps({"pid": os.getpid(), "places": places}).encode() + b"\n"
        if len(line) <= ATOMIC:
            return line
        places = places[:-1]


class _Look(StackSampler):
    """Looks at the stack of the worker's main thread, which makes the batches."""

    def __init__(self) -> None:
        super().__init__(threading.main_thread().ident or 0, LONGEST)
        self.found = Counter[tuple[str, bool]]()

    def look(self, frame: FrameType, since: int) -> None:
        """Look once, and note the place if a batch is made there."""
        if makes_batch(frame):
            self.found[place_of(frame, LOOP)] += since


def makes_batch(frame: FrameType) -> bool:
    """Return whether a worker that stands at a frame makes a batch, and does not wait for an order."""
    inside = takewhile(lambda one: one.f_code.co_name != LOOP, stack(frame))
    return any(one.f_code.co_name == FETCH and one.f_globals.get("__name__", "").startswith("torch.") for one in inside)


def of_waiting(places: Sequence[Place], seen: Counter[tuple[str, bool]]) -> list[Place]:
    """Return the places of a trial with those of its workers in place of its own waits for them.

    The share of a wait is spread over what the workers were `seen` to do. Where nothing was seen, a wait stands at its
    own line, apart from what else the line does: it may start the workers.
    """
    waits = sum(place.share for place in places if place.where.endswith(AT_WORKER))
    if not waits or not seen:
        lines = {(place.phase, place.where) for place in places}

        def shown(place: Place) -> str:
            alone = place.where.removesuffix(AT_WORKER)
            return place.where if (place.phase, alone) in lines else alone

        return [replace(place, where=shown(place)) for place in places]
    there = [
        Place(phase="data", where=where + IN_A_WORKER, own=own, share=waits * count / seen.total())
        for (where, own), count in seen.most_common(KEPT)
    ]
    rest = [place for place in places if not place.where.endswith(AT_WORKER)]
    return sorted([*there, *rest], key=lambda place: -place.share)


def _handles(pid: int) -> bool:
    """Return whether a process has handlers for both signals, which would end it otherwise."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            caught = next((line for line in status if line.startswith("SigCgt:")), "SigCgt: 0")
    except OSError:
        return False
    return all(int(caught.split()[1], 16) >> (number - 1) & 1 for number in (SIGNAL, ENOUGH))
