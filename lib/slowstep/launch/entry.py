"""The entries of trial processes, kept apart so that the measurer can name them without importing torch."""

from __future__ import annotations

from typing import Any


def enter(connection: Any, launch: Any) -> None:
    """Run the trial. This is called in the forked process, where torch is imported already."""
    from slowstep.trial.main import main

    main(connection, launch)


def enter_peak(connection: Any, dtype: str) -> None:
    """Measure the device's peak in `dtype`, and send it (`slowstep.trial.device_peak`)."""
    from slowstep.trial.device_peak import measure

    measure(connection, dtype)


def enter_check(connection: Any, settings: Any) -> None:
    """Try the settings with the installed libraries, and send what they refuse (`slowstep.trial.check`)."""
    from slowstep.trial.check import check

    check(connection, settings)


def enter_sizes(connection: Any, settings: Any) -> None:
    """Send the sizes of the model by name; {} if the model can't be had."""
    from slowstep.trial.check import quiet
    from slowstep.workloads.meta_sizes import model_sizes

    try:
        with quiet():
            found = model_sizes(settings)
    except Exception:  # a model that can't be had has no sizes; whoever trains it is told why
        found = {}
    connection.send(found)
