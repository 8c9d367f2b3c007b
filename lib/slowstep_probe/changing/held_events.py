"""Periodic events that a Trainer does not do by itself, since they are made to happen when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

CONTROLS = {"save": "should_save", "evaluate": "should_evaluate"}
"""The flag of a Trainer's control by which each event is asked for."""

ENDS = ("on_step_end", "on_epoch_end")
"""The moments at which a Trainer asks for events as its arguments say, by transformers' `DefaultFlowCallback`."""


class HeldEvents:
    """Keeps a Trainer from the events that its arguments ask for, where these are made to happen and measured alone.

    Met in the steps they would count twice. `held` returns their names; it is called once, after the first step, since
    it may ask a data set for its length. The arguments stay as they are, since schedules and the choice of the best
    model are checked against them, and so does what callbacks of the program ask for.
    """

    def __init__(self, held: Callable[[], Collection[str]]):
        self._held = held
        self._names: Collection[str] | None = None

    def attach(self, patches: Patches, late: LateImports) -> None:
        late.on("transformers.trainer_callback", lambda it: self._attach(patches, it.DefaultFlowCallback))

    def _attach(self, patches: Patches, flow: type) -> None:
        for moment in ENDS:
            patches.around(flow, moment, self._asked)

    def _asked(
        self, original: Callable[..., Any], callback: Any, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> Any:
        if self._names is None:
            self._names = tuple(self._held())
        before = {event: getattr(control, CONTROLS[event]) for event in self._names}
        after = original(callback, args, state, control, **kwargs)
        for event, asked in before.items():
            setattr(control if after is None else after, CONTROLS[event], asked)
        return after
