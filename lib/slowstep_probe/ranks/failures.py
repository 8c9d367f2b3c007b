"""The cause among what the ranks of a trial say, or leave unsaid, when it fails."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from slowstep_probe.measured import WHERE_RANKS_WAIT, Status
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
        if any(part in failed.reason for part in BROKEN):
            return 4
        return 3 if failed.status is Status.ENDED else 2

    return min(failures, key=order)


def standing(places: Mapping[int, tuple[str, int] | None], names: Mapping[int, str] | None = None) -> str:
    """Return in words where ranks stand that give no answer: each with its phase and the steps that it has trained.

    One that is in no phase in which ranks wait for each other, or that has trained fewer steps, keeps the others
    waiting. None stands for a rank that does not even say where it is. `names` are what the ranks are called.
    """
    names = names or {rank: f"rank {rank}" for rank in places}
    told = {rank: place for rank, place in places.items() if place is not None}
    least = min((steps for _, steps in told.values()), default=0)
    behind = [r for r, (phase, steps) in told.items() if phase not in WHERE_RANKS_WAIT and steps == least]
    silent = [rank for rank in places if rank not in told]
    held = silent or behind
    where = ", ".join(
        f"{names[rank]} in {told[rank][0]} after {told[rank][1]} steps"
        if rank in told
        else f"{names[rank]} says nothing"
        for rank in sorted(places)
    )
    if held and len(held) < len(places):
        ranks = " and ".join(names[rank] for rank in sorted(held))
        keep = "keeps" if len(held) == 1 else "keep"
        return f"no answer in time: {ranks} {keep} the others waiting ({where}); the log says where each stood"
    return f"no answer in time ({where}); the log says where each rank stood"
