"""Ranks that a program starts as processes: which they are, and when the one of this process runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slowstep_probe.ranks.processes import Ranks, Started, missing, ranks_of

PROGRAM = Path(__file__).parent / "programs" / "waits_for_its_rank.py"


@pytest.mark.parametrize(
    ("joined", "started", "found"),
    [
        ({0: ("train", 0), 1: ("train", 1)}, {"train": 2}, {"train": [0, 1]}),
        ({1: ("train", 0)}, {"train": 1}, {"train": [1]}),  # the program is rank 0 itself
        ({0: ("train", 0)}, {"train": 1}, {"train": [0]}),  # or the last one
        ({1: ("train", 1)}, {"train": 2}, {"train": [0, 1]}),  # the first one is slow to join
        ({0: ("train", 1), 1: ("train", 2)}, {"train": 3}, {"train": [None, 0, 1]}),
        ({1: ("train", 0), 0: ("train", 1)}, {"train": 2}, {"train": [1, 0]}),  # the last one is started first
        (
            {0: ("learn", 0), 1: ("act", 0), 2: ("learn", 1), 3: ("act", 1)},
            {"learn": 2, "act": 2, "log": 1},
            {"learn": [0, 2], "act": [1, 3]},
        ),
        ({2: ("train", 0), 3: ("train", 1)}, {"train": 2}, {"train": [2, 3]}),  # those of another node come before
        ({0: ("train", 0)}, {"train": 2}, {"train": [0, 1]}),
    ],
)
def test_ranks_are_told_by_those_that_have_joined(
    joined: dict[int, tuple[str, int]], started: dict[str, int], found: Ranks
) -> None:
    """What is started, in which order and by which function, is known; what joined says which ranks that are."""
    size = max(max(joined) + 1, 2)
    ranks = ranks_of({rank: Started(*one) for rank, one in joined.items()}, started, size)

    assert ranks == found
    assert missing(ranks, size) == set(range(size)) - {rank for each in found.values() for rank in each}


def test_a_rank_runs_where_its_program_waits_for_it() -> None:
    """Not before: what the program does when it has started its processes lets them go on."""
    told = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=120, check=False)

    assert told.stderr == ""
    assert told.stdout.splitlines() == [
        "join",
        "is_alive",
        "sentinels",
        "event",
        "queue",
        "simple queue",
        "pipe",
        "queue of a manager",
        "thread",
        "joinable queue",
        "sleep by its own name",
        "sleep",
        "thread that started them",
    ]
