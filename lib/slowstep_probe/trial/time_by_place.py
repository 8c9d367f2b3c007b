"""The places in the code where training spends its time, found by looks at its stack (`StackSampler`).

The looks are taken in the profiled trial, which is never judged.

Where a device computes, the host runs ahead of it, and waits for it wherever a value is read back: what it does while
the device is still at earlier work costs nothing. So such a look counts for the place where it stands only in what
trains: a phase that trains nothing takes time from the moment at which the device comes to it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import FrameType
from typing import NamedTuple

import torch

from slowstep_probe.looks import looking
from slowstep_probe.measured import TRAINS
from slowstep_probe.own_time import time
from slowstep_probe.profiled import Place
from slowstep_probe.trial.stack_sampler import StackSampler
from slowstep_probe.trial.stacks import (
    Function,
    called_from,
    caller_of_module,
    outermost_of,
    own_functions,
    package_function,
    place_of,
    stack,
)
from slowstep_probe.trial.threads_beside import ThreadsBeside
from slowstep_probe.trial.update_calls import UpdateCalls

KEPT = 12
"""The most places that are kept for each phase."""

TRAINING_PHASES = {"data", *TRAINS}
"""The phases of which a library's loop has several."""

SOME, MOST = 0.01, 0.3
"""The share of all the time from which on a phase counts as standing at a line, and the share of a line's time from
which on its commonest function is told."""

AT_WORKER = ", waiting for a loader's worker"
"""The words after a place at which the training waits for a worker's batch."""


class StackLook(NamedTuple):
    """What one look sees."""

    mark: int
    """The number of the last mark. The phase that follows the mark is named afterwards."""
    where: str
    """The place."""
    own: bool
    """True if that is the user's own code."""
    inside: str = ""
    """The function of a package there."""
    functions: tuple[Function, ...] = ()
    """The user's own functions on the stack, outermost first."""
    caller: str = ""
    """The place in the user's own code that calls the module which runs; empty if none runs."""
    calls: tuple[int, ...] = ()
    """All functions on the stack, where the program may update its weights by one of them, by the `id` of each."""
    hook: Function | None = None
    """The user's own hook on an optimizer that runs; None if none does."""


class Places(StackSampler):
    """Looks at the stack of the thread that made it, from `begin` to `stop`, which are called there as well."""

    def __init__(
        self,
        moment: Callable[[], int],
        weights: Callable[[], Sequence[torch.Tensor]] = lambda: (),
        hooks: Collection[int] = (),
        within: str = "",
    ):
        """Make it. `weights` returns those that the program updates without an optimizer of PyTorch's.

        `hooks` are the user's own hooks on optimizers, by the `id` of their code. Code counts as the user's own that is
        called from the function `within`, if it is named.
        """
        super().__init__(threading.get_ident())
        self._hooks, self._within = hooks, within
        self.moment = moment
        """A function that returns the number of the last mark."""
        self.updates = UpdateCalls(weights)
        self.found: Counter[StackLook] = Counter()
        """The microseconds that looks count for, by what they saw."""
        self._threads = ThreadsBeside()
        self.beside: dict[str, float] = {}
        """The processor time of other threads as `ThreadsBeside` tells it; known after `stop`."""
        self._looks: list[tuple[StackLook, int, float]] = []
        """What each look saw, the microseconds that it counts for, and its moment."""

    def begin(self) -> None:
        """Begin to look, in the thread that is looked at."""
        self._threads.begin()
        super().begin()

    def stop(self, phases: Sequence[str], reached: Callable[[], Sequence[float]] = lambda: ()) -> list[Place]:
        """Stop looking, and return the places with their shares of the whole time, largest first.

        `phases` holds the phase that follows each mark. Of each phase `KEPT` places are kept. `reached` returns when
        what trains came to each mark, by `time.monotonic()`: a device comes there later than the host.
        """
        self.end()
        self.beside = self._threads.end()
        self.updates.end()
        return placed(self.found, phases, self.updates.found, self._ahead(reached()))

    def _ahead(self, reached: Sequence[float]) -> Counter[StackLook]:
        """Return the microseconds of looks in which the device had not yet come to the mark, by what they saw."""
        found = Counter[StackLook]()
        for seen, since, at in self._looks:
            if seen.mark < len(reached) and at < reached[seen.mark]:
                found[seen] += since
        return found

    def look(self, frame: FrameType, since: int) -> None:
        """Look once, and note the phase and the place."""
        mark, at = self.moment(), time.monotonic()
        where, own = place_of(frame, self._within)
        place = where + AT_WORKER * called_from(frame, "_try_get_data")
        if own:
            frames = list(takewhile(lambda one: one.f_code.co_name != self._within, stack(frame)))
            inside, functions, caller = package_function(frame), own_functions(frames), caller_of_module(frames)
            seen = StackLook(mark, place, own, inside, functions, caller, hook=outermost_of(frame, self._hooks))
        else:
            seen = StackLook(mark, place, own)
        seen = seen._replace(calls=looking(self.updates.look)(stack(frame), mark) or ())
        self.found[seen] += since
        self._looks.append((seen, since, at))


class _At(NamedTuple):
    """A place that time goes to, in one phase."""

    phase: str
    where: str
    own: bool
    hooked: bool


@dataclass
class _Spent:
    """The microseconds at a place: in all, by the function of a package there, and by the user's function around it."""

    whole: int = 0
    inside: Counter[str] = field(default_factory=Counter)
    within: Counter[Function | None] = field(default_factory=Counter)

    @property
    def function(self) -> Function | None:
        """The user's function that takes most of it; None if that is none."""
        return self.within.most_common(1)[0][0]


def placed(
    found: Counter[StackLook],
    phases: Sequence[str],
    changing: Collection[int] = (),
    ahead: Counter[StackLook] | None = None,
) -> list[Place]:
    """Return the places of the looks that were `found`, as `Places.stop` does.

    `changing` are functions that ran while weights changed, in a program without an optimizer of PyTorch's,
    each as in `StackLook.calls`. `ahead` is the part of the time in which the device was still at earlier work.
    """
    updates = _of_updates(found, phases, changing)
    whole, trains = found.total() or 1, _functions_that_train(found, phases)
    calling = _calls_what_trains(found, phases, whole)
    found, ahead = (_with_callers(looks, phases, calling) for looks in (found, ahead or Counter()))
    spent = _spent_at_places(found, ahead, phases, updates, trains)
    together = Counter[tuple[str, Function | None]]()  # each line counts for one function, whoever calls it as well
    for at, one in spent.items():
        together[at.phase, one.function] += one.whole
    number, kept = Counter[str](), []
    for at, one in sorted(spent.items(), key=lambda item: -item[1].whole):
        number[at.phase] += 1
        if number[at.phase] > KEPT:
            continue
        package = _most(one.inside) if at.where.removesuffix(AT_WORKER) in calling else ""
        place = Place(**at._asdict(), share=one.whole / whole, inside=package)
        if (function := one.function) is not None:
            place = replace(place, within=str(function), together=together[at.phase, function] / whole)
        kept.append(place)
    return kept


def _spent_at_places(
    found: Counter[StackLook],
    ahead: Counter[StackLook],
    phases: Sequence[str],
    updates: Collection[int],
    trains: Collection[Function],
) -> dict[_At, _Spent]:
    """Return the time at each place. `updates` are functions that change weights, and `trains` those that train."""
    spent = defaultdict[_At, _Spent](_Spent)
    for seen, time_there in found.items():
        phase = _phase(phases, seen.mark)
        if phase == "other" and not set(seen.calls).isdisjoint(updates):
            phase = "optimizer"
        hook = seen.hook if phase == "optimizer" else None
        if phase not in TRAINS or hook is not None:
            time_there -= ahead[seen]
        if not time_there:
            continue
        function = hook or next((f for f in seen.functions if f not in trains), None)
        if _makes_the_loss(phases, seen.mark):
            function = None
        at = spent[_At(phase, seen.where, seen.own, hook is not None)]
        at.whole += time_there
        at.inside[seen.inside] += time_there
        at.within[function] += time_there
    return spent


def _of_updates(found: Counter[StackLook], phases: Sequence[str], changing: Collection[int]) -> set[int]:
    """Return the functions that change weights and do nothing else: weights changed in them, in no other phase."""
    elsewhere = {code for seen in found if _phase(phases, seen.mark) != "other" for code in seen.calls}
    return set(changing) - elsewhere


def _phase(phases: Sequence[str], mark: int) -> str:
    return phases[mark] if mark < len(phases) else "other"


def _makes_the_loss(phases: Sequence[str], mark: int) -> bool:
    """Return whether a time between the phases follows a forward pass, or comes before a backward pass.

    The loss is made there, which is training.
    """
    if _phase(phases, mark) != "other":
        return False
    before = (phases[at] for at in range(min(mark, len(phases)) - 1, -1, -1))
    after = (phases[at] for at in range(mark + 1, len(phases)))
    last, following = (next((phase for phase in some if phase != "other"), "") for some in (before, after))
    return last == "forward" or following == "backward"


def _functions_that_train(found: Counter[StackLook], phases: Sequence[str]) -> set[Function]:
    """Return the user's functions that call a pass or an optimizer, or run within one."""
    taken = Counter[Function]()
    whole = 0
    for seen, time_there in found.items():
        if _phase(phases, seen.mark) in TRAINS:
            whole += time_there
            taken.update(dict.fromkeys(seen.functions, time_there))
    return {function for function, time_there in taken.items() if time_there >= SOME * whole}


def _calls_what_trains(found: Counter[StackLook], phases: Sequence[str], whole: int) -> set[str]:
    """Return the lines that several phases stand at: what they call trains by itself, `trainer.fit(model)` say."""
    told = Counter[tuple[str, str]]()
    for seen, time_there in found.items():
        if seen.own and (phase := _phase(phases, seen.mark)) in TRAINING_PHASES:
            told[seen.where.removesuffix(AT_WORKER), phase] += time_there
    phases_at = Counter(where for (where, _), time_there in told.items() if time_there >= SOME * whole)
    return {where for where, number in phases_at.items() if number > 1}


def _with_callers(found: Counter[StackLook], phases: Sequence[str], calling: Collection[str]) -> Counter[StackLook]:
    """Return the looks, with the line that runs a model without training it in place of the lines within the model.

    Training runs those, too. A line of `calling`, which trains by itself, says no more than they do.
    """
    told = Counter[StackLook]()
    for seen, time_there in found.items():
        runs = seen.caller and seen.caller not in calling and _phase(phases, seen.mark) == "evaluate"
        told[seen._replace(where=seen.caller) if runs else seen] += time_there
    return told


def _most(functions: Counter[str]) -> str:
    """Return the function that took most of the time; empty if none stands out."""
    name, time_there = functions.most_common(1)[0]
    return name if time_there >= MOST * functions.total() else ""
