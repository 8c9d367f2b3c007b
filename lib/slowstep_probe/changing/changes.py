"""All changes to a program together, in the order in which they have to be attached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NoReturn

from slowstep_probe.changing.configurations import ENDLESS, OF_TRIAL, Configurations, LightningEnds
from slowstep_probe.changing.effects import Effects
from slowstep_probe.changing.flags import Flags
from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.changing.loaders import CachedBatches, EndlessEpochs, LoaderArguments
from slowstep_probe.changing.models import ModelChanges
from slowstep_probe.changing.optimizers import OptimizerArguments
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.launchers import run_here
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, Places
from slowstep_probe.probe import Probe


class Changes:
    """The changes that are wanted of a program, and what is seen of them.

    `give_up` ends the trial at once, since an exception could be caught by the program.
    """

    def __init__(self, asked: Intervention, program: str, probe: Probe, give_up: Callable[[Exception], NoReturn]):
        self.asked, self.probe = asked, probe
        self.wanted = Wanted(asked.values, Places(program))
        self.configurations = Configurations(self.wanted, OF_TRIAL | (ENDLESS if asked.endless else {}))
        self.flags = Flags(self.wanted)
        self.effects = Effects()
        self.cached = CachedBatches(self.wanted, probe.has_fed, give_up)
        self.epochs = EndlessEpochs(self._goes_on)
        self.models = ModelChanges(self.wanted)
        self._loaders = LoaderArguments(self.wanted, self._feeds)
        self._optimizers = OptimizerArguments(self.wanted)
        self._feeding = {(file, line) for file, line in asked.feeding}

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make the changes while the block runs, with the probe attached between them."""
        patches, late = Patches(), LateImports()
        self.flags.set()
        self.effects.attach(patches)
        self.models.attach(patches)
        run_here(late)
        self.configurations.attach(patches, late)
        if self.asked.endless:
            LightningEnds().attach(patches, late)
        self._loaders.attach(patches)
        self._optimizers.attach(patches)
        self.cached.attach(patches)
        try:
            with self.probe.attached():
                outside = Patches()
                if self.asked.endless:
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
        self.flags.set()

    def after_first_step(self) -> None:
        """Change the models, which are known now."""
        self.models.settle(self.probe.models, by_trainer=self.configurations.trainer is not None)

    def facts(self) -> dict[str, Any]:
        """Return what is in effect, and the changes that were made."""
        arguments = getattr(self.configurations.trainer, "args", None)  # those of a Trainer, which acts on them
        held = {name: getattr(arguments, name, None) for name in self.wanted.within("training_arguments")}
        return {
            **{name: value for name, value in held.items() if value is not None},
            **self.effects.facts(self.probe.models),
            "cached_batches": self.cached.number if self.cached.given else 0,
            "changes": [asdict(one) for one in self.wanted.made],
        }

    def _feeds(self, place: CodePlace) -> bool:
        if self.configurations.trainer is not None:  # whose loaders have the arguments' values
            return False
        return not self._feeding or (place.file, place.line) in self._feeding

    def _goes_on(self, iterator: Any) -> bool:
        """Whether a loop goes on after its loader's last batch: not if it is Trainer's, which counts its own steps."""
        return self.configurations.trainer is None and self.probe.has_fed(iterator)
