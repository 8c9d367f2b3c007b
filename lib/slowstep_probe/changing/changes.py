"""All changes to a program together, in the order in which they have to be attached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from slowstep_probe import uploads
from slowstep_probe.changing.configurations import ENDLESS, OF_TRIAL
from slowstep_probe.changing.effects import Effects
from slowstep_probe.changing.held_events import HeldEvents
from slowstep_probe.changing.interceptors import Interceptors
from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.changing.lightning import LightningEnds
from slowstep_probe.changing.loaders import CachedBatches, EndlessEpochs
from slowstep_probe.changing.option_values import OptionValues
from slowstep_probe.changing.random_draws import RandomDraws
from slowstep_probe.changing.schedules import Schedules
from slowstep_probe.changing.trainer_events import trainer_events
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import looking
from slowstep_probe.patches import Patches
from slowstep_probe.probe.probe import Probe
from slowstep_probe.processes import others
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.trial.program_hooks import EventResult, NotTestable, hooks
from slowstep_probe.weights import arena
from slowstep_probe.weights.built_once import BuiltOnce


class Changes:
    """The changes that are wanted of a program, and what is seen of them.

    `give_up` ends the trial at once, since an exception could be caught by the program. `launchers` have the program's
    launchers go on as the rank that this process is.
    """

    def __init__(
        self, asked: Intervention, probe: Probe, give_up: Callable[[Exception], NoReturn], launchers: Launchers
    ):
        self.probe = probe
        self.launchers = launchers
        self._epochs_end = asked.epochs_end
        self.interceptors = Interceptors(asked.values, asked.feeding, OF_TRIAL | ENDLESS, asked.micro_batches)
        self.schedules = Schedules(self.interceptors.configurations.own_steps)
        self.effects = Effects(lambda: probe.models)
        self.given = OptionValues(asked.values)
        self.weights = BuiltOnce(Path(asked.weights), asked.weights_seconds) if asked.weights else None
        self.draws = RandomDraws()
        hooks.before_first_step = self.before_first_step
        self._events = asked.events
        hooks.periodic_events = self._periodic_events
        self.held = HeldEvents(self._periodic_events)
        fetched = probe.fetched
        self.cached = CachedBatches(self.interceptors.wanted, fetched.has_fed, self._goes_on, give_up, fetched.drawn)
        self.epochs = EndlessEpochs(self._goes_on)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make the changes while the block runs, with the probe attached between them."""
        patches, late = Patches(), LateImports()
        uploads.attach(patches, late)
        others.attach(patches)
        self.effects.attach(patches)
        self.given.attach(patches, late)
        if self.weights:
            self.weights.attach(patches, late)
        self.interceptors.attach(patches, late)
        self.launchers.attach(patches, late)
        self.held.attach(patches, late)
        self.schedules.attach(patches, late)
        LightningEnds(self.schedules, self.launchers.own).attach(patches, late)
        self.cached.attach(patches)
        self.effects.attach_outside(patches)
        try:
            with self.probe.attached():
                outside = Patches()
                self.epochs.attach(outside)
                try:
                    yield
                finally:
                    outside.remove()
        finally:
            late.remove()
            patches.remove()

    def before_first_step(self) -> None:
        """Set again what the program may have set."""
        self.interceptors.flags.set()

    def after_first_step(self) -> None:
        """Look at what the program was given."""
        self.given.look(getattr(self.interceptors.configurations.trainer, "args", None))

    def after_early_step(self) -> None:
        """Look at whether the step drew random numbers, and change the models that are known since."""
        self.draws.look()
        if refused := self.interceptors.settle(self.probe.models):
            raise NotTestable(refused[0])

    def facts(self) -> dict[str, Any]:
        """Return what is in effect, and the changes that were made."""
        wanted, trainer = self.interceptors.wanted, self.interceptors.configurations.trainer
        arguments = getattr(trainer, "args", None)  # a Trainer acts on its arguments; others say nothing
        held = {name: getattr(arguments, name, None) for name in wanted.within("training_arguments")}
        return {
            **{name: value for name, value in held.items() if value is not None},
            **self.effects.facts(self.probe.models, self.probe.loader),
            **self.given.facts(),
            **({"epochs_end": self._epochs_end} if self._epochs_end else {}),
            **(looking(arena.facts)(self.probe.models) or {}),
            "draws": self.draws.seen,
            "cached_batches": self.cached.number if self.cached.given else 0,
            "changes": [asdict(self.given.with_option(one)) for one in wanted.made],
        }

    @property
    def beyond_epoch(self) -> bool:
        """True if an epoch has gone on beyond its loader's last batch, where the program's own would have ended."""
        return self.epochs.epochs > 0 or self.cached.beyond_epoch

    def _periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        return trainer_events(self.interceptors.configurations.trainer, self._events)

    def _goes_on(self, iterator: Any) -> bool:
        """Whether a loop goes on after its loader's last batch.

        It does not if it is Trainer's, which counts its own steps, and if what comes next is a part of training: an
        optimizer step, or another loader.
        """
        if self.interceptors.by_trainer or self._epochs_end:
            return False
        return self.probe.fetched.has_fed(iterator) and self.probe.holds_steps(iterator)
