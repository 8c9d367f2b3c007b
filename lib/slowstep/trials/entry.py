"""Where a trial process enters: kept apart so that the session can name it without importing torch."""

from __future__ import annotations

from typing import Any


def enter(connection: Any, launch: Any) -> None:
    """Run the trial; in the forked process, where torch is imported already."""
    from slowstep.trials.child import main

    main(connection, launch)
