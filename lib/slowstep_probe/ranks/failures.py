"""The cause among what the ranks of a trial say, or leave unsaid, when it fails."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from slowstep_probe.measured import Status
from slowstep_probe.places import AT_THE_END
from slowstep_probe.trial.messages import Failed

BROKEN = (
    "Connection reset",
    "Connection closed",
    "Connection refused",
    "Broken pipe",
    "Socket",
    "gloo",
    "NCCL",
    "ProcessGroup",
    "Timed out waiting",
    "c10d",
)
"""Parts of what a rank says whose connection to another one broke. It is no cause, but what a cause leaves behind."""

WITHOUT_A_WORD = "without a word"

LOST = f"the connection to its node is gone {WITHOUT_A_WORD}"
"""What is said of a rank of which nothing can be heard any more."""


def is_broken(reason: str) -> bool:
    """Return whether a rank says that a connection broke. Names in the user's code say nothing of that."""
    said = AT_THE_END.sub("", reason)
    return any(part in said for part in BROKEN)


def gone(code: int | None, lost: bool = False) -> Failed:
    """Return the failure of a rank that ended without a message, by its exit status; or of one whose node is `lost`."""
    if lost:
        return Failed(status=Status.CRASHED, reason=LOST)
    if code == -signal.SIGKILL:
        return Failed(status=Status.OUT_OF_MEMORY, reason="killed by SIGKILL, as the kernel does when memory runs out")
    how = f"ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with status {code}"
    return Failed(status=Status.CRASHED, reason=f"{how} {WITHOUT_A_WORD}")


def culprit(failures: Sequence[tuple[int, Failed]]) -> tuple[int, Failed]:
    """Return the rank whose failure is the cause of all, with its failure.

    Survivors may speak before the one that failed. Memory that ran out explains the rest, then a process that is gone
    without a word, then an error of the program's own, then the end of its training, then a connection that broke.
    """

    def order(one: tuple[int, Failed]) -> int:
        failed = one[1]
        if failed.status is Status.OUT_OF_MEMORY:
            return 0
        if WITHOUT_A_WORD in failed.reason:
            return 1
        if is_broken(failed.reason):
            return 4
        return 3 if failed.status is Status.ENDED else 2

    return min(failures, key=order)
