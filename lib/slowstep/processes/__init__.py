"""Processes: their descendants, how all of them end, and what they leave on disk."""

from slowstep.processes.lock import Busy, locked
from slowstep.processes.tree import (
    POLL_SECONDS,
    adopt_orphans,
    end_descendants,
    end_process_tree,
    end_with_parent,
    process_tree,
    reap_adopted,
)

__all__ = [
    "POLL_SECONDS",
    "Busy",
    "adopt_orphans",
    "end_descendants",
    "end_process_tree",
    "end_with_parent",
    "locked",
    "process_tree",
    "reap_adopted",
]
