"""Signals: SIGTERM and SIGHUP end a program as Ctrl-C does. Everything that it started ends, and it says so."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from slowstep.text.terminal import say

ENDING = (signal.SIGTERM, signal.SIGHUP)

_guests: list[object] = []
"""The objects that called `watch` and still need its handlers."""

_handlers: dict[int, object] = {}
"""The handlers that `watch` has set, by signal."""


class Terminated(SystemExit):
    """The end of the program by SIGTERM or SIGHUP. Its exit status is 128 plus the signal's number."""

    def __init__(self, number: int):
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise Terminated, and SIGINT KeyboardInterrupt, once; later signals are ignored.

    So an impatient second Ctrl-C can't interrupt the end of what was started, nor what is done when the program exits.
    A signal that the caller of this program has set to be ignored (nohup) stays ignored.
    """
    if not _in_main_thread():
        yield
        return
    wanted = [number for number in (signal.SIGINT, *ENDING) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in wanted}

    def unwind(number: int, _: object) -> None:
        for each in wanted:
            signal.signal(each, signal.SIG_IGN)
        before.clear()  # the program is about to end
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    for number in wanted:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold signals back while the block runs, and let them through afterwards: what it starts is known by then.

    A signal that ends this process at once, since nothing handles it, is not held.
    """
    if not _in_main_thread():
        yield
        return
    came: list[int] = []
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, *ENDING) if callable(signal.getsignal(n))}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def watch(guest: object, end: Callable[[], None]) -> None:
    """Let SIGTERM and SIGHUP end this process in an orderly way, if nothing else handles them; `unwatch` undoes this.

    They raise Terminated. A notebook's kernel would take that exception for an error of a cell, so there `end` is
    called, and then the process ends by the signal itself.
    """
    if not _in_main_thread():
        return

    def handle(number: int, _: object) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            say(error=True)
            say(f"slowstep: ended by {signal.Signals(number).name}; its trials end, too", error=True)
        if "ipykernel" not in sys.modules:
            raise Terminated(number)
        end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    _guests.append(guest)
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, handle)
            _handlers[number] = handle


def unwatch(guest: object) -> None:
    """Take the handlers of `watch` back when the last guest that asked for them is gone."""
    if not _in_main_thread() or guest not in _guests:
        return
    _guests.remove(guest)
    if _guests:
        return
    for number, handler in _handlers.items():
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)
    _handlers.clear()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
