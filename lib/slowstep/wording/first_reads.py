"""A wait for files that later launches found in memory, in words."""

from __future__ import annotations

from slowstep.judgement.first_reads import FirstReads
from slowstep.text.phases import phase_named
from slowstep.text.sentences import capitalised
from slowstep.wording.words import share_span, size

MEANS = (
    " The shares are those of steps that read from disk. Gains were mostly measured with files in memory: in such a "
    "job those of other changes are smaller, and what loader workers bring is not known."
)
"""What figures mean where files are read from disk in a large part of the job."""


def waits_for_disk(found: FirstReads | None) -> str:
    """Return what a run waits for files at first, and later, and what that means for the job, in sentences.

    The text is empty where no wait is known.
    """
    if found is None:
        return ""
    both = (
        f"{capitalised(phase_named(found.phase))} takes {share_span(found.from_disk)} of the time while files are read "
        f"from disk, and {share_span(found.from_memory)} once they are in memory, as later launches find them"
    )
    if found.fits_in_memory:
        both = f"{both}; memory can hold what an epoch reads (about {size(found.epoch_bytes)})"
        return f"{both}, so the job waits as at first in its first epoch alone.{MEANS if found.matters else ''}"
    sizes = ""
    if found.epoch_bytes and found.memory:
        sizes = f" (an epoch reads about {size(found.epoch_bytes)}, and there are {size(found.memory)} of memory here)"
    return f"{both}: a job that reads more than memory holds{sizes} waits as at first.{MEANS}"
