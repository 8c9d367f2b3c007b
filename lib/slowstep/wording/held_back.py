"""What holds a run back beside its steps, in words: other threads and processes, and a quota of CPU time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slowstep.judgement.notes import disturbances
from slowstep.records import Block
from slowstep.text.numbers import percentage

BUSY = 0.2
"""The machine is called busy from this share of blocks that something else interrupted."""

MOST_THREADS = 3
"""The most functions of threads that are named."""

OFTEN = 0.1
"""A quota of CPU time is told of the run from this share of its periods in which it is used up."""


def other_threads(beside: Mapping[str, float], least: float) -> str:
    """Return what a program's threads take beside its training, in sentences.

    `beside` holds their processor time as a share of the time, by the function that each runs. The text is empty if
    they take less than the share `least` together.
    """
    together = sum(beside.values())
    if not beside or together < least:
        return ""
    named = "; ".join(f"{where} {percentage(part)}" for where, part in list(beside.items())[:MOST_THREADS])
    return (
        f"Beside the training, other threads of the program take {percentage(together)} of a processor's time "
        f"({named}). One thread at a time runs Python, so the training may wait for them in any phase, and its phases "
        "look longer by that."
    )


def busy(blocks: Sequence[Block]) -> str:
    """Return what kept the machine busy beside the trials, in a sentence; empty if it did so in few of the blocks."""
    told = [block.interrupted for block in blocks if block.interrupted]
    if not blocks or len(told) / len(blocks) < BUSY:
        return ""
    shown = ", and in ".join(f"{count} of {len(blocks)} blocks {cause}" for cause, count in disturbances(told))
    return f"In {shown}: the same minutes show more where nothing else disturbs the run."


def quota(blocks: Sequence[Block]) -> str:
    """Return how often a quota of CPU time stopped the run in these blocks, in sentences; empty if it seldom did."""
    periods, used_up = sum(b.quota_periods for b in blocks), sum(b.quota_used_up for b in blocks)
    if not periods or used_up / periods < OFTEN:
        return ""
    often = percentage(used_up / periods)
    return (
        f"A quota of CPU time (a container's, or another control group's) is used up in {often} of its periods, and "
        "then the run is stopped until the next one. A larger quota would end that, and so would fewer threads and "
        "loader workers where the run has more of them than the quota pays for."
    )
