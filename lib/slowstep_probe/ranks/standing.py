"""Where the ranks of a trial stand when none of them answers, and which one keeps the others waiting."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import NamedTuple

from slowstep_probe.measured import WHERE_RANKS_WAIT

COLLECTIVES = (os.path.join("torch", "distributed") + os.sep, os.path.join("slowstep_probe", "ranks", "collectives.py"))
"""Parts of a file's path by which the code is known that waits for other ranks: PyTorch's, and what times its calls."""

ENGINE = ("_engine_run_backward", "backward")
"""The functions of torch.autograd from which a backward pass goes on in C++, and so does an exchange of gradients."""


class RankState(NamedTuple):
    """Where a rank stands."""

    phase: str
    steps: int
    """The steps that it has trained."""
    waits: bool
    """True if it waits for other ranks, for all that its stack shows."""


def waits_for_others() -> bool:
    """Return whether this process's main thread stands in a collective or in the C++ of a backward pass.

    A hook that a backward pass calls is the program's own code. On a CPU it runs in the main thread, for a device in a
    thread that Python does not know.
    """
    frames = sys._current_frames()
    known = {thread.ident for thread in threading.enumerate()}
    hooks = [frame for number, frame in frames.items() if number not in known]
    return all(map(_waits, [frames[threading.main_thread().ident], *hooks]))


def _waits(innermost: FrameType) -> bool:
    code = innermost.f_code
    in_engine = code.co_name in ENGINE and f"torch{os.sep}autograd" in code.co_filename
    return in_engine or any(part in code.co_filename for part in COLLECTIVES)


def standing(places: Mapping[int, RankState | None], names: Mapping[int, str]) -> str:
    """Return in words where ranks stand that give no answer: each with its phase and the steps that it has trained.

    Of those that have trained the fewest steps, one that waits for nobody keeps the others waiting, above all if it is
    in no phase in which ranks wait for each other. None stands for a rank that does not even say where it is. `names`
    are what the ranks are called.
    """
    told = {rank: place for rank, place in places.items() if place is not None}
    least = min((place.steps for place in told.values()), default=0)
    busy = [rank for rank, place in told.items() if place.steps == least and not place.waits]
    held = [rank for rank in places if rank not in told]
    held = held or [rank for rank in busy if told[rank].phase not in WHERE_RANKS_WAIT] or busy
    where = ", ".join(
        f"{names[rank]} in {told[rank].phase} after {told[rank].steps} steps"
        if rank in told
        else f"{names[rank]} says nothing"
        for rank in sorted(places)
    )
    if held and len(held) < len(places):
        ranks = " and ".join(names[rank] for rank in sorted(held))
        keep = "keeps" if len(held) == 1 else "keep"
        return f"no answer in time: {ranks} {keep} the others waiting ({where}); the log says where each stood"
    return f"no answer in time ({where}); the log says where each rank stood"
