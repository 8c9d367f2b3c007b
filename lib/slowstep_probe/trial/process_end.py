"""The end of a trial's process: at once, and undisturbed by the handlers of the program."""

from __future__ import annotations

import signal
import threading
from typing import NoReturn

from slowstep_probe.processes.own_end import EXIT
from slowstep_probe.processes.standard_streams import flush


def end(status: int = 0) -> NoReturn:
    """End this process without unwinding the program, whose handlers might save or upload what a trial made."""
    flush()
    EXIT(status)


def without_child_signals() -> None:
    """Remove the handler that runs when a worker ends, whatever it raises in the meantime.

    It runs in the main thread, which alone may remove it.
    """
    try:
        while signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
            try:
                if threading.current_thread() is not threading.main_thread():
                    return
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            except BaseException:
                continue
    except BaseException:
        return
