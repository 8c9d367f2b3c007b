"""Optimizers while they step: the phase is theirs, but for what their closures compute."""

from __future__ import annotations

import functools
from typing import Any

from slowstep_probe.probe.phases import Phases


class OptimizerCalls:
    """The calls of optimizers that are under way."""

    def __init__(self, phases: Phases):
        self._phases = phases
        self.in_closure = False
        """True while an optimizer calls its closure."""
        self._entered = 0
        """The optimizers that were entered and have not been left. One that raised an error stays."""

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Enter an optimizer's step, and leave it while it calls a closure; returns its arguments with such a closure.

        Returns None if it is given no closure.
        """
        self._entered += 1
        self._phases.enter("optimizer")
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            return None

        @functools.wraps(closure)
        def outside(*given: Any, **named: Any) -> Any:
            self._phases.leave()
            self.in_closure = True
            try:
                return closure(*given, **named)
            finally:
                self.in_closure = False
                self._phases.enter("optimizer")

        return ((args[0], outside, *args[2:]), kwargs) if len(args) > 1 else (args, kwargs | {"closure": outside})

    def leave(self) -> None:
        """Leave the optimizer that was entered last, if one was."""
        if self._entered:
            self._entered -= 1
            self._phases.leave()

    def leave_failed(self) -> bool:
        """Leave optimizers whose step raised an error that the program caught; returns whether there were any."""
        if not self._entered or self.in_closure:
            return False
        while self._entered:
            self.leave()
        return True
