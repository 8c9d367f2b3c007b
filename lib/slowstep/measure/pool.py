"""The pool of trials: those that live, what is known of those that ended, and their logs."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from slowstep.environment.machine import this_machine
from slowstep.factors import Arm
from slowstep.launch.frozen_bases import FrozenBases, base_of
from slowstep.launch.of_command import warmed
from slowstep.launch.started_trial import memory_limit
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.own_epochs import OwnEpochs
from slowstep.measure.warm_up import warmed_up
from slowstep.processes import signals
from slowstep.records import Steps, TrialRecord
from slowstep.settings import Settings
from slowstep.settings.schema import Budget
from slowstep_probe.processes.scratch import folder_prefix, remove_abandoned_folders
from slowstep_probe.trial.messages import Failed

SHARED_FACT = "frozen_bytes_shared"
"""The name by which a trial tells how much of its frozen weights it maps: of those where it trains, host or device."""

HEADROOM = 0.9
"""The share of the memory that resident trials may fill."""


class TrialPool:
    """Launches trials, keeps them while they are needed, and remembers the steps and the times of each arm's launches.

    Arms are known by a key: the identity of what they train. The caller ends a trial that failed when it was asked.
    """

    def __init__(self, budget: Budget, logs: Path):
        self.budget, self.logs = budget, logs
        self.live: dict[str, LiveTrial] = {}
        self.first: dict[str, TrialRecord] = {}
        """The record of each arm's first launch. Later launches find what it compiled."""
        self.log_of: dict[str, Path] = {}
        """The log of each arm's last launch."""
        self.launches = 0
        self.latest = math.inf
        """The time, by `time.monotonic()`, after which no trial is waited for; whoever asks meets NoTimeLeft."""
        self.own_epochs = OwnEpochs()
        self._caches = tempfile.TemporaryDirectory(prefix=folder_prefix("caches"), ignore_cleanup_errors=True)
        self.shared = Path(self._caches.name)
        """The folder of what trials find out or build once for all of them."""
        self._bases = FrozenBases(self.shared, logs)
        self._started: dict[str, TrialProcess] = {}
        """Trials that are ready to train, but not warm yet."""
        self._refused: dict[str, TrialEnded] = {}
        """How trials failed that were started beside others."""
        self._pace: dict[str, float] = {}
        """Seconds a step of each arm's last launch, when it was warm."""
        self._steps_of_ended: dict[str, list[Steps]] = {}
        """Steady steps of launches that have ended, which no record holds yet."""
        self._seconds_of_ended: dict[str, Counter[str]] = {}
        """Seconds by part of each arm's launches that have ended."""
        self._host_peaks: dict[str, int] = {}
        """The most host memory, in bytes, that a launch of each arm ever held."""
        self._trained_by_ended = 0
        """Optimizer steps of the trials that have ended."""
        remove_abandoned_folders()
        signals.watch(self, self.close)

    def close(self) -> None:
        """End every trial."""
        self.keep_only(set())
        self._bases.keep_only(set())
        self._caches.cleanup()
        signals.unwatch(self)

    def launch(self, arm: Arm, key: str, alone: bool = False) -> LiveTrial:
        """Return the live trial of `key`, or a new one of `arm` once it is warm; TrialEnded if it fails.

        For a trial that is to live `alone`, since it needs the whole device, no base is held there.
        """
        if key in self.live and not self.live[key].process.unanswered:
            return self.live[key]
        if key in self._refused:
            raise self._refused.pop(key)
        try:
            if key in self._started:
                return self._warmed_up(self._started.pop(key), key)
            self.end(key)
            self._keep_bases(() if alone else [arm])
            return self._warmed_up(self._process(arm, key, alone), key)
        except TrialEnded as ended:
            if not ended.failed.may_fit_alone or not self._make_room():
                raise
        return self._warmed_up(self._process(arm, key, alone=alone or not self.live), key)

    def let_epochs_end(self, failed: Failed) -> None:
        """End all trials, forget their steps, and have the epochs of those to come end, since one `failed` so."""
        self.own_epochs.need(failed)
        self.keep_only(set())
        self._steps_of_ended.clear()
        self._pace.clear()

    def _make_room(self) -> bool:
        """End what does not measure yet, and what holds a base that no trial maps; return whether there was any."""
        started = list(self._started)
        for key in started:
            self.end(key)
        let_go = not self.live and self._bases.keep_only(set())
        return let_go or bool(started)

    def start(self, arms: Mapping[str, Arm]) -> None:
        """Start trials of several arms, by key, at the same time, and wait until each is ready to train.

        `launch` then returns each of them, warm, or raises how it failed. A trial that lacked memory beside the others
        is launched there by itself. NoTimeLeft if nothing is waited for any longer.
        """
        arms = {key: arm for key, arm in arms.items() if key not in {*self.live, *self._started, *self._refused}}
        self._keep_bases(list(arms.values()))
        for arm in arms.values():
            warmed(arm.settings)  # those that have interpreters of their own import at the same time as well
        try:
            for key, arm in arms.items():
                with self._keeping_refusal(key):
                    self._started[key] = self._process(arm, key)
            for key in arms:
                with self._keeping_refusal(key):
                    if key in self._started:
                        self._started[key].ready()
        except BaseException:
            for key in arms:
                self.end(key)
            raise

    def start_first(self, arms: Mapping[str, Arm]) -> None:
        """Start the first of these arms at the same time: as many as cores and memory allow, if they are several.

        No trial lives when this is called. While trials are built, they hold as much as in their earlier launches.
        """
        most = max(self._host_peaks.values(), default=math.inf)
        peaks = [self._host_peaks.get(key, most) for key in arms]
        number = self._most_at_once([arm.settings for arm in arms.values()], lambda n: self._fits(0, sum(peaks[:n])))
        if number > 1:
            self.start(dict(list(arms.items())[:number]))

    @contextlib.contextmanager
    def _keeping_refusal(self, key: str) -> Iterator[None]:
        """Keep how a trial failed that was started beside others, unless they may be the reason."""
        try:
            yield
        except TrialEnded as ended:
            self._started.pop(key, None)
            if not ended.failed.may_fit_alone:
                self._refused[key] = ended

    def _keep_bases(self, arms: Collection[Arm]) -> None:
        """Keep the frozen bases that live trials map, those that are started, too, and `arms` that are to come."""
        self._bases.keep_only({base_of(arm.settings) for arm in (*(process.arm for process in self._processes), *arms)})

    @property
    def _processes(self) -> list[TrialProcess]:
        """The processes of the trials that live, and of those that are started."""
        return [*(trial.process for trial in self.live.values()), *self._started.values()]

    def _process(self, arm: Arm, key: str, alone: bool = False) -> TrialProcess:
        """Return a trial that is about to begin; TrialEnded if it can't."""
        self.launches += 1
        log = self.logs / f"{key}-{os.getpid()}-{self.launches}.log"
        self.log_of[key] = log
        limit = memory_limit(self.budget)
        base = self._bases.of(arm.settings, self.budget.startup_timeout_seconds, limit, alone)
        cache = self.shared / key
        return TrialProcess(self.own_epochs.of(arm), log, self.budget, cache, base, latest=lambda: self.latest)

    def _warmed_up(self, process: TrialProcess, key: str) -> LiveTrial:
        """Return the live trial of a process, warm; TrialEnded if it fails."""
        try:
            trial = warmed_up(process, self._pace.get(key, 0.0))
        except BaseException:
            process.end()
            raise
        self.live[key], self._pace[key] = trial, trial.step_seconds
        return trial

    def is_started(self, key: str) -> bool:
        """Return whether the trial of `key` was started beside others, and not launched since."""
        return key in self._started or key in self._refused

    def at_once(self, to_come: Sequence[Settings]) -> int:
        """Return how many of the first of these may be started at the same time: each of their ranks needs a core."""
        ranks = [max(1, one.ranks) for one in to_come]
        if any(one.command and one.command.nodes for one in to_come):
            return min(1, len(to_come))
        return max(min(1, len(to_come)), sum(total <= this_machine().cores for total in itertools.accumulate(ranks)))

    def room_for(self, to_come: Sequence[Settings]) -> int:
        """Return how many of the first of these may be started at the same time beside the trials that live.

        While a trial is built, it is taken to hold as much memory as any that lives ever held.
        """
        return self._most_at_once(
            to_come, lambda number: self.has_room(*to_come[:number]) and (number == 1 or self._room_to_build(number))
        )

    def _most_at_once(self, to_come: Sequence[Settings], fits: Callable[[int], bool]) -> int:
        """Return how many of the first of these may be started at the same time and fit into memory; 0 if none does."""
        return next(filter(fits, range(self.at_once(to_come), 0, -1)), 0)

    def _room_to_build(self, number: int) -> bool:
        most = max(trial.process.host_peak() for trial in self.live.values())
        return self._fits(sum(self._at_most()), number * most)

    def has_room(self, *to_come: Settings) -> bool:
        """Return whether the trials that live leave room for those to come, in the memory of host and device.

        A trial to come counts as much as those that live do on the mean. A frozen base that all map counts once.
        """
        trials = list(self.live.values())
        on_device = [t.record.memory for t in trials if t.record.memory.reserved is not None]
        reserved = sum(memory.reserved for memory in on_device) * (1 + len(to_come) / len(trials))
        once = self._held_once(to_come) * (len(trials) + len(to_come) - 1)
        if on_device and reserved - once > HEADROOM * on_device[0].limit:
            return False
        at_most = self._at_most()
        if self._fits(sum(at_most), len(to_come) * fmean(at_most)):  # else it is worth a look that takes long
            return True
        held = sum(t.process.host_memory() for t in trials)
        return self._fits(held, sum(t.process.memory_beside(one) for one in to_come for t in trials) / len(trials))

    def _at_most(self) -> list[int]:
        """Return the bytes of host memory of each live trial, with all that it shares with others."""
        return [trial.process.host_memory_at_most() for trial in self.live.values()]

    def _fits(self, held: float, more: float) -> bool:
        """Return whether there is room on the host for so many bytes more beside those that are held."""
        limit = memory_limit(self.budget)
        # a limit that was set is for all that is resident; what is available now comes on top of what is held
        room = limit if self.budget.memory_limit_gib is not None else limit + held
        return held + more <= HEADROOM * room

    def _held_once(self, to_come: Sequence[Settings]) -> int:
        """Return the bytes of a frozen base on the device that all trials map, those to come, too; else 0."""
        trials = list(self.live.values())
        every = {base_of(one) for one in (*(trial.process.arm.settings for trial in trials), *to_come)}
        if len(every) != 1 or None in every:
            return 0
        return min((trial.record.observed.get(SHARED_FACT) or 0 for trial in trials), default=0)

    def end(self, key: str) -> None:
        """End the trial of `key`, if there is one, and keep its steps and its times."""
        self._refused.pop(key, None)
        if key in self._started:
            self._started.pop(key).end()
        if key not in self.live:
            return
        self._seconds_of_ended[key] = self._wall(key)
        trial = self.live.pop(key)
        self._trained_by_ended += trial.trained
        self._host_peaks[key] = max(self._host_peaks.get(key, 0), trial.record.memory.host or 0)
        self._steps_of_ended.setdefault(key, []).append(trial.take_steps())
        trial.process.end()  # harmless where it ended by itself

    @property
    def guards(self) -> list[int]:
        """The guards' processes, from which all descends that the live trials started, and what holds their bases."""
        return [*(process.guard for process in self._processes), *self._bases.guards]

    def keep_only(self, keys: set[str]) -> None:
        """End every trial but those of `keys`."""
        for key in {*self.live, *self._started, *self._refused} - keys:
            self.end(key)

    def wall(self, key: str) -> dict[str, float]:
        """Return the seconds by part of all launches of an arm so far."""
        return dict(self._wall(key))

    def take_steps(self, key: str) -> list[Steps]:
        """Return the steady steps of an arm since they were last taken, one `Steps` for each launch."""
        taken = self._steps_of_ended.pop(key, [])
        if key in self.live:
            taken = [*taken, self.live[key].take_steps()]
        return [steps for steps in taken if len(steps)]

    @property
    def steps(self) -> int:
        """Optimizer steps trained so far by all trials, warm-up and discarded steps included."""
        return self._trained_by_ended + sum(trial.trained for trial in self.live.values())

    def _wall(self, key: str) -> Counter[str]:
        lived = Counter(self._seconds_of_ended.get(key))
        if key in self.live:
            lived.update(self.live[key].wall)
        return lived
