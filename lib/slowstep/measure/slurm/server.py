"""What runs in a job: a local measurer that serves the requests in its mailbox until home asks it to end.

All that must outlive the job lies in the mailbox. So a job that is requeued, by Slurm or by submitit, starts with
nothing, says that it has started anew, and is asked again.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from slowstep.launch.warm_interpreter import own_path
from slowstep.measure.local import LocalMeasurer, here
from slowstep.measure.slurm.mailbox import BEAT_SECONDS, HOME, SILENT_SECONDS, Mailbox
from slowstep.measure.slurm.messages import JobStart, MailboxAnswer, MessagePart, Request, Spent, measured_by
from slowstep.processes.signals import Terminated
from slowstep.records import Pair, Status
from slowstep.settings.schema import Budget

POLL_SECONDS = 0.2
"""The seconds between two looks into the mailbox of a job that has nothing to do."""

NOTICE_SECONDS = 900.0
"""The most seconds from a notice of the end to the end. A cluster's grace time is some minutes at most."""

HESITATION_SECONDS = 2.0
"""The seconds that a crash is kept back: if a notice of the job's end comes meanwhile, that was the reason."""

COMPARE = "compare_together"
"""The verb whose answer comes in parts."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A job's work, which submitit sends there. `idle_seconds` without a request end it."""

    mailbox: Path
    budget: Budget
    logs: Path
    idle_seconds: float
    path: list[str] = field(default_factory=own_path)
    """The folders in which home finds modules, such as a workload of one's own."""
    silent_seconds: float = SILENT_SECONDS
    """The seconds without a sign of life of home after which the job ends."""

    def __call__(self) -> NoReturn:
        """Serve requests until home asks for the end, is gone, or has had nothing to ask for long.

        It exits then, since submitit would keep what a function returns in a file.
        """
        sys.path += [folder for folder in self.path if folder not in sys.path]
        self._work()
        sys.exit()

    def _work(self) -> None:
        box = Mailbox(self.mailbox)
        if box.ended:
            return
        start = _start(box)
        silent, listened = threading.Event(), box.folder.parent / HOME
        _heed_signals(box, silent)
        threading.Thread(target=_listen, args=(listened, self.silent_seconds, silent), daemon=True).start()
        try:
            self._serve_until_notice(box, start)
        except _NotRequeued as over:  # submitit writes down why
            raise over.__cause__ from None

    def _serve_until_notice(self, box: Mailbox, start: JobStart) -> None:
        try:
            self._serve_all(box, start)
        except _Notice:  # a job that ended before it is killed would count as done, and not be requeued
            until = time.monotonic() + NOTICE_SECONDS
            while time.monotonic() < until and not box.ended:
                time.sleep(POLL_SECONDS)

    def _serve_all(self, box: Mailbox, start: JobStart) -> None:
        with LocalMeasurer(self.budget, self.logs / start.name) as measurer:
            box.put(f"start.{start.name}", start)
            last, done = time.monotonic(), set[str]()
            while not box.ended:
                asked = [n for n in box.names() if n.startswith(f"{start.name}.") and n.endswith(".request")]
                for name in [name for name in asked if name not in done]:
                    done.add(name)
                    _serve(box, start, measurer, name.removesuffix(".request"))
                    last = time.monotonic()
                if time.monotonic() - last > self.idle_seconds:
                    box.put(f"left.{start.name}", f"nothing was asked for {self.idle_seconds:.0f} s")
                    return
                time.sleep(POLL_SECONDS)

    def checkpoint(self) -> Any:
        """Return what submitit shall run once the job has been requeued: the same, from its beginning."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _start(box: Mailbox) -> JobStart:
    """Return this start of the job, with the environment of its node."""
    import submitit

    job = submitit.JobEnvironment().job_id
    count = 1 + sum(name.startswith(f"start.{job}-") for name in box.names())
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return JobStart(name=f"{job}-{count}", node=node, pid=os.getpid(), environment=here())


def _serve(box: Mailbox, start: JobStart, measurer: LocalMeasurer, name: str) -> None:
    """Answer one request. An exception is an answer, too, and the job's log says where it came from."""
    request: Request = box.take(f"{name}.request")
    measurer.deadline = time.monotonic() + request.left

    def spent() -> Spent:
        return Spent(measured_seconds=measurer.measured_seconds, steps=measurer.steps)

    try:
        if request.verb == COMPARE:
            value = None
            for place, record in _compared(measurer, *request.arguments, on_pairs=_pairs_callback(box, name)):
                _hesitate(record)
                box.put(
                    f"{name}.part.{place}", MessagePart(place=place, record=measured_by(start, record), spent=spent())
                )
        else:
            value = measured_by(start, getattr(measurer, request.verb)(*request.arguments))
            _hesitate(value)
        answer = MailboxAnswer(value=value, spent=spent())
    except Exception as error:
        traceback.print_exc()
        answer = MailboxAnswer(error=f"{type(error).__name__}: {error}", spent=spent())
    box.put(f"{name}.answer", answer)


def _compared(measurer: LocalMeasurer, requests: list[Any], on_pairs: Callable[[int, Any], None]) -> Any:
    if len(requests) == 1:
        record = measurer.compare(requests[0], partial(on_pairs, 0))
        return [(0, record)] if record is not None else []
    return measurer.compare_together(requests, on_pairs)


def _pairs_callback(box: Mailbox, name: str) -> Callable[[int, list[Pair]], None]:
    """Return a function that leaves the pairs so far. What can't be left is left out: the next message says it."""

    def on_pairs(place: int, pairs: list[Pair]) -> None:
        with suppress(OSError):
            box.put(f"{name}.told.{place}", list(pairs))

    return on_pairs


class _Notice(BaseException):
    """The notice that the job is about to end."""


class _NotRequeued(BaseException):
    """The end of a job that has reached its time limit once too often. Its cause is submitit's own exception."""


def _heed_signals(box: Mailbox, silent: threading.Event) -> None:
    """Let SIGTERM end the job if home has asked for that or is gone, and else end what is measured.

    Slurm sends it to all processes of a job some time before it kills them. So the trials have had it, too, and what
    becomes of them is no result.

    submitit raises an ordinary exception at the time limit of a job that it does not requeue. What is measured at that
    moment would take it for an error of its own, so it gets through as one that nobody catches.
    """
    import submitit
    from submitit.core.utils import UncompletedJobError

    def handle(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated(number) if silent.is_set() or box.ended else _Notice

    def at_time_limit(number: int, frame: FrameType | None) -> None:
        try:
            of_submitit(number, frame)
        except UncompletedJobError as error:
            raise _NotRequeued from error

    signal.signal(signal.SIGTERM, handle)
    limit = signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]
    of_submitit = signal.getsignal(limit)
    if callable(of_submitit):
        signal.signal(limit, at_time_limit)


def _hesitate(record: Any) -> None:
    """Wait a moment before a crash is told, since the end of the job may be its reason."""
    trials = [getattr(record, side, None) for side in ("baseline", "treatment", "trial")]
    if any(trial is not None and trial.status is Status.CRASHED for trial in trials) or getattr(record, "failed", None):
        time.sleep(HESITATION_SECONDS)


def _listen(home: Path, most: float, silent: threading.Event) -> None:
    """End the job when home has shown no sign of life for `most` seconds, by this node's clock."""
    seen, since = None, time.monotonic()
    while True:
        time.sleep(min(BEAT_SECONDS, most / 4))
        with suppress(OSError):
            if (now := home.stat().st_mtime_ns) != seen:
                seen, since = now, time.monotonic()
        if time.monotonic() - since > most:
            silent.set()
            os.kill(os.getpid(), signal.SIGTERM)
            return
