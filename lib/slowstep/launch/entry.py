"""Where a trial process enters: kept apart so that the session can name it without importing torch."""

from __future__ import annotations

from typing import Any


def enter(connection: Any, launch: Any) -> None:
    """Run the trial; in the forked process, where torch is imported already."""
    from slowstep.trial.main import main

    main(connection, launch)


def enter_peak(connection: Any, dtype: str) -> None:
    """Measure what the device reaches."""
    from slowstep.trial.peak import measure

    measure(connection, dtype)


def enter_check(connection: Any, settings: Any) -> None:
    """Try what can only be tried with the real libraries."""
    from slowstep.trial.check import check

    check(connection, settings)


def enter_sizes(connection: Any, settings: Any) -> None:
    """Say how large the model is, {} if it can't be had."""
    from slowstep.trial.check import quiet
    from slowstep.workloads.sizes import model_sizes

    try:
        with quiet():
            found = model_sizes(settings)
    except Exception:  # a model that can't be had has no sizes; whoever trains it is told why
        found = {}
    connection.send(found)
